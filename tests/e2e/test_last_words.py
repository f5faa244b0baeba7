# SPDX-License-Identifier: GPL-2.0-or-later
"""The output of a command whose kernel ends, in each way and on each architecture.

Tests kpfs.linux.inside.stdio, kpfs.linux.inside.command, kpfs.linux.inside.unread.
"""

import shlex
import subprocess

import pytest

from tests import harness, kernel_modules
from tests.e2e.test_kernel_arches import ALL, WITHOUT_TYPES
from tests.programs import static_program

TWO = harness.KERNEL, harness.TWO_CPUS
LINES = "one\ntwo\n"
DIED, ENDED = "kpfs: the kernel died: ", "kpfs: the kernel ended with CMD: it "
PANIC = f"{DIED}ESHUTDOWN: kernel panic: "
CRASH = f"{PANIC}sysrq triggered crash"
ENDINGS = {
    "c": CRASH,
    "b": f"{ENDED}restarted its machine",
    "o": f"{ENDED}switched its machine off",
    "restart": f"{ENDED}restarted its machine",
    "halt": f"{ENDED}halted its machine",
}
OWN = [harness.on(harness.KERNEL), harness.on(harness.TWO_CPUS)]
ROWS = [*ALL, *WITHOUT_TYPES]
RESTARTED = "riscv64", "ppc64", "i386"
KILLS = """
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>
static int __init kills_init(void)
{
	struct task_struct *init = pid_task(find_vpid(1), PIDTYPE_PID);

	init->signal->flags &= ~SIGNAL_UNKILLABLE;
	return send_sig(SIGSEGV, init, 1);
}
module_init(kills_init);
MODULE_LICENSE("GPL");
"""
OOPSES = """
#include <linux/module.h>
#include <linux/timer.h>
static bool later;
module_param(later, bool, 0);
static void fall(struct timer_list *timer) { *(volatile int *)0x123 = 0; }
static DEFINE_TIMER(timer, fall);
static int __init oopses_init(void)
{
	timer.expires = jiffies + 1;
	if (later)
		add_timer(&timer);
	else
		fall(NULL);
	return 0;
}
module_init(oopses_init);
MODULE_LICENSE("GPL");
"""


def ended(kpfs, kernel, *words, **options):
    return kpfs("run", "--kernel", kernel, "--inside", "--", *words, **options)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("kernel", OWN)
def test_no_line_is_lost_when_a_kernel_ends(kpfs, tmp_path, kernel, ending):
    program = static_program("last", tmp_path)
    done = ended(kpfs, kernel, program, ending)
    assert (done.returncode, done.stdout) == (2, LINES), done
    assert done.stderr.startswith(ENDINGS[ending])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_no_line_is_lost_on_other_architectures(kpfs, tmp_path, row):
    program = static_program("last", tmp_path, row.compiler)
    ending = "restart" if row.name in RESTARTED else "c"
    done = ended(kpfs, row.kernel, program, ending)
    assert (done.returncode, done.stdout) == (2, LINES), done
    assert done.stderr.startswith(ENDINGS[ending])


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("kills", "Attempted to kill init"),
        ("oopses", "Fatal exception"),
        ("oopses later=1", "Fatal exception in interrupt"),
    ],
)
def test_no_line_is_lost_by_a_module(kpfs, module, said):
    built = kernel_modules.build({"kills": KILLS, "oopses": OOPSES})
    name, _, parameter = module.partition(" ")
    script = f"""
        echo 1 >/proc/sys/kernel/panic_on_oops
        echo one; echo two; insmod {built}/{name}.ko {parameter}; sleep 9; echo three
    """
    done = ended(kpfs, harness.KERNEL, "sh", "-c", script)
    assert (done.returncode, done.stdout) == (2, LINES), done
    assert done.stderr.startswith(PANIC + said)


@pytest.mark.parametrize("kernel", [harness.on(one) for one in TWO])
def test_no_line_is_lost_at_a_terminal(kpfs, tmp_path, kernel):
    """A task of the kernel brings it, which one processor alone does not run."""
    program = str(static_program("last", tmp_path))
    words = kpfs.command("run", "--kernel", kernel, "--inside", "--")
    command = shlex.join([*map(str, words), program, "c"])
    done = harness.run("script", "-qec", command, "/dev/null", stdin=subprocess.DEVNULL)
    assert LINES in done.stdout.replace("\r", ""), done


@pytest.mark.two_cpus
@pytest.mark.parametrize(("most", "is_complete"), [(20_000, True), (60_000, False)])
def test_what_nobody_reads_until_the_kernel_has_ended(kpfs, most, is_complete):
    """Some is read ahead; what is not, is told to be lost."""
    script = f"seq {most} & sleep 1; echo c >/proc/sysrq-trigger"
    words = "run", "--kernel", harness.TWO_CPUS, "--inside", "--", "sh", "-c", script
    pipe, command = subprocess.PIPE, kpfs.command(*words)
    with subprocess.Popen(command, text=True, stdout=pipe, stderr=pipe) as process:
        assert process.wait(60) == 2
        lines, told = process.communicate()
    assert lines.startswith("1\n2\n")
    assert lines.endswith(f"\n{most}\n") == is_complete
    assert told.startswith(CRASH)
    assert ("may be lost" in told) != is_complete
