# SPDX-License-Identifier: GPL-2.0-or-later
"""Data breakpoints of a module; tests/modules/hw_breakpoint_suite.c has the rest."""

import errno
import re

import pytest

from kpfs.guest.emu.traps import GuestPanicError
from tests import harness
from tests.integration.modules.test_samples import trees
from tests.modbox import ROOT, build, refused

SAMPLE = "samples/hw_breakpoint/data_breakpoint.c"
# the sample watches what another module exports
OWNER = """
#include <linux/kprobes.h>
#include <linux/module.h>
unsigned long watched_value, plain_value;
EXPORT_SYMBOL_GPL(watched_value);
EXPORT_SYMBOL(plain_value);
__attribute__((__noipa__)) int change(int n)
{
        WRITE_ONCE(watched_value, watched_value + n);
        return 0;
}
static int pre(struct kprobe *p, struct pt_regs *regs) { return change(1); }
static struct kprobe kp = { .symbol_name = "kernel_clone", .pre_handler = pre };
static int __init owner_init(void) { change(1); return register_kprobe(&kp); }
static void __exit owner_exit(void) { unregister_kprobe(&kp); }
module_init(owner_init);
module_exit(owner_exit);
MODULE_LICENSE("GPL");
"""
# does what the sample does, for where its source is not at hand
OWN = """
#include <linux/hw_breakpoint.h>
#include <linux/kallsyms.h>
#include <linux/module.h>
#include <linux/perf_event.h>
static struct perf_event *__percpu *sample_hbp;
static char name[KSYM_NAME_LEN] = "jiffies";
module_param_string(ksym, name, KSYM_NAME_LEN, 0444);
static void sample_hbp_handler(struct perf_event *bp, struct perf_sample_data *data,
                               struct pt_regs *regs)
{
        pr_info("%s value is changed\\n", name);
        dump_stack();
        pr_info("Dump stack from sample_hbp_handler\\n");
}
static int __init own_init(void)
{
        struct perf_event_attr attr;
        void *addr = __symbol_get(name);

        if (!addr)
                return -ENXIO;
        hw_breakpoint_init(&attr);
        attr.bp_addr = (unsigned long)addr;
        attr.bp_len = HW_BREAKPOINT_LEN_4;
        attr.bp_type = HW_BREAKPOINT_W;
        sample_hbp = register_wide_hw_breakpoint(&attr, sample_hbp_handler, NULL);
        if (IS_ERR((void __force *)sample_hbp))
                return PTR_ERR((void __force *)sample_hbp);
        pr_info("HW Breakpoint for %s write installed\\n", name);
        return 0;
}
static void __exit own_exit(void)
{
        unregister_wide_hw_breakpoint(sample_hbp);
        __symbol_put(name);
        pr_info("HW Breakpoint for %s write uninstalled\\n", name);
}
module_init(own_init);
module_exit(own_exit);
MODULE_LICENSE("GPL");
"""
CALLERS = (
    "sample_hbp_handler", "__perf_event_overflow", "perf_swevent_event",
    "perf_bp_event", "hw_breakpoint_exceptions_notify", "notifier_call_chain",
    "notify_die", "exc_debug", "asm_exc_debug", "change",
)  # fmt: skip


@pytest.fixture(params=["sample", "own"])
def sample(request, tmp_path):
    """data_breakpoint.ko, of the kernel's source or of ours."""
    if request.param == "own":
        return build("data_breakpoint", OWN)
    source = next((t / SAMPLE for t in trees() if (t / SAMPLE).exists()), None)
    if source is None:
        pytest.skip("no kernel source (KPFS_LINUX, or unpacked below /usr/src)")
    made = tmp_path / "data_breakpoint.ko"
    tool = ROOT / "scripts" / "build-module"
    done = harness.run(tool, "--in-tree", "-o", made, source)
    assert (done.returncode, done.stderr) == (0, "")
    return made


def test_sample(box, sample):
    owner = build("owner", OWNER)
    box.insmod(owner)
    box.log()
    box.insmod(sample, "ksym=watched_value")
    assert box.log() == ["HW Breakpoint for watched_value write installed"]
    refused(box, errno.EAGAIN, "owner", by="rmmod")
    box.kernel.guest.host_tasks.of_process(777_123, 0, "child", 1)
    log = box.log()
    assert log[0] == "watched_value value is changed"
    assert log[-1] == "Dump stack from sample_hbp_handler"
    names = [m[1] for line in log if (m := re.match(r" (\S+)\+0x", line))]
    assert tuple(names[: len(CALLERS)]) == CALLERS
    assert "kernel_clone" in names
    box.rmmod("data_breakpoint")
    assert box.log() == ["HW Breakpoint for watched_value write uninstalled"]
    box.kernel.guest.host_tasks.of_process(777_124, 0, "child", 1)
    assert box.log() == []
    box.rmmod("owner")
    assert not box.kernel.guest.cpus._memory_hooks


@pytest.mark.parametrize("name", ["jiffies", "plain_value"])
def test_symbols_without_gpl_are_refused_as_in_6_1_192(box, sample, name):
    box.insmod(build("owner", OWNER))
    said = refused(box, errno.ENXIO, sample, f"ksym={name}")
    assert said == [f"failing symbol_get of non-GPLONLY symbol {name}."]


def test_symbol_that_is_nowhere(box, sample):
    assert refused(box, errno.ENXIO, sample, "ksym=nothing_of_this_name") == []


@pytest.mark.logs("kernel panic")
def test_an_oops_of_the_handler_is_a_panic(box):
    """Linux panics as well, because the handler runs in an NMI there."""
    text = OWN.replace("dump_stack();", "*(volatile int *)(long)(bp->cpu / 64) = 1;")
    text = text.replace("void *addr = __symbol_get(name);", "void *addr = &own;")
    text = text.replace("static int __init", "static int own;\nstatic int __init", 1)
    text = text.replace("        return 0;\n}", "        own = 1; return 0;\n}")
    with pytest.raises(GuestPanicError, match="Fatal exception in interrupt"):
        box.insmod(build("bad_handler", text))
    assert "BUG: kernel NULL pointer dereference" in "\n".join(box.log())
