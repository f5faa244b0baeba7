# SPDX-License-Identifier: GPL-2.0-or-later
"""Probes whose handlers are Python functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol, cast

from kpfs.api.session import Theirs
from kpfs.engine.aggr import kprobe_nmissed
from kpfs.engine.kprobe import NO_ADDR, Kprobe, PtRegs
from kpfs.engine.kretprobe import (
    Kretprobe,
    kretprobe_nmissed,
    register_kretprobe,
    unregister_kretprobe,
)
from kpfs.engine.ktypes import KAddr
from kpfs.engine.register import (
    disable_kprobe,
    enable_kprobe,
    register_kprobe,
    unregister_kprobe,
)

if TYPE_CHECKING:
    from kpfs.api.session import Session
    from kpfs.engine.rethook import RethookNode


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


class Probe:
    """A registered probe.  As a context manager it is unregistered at the end."""

    def __init__(self, session: Session, place: str, kp: Kprobe, rp: Kretprobe | None):
        self._session = session
        self._kp, self._rp = kp, rp
        self.place = place  # as it was given: SYMBOL[+OFFSET] or an address
        with session.call(place), session.root.lock:
            state = session.root.state
            if rp is None:
                register_kprobe(state, kp)
            else:
                register_kretprobe(state, rp)

    def __enter__(self) -> Probe:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._session.closed:
            self.unregister()

    def __repr__(self) -> str:
        return f"<Probe {self._kp.kind} {self.place}>"

    @property
    def address(self) -> int:
        """Where it stands in the kernel."""
        return self._kp.addr

    @property
    def nmissed(self) -> int:
        """How many hits its handlers were not called for."""
        with self._session.call(), self._session.root.lock:
            state = self._session.root.state
            if self._rp is not None:
                return kretprobe_nmissed(state, self._rp) + kprobe_nmissed(
                    state, self._kp
                )
            if self._kp not in state.registered:
                return self._kp.nmissed
            return kprobe_nmissed(state, self._kp)

    def disable(self) -> None:
        """Let it stay, without being hit."""
        with self._session.call(), self._session.root.lock:
            disable_kprobe(self._session.root.state, self._kp)

    def enable(self) -> None:
        """Let it be hit again."""
        with self._session.call(), self._session.root.lock:
            enable_kprobe(self._session.root.state, self._kp)

    def unregister(self) -> None:
        """Take it away; no handler is called any more.  Twice does no harm."""
        with self._session.call(), self._session.root.lock:
            state = self._session.root.state
            if self._kp not in state.registered:
                return
            if self._rp is None:
                unregister_kprobe(state, self._kp)
            else:
                unregister_kretprobe(state, self._rp)


def _place(symbol: str | int, offset: int) -> tuple[str, Kprobe]:
    if isinstance(symbol, str):
        text = f"{symbol}+{offset:#x}" if offset else symbol
        return text, Kprobe(symbol_name=symbol, offset=offset)
    return hex(symbol + offset), Kprobe(addr=KAddr(symbol + offset) or NO_ADDR)


def make_kprobe(
    session: Session,
    symbol: str | int,
    offset: int,
    pre: PreHandler | None,
    post: PostHandler | None,
) -> Probe:
    """Register a kprobe with these handlers."""
    place, kp = _place(symbol, offset)
    handle = session.handle
    if pre is not None:
        before = Theirs(pre)
        kp.pre_handler = lambda _p, regs: handle(before, cast(Registers, regs))
    if post is not None:
        after = Theirs(post)

        def post_handler(_p: Kprobe, regs: PtRegs, _flags: int) -> None:
            handle(after, cast(Registers, regs))

        kp.post_handler = post_handler
    return Probe(session, place, kp, None)


def make_kretprobe(
    session: Session,
    symbol: str | int,
    handler: ReturnHandler | None,
    entry: PreHandler | None,
    maxactive: int,
) -> Probe:
    """Register a return probe with these handlers."""
    place, kp = _place(symbol, 0)
    rp = Kretprobe(kp=kp, maxactive=maxactive)
    handle = session.handle

    def made(theirs: Callable[[Registers], object]) -> Callable[..., int]:
        own = Theirs(theirs)

        def call(_node: RethookNode, regs: PtRegs) -> int:
            return handle(own, cast(Registers, regs))

        return call

    if handler is not None:
        rp.handler = made(handler)
    if entry is not None:
        rp.entry_handler = made(entry)
    return Probe(session, place, kp, rp)
