# SPDX-License-Identifier: GPL-2.0-or-later
"""x86's verdicts on bytes: boundaries, refusals, boosting, emulation, optimisation."""

import errno

import pytest

from kpfs.engine.arch.x86.checks.optimize import Obstacle, Region, Why, can_optimize
from kpfs.engine.arch.x86.checks.probe import (
    Emulation,
    MachineText,
    arch_adjust_kprobe_addr,
    can_boost,
    can_probe,
    emulation,
    prepare_kprobe,
    relocate,
)
from kpfs.engine.arch.x86.insn import decode
from kpfs.engine.errors import KernelError, MemoryFault
from kpfs.engine.ktypes import KAddr, Symbol

F = 0xFFFF_FFFF_8100_0100  # the function under test
THUNKS = 0xFFFF_FFFF_8180_0000
ENTRY = 0xFFFF_FFFF_8170_0000


class Tables:
    """One function at F in otherwise empty text."""

    def __init__(self, code, *, reserved=(), exceptions=(), ftrace=()):
        self.kallsyms = self.text = self
        self.bytes = bytes.fromhex(code)
        self.size = len(self.bytes)
        self.reserved = reserved
        self.exceptions = exceptions
        self.ftrace = [F + offset for offset in ftrace]
        self.markers = {
            "__indirect_thunk_start": THUNKS,
            "__indirect_thunk_end": THUNKS + 0x100,
            "__entry_text_start": ENTRY,
            "__entry_text_end": ENTRY + 0x100,
        }

    def lookup_name(self, name):
        if name in self.markers:
            return [Symbol(name, KAddr(self.markers[name]), 0, "T")]
        return []

    def symbol_at(self, addr):
        if F <= addr < F + self.size:
            return Symbol("f", KAddr(F), self.size, "t")
        return None

    def ftrace_location(self, start, end):
        return next((s for s in self.ftrace if start <= s <= end), None)

    def text_reserved(self, start, end):
        return any(
            F + at <= end and F + at + size > start for at, size in self.reserved
        )

    def has_exception_entry(self, start, end):
        return any(start <= F + at < end for at in self.exceptions)

    def read(self, addr, size):
        if not F <= addr < F + self.size:
            raise MemoryFault(addr)
        return self.bytes[addr - F : addr - F + size]


def text(code, **kwargs):
    return MachineText(Tables(code, **kwargs))


def insn(code):
    return decode(bytes.fromhex(code), F)


PLAIN = "55 4889e5 4883ec10 31c0 c9 c3 cccc"  # 1 3 4 2 1 1, int3 int3


def test_boundaries():
    t = text(PLAIN)
    starts = [at for at in range(len(t.tables.bytes)) if can_probe(t, F + at)]
    assert starts == [0, 1, 4, 8, 10, 11, 12, 13]
    assert list(t.function(F + 5).boundaries) == [F + at for at in starts]
    assert not can_probe(t, F + 100)
    assert not can_probe(t, F - 1)


def test_probes_are_undone_before_decoding():
    tables = Tables(PLAIN)
    original = tables.bytes

    def undo(addr, size):
        return original[addr - F : addr - F + size]

    tables.bytes = bytes.fromhex("e911223344") + original[5:]
    t = MachineText(tables, undo)
    assert can_probe(t, F + 1)
    assert not can_probe(t, F + 5)


def test_ftrace_site_reads_as_nop():
    t = text("e811223344 c3", ftrace=[0])
    assert t.code(F, 6).hex() == "0f1f440000c3"
    assert prepare_kprobe(t, F).raw.hex() == "0f1f440000"


def test_decoded_once_and_again_when_bytes_change():
    tables = Tables(PLAIN)
    t = MachineText(tables)
    fn = t.function(F)
    assert t.function(F + 8) is fn
    tables.bytes = b"\x90" + tables.bytes[1:]
    assert t.function(F) is not fn
    assert t.function(F).insns[0].raw == b"\x90"


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("cc", errno.EINVAL),
        ("8ed0", errno.EINVAL),  # mov %eax,%ss
        ("0f0b78656e0fa2", errno.EINVAL),  # for the hypervisor to emulate
        ("cf", errno.EOPNOTSUPP),  # iret
        ("ea112233445566", errno.EOPNOTSUPP),
        ("0f01c1", errno.EOPNOTSUPP),  # vmcall
        ("ff10", errno.EOPNOTSUPP),  # call *(%rax)
        ("ff2511223344", errno.EOPNOTSUPP),  # jmp *x(%rip)
        ("ff28", errno.EOPNOTSUPP),  # far
        ("67ffd0", errno.EOPNOTSUPP),
    ],
)
def test_refused_instructions(code, error):
    with pytest.raises(KernelError) as refused:
        prepare_kprobe(text(code + "90" * 8), F)
    assert refused.value.errno == error
    assert refused.value.why


def test_not_a_boundary():
    with pytest.raises(KernelError) as refused:
        prepare_kprobe(text(PLAIN), F + 2)
    assert refused.value.errno == errno.EILSEQ


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("55", Emulation.NONE),
        ("fa", Emulation.IFMODIFIERS),
        ("9d", Emulation.IFMODIFIERS),
        ("c3", Emulation.RET),
        ("c20800", Emulation.RET),
        ("e800000000", Emulation.CALL),
        ("eb00", Emulation.JMP),
        ("e900000000", Emulation.JMP),
        ("7400", Emulation.JCC),
        ("0f8500000000", Emulation.JCC),
        ("e2fe", Emulation.LOOP),
        ("e300", Emulation.LOOP),
        ("ffd0", Emulation.CALL_INDIRECT),
        ("41ffe3", Emulation.JMP_INDIRECT),
        ("ff30", Emulation.NONE),  # push (%rax)
        ("0f01ca", Emulation.NONE),  # clac
        ("c5f877", Emulation.NONE),  # vzeroupper: has the opcode byte of ja
        ("c5f9e8c1", Emulation.NONE),  # vpsubsb: of call
    ],
)
def test_emulation(code, kind):
    assert emulation(insn(code)) is kind


@pytest.mark.parametrize(
    ("code", "boost"),
    [
        ("55", True),
        ("4889e5", True),
        ("c3", True),
        ("0f1f440000", True),
        ("0f44c1", True),  # cmov
        ("0fb6c0", True),
        ("ffe0", True),
        ("ffc0", False),  # inc
        ("ff30", False),
        ("7400", False),
        ("e800000000", False),
        ("c1e004", False),
        ("f7d8", False),
        ("0f8500000000", False),
        ("0fae00", False),
        ("0fbae000", False),
        ("0f3800c1", False),
        ("2e90", False),  # CS prefix
        ("678b00", False),  # 32-bit address
        ("f0ff00", False),
        ("f3a4", True),
        ("c5f877", False),
        ("c5f96fc1", True),
        ("cc", False),
    ],
)
def test_boost(code, boost):
    assert can_boost(text("90"), insn(code)) is boost


def test_instruction_with_fix_up_is_not_boosted():
    assert not can_boost(text("8b00", exceptions=[0]), insn("8b00"))


def test_relocate():
    lea = insn("488d0510000000")
    moved = relocate(lea, F + 0x1000)
    assert moved.hex() == "488d0510f0ffff"
    assert decode(moved, F + 0x1000).disp + F + 0x1000 == lea.disp + F
    assert relocate(insn("4889e5"), F + 0x1000) == insn("4889e5").raw
    # the immediate behind the displacement stays
    assert relocate(insn("833d1000000007"), F + 16).hex() == "833d0000000007"
    with pytest.raises(KernelError) as refused:
        relocate(lea, F - 0x9000_0000)
    assert refused.value.errno == errno.EINVAL


def test_landing_pad():
    t = text("f30f1efa 55 c3")
    assert arch_adjust_kprobe_addr(t, F, 0) == (F + 4, True)
    assert arch_adjust_kprobe_addr(t, F, 4) == (F + 4, True)
    assert arch_adjust_kprobe_addr(t, F, 5) == (F + 5, False)
    t = text(PLAIN)
    assert arch_adjust_kprobe_addr(t, F, 0) == (F, True)
    assert arch_adjust_kprobe_addr(t, F, 1) == (F + 1, False)


# ---- optimisation


def region_size(code, at=0, **kwargs):
    verdict = can_optimize(text(code, **kwargs), F + at)
    assert isinstance(verdict, Region), verdict
    return verdict.size


def obstacle(code, at=0, **kwargs):
    verdict = can_optimize(text(code, **kwargs), F + at)
    assert isinstance(verdict, Obstacle)
    return verdict.why, verdict.addr - F if verdict.addr else None


def test_region_is_whole_instructions():
    assert region_size(PLAIN) == 8
    assert region_size(PLAIN, 1) == 7
    assert region_size(PLAIN, 4) == 6


def test_fewer_than_five_bytes():
    code = "90" * 16
    assert region_size(code, 11) == 5
    assert obstacle(code, 12)[0] is Why.NO_ROOM


def test_instruction_that_needs_a_step():
    assert obstacle("55 7420 90909090 c3") == (Why.NOT_BOOSTABLE, 1)
    assert obstacle("55 c3 cccccccccccc") == (Why.NOT_RELOCATABLE, 2)


@pytest.mark.parametrize("jump", ["eb", "74", "e2", "e3"])
@pytest.mark.parametrize("at", range(8))
def test_jump_into_the_region(jump, at):
    # 8 nops, then a jump to one of them; the probe is on the first
    code = "90" * 8 + jump + (at - 10 & 0xFF).to_bytes(1, "little").hex() + "90" * 4
    if 1 <= at <= 5:  # behind the jump's own bytes, too
        assert obstacle(code) == (Why.JUMP_INTO, 8)
    else:
        assert region_size(code) == 5


def test_near_jump_into_the_region():
    code = "90" * 8 + "0f85f7ffffff" + "90" * 4
    assert obstacle(code)[0] is Why.JUMP_INTO
    call = "90" * 8 + "e8f5ffffff" + "90" * 4
    assert region_size(call) == 5


def test_whole_function_is_looked_at():
    body = "9090909090909090"
    assert obstacle(body + "8b00c3", exceptions=[8]) == (Why.EXCEPTION, 8)
    assert obstacle(body + "ffe0") == (Why.INDIRECT_JUMP, 8)
    assert obstacle(body + "ff24c511223344") == (Why.INDIRECT_JUMP, 8)
    assert obstacle(body + "0f3a") == (Why.UNDECODABLE, 8)
    assert region_size(body + "ffd0c3") == 5  # an indirect call is harmless


def rel32(source, target):
    return (target - source).to_bytes(4, "little", signed=True).hex()


@pytest.mark.parametrize("target", [THUNKS, THUNKS + 0x100])
def test_retpoline(target):
    body = "90" * 8
    jump = "e9" + rel32(F + 13, target)
    assert obstacle(body + jump) == (Why.THUNK_JUMP, 8)
    jcc = "0f84" + rel32(F + 14, target)
    assert obstacle(body + jcc) == (Why.THUNK_JUMP, 8)
    call = "e8" + rel32(F + 13, target)
    assert region_size(body + call + "c3") == 5
    near = "e9" + rel32(F + 13, THUNKS + 0x101)
    assert region_size(body + near) == 5


def test_text_that_others_patch():
    code = "90" * 16
    assert obstacle(code, reserved=[(4, 5)])[0] is Why.RESERVED
    assert obstacle(code, 8, reserved=[(4, 5)])[0] is Why.RESERVED
    assert region_size(code, reserved=[(5, 2)]) == 5
    assert obstacle("90" * 4 + "0f1f440000" + "90" * 8, ftrace=[4]) == (Why.RESERVED, 4)


def test_first_culprit_is_named():
    code = "90" * 8 + "ffe0" + "0f3a"
    assert obstacle(code) == (Why.INDIRECT_JUMP, 8)
    assert obstacle(code, exceptions=[3]) == (Why.EXCEPTION, 3)


def test_vex_instruction_with_the_opcode_of_a_jump():
    # vpshufd's immediate is taken for the distance of a ja: the kernel errs so, too
    code = "90" * 8 + "c5f970c1f5" + "c3"
    assert obstacle(code) == (Why.JUMP_INTO, 8)


def test_entry_code():
    tables = Tables("90" * 16)
    tables.markers["__entry_text_start"] = F
    tables.markers["__entry_text_end"] = F + 16
    verdict = can_optimize(MachineText(tables), F)
    assert isinstance(verdict, Obstacle)
    assert verdict.why is Why.ENTRY_TEXT
