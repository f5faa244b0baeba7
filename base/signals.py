# SPDX-License-Identifier: GPL-2.0-or-later
"""The signals that are to end this process.

Until a command is ready for them, they end it as they end any program
(kpfs.__main__). A command is ready for them where it has something to take away or to
keep:

- raised() has them raise an exception, so that blocks of ``with`` and ``finally`` clean
  up. It is not for code that calls Python from C, where exceptions are lost.
- fork() makes processes within its block, which must not clean up after us.
- held() keeps them waiting, over steps of which none may be missing.
- kpfs.host.ending is for waits that no signal interrupts.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

from kpfs.base.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NoReturn

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
SIGNALLED = 128  # a shell adds the signal's number to it and has the status


class SignalledError(BaseException):
    """A signal that is to end this process, which has something to do before."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def end_by(number: int) -> NoReturn:
    """End this process as a signal does that nobody handles."""
    signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    signal.raise_signal(number)
    os._exit(SIGNALLED + number)  # Linux keeps it from a container's first process


def heard() -> list[signal.Signals]:
    """Return the signals in ENDING that are not ignored."""
    kept = signal.SIG_IGN, None  # None: it is not Python's
    return [number for number in ENDING if signal.getsignal(number) not in kept]


@contextlib.contextmanager
def raised() -> Iterator[None]:
    """Raise SignalledError in the block on the first signal that is to end us.

    Later ones do not disturb what the block then cleans up. Context: the main thread.
    """
    came: list[int] = []

    def come(number: int, _frame: object) -> None:
        came.append(number)
        if len(came) == 1:
            raise SignalledError(number)

    before = {number: signal.signal(number, come) for number in heard()}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


def fork() -> int:
    """Fork; in the new process a signal that is to end it just ends it.

    raised() would have it clean up our blocks, or would lose the signal in a function
    that Python calls from C at a fork.
    """
    with held():
        pid = os.fork()
        if not pid:
            for number in heard():
                signal.signal(number, signal.SIG_DFL)
    return pid


@contextlib.contextmanager
def held() -> Iterator[set[int | signal.Signals]]:
    """Keep signals that are to end us until the block ends; give the mask before.

    Context: the main thread.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield mask
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
