# SPDX-License-Identifier: GPL-2.0-or-later
"""Probes of a Linux kernel whose handlers are Python functions.

Each is a struct kprobe or kretprobe in the kernel's memory, registered by the kernel's
own functions.  Its handlers have addresses there: see kpfs.linux.running.functions.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from kpfs.backends.handlers import UserHandler
from kpfs.backends.linux.access import LinuxAccess
from kpfs.base.errors import KernelError
from kpfs.engine.arch.arches import TEXT_TOOLS
from kpfs.linux.running.functions import Function
from kpfs.session.probes import Probe, ProbeDefinition, Registers

_INT = 4
_UNKNOWN = "no BTF, and no structure of probes was found"


class LinuxProbe(Probe):
    """A probe that the kernel itself has registered."""

    def __init__(self, session: LinuxAccess, asked: ProbeDefinition) -> None:
        self._session = session
        self.place = asked.place
        self._returns = asked.maxactive is not None
        self.kind = "r" if self._returns else "k"
        structure = "kretprobe" if self._returns else "kprobe"
        structures = session.kernel.structures
        self._layout, self._kp = structures[structure], structures["kprobe"]
        self._at = 0  # address of the structure
        self._functions: list[int] = []  # addresses of the handlers
        session.do(self.place, lambda: self._register(asked))

    def _register(self, asked: ProbeDefinition) -> None:
        symbol, offset, handlers, maxactive = asked
        size = self._layout.size
        if not self._kp.has("symbol_name") or not all(map(self._layout.has, handlers)):
            raise KernelError(errno.EOPNOTSUPP, _UNKNOWN)
        name = os.fsencode(symbol) + b"\0" if isinstance(symbol, str) else b""
        at = self._at = self._call("vzalloc", size + len(name)) & (1 << 64) - 1
        if not at:
            raise KernelError(errno.ENOMEM, "no memory for a probe")
        memory = self._session.kernel.memory
        memory.write(at + size, name)
        if isinstance(symbol, str):
            self._put(self._kp.at["symbol_name"], at + size)
            self._put(self._kp.at["offset"], offset, _INT)
        else:
            self._put(self._kp.at["addr"], symbol + offset)
        if maxactive is not None:
            self._put(self._layout.at["maxactive"], maxactive, _INT)
        session = self._session
        for field, handler in handlers.items():
            if handler is not None:
                function = session.functions.add(
                    session.worker(), self._called(handler)
                )
                self._functions.append(function)
                self._put(self._layout.at[field], function)
        session.probes[at] = self
        try:
            self._do("register")
        except KernelError:
            self._free()
            raise
        self.address = memory.word(at + self._kp.at["addr"])

    def _called(self, handler: Callable[[Registers], object]) -> Function:
        """Return the function that the kernel calls, with a probe and registers."""
        theirs, session = UserHandler(handler), self._session
        frame_at = TEXT_TOOLS[session.kernel.arch.name]().frame

        def call(_probe: int, frame: int, _flags: int) -> int:
            if not self._is_registered():
                return 0
            return session.handle(theirs, frame_at(session.kernel.memory, frame))

        return call

    def _put(self, offset: int, value: int, size: int = 0) -> None:
        self._session.kernel.memory.write_number(self._at + offset, value, size)

    def _call(self, function: str, argument: int) -> int:
        session = self._session
        return session.functions.call(session.worker(), function, argument)

    def _do(self, what: str) -> None:
        """Have the kernel register, unregister, disable or enable the probe."""
        kind = "kretprobe" if self._returns and what.endswith("register") else "kprobe"
        error = -self._call(f"{what}_{kind}", self._at) & 0xFFFFFFFF
        if error and what != "unregister":  # that one returns nothing
            raise KernelError(error)

    def _free(self) -> None:
        del self._session.probes[self._at]
        for function in self._functions:
            self._session.functions.remove(function)
        self._call("vfree", self._at)

    @property
    def closed(self) -> bool:
        return self._session.closed

    def _is_registered(self) -> bool:
        return self._session.probes.get(self._at) is self

    @property
    def nmissed(self) -> int:
        if not self._is_registered():
            return 0

        def action() -> int:
            memory = self._session.kernel.memory
            missed = memory.word(self._at + self._kp.at["nmissed"])
            if self._returns:
                missed += memory.number(self._at + self._layout.at["nmissed"], _INT)
            return missed

        return self._session.do(self.place, action)

    def _switch(self, what: str) -> None:
        def action() -> None:
            if not self._is_registered():
                raise KernelError(errno.EINVAL, "it is not registered")
            self._do(what)

        self._session.do(self.place, action)

    def disable(self) -> None:
        self._switch("disable")

    def enable(self) -> None:
        self._switch("enable")

    def unregister(self) -> None:
        def action() -> None:
            if not self._is_registered():
                return
            self._do("unregister")
            if self._session.kernel.memory.word(self._at + self._kp.at["addr"]):
                self._free()
                return
            # the kernel refused, and logged why; the handlers are not called any more
            del self._session.probes[self._at]
            raise KernelError(
                errno.EBUSY, "the kernel could not take it away: see dmesg"
            )

        self._session.do(self.place, action)
