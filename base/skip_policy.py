# SPDX-License-Identifier: GPL-2.0-or-later
"""The rule by which system calls of processes go unmade in an emulated kernel.

Under ``kpfs run`` every system call of the command is made again in the kernel, so that
probes see it.  Simply to make them all costs 25 to 55 us each, and most of the time no
probe is armed: nobody could tell the difference.  Simply to make none while nothing is
armed is wrong, too: a probe that is armed later finds tasks that never forked, with
other names and other open files.

So calls are left out while nobody can see them, and before anybody may begin to look,
the kernel is brought to the state that they would have left.  Two questions decide
everything, and both are asked here:

- *Must this call be made?*  The kernel's VisibleCalls says which calls somebody could
  see.  It goes by what probes, tracers and events change: text, static keys, modules.
- *Catch up now.*  Whoever has left calls out keeps a Book of them.  Every book is
  brought up to date before a write to a file of the mount, for only such a write can
  arm anything, and before a look at what shows tasks.

What must always hold:

- A call is left out only if no call that can be seen now, can be seen through it.
- Nobody begins to look without a write; so a book that is up to date before each write
  is up to date whenever somebody looks.
- The state of VisibleCalls may change only while the kernel's lock is held.  Outside of
  it ``seen`` may be read, but a decision that is based on it is made again under the
  lock, or errs by making a call that need not be made.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager

from kpfs.base.typed import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from typing import Final

# Calls that are made although nobody can see them, after one that can be seen: to bring
# tasks up to date again before the next such one costs more than to make these.
MADE_UNSEEN = 32


class _Every:
    """The set of all system calls."""

    def __contains__(self, _number: object) -> bool:
        return True


EVERY: Final = _Every()
NONE: Final[frozenset[int]] = frozenset()
Seen = _Every | frozenset[int]


class VisibleCalls(Protocol):
    """The knowledge of which system calls somebody could see in one kernel."""

    @property
    def seen(self) -> Seen | None:
        """The numbers of the calls that can be seen; NONE, or empty: no call can.

        None: that has changed, and is not known until update() is called.
        Context: any.
        """

    def update(self) -> Seen:
        """Find out, and return the numbers as ``seen`` does.  Context: lock held."""


class Book(Protocol):
    """The changes that skipped calls would have made.  Context: lock held."""

    def catch_up(self, pid: int | None) -> None:
        """Bring the kernel up to date, or only the task of one process."""


class TaskBook(Book, Protocol):
    """The book that makes tasks, to which others give descriptors."""

    def share(self) -> None:
        """Give tasks the open files of other books that their processes share."""

    def number_of(self, pid: int, path: bytes, flags: int, others: set[int]) -> int:
        """Return the host's number of a process's descriptor, or -1: it is unknown.

        path, flags: of a file of the mount.  others: numbers that are not meant.
        """

    def unchanged(self, seen: Seen | None) -> None:
        """Note that the lock was taken, and all is as before that others can see.

        seen: the calls that can be seen.
        """


class SkipPolicy:
    """The answers to the two questions for one kernel."""

    def __init__(
        self, watch: VisibleCalls, lock: AbstractContextManager[object]
    ) -> None:
        """lock: the kernel's."""
        self._watch = watch
        self._lock = lock
        self._books: list[Book] = []
        self._tasks: TaskBook | None = None  # under a mirror
        self._made = 0  # calls in a row that were made although nobody could see them
        self._sees_all = False  # somebody watches whom the kernel does not show

    def see_all(self, wanted: bool) -> None:
        """Have all calls be made from now on, or those that can be seen.

        Whoever wants that catches up first, if the kernel can run.  Context: lock held.
        """
        self._sees_all = wanted

    def join(self, book: Book) -> None:
        """Have a book brought up to date from now on."""
        self._books.append(book)

    def join_tasks(self, book: TaskBook) -> None:
        """Have the book that makes tasks brought up to date from now on.

        It goes before the others, which give descriptors to its tasks.
        """
        self._books.insert(0, book)
        self._tasks = book

    @property
    def mirrored(self) -> bool:
        """Return True if tasks get the descriptors of their processes."""
        return self._tasks is not None

    def share(self) -> None:
        """See TaskBook.  Context: lock held."""
        if self._tasks is not None:
            self._tasks.share()

    def number_of(self, pid: int, path: bytes, flags: int, others: set[int]) -> int:
        """See TaskBook; -1, too, without a mirror.  Context: lock held."""
        return self._tasks.number_of(pid, path, flags, others) if self._tasks else -1

    def unchanged(self) -> None:
        """Note that the owner of the lock has changed nothing that others see.

        Context: lock held, at the end of the turn.
        """
        if self._tasks is not None:
            self._tasks.unchanged(self.seen)

    def catch_up(self, pid: int | None = None) -> None:
        """Bring all books up to date, or only what concerns one process.

        Context: lock held.
        """
        for book in self._books:
            book.catch_up(pid)

    def can_be_seen(self, numbers: Iterable[int]) -> bool:
        """Return True if one of these calls can be seen.  Context: lock held."""
        seen = EVERY if self._sees_all else self._watch.update()
        return seen is EVERY or (
            bool(seen) and any(number in seen for number in numbers)
        )

    @property
    def seen(self) -> Seen | None:
        """See VisibleCalls.seen."""
        return EVERY if self._sees_all else self._watch.seen

    def may_skip(self, number: int) -> bool:
        """Return True if a call surely need not be made.  Context: any.

        It is asked for each call of a command, so the usual answer comes first.
        """
        seen = self.seen
        if not seen:
            return seen is not None
        return seen is not EVERY and self._is_unseen(number, seen)

    def must_make(self, number: int) -> bool:
        """Return True if a call must be made.

        Context: one thread at a time, the lock is not held.
        """
        seen = self.seen
        if seen is None:
            with self._lock:
                seen = self._watch.update()
        if seen is not EVERY and self._is_unseen(number, seen):
            return False
        self._made = 0 if number in seen else self._made + 1
        return True

    def _is_unseen(self, number: int, seen: Seen) -> bool:
        if number in seen:
            return False
        return not seen or self._made >= MADE_UNSEEN
