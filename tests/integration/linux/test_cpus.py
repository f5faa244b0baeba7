# SPDX-License-Identifier: GPL-2.0-or-later
"""A distribution's kernel with two processors, which run in turn."""

import re
import struct
from collections import Counter

import pytest

from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError
from kpfs.linux.running.machine import Op, Out
from tests import harness
from tests.integration.linux.conftest import Process
from tests.integration.linux.test_kprobes import FUNCTION, LIST, TRACING, enable, trace
from tests.integration.linux.test_quiet import session

pytestmark = pytest.mark.two_cpus

NANOSLEEP, SETAFFINITY, GETCPU = 35, 203, 309
ONLINE = "/sys/devices/system/cpu/online"
SECOND_CPU = "/sys/devices/system/cpu/cpu1/online"


@pytest.fixture
def linux(boot):
    return boot(harness.TWO_CPUS)


def on(process, cpu):
    """A process that runs on one processor alone."""
    made = process()
    mask = struct.pack("<Q", 1 << cpu)
    assert made.call(Op(SETAFFINITY, (0, 8, mask))).results == [0]
    return made


def cpu_of(shell):
    reply = shell.call(Op(GETCPU, (Out(4), 0, 0)))
    return int.from_bytes(reply.out(0, 4), "little")


def pass_time(linux, seconds):
    with linux.lock:
        linux.machine.advance(linux.machine.now() + int(seconds * 1e9))


def cpus_of(lines):
    return re.findall(r" \[00(\d)\] ", "\n".join(lines))


def test_there_are_two(shell):
    assert shell.read(ONLINE) == "0-1\n"
    numbers = re.findall(r"\napicid\t+: (\d)\n", shell.read("/proc/cpuinfo"))
    assert numbers == ["0", "1"]
    log = shell.call(Op(nr.SYSLOG, (3, Out(1 << 17), 1 << 17)))
    assert b"Firmware Bug" not in log.out(0, log.results[0])


def test_tasks_run_where_they_may(process):
    for cpu in (1, 0, 1):
        assert cpu_of(on(process, cpu)) == cpu
    assert Counter(cpu_of(process()) for _ in range(10)) == {0: 5, 1: 5}


@pytest.mark.parametrize(
    "event", [f"p:e {FUNCTION}", f"p:e {FUNCTION}+9", f"r:e {FUNCTION}"]
)
def test_hits_on_both(process, event):
    shell, first, second = process(), on(process, 0), on(process, 1)
    enable(shell, event)
    for _ in range(3):
        first.getppid()
        second.getppid()
    assert cpus_of(trace(shell)) == ["0", "1"] * 3
    for cpu in (0, 1):
        rows = shell.read(f"{TRACING}/per_cpu/cpu{cpu}/trace")
        assert rows.count(" e: ") == 3
    shell.echo(f"{TRACING}/events/kprobes/enable", "0")
    first.getppid()
    second.getppid()
    assert len(trace(shell)) == 6


def test_a_probe_becomes_a_jump_on_both(linux, process):
    """Each CPU drops its translated code, for the jump and back again."""
    shell, tasks = process(), [on(process, cpu) for cpu in (0, 1)]
    files = [task.open("/proc/version") for task in tasks]

    def read():
        for task, fd in zip(tasks, files, strict=True):
            task.call(*[Op(nr.READ, (fd, Out(8), 8))] * 3)

    read()
    enable(shell, "p:e vfs_read+9")  # an instruction in each kernel
    pass_time(linux, 0.3)
    assert "[OPTIMIZED]" in shell.read(LIST)
    shell.echo(f"{TRACING}/trace", "")
    read()
    shell.echo(f"{TRACING}/tracing_on", "0")
    mine = [line for line in trace(shell) if f"-{shell.task.pid} " not in line]
    assert cpus_of(mine) == ["0"] * 3 + ["1"] * 3
    shell.echo(f"{TRACING}/tracing_on", "1")
    shell.echo(f"{TRACING}/events/kprobes/enable", "0")
    shell.echo(f"{TRACING}/trace", "")
    read()
    assert trace(shell) == []


def test_a_sleeper_wakes_on_the_other(linux, process):
    """Both have halted meanwhile, and time goes on to the first timer."""
    sleepers = [on(process, cpu) for cpu in (0, 1)]
    before = linux.machine.stats()["halts"]
    for sleeper in sleepers:
        time = struct.pack("<qq", 0, 200_000_000)
        assert sleeper.call(Op(NANOSLEEP, (time, 0))).results == [0]
    assert linux.machine.stats()["halts"] > before


def test_a_processor_that_goes_and_comes_back(process):
    shell, task = process(), process()
    assert shell.write(SECOND_CPU, "0") == 0
    assert shell.read(ONLINE) == "0\n"
    assert cpu_of(task) == 0
    enable(shell, f"p:e {FUNCTION}+9")  # nobody waits for the one that is off
    task.getppid()
    assert shell.write(SECOND_CPU, "1") == 0
    assert shell.read(ONLINE) == "0-1\n"
    back = on(process, 1)
    back.getppid()
    assert cpus_of(trace(shell)) == ["0", "1"]


def test_a_look_at_what_all_do_comes_by_an_nmi(process):
    shell = process()
    assert shell.write("/proc/sysrq-trigger", "l") == 0
    reply = shell.call(Op(nr.SYSLOG, (3, Out(1 << 17), 1 << 17)))
    log = reply.out(0, reply.results[0]).decode()
    assert "NMI backtrace for cpu 0" in log
    assert "NMI backtrace for cpu 1" in log


def test_the_same_session_gives_the_same_trace(boot):
    first = session(boot(harness.TWO_CPUS))
    assert {"0", "1"} <= set(re.findall(r" \[00(\d)\] ", first))
    assert session(boot(harness.TWO_CPUS)) == first


@pytest.mark.logs("kernel panic: sysrq")
def test_a_dead_processor_is_said(linux, process):
    """panic() on the second one."""
    task = on(process, 1)
    with pytest.raises(KernelError, match="kernel panic"):
        task.write("/proc/sysrq-trigger", "c")
    assert linux.machine.dead
    with linux.lock:
        linux.reboot()
    assert cpu_of(Process(linux, 4_000_050)) in (0, 1)
