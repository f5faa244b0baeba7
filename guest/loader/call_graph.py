# SPDX-License-Identifier: GPL-2.0-or-later
"""Tell which functions only some system calls reach, as image/*.calls has it.

scripts/call-graph found that out when the image was built, and says how it is known.
"""

from __future__ import annotations

from bisect import bisect_right


class CallGraph:
    """The functions that not every system call may reach, by address."""

    def __init__(self, text: str) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._calls: list[frozenset[int]] = []
        for line in text.splitlines():
            start, size, _name, numbers = line.split()
            self._starts.append(int(start, 16))
            self._ends.append(int(start, 16) + int(size))
            self._calls.append(frozenset(map(int, numbers.split(","))))

    def reaching(self, addr: int) -> frozenset[int] | None:
        """Return the system calls that can come to an address of the text.

        None: all may, and what nobody has called.
        """
        index = bisect_right(self._starts, addr) - 1
        if index < 0 or addr >= self._ends[index]:
            return None
        return self._calls[index]
