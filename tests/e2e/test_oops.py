# SPDX-License-Identifier: GPL-2.0-or-later
"""Oopses inside a Linux kernel that kill processes of kpfs, and loops without an end.

Tests kpfs.linux.inside.oops, kpfs.linux.running.stacks, kpfs.linux.memory.stack.
"""

import json
import re

import pytest

from kpfs.base import syscall_numbers as nr
from tests import harness, kernel_modules

pytestmark = pytest.mark.kernel

INSIDE = "run", "--kernel", harness.KERNEL, "--inside", "--"
# oopses in the calls of tasks of one name only
KILLER = """
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/tracepoint.h>
static char *function, *comm;
static long call;
static struct tracepoint *calls;
module_param(function, charp, 0);
module_param(comm, charp, 0);
module_param(call, long, 0);
static noinline int pre(struct kprobe *p, struct pt_regs *regs)
{
	if (!strcmp(current->comm, comm))
		*(volatile int *)0x123 = 0;
	return 0;
}
static struct kprobe kp = { .pre_handler = pre };
static void begins(void *unused, struct pt_regs *regs, long number)
{
	if (number == call)
		pre(NULL, regs);
}
static void find(struct tracepoint *tp, void *unused)
{
	if (!strcmp(tp->name, "sys_enter"))
		calls = tp;
}
static int __init killer_init(void)
{
	kp.symbol_name = function;
	if (function)
		return register_kprobe(&kp);
	for_each_kernel_tracepoint(find, NULL);
	return tracepoint_probe_register(calls, begins, NULL);
}
module_init(killer_init);
MODULE_LICENSE("GPL");
"""
LOOP = """
#include <linux/delay.h>
#include <linux/module.h>
static noinline void turn(void)
{
	while (true)
		udelay(1);
}
static int __init loop_init(void) { turn(); return 0; }
module_init(loop_init);
MODULE_LICENSE("GPL");
"""
# falls where it is told to
FALLS = """
#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/timer.h>
#include <linux/workqueue.h>
static char *in, *function;
static bool warns;
module_param(in, charp, 0);
module_param(function, charp, 0);
module_param(warns, bool, 0);
static noinline void fall(void)
{
	if (warns)
		WARN(1, "it is wrong");
	else
		*(volatile int *)0x123 = 0;
}
static void on_timer(struct timer_list *timer) { fall(); }
static DEFINE_TIMER(timer, on_timer);
static void on_work(struct work_struct *work) { fall(); }
static DECLARE_WORK(work, on_work);
static int on_thread(void *unused) { fall(); return 0; }
static int pre(struct kprobe *p, struct pt_regs *regs) { fall(); return 0; }
static struct kprobe kp = { .pre_handler = pre };
static int __init falls_init(void)
{
	switch (*in) {
	case 'i': fall(); break;
	case 't': mod_timer(&timer, jiffies + 2); break;
	case 'w': schedule_work(&work); break;
	case 'k': kthread_run(on_thread, NULL, "falls"); break;
	case 'b': BUG();
	case 'p': panic("by hand");
	case 'h': kp.symbol_name = function; return register_kprobe(&kp);
	}
	return 0;
}
module_init(falls_init);
MODULE_LICENSE("GPL");
"""
NULL = "BUG: kernel NULL pointer dereference, address: 0000000000000123 at fall+"
PANIC = "the kernel died: ESHUTDOWN: kernel panic: "
OOPS = (
    "it has killed a process of kpfs: BUG: kernel NULL pointer dereference, "
    "address: 0000000000000123 at pre+"
)
# each does what has the process run into the probe
SCRIPT = """
insmod {folder}/killer.ko call={call} comm={comm}
cat {folder}/Makefile
cat >/dev/null
sleep 999
"""


@pytest.fixture(scope="module")
def built():
    sources = {"killer": KILLER, "loop": LOOP, "falls": FALLS}
    return kernel_modules.build(sources)


@pytest.mark.parametrize(
    ("call", "comm"),
    [
        (nr.READ, "kpfs-files"),
        (nr.READ, "kpfs-stdout"),
        (nr.WRITE, "kpfs-stdin"),
        (nr.WRITE, "kpfs-files"),
    ],
)
def test_an_oops_that_kills_a_process_of_kpfs_ends_the_command(kpfs, built, call, comm):
    """Probes do not reach what kpfs's processes do, tracepoints of modules do."""
    script = SCRIPT.format(folder=built, call=call, comm=comm)
    done = kpfs(*INSIDE, "sh", "-c", script, input="line\n" * 50_000, timeout=60)
    assert done.returncode == 2, done
    assert OOPS in done.stderr


def test_the_row_of_a_matrix_names_it(kpfs, built):
    script = SCRIPT.format(folder=built, call=nr.READ, comm="kpfs-stdout")
    words = "matrix", "--json", "--kernels", harness.KERNEL, "--", "sh", "-c", script
    done = kpfs(*words, timeout=60)
    (row,) = json.loads(done.stdout)
    assert (done.returncode, row["status"], OOPS in row["output"]) == (1, 2, True)


def test_an_oops_of_the_command_is_its_own(kpfs, built):
    """Others go on. The status is that of the process, killed by the kernel."""
    script = f"""
        insmod {built}/killer.ko call={nr.READ} comm=cat
        cat /dev/null; echo $?; echo on
    """
    done = kpfs(*INSIDE, "sh", "-c", script, timeout=60)
    assert (done.returncode, done.stdout) == (0, "137\non\n"), done


@pytest.mark.parametrize(
    ("parameters", "status", "reason"),
    [
        ("in=init", 0, NULL),
        ("in=work", 0, NULL),
        ("in=kthread", 0, NULL),
        ("in=bug", 0, "kernel BUG at "),
        ("in=init warns=1", 0, "WARNING: "),
        ("in=timer warns=1", 0, "WARNING: "),
        ("in=handler function=__x64_sys_chdir", 137, NULL),
        ("in=handler function=__x64_sys_chdir warns=1", 0, "WARNING: "),
        ("in=handler function=vfs_write", 137, NULL),  # no process of kpfs
        ("in=timer", 2, f"{PANIC}Fatal exception in interrupt: {NULL}"),
        ("in=panic", 2, f"{PANIC}by hand"),
    ],
)
def test_a_fall_of_the_kernel_is_the_reason(kpfs, built, parameters, status, reason):
    """A kernel that goes on does not end CMD, whose status stays as it is."""
    script = f"insmod {built}/falls.ko {parameters}; sleep .1; cd /tmp; cat /etc/fstab"
    words = "--json", "--kernels", harness.KERNEL, "--", "sh", "-c", script
    done = kpfs("matrix", *words, timeout=60)
    (row,) = json.loads(done.stdout)
    assert row["status"] == status, row
    assert row["reasons"][0].startswith(reason), row
    if "warns" in parameters:
        assert row["reasons"][0].endswith(" [falls]: it is wrong")
    elif NULL in reason:
        assert row["reasons"][0].endswith(" [falls]")
    assert "Oops: " not in "".join(row["reasons"])


def test_a_command_without_a_terminal_is_told_of_it(kpfs, built):
    script = f"insmod {built}/falls.ko in=init; echo x >/sys/kernel/tracing/trace_clock"
    done = kpfs(*INSIDE, "sh", "-c", script)
    told = [line for line in done.stderr.splitlines() if line.startswith("kpfs: ")]
    assert told[0].startswith(f"kpfs: {NULL}")
    assert told[1:] == ["kpfs: write(trace_clock, 'x') = EINVAL"]


@pytest.mark.parametrize(
    ("function", "file", "does"),
    [
        ("exit_files", "/dev/null", "cannot end"),
        # the first one leaves a mutex locked
        ("slab_show", "/proc/slabinfo", "waits without an end"),
    ],
)
def test_a_task_that_is_stuck_ends_the_command(kpfs, built, function, file, does):
    """The shell would wait for it without an end."""
    script = f"""
        insmod {built}/killer.ko function={function} comm=cat
        echo begun; cat {file}; cat {file}; echo never
    """
    kpfs.constants["kpfs.linux.inside.oops.STUCK_PATIENCE"] = 1
    done = kpfs(*INSIDE, "sh", "-c", script, timeout=60)
    assert (done.returncode, done.stdout) == (2, "begun\n"), done
    cause = OOPS.partition(": ")[2]
    assert f"a task {does} after an oops: {cause}" in done.stderr


@pytest.mark.parametrize("warm", ["0", "30"])
def test_a_kernel_that_never_rests_ends_the_command_with_its_stack(
    kpfs, built, monkeypatch, warm
):
    monkeypatch.setenv("KPFS_WARM", warm)
    kpfs.constants["kpfs.linux.running.machine.MAX_TURNS"] = 20
    done = kpfs(*INSIDE, "sh", "-c", f"echo begun; insmod {built}/loop.ko", timeout=300)
    assert (done.returncode, done.stdout) == (2, "begun\n"), done
    said = "soft lockup: it does not come to rest; it was in "
    _, _, places = done.stderr.partition(said)
    stack = re.sub(r"\+0x\w+", "", places.strip())
    callers = "turn [loop], loop_init [loop], do_one_initcall, do_init_module, "
    assert re.match(rf"(\w+, )*{re.escape(callers)}\w+, do_syscall_64", stack), stack
