# SPDX-License-Identifier: GPL-2.0-or-later
"""What is to be run inside a guest: the words of a client, before there is a guest.

It imports nothing of the guest, as every start waits for that.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class TerminalState(NamedTuple):
    """How a terminal is, as the kernel's structures have it."""

    settings: bytes
    size: bytes


class Request(NamedTuple):
    """What is to be run, and as whom."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    cwd: str
    writable: tuple[str, ...] = ()  # folders of the host, absolute
    umask: int = 0o022
    hostname: str = ""
    terminal: TerminalState | None = None  # as it was before we took it
    files: tuple[int, int] = (1024, 4096)  # RLIMIT_NOFILE

    def packed(self) -> dict[str, Any]:
        """As JSON has it."""
        row = self._asdict()
        if self.terminal:
            row["terminal"] = [part.hex() for part in self.terminal]
        return row

    @classmethod
    def unpacked(cls, row: dict[str, Any]) -> Request:
        """What packed() has made."""
        for name in ("argv", "writable", "files"):
            row[name] = tuple(row[name])
        if row["terminal"]:
            row["terminal"] = TerminalState(*map(bytes.fromhex, row["terminal"]))
        return cls(**row)
