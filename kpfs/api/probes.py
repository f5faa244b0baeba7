# SPDX-License-Identifier: GPL-2.0-or-later
"""Probes whose handlers are Python functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol


class Registers(Protocol):
    """The registers at a hit, unsigned; what is set goes back to the CPU.

    They are valid until the handler returns.  By a number one gets a word of the
    structure in memory order.  Kernel: struct pt_regs
    """

    r15: int
    r14: int
    r13: int
    r12: int
    bp: int
    bx: int
    r11: int
    r10: int
    r9: int
    r8: int
    ax: int
    cx: int
    dx: int
    si: int
    di: int
    orig_ax: int
    ip: int
    cs: int
    flags: int
    sp: int
    ss: int

    def __getitem__(self, i: int) -> int: ...
    def __setitem__(self, i: int, value: int) -> None: ...
    def __iter__(self) -> Iterator[int]: ...


# Each is called while the kernel stands at the probe, and may read and write memory and
# registers.  One that stands before an instruction returns non-zero if it has set up
# the registers itself, and execution is to go on at regs.ip.
PreHandler = Callable[[Registers], "int | None"]
PostHandler = Callable[[Registers], object]
ReturnHandler = Callable[[Registers], object]


class Registered(Protocol):
    """A probe of a kernel of our own, or of a real one.  Methods raise OSError."""

    place: str  # as it was given: SYMBOL[+OFFSET] or an address
    kind: str  # as in kprobes/list

    @property
    def closed(self) -> bool:
        """Whether the kernel is closed."""

    @property
    def address(self) -> int: ...

    @property
    def nmissed(self) -> int: ...

    def disable(self) -> None: ...

    def enable(self) -> None: ...

    def unregister(self) -> None:
        """Twice does no harm."""


class Probe:
    """A registered probe.  As a context manager it is unregistered at the end."""

    def __init__(self, registered: Registered) -> None:
        self._registered = registered
        self.place = registered.place  # as it was given: SYMBOL[+OFFSET] or an address

    def __enter__(self) -> Probe:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._registered.closed:
            self.unregister()

    def __repr__(self) -> str:
        return f"<Probe {self._registered.kind} {self.place}>"

    @property
    def address(self) -> int:
        """Where it stands in the kernel."""
        return self._registered.address

    @property
    def nmissed(self) -> int:
        """How many hits its handlers were not called for."""
        return self._registered.nmissed

    def disable(self) -> None:
        """Let it stay, without being hit."""
        self._registered.disable()

    def enable(self) -> None:
        """Let it be hit again."""
        self._registered.enable()

    def unregister(self) -> None:
        """Take it away; no handler is called any more.  Twice does no harm."""
        self._registered.unregister()


def place_of(symbol: str | int, offset: int) -> str:
    """A place as it was given: SYMBOL[+OFFSET] or an address."""
    if isinstance(symbol, int):
        return hex(symbol + offset)
    return f"{symbol}+{offset:#x}" if offset else symbol
