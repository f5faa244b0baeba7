# SPDX-License-Identifier: GPL-2.0-or-later
"""Event triggers: commands that an event carries out when it is hit.

Guest code walks an event's triggers and applies their filters; what a trigger does is
done here, by a hypercall (engine/runtime/trace.c).  All functions are for control
context, unless they say otherwise.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kpfs.base.abi import HC_TRIGGER, TRIGGER_POST
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KAddr
from kpfs.engine.kstrtox import BLANKS, as_long, is_digit, kstrtoul
from kpfs.engine.runtime.records import KpTrigger
from kpfs.engine.runtime.runtime import Runtime
from kpfs.engine.trace.event.event_file import (
    EventFile,
    carry_out,
    enable_disable,
    find_target,
    free_filter,
    write_filter,
)
from kpfs.engine.trace.event.filter import EventFilter, create_filter
from kpfs.engine.trace.ring.cpu_ring import PAGE_SIZE

UNLIMITED = -1  # kernel: a count that is not counted down


class EventCommand(NamedTuple):
    """The action of a trigger.  Kernel: struct event_command."""

    name: str
    kind: str  # an event has one trigger of a kind (and target) at most
    post: bool = False  # it is run when the record is written
    needs_target: bool = False


@dataclass(eq=False)
class Trigger:
    """A command at an event in one array.  Kernel: struct event_trigger_data."""

    command: EventCommand
    file: EventFile
    target: EventFile | None  # the event to switch
    count: int  # how often it is still to run
    filter: EventFilter | None
    filter_text: str
    filter_prog: KAddr | None  # the filter in guest memory
    guest: KpTrigger

    def text(self) -> str:
        """Return its line in the trigger file.  Kernel: event_trigger_print()"""
        name = self.command.name
        if self.target is not None:
            name += f":{self.target.event.group}:{self.target.event.name}"
        count = "unlimited" if self.count == UNLIMITED else f"count={self.count}"
        condition = f" if {self.filter_text}" if self.filter_text else ""
        return f"{name}:{count}{condition}\n"

    def same(self, command: EventCommand, target: EventFile | None) -> bool:
        """Return True if an event that has this one cannot have that command too."""
        return self.command.kind == command.kind and self.target is target

    def run(self) -> bool:
        """Run it at a hit; return True if it did anything.  Context: hit."""
        name = self.command.name
        if not self.count:
            return False
        # a stack trace is written by the runtime, into whatever ring is on
        if name != "stacktrace" and not carry_out(name, self.file.array, self.target):
            return False
        if self.count != UNLIMITED:
            self.count -= 1
        return True


# in the order in which the trigger file lists them
COMMANDS = {
    command.name: command
    for command in (
        EventCommand("traceon", "onoff"),
        EventCommand("traceoff", "onoff", post=True),
        EventCommand("snapshot", "snapshot"),
        EventCommand("stacktrace", "stacktrace", post=True),
        EventCommand("enable_event", "enable", needs_target=True),
        EventCommand("disable_event", "enable", needs_target=True),
    )
}
AVAILABLE = f"# Available triggers:\n# {' '.join(COMMANDS)}\n"


class Triggers:
    """The triggers of all event files: makes, shows and runs them."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._of: dict[EventFile, list[Trigger]] = {}  # newest first
        self._by_id: dict[int, Trigger] = {}
        self._next_id = 1
        runtime.machine.traps.on_hypercall(HC_TRIGGER, self._hit)

    def _hit(self, cpu: int) -> None:
        """Run a trigger; answer 1 to have a stack trace written.  Context: hit."""
        mail = self._runtime.cpus[cpu]
        trigger = self._by_id.get(mail.mail0)
        mail.mail_ret = int(
            trigger is not None
            and trigger.run()
            and trigger.command.name == "stacktrace"
        )

    def text(self, file: EventFile) -> str:
        """Return the text of events/GROUP/EVENT/trigger."""
        triggers = self._of.get(file)
        return "".join(t.text() for t in triggers) if triggers else AVAILABLE

    def store(self, file: EventFile, data: bytes) -> None:
        """Do what data say; EINVAL, EEXIST, EBUSY.  Kernel: trigger_process_regex()"""
        if not data:
            return
        if len(data) >= PAGE_SIZE:
            raise KernelError(errno.EINVAL, "too long")
        text = data.partition(b"\0")[0].decode("latin-1").strip(BLANKS)
        word, rest = _strsep(text, ": \t")
        rest = rest.lstrip(BLANKS) if rest else None
        remove, word = word.startswith("!"), word.removeprefix("!")
        command = COMMANDS.get(word)
        if command is None:
            raise KernelError(errno.EINVAL, f"no trigger {word!r}")
        if command.needs_target and not rest:
            raise KernelError(errno.EINVAL, "no event to switch")
        param, condition = _separate_filter(rest or None, command.needs_target)
        target = None
        if command.needs_target:
            target, param = find_target(file.array, param or "")
        old = next((t for t in self._of.get(file, ()) if t.same(command, target)), None)
        if remove:
            if old is not None:
                self._unregister(old)
            return
        count = UNLIMITED if param is None else _count(param)
        filter_text = "" if condition is None else _filter_text(condition)
        event_filter = None
        if condition is not None:
            event_filter = create_filter(filter_text, file.event.fields())
        if old is not None:
            raise KernelError(errno.EEXIST, "there is one of that kind")
        if command.name == "snapshot":
            file.array.ring.alloc_spare()
        prog = write_filter(self._runtime, event_filter)
        guest = self._runtime.make(KpTrigger)
        guest.filter = prog or 0
        guest.flags = TRIGGER_POST if command.post else 0
        guest.id = self._next_id
        self._next_id += 1
        self._register(
            Trigger(
                command, file, target, count, event_filter, filter_text, prog, guest
            )
        )

    def _register(self, trigger: Trigger) -> None:
        """Kernel: register_trigger(), event_enable_register_trigger()"""
        file = trigger.file
        if trigger.target is not None:
            trigger.target.hold(True)
        triggers = self._of.setdefault(file, [])
        triggers.insert(0, trigger)
        _link(file, triggers)
        self._by_id[trigger.guest.id] = trigger
        try:
            if len(triggers) == 1:
                enable_disable(file, True, soft=True)
        except KernelError:
            self._unregister(trigger)
            raise
        file.sync()

    def _unregister(self, trigger: Trigger) -> None:
        """Kernel: unregister_trigger()"""
        file, target, runtime = trigger.file, trigger.target, self._runtime
        guest, triggers = trigger.guest, self._of[file]
        del self._by_id[guest.id]
        triggers.remove(trigger)
        _link(file, triggers)
        if not triggers:
            del self._of[file]
            enable_disable(file, False, soft=True)
        file.sync()
        if target is not None:
            target.hold(False)
        free_filter(runtime, trigger.filter, trigger.filter_prog)
        runtime.after_quiescence(lambda: runtime.free(guest))

    def clear(self, file: EventFile) -> None:
        """Remove all triggers of a file.  Kernel: clear_event_triggers()"""
        for trigger in list(self._of.get(file, ())):
            self._unregister(trigger)


def _link(file: EventFile, triggers: Sequence[Trigger]) -> None:
    """Tell guest code which triggers there are."""
    following = 0
    for trigger in reversed(triggers):
        trigger.guest.next = following
        following = trigger.guest.addr
    file.triggers = following
    file.trigger_cond = any(t.filter is not None or t.command.post for t in triggers)


def _strsep(text: str, separators: str) -> tuple[str, str | None]:
    """Return (text up to a separator, what is behind it or None).  Kernel: strsep()."""
    for i, char in enumerate(text):
        if char in separators:
            return text[:i], text[i + 1 :]
    return text, None


def _separate_filter(text: str | None, required: bool) -> tuple[str | None, str | None]:
    """Split "PARAMETER if ..."; None for a missing part."""
    if text is None:
        return None, None
    if not required and not is_digit(text[0]):
        return None, text
    param, rest = _strsep(text, " \t")
    return param, (rest.lstrip(BLANKS) if rest else None) or None


def _count(param: str) -> int:
    """Parse a count; -1 is UNLIMITED, and others below 0 never run out; EINVAL."""
    number = param.partition(":")[0]
    if not number:
        raise KernelError(errno.EINVAL, "no count")
    return as_long(kstrtoul(number))


def _filter_text(condition: str) -> str:
    """Return the text behind the "if"; EINVAL.  Kernel: set_trigger_filter()"""
    word, text = _strsep(condition, " \t")
    if word != "if" or text is None:
        raise KernelError(errno.EINVAL, "neither a count nor a condition")
    return text
