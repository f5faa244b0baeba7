# SPDX-License-Identifier: GPL-2.0-or-later
"""x86's verdicts on bytes: boundaries, refusals, boosting, emulation."""

import errno

import pytest

from kpfs.base.errors import KernelError
from kpfs.engine.arch.x86.checks.probe import (
    Emulation,
    KernelView,
    Rules,
    arch_adjust_kprobe_addr,
    emulation,
    has_boostable_opcode,
    prepare_kprobe,
    relocate,
    rules_of,
)
from kpfs.engine.arch.x86.insn import decode
from tests.there import there
from tests.unit.engine.arch.x86.checks.tables import PLAIN, F, Tables, text


def insn(code):
    return decode(bytes.fromhex(code), F)


def starts_insn(t, addr):
    """True if an instruction starts at addr, be it one that can be probed or not."""
    try:
        prepare_kprobe(t, addr)
    except KernelError as refusal:
        return refusal.errno != errno.EILSEQ
    return True


def test_boundaries():
    t = text(PLAIN)
    starts = [at for at in range(len(t.tables.bytes)) if starts_insn(t, F + at)]
    assert starts == [0, 1, 4, 8, 10, 11, 12, 13]
    assert list(t.function(F + 5).index) == [F + at for at in starts]
    assert not starts_insn(t, F + 100)
    assert not starts_insn(t, F - 1)


def test_probes_are_undone_before_decoding():
    tables = Tables(PLAIN)
    original = tables.bytes

    def undo(addr, size):
        return original[addr - F : addr - F + size]

    tables.bytes = bytes.fromhex("e911223344") + original[5:]
    t = KernelView(tables, undo)
    assert starts_insn(t, F + 1)
    assert not starts_insn(t, F + 5)


def test_ftrace_site_reads_as_nop():
    t = text("e811223344 c3", ftrace=[0])
    assert t.code(F, 6).hex() == "0f1f440000c3"
    assert prepare_kprobe(t, F).insn.raw.hex() == "0f1f440000"


def test_decoded_once_and_again_when_bytes_change():
    tables = Tables(PLAIN)
    t = KernelView(tables)
    fn = t.function(F)
    assert t.function(F + 8) is fn
    tables.bytes = b"\x90" + tables.bytes[1:]
    assert t.function(F) is not fn
    assert there(t.function(F)).insns[0].raw == b"\x90"


def test_decoded_again_when_modules_come_or_go():
    tables = Tables(PLAIN)
    t = KernelView(tables)
    fn = there(t.function(F))
    assert fn.fixup is None
    tables.exceptions, tables.generation = (0,), 1
    assert there(t.function(F)).fixup == F


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
        # asked of a real kernel: a nop of 15 bytes
        ("6666666666662e0f1f840000000000", errno.ENOSPC),
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
    assert has_boostable_opcode(insn(code), Rules()) is boost


LATER = rules_of("6.12.1-amd64", "CONFIG_X86_KERNEL_IBT=y\n")


@pytest.mark.parametrize(
    ("code", "boost"),
    [
        ("c1e004", True),  # shl
        ("c1f004", False),  # what only AMD knows
        ("f7d8", True),
        ("f7c800000000", False),
        ("ffc0", True),  # inc
        ("ffe0", True),
        ("ff30", False),  # push
        ("fec0", True),
        ("fe10", False),
    ],
)
def test_boost_of_later_kernels(code, boost):
    assert has_boostable_opcode(insn(code), LATER) is boost


@pytest.mark.parametrize("code", ["cc", "cd80", "f1", "0f0b", "0fffc0", "0fb9c0"])
def test_later_kernels_refuse_what_traps(code):
    later = text(code + "90")
    later.rules = LATER
    with pytest.raises(KernelError) as refused:
        prepare_kprobe(later, F)
    assert refused.value.errno == errno.EILSEQ


def test_rules_of_releases():
    assert rules_of("6.1.0-9-amd64", "CONFIG_RETPOLINE=y\n") == Rules()
    assert rules_of("6.6.1", "CONFIG_RETPOLINE=y\n") == Rules(jump_tables=False)
    assert rules_of("6.10", "") == Rules(True, True, True)
    assert rules_of("mine", "") == Rules()


def test_instruction_with_fix_up_is_not_boosted():
    assert not prepare_kprobe(text("8b00", exceptions=[0]), F).boostable
    assert prepare_kprobe(text("8b008b00", exceptions=[2]), F).boostable


def test_relocate():
    lea = insn("488d0510000000")
    moved = relocate(lea, F + 0x1000)
    assert moved.hex() == "488d0510f0ffff"
    assert there(decode(moved, F + 0x1000)).disp + F + 0x1000 == lea.disp + F
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
    for sealed in ("660f1f00", "0f1f40d6"):  # one that was taken away; since 6.18
        t = text(f"{sealed} 55 c3")
        assert arch_adjust_kprobe_addr(t, F, 0) == (F + 4, True)
    t = text(PLAIN)
    assert arch_adjust_kprobe_addr(t, F, 0) == (F, True)
    assert arch_adjust_kprobe_addr(t, F, 1) == (F + 1, False)
