# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules that keep a CPU for good: the task is killed, all others are served."""

import errno
import os

import pytest

from kpfs.base.errors import KernelError
from tests.guest import tasks_of
from tests.modbox import module
from tests.there import code

LIMIT = 0.5  # s of processor time; a quarter of it must do to kill a task

pytestmark = pytest.mark.alone  # the watchdog goes by the clock


@pytest.fixture
def impatient(box):
    """The watchdog does not wait for long."""
    hurry(box)
    return box


def hurry(box, limit=LIMIT):
    """Have the watchdog wait no longer than limit."""
    dog = box.kernel.guest.cpus.watchdog
    dog.limit, dog.rewind_at = limit, 0


def locked_up(box):
    return [line for line in box.log() if "BUG: soft lockup - CPU#" in line]


def said_of_this_task(box):
    """Return True if this task was told of alone: twice if the host is busy."""
    said = locked_up(box)
    return bool(said) and all(f":{os.getpid()}]" in each for each in said)


def test_init_that_loops(impatient):
    box = impatient
    loops = module(
        "loops", "INIT(preempt_disable(); for (;;) barrier(); return 0;) EXIT()\n"
    )
    assert code(box.insmod, loops) == "EFAULT"
    assert len(locked_up(box)) == 1
    assert box.syscall("getpid") == 777_000


@pytest.mark.parametrize("off", ["preempt_disable", "local_irq_disable"])
@pytest.mark.parametrize("what", ["cond_resched();", "cpu_relax();"])
def test_init_that_polls_for_ever(impatient, off, what):
    """The task that loops is killed, and no other."""
    box = impatient
    before = [t.pid for t in tasks_of(box.kernel.guest)]
    loops = module("loops", f"INIT({off}(); for (;;) {what} return 0;) EXIT()\n")
    assert code(box.insmod, loops) == "EFAULT"
    assert said_of_this_task(box)
    after = [t.pid for t in tasks_of(box.kernel.guest)]
    assert set(before) <= set(after)


ASKS = """
TARGET int target(int x) { asm volatile("nop; nop; nop; nop; nop; nop"); return x + 1; }
static int off; module_param(off, int, 0);
static int stop; module_param(stop, int, 0);
PRE(pre, return 0;)
INIT(struct kprobe kp;
  if (off == 1) preempt_disable(); else if (off) local_irq_disable();
  for (int i = 0; off || i < stop; i++) {
    if (off) { get_kprobe(target); continue; }
    kp = (struct kprobe){ .addr = (void *)target + 5, .pre_handler = pre };
    if (register_kprobe(&kp)) return -EINVAL;
    unregister_kprobe(&kp); }
  return 0;)
EXIT()
"""


@pytest.mark.parametrize("off", [0, 1, 2])
def test_init_that_asks_for_long(box, off):
    """Questions are asked with interrupts off; those of the caller are what counts."""
    hurry(box, 0.1)
    asks = module("asks", ASKS)
    if off:
        assert code(box.insmod, asks, f"off={off}") == "EFAULT"
        assert said_of_this_task(box)
    else:
        box.insmod(asks, "stop=2000")
        assert locked_up(box) == []


NOISY = r"""
static int n; module_param(n, int, 0);
static int off; module_param(off, int, 0);
INIT(if (off) preempt_disable();
  for (int i = 0; i < n; i++) printk("line %d\n", i); return 0;)
EXIT()
"""


def test_init_that_talks(box):
    """A long init is left alone; one that holds its CPU is killed."""
    hurry(box, 0.1)
    box.insmod(module("talks", NOISY), "n=100000")
    assert box.log()[-1] == "line 99999"
    box.rmmod("talks")
    hurry(box)
    assert code(box.insmod, module("talks", NOISY), "n=2000000000 off=1") == "EFAULT"


KEPT = """
#include <linux/spinlock.h>
static unsigned long at; module_param(at, ulong, 0);
INIT(spin_lock((spinlock_t *)at); preempt_enable(); return 0;)
EXIT()
"""


@pytest.mark.logs("kernel panic: soft lockup")
def test_a_lock_of_the_kernel_that_is_kept_for_good(impatient):
    """Killing the task that waits for it would not help: the guest is dead."""
    box = impatient
    (lock,) = box.kernel.guest.kallsyms.lookup_name("dcache_lock")
    box.insmod(module("keeps", KEPT), f"at={lock.addr}")
    assert box.syscall("getpid") == 777_000
    assert code(box.syscall, "openat", -100, "/proc/version", 0) == "ESHUTDOWN"
    assert "waits in vain" in box.kernel.guest.sched.dead


NOTIFIED = """
#include <linux/notifier.h>
static int told(struct notifier_block *n, unsigned long v, void *d) { %s }
static struct notifier_block nb = { .notifier_call = told };
INIT(register_die_notifier(&nb); %s return 0;)
EXIT()
"""
STOPPED = NOTIFIED % (
    "return v == DIE_OOPS ? NOTIFY_STOP : NOTIFY_DONE;",
    "preempt_disable(); for (;;) barrier();",
)
TOLD = NOTIFIED % ("for (;;) barrier(); return NOTIFY_DONE;", "BUG();")


@pytest.mark.parametrize(("name", "text"), [("stops", STOPPED), ("told", TOLD)])
def test_no_notifier_keeps_a_lockup_alive(impatient, name, text):
    box = impatient
    assert code(box.insmod, module(name, text)) == "EFAULT"
    assert len(locked_up(box)) == 1
    assert box.syscall("getpid") == 777_000


DEFERRED = """
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/jiffies.h>
#include <linux/timer.h>
#include <linux/workqueue.h>
static int n, mask, ran; module_param(n, int, 0); module_param(mask, int, 0);
static void body(void)
{ if (ran++) return;
  if (mask) local_irq_disable(); else preempt_disable();
  for (;;) barrier(); }
static void fires(struct timer_list *t) { body(); }
static struct timer_list timer;
static enum hrtimer_restart hfires(struct hrtimer *t)
{ body(); return HRTIMER_NORESTART; }
static struct hrtimer high;
static void runs(struct tasklet_struct *t) { body(); }
static struct tasklet_struct tasklet;
static void works(struct work_struct *w) { body(); }
static struct work_struct work;
static void again(void)
{
  if (n == 0) mod_timer(&timer, jiffies + 1);
  if (n == 1) {
    hrtimer_init(&high, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
    high.function = hfires; hrtimer_start(&high, 1000, HRTIMER_MODE_REL); }
  if (n == 2) tasklet_schedule(&tasklet);
  if (n == 3) queue_work_on(0, system_wq, &work);
}
PRE(pre, again(); return 0;)
static struct kprobe kp = { .symbol_name = "__x64_sys_getppid", .pre_handler = pre };
INIT(timer_setup(&timer, fires, 0); tasklet_setup(&tasklet, runs);
  INIT_WORK(&work, works); again();
  return register_kprobe(&kp);)
EXIT(unregister_kprobe(&kp);)
"""


@pytest.mark.parametrize("mask", [0, 1])
@pytest.mark.parametrize("kind", range(4), ids=["timer", "hrtimer", "tasklet", "work"])
def test_a_deferred_call_is_given_up(impatient, kind, mask):
    """The next call of its kind runs as before."""
    box = impatient
    box.insmod(module("deferred", DEFERRED), f"n={kind} mask={mask}")
    log = box.log()
    while not any("was given up" in line for line in log):
        box.settle(20)
        log += box.log()
    assert sum("BUG: soft lockup - CPU#" in line for line in log) == 1
    assert sum("was given up" in line for line in log) == 1
    ran = box.int_at("ran")
    for _ in range(2):  # a tasklet may wait for an interrupt
        assert box.syscall("getppid") == 1
        box.kernel.guest.tick()
    assert box.int_at("ran") > ran == 1
    box.rmmod("deferred")
    assert locked_up(box) == []


REARMED = """
#include <linux/jiffies.h>
#include <linux/timer.h>
static int ran;
static void fires(struct timer_list *t) { ran++; mod_timer(t, jiffies); }
static struct timer_list timer;
INIT(timer_setup(&timer, fires, 0); mod_timer(&timer, jiffies); return 0;)
EXIT(del_timer_sync(&timer);)
"""


def test_a_timer_that_is_always_due_runs_once_in_a_jiffy(box):
    box.insmod(module("rearmed", REARMED))
    before = box.kernel.guest.clock.now()
    box.settle(10)
    jiffies = (box.kernel.guest.clock.now() - before) // 4_000_000
    assert 8 <= box.int_at("ran") <= jiffies + 2
    box.rmmod("rearmed")


# ---- stacks
DEEP = r"""
TARGET long target(long x) { return x + 1; }
#include <linux/kthread.h>
#include <linux/jiffies.h>
#include <linux/timer.h>
static int n, talks, mask; module_param(n, int, 0);
module_param(talks, int, 0); module_param(mask, int, 0);
TARGET int deeper(int x)
{ volatile char pad[64]; pad[x & 63] = 1; if (x < 0) return 0;
  if (talks) printk("deeper %d\n", x);
  return deeper(x + 1) + pad[x & 31]; }
static int runs(void *d) { return deeper(0); }
static void fires(struct timer_list *t) { deeper(0); }
static struct timer_list timer;
PRE(pre, if (current->pid == 777000) deeper(0); return 0;)
static struct kprobe kp = { .symbol_name = "__x64_sys_getppid", .pre_handler = pre };
INIT(if (mask) local_irq_disable();
  if (n == 0) deeper(0);
  if (n == 1) kthread_run(runs, NULL, "deep");
  timer_setup(&timer, fires, 0);
  if (n == 2) mod_timer(&timer, jiffies + 1);
  kp.offset = n == 4 ? 5 : 0;
  return n > 2 ? register_kprobe(&kp) : 0;)
EXIT(if (n > 2) unregister_kprobe(&kp);)
"""


@pytest.mark.parametrize("how", ["", "talks=1", "mask=1"])
def test_init_that_recurses(box, how):
    before = [t.pid for t in tasks_of(box.kernel.guest)]
    assert code(box.insmod, module("deep", DEEP), how) == "EFAULT"
    log = box.log()
    (hit,) = [line for line in log if "guard page was hit" in line]
    assert hit.startswith("BUG: TASK stack guard page was hit at ")
    assert "stack guard page: 0000 [#1] PREEMPT SMP NOPTI" in log
    assert sum(line.startswith(" deeper+") for line in log) > 20
    after = [t.pid for t in tasks_of(box.kernel.guest)]
    assert set(before) - {os.getpid()} <= set(after)
    assert box.syscall("getpid") == 777_000


@pytest.mark.parametrize("n", range(1, 5), ids=["kthread", "timer", "ftrace", "int3"])
def test_others_that_recurse(box, n):
    box.insmod(module("deep", DEEP), f"n={n}")
    box.settle(10)
    ret = box.syscall("getppid")
    assert ret == (1 if n < 3 else -errno.EFAULT)
    log = box.log()
    assert sum("guard page was hit" in line for line in log) == 1
    assert not any("panic" in line for line in log)
    for _ in range(4):
        assert box.syscall("getppid", pid=777_001) == 1
    box.rmmod("deep")
    assert box.list() == []


BOMB = """
#include <linux/kthread.h>
static unsigned long loop; module_param(loop, ulong, 0);
static int runs(void *d) { ((void (*)(void))loop)(); return 0; }
INIT(for (int i = 0; i < 100; i++) kthread_run(runs, NULL, "bomb%d", i);
  return runs(NULL);)
EXIT()
"""


@pytest.mark.logs("kernel panic: soft lockup: ")
def test_too_many_tasks_to_kill_are_the_end(impatient, caplog):
    """The tasks loop in code that is no module's, so no turn ends."""
    box = impatient
    guest = box.kernel.guest
    loop = guest.area.alloc_text(2)
    guest.text_writer.poke_text(loop, b"\xeb\xfe")
    kmsg = box.vfs.open(box.caller, "/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(KernelError) as refused:
        box.insmod(module("bomb", BOMB), f"loop={loop}")
    assert refused.value.errno == errno.ESHUTDOWN
    for path in ("/kprobes/list", "/modules", "/machine/stats"):
        assert code(box.read, path) == "ESHUTDOWN"
    lines = [r for r in caplog.records if "kernel panic" in r.getMessage()]
    assert len(lines) == 1
    late = box.vfs.open(box.caller, "/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    for opened in (kmsg, late):
        text = b""
        while opened.handle.ready():
            text += box.vfs.read(box.caller, opened, 8192, 0)
        assert b"BUG: soft lockup - CPU#" in text
        assert b"Kernel panic - not syncing: soft lockup" in text
        assert code(box.vfs.read, box.caller, opened, 8192, 0) == "EAGAIN"
        box.vfs.release(opened)


HANDLER = """
TARGET long target(long x) { return x + 1; }
static int bad; module_param(bad, int, 0);
static int off; module_param(off, int, 0);
PRE(pre, while (current->pid == bad) __asm__ __volatile__("" ::: "memory"); return 0;)
static struct kprobe kp = { .symbol_name = "__x64_sys_getppid", .pre_handler = pre };
INIT(kp.offset = off; return register_kprobe(&kp);)
EXIT(unregister_kprobe(&kp);)
"""


@pytest.mark.parametrize("offset", [0, 5], ids=["ftrace", "int3"])
def test_a_handler_that_loops(impatient, offset):
    box = impatient
    box.insmod(module("loops", HANDLER), f"bad=777000 off={offset}")
    assert box.syscall("getppid") == -errno.EFAULT
    assert len(locked_up(box)) == 1
    for _ in range(4):  # on every CPU
        assert box.syscall("getppid", pid=777_001) == 1
    assert locked_up(box) == []
    box.rmmod("loops")
    assert box.list() == []
