# SPDX-License-Identifier: GPL-2.0-or-later
"""The effects of modules' probes on tasks, files and the kernel log."""

import errno
import re

import pytest

from kpfs.engine.arch.x86.ainsn import ainsn_of
from kpfs.engine.jprobe import Jprobe, register_jprobe
from kpfs.engine.kprobe import Kprobe
from kpfs.engine.register import unregister_kprobe
from kpfs.engine.state import get_kprobe
from tests.modbox import module
from tests.there import code, there


def test_types_in_the_list(box):
    body = """
        TARGET long target(long x) { return x; }
        PRE(pre, return 0;)
        KRET(ret, return 0;)
        static long entry(long x) { jprobe_return(); return 0; }
        static struct kprobe kp = { .symbol_name = "target", .pre_handler = pre };
        static struct kretprobe rp = { .kp.symbol_name = "target", .handler = ret };
        static struct jprobe jp = { .kp.symbol_name = "target", .entry = entry };
        INIT(return register_kprobe(&kp) ?: register_kretprobe(&rp) ?:
            register_jprobe(&jp);)
        EXIT(unregister_kprobe(&kp); unregister_kretprobe(&rp); unregister_jprobe(&jp);)
    """
    box.insmod(module("kinds", body))
    assert box.list() == [
        "r target+0x0 kinds [FTRACE]",
        "k target+0x0 kinds [FTRACE]",
        "j target+0x0 kinds [FTRACE]",
    ]
    assert box.call("target", 7) == 7
    box.rmmod("kinds")
    assert box.list() == []


def test_written_as_of_old(box):
    """The module has no module_init(), looks its address up, uses JPROBE_ENTRY."""
    body = (
        "#include <linux/kallsyms.h>\n"
        'static long entry(int dfd) { pr_info("%d\\n", dfd); jprobe_return();\n'
        "return 0; }\nstatic struct jprobe jp = { .entry = JPROBE_ENTRY(entry) };\n"
        "int init_module(void) { jp.kp.addr = (kprobe_opcode_t *)\n"
        'kallsyms_lookup_name("do_sys_openat2"); return register_jprobe(&jp); }\n'
        "void cleanup_module(void) { unregister_jprobe(&jp); }\n"
    )
    box.insmod(module("old", body))
    box.log()
    assert box.syscall("openat", 77, "/none", 0, 0) == -errno.ENOENT
    assert box.log()[-1] == "77"
    box.rmmod("old")
    assert box.list() == []


BATCH = """
TARGET long target(long x) { return x; }
PRE(pre, return 0;)
KRET(ret, return 0;)
static long entry(long x) { jprobe_return(); return 0; }
static struct kprobe kps[] = { { .symbol_name = "target", .pre_handler = pre },
    { .symbol_name = (char *)8, .pre_handler = pre } };
static struct kretprobe rps[] = { { .kp.symbol_name = "target", .handler = ret },
    { .kp.symbol_name = (char *)8, .handler = ret } };
static struct jprobe jps[] = { { .kp.symbol_name = "target", .entry = entry },
    { .kp.symbol_name = (char *)8, .entry = entry } };
static int bad; module_param(bad, int, 0);
#define BATCH(type, all) \\
    struct type *type##_batch[] = { \\
        all, bad == 0 ? NULL : bad == 1 ? (void *)8 : all + 1, all };
#define TRY(type, all) { BATCH(type, all) \\
    pr_info("%d\\n", register_##type##s(type##_batch, 3)); }
static int __init go(void)
{
    BATCH(kprobe, kps)
    TRY(kprobe, kps) TRY(kretprobe, rps) TRY(jprobe, jps)
    kps->addr = NULL;
    pr_info("%d\\n", register_kprobe(kps));
    unregister_kprobes(kprobe_batch, 2);
    return 0;
}
module_init(go);
EXIT()
"""


@pytest.mark.parametrize("bad", ["NULL", "a wild pointer", "a wild symbol_name"])
def test_a_batch_with_a_bad_entry_is_rolled_back(box, bad):
    """All others of the batch are removed, also if the entry cannot be read."""
    number = ["NULL", "a wild pointer", "a wild symbol_name"].index(bad)
    box.insmod(module("batch", BATCH), f"bad={number}")
    assert box.log()[-4:] == ["-14", "-14", "-14", "0"]
    assert box.list() == []
    box.rmmod("batch")


def test_functions_that_implement_kprobes_are_refused(box):
    """Names are refused, and the trampoline's address, which a function sees."""
    body = """
        static unsigned long trampoline;
        TARGET void target(void)
        { trampoline = (unsigned long)__builtin_return_address(0); }
        KRET(ret, return 0;)
        static struct kretprobe rp = { .kp.symbol_name = "target", .handler = ret };
        static int try(void *addr, const char *name)
        { struct kprobe kp = { .addr = addr, .symbol_name = name };
          return register_kprobe(&kp); }
        INIT(
            int err = register_kretprobe(&rp);
            target();
            pr_info("%d %d %d\\n", try((void *)trampoline, NULL),
                try(NULL, "arch_rethook_trampoline"), try(NULL, "kprobe_int3_handler"));
            return err;
        )
        EXIT(unregister_kretprobe(&rp);)
    """
    box.insmod(module("refuses", body))
    assert box.log()[-1] == "-22 -22 -22"
    box.rmmod("refuses")


def test_a_jprobe_behind_the_first_instruction_is_refused(box):
    body = """
        TARGET long target(long x) { return x; }
        static long entry(long x) { jprobe_return(); return 0; }
        static struct jprobe jp = { .kp.symbol_name = "target", .kp.offset = 5,
            .entry = entry };
        INIT(pr_info("%d\\n", register_jprobe(&jp)); return 0;)
        EXIT()
    """
    box.insmod(module("behind", body))
    assert box.log()[-1] == "-22"
    box.rmmod("behind")


def test_a_module_in_the_blacklist(box):
    body = """
        TARGET void target(void) { barrier(); }
        NOKPROBE_SYMBOL(target);
        INIT(return 0;) EXIT()
    """
    box.insmod(module("nokprobe", body))
    assert "\ttarget [nokprobe]\n" in box.read("/kprobes/blacklist")
    box.rmmod("nokprobe")
    assert "nokprobe]" not in box.read("/kprobes/blacklist")


CTLBLK = """
static unsigned long status, old, saved, saved_regs_di, saved_sp, stack;
TARGET long target(long x) { return x; }
static void look(void)
{
    struct kprobe_ctlblk *kcb = get_kprobe_ctlblk();
    status = kcb->kprobe_status;
    old = kcb->kprobe_old_eflags;
    saved = kcb->kprobe_saved_rflags;
}
PRE(pre, look(); return 0;)
static struct kprobe kp = { .symbol_name = "target", .pre_handler = pre };
static long entry(long x)
{
    struct kprobe_ctlblk *kcb = get_kprobe_ctlblk();
    look();
    saved_regs_di = kcb->jprobe_saved_regs.rdi;
    saved_sp = (unsigned long)kcb->jprobe_saved_esp;
    stack = *(unsigned long *)kcb->jprobes_stack;
    saved_sp = saved_sp == kcb->jprobe_saved_regs.esp &&
        kcb->jprobe_saved_regs.eip == (unsigned long)target + 1;
    jprobe_return(); return 0;
}
static struct jprobe jp = { .kp.symbol_name = "target", .entry = entry };
static int off; module_param(off, int, 0);
static int __init go(void)
{
    unsigned long where;
    kp.offset = off;
    if (register_kprobe(&kp))
        return -EINVAL;
    target(5);
    unregister_kprobe(&kp);
    pr_info("%lx %lx %lx\\n", status, old, saved);
    if (register_jprobe(&jp))
        return -EINVAL;
    target(6);
    unregister_jprobe(&jp);
    where = stack;
    pr_info("%lx %lx %lx di=%lx %lx %pS\\n", status, old, saved, saved_regs_di,
        saved_sp, (void *)where);
    return 0;
}
module_init(go);
EXIT()
"""


@pytest.mark.parametrize("offset", [0, 5])
def test_the_control_block_of_the_paper(box, offset):
    box.insmod(module("ctlblk", CTLBLK, "--api", "2.6"), f"off={offset}")
    pre, jprobe = box.log()[-2:]
    assert pre == "1 200 200"
    assert re.fullmatch(r"1 200 200 di=6 1 go\+0x.* \[ctlblk\]", jprobe)
    box.rmmod("ctlblk")


OOPS = """
TARGET long target(long x) { return x; }
static int bad; module_param(bad, int, 0);
PRE(pre, if (current->pid == bad) __asm__ __volatile__("movq 0x18, %%rax" ::: "rax");
    return 0;)
static struct kprobe kp = { .symbol_name = "__x64_sys_getppid", .pre_handler = pre };
static int off; module_param(off, int, 0);
INIT(kp.offset = off; return register_kprobe(&kp);)
EXIT(unregister_kprobe(&kp);)
"""


@pytest.mark.parametrize("offset", [0, 5])
def test_an_oops_in_a_handler_kills_the_task_alone(box, offset):
    box.insmod(module("oops_handler", OOPS), f"bad=777000 off={offset}")
    box.log()
    assert box.syscall("getppid") == -errno.EFAULT
    log = box.log()
    assert "BUG: kernel NULL pointer dereference, address: 0000000000000018" in log
    assert any(re.match(r"Oops: 0000 \[#1\]", line) for line in log)
    assert any(re.match(r"RIP: 0010:pre\+0x.*\[oops_handler\]", x) for x in log)
    assert any(re.match(r"RAX: [0-9a-f]{16} RBX", line) for line in log)
    assert any("_sys_getppid+0x" in line for line in log)
    assert "Comm: caller" in " ".join(log)
    # another task, and probes on that CPU, go on
    for _ in range(4):
        assert box.syscall("getppid", pid=777_001) == 1
    assert box.syscall("getpid", pid=777_001) == 777_001
    box.rmmod("oops_handler")
    assert box.list() == []


STEPPED = """
TARGET long load(long *p) { return *p + 1; }
static int asked; module_param(asked, int, 0);
int faults;
static int declined(struct kprobe *p, struct pt_regs *r, int trapnr)
{ faults++; return 0; }
static void post(struct kprobe *p, struct pt_regs *r, unsigned long f) { }
static struct kprobe kp = { .symbol_name = "load", .offset = 5 };
INIT(if (asked & 1) kp.fault_handler = declined; if (asked & 2) kp.post_handler = post;
    return register_kprobe(&kp);)
EXIT(unregister_kprobe(&kp);)
"""


@pytest.mark.parametrize("asked", range(4))
def test_an_oops_in_the_copied_instruction(box, asked):
    """The oops names the probed instruction, whatever was asked before.

    In the detour of a jump it would be reported there.
    """
    box.write("/sys/debug/kprobes-optimization", "0\n")
    box.insmod(module("stepped", STEPPED), f"asked={asked}")
    box.log()
    assert box.call_in(777_000, "load", 0x18) == -errno.EFAULT
    log = box.log()
    assert "BUG: kernel NULL pointer dereference, address: 0000000000000018" in log
    assert any(re.match(r"RIP: 0010:load\+0x5/0x.*\[stepped\]", x) for x in log)
    assert box.int_at("faults") == (asked & 1)
    assert box.call_in(777_001, "load", box.address("faults")) > 0
    box.rmmod("stepped")
    assert box.list() == []


def test_instances_of_a_task_that_exits(box):
    """do_exit() does not return: its instances are used again."""
    body = """
        KRET(ret, return 0;)
        WITH_KRETPROBE(.kp.symbol_name = "do_exit", .handler = ret, .maxactive = 2)
    """
    box.insmod(module("exits", body))
    guest = box.kernel.guest
    for pid in range(777_100, 777_110):
        guest.host_tasks.exit(guest.host_tasks.of_process(pid, 0, "mortal", 1))
    raw = guest.read(box.address("rp") + 124, 4)
    assert int.from_bytes(raw, "little") == 0  # nmissed
    box.rmmod("exits")


NAP = """
#include <linux/delay.h>
#include <linux/kthread.h>
TARGET long nap(long ms) { msleep(ms); return 7; }
int result; static int sleeper(void *unused)
{ result = nap(20); return 0; }
INIT(return PTR_ERR_OR_ZERO(kthread_run(sleeper, NULL, "sleeper"));)
EXIT()
"""


@pytest.mark.parametrize("stays", [True, False])
def test_a_call_outlives_the_module_of_its_return_probe(box, stays):
    """The instance is there until the function returns; its handler is not called."""
    box.write("/tracing/kprobe_events", "p:inside napper:nap\n")
    box.write("/tracing/events/kprobes/inside/enable", "1\n")
    body = r"""
        KRET(ret, pr_info("back with %ld\n", regs_return_value(r)); return 0;)
        static struct kretprobe rp = { .kp.symbol_name = "nap", .handler = ret };
        static int event(struct notifier_block *nb, unsigned long state, void *m)
        { return state == MODULE_STATE_COMING ? register_kretprobe(&rp) : 0; }
        static struct notifier_block nb = { .notifier_call = event };
        INIT(return register_module_notifier(&nb);)
        EXIT(unregister_module_notifier(&nb); unregister_kretprobe(&rp);)
    """
    box.insmod(module("hooker", body))
    box.insmod(module("napper", NAP))
    guest = box.kernel.guest
    for _ in range(100):
        if "inside: (nap+0x0" in box.read("/tracing/trace"):
            break
        guest.tick()
    assert box.int_at("result") == 0
    box.log()
    if not stays:
        box.rmmod("hooker")
    for _ in range(1000):
        if box.int_at("result"):
            break
        guest.tick()
    assert box.int_at("result") == 7
    assert box.log() == (["back with 7"] if stays else [])


TWICE = """
static unsigned long trampoline;
TARGET long target(void)
{ trampoline = (unsigned long)__builtin_return_address(0); return 1; }
TARGET long again(void)
{ target(); __asm__ __volatile__("subq $32, %%rsp; call *%0; addq $32, %%rsp" ::
    "r"(trampoline) : "memory", "rax"); return 2; }
KRET(ret, return 0;)
WITH_KRETPROBE(.kp.symbol_name = "target", .handler = ret)
"""


# as Linux 6.1 says it, before "invalid opcode: 0000" and the like
NOT_FOUND = [
    "rethook: rethook: Return address not found! Maybe there is a bug in the kernel",
    "------------[ cut here ]------------",
    "kernel BUG at kernel/trace/rethook.c:300!",
]


def test_a_return_that_was_not_expected(box):
    box.insmod(module("twice", TWICE))
    box.log()
    assert box.call_in(777_000, "again") == -errno.EFAULT
    log = box.log()
    assert log[:3] == NOT_FOUND
    assert log[3].startswith("invalid opcode: 0000")
    assert not [line for line in log if line.startswith("note: ")]
    assert any("RIP: 0010:rethook_trampoline_handler+0x" in line for line in log)
    # the frames end there; what else is on the stack is shown with a "?"
    assert any(re.match(r" \? again\+0x\w+/0x\w+ \[twice\]$", line) for line in log)
    assert box.syscall("getpid", pid=777_001) == 777_001
    box.rmmod("twice")


# with the stack as target() left it when it returned
SECOND = TWICE.replace('"subq $32, %%rsp; call *%0; addq $32, %%rsp"', '"jmp *%0"')


def test_dump_stack_below_a_return_probe(box):
    """The dump has what is on the stack, as in Linux, not the replaced address."""
    body = """
        TARGET long target(void) { dump_stack(); return 1; }
        TARGET long caller(void) { return target() + 1; }
        KRET(ret, return 0;)
        WITH_KRETPROBE(.kp.symbol_name = "target", .handler = ret)
    """
    box.insmod(module("dumps", body))
    box.log()
    assert box.call("caller") == 2
    log = box.log()
    at = log.index(" <TASK>") + 1
    sure = [line for line in log[at:] if not line.startswith(" ?")]
    assert sure[0].startswith(" target+0x")
    assert sure[1].startswith(" arch_rethook_trampoline+0x0/")


def test_a_function_that_returns_twice(box):
    """The message names the return probe and the function."""
    box.insmod(module("second", SECOND))
    rp = box.address("rp")
    target = box.address("target")
    box.log()
    assert box.call_in(777_000, "again") == -errno.EFAULT
    bug = f"kretprobe BUG!: Processing kretprobe {rp:016x} @ {target:016x}"
    assert box.log()[:4] == [bug, *NOT_FOUND]
    box.rmmod("second")


def test_jprobes_with_python_entries(box):
    st = box.kernel.state
    seen = []

    def entry(dfd, filename):
        seen.append((dfd & 0xFFFFFFFF, box.kernel.guest.read(filename, 5)))

    jp = Jprobe(kp=Kprobe(symbol_name="do_sys_openat2"), entry=entry)
    register_jprobe(st, jp)
    assert box.list() == ["j do_sys_openat2+0x0 [FTRACE]"]
    seen.clear()
    assert box.syscall("openat", 77, "/none", 0, 0) == -errno.ENOENT
    assert seen == [(77, b"/none")]
    unregister_kprobe(st, jp.kp)
    assert box.syscall("openat", 77, "/none", 0, 0) == -errno.ENOENT
    assert len(seen) == 1


def test_jprobe_return_outside_is_an_oops(box):
    body = """
        TARGET void stray(void) { jprobe_return(); }
        TARGET void probed(void) { barrier(); }
        PRE(pre, jprobe_return(); return 0;)
        WITH_KPROBE(.symbol_name = "probed", .pre_handler = pre)
    """
    box.insmod(module("stray", body))
    box.log()
    assert box.call_in(777_000, "stray") == -errno.EFAULT
    assert any(line.startswith("int3: 0000") for line in box.log())
    # and after a jprobe has been there; in a handler too
    box.insmod("jprobe_example")
    for pid, name in ((777_001, "stray"), (777_002, "probed")):
        assert box.syscall("openat", 77, "/x", 0, 0, pid=pid) == -errno.ENOENT
        box.log()
        assert box.call_in(pid, name) == -errno.EFAULT
        assert any(line.startswith("int3: 0000") for line in box.log())
    box.rmmod("jprobe_example")
    box.rmmod("stray")
    assert box.list() == []


EXAMPLES = {
    "kprobe_example": [
        r"kprobe_example: caller\[777000\] at do_sys_openat2\+0x0, arg1 = 4d",
        r"kprobe_example: behind it, ip = do_sys_openat2\+0x5/0x.*",
    ],
    "jprobe_example": ["jprobe_example: dfd = 77, flags = 0x200, mode = 00"],
    "kretprobe_example symbol=do_sys_openat2": [
        r"kretprobe_example: do_sys_openat2 = -2 for caller\[777000\], "
        r"back to __x64_sys_openat\+0x.*",
    ],
}


@pytest.mark.parametrize("words", EXAMPLES)
def test_what_the_examples_say(box, words):
    box.insmod(words)
    box.log()
    assert box.syscall("openat", 77, "/none", 0o1000, 0) == -errno.ENOENT
    log = box.log()
    assert len(log) == len(EXAMPLES[words])
    for pattern, line in zip(EXAMPLES[words], log, strict=True):
        assert re.fullmatch(pattern, line)
    name = words.split()[0]
    box.rmmod(name)
    if name != "jprobe_example":
        assert box.log()[-1] == f"{name}: 0 missed"


JUMP = """
static long total;
notrace TARGET long target(long x) { total = total * 3 + x; return total ? x * 10 : 0; }
static int hits, returns;
PRE(pre, hits++; r->di = 5; r->ip = 0; return 1;)
KRET(ret, returns += regs_return_value(r); return 0;)
static struct kprobe kp = { .symbol_name = "target", .pre_handler = pre };
static struct kretprobe rp = { .kp.symbol_name = "target", .handler = ret };
INIT(return register_kretprobe(&rp) ?: register_kprobe(&kp);)
EXIT(unregister_kprobe(&kp); unregister_kretprobe(&rp);)
"""


def test_a_return_probe_beside_a_kprobe_by_a_jump(box):
    box.insmod(module("jump", JUMP))
    box.settle()  # the optimizer runs
    assert "# jump, was: " in box.read("/machine/text/target")
    # registers can be changed, but where it goes on cannot
    assert [box.call("target", 1), box.call("target", 2)] == [50, 50]
    assert [box.int_at(name) for name in ("hits", "returns")] == [2, 100]
    box.rmmod("jump")
    assert box.list() == []


STACKS = """
PRE(pre, dump_stack(); return 0;)
KRET(entry, dump_stack(); return 0;)
KRET(ret, return 0;)
#define BOTH(name) \\
    TARGET long name(long x) { return x * 10 + 1; } \\
    static struct kprobe name##_kp = { .symbol_name = #name, .pre_handler = pre }; \\
    static struct kretprobe name##_rp = \\
    { .kp.symbol_name = #name, .entry_handler = entry, .handler = ret }
notrace BOTH(plain);
BOTH(traced);
TARGET long caller(long t) { long v = t ? traced(3) : plain(3); barrier(); return v; }
INIT(return register_kretprobe(&plain_rp) ?: register_kprobe(&plain_kp) ?:
    register_kretprobe(&traced_rp) ?: register_kprobe(&traced_kp);)
EXIT(unregister_kprobe(&plain_kp); unregister_kretprobe(&plain_rp);
    unregister_kprobe(&traced_kp); unregister_kretprobe(&traced_rp);)
"""


def test_stack_traces_of_handlers_beside_a_return_probe(box):
    """A breakpoint and ftrace show the caller, a jump stops at the detour buffer."""

    def stacks(traced):
        assert box.call("caller", traced) == 31
        traces = "\n".join(box.log()).split("<TASK>\n")[1:]
        # addresses without names are those of the engine's code
        found = (re.findall(r"^ (\w+)\+", trace, re.MULTILINE) for trace in traces)
        return [trace[:3] for trace in found]

    box.write("/sys/debug/kprobes-optimization", "0\n")
    box.insmod(module("stacks", STACKS))
    box.log()
    assert stacks(0) == [["pre", "plain", "caller"], ["entry", "plain", "caller"]]
    assert stacks(1) == [["pre", "traced", "caller"], ["entry", "traced", "caller"]]
    assert re.search(r"^breakpoint +2 +1 +0$", box.read("/machine/stats"), re.MULTILINE)
    assert "handlers of traced:" in box.read("/machine/text/traced")
    box.write("/sys/debug/kprobes-optimization", "1\n")
    box.settle()
    box.log()
    assert stacks(0) == [["pre"], ["entry"]]
    assert "handlers of plain:" in box.read("/machine/text/plain")
    box.rmmod("stacks")


def test_a_module_goes_with_a_kprobe_and_a_return_probe_on_it(box):
    caches = box.kernel.state.insn_caches
    before = [cache.nr_used for cache in caches]
    target = "notrace TARGET long goes(long x) { return x * 10 + 1; }\n"
    box.insmod(module("its", target + "EXPORT_SYMBOL_GPL(goes);\n"))
    _, *rest = JUMP.partition("static int hits")
    probes = "".join(rest).replace('"target"', '"goes"')
    box.insmod(module("its_probes", probes))
    box.kernel.guest.tick()
    assert box.list() == [f"{kind} goes+0x0 its [OPTIMIZED]" for kind in "kr"]
    box.rmmod("its")
    assert all("[GONE]" in line for line in box.list())
    box.rmmod("its_probes")
    box.settle(12)
    assert [cache.nr_used for cache in caches] == before


def test_function_time(box):
    box.insmod("function_time", "symbol=__x64_sys_getppid")
    box.log()
    for _ in range(3):
        box.syscall("getppid")
    box.rmmod("function_time")
    (line,) = box.log()
    shown = re.fullmatch(
        r"function_time: __x64_sys_getppid: (\d+) calls, (\d+) ns on average, "
        r"(\d+) ns at most, 0 missed",
        line,
    )
    assert shown
    assert int(shown[1]) >= 3
    assert 0 < int(shown[2]) <= int(shown[3])


def test_fault_injection(box):
    box.insmod(
        "fault_injection", "symbol=__x64_sys_getppid error=-5 pid=777000 times=2"
    )
    results = [box.syscall("getppid") for _ in range(3)]
    assert results == [-errno.EIO, -errno.EIO, 1]
    box.rmmod("fault_injection")


def test_insmod_by_a_system_call_that_is_probed(box):
    """Loading is the caller's own system call: probes see it."""
    box.write("/tracing/kprobe_events", "p:load do_init_module\n")
    box.write("/tracing/events/kprobes/load/enable", "1\n")
    box.insmod("kretprobe_example")
    assert "load: (do_init_module+0x0/" in box.read("/tracing/trace")
    box.write("/tracing/events/kprobes/load/enable", "0\n")
    box.rmmod("kretprobe_example")


def test_refusals_have_no_effect(box):
    for text in ("\n", "  \n"):
        assert code(box.write, "/machine/insmod", text) == "EINVAL"
        assert code(box.write, "/machine/rmmod", text) == "EINVAL"
    assert box.modules() == []


INWARDS = r"""
__asm__(".text\n.globl twice\n.type twice, @function\n"
"twice: nop\n1: leaq 1(%rdi), %rdi\n movq %rdi, %rax\n"
"testq %rsi, %rsi\n jz 2f\n xorl %esi, %esi\n call 1b\n2: ret\n"
".size twice, .-twice\n");
int hits; PRE(pre, hits++; return 0;)
WITH_KPROBE(.symbol_name = "twice", .pre_handler = pre)
"""


def test_a_function_that_calls_into_its_own_first_bytes(box):
    """No jump may replace what a call leads into; Linux 6.1 oopses here."""
    box.insmod(module("inwards", INWARDS))
    box.settle(12)
    assert box.list() == ["k twice+0x0 inwards"]
    assert box.call_in(777_000, "twice", 7, 1) == 9
    assert box.int_at("hits") == 1


MENDED = """
TARGET long load(long *p) { return *p + 1; }
long value = 41;
static int mend(struct kprobe *p, struct pt_regs *r, int trapnr)
{ r->di = (unsigned long)&value; return 1; }
WITH_KPROBE(.symbol_name = "load", .offset = 5, .fault_handler = mend)
"""


def test_a_fault_is_mended_however_late(box):
    """A probe with a fault_handler stays a breakpoint, or the handler were lost."""
    box.insmod(module("mended", MENDED))
    assert box.call_in(777_000, "load", 0x18) == 42
    box.settle(12)
    assert box.list() == ["k load+0x5 mended"]
    assert box.call_in(777_000, "load", 0x18) == 42


RETURNS = """
TARGET long target(long x) { return x; }
int seen; static long entry(long x) { seen += x; jprobe_return(); return 0; }
static struct jprobe jp = { .kp.symbol_name = "target", .entry = entry };
INIT(return register_jprobe(&jp);)
EXIT(unregister_jprobe(&jp);)
"""


def test_jprobe_return_traps_no_more_while_there_are_jprobes(box):
    """A jump stands over its breakpoint, whose trap was most of what a hit took."""
    at = box.address("jprobe_return_end") - 1
    before = box.kernel.guest.read(at, 5)
    assert before[:1] == b"\xcc"
    box.insmod(module("returns", RETURNS))
    assert box.kernel.guest.read(at, 1) == b"\xe9"
    for offset in (5, 6):
        assert box.call_in(777_000, "target", offset) == offset
    assert box.int_at("seen") == 11
    box.rmmod("returns")
    assert box.kernel.guest.read(at, 5) == before


STEPPED_BESIDE = r"""
__asm__(".text\n.globl stepped\n.type stepped, @function\n"
"stepped: incq %rdi\n movq %rdi, %rax\n ret\n"
".size stepped, .-stepped\n");
int hits, returns; PRE(pre, hits++; return 0;)
KRET(ret, returns += regs_return_value(r); return 0;)
static struct kprobe kp = { .symbol_name = "stepped", .pre_handler = pre };
static struct kretprobe rp = { .kp.symbol_name = "stepped", .handler = ret };
INIT(return register_kprobe(&kp) ?: register_kretprobe(&rp);)
EXIT(unregister_kprobe(&kp); unregister_kretprobe(&rp);)
"""


def test_a_return_probe_beside_a_kprobe_on_a_stepped_instruction(box):
    """One block of code calls both handlers."""
    box.insmod(module("stepped_beside", STEPPED_BESIDE))
    assert [box.call("stepped", x) for x in (6, 7)] == [7, 8]
    assert [box.int_at(name) for name in ("hits", "returns")] == [2, 15]
    state = box.kernel.state
    assert "step" in ainsn_of(there(get_kprobe(state, box.address("stepped")))).blocks
    assert "breakpoint, was: inc rdi" in box.read("/machine/text/stepped")
    stats = box.read("/machine/stats")
    assert re.search(r"^breakpoint +2 +2 +0$", stats, re.MULTILINE)
    box.rmmod("stepped_beside")
    assert box.list() == []
