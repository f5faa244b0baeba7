# SPDX-License-Identifier: GPL-2.0-or-later
"""Acts on a signal that is to end this process while it waits in the kernel.

Linux delivers no signal to a thread that waits for an answer of FUSE which is being
made, and a daemon may never give it.  So another thread hears the signals meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator

from kpfs.base.signals import SignalledError, heard

_DONE = 0  # no signal has this number


@contextlib.contextmanager
def ended_by_signals(end: Callable[[], object], grace: float = 0.0) -> Iterator[None]:
    """Call end() on a signal in ENDING that is not ignored; then end by that signal.

    If the caller holds signals, SignalledError is raised in place of that.
    end: makes the block end soon, with any exception; another thread calls it.
    grace: seconds that the block has to end by itself.
    Context: the main thread, and the block does not fork.
    """
    numbers = heard()
    done = threading.Event()
    told, tell = os.pipe()
    os.set_blocking(tell, False)

    def hear() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        number = os.read(told, 1)[0]
        if number != _DONE:
            os.write(tell, bytes((number,)))  # for the main thread
            if not done.wait(grace):
                end()

    mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    wakeup = signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    thread = threading.Thread(target=hear, daemon=True)
    try:
        with contextlib.suppress(RuntimeError):  # some limit: it does without
            thread.start()
        yield
    finally:
        done.set()
        os.write(tell, bytes((_DONE,)))
        if thread.ident:
            thread.join()
        for number, action in before.items():
            signal.signal(number, action)
        signal.set_wakeup_fd(wakeup)
        os.close(tell)
        with os.fdopen(told, "rb") as pipe:
            came = bytes(filter(None, pipe.read()))
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if came and came[0] in mask:
            raise SignalledError(came[0])
        if came:
            signal.raise_signal(came[0])
