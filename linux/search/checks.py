# SPDX-License-Identifier: GPL-2.0-or-later
"""Look for errors of a Linux kernel's modules while a command runs inside.

The board looks (``linux/board/search/text.h``), and ``reports.py`` says what is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kpfs.base import abi
from kpfs.base.kinds import IBT, LOCK, MEMORY, RACE
from kpfs.linux.errors import UnfitError
from kpfs.linux.running.module_files import ModuleFiles
from kpfs.linux.search.hold import Holds
from kpfs.linux.search.locks import Locks
from kpfs.linux.search.objects import Objects
from kpfs.linux.search.plan import LOOKERS
from kpfs.linux.search.reports import CheckReport, Reports
from kpfs.linux.search.texts import LookedText, Texts

if TYPE_CHECKING:
    from kpfs.linux.running.kernel_on_board import KernelOnBoard

# Where races are looked for, each instruction that accesses memory waits, up to
# abi.MOST_HELD times: so long, but the first waits of all not longer than this together
_LONGEST_NS, _ALL_NS = 8_000_000, 2_000_000_000


class ModuleChecks:
    """The checks of one run.  Context: the kernel stands still."""

    def __init__(
        self,
        kernel: KernelOnBoard,
        kinds: Sequence[str],
        texts: Texts | None = None,
        holds: Holds | None = None,
        of: Sequence[str] = (),
    ) -> None:
        """kinds: of kinds.RUN_CHECKS.  Raises UnfitError, EmulatorError.

        of: names of the text that is looked at; empty: all modules and BPF programs.

        texts: those that are looked at already, by lookers that others switch on.
        holds: what is done to the run of a search.
        """
        if not kernel.structures["task_struct"].has("comm"):
            raise UnfitError("--check: this kernel does not tell of its types (BTF)")
        self.files = ModuleFiles(kernel, frames=MEMORY in kinds)
        self.files.follow()
        is_ours = texts is None
        self._races: Holds | None = None
        if RACE in kinds:
            self._races = holds = Holds(kernel.machine.board)
        self._accesses = 0  # instructions of all texts
        self._texts = texts = texts or Texts(kernel, of, hooks={*kinds} != {IBT})
        texts.call_modules(self.files.name_of)
        texts.follow(self._begins, self._ends)
        self._objects = Objects(kernel, texts) if MEMORY in kinds else None
        self._locks = Locks(kernel.machine.board, texts) if LOCK in kinds else None
        if IBT in kinds:
            texts.look_at_kernel()
        self._gone: set[int] = set()  # the numbers of texts that are no more
        self._reports = Reports(kernel, texts, self._objects, self._locks, holds)
        if is_ours:
            texts.set(on=sum(LOOKERS[kind] for kind in kinds))

    def _begins(self, text: LookedText) -> None:
        if self._races is not None:
            self._accesses += self._texts.number_of_accesses(text)
            each_ns = _ALL_NS // max(self._accesses, 1)
            self._races.hold_each(min(each_ns, _LONGEST_NS))
        module = text.module
        if module is None or self._objects is None:
            return
        self._objects.frames.begin_text(text, self.files.frames(module, text.name))
        if text.start == module.text[0]:
            variables = self.files.variables(module, text.name)
            self._objects.begin_module(text.number, variables)

    def _ends(self, text: LookedText) -> None:
        if self._objects is not None:
            self._objects.end_module(text.number)
            self._objects.frames.end_text(text)
        if text.module is None:
            self._gone.add(text.number)
        elif text.start == text.module.text[0]:
            # what its init function has allocated is the module's, too
            texts = self._texts.all
            self._gone |= {each.number for each in texts if each.owner == text.owner}
            if self._locks is not None:
                self._locks.end_module(text.module)

    def reports(self) -> Iterator[CheckReport]:
        """Yield a report for each finding, the first one first."""
        yield from self._reports.of_findings()
        yield from self._reports.leaks(sorted(self._gone))

    def counted(self) -> Iterator[CheckReport]:
        """Yield what is known of findings that were too many to be kept."""
        return self._reports.counted()

    @property
    def missing(self) -> list[str]:
        """Return the names of text that nothing had."""
        return self._texts.missing

    @property
    def looked(self) -> bool:
        """Return True if there was any text to look at."""
        return bool(self._texts.all)

    @property
    def untracked(self) -> int:
        """Return the number of objects that were too many to be looked at."""
        return 0 if self._objects is None else self._objects.untracked

    @property
    def lost(self) -> int:
        """Return the number of findings that were too many even to be counted."""
        return self._texts.get(abi.Texts.findings_lost)
