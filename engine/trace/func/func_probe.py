# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands at functions, which set_ftrace_filter takes as FUNCTION:COMMAND.

A function with a command calls the tracer's guest code, which asks here what to do.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection
from typing import NamedTuple

from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KAddr
from kpfs.engine.kstrtox import as_long, kstrtoul
from kpfs.engine.trace.event.event_file import (
    EventArray,
    EventFile,
    carry_out,
    find_target,
)
from kpfs.engine.trace.event.trigger import UNLIMITED
from kpfs.engine.trace.func.functions import Functions
from kpfs.engine.trace.func.glob import glob
from kpfs.engine.trace.pids import GuestSet


class FuncProbeKind(NamedTuple):
    """A command that functions can have.  Kernel: struct ftrace_probe_ops"""

    command: str
    counted: bool
    target: EventFile | None = None

    def text(self) -> str:
        if self.target is None:
            return self.command
        event = self.target.event
        return f"{self.command}:{event.group}:{event.name}"


class FunctionProbes:
    """The commands at functions of one trace array."""

    def __init__(
        self, array: EventArray, functions: Functions, changed: Callable[[], None]
    ) -> None:
        """changed() is called when the set of functions with commands has changed."""
        self._array = array
        self._functions = functions
        self._changed = changed
        # newest kind first; of each function, how often it is still to be done
        self._kinds: dict[FuncProbeKind, dict[KAddr, int]] = {}
        self._hash: GuestSet | None = None

    def functions(self) -> set[KAddr]:
        return {ip for counts in self._kinds.values() for ip in counts}

    def text(self) -> str:
        """Return the last lines of set_ftrace_filter.  Kernel: t_probe_show()"""
        lines = []
        for kind, counts in self._kinds.items():
            for function in self._functions.all():
                if function.addr not in counts:
                    continue
                left = counts[function.addr]
                plain = not kind.counted or (kind.target and left == UNLIMITED)
                count = "unlimited" if plain else f"count={left}"
                lines.append(f"{function.name}:{kind.text()}:{count}\n")
        return "".join(lines)

    # ---- from set_ftrace_filter

    def store(self, pattern: str, command: str, rest: str | None) -> None:
        """Do what ``pattern:command[:rest]`` says; EINVAL, ENODEV, ERANGE, ENOENT.

        Context: control.  Kernel: ftrace_trace_probe_callback(), event_enable_func()
        """
        target = None
        if command in ("enable_event", "disable_event"):
            target, rest = find_target(self._array, rest or "")
        kind = FuncProbeKind(command, rest is not None, target)
        if pattern.startswith("!"):
            self._unregister(kind, pattern[1:])
            return
        number = (rest or "").partition(":")[0]
        count = as_long(kstrtoul(number)) if number else UNLIMITED
        self._register(kind, pattern, count)

    def _register(self, kind: FuncProbeKind, pattern: str, count: int) -> None:
        """Give functions a command.  Kernel: register_ftrace_function_probe()"""
        old = self._kinds.get(kind, {})
        new = self._functions.match(pattern) - old.keys()
        if not new:
            raise KernelError(errno.EINVAL, f"no further function {pattern!r}")
        if kind.command == "snapshot":
            self._array.ring.alloc_spare()
        if kind.target is not None:
            kind.target.hold(True)
        added = old | dict.fromkeys(new, count)
        if kind in self._kinds:
            self._kinds[kind] = added
        else:
            self._kinds = {kind: added, **self._kinds}
        self._changed()

    def _unregister(self, kind: FuncProbeKind, pattern: str) -> None:
        """Take a command away.  Kernel: unregister_ftrace_function_probe_func()"""
        counts = self._kinds.get(kind)
        if counts is None:
            raise KernelError(errno.ENODEV, f"no {kind.text()}")
        fits: Callable[[str], bool] = (
            glob(pattern) if pattern not in ("", "*") else lambda _name: True
        )
        functions = self._functions.all()
        gone = {f.addr for f in functions if f.addr in counts and fits(f.name)}
        if not gone:
            raise KernelError(errno.EINVAL, f"no function {pattern!r}")
        self._drop(kind, gone)
        self._changed()

    def _drop(self, kind: FuncProbeKind, gone: Collection[KAddr]) -> None:
        counts = self._kinds[kind]
        for ip in gone:
            del counts[ip]
        if not counts:
            del self._kinds[kind]
            if kind.target is not None:
                kind.target.hold(False)

    def forget(self, gone: Collection[KAddr]) -> None:
        """Drop functions' commands.  Kernel: clear_ftrace_function_probes()"""
        for kind, counts in list(self._kinds.items()):
            self._drop(kind, [ip for ip in counts if ip in gone])

    def tell(self, following: int) -> int:
        """Tell guest code; following: the next array; returns the first to ask for."""
        if not self._kinds and self._hash is None:
            return following
        old, self._hash = self._hash, None
        functions = self.functions()
        guest = self._array.guest
        if functions:
            self._hash = GuestSet(self._array.runtime, functions)
        guest.fn_probes = self._hash.addr if self._hash else 0
        guest.fn_probe_next = following
        if old is not None:
            old.free()
        return guest.addr if functions else following

    # ---- at a call: all in hit context

    def run(self, ip: KAddr) -> bool:
        """Run the commands of a called function; whether to write a stack trace."""
        stack = False
        for kind, counts in self._kinds.items():
            left = counts.get(ip)
            if left is None or (kind.counted and not left):
                continue
            if left < 0 and kind.counted and kind.target is None:
                if kind.command != "stacktrace":
                    continue
            if not carry_out(kind.command, self._array, kind.target):
                continue
            stack |= kind.command == "stacktrace"
            if kind.counted and (kind.target is None or left != UNLIMITED):
                counts[ip] = left - 1
        return stack
