# SPDX-License-Identifier: GPL-2.0-or-later
"""Rules by which races are told, or are none by the words of their lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kpfs.base.kinds import RACE
from kpfs.coverage.module_lines import is_program
from kpfs.engine.arch.arches import is_unused

if TYPE_CHECKING:
    from kpfs.coverage.module_lines import ModuleLines
    from kpfs.linux.search.reports import CheckReport, RacingLoad


class ToldRaces:
    """The rules by which reports are told, with the lines of modules."""

    def __init__(self, lines: ModuleLines) -> None:
        self._lines, self._unused = lines, dict[str, bool]()
        self.unknown: set[tuple[str, ...]] = set()  # races between lines not known

    def is_told(self, report: CheckReport) -> bool:
        """Return False for a race that is none by the words of both lines."""
        if report.kind != RACE:
            return True
        written = [place for place in report.races if not is_program(place)]
        if not all(map(self._lines.is_known, written)):
            self.unknown.add(tuple(report.key))
            return False
        if any(map(self._is_unused, report.loads)):
            return False
        return not all(map(self._lines.may_race, report.races))

    def _is_unused(self, load: RacingLoad) -> bool:
        key = repr(load)
        if key not in self._unused:
            code = bytes.fromhex(load.code)
            self._unused[key] = is_unused(code, *load[1:])
        return self._unused[key]
