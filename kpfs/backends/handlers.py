# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls of users' probe handlers, which are Python functions."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident

from kpfs.base.errors import MemoryFault


class UserHandler:
    """A function of a user of the interface.  Snapshots leave its state alone."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., object]) -> None:
        self.call = call


class HandlerCalls:
    """The threads of one kernel that are in a handler, and what handlers have raised.

    A handler runs in the thread that runs the kernel, so both are kept by thread.
    """

    def __init__(self) -> None:
        self._raised: dict[int, BaseException] = {}
        self._within: set[int] = set()

    @property
    def is_within(self) -> bool:
        """Return True if the calling thread is in a handler."""
        return get_ident() in self._within

    def check(self) -> None:
        """Raise RuntimeError if a handler calls: it must not run the kernel."""
        if get_ident() in self._within:
            raise RuntimeError("a handler cannot run the kernel, which stands in it")

    def handle(self, handler: UserHandler, *args: object) -> int:
        """Call a user's handler; keep what it raises for throw().

        MemoryFault: the handler read memory that is not mapped.
        Context: hit.
        """
        thread = get_ident()
        nested = thread in self._within  # the handler's own work hit another probe
        self._within.add(thread)
        try:
            result = handler.call(*args)
        except MemoryFault:
            raise
        except BaseException as error:
            self.keep(error)
            return 0
        finally:
            if not nested:
                self._within.discard(thread)
        return int(result) if isinstance(result, int) else 0

    def keep(self, error: BaseException) -> None:
        """Keep what a handler in this thread has raised; only the first counts."""
        self._raised.setdefault(get_ident(), error)

    def throw(self, *others: int) -> None:
        """Raise what handlers have raised in this thread, or in one of others."""
        for thread in (get_ident(), *others) if self._raised else ():
            error = self._raised.pop(thread, None)
            if error is not None:
                raise error
