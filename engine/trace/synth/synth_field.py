# SPDX-License-Identifier: GPL-2.0-or-later
"""Fields of synthetic events: the table of their types, and their definitions."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from kpfs.base.errors import KernelError
from kpfs.engine.kstrtox import kstrtouint
from kpfs.engine.trace.errlog import ErrorLog
from kpfs.engine.trace.errlog import SynthErr as Err
from kpfs.engine.trace.words import is_good_name

STR_VAR_LEN_MAX = 256  # bytes that each string of a fixed size has in a record
_DIGITS_MAX = 3  # the most digits in the size of a string
DATA_LOC = "__data_loc "


class _Type(NamedTuple):
    """A numeric type: its size in bytes and its format."""

    size: int
    fmt: str


# Kernel: synth_field_size(), synth_field_fmt()
_NUMBERS = {
    "s64": _Type(8, "%lld"),
    "u64": _Type(8, "%llu"),
    "s32": _Type(4, "%d"),
    "u32": _Type(4, "%u"),
    "s16": _Type(2, "%d"),
    "u16": _Type(2, "%u"),
    "s8": _Type(1, "%d"),
    "u8": _Type(1, "%u"),
    "char": _Type(1, "%d"),
    "unsigned char": _Type(1, "%u"),
    "int": _Type(4, "%d"),
    "unsigned int": _Type(4, "%u"),
    "long": _Type(8, "%ld"),
    "unsigned long": _Type(8, "%lu"),
    "bool": _Type(1, "%d"),
    "pid_t": _Type(4, "%d"),
    "gfp_t": _Type(4, "%x"),
}


@dataclass
class SynthField:
    """A field of a synthetic event.  Kernel: struct synth_field."""

    type: str
    name: str
    size: int
    is_dynamic: bool = False
    at: int = 0  # which 64-bit word of a record's fields is its first

    @property
    def is_string(self) -> bool:
        return "char[" in self.type

    @property
    def is_stack(self) -> bool:
        return not self.is_string and "long[" in self.type

    @property
    def is_signed(self) -> bool:
        """Kernel: synth_field_signed()"""
        return not self.type.startswith("u") and self.type != "gfp_t"

    @property
    def fmt(self) -> str:
        return _NUMBERS[self.type].fmt if self.type in _NUMBERS else "%s"

    @property
    def words(self) -> int:
        """The number of 64-bit words it takes in the fixed part of a record."""
        return STR_VAR_LEN_MAX // 8 if self.is_string and not self.is_dynamic else 1

    @property
    def declaration(self) -> str:
        """Return the field as the definition of its event shows it."""
        return f"{self.type.removeprefix(DATA_LOC)} {self.name}"


def _string_size(kind: str) -> int:
    """Return the size in a type with "char["; 0: any length; EINVAL, ERANGE.

    Kernel: synth_field_string_size()
    """
    start = kind.index("char[") + len("char[")
    end = kind.find("]")
    if end < start or len(kind) > end + 1 or end - start > _DIGITS_MAX:
        raise KernelError(errno.EINVAL, f"{kind!r} has no size")
    size = kstrtouint(kind[start:end]) if end > start else 0
    if size > STR_VAR_LEN_MAX:
        raise KernelError(errno.EINVAL, f"{kind!r} is too long")
    return size


def field_size(kind: str) -> int:
    """Return a type's size; 0: unknown or any.  Kernel: synth_field_size()"""
    if kind in _NUMBERS:
        return _NUMBERS[kind].size
    return _string_size(kind) if "char[" in kind else 0


class SynthLog:
    """Logs the errors of one command, with a caret under one of its words.

    Kernel: last_cmd, synth_err(), errpos()
    """

    def __init__(self, log: ErrorLog, command: str) -> None:
        self._log = log
        self._command = command

    def fail(self, code: Err, word: str = "", number: int = errno.EINVAL) -> NoReturn:
        """Record an entry, its caret at the first place that reads as word; raise."""
        pos = max(self._command.find(word), 0)
        self._log.record("synthetic_events", code.value, self._command, pos)
        raise KernelError(number, code.value)


def parse_field(log: SynthLog, words: Sequence[str]) -> tuple[SynthField, int]:
    """Parse the field that words begin with: (field, number of words used); EINVAL.

    Kernel: parse_synth_field()
    """
    prefix, kind, used = "", words[0], 2
    if kind == "unsigned":
        if len(words) < 3:
            log.fail(Err.INCOMPLETE_TYPE, kind)
        prefix, kind, used = "unsigned ", words[1], 3
    elif len(words) < 2:
        log.fail(Err.INVALID_FIELD, kind)
    text = words[used - 1]
    name, bracket, size_text = text.partition("[")
    if not is_good_name(name):
        log.fail(Err.BAD_NAME, text)
    field = SynthField(prefix + kind + bracket + size_text, name, 0)
    try:
        field.size = field_size(field.type)
    except KernelError:
        if bracket:
            log.fail(Err.INVALID_ARRAY_SPEC, text)
        log.fail(Err.INVALID_TYPE, kind)
    if not field.size:
        if not (field.is_string or field.is_stack):
            log.fail(Err.INVALID_TYPE, kind)
        field.type = DATA_LOC + field.type
        field.is_dynamic = True
        field.size = 8
    return field, used


# ---- values as text

# The flags of gfp_t, in the order in which they are looked for, as in the format of
# Linux's kmem events.  Kernel: __def_gfpflag_names
_RECLAIM, _IO, _FS, _HARDWALL = 0xC00, 0x40, 0x80, 0x10_0000
_USER = _RECLAIM | _IO | _FS | _HARDWALL
_TRANSHUGE_LIGHT = (_USER | 0x0A | 0xC_2000) & ~_RECLAIM
_GFP_FLAGS = (
    (_TRANSHUGE_LIGHT | 0x400, "GFP_TRANSHUGE"),
    (_TRANSHUGE_LIGHT, "GFP_TRANSHUGE_LIGHT"),
    (_USER | 0x0A, "GFP_HIGHUSER_MOVABLE"),
    (_USER | 0x02, "GFP_HIGHUSER"),
    (_USER, "GFP_USER"),
    (_RECLAIM | _IO | _FS | 0x40_0000, "GFP_KERNEL_ACCOUNT"),
    (_RECLAIM | _IO | _FS, "GFP_KERNEL"),
    (_RECLAIM | _IO, "GFP_NOFS"),
    (0xA20, "GFP_ATOMIC"),
    (_RECLAIM, "GFP_NOIO"),
    (0x800, "GFP_NOWAIT"),
    (0x01, "GFP_DMA"),
    (0x02, "__GFP_HIGHMEM"),
    (0x04, "GFP_DMA32"),
    (0x20, "__GFP_HIGH"),
    (0x200, "__GFP_ATOMIC"),
    (_IO, "__GFP_IO"),
    (_FS, "__GFP_FS"),
    (0x2000, "__GFP_NOWARN"),
    (0x4000, "__GFP_RETRY_MAYFAIL"),
    (0x8000, "__GFP_NOFAIL"),
    (0x1_0000, "__GFP_NORETRY"),
    (0x4_0000, "__GFP_COMP"),
    (0x100, "__GFP_ZERO"),
    (0x8_0000, "__GFP_NOMEMALLOC"),
    (0x2_0000, "__GFP_MEMALLOC"),
    (_HARDWALL, "__GFP_HARDWALL"),
    (0x20_0000, "__GFP_THISNODE"),
    (0x10, "__GFP_RECLAIMABLE"),
    (0x08, "__GFP_MOVABLE"),
    (0x40_0000, "__GFP_ACCOUNT"),
    (0x1000, "__GFP_WRITE"),
    (_RECLAIM, "__GFP_RECLAIM"),
    (0x400, "__GFP_DIRECT_RECLAIM"),
    (0x800, "__GFP_KSWAPD_RECLAIM"),
    (0x80_0000, "__GFP_ZEROTAGS"),
)


def gfp_text(value: int) -> str:
    """Return names of flags, the rest as a number, and the NUL that Linux puts there.

    Kernel: trace_print_flags_seq()
    """
    names = []
    for mask, name in _GFP_FLAGS:
        if value and value & mask == mask:
            names.append(name)
            value &= ~mask
    if value:
        names.append(f"{value:#x}")
    return "|".join(names) + "\0"


def number_text(field: SynthField) -> Callable[[int], str]:
    """Make the function that prints a number, which was read as unsigned.

    As in Linux only numbers of 4 and 8 bytes can be negative.
    Kernel: print_synth_event_num_val()
    """
    if field.fmt == "%x":
        return lambda value: f"{value:x}"
    if field.fmt[-1] == "d" and field.size >= 4:
        top = 1 << (8 * field.size - 1)
        return lambda value: str(value - ((value & top) << 1))
    return str
