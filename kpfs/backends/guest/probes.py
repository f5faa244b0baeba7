# SPDX-License-Identifier: GPL-2.0-or-later
"""Probes of a guest kernel whose handlers are Python functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from kpfs.api.probes import (
    PostHandler,
    PreHandler,
    Probe,
    Registers,
    ReturnHandler,
    place_of,
)
from kpfs.backends.handlers import UserHandler
from kpfs.base.ktypes import KAddr
from kpfs.engine.aggr import kprobe_nmissed
from kpfs.engine.kprobe import NO_ADDR, Kprobe, PtRegs
from kpfs.engine.kretprobe import (
    Kretprobe,
    kretprobe_nmissed,
    register_kretprobe,
    unregister_kretprobe,
)
from kpfs.engine.register import (
    disable_kprobe,
    enable_kprobe,
    register_kprobe,
    unregister_kprobe,
)

if TYPE_CHECKING:
    from kpfs.backends.guest.access import GuestAccess
    from kpfs.engine.rethook import RethookNode


class GuestProbe(Probe):
    """A kprobe or return probe of the engine."""

    def __init__(
        self, session: GuestAccess, place: str, kp: Kprobe, rp: Kretprobe | None
    ) -> None:
        self._session = session
        self._kp, self._rp = kp, rp
        self.place, self.kind = place, "k" if rp is None else "r"
        with session.call(place), session.root.lock:
            state = session.root.state
            if rp is None:
                register_kprobe(state, kp)
            else:
                register_kretprobe(state, rp)

    @property
    def closed(self) -> bool:
        return self._session.closed

    @property
    def address(self) -> int:
        return self._kp.addr

    @property
    def nmissed(self) -> int:
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
        with self._session.call(), self._session.root.lock:
            disable_kprobe(self._session.root.state, self._kp)

    def enable(self) -> None:
        with self._session.call(), self._session.root.lock:
            enable_kprobe(self._session.root.state, self._kp)

    def unregister(self) -> None:
        with self._session.call(), self._session.root.lock:
            state = self._session.root.state
            if self._kp not in state.registered:
                return
            if self._rp is None:
                unregister_kprobe(state, self._kp)
            else:
                unregister_kretprobe(state, self._rp)


def _kprobe(symbol: str | int, offset: int) -> Kprobe:
    if isinstance(symbol, str):
        return Kprobe(symbol_name=symbol, offset=offset)
    return Kprobe(addr=KAddr(symbol + offset) or NO_ADDR)


def make_kprobe(
    session: GuestAccess,
    symbol: str | int,
    offset: int,
    pre: PreHandler | None,
    post: PostHandler | None,
) -> Probe:
    """Register a kprobe with these handlers."""
    kp = _kprobe(symbol, offset)
    handle = session.handlers.handle
    if pre is not None:
        before = UserHandler(pre)
        kp.pre_handler = lambda _p, regs: handle(before, cast(Registers, regs))
    if post is not None:
        after = UserHandler(post)

        def post_handler(_p: Kprobe, regs: PtRegs, _flags: int) -> None:
            handle(after, cast(Registers, regs))

        kp.post_handler = post_handler
    return GuestProbe(session, place_of(symbol, offset), kp, None)


def make_kretprobe(
    session: GuestAccess,
    symbol: str | int,
    handler: ReturnHandler | None,
    entry: PreHandler | None,
    maxactive: int,
) -> Probe:
    """Register a return probe with these handlers."""
    kp = _kprobe(symbol, 0)
    rp = Kretprobe(kp=kp, maxactive=maxactive)
    handle = session.handlers.handle

    def called(function: Callable[[Registers], object]) -> Callable[..., int]:
        theirs = UserHandler(function)

        def call(_node: RethookNode, regs: PtRegs) -> int:
            return handle(theirs, cast(Registers, regs))

        return call

    if handler is not None:
        rp.handler = called(handler)
    if entry is not None:
        rp.entry_handler = called(entry)
    return GuestProbe(session, place_of(symbol, 0), kp, rp)
