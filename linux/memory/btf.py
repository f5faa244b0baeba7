# SPDX-License-Identifier: GPL-2.0-or-later
"""Layouts of structures, from a kernel's BTF: Documentation/bpf/btf.rst."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from kpfs.base.data_model import LITTLE_64, DataModel
from kpfs.base.errors import MemoryFault
from kpfs.linux.memory.memory import KernelMemory
from kpfs.linux.memory.symbols import CoreSymbols

MAGIC = 0xEB9F
_HEADER = "HBBIIIII"  # ..., size of it, types, their size, strings, ...
_HEAD_WORDS = 3  # words of a type: name, info, size or type
_STRUCT, _UNION, _ARRAY, _ENUM, _TAG, _INT = 4, 5, 3, 6, 17, 1
_POINTER, _FUNC, _PROTOTYPE = 2, 12, 13
_KEYWORDS = {4: "struct ", 5: "union ", 6: "enum ", 19: "enum "}
_QUALIFIERS = (9, 10, 11, 18)  # volatile, const, restrict, tag
_LAST = 19  # the last kind that we know
# words behind the head of a type of each kind, and for each of its vlen parts
_FIXED = {_INT: 1, _ARRAY: 3, 14: 1, 17: 1}
_EACH = {_STRUCT: 3, _UNION: 3, _ENUM: 2, 13: 2, 15: 3, 19: 3}
_NAMES_ANOTHER = (8, 9, 10, 11, 18)  # typedef, volatile, const, restrict, tag
_HAVE_SIZES = (_INT, _STRUCT, _UNION)
_REGISTER, _IN_REGISTERS = 8, 16  # bytes of one, and of what functions return in them
ANY = -1
_MAX_DEPTH = 16
_MAX_MEMBERS = 1 << 20  # looked at in all; some 20,000 suffice


class StructLayout(NamedTuple):
    """The places of a structure's fields, by path, such as core_layout.base."""

    size: int
    at: dict[str, int]  # bytes; those that this kernel has
    bits: dict[str, tuple[int, int]]  # by field of up to 8: the first, and how many

    def has(self, field: str) -> bool:
        """Return True if this kernel has the field."""
        return field in self.at


NOWHERE = StructLayout(0, {}, {})  # a structure that this kernel lacks


class Btf:
    """All types of a kernel."""

    def __init__(self, raw: bytes, model: DataModel = LITTLE_64) -> None:
        """Raises ValueError if the types are damaged or of another format."""
        header = model.struct(_HEADER)
        if len(raw) < header.size:
            raise ValueError("no BTF")
        head = header.unpack_from(raw)
        magic, _, _, size, types, types_size, names, names_size = head
        if magic != MAGIC:
            raise ValueError("no BTF")
        words = raw[size + types : size + types + types_size // 4 * 4]
        self._words = model.array("I", words)
        self._names = raw[size + names : size + names + names_size]
        self._starts = array("I", (0,))  # offsets of types by number; 0 is void
        self._starts.extend(self._walk())
        self._left = _MAX_MEMBERS

    def _walk(self) -> Iterator[int]:
        words, at, end = self._words, 0, len(self._words)
        fixed = [_FIXED.get(kind, 0) for kind in range(_LAST + 1)]
        each = [_EACH.get(kind, 0) for kind in range(_LAST + 1)]
        while at + _HEAD_WORDS <= end:
            yield at
            info = words[at + 1]
            kind = info >> 24 & 31
            if kind > _LAST:
                raise ValueError(f"a type of the unknown kind {kind}")
            at += _HEAD_WORDS + fixed[kind] + each[kind] * (info & 0xFFFF)

    def layouts(self, wanted: Mapping[str, Iterable[str]]) -> dict[str, StructLayout]:
        """Return structures by name, with those of the wanted paths that they have.

        Raises ValueError if the types are damaged.
        """
        try:
            return self._layouts(wanted)
        except IndexError:
            raise ValueError("a type ends too early") from None

    def _layouts(self, wanted: Mapping[str, Iterable[str]]) -> dict[str, StructLayout]:
        places = {self._name_place(name): name for name in wanted}
        found: dict[str, StructLayout] = {}
        words = self._words
        for at in self._starts[1:]:
            name = places.get(words[at])
            if name and name not in found and words[at + 1] >> 24 & 31 == _STRUCT:
                layout = StructLayout(words[at + 2], {}, {})
                for path in wanted[name]:
                    self._place(at, path.split("."), path, layout)
                found[name] = layout
        return found

    def _name_place(self, name: str) -> int:
        return self._names.find(f"\0{name}\0".encode()) + 1

    def _name(self, place: int) -> str:
        return self._names[place : self._names.find(b"\0", place)].decode("latin-1")

    def _place(self, at: int, rest: list[str], path: str, layout: StructLayout) -> None:
        """Find a path in a structure, and note its place."""
        base, bits = 0, 0
        for name in rest:
            found = self._member(at, name)
            if found is None:
                return
            bit, bits, kind = found
            base += bit
            at = self._resolved(kind)
        words = self._words
        if words[at + 1] >> 24 & 31 == _INT and words[at + 2] == 1:
            bits = bits or 8
        layout.at[path] = base // 8
        if bits:
            layout.bits[path] = base % 8, bits

    def _member(
        self, at: int, name: str, depth: int = 0
    ) -> tuple[int, int, int] | None:
        """Return a field's first bit, number of bits (0: a whole type), and type."""
        words, info = self._words, self._words[at + 1]
        if info >> 24 & 31 not in (_STRUCT, _UNION) or depth > _MAX_DEPTH:
            return None
        has_bits = info >> 31
        for part in range(info & 0xFFFF):
            self._left -= 1
            if self._left < 0:
                raise ValueError("types without an end")
            place, kind, where = words[at + 3 + 3 * part : at + 6 + 3 * part]
            bits = where >> 24 if has_bits else 0
            bit = where & 0xFFFFFF if has_bits else where
            if not place:  # fields of an unnamed structure are its own
                inner = self._member(self._resolved(kind), name, depth + 1)
                if inner is not None:
                    return bit + inner[0], inner[1], inner[2]
            elif self._name(place) == name:
                return bit, bits, kind
        return None

    def _resolved(self, kind: int) -> int:
        """Return the offset of a type behind typedefs; of an array, of its elements."""
        for _ in range(_MAX_DEPTH):
            at = self._starts[kind] if kind < len(self._starts) else 0
            what = self._words[at + 1] >> 24 & 31
            if what in _NAMES_ANOTHER:
                kind = self._words[at + 2]
            elif what == _ARRAY:
                kind = self._words[at + 3]
            else:
                return at
        raise ValueError("types in a circle")

    def values(self, names: Iterable[str]) -> dict[str, int]:
        """Return the values of enumerators of any enum, if they exist."""
        places = {self._name_place(name): name for name in names}
        places.pop(0, None)
        words, found = self._words, {}
        for at in self._starts[1:]:
            if words[at + 1] >> 24 & 31 == _ENUM:
                for row in range(at + 3, at + 3 + 2 * (words[at + 1] & 0xFFFF), 2):
                    if words[row] in places:
                        found[places[words[row]]] = words[row + 1]
        return found

    def tagged(self, tag: str) -> list[str]:
        """Return the names of functions that have a tag, sorted."""
        place, words, found = self._name_place(tag), self._words, []
        for at in self._starts[1:]:
            if place and words[at] == place and words[at + 1] >> 24 & 31 == _TAG:
                found.append(self._name(words[self._starts[words[at + 2]]]))
        return sorted(found)

    def prototypes(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each function, and its result and arguments."""
        words = self._words
        for at in self._starts[1:]:
            if words[at + 1] >> 24 & 31 == _FUNC:
                yield self._name(words[at]), self._words_of(words[at + 2])

    def arguments(self) -> Iterator[tuple[str, int]]:
        """Yield the name of each function, and how many registers its arguments take.

        At most so many: on some architectures a structure takes none. ANY: it takes as
        many as the caller likes, or has to return a structure to where one points, or
        the types tell of none, as of functions in assembly.
        """
        words, starts = self._words, self._starts
        for at in starts[1:]:
            if words[at + 1] >> 24 & 31 == _FUNC:
                place = starts[words[at + 2]]
                last = place + 3 + 2 * (words[place + 1] & 0xFFFF)
                kinds = words[place + 4 : last : 2]
                is_any = (
                    not kinds
                    or 0 in kinds
                    or self._is_wide(words[place + 2], _IN_REGISTERS)
                )
                count = sum(1 + self._is_wide(kind, _REGISTER) for kind in kinds)
                yield self._name(words[at]), ANY if is_any else count

    def _is_wide(self, kind: int, size: int) -> bool:
        """Return True if a type has more bytes than that."""
        words, at = self._words, self._resolved(kind) if kind else 0
        has_size = kind and words[at + 1] >> 24 & 31 in _HAVE_SIZES
        return bool(has_size) and words[at + 2] > size

    def _words_of(self, kind: int, depth: int = 0) -> str:
        """Return a type as C has it, but for the names of arguments and of const."""
        known = self._type_words.get(kind)
        if known is None:
            known = self._type_words[kind] = self._in_words(kind, depth)
        return known

    def _in_words(self, kind: int, depth: int) -> str:
        if not kind or depth > _MAX_DEPTH:
            return "..." if depth > _MAX_DEPTH else "void"
        words, at = self._words, self._starts[kind]
        name, what, inner = words[at], words[at + 1] >> 24 & 31, words[at + 2]
        if what == _POINTER:
            text = self._words_of(inner, depth + 1)
            return text if text.endswith(")") else f"{text}*"
        if what == _PROTOTYPE:
            kinds = words[at + 4 : at + 3 + 2 * (words[at + 1] & 0xFFFF) : 2]
            listed = [
                self._words_of(each, depth + 1) if each else "..." for each in kinds
            ]
            return f"{self._words_of(inner, depth + 1)} ({', '.join(listed)})"
        if what == _ARRAY:
            return f"{self._words_of(words[at + 3], depth + 1)}*"
        if what in _QUALIFIERS:
            return self._words_of(inner, depth + 1)
        return f"{_KEYWORDS.get(what, '')}{self._name(name)}"

    @cached_property
    def _type_words(self) -> dict[int, str]:
        return {}

    def enumerators(self, name: str) -> dict[int, str]:
        """Return the enumerators of an enum by their values; {} if there is none."""
        at, words = self._enums.get(self._name_place(name)), self._words
        if at is None:
            return {}
        rows = range(at + 3, at + 3 + 2 * (words[at + 1] & 0xFFFF), 2)
        return {words[row + 1]: self._name(words[row]) for row in rows}

    @cached_property
    def _enums(self) -> dict[int, int]:
        """The offsets of enums by the places of their names, which 0 is none of."""
        words, found = self._words, dict[int, int]()
        for at in self._starts[1:]:
            if words[at] and words[at + 1] >> 24 & 31 == _ENUM:
                found.setdefault(words[at], at)
        return found


def read_btf(memory: KernelMemory, symbols: CoreSymbols) -> Btf | None:
    """Return the types that a kernel carries, None if it carries none."""
    start, end = symbols.address("__start_BTF"), symbols.address("__stop_BTF")
    if not start < end:
        return None
    try:
        return Btf(memory.read(start, end - start), memory.model)
    except (MemoryFault, ValueError):
        return None
