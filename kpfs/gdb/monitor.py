# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands behind gdb's `monitor`."""

from __future__ import annotations

from kpfs.base.errors import KernelError
from kpfs.gdb.debugged import Command, Debugged, GoBack
from kpfs.gdb.files import KO, MODULES


class Monitor:
    """The commands of one connection, and the snapshot that it has kept."""

    def __init__(self, debugged: Debugged) -> None:
        self._debugged = debugged
        self._go_back_to_kept: GoBack | None = None
        self.more: dict[str, Command] = {}
        self.at_rest = False  # the kernel stands, and nothing is under way in it

    def answer(self, line: bytes, *, is_past: bool) -> str:
        """Run a command; return what it says.

        is_past: the kernel is one of the past, which cannot be changed.
        """
        commands = {
            "snapshot": Command(
                "keep what the kernel is now", self._keep, at_rest=True
            ),
            "restore": Command("go back to that", self._restore, at_rest=True),
            **self._debugged.commands(),
            "modules": Command("modules, and where their sections lie", self._modules),
            **self.more,
        }
        rows = "".join(f"{name:<10}{each.help}\n" for name, each in commands.items())
        commands["help"] = Command("this list", lambda: rows)
        words = line.decode(errors="replace").split() or ["help"]
        command = commands.get(words[0])
        if command is None or len(words) > 1:
            return f"no such command: {' '.join(words)} (monitor help)\n"
        if command.at_rest and is_past:
            return f"{words[0]}: not in the past\n"
        if command.at_rest and not self.at_rest:
            return f"{words[0]}: something runs: continue, then stop by Ctrl-C\n"
        try:
            return command.call()
        except KernelError as error:
            return f"{words[0]}: {error}\n"

    def _keep(self) -> str:
        self._go_back_to_kept = None  # it may be large
        self._go_back_to_kept = self._debugged.keep()
        return "it is kept\n"

    def _restore(self) -> str:
        if self._go_back_to_kept is None:
            return "there is no snapshot\n"
        self._go_back_to_kept()
        return "the kernel is what it was then\n"

    def _modules(self) -> str:
        """Return a line for each module: its name, its file, its sections."""
        lines = []
        for name, sections, has_file in self._debugged.modules():
            place = f"target:{MODULES}/{name}{KO}" if has_file else "-"
            places = (f"{section}={at:#x}" for section, at in sections.items())
            lines.append(" ".join((name, place, *places)))
        return "".join(f"{line}\n" for line in lines)
