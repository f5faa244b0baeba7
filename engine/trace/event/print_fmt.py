# SPDX-License-Identifier: GPL-2.0-or-later
"""Prints records by the print format of their event, as programs that read traces do.

The kernel runs the code that TP_printk() was compiled to. Here the same expression is
read from the text of the event's ``format``: a format of printf, and arguments in C
over the fields of REC. Values are int, str (a literal) or bytes (memory of the record).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence

from kpfs.base.ktypes import MASK64
from kpfs.engine.trace.event.fields import DYNAMIC, RELATIVE, Field
from kpfs.engine.trace.event.trace_event import SymbolText
from kpfs.engine.trace.symbols import pointer_id

Value = int | str | bytes
Eval = Callable[[memoryview, int], Value]  # pages, offset of the record
Number = Callable[[memoryview, int], int]

_TOKEN = re.compile(
    r'\s*(\d\w*|[A-Za-z_]\w*|"(?:[^"\\]|\\.)*"'
    r"|'(?:[^'\\]|\\.)+'|->|<<|>>|[<>=!]=|&&|\|\||\S)"
)
_SPEC = re.compile(
    r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|z|t|j|L)?(?:([diuxXocs%])|p(\w*))"
)
_ESCAPES = {"n": "\n", "t": "\t", "0": "\0", "r": "\r"}
_SIZES = {"hh": 1, "h": 2, None: 4}  # bytes by modifier of printf; the others: 8
_WORDS = {  # size and sign that the words of a type give it
    "char": (1, True),
    "bool": (1, False),
    "short": (2, True),
    "int": (4, True),
    "unsigned": (4, False),
    "signed": (4, True),
    "pid_t": (4, True),
    "long": (8, True),
    "size_t": (8, False),
    "ssize_t": (8, True),
    "void": (8, False),
    **{f"{p}{8 * n}": (n, p == "s") for p in "us" for n in (1, 2, 4, 8)},
    **{f"__{p}{8 * n}": (n, p == "s") for p in "us" for n in (1, 2, 4, 8)},
    **{f"uint{8 * n}_t": (n, False) for n in (1, 2, 4, 8)},
    **{f"int{8 * n}_t": (n, True) for n in (1, 2, 4, 8)},
}
_QUALIFIERS = ("const", "volatile", "struct", "union", "enum")
_LEVELS = (  # levels of binary operators, from the weakest
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", ">", "<=", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_BINARY: dict[str, Callable[[int, int], int]] = {
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "<<": lambda a, b: a << (b & 63),
    ">>": lambda a, b: a >> (b & 63),
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: _divide(a, b),
    "%": lambda a, b: a - b * _divide(a, b),
}


class UnknownFormatError(Exception):
    """Raised for a format that has more than is known here."""


def record_text(
    print_fmt: str, fields: Sequence[Field], symbol: SymbolText
) -> Callable[[memoryview, int], str]:
    """Make the function that prints a record; UnknownFormatError."""
    fmt, quote, rest = print_fmt[1:].partition('", ')
    if not print_fmt.startswith('"') or not quote:
        raise UnknownFormatError(print_fmt)
    parser = _Parser(rest, fields)
    arguments = iter(parser.arguments())
    parts: list[Callable[[memoryview, int], str]] = []
    end = 0
    for spec in _SPEC.finditer(fmt):
        parts.append(_literal(fmt[end : spec.start()]))
        parts.append(_conversion(spec, arguments, symbol))
        end = spec.end()
    parts.append(_literal(fmt[end:]))
    return lambda pages, record: "".join([part(pages, record) for part in parts])


def plain_format(fields: Sequence[Field]) -> str:
    """Return a format that shows each field as NAME=VALUE."""
    texts, values = [], []
    for field in fields:
        name, bracket, _ = field.name.partition("[")
        kind, value = "%s", f"REC->{name}"
        if field.type.startswith(DYNAMIC):
            length = f"__get_dynamic_array_len({name})"
            value = f"__print_hex(__get_dynamic_array({name}), {length})"
            if field.type.endswith("_loc char[]"):
                value = f"__get_str({name})"
        elif bracket and "char" not in field.type:
            value = f"__print_hex({value}, {field.size})"
        elif not bracket:
            kind = "%lld" if field.signed else "%llu"
            if field.size not in (1, 2, 4, 8):
                continue
        texts.append(f"{name}={kind}")
        values.append(value)
    return f'"{" ".join(texts)}", {", ".join(values)}'


# ---- the format of printf


def _literal(text: str) -> Callable[[memoryview, int], str]:
    if "%" in text:
        raise UnknownFormatError(text)
    return lambda pages, record: text


def _conversion(
    spec: re.Match[str], arguments: Iterator[Eval], symbol: SymbolText
) -> Callable[[memoryview, int], str]:
    flags, width, precision, modifier, kind, pointer = spec.groups()
    if kind == "%":
        return _literal_percent
    stars: list[Number] = []
    python = f"%{flags}"
    for mark, text in (("", width), (".", precision)):
        if text == "*":
            stars.append(_number(_next(arguments)))
        python += f"{mark}{text}" if text else ""
    value = _next(arguments)
    show: Callable[[Value], int | str]
    if kind is None and pointer in ("b", "bl") and stars:
        bits, text = stars.pop(), _bitmap if pointer == "b" else _bit_ranges
        return lambda p, r: text(_memory(value(p, r)), bits(p, r))
    if kind is None:
        show = _pointer(pointer, symbol)
    elif kind == "s":
        show = _string
    elif kind == "c":
        show = _character
    else:
        show = _integer(8 * _SIZES.get(modifier, 8), kind in "di")
    python += "s" if kind in (None, "s", "c") else "d" if kind in "iu" else str(kind)

    def convert(pages: memoryview, record: int) -> str:
        given = tuple(star(pages, record) for star in stars)
        return python % (*given, show(value(pages, record)))

    return convert


def _literal_percent(pages: memoryview, record: int) -> str:
    return "%"


def _next(arguments: Iterator[Eval]) -> Eval:
    found = next(arguments, None)
    if found is None:
        raise UnknownFormatError("an argument is missing")
    return found


def _string(value: Value) -> str:
    if isinstance(value, bytes):
        return value.partition(b"\0")[0].decode("latin-1")
    return value if isinstance(value, str) else f"(0x{value & MASK64:x})"


def _character(value: Value) -> str:
    return chr(_int(value) & 0xFF)


def _integer(bits: int, signed: bool) -> Callable[[Value], int]:
    return lambda value: _wrapped(_int(value), bits, signed)


def _pointer(kind: str, symbol: SymbolText) -> Callable[[Value], str]:
    if kind in ("S", "s", "B"):
        return lambda value: symbol(_int(value) & MASK64, kind != "s")
    if kind == "x":
        return lambda value: f"{_int(value) & MASK64:016x}"
    if kind:
        raise UnknownFormatError(f"%p{kind}")
    return lambda value: pointer_id(_int(value) & MASK64)


def _wrapped(value: int, bits: int, signed: bool) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> bits - 1 else value


def _int(value: Value) -> int:
    return value if isinstance(value, int) else 0


def _number(value: Eval) -> Number:
    return lambda pages, record: _int(value(pages, record))


def _divide(a: int, b: int) -> int:
    quotient = abs(a) // abs(b) if b else 0
    return quotient if (a < 0) == (b < 0) else -quotient


# ---- arguments


class _Parser:
    """Reads expressions of C, and makes functions of them that compute the value."""

    def __init__(self, text: str, fields: Sequence[Field]) -> None:
        self._words = _TOKEN.findall(text)
        self._at = 0
        self._fields = {field.name.partition("[")[0]: field for field in fields}

    def arguments(self) -> list[Eval]:
        found: list[Eval] = []
        while self._at < len(self._words):
            found.append(self._expression())
            if self._at < len(self._words):
                self._expect(",")
        return found

    @property
    def _word(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def _take(self) -> str:
        word = self._word
        self._at += 1
        return word

    def _expect(self, word: str) -> None:
        if self._take() != word:
            raise UnknownFormatError(f"{word} is missing")

    def _expression(self) -> Eval:
        condition = self._binary(0)
        if self._word != "?":
            return condition
        self._take()
        yes = self._expression()
        self._expect(":")
        no = self._expression()
        return lambda p, r: yes(p, r) if condition(p, r) else no(p, r)

    def _binary(self, level: int) -> Eval:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while self._word in _LEVELS[level]:
            left = _joined(self._take(), left, self._binary(level + 1))
        return left

    def _unary(self) -> Eval:
        if self._word in ("-", "+", "~", "!"):
            sign, value = self._take(), _number(self._unary())
            if sign == "-":
                return lambda p, r: -value(p, r)
            if sign == "~":
                return lambda p, r: ~value(p, r)
            return value if sign == "+" else lambda p, r: not value(p, r)
        if self._word == "(":
            start = self._at
            self._take()
            if (kind := self._type()) and self._word == ")":
                self._take()
                return _cast(self._unary(), *kind)
            self._at = start
        return self._primary()

    def _type(self) -> tuple[int, bool] | None:
        """Read a type; return its size and whether it is signed, None: it is none."""
        words = []
        while self._word in _WORDS or self._word in _QUALIFIERS:
            if self._take() in ("struct", "union", "enum"):
                self._take()
                words.append("int")
            else:
                words.append(self._words[self._at - 1])
        known = [word for word in words if word in _WORDS]
        if not known:
            return None
        if self._word == "*":
            while self._word in ("*", "const"):
                self._take()
            return 8, False
        sized = [w for w in known if w not in ("unsigned", "signed", "int")] or known
        size, signed = _WORDS[sized[0]]
        return size, signed and "unsigned" not in known

    def _primary(self) -> Eval:
        word = self._take()
        if word == "(":
            inner = self._expression()
            self._expect(")")
            return inner
        if word.startswith('"'):
            text = _unquoted(word)
            while self._word.startswith('"'):
                text += _unquoted(self._take())
            return lambda p, r: text
        if word.startswith("'"):
            code = ord(_unquoted(word)[:1] or "\0")
            return lambda p, r: code
        if word[:1].isdigit():
            number = _number_of(word)
            return lambda p, r: number
        if word == "REC":
            self._expect("->")
            return self._field(self._take())
        if word == "sizeof":
            self._expect("(")
            kind = self._type()
            self._expect(")")
            if kind is None:
                raise UnknownFormatError("sizeof")
            size = kind[0]
            return lambda p, r: size
        return self._call(word)

    # ---- fields

    def _named(self, name: str) -> Field:
        if name not in self._fields:
            raise UnknownFormatError(f"no field {name}")
        return self._fields[name]

    def _field(self, name: str) -> Eval:
        field = self._named(name)
        at, size = field.offset, field.size
        if field.type.startswith(DYNAMIC):
            raise UnknownFormatError(f"REC->{name}")
        if "[" not in field.name:
            if size not in (1, 2, 4, 8):
                raise UnknownFormatError(f"REC->{name}")
            unpack = _integer_at(size, field.signed)
            return lambda p, r: unpack(p, r + at)
        if self._word != "[":
            return lambda p, r: bytes(p[r + at : r + at + size])
        self._take()
        index = _number(self._expression())
        self._expect("]")
        each, signed = _WORDS.get(field.type.split()[-1], (0, False))
        if not each:
            raise UnknownFormatError(field.type)
        one = _integer_at(each, signed and "unsigned" not in field.type)
        last = size // each - 1
        return lambda p, r: one(p, r + at + each * min(max(index(p, r), 0), last))

    def _dynamic(self) -> Callable[[memoryview, int], bytes]:
        """Read the name of a field whose bytes are elsewhere in the record."""
        field = self._named(self._take())
        place = _integer_at(4, signed=False)
        at = field.offset
        base = at + 4 if field.type.startswith(RELATIVE) else 0

        def read(pages: memoryview, record: int) -> bytes:
            where = place(pages, record + at)
            start = record + base + (where & 0xFFFF)
            return bytes(pages[start : start + (where >> 16)])

        return read

    # ---- functions of trace events

    def _call(self, name: str) -> Eval:
        self._expect("(")
        made = self._function(name)
        self._expect(")")
        return made

    def _function(self, name: str) -> Eval:
        name = name.replace("__get_rel_", "__get_")
        if name in ("__get_str", "__get_dynamic_array"):
            return self._dynamic()
        if name == "__get_dynamic_array_len":
            read = self._dynamic()
            return lambda p, r: len(read(p, r))
        if name in ("__get_bitmask", "__get_cpumask"):
            bits = self._dynamic()
            return lambda p, r: _bitmap(words := bits(p, r), 8 * len(words))
        if name in ("__print_flags", "__print_flags_u64"):
            value = _number(self._expression())
            self._expect(",")
            between = self._literal()
            flags = self._table()
            return lambda p, r: _flags(value(p, r) & MASK64, between, flags)
        if name in ("__print_symbolic", "__print_symbolic_u64"):
            value = _number(self._expression())
            names = dict(reversed(self._table()))
            return lambda p, r: names.get(v := value(p, r)) or f"{v & MASK64:#x}"
        if name in ("__print_hex", "__print_hex_str"):
            data, length = self._expression(), self._second()
            blank = " " if name == "__print_hex" else ""

            def show(pages: memoryview, record: int) -> str:
                shown = _memory(data(pages, record))[: length(pages, record)]
                return blank.join(f"{byte:02x}" for byte in shown)

            return show
        if name == "__print_dynamic_array":
            items, each = self._dynamic(), self._second()
            return lambda p, r: _array(data := items(p, r), len(data), each(p, r))
        if name == "__print_array":
            data, count, each = self._expression(), self._second(), self._second()
            return lambda p, r: _array(_memory(data(p, r)), count(p, r), each(p, r))
        raise UnknownFormatError(name)

    def _literal(self) -> str:
        if not self._word.startswith('"'):
            raise UnknownFormatError(self._word)
        return _unquoted(self._take())

    def _second(self) -> Number:
        self._expect(",")
        return _number(self._expression())

    def _table(self) -> list[tuple[int, str]]:
        """Read the rest of the arguments, each {NUMBER, "NAME"}."""
        rows: list[tuple[int, str]] = []
        nothing = memoryview(b"")
        while self._word == ",":
            self._take()
            self._expect("{")
            try:
                number = _int(self._expression()(nothing, 0))
            except struct.error:
                raise UnknownFormatError("a table of fields") from None
            self._expect(",")
            rows.append((number, self._literal()))
            self._expect("}")
        return rows


def _joined(sign: str, left: Eval, right: Eval) -> Eval:
    if sign == "&&":
        return lambda p, r: bool(left(p, r)) and bool(right(p, r))
    if sign == "||":
        return lambda p, r: bool(left(p, r)) or bool(right(p, r))
    operate = _BINARY[sign]
    return lambda p, r: operate(_int(left(p, r)), _int(right(p, r)))


def _cast(value: Eval, size: int, signed: bool) -> Eval:
    def cast(pages: memoryview, record: int) -> Value:
        found = value(pages, record)
        return _wrapped(found, 8 * size, signed) if isinstance(found, int) else found

    return cast


def _integer_at(size: int, signed: bool) -> Callable[[memoryview, int], int]:
    code = {1: "b", 2: "h", 4: "i", 8: "q"}[size]
    unpack = struct.Struct("<" + (code if signed else code.upper())).unpack_from
    return lambda pages, at: unpack(pages, at)[0]


def _unquoted(word: str) -> str:
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), word[1:-1])


def _number_of(word: str) -> int:
    digits = word.rstrip("uUlL")
    try:
        octal = digits.startswith("0") and digits.isdigit()
        return int(digits, 8) if octal else int(digits, 0)
    except ValueError:
        raise UnknownFormatError(word) from None


def _memory(value: Value) -> bytes:
    return value if isinstance(value, bytes) else b""


# ---- what the functions print


def _flags(value: int, between: str, flags: Sequence[tuple[int, str]]) -> str:
    """Kernel: trace_print_flags_seq()"""
    names = []
    for mask, name in flags:
        if value & mask == mask:
            names.append(name)
            value &= ~mask
    if value:
        names.append(f"{value:#x}")
    return between.join(names)


def _array(data: bytes, count: int, size: int) -> str:
    """Kernel: trace_print_array_seq()"""
    if size not in (1, 2, 4, 8):
        return "{}"
    count = min(count, len(data) // size)
    pieces = [data[i * size : i * size + size] for i in range(count)]
    numbers = ",".join(f"{int.from_bytes(p, 'little'):#x}" for p in pieces)
    return f"{{{numbers}}}"


def _bitmap(data: bytes, bits: int) -> str:
    """Kernel: bitmap_string()"""
    number = int.from_bytes(data, "little") & ((1 << bits) - 1)
    words = [f"{number >> at & 0xFFFFFFFF:08x}" for at in range(0, bits, 32)]
    digits = ((bits - 1) % 32 + 4) // 4
    return ",".join([*(word[-digits:] for word in words[-1:]), *words[-2::-1]])


def _bit_ranges(data: bytes, bits: int) -> str:
    """Kernel: bitmap_list_string()"""
    number = int.from_bytes(data, "little")
    runs = re.finditer("1+", f"{number & ((1 << bits) - 1):b}"[::-1])
    ends = [(run.start(), run.end() - 1) for run in runs]
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ends)
