# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules that do not come back: the task is killed, all others are served."""

import errno

import pytest

from kpfs.engine.errors import KernelError
from tests.modbox import NOIPA, module

FRAME = "static void __exit end(void) { %s }\nmodule_exit(end);\nmodule_init(go);\n"
LOOP = 'for (;;) __asm__ __volatile__("" ::: "memory");'


@pytest.fixture
def impatient(box, monkeypatch):
    """The watchdog waits for half a second only."""
    monkeypatch.setattr("kpfs.guest.emu.watchdog.REWIND", 0.02)
    dog = box.kernel.guest.cpus.watchdog
    dog.limit, dog.rewind_at = 0.5, 0
    return box


def locked_up(box):
    return [line for line in box.log() if "BUG: soft lockup - CPU#" in line]


def test_init_that_loops(impatient):
    box = impatient
    init = "static int __init go(void) { " + LOOP + " return 0; }\n"
    with pytest.raises(KernelError) as refused:
        box.insmod(module("loops", init + FRAME % ""))
    assert refused.value.errno == errno.EFAULT
    assert len(locked_up(box)) == 1
    assert box.syscall("getpid") == 777_000


HANDLER = (
    NOIPA
    + "long target(long x) { return x + 1; }\n"
    + "static int bad; module_param(bad, int, 0);\n"
    + "static int off; module_param(off, int, 0);\n"
    + "static int pre(struct kprobe *p, struct pt_regs *r)\n"
    + '{ while (current->pid == bad) __asm__ __volatile__("" ::: "memory");'
    + " return 0; }\n"
    + 'static struct kprobe kp = { .symbol_name = "__x64_sys_getppid",'
    + " .pre_handler = pre };\n"
    + "static int __init go(void) { kp.offset = off; return register_kprobe(&kp); }\n"
    + FRAME % "unregister_kprobe(&kp);"
)


@pytest.mark.parametrize("offset", [0, 5], ids=["ftrace", "int3"])
def test_a_handler_that_loops(impatient, offset):
    box = impatient
    box.insmod(module("loops", HANDLER), f"bad=777000 off={offset}")
    assert box.syscall("getppid") == -errno.EFAULT
    assert len(locked_up(box)) == 1
    guest = box.kernel.guest
    other = guest.syscalls.host_task(777_001, 0, "other", 1)
    for _ in range(4):  # on every CPU
        assert guest.syscalls.call(other, "getppid") == 1
    assert locked_up(box) == []
    box.rmmod("loops")
    assert box.list() == []
