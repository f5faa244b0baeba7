# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules that do not come back: the task is killed, all others are served."""

import errno
import os

import pytest

from kpfs.engine.errors import KernelError
from tests.guest import tasks_of
from tests.modbox import NOIPA, module

FRAME = "static void __exit end(void) { %s }\nmodule_exit(end);\nmodule_init(go);\n"
LOOP = 'for (;;) __asm__ __volatile__("" ::: "memory");'


@pytest.fixture
def impatient(box, monkeypatch):
    """The watchdog waits for half a second only."""
    monkeypatch.setattr("kpfs.guest.emu.watchdog.REWIND", 0.02)
    dog = box.kernel.guest.cpus.watchdog
    dog.limit, dog.rewind_at = 1.0, 0
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


POLLING = "static int __init go(void) { for (;;) %s return 0; }\n"


@pytest.mark.parametrize("what", ["cond_resched();", "cpu_relax();", "schedule();"])
def test_init_that_polls_for_ever(impatient, what):
    """Who loops is killed, and nobody else."""
    box = impatient
    before = [t.pid for t in tasks_of(box.kernel.guest)]
    with pytest.raises(KernelError) as refused:
        box.insmod(module("loops", POLLING % what + FRAME % ""))
    assert refused.value.errno == errno.EFAULT
    (said,) = locked_up(box)
    assert f":{os.getpid()}]" in said
    after = [t.pid for t in tasks_of(box.kernel.guest)]
    assert set(before) <= set(after)


NOISY = (
    "static int n; module_param(n, int, 0);\n"
    "static int __init go(void)"
    ' { for (int i = 0; i < n; i++) printk("line %d\\n", i); return 0; }\n'
)


def test_init_that_talks(box):
    """What is merely long is left alone, what does not end is not."""
    box.insmod(module("talks", NOISY + FRAME % ""), "n=100000")
    assert box.log()[-1] == "line 99999"
    box.rmmod("talks")
    dog = box.kernel.guest.cpus.watchdog
    dog.limit, dog.rewind_at = 1.0, 0
    with pytest.raises(KernelError) as refused:
        box.insmod(module("talks", NOISY + FRAME % ""), "n=2000000000")
    assert refused.value.errno == errno.EFAULT


STOPPED = (
    "#include <linux/notifier.h>\n"
    "static int told(struct notifier_block *n, unsigned long v, void *d)\n"
    "{ return v == DIE_OOPS ? NOTIFY_STOP : NOTIFY_DONE; }\n"
    "static struct notifier_block nb = { .notifier_call = told };\n"
    "static int __init go(void) { register_die_notifier(&nb); "
    + LOOP
    + " return 0; }\n"
)


@pytest.mark.logs("kernel panic: soft lockup: ")
def test_who_cannot_be_killed_is_the_end(impatient, caplog):
    box = impatient
    kmsg = box.vfs.open(box.caller, "/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(KernelError) as refused:
        box.insmod(module("stops", STOPPED + FRAME % ""))
    assert refused.value.errno == errno.ESHUTDOWN
    for path in ("/kprobes/list", "/modules", "/machine/stats"):
        with pytest.raises(KernelError) as refused:
            box.read(path)
        assert refused.value.errno == errno.ESHUTDOWN
    lines = [r for r in caplog.records if "kernel panic" in r.getMessage()]
    assert len(lines) == 1
    late = box.vfs.open(box.caller, "/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    for opened in (kmsg, late):
        text = b""
        while opened.handle.ready():
            text += box.vfs.read(box.caller, opened, 8192, 0)
        assert b"BUG: soft lockup - CPU#" in text
        assert b"Kernel panic - not syncing: soft lockup" in text
        with pytest.raises(KernelError) as refused:
            box.vfs.read(box.caller, opened, 8192, 0)
        assert refused.value.errno == errno.EAGAIN
        box.vfs.release(opened)


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
