# SPDX-License-Identifier: GPL-2.0-or-later
"""Event triggers: commands that an event carries out when it is hit.

Guest code walks an event's triggers and applies their filters; what a trigger does is
done here, by a hypercall (engine/runtime/trace.c).
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import NamedTuple

from kpfs.engine.errors import KernelError
from kpfs.engine.ktypes import KAddr
from kpfs.engine.runtime.runtime import HC_TRIGGER, TRIGGER_POST, KpTrigger, Runtime
from kpfs.engine.trace.event.event_file import (
    EventFile,
    enable_disable,
    free_filter,
    sync,
    write_filter,
)
from kpfs.engine.trace.event.filter import EventFilter, create_filter
from kpfs.engine.trace.kstr import BLANKS, is_digit, kstrtoul
from kpfs.engine.trace.ring.cpu_ring import PAGE_SIZE

UNLIMITED = -1


class Command(NamedTuple):
    """Kernel: struct event_command."""

    name: str
    kind: str  # an event has one trigger of a kind (and target) at most
    action: Callable[[Trigger], bool]  # whether it did something
    post: bool = False  # when the record is written
    needs_target: bool = False


class Trigger:
    """Kernel: struct event_trigger_data."""

    def __init__(self, command: Command, file: EventFile) -> None:
        self.command = command
        self.file = file
        self.count = UNLIMITED
        self.target: EventFile | None = None
        self.filter: EventFilter | None = None
        self.filter_text = ""
        self.filter_prog: KAddr | None = None
        self.guest: KpTrigger
        self.registry: dict[int, Trigger] = {}  # that it is found in by guest.id

    @property
    def needs_record(self) -> bool:
        """Kernel: update_cond_flag()"""
        return self.filter is not None or self.command.post

    def text(self) -> str:
        """Kernel: event_trigger_print(), event_enable_trigger_print()."""
        name = self.command.name
        if self.target is not None:
            name += f":{self.target.event.group}:{self.target.event.name}"
        count = "unlimited" if self.count == UNLIMITED else f"count={self.count}"
        condition = f" if {self.filter_text}" if self.filter_text else ""
        return f"{name}:{count}{condition}\n"

    def same(self, other: Trigger) -> bool:
        """Whether an event cannot have both."""
        kinds = self.command.kind, other.command.kind
        return kinds[0] == kinds[1] and self.target is other.target

    def run(self) -> bool:
        """The event was hit; whether something was done.  Context: hit."""
        if not self.count or not self.command.action(self):
            return False
        if self.count != UNLIMITED:
            self.count -= 1
        return True

    def remove(self) -> None:
        """Take it off its event.  Context: control.

        Kernel: unregister_trigger()
        """
        file = self.file
        del self.registry[self.guest.id]
        file.triggers.remove(self)
        _link(file)
        file.tm_ref -= 1
        if not file.tm_ref:
            enable_disable(file, False, soft=True)
        sync(file.event)
        if self.target is not None:
            enable_disable(self.target, False, soft=True)
            self.target.event.refcnt -= 1
        runtime, guest = file.array.runtime, self.guest
        free_filter(runtime, self.filter, self.filter_prog)
        runtime.after_quiescence(lambda: runtime.free(guest))


def _link(file: EventFile) -> None:
    """Make the guest's list say what file.triggers says."""
    following = 0
    for trigger in reversed(file.triggers):
        trigger.guest.next = following
        following = trigger.guest.addr


# ---- what they do: all in hit context


def _traceon(trigger: Trigger) -> bool:
    """Kernel: traceon_trigger(), traceon_count_trigger()"""
    ring = trigger.file.array.ring
    if ring.on:
        return False
    ring.on = True
    return True


def _traceoff(trigger: Trigger) -> bool:
    """Kernel: traceoff_trigger(), traceoff_count_trigger()"""
    ring = trigger.file.array.ring
    if not ring.on:
        return False
    ring.on = False
    return True


def _snapshot(trigger: Trigger) -> bool:
    """Kernel: snapshot_trigger()"""
    trigger.file.array.ring.swap()
    return True


def _stacktrace(_trigger: Trigger) -> bool:
    """The runtime writes it.  Kernel: stacktrace_trigger()"""
    return True


def _flip(trigger: Trigger, enable: bool) -> bool:
    """Kernel: event_enable_trigger(), event_enable_count_trigger()"""
    target = trigger.target
    if target is None or target.soft_disabled != enable:
        return False
    target.flip(enable)
    return True


def _enable_event(trigger: Trigger) -> bool:
    return _flip(trigger, True)


def _disable_event(trigger: Trigger) -> bool:
    return _flip(trigger, False)


# in the order in which trigger lists them
COMMANDS = (
    Command("traceon", "onoff", _traceon),
    Command("traceoff", "onoff", _traceoff, post=True),
    Command("snapshot", "snapshot", _snapshot),
    Command("stacktrace", "stacktrace", _stacktrace, post=True),
    Command("enable_event", "enable", _enable_event, needs_target=True),
    Command("disable_event", "enable", _disable_event, needs_target=True),
)
AVAILABLE = "# Available triggers:\n# " + " ".join(c.name for c in COMMANDS) + "\n"


class Triggers:
    """Makes triggers of what is written, and calls them.  One for all arrays."""

    def __init__(self, runtime: Runtime) -> None:
        """Context: control."""
        self._runtime = runtime
        self._by_id: dict[int, Trigger] = {}
        self._next_id = 1
        runtime.machine.traps.on_hypercall(HC_TRIGGER, self._hit)

    def _hit(self, cpu: int) -> None:
        """Context: hit."""
        mail = self._runtime.cpus[cpu]
        trigger = self._by_id.get(mail.mail0)
        mail.mail_ret = int(
            trigger is not None
            and trigger.run()
            and trigger.command.name == "stacktrace"
        )

    @staticmethod
    def text(file: EventFile) -> str:
        """events/GROUP/EVENT/trigger.  Context: control."""
        if not file.triggers:
            return AVAILABLE
        return "".join(trigger.text() for trigger in file.triggers)

    def store(self, file: EventFile, data: bytes) -> None:
        """A write to trigger; EINVAL, EEXIST, EBUSY.

        Context: control.  Kernel: trigger_process_regex()
        """
        if not data:
            return
        if len(data) >= PAGE_SIZE:
            raise KernelError(errno.EINVAL, "too long")
        text = data.partition(b"\0")[0].decode("latin-1").strip(BLANKS)
        word, rest = _strsep(text, ": \t")
        rest = rest.lstrip(BLANKS) if rest else None
        remove, word = word.startswith("!"), word.removeprefix("!")
        command = next((c for c in COMMANDS if c.name == word), None)
        if command is None:
            raise KernelError(errno.EINVAL, f"no trigger {word!r}")
        trigger = Trigger(command, file)
        if command.needs_target and not rest:
            raise KernelError(errno.EINVAL, "no event to switch")
        param, condition = _separate_filter(rest or None, command.needs_target)
        if command.needs_target:
            trigger.target, param = self._target(file, param or "")
        old = next((t for t in file.triggers if t.same(trigger)), None)
        if remove:
            if old is not None:
                old.remove()
            return
        if param is not None:
            number = param.partition(":")[0]
            if not number:
                raise KernelError(errno.EINVAL, "no count")
            trigger.count = _count(number)
        if condition is not None:
            _set_filter(trigger, condition)
        if old is not None:
            raise KernelError(errno.EEXIST, "there is one of that kind")
        self._register(trigger)

    @staticmethod
    def _target(file: EventFile, param: str) -> tuple[EventFile, str | None]:
        """(the event to switch, the count); EINVAL."""
        group, rest = _strsep(param, ":")
        if rest is None:
            raise KernelError(errno.EINVAL, "no event to switch")
        name, count = _strsep(rest, ":")
        event = file.array.events.find(group, name)
        if event is None or event.ignore_enable:
            raise KernelError(errno.EINVAL, f"no event {group}:{name}")
        return file.array.file(event), count

    def _register(self, trigger: Trigger) -> None:
        """Kernel: register_trigger(), event_enable_register_trigger()"""
        file, target, runtime = trigger.file, trigger.target, self._runtime
        if trigger.command.name == "snapshot":
            file.array.ring.alloc_spare()
        trigger.registry = self._by_id
        trigger.guest = guest = runtime.make(KpTrigger)
        trigger.filter_prog = write_filter(runtime, trigger.filter)
        guest.filter = trigger.filter_prog or 0
        guest.flags = TRIGGER_POST if trigger.command.post else 0
        guest.id = self._next_id
        self._next_id += 1
        if target is not None:
            enable_disable(target, True, soft=True)
            target.event.refcnt += 1
        file.triggers.insert(0, trigger)
        _link(file)
        file.tm_ref += 1
        self._by_id[guest.id] = trigger
        try:
            if file.tm_ref == 1:
                enable_disable(file, True, soft=True)
        except KernelError:
            trigger.remove()
            raise
        sync(file.event)


def _strsep(text: str, separators: str) -> tuple[str, str | None]:
    """(text up to a separator, what is behind it or None).  Kernel: strsep()."""
    for i, char in enumerate(text):
        if char in separators:
            return text[:i], text[i + 1 :]
    return text, None


def _separate_filter(text: str | None, required: bool) -> tuple[str | None, str | None]:
    """(parameter, "if ..."), each None if it is not there.

    Kernel: event_trigger_separate_filter()
    """
    if text is None:
        return None, None
    if not required and not is_digit(text[0]):
        return None, text
    param, rest = _strsep(text, " \t")
    return param, (rest.lstrip(BLANKS) if rest else None) or None


def _count(number: str) -> int:
    """As the kernel's long: -1 is UNLIMITED, the others below 0 as good as that."""
    value = kstrtoul(number)
    return value - (value >> 63 << 64)


def _set_filter(trigger: Trigger, condition: str) -> None:
    """EINVAL, and what is wrong with a filter.  Kernel: set_trigger_filter()"""
    word, text = _strsep(condition, " \t")
    if word != "if" or text is None:
        raise KernelError(errno.EINVAL, "neither a count nor a condition")
    trigger.filter = create_filter(text, trigger.file.event.fields())
    trigger.filter_text = text
