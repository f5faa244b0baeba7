# SPDX-License-Identifier: GPL-2.0-or-later
"""Probes of a guest kernel whose handlers are Python functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

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
from kpfs.session.probes import Probe, ProbeDefinition, Registers

if TYPE_CHECKING:
    from kpfs.backends.guest.access import GuestAccess
    from kpfs.engine.state import State


class GuestProbe(Probe):
    """A kprobe or return probe of the engine."""

    def __init__(self, session: GuestAccess, asked: ProbeDefinition) -> None:
        symbol, offset, handlers, maxactive = asked
        self._session = session
        self.place = asked.place
        if isinstance(symbol, str):
            self._kp = Kprobe(symbol_name=symbol, offset=offset)
        else:
            self._kp = Kprobe(addr=KAddr(symbol + offset) or NO_ADDR)
        self._rp: Kretprobe | None = None
        if maxactive is not None:
            self._rp = Kretprobe(kp=self._kp, maxactive=maxactive)
        self.kind = "k" if self._rp is None else "r"
        for field, handler in handlers.items():
            if handler is not None:
                owner = self._kp if self._rp is None else self._rp
                setattr(owner, field, self._called(handler))
        with self._state(self.place) as state:
            if self._rp is None:
                register_kprobe(state, self._kp)
            else:
                register_kretprobe(state, self._rp)
        self.address = self._kp.addr

    def _called(self, handler: Callable[[Registers], object]) -> Callable[..., int]:
        """Return the function that the engine calls, with a probe and registers."""
        handle, theirs = self._session.handlers.handle, UserHandler(handler)

        def call(_probe: object, regs: PtRegs, _flags: int = 0) -> int:
            return handle(theirs, cast(Registers, regs))

        return call

    @contextmanager
    def _state(self, place: str = "") -> Iterator[State]:
        """Do something to the probe under the lock; OSError: the kernel refuses."""
        with self._session.call(place), self._session.root.lock:
            yield self._session.root.state

    @property
    def closed(self) -> bool:
        return self._session.closed

    @property
    def nmissed(self) -> int:
        kp, rp = self._kp, self._rp
        with self._state() as state:
            if rp is not None:
                return kretprobe_nmissed(state, rp) + kprobe_nmissed(state, kp)
            return kprobe_nmissed(state, kp) if kp in state.registered else kp.nmissed

    def disable(self) -> None:
        with self._state() as state:
            disable_kprobe(state, self._kp)

    def enable(self) -> None:
        with self._state() as state:
            enable_kprobe(state, self._kp)

    def unregister(self) -> None:
        with self._state() as state:
            if self._kp not in state.registered:
                return
            if self._rp is None:
                unregister_kprobe(state, self._kp)
            else:
                unregister_kretprobe(state, self._rp)
