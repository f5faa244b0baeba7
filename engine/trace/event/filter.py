# SPDX-License-Identifier: GPL-2.0-or-later
"""Event filters: the expression language, and its programs for guest code.

A program is an array of struct kp_pred (fetch.h): the predicates in the order of the
text, each with the number of the next one (or ACCEPT, REJECT) for either answer.
"""

from __future__ import annotations

import enum
import errno
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from kpfs.base import abi
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import MASK64
from kpfs.engine.kstrtox import is_digit, is_space, kstrtol, kstrtoul
from kpfs.engine.trace.event.fields import COMMON_FIELDS, DYNAMIC, RELATIVE, Field

MAX_FILTER_STR_VAL = 256
MAX_NUMBER = 24
ACCEPT, REJECT = abi.FILTER_ACCEPT, abi.FILTER_REJECT

_PRED = abi.KpPred.STRUCT
_NAME = re.compile(r"[A-Za-z0-9_\xc0-\xd6\xd8-\xf6\xf8-\xff]*")
_NUMBER = re.compile(r"-?[A-Za-z0-9\xc0-\xd6\xd8-\xf6\xf8-\xff]*")


class FilterErr(enum.Enum):
    """The errors of a filter.  Kernel: ERRORS in trace_events_filter.c."""

    INVALID_OP = "Invalid operator"
    TOO_MANY_OPEN = "Too many '('"
    TOO_MANY_CLOSE = "Too few '('"
    MISSING_QUOTE = "Missing matching quote"
    OPERAND_TOO_LONG = "Operand too long"
    EXPECT_STRING = "Expecting string field"
    EXPECT_DIGIT = "Expecting numeric field"
    ILLEGAL_FIELD_OP = "Illegal operation for field type"
    FIELD_NOT_FOUND = "Field not found"
    ILLEGAL_INTVAL = "Illegal integer value"
    BAD_SUBSYS_FILTER = "Couldn't find or set field in one of a subsystem's events"
    TOO_MANY_PREDS = "Too many terms in predicate expression"
    INVALID_FILTER = "Meaningless filter expression"
    INVALID_VALUE = "Invalid value (did you forget quotes)?"
    ERRNO = "Error"
    NO_FILTER = "No filter found"


class FilterError(KernelError):
    """An error of a filter and its place; no code: the kernel gives none."""

    def __init__(self, number: int, code: FilterErr | None, pos: int) -> None:
        super().__init__(number, code.value if code else "bad filter")
        self.code = code
        self.pos = pos


# in this order, for "<=" must be tried before "<"
_OPS = {
    "~": abi.PRED_GLOB,
    "!=": abi.PRED_NE,
    "==": abi.PRED_EQ,
    "<=": abi.PRED_LE,
    "<": abi.PRED_LT,
    ">=": abi.PRED_GE,
    ">": abi.PRED_GT,
    "&": abi.PRED_BAND,
}


@dataclass
class Pred:
    """One comparison.  Kernel: struct filter_pred."""

    op: int  # abi.PRED_*
    source: int  # the place of its left side: abi.FROM_*
    field: Field
    value: int = 0
    string: str = ""
    negate: bool = False  # for strings only
    yes: int = 0
    no: int = 0


class FieldInfo(NamedTuple):
    """A field, and how a filter gets at its value."""

    field: Field
    source: int
    is_string: bool


_GENERIC = {
    **{n: (Field("int", n, 0, 4, True), abi.FROM_CPU) for n in ("CPU", "cpu")},
    "common_cpu": (Field("int", "common_cpu", 0, 4, True), abi.FROM_CPU),
    **{n: (Field("char *", n, 0, 0, False), abi.FROM_COMM) for n in ("COMM", "comm")},
}


def find_field(fields: Iterable[Field], name: str) -> FieldInfo | None:
    """Find a field by name.  Kernel: trace_find_event_field(), filter_assign_type()"""
    for known in fields:
        label, array, _ = known.name.partition("[")
        if label == name:
            is_string = "char" in known.type and ("[" in known.type or bool(array))
            if known.type in ("char *", "const char *"):
                return FieldInfo(known, abi.FROM_KERNEL, True)
            source = abi.FROM_RECORD
            if is_string and known.type.startswith(DYNAMIC):
                relative = known.type.startswith(RELATIVE)
                source = abi.FROM_RELATIVE if relative else abi.FROM_DYNAMIC
            return FieldInfo(known, source, is_string)
    if name in _GENERIC:
        generic, source = _GENERIC[name]
        return FieldInfo(generic, source, source == abi.FROM_COMM)
    for known in COMMON_FIELDS:
        if known.name == name:
            return FieldInfo(known, abi.FROM_RECORD, False)
    return None


# ---- structure


@dataclass
class _Node:
    """A predicate, or parentheses: lists of terms, one of which must hold entirely."""

    start: int  # number of its first predicate
    negate: bool = False
    pred: Pred | None = None
    terms: list[list[_Node]] = field(default_factory=lambda: [[]])


def _fail(number: int, code: FilterErr | None, pos: int) -> NoReturn:
    raise FilterError(number, code, pos)


def check_structure(text: str) -> None:
    """Check nesting; EPERM, ENOENT, ESRCH; EINVAL: empty.  Kernel: calc_stack()"""
    depth, quote, quote_at, has_pred = 1, "", 0, False
    for i, char in enumerate(text):
        if is_space(char):
            continue
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote, quote_at, has_pred = char, i, True
        elif char == "(":
            depth += 1
        elif char == ")":
            if depth == 1:
                _fail(errno.EPERM, FilterErr.TOO_MANY_CLOSE, i)
            depth -= 1
        elif char not in "&|" or text[i + 1 : i + 2] != char:
            has_pred = True
    if quote:
        _fail(errno.ESRCH, FilterErr.MISSING_QUOTE, quote_at)
    if depth != 1:
        _fail(errno.ENOENT, FilterErr.TOO_MANY_OPEN, _bad_open(text, depth))
    if not has_pred:
        _fail(errno.EINVAL, None, 0)


def _bad_open(text: str, depth: int) -> int:
    """Return the position of the parenthesis that is not closed."""
    level, quote = depth, ""
    for i in range(len(text) - 1, 0, -1):
        char = text[i]
        if quote:
            quote = "" if char == quote else quote
        elif char == "(":
            if level == depth:
                return i
            level -= 1
        elif char == ")":
            level += 1
        elif char in "'\"":
            quote = char
    return 0


class _FilterParser:
    """One pass over the text.  Kernel: predicate_parse()"""

    def __init__(self, text: str, fields: Sequence[Field]) -> None:
        self._text = text
        self._fields = fields
        self._stack = [_Node(0)]
        self.preds: list[Pred] = []

    def parse(self) -> _Node:
        text, pos, negate = self._text, 0, False
        while pos < len(text):
            char = text[pos]
            if is_space(char):
                pos += 1
            elif char == "(":
                self._stack.append(self._add(negate))
                negate = False
                pos += 1
            elif char == "!" and text[pos + 1 : pos + 2] not in ("=", "~"):
                negate = not negate
                pos += 1
            else:
                pred, pos = parse_pred(text, pos, self._fields)
                self._add(negate, pred)
                self.preds.append(pred)
                negate = False
                pos = self._operators(pos)
                if pos < 0:
                    return self._stack[0]
        code = FilterErr.INVALID_FILTER if self.preds else FilterErr.NO_FILTER
        _fail(errno.EINVAL, code, len(text))

    def _add(self, negate: bool, pred: Pred | None = None) -> _Node:
        node = _Node(len(self.preds), negate, pred)
        self._stack[-1].terms[-1].append(node)
        return node

    def _operators(self, pos: int) -> int:
        """Step over what may follow a predicate; -1: the end of the text."""
        text = self._text
        while True:
            char = text[pos : pos + 1]
            if not char:
                return -1
            if is_space(char):
                pos += 1
            elif char == ")":
                self._stack.pop()
                pos += 1
            elif char in "&|" and text[pos + 1 : pos + 2] == char:
                if char == "|":
                    self._stack[-1].terms.append([])
                return pos + 2
            else:
                _fail(errno.EPERM, FilterErr.TOO_MANY_PREDS, pos)


# ---- predicates


def parse_pred(text: str, start: int, fields: Sequence[Field]) -> tuple[Pred, int]:
    """Return (predicate, place behind it); EINVAL, EPERM.  Kernel: parse_pred()"""
    match = _NAME.match(text, start)
    assert match
    if not match.group():
        _fail(errno.EPERM, None, 0)
    pos = match.end()
    info = find_field(fields, match.group())
    # as in Linux, the positions of the errors here are one too high
    if info is None:
        _fail(errno.EINVAL, FilterErr.FIELD_NOT_FOUND, pos + 1)
    if text.startswith(".ustring", pos):
        pos += len(".ustring")
        if info.source == abi.FROM_KERNEL:
            info = info._replace(source=abi.FROM_USER)
    pos = _skip(text, pos)
    symbol = next((s for s in _OPS if text.startswith(s, pos)), None)
    if symbol is None:
        _fail(errno.EINVAL, FilterErr.INVALID_OP, pos + 1)
    op = _OPS[symbol]
    pos = _skip(text, pos + len(symbol))
    char = text[pos : pos + 1]
    if char and char in "'\"":
        return _string_pred(text, pos, info, op)
    if char and char in "-0123456789":
        return _number_pred(text, pos, info, op)
    _fail(errno.EINVAL, FilterErr.INVALID_VALUE, pos + 1)


def _skip(text: str, pos: int) -> int:
    while pos < len(text) and is_space(text[pos]):
        pos += 1
    return pos


def _string_pred(text: str, pos: int, info: FieldInfo, op: int) -> tuple[Pred, int]:
    if op not in (abi.PRED_NE, abi.PRED_GLOB, abi.PRED_EQ):
        _fail(errno.EINVAL, FilterErr.ILLEGAL_FIELD_OP, pos + 1)
    if not info.is_string:
        _fail(errno.EINVAL, FilterErr.EXPECT_DIGIT, pos + 1)
    end = text.find(text[pos], pos + 1)
    if end < 0:
        _fail(errno.EINVAL, FilterErr.MISSING_QUOTE, len(text) + 1)
    if end - pos - 1 >= MAX_FILTER_STR_VAL:
        _fail(errno.EINVAL, FilterErr.OPERAND_TOO_LONG, end + 1)
    string = text[pos + 1 : end]
    pred = Pred(abi.PRED_FULL, info.source, info.field, string=string)
    if op == abi.PRED_GLOB:
        _parse_glob(pred)
    else:
        pred.negate = op == abi.PRED_NE
    return pred, end + 1


def _parse_glob(pred: Pred) -> None:
    """Set how to match, and with what string.  Kernel: filter_parse_regex()"""
    text = pred.string
    if text.startswith("!"):
        pred.negate = True
        text = text[1:]
    pred.string = text
    if is_digit(text[:1]):
        return
    inner = text[1:-1] if text[:1] == "*" else text[:-1]
    if any(char in text for char in "?[\\") or "*" in inner:
        pred.op = abi.PRED_GLOB
    elif text[:1] == "*":
        pred.op = abi.PRED_MIDDLE if text[1:].endswith("*") else abi.PRED_END
        pred.string = text[1:].removesuffix("*")
    elif text.endswith("*"):
        pred.op = abi.PRED_FRONT
        pred.string = text[:-1]


def _number_pred(text: str, pos: int, info: FieldInfo, op: int) -> tuple[Pred, int]:
    if info.is_string:
        _fail(errno.EINVAL, FilterErr.EXPECT_STRING, pos + 1)
    if op == abi.PRED_GLOB:
        _fail(errno.EINVAL, FilterErr.ILLEGAL_FIELD_OP, pos + 1)
    match = _NUMBER.match(text, pos)
    assert match
    digits, end = match.group(), match.end()
    if len(digits) >= MAX_NUMBER:
        _fail(errno.EINVAL, FilterErr.OPERAND_TOO_LONG, end + 1)
    signed = info.field.signed
    try:
        value = kstrtol(digits) if signed else kstrtoul(digits)
    except KernelError:
        _fail(errno.EINVAL, FilterErr.ILLEGAL_INTVAL, pos + 1)
    bits = 8 * info.field.size
    if bits in (8, 16, 32):
        value &= (1 << bits) - 1
        if signed and value >> (bits - 1):
            value -= 1 << bits
    return Pred(op, info.source, info.field, value & MASK64), end


# ---- programs


def _link(root: _Node) -> None:
    """Set where each predicate goes on.  Nodes may be nested to any depth."""
    todo = [(root, ACCEPT, REJECT)]
    while todo:
        node, yes, no = todo.pop()
        if node.negate:
            yes, no = no, yes
        if node.pred:
            _go_on(node.pred, yes, no)
            continue
        for group, after in zip(node.terms, [*node.terms[1:], None], strict=True):
            otherwise = after[0].start if after else no
            for term, following in zip(group, [*group[1:], None], strict=True):
                then = following.start if following else yes
                todo.append((term, then, otherwise))


def _go_on(pred: Pred, yes: int, no: int) -> None:
    never = pred.source == abi.FROM_RECORD and pred.field.size not in (1, 2, 4, 8)
    if never and pred.op <= abi.PRED_BAND:
        yes = no
    if pred.source == abi.FROM_CPU and pred.op == abi.PRED_BAND:
        yes = no
    pred.yes, pred.no = yes, no


class EventFilter:
    """A filter as it was written; one with an error in it lets all records pass."""

    def __init__(self, text: str, preds: Sequence[Pred] = ()) -> None:
        """text: what the filter file shows."""
        self.text = text
        self.preds = preds

    def size(self) -> int:
        """Return the number of bytes that encode() will return."""
        strings = sum(len(p.string) + 1 for p in self.preds if p.op > abi.PRED_BAND)
        return len(self.preds) * _PRED.size + strings

    def encode(self, addr: int) -> bytes:
        """Make the program, which will lie at addr in guest memory."""
        out, strings = b"", b""
        addr += len(self.preds) * _PRED.size
        for p in self.preds:
            value = p.value
            if p.op > abi.PRED_BAND:
                value = addr + len(strings)
                strings += p.string.encode("latin-1") + b"\0"
            out += _PRED.pack(
                p.op,
                p.source,
                p.negate * abi.PRED_NOT | p.field.signed * abi.PRED_SIGNED,
                p.yes,
                p.no,
                p.field.offset,
                p.field.size,
                len(p.string),
                value,
            )
        return out + strings


def create_filter(text: str, fields: Sequence[Field]) -> EventFilter:
    """Compile a filter for these fields; FilterError.  Kernel: process_preds()"""
    check_structure(text)
    parser = _FilterParser(text, fields)
    _link(parser.parse())
    return EventFilter(text, parser.preds)


def error_text(text: str, error: FilterError) -> str:
    """Return the file's text for a wrong filter.  Kernel: append_filter_err()"""
    if error.code is None:
        return f"{text}\nError: (0)\n"
    pos = min(error.pos, len(text))
    pos += pos > 0
    return f"{text}\n{'^':>{pos}}\nparse_error: {error.code.value}\n"
