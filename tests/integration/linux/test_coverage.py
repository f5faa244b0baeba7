# SPDX-License-Identifier: GPL-2.0-or-later
"""Coverage of a Linux kernel's modules.

This also tests kpfs.backends.linux.coverage, kpfs.linux.running.module_files and
kpfs.coverage.collector.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import kpfs
from tests import bare_module, harness

OTHERS = harness.on_each((harness.ARM64, harness.RISCV64, harness.S390X, harness.PPC64))
LOOPS = """\
static volatile int steps, never;
static int begin(void)
{
	for (int i = 0; i < 20; i++) {
		steps++;
		if (i % 4 == 3)
			steps += 2;
		if (never)
			steps = -steps;
	}
	return 0;
}
static void finish(void)
{
	steps = never;
}
"""
SOURCE = """\
#include <linux/kprobes.h>
#include <linux/module.h>
static int hits;
static int before(struct kprobe *p, struct pt_regs *regs)
{
	if (!p->addr)
		pr_info("never\\n");
	hits++;
	return 0;
}
static struct kprobe kp = { .pre_handler = before, .symbol_name = "do_mkdirat" };
static int __init begin(void) { return register_kprobe(&kp); }
static void __exit finish(void) { unregister_kprobe(&kp); pr_info("hits %d\\n", hits); }
module_init(begin);
module_exit(finish);
MODULE_LICENSE("GPL");
"""


@pytest.fixture(params=[harness.on(harness.KERNEL)])
def k(request):
    with kpfs.Kernel(kernel=request.param) as kernel:
        yield kernel


def built(folder, release):
    """Build a module with the headers of a kernel."""
    headers = Path(f"/usr/src/linux-headers-{release}")
    for tool in ("gcc", "make"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is missing (Debian: gcc make)")
    if not headers.is_dir():
        pytest.skip(f"{headers} is missing (Debian: linux-headers-{release})")
    (folder / "reached.c").write_text(SOURCE)
    (folder / "Makefile").write_text("obj-m := reached.o\n")
    words = "make", "-s", "-C", headers, f"M={folder}", "modules"
    subprocess.run(words, check=True, capture_output=True)
    return folder / "reached.ko"


def test_a_shipped_module_has_functions(k):
    k.cover()
    for _ in range(2):
        k.insmod("overlay")
        k.rmmod("overlay")
    report = k.coverage()
    called = report.functions()
    assert called["ovl_init"] == called["ovl_exit"] == 2
    assert called["ovl_create_object"] == 0
    assert report.sources["overlay"].lines == {}


def test_what_is_loaded_and_a_snapshot(k):
    k.insmod("overlay")
    taken = k.snapshot()
    k.rmmod("overlay")
    k.cover()
    k.restore(taken)
    k.rmmod("overlay")
    called = k.coverage().functions()
    assert called["ovl_exit"] == 1
    assert "ovl_init" not in called or not called["ovl_init"]
    with pytest.raises(ValueError, match="already"):
        k.cover()


def test_functions_of_the_kernel(k):
    with pytest.raises(ValueError, match=r"call cover\(\)"):
        k.coverage()
    k.cover(kernel=True)
    before = k.coverage().functions()
    task = k.task()
    for _ in range(5):
        task.syscall("getppid")
    after = k.coverage().functions()
    (name,) = (name for name in after if name.endswith("sys_getppid"))  # an alias
    assert after[name] - before[name] == 5


def test_lines_are_counted_as_the_module_does(k, tmp_path):
    """Counts are those of the module itself, also if it is probed in the middle."""
    path = built(tmp_path, k._session.kernel.meta.release)
    k.cover()
    k.insmod(path)
    k.write("tracing/kprobe_events", "p:middle reached:before+5")
    k.write("tracing/events/kprobes/middle/enable", "1")
    task = k.task()
    for number in range(20):
        task.syscall("mkdir", f"/reached{number}", 0o755)
    k.write("tracing/events/kprobes/middle/enable", "0")
    k.write("tracing/kprobe_events", "")
    k.rmmod("reached")
    hits = int(k.dmesg().rpartition("hits ")[2])
    assert hits >= 20
    report = k.coverage()
    functions, lines = report.functions(), report.lines("reached.c")
    assert functions == {**functions, "before": hits, "begin": 1, "finish": 1}
    text = SOURCE.splitlines()
    assert lines[1 + text.index("\thits++;")] == hits
    assert lines[1 + text.index('\t\tpr_info("never\\n");')] == 0
    assert os.path.realpath(next(iter(report.sources))).endswith("reached.c")


@pytest.mark.parametrize("k", OTHERS, indirect=True)
def test_lines_of_a_module_of_another_architecture(k, tmp_path):
    source = tmp_path / "loops.c"
    source.write_text(LOOPS)
    path = bare_module.build(tmp_path, k._session.kernel.saved, source)
    k.cover()
    for _ in range(2):
        k.insmod(path)
        k.rmmod("loops")
    report, text = k.coverage(), LOOPS.splitlines()
    lines = report.lines("loops.c")
    assert report.functions() == {"begin": 2, "finish": 2}
    assert lines[1 + text.index("\t\tsteps++;")] == 40
    assert lines[1 + text.index("\t\t\tsteps += 2;")] == 10
    assert lines[1 + text.index("\t\t\tsteps = -steps;")] == 0
    assert lines[1 + text.index("\tsteps = never;")] == 2
