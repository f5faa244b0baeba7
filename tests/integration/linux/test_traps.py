# SPDX-License-Identifier: GPL-2.0-or-later
"""Differences between libunicorn and a processor that the board makes up for.

Each of these tests stands for a trap that a kernel in libunicorn once fell into.  They
also test kpfs.emulator.exports.
"""

import os
import re
import struct

import pytest

from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError
from kpfs.emulator import libunicorn
from kpfs.emulator.libunicorn import EmulatorError
from kpfs.linux.arch.arches import ARCHES
from kpfs.linux.board import board
from kpfs.linux.running import machine
from kpfs.linux.running.machine import STOP, Op, Out
from tests import kernel_modules
from tests.integration.linux.conftest import Process
from tests.integration.linux.test_kprobes import FUNCTION, LIST, enable, trace

pytestmark = pytest.mark.kernel

NANOSLEEP, CLOCK_GETTIME, GETRANDOM = 35, 228, 318
SECOND = 1_000_000_000
TEMPLATE = """
#include <linux/module.h>
#include <linux/sched.h>
static int word = 1;
module_param(word, int, 0644);
%s
static void __exit test_exit(void) { }
module_init(test_init);
module_exit(test_exit);
MODULE_LICENSE("GPL");
"""
INITS = {
    # two that differ in one instruction, and so lie in the same places
    "first": 'static int __init test_init(void) { pr_info("made %d\\n", word + 11); '
    "return 0; }",
    "other": 'static int __init test_init(void) { pr_info("made %d\\n", word + 22); '
    "return 0; }",
    "warns": "static int __init test_init(void) { WARN_ON(word); WARN_ON(word); "
    "return 0; }",
    "faults": "static int __init test_init(void) { return *(volatile int *)8; }",
    "deaf": "static int __init test_init(void) { local_irq_disable(); "
    "while (READ_ONCE(word)) cpu_relax(); return 0; }",
    "busy": "static int __init test_init(void) { while (READ_ONCE(word)) "
    "cpu_relax(); return 0; }",
}


@pytest.fixture(scope="session")
def modules():
    """Bytes of modules by name."""
    sources = {name: TEMPLATE % init for name, init in INITS.items()}
    folder = kernel_modules.build(sources)
    return {name: (folder / f"{name}.ko").read_bytes() for name in sources}


def load_into(shell, data):
    """Load a module: what finit_module() gives."""
    fd = shell.call(Op(nr.MEMFD_CREATE, (b"m\0", 0))).results[0]
    for at in range(0, len(data), 1 << 16):
        part = data[at : at + (1 << 16)]
        shell.call(Op(nr.WRITE, (fd, part, len(part)), STOP))
    made = shell.call(Op(nr.FINIT_MODULE, (fd, b"\0", 0)), Op(nr.CLOSE, (fd,)))
    return made.results[0]


@pytest.fixture
def load(shell, modules):
    return lambda name: load_into(shell, modules[name])


def unload(shell, name):
    made = shell.call(Op(nr.DELETE_MODULE, (name.encode() + b"\0", os.O_NONBLOCK)))
    assert made.results == [0]


def log_of(shell):
    reply = shell.call(Op(nr.SYSLOG, (3, Out(1 << 17), 1 << 17)))
    return reply.out(0, reply.results[0]).decode()


def now(shell, clock=1):
    reply = shell.call(Op(CLOCK_GETTIME, (clock, Out(16))))
    seconds, ns = struct.unpack("<2q", reply.out(0, 16))
    return int(seconds * SECOND + ns)


# ---- what another libunicorn may have elsewhere
@pytest.mark.parametrize("offset", [-8, 8, -0x8000])
def test_a_libunicorn_that_is_not_known(monkeypatch, boot, offset):
    right = libunicorn.state_of
    monkeypatch.setattr(libunicorn, "state_of", lambda engine: right(engine) + offset)
    with pytest.raises(EmulatorError, match=r"2\.1\.4 is wanted"):
        boot()


def test_each_board_knows_its_libunicorn():
    for arch in ARCHES:
        built = os.listdir(os.path.join(board.IMAGE_DIR, arch))
        hosts = {name[6:-3] for name in built if name[:6] == "board-"}
        assert hosts == {"x86_64", "aarch64"}


# ---- exceptions
def test_warnings_are_exceptions_that_are_survived(shell, load):
    assert load("warns") == 0
    assert len(re.findall(r"WARNING: CPU: 0 PID: \d+ at", log_of(shell))) == 2
    unload(shell, "warns")


def test_a_fault_after_a_fault_is_no_double_fault(shell, load):
    """Faults of the kernel itself, an oops, and of tasks with bad pointers."""
    for _ in range(3):
        assert shell.call(Op(nr.OPENAT, (nr.AT_FDCWD, 8, 0, 0))).results == [-14]
    bad = Op(nr.READLINKAT, (nr.AT_FDCWD, b"/proc/self\0", 8, 10))
    assert shell.call(bad, bad).results == [-14, -14]
    assert "double fault" not in log_of(shell)


def test_an_oops_ends_the_task_alone(process, shell, load):
    with pytest.raises(
        KernelError, match=r"EFAULT: BUG: .* at \S+ .*has killed its task"
    ):
        load("faults")
    log = log_of(process())
    assert "BUG: kernel NULL pointer dereference, address: 0000000000000008" in log
    assert re.search(r"RIP: 0010:(test_init|init_module)\+", log)


# ---- code that changes
def test_a_module_in_the_place_of_another_runs_its_own_code(boot, modules):
    shell = Process(boot(), 4_000_001)
    for _ in range(3):
        for name in ("first", "other"):
            assert load_into(shell, modules[name]) == 0
            unload(shell, name)
    made = re.findall(r"made (\d+)", log_of(shell))
    assert made == ["12", "23"] * 3


def test_hits_where_every_store_is_checked(boot, monkeypatch):
    monkeypatch.setattr(libunicorn, "track", lambda *_: False)
    linux = boot()
    shell, other = Process(linux, 4_000_001), Process(linux, 4_000_002)
    enable(shell, f"p:e {FUNCTION}+5")
    assert " k " in shell.read(LIST)
    shell.getppid(3)
    assert len(trace(other)) == 3


# ---- time and interrupts
def test_a_short_sleep_is_short(shell):
    begin = now(shell)
    shell.call(Op(NANOSLEEP, (struct.pack("<2q", 0, 1_000_000), 0)))
    assert 1_000_000 <= now(shell) - begin < 3_000_000


def test_an_hour_at_once_is_no_lockup(linux, process):
    shell = process()
    with linux.lock:
        linux.machine.advance(linux.machine.now() + 3600 * SECOND)
    shell.getppid(10)
    assert now(shell) > 3600 * SECOND
    assert not re.search("lockup|stalls|hung_task|BUG", log_of(shell))


def test_random_numbers_cost_no_time(shell):
    begin = now(shell)
    assert shell.call(Op(GETRANDOM, (Out(16), 16, 0))).results == [16]
    assert now(shell) - begin < SECOND // 10


@pytest.mark.logs("the guest is dead: hard lockup")
def test_interrupts_that_stay_off(linux, load, monkeypatch):
    monkeypatch.setattr(machine, "MAX_LOCKED_OUT", 0.3)
    with pytest.raises(KernelError, match="hard lockup"):
        load("deaf")
    assert linux.machine.dead


@pytest.mark.logs("the guest is dead: soft lockup")
def test_a_kernel_that_does_not_come_back(linux, load, monkeypatch):
    monkeypatch.setattr(machine, "MAX_TURNS", 20)
    with pytest.raises(KernelError, match="soft lockup"):
        load("busy")
