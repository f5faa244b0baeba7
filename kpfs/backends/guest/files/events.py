# SPDX-License-Identifier: GPL-2.0-or-later
"""tracing/events/: a directory for each group and each event, as they come and go."""

from __future__ import annotations

import errno
from collections.abc import Iterable

from kpfs.backends.guest.files.array_file import ArrayDir, ArrayFile, bind
from kpfs.backends.guest.files.guest_file import DIR_MODE
from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.base.errors import KernelError
from kpfs.base.typed import TYPE_CHECKING
from kpfs.fs.node import Dir, Node
from kpfs.fs.seqfile import OnceHandle, SeqFile, ValueFile

if TYPE_CHECKING:
    from kpfs.engine.trace.event.trace_event import TraceEvent


class SingleEventFile(ArrayFile):
    """A file of one event, which it remembers."""

    def __init__(self, kernel: GuestKernel, event: TraceEvent) -> None:
        super().__init__(kernel)
        self.event = event

    def alive(self) -> TraceEvent:
        """Return the event; ENODEV if it or the instance has gone since open()."""
        event = self.event
        if self.tr.removed:
            raise KernelError(errno.ENODEV, f"instance {self.tr.name} is gone")
        if event.removed:
            raise KernelError(errno.ENODEV, f"{event.group}:{event.name} is gone")
        return event


class EventEnable(SingleEventFile, ValueFile):
    """events/GROUP/EVENT/enable.  Kernel: ftrace_enable_fops."""

    def show(self) -> str:
        return self.tr.array_events.file(self.alive()).enable_text()

    def store(self, data: bytes) -> None:
        self.tr.array_events.enable_store(self.event, data)


class EventId(SingleEventFile, ValueFile):
    """events/GROUP/EVENT/id.  Kernel: event_id_read()."""

    holds = False

    def show(self) -> str:
        return f"{self.alive().id}\n"


class EventFormat(SingleEventFile, SeqFile):
    """events/GROUP/EVENT/format.  Kernel: ftrace_event_format_fops."""

    holds = False

    def show(self) -> str:
        return self.alive().format_text()


class FilterFile(SingleEventFile, ValueFile):
    """events/GROUP/EVENT/filter.  Kernel: ftrace_event_filter_fops."""

    handle_type = OnceHandle

    def show(self) -> str:
        return self.tr.array_events.file(self.alive()).filter_text()

    def store(self, data: bytes) -> None:
        self.tr.array_events.filter_store(self.event, data)


class EventTrigger(SingleEventFile, SeqFile):
    """events/GROUP/EVENT/trigger.  Kernel: event_trigger_fops."""

    seq_for_writers = False
    holds = False

    def show(self) -> str:
        triggers = self.kernel.trace.triggers
        return triggers.text(self.tr.array_events.file(self.alive()))

    def store(self, data: bytes) -> None:
        triggers = self.kernel.trace.triggers
        triggers.store(self.tr.array_events.file(self.alive()), data)


class GroupEnable(ArrayFile, ValueFile):
    """enable of a group, and events/enable.  Kernel: ftrace_system_enable_fops."""

    def __init__(self, kernel: GuestKernel, group: str | None = None) -> None:
        super().__init__(kernel)
        self.group = group

    def show(self) -> str:
        return self.tr.array_events.group_enable_text(self.group)

    def store(self, data: bytes) -> None:
        self.tr.array_events.group_enable_store(self.group, data)


class GroupFilter(ArrayFile, ValueFile):
    """filter of a group: sets those of its events, and does not remember it.

    Kernel: ftrace_subsystem_filter_fops
    """

    handle_type = OnceHandle

    def __init__(self, kernel: GuestKernel, group: str) -> None:
        super().__init__(kernel)
        self.group = group

    def show(self) -> str:
        from kpfs.engine.trace.array.array_events import DEFAULT_SYS_FILTER_MESSAGE

        return DEFAULT_SYS_FILTER_MESSAGE

    def store(self, data: bytes) -> None:
        self.tr.array_events.group_filter_store(self.group, data)


class EventDir(Dir):
    """events/GROUP/EVENT/."""

    FILES: tuple[tuple[str, int, type[SingleEventFile]], ...] = (
        ("enable", 0o640, EventEnable),
        ("filter", 0o640, FilterFile),
        ("trigger", 0o640, EventTrigger),
        ("id", 0o440, EventId),
        ("format", 0o440, EventFormat),
    )

    def __init__(self, kernel: GuestKernel, event: TraceEvent) -> None:
        super().__init__(DIR_MODE)
        # events of ftrace itself are only described
        files = self.FILES[3:] if event.ignore_enable else self.FILES
        for name, mode, kind in files:
            self.add(name, mode, kind(kernel, event))


class GroupDir(ArrayDir):
    """events/GROUP/."""

    def __init__(self, kernel: GuestKernel, group: str) -> None:
        super().__init__(kernel, DIR_MODE)
        self.group = group
        if group == "ftrace":
            return
        for name, kind in (("enable", GroupEnable), ("filter", GroupFilter)):
            self.add(name, 0o640, kind(kernel, group))

    def entry(self, name: str) -> Node | None:
        event = self.kernel.trace.events.find(self.group, name)
        return self.keep(
            name, event, lambda event: bind(EventDir(self.kernel, event), self.array)
        )

    def entries(self) -> Iterable[str]:
        """Return its events, but those that are named like a file of its own."""
        events = self.kernel.trace.events.group(self.group)
        return [name for name in events if name not in self.children]


class EventsDir(ArrayDir):
    """events/."""

    def entry(self, name: str) -> Node | None:
        group = self.kernel.trace.events.group(name) or None
        return self.keep(
            name, group, lambda _: bind(GroupDir(self.kernel, name), self.array)
        )

    def entries(self) -> Iterable[str]:
        return self.kernel.trace.events.groups()


class SetEvent(ArrayFile, SeqFile):
    """tracing/set_event.  Kernel: ftrace_set_event_fops."""

    def emptied(self) -> None:
        self.tr.array_events.set_event_clear()

    def show(self) -> str:
        return self.tr.array_events.set_event_text()

    def store(self, data: bytes) -> int:
        return self.tr.array_events.set_event_store(data)


class AvailableEvents(ArrayFile, SeqFile):
    """tracing/available_events.  Kernel: ftrace_avail_fops."""

    def show(self) -> str:
        return self.tr.array_events.available_events_text()
