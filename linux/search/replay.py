# SPDX-License-Identifier: GPL-2.0-or-later
"""A run of a search that is seen again, in a kernel that was started for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kpfs.linux.search.searched import NEVER_BEGAN, SearchedCommand
from kpfs.linux.search.seed import changed_directories

if TYPE_CHECKING:
    from kpfs.linux.inside.command import InsideCommand
    from kpfs.linux.inside.mounted import PreparedKernel
    from kpfs.linux.inside.request import RunRequest
    from kpfs.linux.search.seed import Seed


class Replay:
    """The run of a seed."""

    def __init__(self, kernel: PreparedKernel, seed: Seed) -> None:
        self._seed = seed
        parts = self._apply, seed.begins, seed.of, seed.plan.checks
        self._command = SearchedCommand(kernel, *parts)

    def _apply(self) -> None:
        self._command.apply(self._seed.plan)

    def begin(self, request: RunRequest, stdio: Sequence[int]) -> InsideCommand:
        """Begin the command of the seed."""
        return self._command.begin(request, stdio)

    def described(self) -> str:
        """Return the finding, the plan, and how far the run has come, for people."""
        lines = [told.splitlines()[0] for told in self._seed.told]
        lines += self._command.described(self._seed.plan)
        return "".join(f"{line}\n" for line in lines)

    def told(self) -> Sequence[str]:
        """Return what is to be said of a run that has ended."""
        outcome = self._command.outcome()
        if self._command.begun is None:
            return [NEVER_BEGAN.format(status=outcome.status)]
        if outcome.digest == self._seed.digest:
            return self._seed.told
        changed = "".join(
            f": {path} has other files in it now"
            for path in changed_directories(self._seed)[:1]
        )
        return [
            f"this is another run than the seed's{changed}: its digest is "
            f"{outcome.digest}, and not {self._seed.digest}"
        ]
