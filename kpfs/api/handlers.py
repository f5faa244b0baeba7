# SPDX-License-Identifier: GPL-2.0-or-later
"""The calls of Python's handlers of probes, while a kernel stands at these."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident

from kpfs.base.errors import MemoryFault


class Theirs:
    """A function of who uses the interface; a snapshot leaves alone what it has."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., object]) -> None:
        self.call = call


class Handlers:
    """Of one kernel: who is in a handler, and what handlers have raised."""

    def __init__(self) -> None:
        # by the thread that runs the guest, and with it the handlers
        self._raised: dict[int, BaseException] = {}
        self._within: set[int] = set()

    @property
    def is_within(self) -> bool:
        """Whether it is a handler that asks."""
        return get_ident() in self._within

    def check(self) -> None:
        """RuntimeError: a handler asks, which must not."""
        if get_ident() in self._within:
            raise RuntimeError("a handler cannot run the kernel, which stands in it")

    def handle(self, handler: Theirs, *args: object) -> int:
        """Call somebody's handler of a probe; what it raises is kept for throw().

        MemoryFault: it has asked for memory that is not there.
        Context: hit.
        """
        thread = get_ident()
        within = thread in self._within  # a probe is hit in a handler's own way
        self._within.add(thread)
        try:
            result = handler.call(*args)
        except MemoryFault:
            raise
        except BaseException as error:
            self.keep(error)
            return 0
        finally:
            if not within:
                self._within.discard(thread)
        return int(result) if isinstance(result, int) else 0

    def keep(self, error: BaseException) -> None:
        """Keep what a handler in this thread has raised; the first is what counts."""
        self._raised.setdefault(get_ident(), error)

    def throw(self, *others: int) -> None:
        """Raise what handlers have raised in this thread, or in one of others."""
        for thread in (get_ident(), *others) if self._raised else ():
            error = self._raised.pop(thread, None)
            if error is not None:
                raise error
