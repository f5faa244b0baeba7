# SPDX-License-Identifier: GPL-2.0-or-later
"""An index of a kernel's functions: their prototypes, and which calls which.

It is made of the image's symbols, types (BTF) and text, and kept beside the image.
Calls are those whose target an instruction has in itself, none through pointers.
A function that the compiler has split (NAME.part.0, NAME.cold) is its own here.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

from kpfs.base.data_model import BIG_64, LITTLE_64
from kpfs.base.errors import MemoryFault
from kpfs.base.ktypes import FUNCTION_TYPES
from kpfs.linux.memory.btf import read_btf
from kpfs.linux.memory.memory import KernelMemory
from kpfs.linux.memory.symbols import CoreSymbols

_CHUNK = 1 << 20  # bytes of text that are read at a time
_OVERLAP = 8  # bytes of the longest sequence that makes a call, and more
# bytes that a call may pass by: a landing pad, and on ppc64 what loads r2
_PASSED_BY, _LANDING_PAD = {"ppc64": 8}, 4
_REL32 = LITTLE_64.struct("i").unpack
_REL32_BIG = BIG_64.struct("i").unpack
_PREFIXES = "__pfx_", "__cfi_"  # no functions: padding before them
_MARKS = "_text", "_stext"  # likewise: where text begins
_SUFFIX = re.compile(r"\.(?:isra|constprop|part|cold|llvm)\b.*")


# An instruction that calls a function, or jumps to it: where it is, the distance to the
# function from there, bytes from there to where the function returns to (0: it jumps).
_Call = tuple[int, int, int]


def _x86_calls(code: bytes) -> Iterator[_Call]:
    for found in re.finditer(rb"(?s)\xe8(?=(....))|\xe9(?=(....))", code):
        is_call = found.lastindex == 1
        (far,) = _REL32(found[1] if is_call else found[2])
        yield found.start(), 5 + far, 5 * is_call


def _arm64_calls(code: bytes) -> Iterator[_Call]:
    for found in re.finditer(rb"(?s)(?=(...)([\x14-\x17\x94-\x97]))", code):
        at = found.start()
        if at % 4 == 0:
            word = LITTLE_64.number(found[1] + bytes([found[2][0] & 3]))
            yield at, (word - (word >> 25 << 26)) * 4, 4 * (found[2][0] >> 7)


def _riscv64_calls(code: bytes) -> Iterator[_Call]:
    """Yield pairs of auipc and jalr by ra (a call) or t1 (a tail call)."""
    pairs = rb"(?s)(?=(\x97[\x00-\xff]..\xe7\x80..|\x17[\x00-\xff]..\x67\x00..))"
    for found in re.finditer(pairs, code):
        high, low = LITTLE_64.struct("II").unpack(found[1])
        if high >> 7 & 31 == low >> 15 & 31:
            far = _signed(high >> 12, 20) * 4096 + _signed(low >> 20, 12)
            yield found.start(), far, 8 * (high >> 7 & 1)


def _s390x_calls(code: bytes) -> Iterator[_Call]:
    """Yield brasl by r14 (a call) and jg (a tail call)."""
    for found in re.finditer(rb"(?s)\xc0[\xe5\xf4](?=(....))", code):
        if found.start() % 2 == 0:
            is_call = found[0][1] == 0xE5
            yield found.start(), 2 * _REL32_BIG(found[1])[0], 6 * is_call


def _ppc64_calls(code: bytes) -> Iterator[_Call]:
    """Yield bl (a call) and b."""
    for found in re.finditer(rb"(?s)(?=(...[\x48-\x4b]))", code):
        word = LITTLE_64.number(found[1])
        if found.start() % 4 == 0 and not word & 2:
            yield found.start(), _signed(word & 0x3FF_FFFC, 26), 4 * (word & 1)


# the last bytes of them: with each condition but "never"
_BRANCHES = bytes(16 * condition + kind for condition in range(15) for kind in (10, 11))


def _armhf_calls(code: bytes) -> Iterator[_Call]:
    """Yield bl (a call) and b, whatever their condition."""
    for found in re.finditer(rb"(?s)(?=(...[" + re.escape(_BRANCHES) + rb"]))", code):
        word = LITTLE_64.number(found[1])
        if found.start() % 4 == 0:
            yield found.start(), 8 + _signed(word & 0xFF_FFFF, 24) * 4, word >> 22 & 4


def _signed(value: int, bits: int) -> int:
    return value - (value >> bits - 1 << bits)


def _mips64_calls(code: bytes, begin: int) -> Iterator[_Call]:
    """Yield jal (a call) and j, which have the low bits of their target."""
    for found in re.finditer(rb"(?s)(?=(...[\x08-\x0f]))", code):
        at, word = found.start(), LITTLE_64.number(found[1])
        if at % 4 == 0:
            far = ((word << 2) - begin - at) & 0xFFF_FFFF
            yield at, _signed(far, 28), word >> 23 & 8


# by architecture: yields the calls in code
_CALLS: dict[str, Callable[[bytes], Iterator[_Call]]] = {
    "x86": _x86_calls,
    "arm64": _arm64_calls,
    "riscv64": _riscv64_calls,
    "s390x": _s390x_calls,
    "ppc64": _ppc64_calls,
    "armhf": _armhf_calls,
    "i386": _x86_calls,
}


def _calls_in(arch: str, code: bytes, begin: int) -> Iterator[_Call]:
    """Return the calls in code that begins at an address."""
    return _mips64_calls(code, begin) if arch == "mips64" else _CALLS[arch](code)


class FunctionIndex:
    """The functions of one kernel, by their numbers in the order of addresses.

    Context: any.
    """

    def __init__(self, pieces: Sequence[bytes | memoryview]) -> None:
        """pieces: what index_pieces() has made."""
        names, texts = (bytes(piece).decode().split("\n") for piece in pieces[:2])
        self.names, self._texts = names, texts
        tables = [array("I", bytes(piece)) for piece in pieces[2:]]
        self._prototypes = tables[0]  # numbers of texts
        self._callees, self._callers = tables[1:3], tables[3:]  # begins, numbers
        numbers = range(len(names) - 1, -1, -1)  # first of equal names
        self._numbers = dict(zip(reversed(names), numbers, strict=True))

    @cached_property
    def _suffixed(self) -> dict[str, list[str]]:
        found = defaultdict[str, list[str]](list)
        for name in sorted(name for name in self._numbers if "." in name):
            found[name.partition(".")[0]].append(name)
        return found

    def __contains__(self, name: str) -> bool:
        return name in self._numbers

    def _of(self, table: Sequence[array[int]], name: str) -> set[str]:
        number, (begins, numbers) = self._numbers.get(name), table
        if number is None:
            return set()
        span = numbers[begins[number] : begins[number + 1]]
        return {self.names[each] for each in span}

    def prototype(self, name: str) -> str:
        """Return result and arguments of a function as BTF has them, "" if unknown."""
        number = self._numbers.get(name)
        return "" if number is None else self._texts[self._prototypes[number]]

    def callees(self, name: str) -> set[str]:
        """Return the names of the functions that one calls."""
        return self._of(self._callees, name)

    def callers(self, name: str) -> set[str]:
        """Return the names of the functions that call one."""
        return self._of(self._callers, name)

    def around(self, name: str, count: int) -> list[str]:
        """Return the names of the functions that lie nearest on both sides."""
        number = self._numbers.get(name)
        if number is None:
            return []
        before = self.names[max(number - count, 0) : number]
        return before + self.names[number + 1 : number + 1 + count]

    def made_of(self, name: str) -> list[str]:
        """Return the names of what the compiler has made of a function: NAME.isra.0."""
        made = self._suffixed.get(name.partition(".")[0], ())
        return [each for each in made if each.startswith(f"{name}.")]


def source_name(name: str) -> str:
    """Return a function's name without a compiler's suffix."""
    return _SUFFIX.sub("", name) if "." in name else name


def index_pieces(
    memory: KernelMemory, symbols: CoreSymbols, arch: str
) -> Sequence[bytes]:
    """Return the pieces of an index, which takes seconds.  arch: LinuxArch.name."""
    start, end = symbols.address("_stext"), symbols.address("_etext")
    rows = [
        (addr, name)
        for addr, kind, name in symbols.rows()
        if kind in FUNCTION_TYPES and start <= addr < end
        if not name.startswith(_PREFIXES) and name not in _MARKS
    ]
    addresses = [addr for addr, _ in rows]
    # names of one function share its first one's calls
    numbers = {addr: number for number, addr in reversed([*enumerate(addresses)])}
    firsts = [numbers[addr] for addr in addresses]
    pairs, count = set[int](), len(rows)
    passed_by = _PASSED_BY.get(arch, _LANDING_PAD)
    for at, target in _calls(memory, start, end, arch):
        callee = numbers.get(target, numbers.get(target - passed_by))
        if callee is not None:
            pairs.add(firsts[bisect_right(addresses, at) - 1] * count + callee)
    called: list[list[int]] = [[] for _ in rows]
    callers: list[list[int]] = [[] for _ in rows]
    for pair in sorted(pairs):
        caller, callee = divmod(pair, count)
        if caller != callee:
            called[caller].append(callee)
            callers[callee].append(caller)
    btf = read_btf(memory, symbols)
    prototypes = dict(btf.prototypes()) if btf else {}
    texts, kinds = {"": 0}, array("I")
    names = [name for _, name in rows]
    for name in names:
        text = prototypes.get(source_name(name), "")
        kinds.append(texts.setdefault(text, len(texts)))
    tables = kinds, *_table(called, firsts), *_table(callers, firsts)
    pieces = "\n".join(names).encode(), "\n".join(texts).encode()
    return [*pieces, *(table.tobytes() for table in tables)]


def _table(
    lists: Sequence[list[int]], places: Iterable[int]
) -> tuple[array[int], array[int]]:
    """Return the lists at places, one behind the other, after where each begins."""
    begins, numbers = array("I", (0,)), array("I")
    for place in places:
        numbers.extend(lists[place])
        begins.append(len(numbers))
    return begins, numbers


def _calls(
    memory: KernelMemory,
    start: int,
    end: int,
    arch: str,
) -> Iterator[tuple[int, int]]:
    """Yield the addresses of calls and of their targets, as far as text is there."""
    for begin in range(start, end, _CHUNK):
        try:
            code = memory.read(begin, min(_CHUNK + _OVERLAP, end - begin))
        except MemoryFault:
            continue
        for at, distance, _ in _calls_in(arch, code, begin):
            yield begin + at, begin + at + distance


def returns_to(
    memory: KernelMemory, symbols: CoreSymbols, arch: str, callers: str, callee: str
) -> Iterator[int]:
    """Yield the addresses to which a function returns in some functions that call it.

    arch: LinuxArch.name; callers: names, with a space between them.
    """
    starts = [each.addr for each in symbols.lookup_name(callee)]
    passed_by = _PASSED_BY.get(arch, _LANDING_PAD)
    targets = {*starts, *(start + passed_by for start in starts)}
    for name in callers.split():
        for caller in symbols.lookup_name(name):
            code = memory.read(caller.addr, caller.size)
            for at, distance, size in _calls_in(arch, code, caller.addr):
                if size and caller.addr + at + distance in targets:
                    yield caller.addr + at + size
