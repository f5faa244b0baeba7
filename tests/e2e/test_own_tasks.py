# SPDX-License-Identifier: GPL-2.0-or-later
"""Probes and tracers of Linux kernels do not see what kpfs's own tasks do there.

Tests kpfs.linux.running.own and kpfs.linux.board.own.
"""

import pytest

from tests import harness

KERNEL = harness.KERNEL
DO = "sleep 0.05; mkdir /tmp/kpfs-seen; rmdir /tmp/kpfs-seen"
OWN = "init", "kpfs"  # begin the names of kpfs's tasks
SHOWN = "echo 0 >tracing_on; grep -v '^#' trace"


def probes(*definitions):
    lines = "".join(f"echo '{line}' >>kprobe_events\n" for line in definitions)
    return f"{lines} echo 1 >events/kprobes/enable; {DO}; {SHOWN}"


def tracer(name):
    functions = "do_futex vfs_mkdir do_nanosleep ksys_write"
    begin = f"echo {functions} >set_ftrace_filter; echo {name} >current_tracer"
    return f"{begin}; {DO}; {SHOWN}"


SCRIPTS = {
    "entry": probes("p:m vfs_mkdir", "p:f do_futex", "p:w ksys_write"),
    "return": probes("r1:m vfs_mkdir", "r9:f do_futex", "r9:w ksys_write"),
    "function": tracer("function"),
    "syscalls": f"echo syscalls: >set_event; {DO}; {SHOWN}",
}
RESET = """
echo 0 >events/enable; echo nop >current_tracer; echo >set_ftrace_filter
echo >kprobe_events; echo >trace; echo 1 >tracing_on
"""
KERNELS = [
    harness.on(KERNEL, SCRIPTS),
    harness.on(harness.TWO_CPUS, SCRIPTS),
    harness.on(harness.ARM64, SCRIPTS),
    # it takes no probes at entries
    harness.on(harness.RISCV64, ["function", "syscalls"], marks=[pytest.mark.long]),
]
OTHERS = harness.on_each(harness.FOREIGN[2:])


def traced(kpfs, kernel, *words):
    """Return the task and the rest of each record."""
    done = kpfs("run", "--kernel", kernel, *words)
    assert done.returncode == 0, done.stderr
    rows = [line.split(None, 4) for line in done.stdout.splitlines()]
    return [(row[0], row[-1]) for row in rows], done.stderr


def traced_by_each(kpfs, kernel, kinds, *words):
    """Return what each of some SCRIPTS, one after the other, has recorded."""
    scripts = "".join(f"echo = {kind}; {SCRIPTS[kind]}\n{RESET}" for kind in kinds)
    script = f"cd /sys/kernel/tracing; {scripts}"
    found: dict[str, list[tuple[str, str]]] = {}
    for task, text in traced(kpfs, kernel, *words, "--", "sh", "-c", script)[0]:
        if task == "=":
            records = found[text] = []
        else:
            records.append((task, text))
    assert [*found] == [*kinds]
    return found.items()


def of_own(records):
    return [record for record in records if record[0].startswith(OWN)]


@pytest.mark.fuse
@pytest.mark.parametrize(("kernel", "kinds"), KERNELS)
def test_behind(kpfs, kernel, kinds):
    """No wait of a task for its program's next call is seen, and each call once."""
    for kind, records in traced_by_each(kpfs, kernel, kinds):
        assert not of_own(records), kind
        assert not [text for _, text in records if "futex" in text], kind
        made = [text for task, text in records if task.startswith("mkdir")]
        wanted = {"syscalls": "sys_mkdir("}.get(kind, "vfs_mkdir")
        if kernel in (KERNEL, harness.TWO_CPUS):
            assert len([text for text in made if wanted in text]) == 1, kind


@pytest.mark.fuse
@pytest.mark.parametrize("kernel", OTHERS)
def test_on_other_architectures(kpfs, kernel):
    """A task is known by the end of its stack, which each has in its own form."""
    again = "echo >set_event; echo 1 >tracing_on"
    both = f"{SCRIPTS['syscalls']}; {again}; {SCRIPTS['entry']}"
    script = f"cd /sys/kernel/tracing; {both}".replace("ksys_write", "vfs_write")
    records, _ = traced(kpfs, kernel, "--", "sh", "-c", script)
    assert not of_own(records)
    assert not [text for _, text in records if "futex" in text]
    texts = {text for _, text in records}
    # mips64's kernel has the event of this call for n32's number of it alone
    found = len([text for text in texts if "sys_mkdir(" in text])
    assert found == (kernel != harness.MIPS64)
    assert len([text for text in texts if "vfs_mkdir+" in text]) == 1


@pytest.mark.kernel
def test_inside(kpfs):
    for kind, records in traced_by_each(kpfs, KERNEL, SCRIPTS, "--inside"):
        assert not of_own(records), kind
        assert any("mkdir" in text for _, text in records), kind


@pytest.mark.kernel
def test_a_sleep_is_one_hit(kpfs):
    """Breakpoints, calls of ftrace and return probes are hit once each."""
    script = """
    cd /sys/kernel/tracing
    echo 'p:entry do_nanosleep' >kprobe_events
    echo 'p:behind do_nanosleep+5' >>kprobe_events
    echo 'r1:return do_nanosleep' >>kprobe_events
    echo 1 >events/kprobes/enable
    sleep 1
    cat kprobe_profile
    """
    for words in ((), ("--inside",)):
        done = kpfs("run", "--kernel", KERNEL, *words, "--", "sh", "-c", script)
        rows = [line.split() for line in done.stdout.splitlines()]
        assert sorted(rows) == [
            ["behind", "1", "0"],
            ["entry", "1", "0"],
            ["return", "1", "0"],
        ]
        assert done.stderr == ""


@pytest.mark.kernel
def test_programs_are_seen(kpfs):
    """Calls of programs that a shell has started are seen."""
    script = """
    cd /sys/kernel/tracing
    echo 'p:e do_sys_openat2 name=+0(%si):ustring' >kprobe_events
    echo 1 >events/kprobes/enable
    cat /etc/hostname >/dev/null
    grep -c hostname trace
    """
    done = kpfs("run", "--kernel", KERNEL, "--inside", "--", "sh", "-c", script)
    assert done.stdout == "1\n"
