# SPDX-License-Identifier: GPL-2.0-or-later
"""The client's request: the command to run inside a kernel, and its surroundings.

The module imports nothing of the kernel, because every start waits for it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kpfs.linux.inside.inherited import Inherited

GREETING = b"."  # from a process that takes a request
PATIENCE = 20.0  # s for either side of a request to go on
PERHAPS = "perhaps: "  # begins a reason of a failure that may be none
CO_RE = "(CO-RE)"  # ends one of a program that wants a type or field
OWN = "/dev", "/proc", "/sys"  # directories where the kernel has its own file systems


def own_above(path: str) -> str:
    """Return which of these directories a path is, or lies below; "" for none."""
    return next((own for own in OWN if f"{path}/".startswith(f"{own}/")), "")


class TerminalState(NamedTuple):
    """A terminal's settings, packed as the kernel's structures."""

    settings: bytes
    size: bytes


class RunRequest(NamedTuple):
    """A command to run, with its surroundings."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    cwd: str  # "": a directory that was removed
    writable: tuple[str, ...] = ()  # folders of the host, absolute
    hostname: str = ""
    terminal: TerminalState | None = None  # as it was before kpfs changed it
    inherited: Inherited = Inherited()
    explained: bool = False  # tell why it fails
    sysctls: tuple[tuple[str, str], ...] = ()  # names and values, set before it begins
    timeout: float = 0.0  # s after which it is ended; 0: it has what time it wants
    further: tuple[int, ...] = ()  # descriptors beside the standard ones
    apart: bool = False  # its streams are pipes of their own, whatever they are here

    def packed(self) -> dict[str, Any]:
        """Return the request as JSON text."""
        row = self._asdict()
        if self.terminal:
            row["terminal"] = [part.hex() for part in self.terminal]
        return row

    @classmethod
    def unpacked(cls, row: dict[str, Any]) -> RunRequest:
        """Return the request that packed() described."""
        for name in ("argv", "writable", "sysctls", "further"):
            row[name] = tuple(row[name])
        row["inherited"] = Inherited.unpacked(row["inherited"])
        if row["terminal"]:
            row["terminal"] = TerminalState(*map(bytes.fromhex, row["terminal"]))
        return cls(**row)
