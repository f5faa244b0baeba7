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

from kpfs.host.guard import ENDING

_DONE = 0  # no signal has this number


@contextlib.contextmanager
def ended_by_signals(end: Callable[[], object]) -> Iterator[None]:
    """Call end() on a signal in ENDING that is not ignored; then end by that signal.

    end: makes the block end soon, with any exception; another thread calls it.
    Context: the main thread, and the block does not fork.
    """
    kept = signal.SIG_IGN, None  # None: not Python's
    heard = [number for number in ENDING if signal.getsignal(number) not in kept]
    told, tell = os.pipe()
    os.set_blocking(tell, False)

    def hear() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, heard)
        number = os.read(told, 1)[0]
        if number != _DONE:
            os.write(tell, bytes((number,)))  # for the main thread
            end()

    mask = signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    wakeup = signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    before = {number: signal.signal(number, lambda *_: None) for number in heard}
    thread = threading.Thread(target=hear, daemon=True)
    try:
        with contextlib.suppress(RuntimeError):  # some limit: it does without
            thread.start()
        yield
    finally:
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
        if came:
            signal.raise_signal(came[0])
