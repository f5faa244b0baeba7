# SPDX-License-Identifier: GPL-2.0-or-later
"""Time, the scheduler and printk() as modules see them."""

import pytest

from kpfs import config
from tests.modbox import Box, module

INT3, JMP = 0xCC, 0xE9

BUSY = r"""
#include <linux/jiffies.h>
#include <linux/slab.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
static spinlock_t lock;
INIT(unsigned long first = jiffies, n = 0;
  spin_lock_init(&lock);
  while (time_before(jiffies, first + 3)) { n++; %s }
  pr_info("%%lu jiffies\n", jiffies - first);
  return 0;)
"""


@pytest.mark.parametrize(
    "body",
    [
        "cpu_relax();",
        "cond_resched();",
        "preempt_disable(); preempt_enable();",
        "spin_lock(&lock); spin_unlock(&lock);",
        "kfree(kmalloc(64, GFP_KERNEL));",
    ],
    ids=["relax", "resched", "preempt", "spin", "kmalloc"],
)
def test_a_busy_loop_gets_ticks(box, body):
    """Wherever it may lose its CPU."""
    box.insmod(module("busy", BUSY % body))
    assert box.log()[-1] == "3 jiffies"


LATE = r"""
#include <linux/jiffies.h>
#include <linux/timer.h>
static void run(struct timer_list *timer) { pr_info("it ran\n"); }
static DEFINE_TIMER(late, run);
static int by; module_param(by, int, 0);
INIT(mod_timer(&late, jiffies + 1);
  *(volatile unsigned long *)&jiffies += 1 + by; /* as another CPU does it */
  return 0;)
"""


@pytest.mark.parametrize("by", range(4))
def test_a_timer_runs_whose_time_has_passed_unseen(box, by):
    """The CPU goes to sleep so many jiffies after it, without having run it."""
    box.insmod(module("late", LATE), f"by={by}")
    box.settle()
    assert box.log()[-1] == "it ran"


JUMP = """
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/sched.h>
TARGET int target(int x) { asm volatile("nop; nop; nop; nop; nop; nop"); return x + 1; }
PRE(pre, return 0;)
static struct kprobe kp = { .addr = (void *)target + 5, .pre_handler = pre };
static struct task_struct *t;
static int how; module_param(how, int, 0);
static int turns;
static int loop(void *unused)
{
    while (!kthread_should_stop()) {
        target(1);
        turns++;
        if (how == 0) schedule();
        else if (how == 1) cond_resched();
        else cpu_relax();
    }
    return 0;
}
INIT(t = kthread_run(loop, NULL, "loops"); msleep(8); return register_kprobe(&kp);)
EXIT(kthread_stop(t); unregister_kprobe(&kp);)
"""


def first_byte(box, address):
    return box.kernel.guest.read(address, 1)[0]


BUSY_AND_JUMP = [
    pytest.param(True, 0, True, id="preempt-schedule"),
    pytest.param(True, 1, False, id="preempt-resched"),
    pytest.param(True, 2, False, id="preempt-relax"),
    pytest.param(False, 0, True, id="schedule"),
    pytest.param(False, 1, True, id="resched"),
    pytest.param(False, 2, False, id="relax"),
]


@pytest.mark.parametrize(("preemption", "how", "jumps"), BUSY_AND_JUMP)
def test_a_jump_beside_a_busy_thread(preemption, how, jumps):
    """The jump is written once the thread has called the scheduler by itself."""
    box = Box(config=config.make([("PREEMPT", preemption)]))
    box.insmod(module("jump", JUMP), f"how={how}")
    where = box.address("target") + 5
    seen = {first_byte(box, where)}
    before = box.int_at("turns")
    for _ in range(1 if jumps else 3):  # a jump comes with the first
        box.settle(1)
        seen.add(first_byte(box, where))
    assert box.int_at("turns") > before
    assert seen == ({INT3, JMP} if jumps else {INT3})
    box.rmmod("jump")
    box.close()


SLEEPS = r"""
#include <linux/delay.h>
TARGET long target(long x) { return (x ^ 0x12345678) + 77; }
static int kind; module_param(kind, int, 0);
PRE(pre, msleep(20); msleep(20); return 0;)
KRET(ret, msleep(20); msleep(20); return 0;)
static struct kprobe kp = { .symbol_name = "target", .pre_handler = pre };
static struct kretprobe rp = { .kp.symbol_name = "target", .handler = ret };
INIT(kp.offset = kind == 1 ? 5 : 0;
  if (kind == 2 ? register_kretprobe(&rp) : register_kprobe(&kp)) return -1;
  target(1); pr_info("count %x\n", preempt_count());
  return 0;)
EXIT(if (kind == 2) unregister_kretprobe(&rp); else unregister_kprobe(&kp);)
"""


@pytest.mark.parametrize("kind", range(3), ids=["ftrace", "int3", "return"])
def test_a_handler_that_sleeps(box, kind):
    """The log says so once, and no other task is affected."""
    box.insmod(module("sleeps", SLEEPS), f"kind={kind}")
    log = box.log()
    bugs = [line for line in log if "BUG" in line or "WARN" in line]
    assert len(bugs) == 1
    assert bugs[0].startswith("BUG: scheduling while atomic: ")
    assert "count 0" in log
    assert box.syscall("getppid") == 1
    box.rmmod("sleeps")
    assert box.log() == []


UNREGISTERS = r"""
TARGET long target(long x) { return (x ^ 0x12345678) + 77; }
TARGET long second(long x) { return (x ^ 0x12345678) + 78; }
static int kind; module_param(kind, int, 0);
static struct kprobe other = { .symbol_name = "second" };
static struct kretprobe rother = { .kp.symbol_name = "second" };
PRE(pre, if (kind & 1) unregister_kretprobe(&rother); else unregister_kprobe(&other);
  return 0;)
static struct kprobe kp = { .symbol_name = "target", .pre_handler = pre };
INIT(kp.offset = kind & 2 ? 5 : 0;
  if (kind & 1 ? register_kretprobe(&rother) : register_kprobe(&other)) return -1;
  if (register_kprobe(&kp)) return -1;
  target(1); pr_info("count %x\n", preempt_count());
  unregister_kprobe(&kp);
  return 0;)
EXIT()
"""


@pytest.mark.parametrize("kind", range(4))
def test_a_handler_that_unregisters(box, kind):
    """The handler waits for other handlers, and so it sleeps."""
    box.insmod(module("unregisters", UNREGISTERS), f"kind={kind}")
    log = box.log()
    bugs = [line for line in log if "BUG" in line or "WARN" in line]
    assert len(bugs) == 1
    assert bugs[0].startswith("BUG: scheduling while atomic: ")
    assert "count 0" in log
    assert "second" not in box.read("/kprobes/list")
    box.rmmod("unregisters")
    assert box.log() == []


ENDS = """
#include <linux/completion.h>
#include <linux/kthread.h>
static DECLARE_COMPLETION(ended);
static int ends(void *code) { kthread_complete_and_exit(&ended, (long)code); }
INIT(kthread_run(ends, (void *)5, "ends"); wait_for_completion(&ended);
  pr_info("ended\\n"); return 0;)
EXIT()
"""


def test_a_thread_that_ends_itself(box):
    box.insmod(module("ends", ENDS))
    assert box.log()[-1] == "ended"
    box.rmmod("ends")


DUMPS = """
TARGET long target(long x) { return (x ^ 0x12345678) + 77; }
static int off; module_param(off, int, 0);
PRE(pre, dump_stack(); return 0;)
static struct kprobe kp = { .symbol_name = "target", .pre_handler = pre };
INIT(kp.offset = off; if (register_kprobe(&kp)) return -1; target(1); return 0;)
EXIT(unregister_kprobe(&kp);)
"""


@pytest.mark.parametrize(
    ("off", "names"),
    [
        (0, ["kprobe_ftrace_handler"]),
        (5, ["aggr_pre_handler", "kprobe_int3_handler", "exc_int3", "asm_exc_int3"]),
    ],
)
def test_a_stack_dump_names_the_engine(box, off, names):
    box.insmod(module("dumps", DUMPS), f"off={off}")
    shown = [line.strip().split("+")[0] for line in box.log()]
    at = shown.index("pre")
    assert shown[at + 1 : at + 1 + len(names)] == names


BYTES = r"""
static u8 bytes[80];
INIT(for (int i = 0; i < 80; i++) bytes[i] = i * 7;
  pr_info("%16ph|\n", bytes); pr_info("%ph|\n", bytes + 1);
  pr_info("%4phC|%4phD|%4phN|\n", bytes, bytes, bytes);
  pr_info("%*ph|\n", 3, bytes); pr_info("%80phN|\n", bytes);
  pr_info("%4ph|\n", (u8 *)NULL);
  return 0;)
"""


def test_bytes(box):
    box.insmod(module("bytes", BYTES))
    raw = bytes(i * 7 & 255 for i in range(80))
    assert box.log()[-6:] == [
        f"{raw[:16].hex(' ')}|",
        "07|",
        f"{raw[:4].hex(':')}|{raw[:4].hex('-')}|{raw[:4].hex()}|",
        f"{raw[:3].hex(' ')}|",
        f"{raw[:64].hex()}|",
        "(null)|",
    ]
