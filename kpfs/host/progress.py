# SPDX-License-Identifier: GPL-2.0-or-later
"""Shows at a terminal what is being waited for, if that takes long."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from kpfs.base.typed import TYPE_CHECKING

if TYPE_CHECKING:
    import threading

PATIENCE = 0.5  # s until something is said
ERASE = "\r\033[K"


@contextlib.contextmanager
def waiting_for(words: str) -> Iterator[None]:
    """Show words on standard error from half a second on, until the block ends.

    Nothing is shown where that is no terminal.  The block must not fork: a thread runs.
    """
    if not sys.stderr.isatty():
        yield
        return
    import threading

    done = threading.Event()
    thread = threading.Thread(target=_show, args=(words, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _show(words: str, done: threading.Event) -> None:
    if done.wait(PATIENCE):
        return
    sys.stderr.write(f"{ERASE}kpfs: {words} ...")
    sys.stderr.flush()
    done.wait()
    sys.stderr.write(ERASE)
    sys.stderr.flush()
