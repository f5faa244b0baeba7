# SPDX-License-Identifier: GPL-2.0-or-later
"""The real gdb on our kernel and on a distribution's.

With it kpfs.gdb.past, and kpfs.backends.linux.debugged of a command inside.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time
from contextlib import closing, contextmanager

import pytest

from kpfs.gdb.sockets import sockets
from tests import harness
from tests.unit.gdb.fakes import Gdb

pytestmark = [
    pytest.mark.fuse,
    pytest.mark.skipif(shutil.which("gdb") is None, reason="there is no gdb"),
]
KERNELS = [
    pytest.param((), id="guest"),
    pytest.param(("--kernel", harness.KERNEL), marks=pytest.mark.kernel, id="linux"),
]
OTHERS = harness.on_each((harness.ARM64, harness.RISCV64, harness.S390X, harness.PPC64))
# where stacks of programs end, and those of threads
ENTRIES = {
    harness.ARM64: ("el0t_64_sync", "ret_from_fork"),
    harness.RISCV64: ("handle_exception", "ret_from_fork"),
    harness.S390X: ("system_call", "ret_from_fork"),
    harness.PPC64: ("system_call_common", "start_kernel_thread"),
}
SECONDS = 60
_THREADS = "gdb.selected_inferior().threads()"
_KTHREADD = f"py [t.switch() for t in {_THREADS} if 'kthreadd/2' in t.name]"
# of gdb, which may fail when its connection ends, and would leave a core here
BATCH = "-nx", "-batch", "-iex", "maint set internal-error corefile no"


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    """The folder of the sockets."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / f"kpfs-{os.getuid()}"


@pytest.fixture(params=KERNELS)
def m(request, kpfs, runtime):
    return kpfs.mount("--gdb", "--quiet-guest", *request.param)


# steps from where the kernel has stopped, and the same steps once more
LOOK = "info registers", "x/64xb $sp", "x/8i $pc"
THERE_AND_BACK = (
    *("stepi 7", "echo <one>\\n", *LOOK, "echo <back>\\n", "reverse-stepi 5"),
    *("print $pc", "set var $sp = 1", "monitor reboot", "stepi 5"),
    *("echo <two>\\n", *LOOK, "echo <on>\\n"),
)


def went_there_and_back(said):
    """Return what gdb said in the past, and behind it; all else must be the same."""
    _, one, back, two, on = re.split("<(?:one|back|two|on)>\n", said)
    assert one
    assert one == two
    assert "Could not write register" in said
    return back, on


def words_of(m, *lines):
    """Return the words that give gdb commands, on the kernel of a mount."""
    words = [word for line in ("set width 0", *lines) for word in ("-ex", line)]
    return "gdb", *([m] if m else []), "--", *BATCH, *words


def gdb(kpfs, m, *lines):
    """Return what gdb says to these commands."""
    done = kpfs(*words_of(m, *lines), timeout=SECONDS)
    return done.stdout + done.stderr


@contextmanager
def standing(kpfs, m, *lines):
    """Have a kernel stand for gdb, which is killed at the end."""
    lines = *lines, "shell echo it stands; exec sleep 60"
    with kpfs.started(*words_of(m, *lines)) as process:
        for line in process.stdout:
            if b"it stands" in line:
                break
        yield
        process.kill()


def await_socket(runtime):
    """Return the path at which the only kernel listens, once it does."""
    harness.until(lambda: runtime.exists() and sockets(str(runtime)), "no socket")
    return sockets(str(runtime))[0].path


class Reader(threading.Thread):
    """Reads a file of the mount again and again."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self._path, self.ends = path, threading.Event()

    def run(self):
        while not self.ends.wait(0.02):
            try:
                self._path.read_bytes()
            except BlockingIOError:  # gdb has stopped the kernel
                continue

    def __enter__(self):
        self.start()

    def __exit__(self, *_):
        self.ends.set()
        self.join(SECONDS)


def test_the_kernel_is_stopped_and_looked_into(kpfs, m):
    """Break, look at registers and stack, step, finish, list threads, detach."""
    with Reader(m / "tracing" / "trace_clock"):
        said = gdb(
            kpfs,
            m,
            "break vfs_read",
            "continue",
            "info registers rip gs_base cr3",
            "backtrace 2",
            "stepi",
            "info threads",
            "delete",
            "finish",
            "kill",
        )
    assert re.search(r'"CPU \d: .*hit Breakpoint 1, .*vfs_read', said)
    assert re.search(r"rip +0x\w+ +0x\w+ <vfs_read(\+4)?>", said)
    assert re.search(r"gs_base +0xffff\w+ ", said)
    assert re.search(r"#1 .*ksys_r(w|ead)", said)
    assert re.search(r'"init/1" \(sleeping\)|init/1" \(running\)', said)
    assert re.search(r"Run till exit|ksys_r(w|ead)", said)
    assert "Can't kill process" in said
    assert (m / "tracing" / "trace_clock").read_text()


def test_a_condition_is_evaluated_where_the_kernel_stands(kpfs, m):
    with Reader(m / "tracing" / "trace_clock"):
        said = gdb(
            kpfs,
            m,
            "break vfs_read if $rdx == 12345",
            "break vfs_open if $rdi != 0 && *(long *)$rdi != 0",
            "continue",
            "show breakpoint condition-evaluation",
        )
    assert "currently target" in said
    assert re.search(r"hit Breakpoint 2, .*vfs_open", said)


def test_a_watchpoint_stops_behind_the_write(kpfs, m):
    jiffies = "*(unsigned long *)&jiffies"
    with Reader(m / "tracing" / "trace_clock"):
        said = gdb(kpfs, m, f"watch {jiffies}", "continue", "backtrace 1")
    found = re.search(r"Old value = (\d+)\s+New value = (\d+)", said)
    assert found
    assert int(found[2]) > int(found[1])


def first_move(m):
    """Return the address of a move between registers in vfs_read()."""
    text = (m / "machine" / "text" / "vfs_read").read_text().splitlines()
    rows = (row for row in text[1:] if " mov " in row and "[" not in row)
    return int(next(rows).split()[0], 16)


def probe(m, name, place):
    """Set a probe event and turn it on."""
    kprobes = m / "tracing" / "events" / "kprobes"
    command = f"echo 'p:{name} {place}' >> {m}/tracing/kprobe_events"
    subprocess.run(["sh", "-c", command], check=True)
    (kprobes / name / "enable").write_text("1")


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_breakpoint_on_the_byte_of_a_probe(kpfs, runtime, kernel):
    """The probes count the hits at which gdb stops, by a call and by a jump."""
    m = kpfs.mount("--gdb", *kernel)  # time passes, as a jump wants it
    place, reader = first_move(m), Reader(m / "tracing" / "trace_clock")
    probe(m, "call", "vfs_read")
    probe(m, "jump", hex(place))
    text, jump = m / "machine" / "text" / "vfs_read", rf"{place:x} .* jmp "
    with reader:
        harness.until(lambda: re.search(jump, text.read_text()), "no jump")
        lines = "break *vfs_read", f"break *{place:#x}", *["continue"] * 4
        said = gdb(kpfs, m, *lines, f"x/i {place:#x}", "detach")
    assert said.count("hit Breakpoint") == 4
    assert "hit Breakpoint 2" in said
    assert re.search(rf" {place:#x} .*:\s+jmp ", said)
    for row in (m / "tracing" / "kprobe_profile").read_text().splitlines():
        _, hits, missed = row.split()
        assert int(hits) >= 1
        assert missed == "0"


def test_breakpoints_outlast_a_reboot(kpfs, m):
    """The new kernel makes the calls of files, too."""

    def has_rebooted():
        try:
            return (m / "machine" / "reboot").write_text("1")
        except BlockingIOError:  # it still stands
            return 0

    def reboot():
        if begun.wait(SECONDS):
            harness.until(has_rebooted, "gdb does not let it go on")
            with Reader(m / "tracing" / "trace_clock"):
                ended.wait(SECONDS)

    begun, ended = threading.Event(), threading.Event()
    other = threading.Thread(target=reboot)
    other.start()
    words = words_of(m, "break vfs_open", "shell echo it stands", "continue")
    with kpfs.started(*words) as process:
        for line in process.stdout:
            if b"it stands" in line:
                begun.set()
            if b"hit Breakpoint 1" in line:
                ended.set()
    assert ended.is_set()
    other.join(SECONDS)


def at_rest(client, command):
    """Give a command of monitor for which nothing may be under way."""

    def given():
        client.send(b"c")
        time.sleep(0.1)
        client.interrupt()
        return "something runs" not in client.monitor(command)

    harness.until(given, "it is never at rest")


def test_a_snapshot_is_rebooted_into(kpfs, m, runtime):
    """Probes and trace are as then; what was open is of a kernel that is gone."""
    events, place = m / "tracing" / "kprobe_events", m / "tracing" / "trace_clock"
    enabled = m / "tracing" / "events" / "kprobes" / "one" / "enable"
    events.write_text("p:one vfs_open\n")
    enabled.write_text("1")
    symbols = (m / "kallsyms").read_text().splitlines()
    (address,) = (row.split()[0] for row in symbols if row.endswith(" T vfs_open"))
    with place.open() as early, closing(Gdb(await_socket(runtime))) as client:
        client.begin()
        assert client.monitor("snapshot") == "it is kept\n"
        client.send(b"c")
        for _ in range(2):  # it can be gone back to again
            then = events.read_text()
            subprocess.run(["sh", "-c", f"echo p:other vfs_write >> {events}"])
            assert (m / "tracing" / "events" / "kprobes" / "other").exists()
            with place.open() as late:
                client.interrupt()
                assert client.monitor("restore") == "the kernel is what it was then\n"
                client.send(b"c")
                for opened in (early, late):
                    with pytest.raises(OSError, match="transport endpoint shutdown"):
                        os.pread(opened.fileno(), 100, 0)
            assert events.read_text() == then
            assert enabled.read_text() == "1\n"
            assert not (m / "tracing" / "events" / "kprobes" / "other").exists()
        client.interrupt()
        assert client.ask(b"Z0,%s,1" % address.encode()) == b"OK"
        assert client.monitor("restore") == "the kernel is what it was then\n"
        client.send(b"c")
        with Reader(place):
            assert client.receive().startswith(b"T05")
            client.close()


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_command_goes_on_in_a_kernel_that_was_restored(kpfs, runtime, kernel):
    script = "cat /etc/hostname; read a; cat /etc/hostname; (echo b)"
    words = "--gdb", "--quiet-guest", *kernel, "--", "sh", "-c", script
    with kpfs.started("run", *words, stdin=subprocess.PIPE) as process:
        name = process.stdout.readline()
        with closing(Gdb(await_socket(runtime))) as client:
            client.begin()
            at_rest(client, "snapshot")
            at_rest(client, "restore")
        output, _ = process.communicate(b"a\n", timeout=SECONDS)
    assert output == name + b"b\n"


def test_modules_have_symbols(kpfs, runtime):
    m = kpfs.mount("--gdb", "--quiet-guest")
    module = harness.ROOT / "guest/image/modules/kprobe_example.ko"
    (m / "machine" / "insmod").write_text(f"{module}\n")
    said = gdb(kpfs, m, "info symbol before", "monitor probes", "monitor reboot")
    assert "kprobe_example: symbols of target:/modules/kprobe_example.ko" in said
    assert re.search(r"before in section .text of .*kprobe_example.ko", said)
    assert re.search(r"do_sys_openat2\+0x0 +kprobe_example", said)
    assert "it has started anew" in said
    assert not (m / "modules").read_text()


@pytest.mark.kernel
def test_stacks_of_a_linux_kernel_reach_where_they_begin(kpfs, runtime):
    """Neither modules, sleeping tasks nor missing debug information cut them."""

    def is_removed():
        try:
            return (m / "machine" / "rmmod").write_text("dummy")
        except BlockingIOError:  # it still stands
            return 0

    def remove():
        begun.wait(SECONDS)
        harness.until(is_removed, "gdb does not let it go on")

    begun = threading.Event()
    m = kpfs.mount("--gdb", "--quiet-guest", "--kernel", harness.KERNEL)
    (m / "machine" / "insmod").write_text("dummy")
    other = threading.Thread(target=remove)
    other.start()
    lines = "break dummy_cleanup_module", "shell echo it stands", "continue", "bt"
    said = ""
    with kpfs.started(*words_of(m, *lines, _KTHREADD, "bt")) as process:
        for line in process.stdout:
            said += line.decode()
            if "it stands" in said:
                begun.set()
    other.join(SECONDS)
    assert "dummy: symbols of target:/modules/dummy.ko" in said
    where = [line.split(" in ")[1] for line in re.findall(r"^#\d.* in .*", said, re.M)]
    called = [line.split()[0] for line in where]
    assert called[1:4] == [
        "__do_sys_delete_module",
        "do_syscall_64",
        "entry_SYSCALL_64_after_hwframe",
    ]
    assert called[5:7] == ["schedule", "kthreadd"]


@pytest.mark.kernel
def test_a_stack_leads_through_what_ftrace_has_copied_for_a_probe(kpfs, runtime):
    m = kpfs.mount("--gdb", "--quiet-guest", "--kernel", harness.KERNEL)
    (m / "tracing" / "kprobe_events").write_text("p:e vfs_read\n")
    (m / "tracing" / "events" / "kprobes" / "e" / "enable").write_text("1")
    with Reader(m / "tracing" / "trace_clock"):
        said = gdb(kpfs, m, "break kprobe_dispatcher", "continue", "bt")
    called = re.findall(r"^#\d+ .* in (\w+)", said, re.M)
    copied = called.index("ftrace_trampoline")
    assert called[copied - 1 : copied + 3 : 2] == ["kprobe_ftrace_handler", "vfs_read"]
    assert called[copied + 2] in ("ksys_read", "kernel_read")
    assert called[-1] == "entry_SYSCALL_64_after_hwframe"


@pytest.mark.kernel
def test_modules_of_a_linux_kernel_are_where_they_lie(kpfs, runtime, tmp_path):
    m = kpfs.mount("--gdb", "--kernel", harness.KERNEL)
    (m / "machine" / "insmod").write_text("dummy")
    said = gdb(kpfs, m, "monitor modules", "info symbol dummy_setup")
    assert "dummy_setup in section .text of target:/modules/dummy.ko" in said
    found = re.search(r"^dummy target:/modules/dummy.ko .* \.text=(0x\w+)", said, re.M)
    assert found
    assert found[1] in (m / "proc" / "modules").read_text()


def test_the_kernel_goes_on_when_gdb_is_killed(kpfs, m):
    with Reader(m / "tracing" / "trace_clock"):
        with standing(kpfs, m, "break vfs_read", "continue"):
            pass
    assert (m / "tracing" / "trace_clock").read_text()


def test_files_are_refused_while_the_kernel_stands_and_the_mount_ends(kpfs, m):
    with standing(kpfs, m):
        with pytest.raises(BlockingIOError):
            (m / "tracing" / "trace_clock").read_text()
        done = kpfs("umount", m, timeout=SECONDS)
        assert (done.returncode, done.stderr) == (0, "")
    assert not harness.is_mounted(m)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_command_waits_for_gdb(kpfs, runtime, kernel):
    """The first call of the command is seen, with the name of the file."""
    command = ("cat", "/etc/hostname")
    words = "--gdb-wait", "--quiet-guest", *kernel, "--", *command
    with kpfs.started("run", *words) as process:
        await_socket(runtime)
        place = "do_sys_openat2"
        said = gdb(kpfs, "", f"break {place}", "continue", "p $rdi == 0xffffff9c")
        output, _ = process.communicate(timeout=SECONDS)
    assert re.search(r'"CPU \d: \w+/\d+" hit Breakpoint 1', said)
    with open("/etc/hostname", "rb") as file:
        assert output == file.read()
    assert not sockets(str(runtime))


def test_ctrl_c_ends_a_command_whose_kernel_stands(kpfs, runtime):
    with kpfs.started("run", "--gdb-wait", "--", "sleep", "60") as process:
        await_socket(runtime)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 128 + signal.SIGINT
    assert not sockets(str(runtime))


@pytest.mark.parametrize("kernel", KERNELS)
def test_ctrl_c_ends_a_command_at_a_breakpoint(kpfs, runtime, kernel):
    words = "run", "--gdb-wait", "--quiet-guest", *kernel, "--", "cat", "/etc/hostname"
    with kpfs.started(*words, start_new_session=True) as process:
        await_socket(runtime)
        with standing(kpfs, None, "break vfs_open", "continue"):
            os.killpg(process.pid, signal.SIGINT)
            assert process.wait(SECONDS) == 128 + signal.SIGINT


def test_a_port_serves_too(kpfs, runtime):
    m = kpfs.mount("--gdb-at", f"{runtime.parent}/other")
    words = *BATCH, "-ex", f"target remote {runtime.parent}/other"
    said = subprocess.run(
        ["gdb", *words, "-ex", "info threads"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert "CPU 1: idle" in said.stdout
    assert (m / "tracing" / "trace_clock").read_text()


def test_wrong_use_is_told(kpfs, runtime, tmp_path):
    mounted = kpfs.mount()
    for words, why in (
        (("gdb",), "no kernel listens for it"),
        (("gdb", mounted), "mounted without --gdb"),
        (("gdb", tmp_path), "no mount of kpfs"),
        (("mount", "--gdb-at", "1.2.3.4:5", tmp_path / "d"), "127.0.0.1:PORT"),
        (("mount", "--gdb-at", "99999", tmp_path / "d"), "127.0.0.1:PORT"),
        (("run", "--gdb-at", "99999", "--", "touch", tmp_path / "ran"), "PORT"),
    ):
        (tmp_path / "d").mkdir(exist_ok=True)
        done = kpfs(*words)
        assert done.returncode == 2
        assert why in done.stderr
        assert done.stderr.count("\n") == 1
    assert not (tmp_path / "ran").exists()


INSIDE = "--kernel", harness.KERNEL, "--inside"


@pytest.mark.parametrize(
    "words", [*KERNELS, pytest.param(INSIDE, marks=pytest.mark.kernel, id="inside")]
)
def test_a_command_leaves_no_socket(kpfs, runtime, words):
    at = runtime.parent / "at"
    assert kpfs("run", "--gdb-at", at, *words, "--", "true").returncode == 0
    assert not at.exists()


def test_going_back_and_on_again_changes_nothing(kpfs, m):
    """The same registers and memory, and where history ends it says so."""
    ends = "stepi", "reverse-continue", "monitor history", "continue", "delete"
    with Reader(m / "tracing" / "trace_clock"):
        lines = "break vfs_read", "continue", *THERE_AND_BACK, *ends, "detach"
        said = gdb(kpfs, m, *lines)
    back, on = went_there_and_back(said)
    assert back
    assert "not in the past" in said
    assert "hit Breakpoint 1" in on or "No more reverse-execution history" in said
    assert re.search(r"\d+ sections? of what the kernel has run", said)
    assert (m / "tracing" / "trace_clock").read_text()


@pytest.mark.skipif(shutil.which("gdb-multiarch") is None, reason="no gdb-multiarch")
@pytest.mark.parametrize("kernel", OTHERS)
def test_kernels_of_other_architectures(kpfs, runtime, kernel):
    """All that gdb does with them, and whole stacks as of a task that sleeps."""
    # callers nearby enter a function of ppc64 by its second entry
    place = "vfs_read+8" if kernel == harness.PPC64 else "vfs_read"
    m = kpfs.mount("--gdb", "--quiet-guest", "--kernel", kernel)
    with Reader(m / "tracing" / "trace_clock"):
        said = gdb(
            kpfs,
            m,
            *(f"break *{place}", "continue", *THERE_AND_BACK, "backtrace", "delete"),
            *("finish", "print $pc", "watch *(unsigned long *)&jiffies", "continue"),
            *(_KTHREADD, "backtrace"),
        )
    assert "PC not saved" not in said
    back, on = went_there_and_back(said)
    assert re.search(r"\$1 = .*<vfs_read\+", back)
    assert re.search(r"#1 .* ksys_read .*\n#2 .*_(sys_read|syscall|exception) ", on)
    assert re.search(r"\$2 = .*<ksys_read\+", on)
    old, new = re.findall(r"(?:Old|New) value = (\d+)", on)
    assert int(new) > int(old)
    assert re.search(r"#[1-3] .* schedule .*\n#[2-4] .* kthreadd ", on)
    ends = re.findall(r"^#\d.* in (\w+) \(\)\n(?!#)", on, re.M)
    assert tuple(ends) == ENTRIES[kernel]


@pytest.mark.skipif(shutil.which("gdb-multiarch") is None, reason="no gdb-multiarch")
@pytest.mark.parametrize(
    ("kernel", "saved"),
    harness.on_each(((harness.ARMHF, "r11"), (harness.I386, "ebp"))),
)
def test_kernels_of_32_bits(kpfs, runtime, kernel, saved):
    """Steps there and back, and the registers of a task that sleeps."""
    m = kpfs.mount("--gdb", "--quiet-guest", "--kernel", kernel)
    with Reader(m / "tracing" / "trace_clock"):
        look = _KTHREADD, f"print ${saved}", "print $pc", "backtrace"
        lines = "break *vfs_read", "continue", *THERE_AND_BACK, *look
        said = gdb(kpfs, m, *lines)
    back, on = went_there_and_back(said)
    assert re.search(r"\$1 = .*<vfs_read\+", back)
    assert re.search(r"\$2 = .*\d+\n\$3 = .*<__schedule\+", on)
    stack = "__schedule", "schedule", "kthreadd", "ret_from_fork"
    assert tuple(re.findall(r"^#\d.* in (\w+) \(\)$", on, re.M)[-4:]) == stack


def test_going_back_over_a_write_brings_the_value_before_it(kpfs, m):
    with Reader(m / "tracing" / "trace_clock"):
        said = gdb(
            kpfs,
            m,
            "break *vfs_read",
            "continue",
            "delete",
            "watch *(unsigned long *)($sp - 8)",
            "continue",
            "continue",
            "reverse-continue",
            "reverse-continue",
        )
    values = re.findall(r"Old value = (\d+)\s+New value = (\d+)", said)
    assert len(values) == 4
    (first, second), (again, third), back, further = values
    assert again == second
    assert back == (third, second)
    assert further == (second, first)


def test_a_hit_is_followed_from_its_breakpoint_through_the_slot(kpfs, m):
    """A breakpoint on a probe's own is none that gdb steps over by itself."""
    place = first_move(m)
    (m / "sys" / "debug" / "kprobes-optimization").write_text("0")
    probe(m, "e", f"0x{place:x} count=%dx")
    _, row = (m / "machine" / "probes").read_text().splitlines()
    slot = int(row.split()[6], 16)
    with Reader(m / "tracing" / "trace_clock"):
        said = gdb(
            kpfs,
            m,
            f"break *0x{place:x}",
            "continue",
            "x/i $pc",
            "stepi",
            "x/i $pc",
            f"break *0x{slot:x}",
            "continue",
            "print $pc",
            "reverse-continue",
            "print $pc",
        )
    assert re.search(rf"=> 0x{place:x} .*int3", said)
    assert not re.search(rf"=> 0x{place + 1:x} ", said)
    found = [int(at, 16) for at in re.findall(r"\$\d = .* (0x\w+)", said)]
    assert found == [slot, place]


@pytest.mark.kernel
def test_a_kernel_with_a_command_inside(kpfs, runtime):
    """gdb stops it before the command begins, and the command ends as without."""
    options = "--kernel", harness.KERNEL, "--inside", "--gdb-wait"
    running = subprocess.Popen(
        [harness.KPFS, "run", *options, "--", "sh", "-c", "echo said; exit 3"],
        stdout=subprocess.PIPE,
        text=True,
    )
    await_socket(runtime)
    looks = "info threads", "monitor snapshot", "delete", "detach"
    said = gdb(kpfs, None, "break do_exit", "continue", *THERE_AND_BACK, *looks)
    output, _ = running.communicate(timeout=SECONDS)
    assert (output, running.returncode) == ("said\n", 3)
    went_there_and_back(said)
    assert "init/1" in said
    assert "snapshot: EOPNOTSUPP: the command inside uses the host's files" in said
    assert not sockets(str(runtime))


def test_gdb_is_a_process_of_the_command(kpfs):
    """Such a gdb stops the kernel in which its own system calls would be made."""
    words = "-ex 'break vfs_mkdir' -ex 'shell echo it goes on' -ex detach"
    script = f"""
        cd /sys/kernel/tracing
        echo 'p:seen vfs_read' >kprobe_events; echo 1 >events/kprobes/seen/enable
        {harness.KPFS} gdb -- {shlex.join(BATCH)} {words}
    """
    done = kpfs("run", "--gdb", "--", "sh", "-c", script, timeout=SECONDS)
    said = done.stdout + done.stderr
    assert "Breakpoint 1 at" in said
    assert "it goes on" in said
    assert "detached" in said
