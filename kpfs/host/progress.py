# SPDX-License-Identifier: GPL-2.0-or-later
"""Shows at a terminal what is being waited for, and how much of it is done."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator

from kpfs.base.shown import raw, shown
from kpfs.base.typed import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import threading

PATIENCE = 0.5  # s until something is said
ERASE = "\r\033[K"
T = TypeVar("T")
_BAR = 20  # characters


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
    _draw(f"kpfs: {shown(words)} ...")
    done.wait()
    _draw("")


def bar(have: int, whole: int) -> str:
    """Return a picture of how much of something is there."""
    return f"[{'#' * (_BAR * have // whole):{_BAR}}] {100 * have // whole:3} %"


def counted(words: str, items: Iterable[T], whole: int) -> Iterator[T]:
    """Yield items, and show at a terminal how many of the whole there were."""
    if not sys.stderr.isatty():
        yield from items
        return
    try:
        draw(f"kpfs: {words}", bar(0, whole))
        for number, item in enumerate(items, 1):
            draw(f"kpfs: {words}", bar(number, whole))
            yield item
    finally:
        draw("")


def draw(words: str, more: str = "") -> None:
    """Show a line on standard error in place of the one that was drawn before.

    The words are cut so that the line fits: of one that goes on in a second row of the
    terminal only that row could be drawn over.
    """
    try:
        room = os.get_terminal_size(2).columns or 80
    except OSError:
        room = 80
    words = shown(words).replace("\n", " ")
    words = words[: max(room - len(more) - 2, 0)]
    _draw(f"{words} {more}".rstrip(" "))


def _draw(line: str) -> None:
    terminal = raw(sys.stderr)
    terminal.write(ERASE + line)
    terminal.flush()
