# SPDX-License-Identifier: GPL-2.0-or-later
"""An event in one trace array: on or off there, its filter, its triggers.

What guest code has to know of that is written by EventFiles.sync(): in the usual case,
of an event that the first array alone records, the struct kp_event says it all, and
guest code takes the short way; else each array has a struct kp_file.

All functions are for control context, but what triggers change says otherwise.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from typing import Protocol

from kpfs.abi import EVENT_RECORD, FILE_RECORD, FILE_TRIGGER_COND
from kpfs.engine.errors import KernelError
from kpfs.engine.kstrtox import kstrtoul_from_user
from kpfs.engine.ktypes import KAddr
from kpfs.engine.runtime.records import KpArray, KpFile
from kpfs.engine.runtime.runtime import Runtime
from kpfs.engine.trace.errlog import ErrorLog
from kpfs.engine.trace.event.filter import EventFilter
from kpfs.engine.trace.event.trace_event import TraceEvent
from kpfs.engine.trace.ring.ring_buffer import RingBuffer


class EventArray(Protocol):
    """What a trace array is to its events and functions.  Kernel: struct trace_array"""

    runtime: Runtime
    name: str  # of an instance
    guest: KpArray
    ring: RingBuffer
    err_log: ErrorLog
    ref: int  # open files of an instance

    def simple(self) -> bool:
        """Whether guest code may take the short way into this array's ring."""

    def find_event_file(self, group: str, name: str) -> EventFile | None:
        """What it has of an event that can be switched; None: there is no such event.

        Kernel: find_event_file()
        """


class EventFile:
    """Kernel: struct trace_event_file."""

    def __init__(self, event: TraceEvent, array: EventArray, files: EventFiles) -> None:
        self.event = event
        self.array = array
        self._files = files
        self.enabled = False
        self.was_enabled = False
        self.soft_disabled = False
        self.sm_ref = 0  # what wants it on softly
        self.triggers = 0  # the first one's struct kp_trigger
        self.trigger_cond = False  # a trigger goes by the record
        self.filter: EventFilter | None = None
        self.filter_prog: KAddr | None = None
        self.guest: KpFile | None = None

    def enable_text(self) -> str:
        """Kernel: event_enable_read()."""
        text = "1" if self.enabled and not self.soft_disabled else "0"
        return text + ("*" if self.soft_disabled or self.sm_ref else "") + "\n"

    def filter_text(self) -> str:
        """Kernel: print_event_filter()."""
        return (self.filter.text if self.filter else "none") + "\n"

    def set_filter(self, event_filter: EventFilter | None) -> None:
        runtime = self.array.runtime
        old, old_prog = self.filter, self.filter_prog
        self.filter = event_filter
        self.filter_prog = write_filter(runtime, event_filter)
        self.sync()
        free_filter(runtime, old, old_prog)

    def sync(self) -> None:
        """Tell guest code who wants the records of the event."""
        self._files.sync(self.event)

    def flip(self, enable: bool) -> bool:
        """Let records through or not, of an event that is on softly; False: as before.

        Context: either.  Kernel: event_enable_trigger().
        """
        if self.soft_disabled != enable:
            return False
        self.soft_disabled = not enable
        if self.guest is not None:
            self.guest.flags = self.guest_flags()
        return True

    def hold(self, on: bool) -> None:
        """Have it on softly for who may flip() it, and keep the event, or no longer.

        Kernel: event_enable_register_trigger(), event_enable_func()
        """
        enable_disable(self, on, soft=True)
        self.event.refcnt += 1 if on else -1

    def guest_flags(self) -> int:
        """Flags of its struct kp_file."""
        flags = FILE_RECORD if self.enabled and not self.soft_disabled else 0
        return flags | FILE_TRIGGER_COND if self.trigger_cond else flags

    def guest_file(self) -> KpFile:
        """Its struct kp_file, made if guest code has none to go by yet."""
        if self.guest is None:
            self.write_guest(KAddr(0))
            assert self.guest is not None
        return self.guest

    def write_guest(self, following: KAddr) -> KAddr:
        """Make the struct kp_file say all; its address."""
        if self.guest is None:
            self.guest = self.array.runtime.make(KpFile)
        guest = self.guest
        guest.next = following
        guest.array = self.array.guest.addr
        guest.filter = self.filter_prog or 0
        guest.triggers = self.triggers
        guest.flags = self.guest_flags()
        return guest.addr

    def write_description(self) -> None:
        """Tell guest code that has asked for this file what its records are like."""
        at = None if self.guest is None else self.event.describe()
        if self.guest is not None and at is not None:
            self.write_guest(KAddr(0))
            self.guest.event = at

    def free(self) -> None:
        """The event or the array is gone."""
        runtime, guest = self.array.runtime, self.guest
        free_filter(runtime, self.filter, self.filter_prog)
        self.filter = self.filter_prog = self.guest = None
        if guest is not None:
            runtime.after_quiescence(lambda: runtime.free(guest))


def write_filter(runtime: Runtime, event_filter: EventFilter | None) -> KAddr | None:
    """The place of its program; None: it lets all records pass."""
    if event_filter is None or not event_filter.preds:
        return None
    size = event_filter.size()
    prog = runtime.heap.alloc(size)
    runtime.heap.view(prog, size)[:] = event_filter.encode(prog)
    return prog


def free_filter(
    runtime: Runtime, event_filter: EventFilter | None, prog: KAddr | None
) -> None:
    """Give back a program that guest code may still be running."""
    if event_filter is not None and prog:
        size = event_filter.size()
        runtime.after_quiescence(lambda: runtime.heap.free(prog, size))


class EventFiles:
    """What the trace arrays have of events, if anything was ever set there.

    One for all arrays.  Kernel: trace_array.events
    """

    def __init__(self) -> None:
        self._of: dict[TraceEvent, dict[EventArray, EventFile]] = {}

    def find(self, event: TraceEvent, array: EventArray) -> EventFile | None:
        return self._of.get(event, {}).get(array)

    def get(self, event: TraceEvent, array: EventArray) -> EventFile:
        """Made when it is first asked for."""
        files = self._of.setdefault(event, {})
        if array not in files:
            files[array] = EventFile(event, array, self)
        return files[array]

    def remove(self, event: TraceEvent, array: EventArray | None = None) -> None:
        """The event is going, or an array."""
        files = self._of.get(event, {})
        for gone in [array] if array else list(files):
            files.pop(gone).free()
        if not files:
            self._of.pop(event, None)

    def sync(self, event: TraceEvent) -> None:
        """Tell guest code who wants the records of an event."""
        files = self._of.get(event, {}).values()
        live = [file for file in files if file.enabled]
        flags, filter_prog, chain = event.guest_flags(), 0, KAddr(0)
        if len(live) == 1 and _simple(live[0]):
            flags |= EVENT_RECORD
            filter_prog = live[0].filter_prog or 0
        else:
            for file in reversed(live):
                chain = file.write_guest(chain)
        for file in files:
            file.write_description()
        for guest in event.guest_events():
            guest.files = chain
            guest.filter = filter_prog
            guest.flags = flags


def _simple(file: EventFile) -> bool:
    """Whether struct kp_event can say all."""
    return (
        file.array.simple()
        and not file.triggers
        and not file.soft_disabled
        and not file.sm_ref
    )


def carry_out(command: str, array: EventArray, target: EventFile | None) -> bool:
    """Do what a trigger or a command at a function says; whether that did something.

    Context: hit.
    Kernel: traceon_trigger(), ftrace_traceon(), snapshot_trigger() and their like
    """
    ring = array.ring
    if target is not None:
        return target.flip(command == "enable_event")
    if command == "snapshot":
        ring.swap()
        return True
    if command == "stacktrace":  # guest code writes it
        return ring.on
    return ring.switch(command == "traceon")


# ---- switching


def enable_disable(file: EventFile, enable: bool, soft: bool = False) -> None:
    """Switch an event of an array on or off, softly for the sake of a trigger.

    Softly it is armed, but records are made only while a trigger lets them.
    Kernel: __ftrace_event_enable_disable().
    """
    if not soft and file.enabled == enable and not file.soft_disabled:
        return
    if enable:
        _enable(file, soft)
    else:
        _disable(file, soft)
    file.sync()


def _enable(file: EventFile, soft: bool) -> None:
    if soft:
        file.sm_ref += 1
        if file.sm_ref > 1:
            return
    else:
        file.soft_disabled = False
    if file.enabled:
        return
    if soft:
        file.soft_disabled = True
    _set_enabled(file, True)
    try:
        file.event.reg(True)
    except KernelError:
        _set_enabled(file, False)
        raise
    file.was_enabled = True


def _disable(file: EventFile, soft: bool) -> None:
    if soft:
        file.sm_ref -= 1
        if file.sm_ref > 0:
            return
        disable = file.soft_disabled
    else:
        disable = not file.sm_ref
    if disable and file.enabled:
        _set_enabled(file, False)
        file.event.reg(False)
    file.soft_disabled = file.sm_ref > 0


def _set_enabled(file: EventFile, enabled: bool) -> None:
    file.enabled = enabled
    file.event.arrays_on += 1 if enabled else -1


def set_clr_event(
    files: Iterable[EventFile],
    match: str | None,
    system: str | None,
    name: str | None,
    enable: bool,
) -> None:
    """Switch all that match; the first error of a switch, EINVAL if none matched.

    Kernel: __ftrace_set_clr_event_nolock().
    """
    first: KernelError | None = None
    found = False
    for file in list(files):
        event = file.event
        if event.ignore_enable:
            continue
        if match is not None and match not in (event.name, event.group):
            continue
        if system is not None and system != event.group:
            continue
        if name is not None and name != event.name:
            continue
        found = True
        try:
            enable_disable(file, enable)
        except KernelError as error:
            first = first or error
    if first:
        raise first
    if not found:
        raise KernelError(errno.EINVAL, "no such event")


def set_event_word(files: Iterable[EventFile], word: str) -> None:
    """One word of set_event: NAME, GROUP:NAME with * or nothing for all, or !word.

    Kernel: ftrace_set_clr_event().
    """
    enable = not word.startswith("!")
    match, colon, name = word[not enable :].partition(":")
    if not colon:
        set_clr_event(files, match, None, None, enable)
        return
    system = None if match in ("", "*") else match
    set_clr_event(files, None, system, None if name in ("", "*") else name, enable)


def parse_enable(data: bytes) -> bool:
    """What is written to an enable file; EINVAL, ERANGE."""
    value = kstrtoul_from_user(data, 10)
    if value > 1:
        raise KernelError(errno.EINVAL, f"{value} is neither 0 nor 1")
    return bool(value)


def enable_text(files: Sequence[EventFile]) -> str:
    """enable of a group or of all events.  Kernel: system_enable_read()."""
    states = {file.enabled for file in files if not file.event.ignore_enable}
    return ("X" if len(states) > 1 else str(int(True in states))) + "\n"
