# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.Kernel over a guest kernel.

This tests kpfs.api.kernel, kpfs.session.files, kpfs.session.probes,
kpfs.backends.guest.session, kpfs.backends.guest.task, kpfs.backends.guest.access,
kpfs.backends.guest.probes and kpfs.backends.guest.records.
"""

import errno
import os
import sys
import threading

import pytest

import kpfs
from tests import harness
from tests.modbox import module

pytestmark = pytest.mark.guest

OPEN = "p:o do_sys_openat2 file=+0(%si):ustring mode=%dx:u32"


@pytest.fixture
def k():
    with kpfs.Kernel() as kernel:
        yield kernel


def refused(function, *arguments, **more):
    with pytest.raises(OSError, match=r"\[Errno") as info:
        function(*arguments, **more)
    return errno.errorcode[info.value.errno or 0], str(info.value)


# ---- the package
def test_modules_that_the_package_loads():
    """Importing it costs nothing, and asking what it has neither."""
    script = "import sys, kpfs; dir(kpfs); print(*sorted(sys.modules))"
    loaded = harness.run(
        sys.executable, "-S", "-c", script, check=True, cwd=harness.ROOT
    ).stdout.split()
    assert [m for m in loaded if m.startswith("kpfs")] == ["kpfs"]
    assert not {"ctypes", "typing", "unicorn"} & set(loaded)


def test_modules_that_a_kernel_loads():
    """A kernel that loads these takes half as long again to start."""
    script = (
        "import sys; before = set(sys.modules); import kpfs; kpfs.Kernel();"
        "print(*sys.modules.keys() - before)"
    )
    loaded = harness.run(
        sys.executable, "-c", script, check=True, cwd=harness.ROOT
    ).stdout.split()
    assert "kpfs.guest.machine" in loaded
    assert not {"dataclasses", "enum", "inspect", "re", "typing"} & set(loaded)


def test_names_of_the_package():
    assert set(kpfs.__all__) <= set(dir(kpfs))
    assert all(getattr(kpfs, name).__doc__ for name in kpfs.__all__)
    with pytest.raises(AttributeError):
        _ = kpfs.kernels_of_debian


# ---- files
def test_files(k):
    k.write("tracing/kprobe_events", "p:a vfs_read\n")
    k.append("/sys/kernel/tracing/kprobe_events", b"p:b vfs_write")
    assert (
        k.read("tracing/kprobe_events")
        == "p:kprobes/a vfs_read\np:kprobes/b vfs_write\n"
    )
    assert k.listdir("tracing/events/kprobes") == ["a", "b", "enable", "filter"]
    k.write("tracing/kprobe_events", "p:c vfs_open")  # as > does, it removes the others
    assert k.listdir("tracing/events/kprobes") == ["c", "enable", "filter"]
    assert k.exists("tracing/events/kprobes/c/format")
    assert not k.exists("tracing/events/kprobes/b")
    assert not k.exists("/etc/passwd")


def test_a_long_write(k):
    lines = [f"p:e{i} vfs_read+{0}\n" for i in range(600)]
    k.write("tracing/kprobe_events", "".join(lines))
    assert len(k.read("tracing/kprobe_events").splitlines()) == 600


def test_files_that_make_one_wait_end(k):
    k.write("kmsg", "said")
    assert k.read("kmsg").endswith(";said\n")
    assert k.read("tracing/trace_pipe") == ""
    k.insmod("kprobe_example", symbol="vfs_read")  # each read() logs two lines
    k.read("version")
    assert "kprobe_example" in k.read("kmsg")
    k.write("tracing/current_tracer", "function")  # and each adds to the trace
    assert "vfs_read" in k.read("tracing/trace")
    assert "vfs_read" in k.read("tracing/trace_pipe")


def test_instances(k):
    k.mkdir("tracing/instances/other")
    k.write("tracing/instances/other/trace_marker", "here")
    assert [r["buf"] for r in k.trace("other")] == ["here\n"]
    assert list(k.trace()) == []
    k.rmdir("tracing/instances/other")
    assert k.listdir("tracing/instances") == []
    assert refused(k.trace, "other")[0] == "ENOENT"


def test_refusals(k):
    code, text = refused(k.write, "tracing/kprobe_events", "p:x vfs_read+")
    assert code == "EINVAL"
    assert text.startswith("[Errno 22] Invalid argument: ")
    assert text.endswith(": 'tracing/kprobe_events'")
    assert refused(k.read, "tracing/none") == (
        "ENOENT",
        "[Errno 2] No such file or directory: 'tracing/none'",
    )
    assert refused(k.read, "tracing")[0] == "EISDIR"
    assert refused(k.listdir, "kallsyms")[0] == "ENOTDIR"
    assert refused(k.mkdir, "tracing/dir")[0] == "EPERM"
    with pytest.raises(FileNotFoundError):
        k.symbol("no_such_symbol")


def test_configurations():
    with kpfs.Kernel(cpus=1, config={"OPTPROBES": False, "MODULES": "n"}) as k:
        assert not k.exists("sys/debug/kprobes-optimization")
        assert not k.exists("modules")
        assert k.listdir("tracing/per_cpu") == ["cpu0"]
    for wrong in ({"NO_SUCH": True}, {"MODULES": "m"}):
        with pytest.raises(ValueError, match="MODULES"):
            kpfs.Kernel(config=wrong)
    with pytest.raises(ValueError, match="17"):
        kpfs.Kernel(cpus=17)


def test_a_closed_kernel(k):
    probe = k.kprobe("vfs_read")
    k.close()
    k.close()
    for use in (lambda: k.read("kmsg"), k.dmesg, lambda: k.exists("kmsg"), k.task):
        with pytest.raises(ValueError, match="closed"):
            use()
    with probe:  # leaving it is no error
        pass


def test_two_kernels_at_once(k):
    with kpfs.Kernel() as other:
        k.write("tracing/kprobe_events", "p:a vfs_read")
        other.write("tracing/kprobe_events", "p:b vfs_write")
        assert k.listdir("tracing/events/kprobes") == ["a", "enable", "filter"]
        assert other.listdir("tracing/events/kprobes") == ["b", "enable", "filter"]
    assert k.read("kprobes/enabled") == "1\n"


# ---- tasks
def test_tasks(k):
    task = k.task(pid=4242, comm="sh")
    assert task.syscall("getpid") == 4242
    fd = task.syscall("openat", -100, "/tmp/f", os.O_RDWR | os.O_CREAT, 0o600)
    assert task.syscall("write", fd, "hello", 5) == 5
    task.syscall("lseek", fd, 0, 0)
    assert task.syscall("read", fd, task.buffer, 64) == 5
    assert k.read_memory(task.buffer, 5) == b"hello"
    assert refused(task.syscall, "close", 99) == (
        "EBADF",
        "[Errno 9] Bad file descriptor: 'close'",
    )
    assert refused(task.syscall, "no_such_call")[0] == "ENOSYS"
    assert k.task(pid=4242, comm="sh").syscall("write", fd, "!", 1) == 1
    task.exit()
    assert refused(task.syscall, "getpid")[0] == "ESRCH"
    assert k.task().pid != k.task().pid
    with pytest.raises(ValueError, match="pid"):
        k.task(pid=1)


def test_a_task_that_an_oops_killed_is_made_anew(k):
    task = k.task(comm="victim")

    def wild(regs):
        regs.di = 8

    with k.kprobe("vfs_write", wild):
        fd = task.syscall("openat", -100, "/tmp/f", os.O_RDWR | os.O_CREAT, 0o600)
        assert refused(task.syscall, "write", fd, "x", 1)[0] == "EFAULT"
    assert "BUG" in k.dmesg()
    assert task.syscall("getpid") == task.pid


# ---- the trace
def test_records(k):
    k.write("tracing/kprobe_events", OPEN + "\nr:back vfs_write $retval:s64\n")
    k.write("tracing/events/kprobes/enable", "1")
    task = k.task(pid=77, comm="worker")
    flags = os.O_RDWR | os.O_CREAT
    fd = task.syscall("openat", -100, "/tmp/f", flags, 0o600)
    task.syscall("write", fd, "abc", 3)
    k.write("tracing/tracing_on", "0")
    found = [r for r in k.trace() if r.pid == 77]
    assert [(r.group, r.event, r.comm) for r in found] == [
        ("kprobes", "o", "worker"),
        ("kprobes", "back", "worker"),
    ]
    opened, back = found
    assert opened["file"] == "/tmp/f"
    assert opened["__probe_ip"] == k.symbol("do_sys_openat2")
    assert back["arg1"] == 3
    assert opened.timestamp < back.timestamp
    text = k.read("tracing/trace")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert [str(r) for r in k.trace()] == lines


def test_records_of_other_kinds(k):
    k.write("tracing/trace_marker", "a mark")
    k.write("tracing/trace_marker_raw", b"\1\0\0\0\0\2")
    k.write("tracing/events/sched/sched_process_fork/enable", "1")
    k.task(pid=99, comm="child")
    marker, raw, fork = k.trace()
    assert (marker.event, marker["buf"]) == ("print", "a mark\n")
    assert raw["id"] == 1
    assert bytes(raw["buf"]).startswith(b"\0\2\0")  # Linux fills it up
    assert (fork.group, fork["child_pid"]) == ("sched", 99)


# ---- asking
def test_explain(k):
    assert k.explain("vfs_read").ftrace
    verdict = k.explain("vfs_read", 5)
    assert (verdict.accepted, verdict.optimized) == (True, True)
    assert k.explain("vfs_read", 6).why == "not the start of an instruction"
    assert k.explain("do_int3").errno == errno.EINVAL
    assert k.explain("nothing").errno == errno.ENOENT
    assert "accepted, [OPTIMIZED]" in str(k.explain(k.symbol("vfs_read") + 5))


def test_explain_does_not_see_what_probes_have_put_there(k):
    before = str(k.explain("vfs_read", 5))
    with k.kprobe("vfs_read", offset=5), k.kprobe("vfs_write", offset=5):
        assert str(k.explain("vfs_read", 5)) == before
        k.clock.advance(1)
        assert "jmp" in k.disassemble("vfs_read")
        assert str(k.explain("vfs_read", 5)) == before


def test_disassemble(k):
    assert k.disassemble("vfs_read").startswith("vfs_read:\n")
    assert k.disassemble("vfs_read") == k.read("machine/text/vfs_read")
    assert refused(k.disassemble, "nothing")[0] == "ENOENT"


# ---- handlers
def test_other_threads_wait_for_a_handler(k):
    """An exception of the handler goes to the thread that ran the kernel."""
    inside, go_on = threading.Event(), threading.Event()
    found: list[str] = []

    def handler(_regs):
        if inside.is_set():
            return
        inside.set()
        go_on.wait(30)
        raise LookupError("for the first")

    def other():
        inside.wait(30)
        threading.Timer(0.1, go_on.set).start()
        found.append(k.read("kprobes/enabled"))

    probe = k.kprobe("vfs_open", handler)
    thread = threading.Thread(target=other)
    thread.start()
    with pytest.raises(LookupError, match="for the first"):
        k.read("version")
    probe.disable()
    thread.join()
    assert found == ["1\n"]


# ---- modules
def test_modules(k):
    k.insmod("kprobe_example", symbol="vfs_open", offset=0)
    assert k.read("modules").startswith("kprobe_example ")
    assert "vfs_open+0x0" in k.read("kprobes/list")
    assert refused(k.insmod, "kprobe_example")[0] == "EEXIST"
    k.rmmod("kprobe_example")
    assert "kprobe_example: 0 missed" in k.dmesg()
    assert refused(k.rmmod, "kprobe_example")[0] == "ENOENT"
    code, text = refused(k.insmod, sys.executable)
    assert code == "ENOEXEC"
    assert "Invalid ELF header" in text
    with pytest.raises(FileNotFoundError):
        k.insmod("/nowhere/m.ko")


def test_a_module_that_oopses_is_refused_with_the_first_line_of_the_oops(k):
    oopses = module("oopses", 'INIT(asm volatile("ud2"); return 0;) EXIT()')
    code, text = refused(k.insmod, oopses)
    assert code == "EFAULT"
    assert "invalid opcode: 0000 [#1]" in text


# ---- time
def test_a_quiet_clock(k):
    k.write("tracing/kprobe_events", "p:e vfs_read+5")
    k.write("tracing/events/kprobes/e/enable", "1")
    assert "# breakpoint" in k.disassemble("vfs_read")
    begin = k.clock.now()
    k.clock.advance(0.5)
    assert k.clock.now() == pytest.approx(begin + 0.5)
    assert "# jump" in k.disassemble("vfs_read")
    with pytest.raises(ValueError, match="back"):
        k.clock.advance(-1)


def test_a_live_kernel():
    with kpfs.Kernel(quiet=False) as k:
        with pytest.raises(ValueError, match="quiet"):
            k.clock.advance(1)
        assert k.read("kprobes/enabled") == "1\n"


def test_the_same_operations_give_the_same_trace():
    def session():
        with kpfs.Kernel() as k:
            k.write("tracing/kprobe_events", OPEN)
            k.write("tracing/events/kprobes/enable", "1")
            k.task(comm="a").read("kmsg")
            k.clock.advance(2)
            return k.read("tracing/trace")

    assert session() == session()


# ---- names of tasks
def saved_names(k):
    lines = k.read("tracing/saved_cmdlines").splitlines()
    return dict(line.split(" ", 1) for line in lines)


@pytest.mark.parametrize("pid", [8192, 8193, 32767])
def test_a_task_that_is_traced_keeps_its_name(k, pid):
    """Idle tasks and init are traced as well; a name is found by its task's pid."""
    k.write("tracing/current_tracer", "function\n")
    k.task(pid=pid, comm="named").syscall("getppid")
    k.task(pid=4242, comm="other").syscall("getppid")
    k.write("tracing/tracing_on", "0\n")
    text = k.read("tracing/trace")
    assert f" named-{pid} " in text
    assert "<...>" not in text
    names = saved_names(k)
    assert names[str(pid)] == "named"
    assert "0" not in names  # Linux: trace_save_cmdline()


def test_daemons_do_not_take_the_names_of_the_first_processes_of_a_container():
    low = list(map(str, range(2, 40)))
    with kpfs.Kernel(quiet=False) as k:
        k.write("tracing/current_tracer", "function\n")
        for pid in low:
            k.task(pid=int(pid), comm="named").syscall("getppid")
        harness.until(
            lambda: "crond" in saved_names(k).values(), "no daemon was traced"
        )
        names = saved_names(k)
        assert [pid for pid in low if names.get(pid) != "named"] == []
