# SPDX-License-Identifier: GPL-2.0-or-later
"""Changes the arguments of x86-64's calls to those of ppc64 and mips64.

Both have flags, requests of ioctl() and settings of terminals of their own.
"""

from __future__ import annotations

import termios
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kpfs.base import syscall_numbers as nr
from kpfs.base.data_model import LITTLE_64
from kpfs.linux.arch.arch import Args
from kpfs.linux.arch.generic_calls import ABSENT, with_flags

Places = Sequence[tuple[int, int]]  # bits of x86-64, and of another architecture
_PLAIN = 0x54, 0x89  # types of terminals and sockets: the number is all there is
_DIRECTION, _SIZE, _TYPE = 30, 0x3FFF_0000, 8
_DIRECTIONS = 1 << 29, 4 << 29, 2 << 29, 6 << 29  # by x86-64's: none, write, read, both
_WORDS = 16  # bytes before a terminal's line discipline
_SET_TERMINAL = termios.TCSETS, termios.TCSETSW


def moved(flags: int, places: Places) -> int:
    """Return flags with some of them in other places."""
    found = flags & ~sum(old for old, _ in places)
    return found | sum(new for old, new in places if flags & old)


class Terminal(NamedTuple):
    """The settings of terminals, struct termios."""

    flags: Sequence[Places]  # in the words of input, output, control and local modes
    characters: Sequence[int]  # x86-64's places of the special ones, by the others
    nr_characters: int
    speed: int | None = None  # in both directions, behind them

    def of(self, settings: bytes) -> bytes:
        """Return settings of x86-64 as the architecture has them."""
        words = LITTLE_64.struct("4I").unpack_from(settings)
        changed = (moved(*each) for each in zip(words, self.flags, strict=True))
        line, chars = settings[_WORDS : _WORDS + 1], settings[_WORDS + 1 :] + b"\0"
        placed = bytes(chars[place] for place in self.characters)
        out = LITTLE_64.struct("4I").pack(*changed)
        if self.speed is None:
            return out + line + placed.ljust(self.nr_characters, b"\0")
        out += placed.ljust(self.nr_characters, b"\0") + line
        return out + LITTLE_64.struct("2I").pack(self.speed, self.speed)


class ChangedCalls(NamedTuple):
    """The calls of an architecture."""

    numbers: Mapping[int, int]
    requests: Mapping[int, int]  # ioctl()'s, where x86-64's numbers tell too little
    terminal: Terminal
    flags: Places  # open()'s
    # by call: the place of an argument, and what makes it the architecture's
    converters: Mapping[int, Sequence[tuple[int, Callable[[int], int]]]]
    arguments: Mapping[int, Callable[..., Args]]  # what becomes of all those of a call

    def open_flags(self, flags: int) -> int:
        """Return open()'s flags of x86-64 as the architecture has them."""
        return moved(flags, self.flags)

    def request(self, number: int) -> int:
        """Return a request of ioctl() as the architecture has it."""
        if (found := self.requests.get(number)) is not None:
            return found
        if number >> _TYPE in _PLAIN:
            return number
        return _DIRECTIONS[number >> _DIRECTION & 3] | number & _SIZE | number & 0xFFFF

    def native(self, number: int, args: Args) -> tuple[int, Args]:
        """Return a call of x86-64 as the architecture has it."""
        change = self.arguments.get(number)
        args = change(*args) if change else args
        changed = [*with_flags(number, args, self.open_flags)]
        for place, convert in self.converters.get(number, ()):
            if place < len(changed) and isinstance(changed[place], int):
                changed[place] = convert(changed[place])
        if number == nr.IOCTL and isinstance(args[1], int):
            if args[1] in _SET_TERMINAL and isinstance(args[2], bytes):
                changed[2] = self.terminal.of(args[2])
            changed[1] = self.request(args[1])
        return self.numbers.get(number, ABSENT), tuple(changed)
