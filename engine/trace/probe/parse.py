# SPDX-License-Identifier: GPL-2.0-or-later
"""The grammar of probe definitions: place, names and fetch arguments.

The checks are made in the same order as in the kernel, because the first one that fails
decides which error the user gets to see.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from kpfs.base.errors import KernelError
from kpfs.base.ktypes import MASK64
from kpfs.engine.kstrtox import UINT_MAX, kstrtol, kstrtouint, kstrtoul, simple_strtoul
from kpfs.engine.trace.errlog import Err, TraceProbeLog
from kpfs.engine.trace.event.fields import COMMON_FIELDS
from kpfs.engine.trace.probe.fetch import (
    DEFAULT_FETCH_TYPE,
    FETCH_INSN_MAX,
    FETCH_TYPES,
    MAX_PROBE_EVENT_SIZE,
    FetchInsn,
    FetchOp,
    FetchType,
    ProbeArg,
)
from kpfs.engine.trace.words import is_good_name, is_good_system_name

MAX_EVENT_NAME_LEN = 64
MAX_ARGSTR_LEN = 63
MAX_ARRAY_LEN = 64
MAX_ARG_NAME_LEN = 32
KRETPROBE_MAXACTIVE_MAX = 4096
PARAM_MAX_STACK = 16384 // 8
KPROBE_EVENT_SYSTEM = "kprobes"

RESERVED_FIELD_NAMES = frozenset(
    (
        *(field.name for field in COMMON_FIELDS),
        "common_tgid",
        "__probe_ip",
        "__probe_ret_ip",
        "__probe_func",
    )
)
_SIGN = re.compile(r"[+-]")
# the sources of a symstr
_ADDRESS_OPS = (FetchOp.REG, FetchOp.STACK, FetchOp.DEREF)
_STRING_OPS = (FetchOp.DEREF, FetchOp.UDEREF, FetchOp.IMM, FetchOp.COMM, FetchOp.DATA)
_NO_DEREF = (FetchOp.IMM, FetchOp.COMM, FetchOp.DATA)


class ProbePlace(NamedTuple):
    """The place of a probe as it was typed; no symbol has been looked up yet."""

    symbol: str | None
    offset: int
    addr: int
    is_return: bool


@dataclass(frozen=True)
class ArgContext:
    """Things that arguments of a kind of probe may refer to.  Kernel: TPARG_FL_*."""

    is_return: bool  # a return probe, given by symbol: $retval is allowed
    on_func_entry: bool  # $argN is allowed, unless is_return
    registers: Mapping[str, int]  # name to offset in struct pt_regs
    arguments: Sequence[int]  # offsets of the registers that carry arguments
    return_value: int
    stack_pointer: int


# ---- head and place


def parse_maxactive(log: TraceProbeLog, head: str, is_return: bool) -> int:
    """Return the number after "r", or 0; EINVAL.  Kernel: __trace_kprobe_create()."""
    if not head[1:2].isascii() or not head[1:2].isdigit():
        return 0
    if not is_return:
        log.fail(Err.MAXACT_NO_KPROBE, 1)
    number = head[1:].partition(":")[0]
    if len(number) > MAX_EVENT_NAME_LEN - 1:
        log.fail(Err.BAD_MAXACT, 1)
    try:
        maxactive = kstrtouint(number)
    except KernelError:
        maxactive = 0
    if not maxactive:
        log.fail(Err.BAD_MAXACT, 1)
    if maxactive > UINT_MAX >> 1:
        return 0  # it is negative as the kernel's int, which means the default
    if maxactive > KRETPROBE_MAXACTIVE_MAX:
        log.fail(Err.MAXACT_TOO_BIG, 1)
    return maxactive


def split_symbol_offset(symbol: str) -> tuple[str, int]:
    """Split symbol[+-offset]; EINVAL, ERANGE.

    Kernel: traceprobe_split_symbol_offset()
    """
    sign = _SIGN.search(symbol)
    if sign is None:
        return symbol, 0
    return symbol[: sign.start()], kstrtol(symbol[sign.start() :])


def parse_place(log: TraceProbeLog, word: str, is_return: bool) -> ProbePlace | None:
    """Parse ADDRESS or SYMBOL[+OFFSET][%return]; None: it is a uprobe's; EINVAL.

    Kernel: __trace_kprobe_create()
    """
    if word[0] in "+0123456789":  # else it is no number
        with suppress(KernelError):
            return ProbePlace(None, 0, kstrtoul(word), is_return)
    log.index = 1
    if "/" in word and ":" in word:
        return None
    symbol, percent, suffix = word.partition("%")
    if percent:
        if suffix != "return":
            log.fail(Err.BAD_ADDR_SUFFIX, len(symbol))
        is_return = True
    try:
        symbol, offset = split_symbol_offset(symbol)
    except KernelError:
        offset = -1
    if not 0 <= offset <= UINT_MAX:
        log.fail(Err.BAD_PROBE_ADDR, 0)
    return ProbePlace(symbol, offset, 0, is_return)


def parse_event_name(log: TraceProbeLog, text: str, offset: int) -> tuple[str, str]:
    """Take (group, name) from what follows the colon; "": not given; EINVAL.

    Kernel: traceprobe_parse_event_name()
    """
    slash = text.find("/")
    if slash < 0:
        slash = text.find(".")
    group = ""
    if slash >= 0:
        if slash == 0:
            log.fail(Err.NO_GROUP_NAME, offset)
        if slash + 1 > MAX_EVENT_NAME_LEN:
            log.fail(Err.GROUP_TOO_LONG, offset)
        group = text[:slash]
        if not is_good_system_name(group):
            log.fail(Err.BAD_GROUP_NAME, offset)
        text = text[slash + 1 :]
        offset += slash + 1
    if not text:
        if not group:
            log.fail(Err.NO_EVENT_NAME, offset)
    elif len(text) >= MAX_EVENT_NAME_LEN:
        log.fail(Err.EVENT_TOO_LONG, offset)
    elif not is_good_name(text):
        log.fail(Err.BAD_EVENT_NAME, offset)
    return group, text


def default_event_name(place: ProbePlace, hashed: str) -> str:
    """Return the name of an event that was given none: p_SYMBOL_OFFSET or p_0xHASH."""
    letter = "r" if place.is_return else "p"
    if place.symbol is None:
        name = f"{letter}_0x{hashed}"
    else:
        name = f"{letter}_{place.symbol}_{place.offset}"
    name = name[: MAX_EVENT_NAME_LEN - 1]
    return name[0] + name[1:].replace(":", "_").replace(".", "_")


# ---- arguments


def find_fetch_type(name: str | None) -> FetchType | None:
    """Find a type; bW@O/C names its container's.  Kernel: find_fetch_type()"""
    if name is None:
        name = DEFAULT_FETCH_TYPE
    if name.startswith("b"):
        _, slash, size = name.partition("/")
        try:
            bits = kstrtoul(size) if slash else 0
        except KernelError:
            return None
        name = f"u{bits}" if bits in (8, 16, 32, 64) else ""
    return FETCH_TYPES.get(name)


class _ArgParser:
    """Compiles one expression to fetch instructions.  Kernel: parse_probe_arg()."""

    def __init__(self, log: TraceProbeLog, ctx: ArgContext) -> None:
        self.log = log
        self.ctx = ctx
        self.code: list[FetchInsn] = []

    def push(self, insn: FetchInsn) -> bool:
        """Append an instruction; False if there is no room for one more."""
        if len(self.code) == FETCH_INSN_MAX - 1:
            return False
        self.code.append(insn)
        return True

    def _push(self, insn: FetchInsn, offs: int) -> None:
        if not self.push(insn):
            self.log.fail(Err.TOO_MANY_OPS, offs)

    def _number(self, code: Err, offs: int, text: str, signed: bool) -> int:
        try:
            return kstrtol(text) if signed else kstrtoul(text)
        except KernelError as error:
            self.log.fail(code, offs, error.errno)

    def parse(self, arg: str, offs: int) -> None:
        """Append the instructions for arg; offs is where it begins in its word."""
        kind = arg[:1]
        if kind == "$":
            self._variable(arg[1:], offs)
        elif kind == "%":
            register = self.ctx.registers.get(arg[1:])
            if register is None:
                self.log.fail(Err.BAD_REG_NAME, offs)
            self._push(FetchInsn(FetchOp.REG, register), offs)
        elif kind == "@":
            self._memory(arg, offs)
        elif kind and kind in "+-":
            self._dereference(arg, offs)
        elif kind == "\\":
            self._immediate(arg, offs)
        else:
            self.log.fail(Err.BAD_FETCH_ARG, offs)

    def _variable(self, name: str, offs: int) -> None:
        """Append the load of a $variable.  Kernel: parse_probe_vars()"""
        ctx, log = self.ctx, self.log
        if name == "retval":
            if not ctx.is_return:
                log.fail(Err.RETVAL_ON_PROBE, offs)
            insn = FetchInsn(FetchOp.REG, ctx.return_value)
        elif name == "stack":
            insn = FetchInsn(FetchOp.STACKP, ctx.stack_pointer)
        elif name.startswith("stack") and name[5] in "0123456789":
            number = self._param(name[5:], offs)
            if number > PARAM_MAX_STACK:
                log.fail(Err.BAD_STACK_NUM, offs)
            insn = FetchInsn(FetchOp.STACK, number)
        elif name in ("comm", "COMM"):
            insn = FetchInsn(FetchOp.COMM)
        elif name.startswith("arg") and ctx.on_func_entry and not ctx.is_return:
            number = self._param(name[3:], offs)
            if not 0 < number <= PARAM_MAX_STACK:
                log.fail(Err.BAD_ARG_NUM, offs)
            insn = self._argument(number - 1)
        else:
            log.fail(Err.BAD_VAR, offs)
        self._push(insn, offs)

    def _argument(self, number: int) -> FetchInsn:
        """Return the load of an argument.  Kernel: regs_get_kernel_argument()"""
        registers = self.ctx.arguments
        if number < len(registers):
            return FetchInsn(FetchOp.REG, registers[number])
        return FetchInsn(FetchOp.STACK, number - len(registers) + 1)

    def _param(self, text: str, offs: int) -> int:
        try:
            return kstrtoul(text, 10)
        except KernelError:
            self.log.fail(Err.BAD_VAR, offs)

    def _memory(self, arg: str, offs: int) -> None:
        if arg[1:2] and arg[1] in "0123456789":
            addr = self._number(Err.BAD_MEM_ADDR, offs, arg[1:], signed=False)
            self._push(FetchInsn(FetchOp.IMM, addr), offs)
        elif arg[1:2] == "+":
            self.log.fail(Err.FILE_ON_KPROBE, offs)
        else:
            self._push(FetchInsn(FetchOp.SYMBOL, data=arg[1:]), offs)
            self._push(FetchInsn(FetchOp.IMM), offs)
        self._push(FetchInsn(FetchOp.DEREF), offs)

    def _dereference(self, arg: str, offs: int) -> None:
        op = FetchOp.DEREF
        if arg[1:2] == "u":
            op = FetchOp.UDEREF
            arg = arg[0] + arg[2:]
            # as in Linux, error positions behind it do not count the u
        if arg[0] == "+":
            arg = arg[1:]
        number, brace, rest = arg.partition("(")
        if not brace:
            self.log.fail(Err.DEREF_NEED_BRACE, offs)
        offset = self._number(Err.BAD_DEREF_OFFS, offs, number, signed=True)
        offs += len(number) + 1 + (arg[0] != "-")
        inner, brace, _ = rest.rpartition(")")
        if not brace:
            self.log.fail(Err.DEREF_OPEN_BRACE, offs + len(rest))
        self.parse(inner, offs)
        if self.code[-1].op in (FetchOp.COMM, FetchOp.DATA):
            self.log.fail(Err.COMM_CANT_DEREF, offs)
        self._push(FetchInsn(op, offset & MASK64), offs)

    def _immediate(self, arg: str, offs: int) -> None:
        if arg[1:2] == '"':
            text = arg[2:]
            if not text.endswith('"'):
                self.log.fail(Err.IMMSTR_NO_CLOSE, offs + 2 + len(text))
            self._push(FetchInsn(FetchOp.DATA, data=text[:-1]), offs)
            return
        text = arg[1:]
        if text[:1] not in ("-", "+", *"0123456789"):
            self.log.fail(Err.BAD_IMM, offs + 1)
        signed = text[0] in "+-"
        value = self._number(Err.BAD_IMM, offs + 1, text.removeprefix("+"), signed)
        self._push(FetchInsn(FetchOp.IMM, value & MASK64), offs)


def _parse_array(log: TraceProbeLog, text: str, offs: int) -> int:
    """Return the number of elements, from the text behind the "[" at offs; EINVAL."""
    number, bracket, rest = text.partition("]")
    if not bracket:
        log.fail(Err.ARRAY_NO_CLOSE, offs + len(text))
    if rest:
        log.fail(Err.BAD_ARRAY_SUFFIX, offs + len(number) + 1)
    try:
        count = kstrtouint(number)
    except KernelError:
        count = 0
    if not count:
        log.fail(Err.BAD_ARRAY_NUM, offs)
    if count > MAX_ARRAY_LEN:
        log.fail(Err.ARRAY_TOO_BIG, offs)
    return count


def _bitfield(text: str, size: int) -> FetchInsn | None:
    """Return the instruction for the bit field bW@O/C, or None if its text is wrong.

    Kernel: __parse_bitfield_probe_arg()
    """
    bits = size * 8
    width, rest = simple_strtoul(text[1:])
    if not width or not rest.startswith("@"):
        return None
    first, tail = simple_strtoul(rest[1:])
    if tail == rest[1:] or not tail.startswith("/"):
        return None
    if (width + first) & MASK64 > bits:
        return None
    shifts = [(bits - n) & 0xFF for n in (width + first, width)]
    return FetchInsn(FetchOp.MOD_BF, size=size, lshift=shifts[0], rshift=shifts[1])


def _store_string(p: _ArgParser, arg: ProbeArg, offs: int, type_offs: int) -> None:
    """Turn the last instruction, or a further one, into the store of a string."""
    last = p.code[-1].op
    symstr = arg.type.name == "symstr"
    if symstr and last not in _ADDRESS_OPS:
        p.log.fail(Err.BAD_SYMSTRING, type_offs)
    if not symstr and last not in _STRING_OPS:
        p.log.fail(Err.BAD_STRING, type_offs)
    # an array holds pointers to strings; a symstr names the symbol at the value
    if (symstr or last in _NO_DEREF or arg.count) and not p.push(
        FetchInsn(FetchOp.END)
    ):
        p.log.fail(Err.TOO_MANY_OPS, offs)
    store = p.code[-1]
    if arg.type.name == "ustring" or store.op is FetchOp.UDEREF:
        op = FetchOp.ST_USTRING
    else:
        op = FetchOp.ST_SYMSTR if symstr else FetchOp.ST_STRING
    store.op = op
    store.size = arg.type.size


def _store(p: _ArgParser, arg: ProbeArg, offs: int, type_offs: int) -> FetchOp:
    """Append the store operation and return which one it is."""
    last = p.code[-1]
    size = arg.type.size
    if arg.type.is_string:
        _store_string(p, arg, offs, type_offs)
    elif last.op in (FetchOp.DEREF, FetchOp.UDEREF):
        last.op = FetchOp.ST_MEM if last.op is FetchOp.DEREF else FetchOp.ST_UMEM
        last.size = size
    elif not p.push(FetchInsn(FetchOp.ST_RAW, size=size)):
        p.log.fail(Err.TOO_MANY_OPS, offs)
    return p.code[-1].op


def _arg_type(body: str, kind: str | None, count: int) -> FetchType | None:
    """Return an argument's type; EINVAL, without an entry where Linux logs none."""
    if body not in ("$comm", "$COMM") and not body.startswith('\\"'):
        return find_fetch_type(kind)
    if count or kind not in (None, "string"):
        raise KernelError(errno.EINVAL, f"{body} is a string and no array")
    return FETCH_TYPES["string"]


def parse_arg_body(
    log: TraceProbeLog, ctx: ArgContext, text: str, arg: ProbeArg, offs: int
) -> None:
    """Parse the expression text into arg; EINVAL, ERANGE, E2BIG.

    text begins at offs in its word; arg.offset is the size of the arguments before.
    Kernel: traceprobe_parse_probe_arg_body()
    """
    if len(text) > MAX_ARGSTR_LEN:
        log.fail(Err.ARG_TOO_LONG, offs)
    if not text:
        log.fail(Err.NO_ARG_BODY, offs)
    arg.comm = text
    body, colon, kind_text = text.partition(":")
    kind: str | None = kind_text if colon else None
    type_offs = offs + (len(body) + 1 if colon else 0)
    if kind is not None and "[" in kind:
        kind, _, array = kind.partition("[")
        arg.count = _parse_array(log, array, type_offs + len(kind) + 1)
    found = _arg_type(body, kind, arg.count)
    if found is None:
        log.fail(Err.BAD_TYPE, type_offs)
    arg.type = found
    if arg.offset + arg.size > MAX_PROBE_EVENT_SIZE:
        log.fail(Err.EVENT_TOO_BIG, offs, errno.E2BIG)
    parser = _ArgParser(log, ctx)
    parser.parse(body, offs)
    store = _store(parser, arg, offs, type_offs)
    if kind is not None and kind.startswith("b"):
        insn = _bitfield(kind, arg.type.size)
        if insn is None or not parser.push(insn):
            log.fail(Err.BAD_BITFIELD, type_offs)
    if arg.count:
        if store not in (FetchOp.ST_MEM, FetchOp.ST_STRING, FetchOp.ST_USTRING):
            log.fail(Err.BAD_STRING, type_offs)
        if not parser.push(FetchInsn(FetchOp.LP_ARRAY, count=arg.count)):
            log.fail(Err.TOO_MANY_OPS, offs)
    parser.code.append(FetchInsn(FetchOp.END))
    arg.code = parser.code


def parse_args(
    log: TraceProbeLog, ctx: ArgContext, words: Sequence[str]
) -> list[ProbeArg]:
    """Parse all arguments; words[i] is word i + 2 of the command.

    Kernel: traceprobe_parse_probe_arg()
    """
    args: list[ProbeArg] = []
    used: set[str] = set()
    size = 0
    for i, word in enumerate(words):
        log.index = i + 2
        name, equals, body = word.partition("=")
        if not equals:
            name, body = f"arg{i + 1}", word
        elif len(name) > MAX_ARG_NAME_LEN:
            log.fail(Err.ARG_NAME_TOO_LONG, 0)
        elif not name:
            log.fail(Err.NO_ARG_NAME, 0)
        if not is_good_name(name):
            log.fail(Err.BAD_ARG_NAME, 0)
        if name in used or name in RESERVED_FIELD_NAMES:
            log.fail(Err.USED_ARG_NAME, 0)
        arg = ProbeArg(name, offset=size)
        parse_arg_body(log, ctx, body, arg, len(word) - len(body))
        used.add(name)
        size += arg.size
        args.append(arg)
    return args
