# SPDX-License-Identifier: GPL-2.0-or-later
"""Decode one x86 instruction as far as kprobes cares: length, opcode, operands.

Two decoders stand behind it.  The length of an instruction and where its opcode, ModRM
byte, displacement and immediate lie come from a small table of our own, because what
the kernel's decoder takes for an instruction is what counts (SERIALIZE, undefined
opcodes, padding), and because it is 10 times as fast.  The words of a listing come from
capstone, imported when the first listing is asked for.

bits: 64, or 32 for the code of a kernel for i386.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from kpfs.base.typed import Any, NamedTuple, cast

MAX_INSN_SIZE = 15
BYTES_WIDTH = 3 * 11  # width of a line's bytes, for most instructions
INT3_INSN_OPCODE = 0xCC
_MOST_KNOWN = 4096  # lines that are kept

LEGACY_PREFIXES = frozenset(b"\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2\xf3")
# ud2 followed by a word: "the hypervisor is to emulate the next instruction"
_EMULATE_PREFIXES = (b"\x0f\x0bxen", b"\x0f\x0bkvm")
_EMULATE_PREFIX_SIZE = 5

_PER_CPU = frozenset(b"\x64\x65")  # segments of a processor: FS, GS
_TO_ADDRESS = b"\xa0", b"\xa1", b"\xa2", b"\xa3"  # mov between a register and memory
_U32 = 0xFFFF_FFFF

# What follows an opcode.  The low bits are flags, the others name an immediate.
_MODRM = 1
_IMM8, _IMM16, _IMMZ, _IMMV = 2, 4, 6, 8  # Ib, Iw, Iz, Iv of the manuals
_ENTER, _MOFFS, _PTR = 10, 12, 14  # Iw,Ib; Ov; Ap
_FORCE64 = 16  # the operand-size prefix does not shorten the immediate
_TEST = 32  # /0 and /1 alone have the immediate (group 3)
_SHIFT = 64  # only some /r of groups 12 to 14 have it


class Insn(NamedTuple):
    """One instruction.  Kernel: struct insn."""

    addr: int
    length: int
    raw: bytes
    prefixes: bytes  # legacy prefixes in order, without REX and VEX
    rex: int  # 0 if there is none
    vex: int  # size of the VEX or EVEX prefix, 0 if there is none
    opcode: bytes  # 1 to 3 bytes, with the 0f escapes; the one byte behind a VEX
    modrm: int  # -1 if there is none
    disp: int  # sign-extended
    disp_off: int
    disp_size: int  # 0 if there is none
    imm: int  # sign-extended; the first if there are two
    imm_off: int
    imm_size: int  # bytes of all immediates together
    opnd_bytes: int
    addr_bytes: int
    emulate_prefix: bool

    @property
    def next_addr(self) -> int:
        """Address of the instruction behind it."""
        return self.addr + self.length

    @property
    def reg(self) -> int:
        """Middle field of ModRM: the number after the slash in the manuals."""
        return (self.modrm >> 3) & 7

    @property
    def rip_relative(self) -> bool:
        """Kernel: insn_rip_relative()."""
        return self.modrm >= 0 and self.modrm & 0xC7 == 0x05

    @property
    def target(self) -> int:
        """The target of a direct jump or call; meaningless for other instructions."""
        return (self.addr + self.length + self.imm) & 0xFFFF_FFFF_FFFF_FFFF


def _fill(table: bytearray, attr: int, *ranges: int | tuple[int, int]) -> None:
    for r in ranges:
        first, last = r if isinstance(r, tuple) else (r, r)
        for op in range(first, last + 1):
            table[op] |= attr


def _one_byte_table() -> bytes:
    t = bytearray(256)
    for row in range(0, 0x40, 8):  # ADD OR ADC SBB AND SUB XOR CMP
        _fill(t, _MODRM, (row, row + 3))
        t[row + 4], t[row + 5] = _IMM8, _IMMZ
    _fill(t, _MODRM, 0x63, 0x69, 0x6B, (0x80, 0x8F), 0xC0, 0xC1, 0xC6, 0xC7)
    _fill(t, _MODRM, (0xD0, 0xD3), (0xD8, 0xDF), 0xF6, 0xF7, 0xFE, 0xFF)
    _fill(t, _IMM8, 0x6A, 0x6B, (0x70, 0x7F), 0x80, 0x82, 0x83, 0xA8, (0xB0, 0xB7))
    _fill(t, _IMM8, 0xC0, 0xC1, 0xC6, 0xCD, 0xD4, 0xD5, (0xE0, 0xE7), 0xEB)
    _fill(t, _IMM8 | _TEST, 0xF6)
    _fill(t, _IMMZ | _TEST, 0xF7)
    _fill(t, _IMMZ, 0x68, 0x69, 0x81, 0xA9, 0xC7)
    _fill(t, _IMMZ | _FORCE64, 0xE8, 0xE9)
    _fill(t, _IMMV, (0xB8, 0xBF))
    _fill(t, _IMM16, 0xC2, 0xCA)
    _fill(t, _ENTER, 0xC8)
    _fill(t, _MOFFS, (0xA0, 0xA3))
    _fill(t, _PTR, 0x9A, 0xEA)
    return bytes(t)


def _one_byte_table_32() -> bytes:
    t = bytearray(_one_byte_table())
    _fill(t, _MODRM, 0x62, 0xC4, 0xC5)  # BOUND LES LDS, where they are no prefixes
    return bytes(t)


def _two_byte_table() -> bytes:
    """Opcodes 0f xx."""
    t = bytearray(256)
    _fill(t, _MODRM, (0x00, 0x03), 0x0D, (0x0F, 0x18), (0x1A, 0x1C), (0x1E, 0x23))
    _fill(t, _MODRM, (0x28, 0x2F), (0x40, 0x76), (0x78, 0x7F), (0x90, 0x9F))
    _fill(t, _MODRM, (0xA3, 0xA7), (0xAB, 0xC7), (0xD0, 0xFE))
    _fill(t, _IMM8, 0x0F, 0x70, 0xA4, 0xAC, 0xBA, 0xC2, (0xC4, 0xC6))
    _fill(t, _IMM8 | _SHIFT, (0x71, 0x73))
    _fill(t, _IMMZ | _FORCE64, (0x80, 0x8F))
    return bytes(t)


_ONE_BYTE = {64: _one_byte_table(), 32: _one_byte_table_32()}
_TWO_BYTE = _two_byte_table()
_0F38 = bytes([_MODRM]) * 256
_0F3A = bytes([_MODRM | _IMM8]) * 256
_ESCAPED = {0x38: _0F38, 0x3A: _0F3A}
# the opcode map that a VEX or EVEX prefix names: 4 is unused, 5 and 6 are AVX512-FP16
_VEX_MAPS = {1: _TWO_BYTE, 2: _0F38, 3: _0F3A, 5: _0F38, 6: _0F38}
_VEX_SIZE = {0xC5: 2, 0xC4: 3, 0x62: 4}
# /r with an immediate byte in 0f 71, 0f 72, 0f 73; 72 /0 and /1 exist as EVEX
_SHIFT_REGS = {0x71: b"\2\4\6", 0x72: b"\0\1\2\4\6", 0x73: b"\2\3\6\7"}


def decode(code: bytes, addr: int, pos: int = 0, bits: int = 64) -> Insn | None:
    """Return the instruction at code[pos:], which lies at addr; None if there is none.

    None as well when the instruction is longer than 15 bytes or than the code given.
    Context: any.  Kernel: insn_decode_kernel().
    """
    window = code[pos : pos + MAX_INSN_SIZE]
    try:
        return _decode(window, addr, bits)
    except IndexError:
        return None


def _decode(b: bytes, addr: int, bits: int) -> Insn | None:
    i = start = _EMULATE_PREFIX_SIZE if b[:5] in _EMULATE_PREFIXES else 0
    while b[i] in LEGACY_PREFIXES:
        i += 1
    prefixes = b[start:i]
    rex = vex = 0
    if bits == 64 and b[i] & 0xF0 == 0x40:
        rex = b[i]
        i += 1
    if b[i] in _VEX_SIZE and (bits == 64 or b[i + 1] >> 6 == 3):
        vex = _VEX_SIZE[b[i]]
        table = _vex_map(b, i)
        wide = vex > 2 and b[i + 2] & 0x80  # VEX.W
        opcode = b[i + vex : i + vex + 1]
    else:
        wide = rex & 8
        opcode, table = _opcode(b, i, bits)
    if table is None:
        return None
    attr = table[opcode[-1]]
    i += vex + len(opcode)
    opnd = 8 if wide or (bits == 64 and attr & _FORCE64) else 4
    addr_bytes = bits // 8
    if prefixes:
        opnd = 2 if opnd == 4 and 0x66 in prefixes else opnd
        addr_bytes //= 2 if 0x67 in prefixes else 1
    return _operands(b, i, addr, attr, (prefixes, rex, vex, opcode), opnd, addr_bytes)


def _operands(
    b: bytes,
    i: int,
    addr: int,
    attr: int,
    head: tuple[bytes, int, int, bytes],
    opnd: int,
    addr_bytes: int,
) -> Insn | None:
    """Return the instruction, given what stands before its ModRM byte at b[i:]."""
    modrm, disp, disp_off, disp_size = -1, 0, 0, 0
    if attr & _MODRM:
        modrm = b[i]
        disp_size, i = _displacement(b, i + 1, modrm, addr_bytes)
        if disp_size:
            disp_off = i
            disp = int.from_bytes(b[i : i + disp_size], "little", signed=True)
            i += disp_size
    imm = imm_off = imm_size = 0
    if attr > _MODRM:
        first, imm_size = _immediate(attr, head[3][-1], modrm, opnd, addr_bytes)
        if imm_size:
            imm_off = i
            imm = int.from_bytes(b[i : i + first], "little", signed=True)
            i += imm_size
    if i > len(b):
        return None
    return Insn(
        addr, i, b[:i], *head, modrm, disp, disp_off, disp_size,
        imm, imm_off, imm_size, opnd, addr_bytes, b[:5] in _EMULATE_PREFIXES,
    )  # fmt: skip


def _opcode(b: bytes, i: int, bits: int) -> tuple[bytes, bytes]:
    """Opcode bytes at b[i:] without VEX, and the table of their map."""
    if b[i] != 0x0F:
        return b[i : i + 1], _ONE_BYTE[bits]
    table = _ESCAPED.get(b[i + 1])
    if table is None:
        return b[i : i + 2], _TWO_BYTE
    return b[i : i + 2] + bytes((b[i + 2],)), table


def _vex_map(b: bytes, i: int) -> bytes | None:
    """Opcode map that the VEX or EVEX prefix at b[i:] names."""
    if b[i] == 0xC5:
        return _TWO_BYTE
    return _VEX_MAPS.get(b[i + 1] & (0x1F if b[i] == 0xC4 else 0x07))


def _displacement(b: bytes, i: int, modrm: int, addr_bytes: int) -> tuple[int, int]:
    """Return (size of the displacement, its place) given the place behind ModRM."""
    mod, rm = modrm >> 6, modrm & 7
    if mod == 3:
        return 0, i
    if addr_bytes == 2:
        return (2 if rm == 6 else 0) if mod == 0 else mod, i
    base = rm
    if rm == 4:
        base = b[i] & 7
        i += 1
    if mod == 0:
        return (4 if base == 5 else 0), i
    return (1 if mod == 1 else 4), i


def _immediate(
    attr: int, op: int, modrm: int, opnd: int, addr_bytes: int
) -> tuple[int, int]:
    """Return (size of the first immediate, size of all)."""
    if attr & _TEST and (modrm >> 3) & 7 > 1:
        return 0, 0
    if attr & _SHIFT and (modrm >> 3) & 7 not in _SHIFT_REGS[op]:
        return 0, 0
    kind = attr & 14
    z = 2 if opnd == 2 else 4
    if kind == _IMMZ:
        return z, z
    if kind == _IMMV:
        return opnd, opnd
    if kind == _MOFFS:
        return addr_bytes, addr_bytes
    if kind == _PTR:
        return z, z + 2
    return {0: (0, 0), _IMM8: (1, 1), _IMM16: (2, 2), _ENTER: (2, 3)}[kind]


def decode_all(code: bytes, addr: int, size: int, bits: int = 64) -> Iterator[Insn]:
    """Decode what starts in the first size bytes, up to bytes that do not decode."""
    pos = 0
    while pos < size:
        insn = decode(code, addr + pos, pos, bits)
        if insn is None:
            return
        yield insn
        pos += insn.length


class Line(NamedTuple):
    """One line of a listing."""

    addr: int
    raw: bytes
    text: str

    def shown(self, note: str = "") -> str:
        line = f"  {self.addr:016x}  {self.raw.hex(' '):<{BYTES_WIDTH}} {self.text}"
        return f"{line:<84} # {note}" if note else line


class Disassembler:
    """Words for instructions; capstone is loaded by the first one made."""

    def __init__(self, bits: int = 64) -> None:
        import capstone

        mode = capstone.CS_MODE_64 if bits == 64 else capstone.CS_MODE_32
        self.bits, self._cs = bits, cast(Any, capstone.Cs(capstone.CS_ARCH_X86, mode))

    def __eq__(self, other: object) -> bool:
        """Return True for another one: what one has found holds for all."""
        return isinstance(other, Disassembler) and self.bits == other.bits

    def __hash__(self) -> int:
        return hash((Disassembler, self.bits))

    def text(self, raw: bytes, addr: int) -> str | None:
        """Mnemonic and operands of exactly these bytes, None if capstone has none."""
        for _addr, size, mnemonic, operands in self._cs.disasm_lite(raw, addr, 1):
            if size == len(raw):
                return f"{mnemonic} {operands}".rstrip()
        return None

    def line(
        self, code: bytes, addr: int, name: Callable[[int], str] | None = None
    ) -> Line:
        """Return the line of the first instruction; see disassemble()."""
        line, target = self._line(code[:MAX_INSN_SIZE], addr)
        if target is None or name is None:
            return line
        return line._replace(text=f"{line.text} <{name(target)}>")

    # whoever watches text has the same listed again and again
    @lru_cache(_MOST_KNOWN)  # noqa: B019 (it is one for all, and bounded)
    def _line(self, code: bytes, addr: int) -> tuple[Line, int | None]:
        """Return a line, and the target of a direct branch."""
        insn = decode(code, addr, bits=self.bits)
        raw = insn.raw if insn else code[:1]
        text = self.text(raw, addr) if insn else None
        if text is None:
            text = ".byte " + ", ".join(f"{byte:#04x}" for byte in raw)
        target = insn.target if insn and is_direct_branch(insn) else None
        return Line(addr, raw, text), target


def disassemble(
    code: bytes,
    addr: int,
    dis: Disassembler | None = None,
    name: Callable[[int], str] | None = None,
) -> list[Line]:
    """Return a listing of code, a line for each instruction as the kernel cuts it.

    Bytes that are no instruction, or none that capstone knows, are shown as .byte.
    ``name`` gives the text behind the target of a jump or call.  Context: control.
    """
    dis = dis or Disassembler()
    lines = []
    pos = 0
    while pos < len(code):
        line = dis.line(code[pos : pos + MAX_INSN_SIZE], addr + pos, name)
        lines.append(line)
        pos += len(line.raw)
    return lines


def detailed() -> Any:
    """Return capstone's disassembler; its instructions tell of their registers."""
    import capstone

    made = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    made.detail = True
    return made


def is_direct_branch(insn: Insn) -> bool:
    """call, jmp, jcc, loop or jrcxz with the target in the instruction."""
    if insn.vex:
        return False
    op = insn.opcode[0]
    if op == 0x0F:
        return insn.opcode[1] & 0xF0 == 0x80
    return op & 0xF0 == 0x70 or 0xE0 <= op <= 0xE3 or op in (0xE8, 0xE9, 0xEB)


def named_addresses(code: bytes, addr: int) -> Iterator[tuple[int, bool]]:
    """Yield what may be addresses in code of i386, and if they are of memory there."""
    for insn in decode_all(code, addr, len(code), 32):
        if _PER_CPU.intersection(insn.prefixes):
            continue
        if insn.disp_size == 4 and insn.modrm >> 6 == 0:
            yield insn.disp & _U32, True
        if insn.imm_size == 4 and not is_direct_branch(insn):
            yield insn.imm & _U32, insn.opcode in _TO_ADDRESS
