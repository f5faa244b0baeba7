# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel as its page shows it: read from the files of its mount, and written to them.

Reading makes system calls in that kernel, which its probes see.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from functools import cached_property
from io import BytesIO
from threading import Lock
from typing import TYPE_CHECKING, Any

from kpfs.base.errors import KernelError, MemoryFault, SetupError
from kpfs.gdb.command import find
from kpfs.record.writers import Recording, write_chrome
from kpfs.session.paths import KernelPath
from kpfs.top.samples import Sampler, lost, read
from kpfs.web.trace import ALL, TraceTail

if TYPE_CHECKING:
    from kpfs.explain.explainer import Explainer

SWITCHES = {
    "enabled": "kprobes/enabled",
    "optimization": "sys/debug/kprobes-optimization",
    "tracing": "tracing/tracing_on",
    "reboot": "machine/reboot",
}
OF_GUEST = "-kpfs"  # a release of the guest kernel
EVENTS = "tracing/kprobe_events"
_NAME = re.compile(r"[\w.$:-]+")  # a function, an event or its group
_OFFERED = 40  # functions for what was typed


class RefusedError(Exception):
    """A request that the kernel has refused; its text says why."""


class WatchedKernel:
    """The kernel of one mount.  Its methods may wait: for other threads than a loop's.

    Raises OSError if the mount does not answer, RefusedError.
    """

    def __init__(self, tree: KernelPath) -> None:
        self.tree = tree
        self._sampler, self._costs = Sampler(), dict[Any, float]()
        self._names: list[str] = []
        self._judging = Lock()
        self._open = contextlib.ExitStack()  # guarded by _judging, like the explainer
        self._explainer: Explainer | None = None
        self._listings: dict[str, list[dict[str, Any]]] = {}

    def close(self) -> None:
        self._open.close()

    @cached_property
    def _release(self) -> str:  # the kernel may be still starting while a page is open
        return (self.tree / "sys/kernel/osrelease").read_text().strip()

    # ---- to look at
    def state(self) -> dict[str, Any]:
        """Return the switches, and the probes with their rates since the last call."""
        events = {}
        for line in (self.tree / EVENTS).read_text().splitlines():
            head, _, rest = line.partition(" ")
            events[head.partition(":")[2]] = rest.partition(" ")[2]
        from kpfs.top.costs import cost_of, measure, sorts_of

        rates = self._sampler.add(read(self.tree))
        if self._release.endswith(OF_GUEST):  # in a kernel of their own
            sorts = sorts_of(rate.probe for rate in rates)
            self._costs |= measure(sorts - self._costs.keys())
        probes = []
        for rate in rates:
            probe = rate.probe
            row = probe._asdict() | {"rate": round(rate.hits, 1), "missed": rate.missed}
            row["args"] = events.get(probe.owner)
            row["cost"] = cost_of(probe, self._costs)
            probes.append(row)
        switches = {}
        for name in SWITCHES.keys() - {"reboot"}:
            with contextlib.suppress(FileNotFoundError):  # only x86-64 has jumps
                switches[name] = (self.tree / SWITCHES[name]).read_text() == "1\n"
        said = {"release": self._release, "probes": probes, "lost": lost(self.tree)}
        may = {"reboots": self.tree.can_reboot, "gdb": self.has_gdb}
        return said | may | {"switches": switches}

    @property
    def has_gdb(self) -> bool:
        """True if single hits can be followed: the kernel listens for gdb."""
        with contextlib.suppress(SetupError):
            return bool(find(self.tree.debugged))
        return False

    def text(self, function: str) -> str:
        """Return a function's listing as it stands; "" if there is none."""
        with contextlib.suppress(FileNotFoundError):
            return (self.tree / "machine/text" / _named(function)).read_text()
        return ""

    def functions(self, typed: str) -> list[str]:
        """Return names of functions that begin with, or have, what was typed."""
        functions = self.tree / "machine/text"
        self._names = self._names or sorted(each.name for each in functions.iterdir())
        begin = [name for name in self._names if name.startswith(typed)]
        others = (name for name in self._names if typed in name and name not in begin)
        return [*begin[:_OFFERED], *others][:_OFFERED]

    def perfetto(self) -> dict[str, Any]:
        """Return the trace as ui.perfetto.dev opens it; nothing is taken out of it."""
        written, tail = BytesIO(), TraceTail(self.tree)
        try:
            write_chrome(Recording(records=tail.read(ALL)[0]), written)
        finally:
            tail.close()
        return dict(json.loads(written.getvalue()))

    # ---- to judge
    def explain(self, point: str) -> dict[str, Any]:
        """Return the fate of a probe at a point, and of each in its function."""
        with self._judging:
            try:
                explainer = self._explained()
                explainer.check([point])
                fate = explainer.fate(point)
                listing = self._listing(explainer, point.partition("+")[0])
            except SetupError as error:
                return {"accepted": False, "said": str(error), "listing": []}
        verdict = fate.verdict
        said = {"accepted": not verdict.errno, "tag": verdict.tag or verdict.name}
        said |= {"said": verdict.in_short, "more": fate.in_words()}
        return said | {"listing": listing}

    def _listing(self, explainer: Explainer, function: str) -> list[dict[str, Any]]:
        """Return a function's instructions as they were built; [] if it is none."""
        if function not in self._listings:
            rows = list[Any]()
            with contextlib.suppress(KernelError, MemoryFault):
                for place in explainer.places(function)[:1]:
                    _, rows = explainer.instructions(place)
            self._listings[function] = [
                row._asdict() | {"address": f"{row.address:x}", "code": row.code.hex()}
                for row in rows
            ]
        return self._listings[function]

    def _explained(self) -> Explainer:
        if self._explainer is None:  # what it needs takes long to load
            from kpfs.explain.command import guest_explainer
            from kpfs.explain.kernels import linux_explainer, made_of_release

            if self._release.endswith(OF_GUEST):
                context = guest_explainer()
            else:
                context = linux_explainer(made_of_release(self._release))
            self._explainer = self._open.enter_context(context)
        return self._explainer

    # ---- to change
    def switch(self, name: str, on: bool) -> None:
        self._write(SWITCHES[name], f"{int(on)}")

    def enable(self, event: str, on: bool) -> None:
        """Enable an event, or disable it.  event: GROUP/NAME"""
        group, _, name = event.partition("/")
        self._write(
            f"tracing/events/{_named(group)}/{_named(name)}/enable", f"{int(on)}"
        )

    def define(self, line: str) -> None:
        """Write a line to kprobe_events: a definition, or the end of one."""
        if "\n" in line:
            raise RefusedError("one line, please")
        self._write(EVENTS, line + "\n")

    def _write(self, path: str, text: str) -> None:
        """Write to a file; RefusedError, with what the kernel says of it."""
        try:
            (self.tree / path).append(text)
        except OSError as error:
            said = f"{path}: {os.strerror(error.errno or 0)}"
            if path == EVENTS:
                log = (self.tree / "tracing/error_log").read_text()
                told = re.findall(r"^\[[^\]]*\] (.*(?:\n  .*)*)", log, re.MULTILINE)
                said = "\n".join([said, *told[-1:]])
            raise RefusedError(said) from None


def _named(name: str) -> str:
    """Return a name that is one component of a path; RefusedError."""
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise RefusedError(f"{name!r} is no name")
    return name
