# SPDX-License-Identifier: GPL-2.0-or-later
"""Types of integers, and the small records that engine and guest exchange."""

from __future__ import annotations

from kpfs.base.typed import NamedTuple, NewType

KAddr = NewType("KAddr", int)  # virtual address in the guest kernel
KTime = NewType("KTime", int)  # guest nanoseconds since its boot

KERN_CRIT, KERN_ERR, KERN_WARNING, KERN_INFO = 2, 3, 4, 6  # levels of the log
MASK64 = 0xFFFF_FFFF_FFFF_FFFF
FUNCTION_TYPES = frozenset("tTwW")  # types of symbols that are functions


class Symbol(NamedTuple):
    """One line of kallsyms.  Kernel: struct kallsym_iter."""

    name: str
    addr: KAddr
    size: int  # bytes to the next symbol: what kallsyms_lookup_size_offset() uses
    type: str  # nm's letter: T t D d B b R r ...
    module: str = ""  # "" for the kernel proper


class BlacklistEntry(NamedTuple):
    """One line of kprobes/blacklist.  Kernel: struct kprobe_blacklist_entry."""

    start: KAddr
    end: KAddr  # exclusive
    name: str


class TaskInfo(NamedTuple):
    """A task of the guest, as far as the engine knows it."""

    addr: KAddr  # its struct task_struct
    pid: int
    comm: str
    uid: int


class Caller(NamedTuple):
    """The process that makes an operation on the mount: FUSE's context, of the host."""

    pid: int  # the thread's; 0 for one outside our pid namespace
    uid: int
    gid: int


class EventField(NamedTuple):
    """One field of a record.  Kernel: struct ftrace_event_field."""

    type: str
    name: str
    offset: int
    size: int
    signed: bool


class StaticEvent(NamedTuple):
    """An event of a trace point.  Kernel: struct trace_event_call."""

    group: str
    name: str
    fields: tuple[EventField, ...]
    print_fmt: str
    module: str = ""  # "": it is the kernel's own
    module_addr: int = 0  # address of its struct module
