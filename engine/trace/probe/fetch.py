# SPDX-License-Identifier: GPL-2.0-or-later
"""Fetch types, fetch instructions and their encoding for the interpreter in the guest.

The arguments of one probe are compiled to a program, which is 8-byte aligned and little
endian (engine/runtime/fetch.h: struct kp_prog):

    u32 nr_args, u32 size       size: bytes of the arguments' fixed part
    u32 start, u32 dynamic      start: offset of the first argument in the record;
                                dynamic: some argument is a string
    then for each argument
        u32 offset, u16 nr_insns, u16 dynamic       offset from the record's start
        nr_insns instructions of 16 bytes:
            u8 op, u8 size, u16 count, u8 lshift, u8 rshift, u16 0, u64 value
    then the bytes of immediate strings, each ended by a NUL.

    op           value    meaning
    REG          offset   val = the register at that offset in struct pt_regs
    STACK        words    val = the word that many words above the stack pointer, 0
                          outside the stack
    IMM          number   val = the number (or the address of an immediate string)
    COMM         -        val = address of the current task's comm
    DEREF        offset   val = word at val + offset, in kernel or user memory
    UDEREF       offset   as DEREF, in user memory only
    ST_RAW       -        store the low size bytes of val
    ST_MEM       offset   store size bytes found at val + offset
    ST_UMEM      offset   as ST_MEM, in user memory only
    ST_STRING    offset   store the string at val + offset in the dynamic part
    ST_USTRING   offset   as ST_STRING, in user memory only
    ST_SYMSTR    offset   store the name of the symbol at val + offset there too
    MOD_BF       -        size-byte field <<= lshift, >>= rshift
    LP_ARRAY     -        go back to the store until count elements are done
    END          -        the argument is complete

The instructions of an argument are: one load (REG to COMM), DEREFs, one store, MOD_BF,
LP_ARRAY, END.  A fault ends the argument and leaves its field as it is; a string then
gets the length 0, which is printed as (fault).
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kpfs.base import abi
from kpfs.base.ktypes import MASK64

FETCH_INSN_MAX = 16
MAX_TRACE_ARGS = 128
MAX_PROBE_EVENT_SIZE = 3072

# Gives the text of an address, for %pS
SymbolFunc = Callable[[int], str]


class FetchOp(enum.IntEnum):
    """The operation of an instruction.  Kernel: enum fetch_op."""

    END = abi.OP_END
    REG = abi.OP_REG
    STACK = abi.OP_STACK
    IMM = abi.OP_IMM
    COMM = abi.OP_COMM
    DEREF = abi.OP_DEREF
    UDEREF = abi.OP_UDEREF
    ST_RAW = abi.OP_ST_RAW
    ST_MEM = abi.OP_ST_MEM
    ST_UMEM = abi.OP_ST_UMEM
    ST_STRING = abi.OP_ST_STRING
    ST_USTRING = abi.OP_ST_USTRING
    ST_SYMSTR = abi.OP_ST_SYMSTR
    MOD_BF = abi.OP_MOD_BF
    LP_ARRAY = abi.OP_LP_ARRAY
    # guest code does not know these: encode() writes another operation instead
    DATA = enum.auto()  # becomes IMM with the address of data
    STACKP = enum.auto()  # becomes REG, of the stack pointer
    # or nothing: data names the symbol whose address the next one, an IMM, gets
    SYMBOL = enum.auto()


@dataclass(slots=True)
class FetchInsn:
    """One instruction of a program.  Kernel: struct fetch_insn."""

    op: FetchOp
    value: int = 0
    size: int = 0
    count: int = 0
    lshift: int = 0
    rshift: int = 0
    data: str = ""


class FetchType(NamedTuple):
    """A type that an argument can have.  Kernel: struct fetch_type."""

    name: str
    size: int
    is_signed: bool
    fmt: str  # in print fmt
    fmttype: str  # in the list of fields
    is_string: bool = False


def _integer(name: str, size: int, fmttype: str) -> FetchType:
    signed = name[0] == "s"
    wide = "L" if size == 8 else ""
    letter = {"u": "u", "s": "d", "x": "x"}[name[0]]
    prefix = "0x" if letter == "x" else ""
    return FetchType(name, size, signed, f"{prefix}%{wide}{letter}", fmttype)


def _string(name: str) -> FetchType:
    return FetchType(name, 4, True, '\\"%s\\"', "__data_loc char[]", True)


FETCH_TYPES: dict[str, FetchType] = {
    t.name: t
    for t in (
        *(_integer(f"s{8 * n}", n, f"s{8 * n}") for n in (1, 2, 4, 8)),
        *(_integer(f"u{8 * n}", n, f"u{8 * n}") for n in (1, 2, 4, 8)),
        *(_integer(f"x{8 * n}", n, f"u{8 * n}") for n in (1, 2, 4, 8)),
        _string("string"),
        FetchType("symbol", 8, False, "%pS", "u64"),
        _string("ustring"),
        _string("symstr"),
    )
}
DEFAULT_FETCH_TYPE = "x64"


def type_names() -> list[str]:
    """Return names as tracing/README lists them: s8/16/32/64 for types of one letter.

    Bit fields and arrays, which are made of other types, come where Linux's text has
    them: behind symbol, and at the end.
    """
    names: dict[str, str] = {}  # the key is the letter, or the name itself
    for name in FETCH_TYPES:
        letter, size = name[0], name[1:]
        if size.isdigit():
            names[letter] = f"{names[letter]}/{size}" if letter in names else name
        else:
            names[name] = name
        if name == "symbol":
            names["b"] = "b<bit-width>@<bit-offset>/<container-size>"
    return [*names.values(), r"<type>\[<array-size>\]"]


@dataclass(eq=False)
class ProbeArg:
    """One argument of a probe.  Kernel: struct probe_arg."""

    name: str
    comm: str = ""  # the expression as typed
    type: FetchType = FETCH_TYPES[DEFAULT_FETCH_TYPE]
    count: int = 0  # elements of an array, 0: no array
    offset: int = 0  # within the arguments
    code: list[FetchInsn] = field(default_factory=list)

    @property
    def dynamic(self) -> bool:
        return self.type.is_string

    @property
    def size(self) -> int:
        return self.type.size * (self.count or 1)

    @property
    def fmttype(self) -> str:
        return self.type.fmttype + (f"[{self.count}]" if self.count else "")


def print_fmt(head: str, head_args: str, args: Sequence[ProbeArg]) -> str:
    """Return the text behind "print fmt: ".  Kernel: __set_print_fmt()."""
    fmt, values = head, head_args
    for arg in args:
        one = arg.type.fmt
        text = "{" + ",".join([one] * arg.count) + "}" if arg.count else one
        fmt += f" {arg.name}={text}"
        indices = [f"[{i}]" for i in range(arg.count)] or [""]
        form = ", __get_str({})" if arg.type.is_string else ", REC->{}"
        values += "".join(form.format(arg.name + i) for i in indices)
    return f'"{fmt}"{values}'


# ---- encoding

_PROG, _ARG, _INSN = abi.KpProg.STRUCT, abi.KpArg.STRUCT, abi.KpInsn.STRUCT
INSN_SIZE = abi.KpInsn.SIZE


def prog_size(args: Sequence[ProbeArg]) -> int:
    """Return the number of bytes that encode() will return for these arguments."""
    insns = [i for arg in args for i in arg.code if i.op is not FetchOp.SYMBOL]
    data = sum(len(i.data) + 1 for i in insns if i.op is FetchOp.DATA)
    return _PROG.size + len(args) * _ARG.size + len(insns) * INSN_SIZE + data


def encode(args: Sequence[ProbeArg], start: int, addr: int) -> bytes:
    """Make the program for arguments that begin at offset start of the record.

    addr is where the program will lie in guest memory.
    """
    size = sum(arg.size for arg in args)
    dynamic = any(arg.dynamic for arg in args)
    out = [_PROG.pack(len(args), size, start, dynamic)]
    strings = addr + prog_size(args)
    strings -= sum(
        len(i.data) + 1 for a in args for i in a.code if i.op is FetchOp.DATA
    )
    tail = []
    for arg in args:
        insns = [i for i in arg.code if i.op is not FetchOp.SYMBOL]
        out.append(_ARG.pack(start + arg.offset, len(insns), arg.dynamic))
        for insn in insns:
            op, value = insn.op, insn.value
            if op is FetchOp.DATA:
                text = insn.data.encode("latin-1") + b"\0"
                op, value = FetchOp.IMM, strings
                strings += len(text)
                tail.append(text)
            elif op is FetchOp.STACKP:
                op = FetchOp.REG
            out.append(
                _INSN.pack(
                    op,
                    insn.size,
                    insn.count,
                    insn.lshift,
                    insn.rshift,
                    value & MASK64,
                )
            )
    return b"".join(out + tail)


# ---- printing

_FORMATS = {1: "B", 2: "H", 4: "I", 8: "Q"}
_LOC = struct.Struct("<I")


def print_string(pages: memoryview, offset: int, record: int) -> str:
    """Return the text of a string argument.  Kernel: PRINT_TYPE_FUNC_NAME(string)."""
    (loc,) = _LOC.unpack_from(pages, offset)
    length, start = loc >> 16, record + (loc & 0xFFFF)
    if not length:
        return "(fault)"
    page_end = (start // 4096 + 1) * 4096
    text = bytes(pages[start:page_end]).partition(b"\0")[0]
    return f'"{text.decode("latin-1")}"'


def print_args(
    args: Sequence[ProbeArg], start: int, symbol: SymbolFunc, mark: str = ""
) -> Callable[[memoryview, int], str]:
    """Make the function that prints all arguments; symbol(addr) is the text for %pS.

    mark is put around each name and each value. Kernel: print_probe_args()
    """
    codes, text = "<", ""
    strings: list[int] = []  # indices of the values that locate strings
    symbols: list[int] = []  # indices of the values that are printed as symbols
    places: list[int] = []  # offsets of the values in the record
    for arg in args:
        kind = arg.type
        form = "%s"
        code = _FORMATS[kind.size]
        if kind.name == "symbol":
            symbols += range(len(places), len(places) + (arg.count or 1))
        elif kind.is_string:
            strings += range(len(places), len(places) + (arg.count or 1))
        else:
            code = code.lower() if kind.is_signed else code
            form = "%#x" if kind.name[0] == "x" else "%d"
        form = mark + form + mark
        first = start + arg.offset
        places += [first + kind.size * i for i in range(arg.count or 1)]
        codes += code * (arg.count or 1)
        forms = "{" + ",".join([form] * arg.count) + "}" if arg.count else form
        text += f"{mark} {arg.name}={mark}{forms}"
    unpack = struct.Struct(codes).unpack_from

    def show_numbers(pages: memoryview, record: int) -> str:
        return text % unpack(pages, record + start)

    def show(pages: memoryview, record: int) -> str:
        values = list(unpack(pages, record + start))
        for i in symbols:
            values[i] = symbol(values[i])
        for i in strings:
            values[i] = print_string(pages, record + places[i], record)
        return text % tuple(values)

    return show if strings or symbols else show_numbers
