# SPDX-License-Identifier: GPL-2.0-or-later
"""The log of faults, of warnings and of lines in pieces.

This also tests kpfs.guest.running.backtrace and kpfs.guest.running.unwind.
"""

import errno
import re

import pytest

from tests.modbox import module

BAD = r"""
TARGET long bad(long *p) { *p = 5; return 0; }
TARGET long warn(long n) { WARN(n, "%ld is too much\n", n); WARN_ONCE(n, "said once\n");
    return WARN_ON(n == 7); }
TARGET long bug(long n) { BUG_ON(n); return 0; }
static char text[16];
TARGET long pieces(long n) { sprintf(text, "<%ld>", n);
pr_info("a"); pr_cont("b"); pr_cont(" %s\nc", text); pr_cont("d\n");
pr_cont("e\n"); pr_info("left open"); return 0; }
"""
REGISTERS = [
    r"RIP: 0010:bad\+0x\w+/0x\w+ \[bad\]",
    r"Code: ([0-9a-f]{2} ){42}<48> c7 07( [0-9a-f]{2}){19}",
    r"RSP: 0018:ffff\w{12} EFLAGS: \w{8}",
    r"RAX: \w{16} RBX: \w{16} RCX: \w{16}",
    r"RDX: \w{16} RSI: \w{16} RDI: 0000000000000010",
    r"RBP: \w{16} R08: \w{16} R09: \w{16}",
    r"R10: \w{16} R11: \w{16} R12: \w{16}",
    r"R13: \w{16} R14: \w{16} R15: \w{16}",
    r"FS:  \w{16}\(\w{4}\) GS:\w{16}\(\w{4}\) knlGS:\w{16}",
    r"CS:  0010 DS: \w{4} ES: \w{4} CR0: \w{16}",
    r"CR2: 0000000000000010 CR3: \w{16} CR4: \w{16}",
]


def oops(box, name, *args):
    """Have a new task call a function that kills it; return what the log says."""
    assert box.call_in(777_000, name, *args) == -errno.EFAULT
    return [line for line in box.log() if not line.startswith("kprobes: ")]


def matched(patterns, lines):
    assert len(lines) >= len(patterns)
    for pattern, line in zip(patterns, lines, strict=False):
        assert re.fullmatch(pattern, line)
    return lines[len(patterns) :]


@pytest.fixture
def bad(box):
    # with bytes before the first function, which the message shows
    box.insmod(module("bad", 'asm(".text; .skip 64, 0x90");\n' + BAD))
    box.log()
    return box


def test_the_whole_message(bad):
    cpu = r"CPU: \d PID: 777000 Comm: caller "
    log = matched(
        [
            r"BUG: kernel NULL pointer dereference, address: 0000000000000010",
            r"#PF: supervisor write access in kernel mode",
            r"#PF: error_code\(0x0002\) - not-present page",
            r"Oops: 0002 \[#1\] PREEMPT SMP NOPTI",
            cpu + r"Not tainted 6\.1\.0-kpfs #1",
            *REGISTERS,
            r"Call Trace:",
            r" <TASK>",
        ],
        oops(bad, "bad", 0x10),
    )
    log = log[log.index(" </TASK>") + 1 :]
    end = ["CR2: 0000000000000010", "---\\[ end trace 0000000000000000 \\]---"]
    log = matched(["Modules linked in: bad", *end, *REGISTERS], log)
    assert log == []
    # the kernel is tainted (D) now; what is shown at the end is the first of all
    again = oops(bad, "bad", 0x20)
    assert "Oops: 0002 [#2] PREEMPT SMP NOPTI" in again
    assert any(re.fullmatch(cpu + "Tainted: G      D {12}6.*", x) for x in again)
    matched(REGISTERS[:-1], again[-len(REGISTERS) :])


def test_a_notifier_stops_it(bad):
    """The notifier mended the cause, so the task goes on."""
    notifier = """
        #include <linux/notifier.h>
        static int skip(struct notifier_block *nb, unsigned long what, void *data)
        { struct die_args *args = data; if (what != DIE_OOPS) return NOTIFY_DONE;
        args->regs->ip += 7; return NOTIFY_STOP; }
        static struct notifier_block nb = { .notifier_call = skip };
        INIT(return register_die_notifier(&nb);)
        EXIT(unregister_die_notifier(&nb);)
    """
    bad.insmod(module("skip", notifier))
    bad.log()
    assert bad.call("bad", 0x10) == 0
    log = bad.log()
    assert "Oops: 0002 [#1] PREEMPT SMP NOPTI" in log
    assert "CR2: 0000000000000010" in log
    assert bad.call("bad", bad.address("text")) == 0
    bad.rmmod("skip")
    assert "Oops: 0002 [#2] PREEMPT SMP NOPTI" in oops(bad, "bad", 0x10)


def test_bug(bad):
    log = oops(bad, "bug", 1)
    assert log[0] == "------------[ cut here ]------------"
    assert re.fullmatch(r"kernel BUG at .*bad\.c:\d+!", log[1])
    assert log[2] == "invalid opcode: 0000 [#1] PREEMPT SMP NOPTI"
    assert "Modules linked in: bad" in log
    assert not any(line.startswith("CR2: ") for line in log[:-1] if "CR3" not in line)


def test_warnings(bad):
    cut = "------------[ cut here ]------------"
    assert bad.call("warn", 3) == 0
    log = bad.log()
    assert [log[0], log[1]] == [cut, "3 is too much"]
    assert re.fullmatch(r"WARNING: CPU: \d PID: 1 at .*bad\.c:\d+ warn\+0x.*", log[2])
    assert log[3] == "Modules linked in: bad"
    assert "Not tainted" in log[4]
    second = log.index(cut, 1)
    assert log[second - 1] == "---[ end trace 0000000000000000 ]---"
    assert log[second + 1] == "said once"
    assert log.count(cut) == 2
    assert bad.call("warn", 7) == 1
    log = bad.log()
    assert log.count(cut) == 2
    assert "said once" not in log
    assert any("Tainted: G        W          6.1.0-kpfs #1" in line for line in log)


def test_modules_in_the_message(bad):
    bad.insmod(module("other", ""))
    bad.insmod(module("left", ""))
    bad.rmmod("left")
    log = oops(bad, "bad", 0x10)
    assert "Modules linked in: other bad [last unloaded: left]" in log
    starting = "INIT(WARN_ON(1); return 0;)\n"
    bad.log()
    bad.insmod(module("starting", starting))
    said = "Modules linked in: starting(+) other bad [last unloaded: left]"
    assert said in bad.log()


def test_lines_in_pieces(bad):
    """Each line is one record, which appears when the line is complete."""
    bad.call("pieces", 12)
    assert bad.log() == ["ab <12>", "cd", "e"]
    bad.call("pieces", 3)
    assert bad.log() == ["left open", "ab <3>", "cd", "e"]
