# SPDX-License-Identifier: GPL-2.0-or-later
"""Instructions that cannot be stepped elsewhere: both ways of emulating them."""

import random

import pytest

from kpfs.base.x86 import X86_EFLAGS_IF
from kpfs.engine.arch.x86.regs import CX, FLAGS, INDEX, IP, ORIG_AX, SP
from kpfs.engine.register import unregister_kprobe
from kpfs.engine.runtime.records import KpEvent
from tests.unit.engine.arch.bare import NOP5

pytestmark = pytest.mark.guest

AT = 5
JCC_SHORT = {f"j{cc:x} short": f"{0x70 + cc:x}10" for cc in range(16)}
JCC_NEAR = {f"j{cc:x} near": f"0f{0x80 + cc:x}40000000" for cc in range(16)}
CODES = {
    "call": "e840000000",
    "call backward": "e800ffffff",
    "jmp short": "eb20",
    "jmp near": "e940000000",
    "jmp to itself + 2": "eb00",
    **JCC_SHORT,
    **JCC_NEAR,
    "loopne": "e010",
    "loope": "e110",
    "loop": "e210",
    "loop backward": "e2f0",
    "jrcxz": "e310",
    "loopne ecx": "67e010",
    "loope ecx": "67e110",
    "loop ecx": "67e210",
    "jecxz": "67e310",
    "ret": "c3",
    "ret 16": "c21000",
    "call *rax": "ffd0",
    "call *r11": "41ffd3",
    "call *rsp": "ffd4",
    "call *r12": "41ffd4",
    "jmp *rcx": "ffe1",
    "jmp *rsp": "ffe4",
    "jmp *r15": "41ffe7",
    "notrack jmp *rax": "3effe0",
    "pushf": "9c",
    "pushfw": "669c",
    "popf": "9d",
    "popfw": "669d",
    "cli": "fa",
    "sti": "fb",
}
# for comparison: copied and stepped, or copied and boosted
PLAIN = {
    "mov r,r": "4889f8",
    "lea rip": "488d0511000000",
    "push rsp": "54",
    "pop rax": "58",
    "shl imm": "48c1e003",
    "test imm": "f7c700010000",
    "neg": "48f7d8",
    "cmp": "4839f8",
    "setc": "0f92c0",
    "cmov": "480f44c7",
    "push imm": "6801000080",
    "leave": "c9",
}
ALL = {**CODES, **PLAIN}


def registers(b, rng, addr):
    """Random ones; those that may be jumped to or popped are addresses of text."""
    values = [b.machine.target + 8 * rng.randrange(32) for _ in range(21)]
    values[CX] = rng.choice((0, 1, 2, 1 << 32, (1 << 32) + 1, rng.getrandbits(64)))
    values[INDEX["bp"]] = b.machine.stack + 64
    values[FLAGS] = rng.getrandbits(12) & 0x8D5 | 2 | rng.choice((0, X86_EFLAGS_IF))
    values[SP] = b.machine.stack + 16
    values[IP] = addr
    return values


@pytest.fixture
def b(box):
    """A box with each code as a function of its name, behind five bytes."""
    codes = {name: NOP5 + bytes.fromhex(code) for name, code in ALL.items()}
    return box({"a": NOP5, "other": NOP5, **codes}, optprobes=False)


@pytest.mark.parametrize("kind", ["pre", "post", "guest", "guest post", "missed"])
def test_probed_is_as_unprobed(b, kind):
    for name in ALL:
        rng = random.Random(name)
        at = b.machine.addr(name, AT)
        cases = [registers(b, rng, at) for _ in range(8 if "j" in name else 4)]
        if name == "jmp *rcx":
            for values in cases:
                values[CX] = b.machine.target
        check(b, name, kind, cases)


def check(b, name, kind, cases):
    """Compare the steps of one code, alone and with a probe of that kind."""
    at = b.machine.addr(name, AT)
    alone = [b.machine.step(values) for values in cases]
    fields = {}
    if "guest" in kind:
        event = b.runtime.make(KpEvent)
        fields["pre_handler"] = b.runtime.symbols["kp_event_handler"]
        fields["data"] = event.addr
    elif kind != "post":
        fields["pre_handler"] = b.note("hit")
    if "post" in kind:
        fields["post_handler"] = b.note("post")
    p = b.probe(name, AT, **fields)
    cpu = b.runtime.cpus[0]
    for values, (regs, stack) in zip(cases, alone, strict=True):
        if kind == "missed":
            cpu.current_kprobe, cpu.status = 1, 1
        b.seen.clear()
        to = regs[IP]
        found, memory = b.machine.run_to(values, to)
        found[ORIG_AX] = regs[ORIG_AX]
        assert [f"{v:x}" for v in found] == [f"{v:x}" for v in regs], name
        assert memory == stack, name
        if kind == "missed":
            assert (cpu.current_kprobe, cpu.status) == (1, 1), name
            assert b.seen == [], name
        else:
            assert b.cpu_state() == (0, 0), name
            wanted = {"pre": [("hit", at + 1)], "guest": []}
            assert b.seen == wanted.get(kind, [("post", to)]), name
    assert b.arch.nmissed(p) == (len(cases) if kind == "missed" else 0), name
    cpu.current_kprobe, cpu.status = 0, 0
    unregister_kprobe(b.state, p)


def test_slot_traps_only_where_it_must(b):
    for name in CODES:
        p = b.probe(name, AT, pre_handler=b.note("hit"))
        assert p.ainsn.hit.step == (name == "call *rsp"), name
