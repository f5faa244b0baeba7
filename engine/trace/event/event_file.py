# SPDX-License-Identifier: GPL-2.0-or-later
"""The state of an event in one trace array: on or off, its filter, its triggers.

EventFiles.sync() tells guest code what it has to know.  Usually only the first array
records an event: its struct kp_event is enough then, and guest code takes the short
way.  Otherwise each array that records it has a struct kp_file.

All functions are for control context, unless they say otherwise.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from typing import Protocol

from kpfs.base.abi import EVENT_RECORD, FILE_RECORD, FILE_TRIGGER_COND
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KAddr
from kpfs.engine.kstrtox import kstrtoul_from_user
from kpfs.engine.runtime.records import KpArray, KpEvent, KpFile
from kpfs.engine.runtime.runtime import Runtime
from kpfs.engine.trace.errlog import ErrorLog
from kpfs.engine.trace.event.filter import EventFilter
from kpfs.engine.trace.event.trace_event import TraceEvent
from kpfs.engine.trace.ring.ring_buffer import RingBuffer


class EventArray(Protocol):
    """The side of a trace array that events use.  Kernel: struct trace_array"""

    runtime: Runtime
    name: str  # the instance's
    guest: KpArray
    ring: RingBuffer
    err_log: ErrorLog
    ref: int  # open files of an instance

    def simple(self) -> bool:
        """Return True if guest code may take the short way into this array's ring."""

    def find_event_file(self, group: str, name: str) -> EventFile | None:
        """Return a switchable event's state here.  Kernel: find_event_file()"""


class EventFile:
    """An event in one trace array.  Kernel: struct trace_event_file."""

    def __init__(self, event: TraceEvent, array: EventArray, files: EventFiles) -> None:
        self.event = event
        self.array = array
        self._files = files
        self.enabled = False
        self.was_enabled = False
        self.soft_disabled = False
        self.sm_ref = 0  # how many users want it on softly
        self.triggers = 0  # address of the first one's struct kp_trigger
        self.trigger_cond = False  # True if a trigger needs the record
        self.filter: EventFilter | None = None
        self.filter_prog: KAddr | None = None
        self.guest: KpFile | None = None
        self._written: tuple[int, ...] = ()  # the words of its struct kp_file
        self.following = -1  # the first of these; -1: they are to be written

    def enable_text(self) -> str:
        """Return the text of its enable file.  Kernel: event_enable_read()."""
        text = "1" if self.enabled and not self.soft_disabled else "0"
        return text + ("*" if self.soft_disabled or self.sm_ref else "") + "\n"

    def filter_text(self) -> str:
        """Return the text of its filter file.  Kernel: print_event_filter()."""
        return (self.filter.text if self.filter else "none") + "\n"

    def set_filter(self, event_filter: EventFilter | None) -> None:
        runtime = self.array.runtime
        old, old_prog = self.filter, self.filter_prog
        self.filter = event_filter
        self.filter_prog = write_filter(runtime, event_filter)
        self.sync()
        free_filter(runtime, old, old_prog)

    def sync(self) -> None:
        """Tell guest code which arrays want records of the event."""
        self.following = -1
        self._files.sync(self.event)

    def flip(self, enable: bool) -> bool:
        """Let the records of an event that is on softly pass, or not; False: no change.

        Context: either.  Kernel: event_enable_trigger().
        """
        if self.soft_disabled != enable:
            return False
        self.soft_disabled = not enable
        if self.guest is not None:
            self.guest.flags = self.guest_flags()
            self._written, self.following = (), -1
        return True

    def hold(self, on: bool) -> None:
        """Have the event on softly and undeletable for a user of flip(), or no longer.

        Kernel: event_enable_register_trigger(), event_enable_func()
        """
        enable_disable(self, on, soft=True)
        self.event.hold(on)

    def guest_flags(self) -> int:
        """Return the flags of its struct kp_file."""
        flags = FILE_RECORD if self.enabled and not self.soft_disabled else 0
        return flags | FILE_TRIGGER_COND if self.trigger_cond else flags

    def guest_file(self) -> KpFile:
        """Return its struct kp_file, which is made if there is none yet."""
        if self.guest is None:
            self.write_guest(KAddr(0))
            assert self.guest is not None
        return self.guest

    def write_guest(self, following: KAddr) -> KAddr:
        """Write all of its struct kp_file and return the address."""
        if self.guest is None:
            self.guest = self.array.runtime.make(KpFile)
        guest, array = self.guest, self.array.guest.addr
        flags = self.guest_flags()
        words = following, array, self.filter_prog or 0, self.triggers, flags
        if words != self._written:
            guest.next, guest.array, guest.filter, guest.triggers, guest.flags = words
            self._written = words
        self.following = following
        return guest.addr

    def write_description(self) -> None:
        """Describe the event's records to guest code that has asked for this file."""
        at = None if self.guest is None else self.event.describe()
        if self.guest is not None and at is not None:
            self.write_guest(KAddr(0))
            self.guest.event = at

    def free(self) -> None:
        """Free what it has in the guest: the event or the array is gone."""
        runtime, guest = self.array.runtime, self.guest
        free_filter(runtime, self.filter, self.filter_prog)
        self.filter = self.filter_prog = self.guest = None
        self._written, self.following = (), -1
        if guest is not None:
            runtime.after_quiescence(lambda: runtime.free(guest))


def write_filter(runtime: Runtime, event_filter: EventFilter | None) -> KAddr | None:
    """Write its program to guest memory; None: there is none, all records pass."""
    if event_filter is None or not event_filter.preds:
        return None
    size = event_filter.size()
    prog = runtime.heap.alloc(size)
    runtime.heap.view(prog, size)[:] = event_filter.encode(prog)
    return prog


def free_filter(
    runtime: Runtime, event_filter: EventFilter | None, prog: KAddr | None
) -> None:
    """Free a program as soon as no guest code can be running it any more."""
    if event_filter is not None and prog:
        size = event_filter.size()
        runtime.after_quiescence(lambda: runtime.heap.free(prog, size))


class EventFiles:
    """The event files of all trace arrays, each of which is made when it is needed.

    There is one object for all arrays.  Kernel: trace_array.events
    """

    def __init__(self) -> None:
        self._of: dict[TraceEvent, dict[EventArray, EventFile]] = {}

    def find(self, event: TraceEvent, array: EventArray) -> EventFile | None:
        return self._of.get(event, {}).get(array)

    def get(self, event: TraceEvent, array: EventArray) -> EventFile:
        """Return the file of an event in an array, made when it is first asked for."""
        files = self._of.setdefault(event, {})
        if array not in files:
            files[array] = EventFile(event, array, self)
        return files[array]

    def remove(self, event: TraceEvent, array: EventArray | None = None) -> None:
        """Forget the files of an event that is going, or only that of one array."""
        files = self._of.get(event, {})
        for gone in [array] if array else list(files):
            files.pop(gone).free()
        if not files:
            self._of.pop(event, None)

    def sync(self, event: TraceEvent, only: KpEvent | None = None) -> None:
        """Tell guest code which arrays want records of an event.

        only: tell it of one of its structs alone, as the others are up to date.
        """
        files = self._of.get(event, {}).values()
        live = [file for file in files if file.enabled]
        flags, filter_prog, chain = event.guest_flags(), 0, KAddr(0)
        if len(live) == 1 and _simple(live[0]):
            flags |= EVENT_RECORD
            filter_prog = live[0].filter_prog or 0
        else:
            for file in reversed(live):  # where these are many, most have not changed
                if (known := file.guest) is None or file.following != chain:
                    chain = file.write_guest(chain)
                else:
                    chain = known.addr
        if event.describe() is not None:
            for file in files:
                file.write_description()
        for guest in [only] if only else event.guest_events():
            guest.record(chain, filter_prog, flags)


def _simple(file: EventFile) -> bool:
    """Return True if a struct kp_event is enough to tell guest code about the event."""
    return (
        file.array.simple()
        and not file.triggers
        and not file.soft_disabled
        and not file.sm_ref
    )


def find_target(array: EventArray, text: str) -> tuple[EventFile, str | None]:
    """Parse GROUP:EVENT[:REST]: the event to switch, and the rest or None; EINVAL."""
    group, _, rest = text.partition(":")
    name, colon, rest = rest.partition(":")
    target = array.find_event_file(group, name)
    if target is None:
        raise KernelError(errno.EINVAL, f"no event {group}:{name}")
    return target, rest if colon else None


def carry_out(command: str, array: EventArray, target: EventFile | None) -> bool:
    """Run the command of a trigger or a function; whether that did something.

    Context: hit.
    Kernel: traceon_trigger(), ftrace_traceon(), snapshot_trigger() and their like
    """
    ring = array.ring
    if target is not None:
        return target.flip(command == "enable_event")
    if command == "snapshot":
        ring.swap()
        return True
    if command == "stacktrace":  # guest code writes the trace
        return ring.on
    return ring.switch(command == "traceon")


# ---- switching


def enable_disable(file: EventFile, enable: bool, soft: bool = False) -> None:
    """Switch an event of an array on or off, or softly for the sake of a trigger.

    An event that is on softly is armed, but makes records only while a trigger says so.
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
    """Switch all that match; raises the first error, or EINVAL if none matched.

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
    """Do what a word of set_event says: [!]NAME or [!]GROUP:NAME; * or nothing: all.

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
    """Parse what is written to an enable file, 0 or 1; EINVAL, ERANGE."""
    value = kstrtoul_from_user(data, 10)
    if value > 1:
        raise KernelError(errno.EINVAL, f"{value} is neither 0 nor 1")
    return bool(value)


def enable_text(files: Sequence[EventFile]) -> str:
    """The text of a group's or all events' enable.  Kernel: system_enable_read()."""
    states = {file.enabled for file in files if not file.event.ignore_enable}
    return ("X" if len(states) > 1 else str(int(True in states))) + "\n"
