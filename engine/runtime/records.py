# SPDX-License-Identifier: GPL-2.0-or-later
"""The records of engine/runtime in guest memory, as Python objects.

engine/runtime/runtime.h says what each word means.  A record is an object over the
guest's own bytes: reading an attribute reads the guest's memory.
"""

from __future__ import annotations

from typing import ClassVar, cast

from kpfs.base import abi
from kpfs.base.ktypes import KAddr

# indexes of words in struct kp_cpu, for code that has the words of all CPUs
CPU_WORDS = abi.KpCpu.SIZE // 8
CURRENT, STATUS = abi.KpCpu.current_kprobe // 8, abi.KpCpu.status // 8
PREV_CURRENT, PREV_STATUS = abi.KpCpu.prev_kprobe // 8, abi.KpCpu.prev_status // 8
MAIL0, MAIL1, MAIL2, MAIL3 = range(abi.KpCpu.mail // 8, abi.KpCpu.mail // 8 + 4)
MAIL_RET, INSTANCE = abi.KpCpu.mail_ret // 8, abi.KpCpu.instance // 8
DECLINED = abi.KpCpu.declined // 8
IN_FAULT = abi.KpCpu.in_fault // 8


def _word(offset: int, doc: str = "", *, judged: bool = False) -> int:
    """A property that is the word at that offset of a record.

    It is annotated as an int, since that is what a reader of the attribute gets: a
    descriptor class with types of its own would make every hit slower.
    judged: it is one of the words of a kp_event by which its records are simple or not.
    """
    n = offset // 8

    def get(record: Record) -> int:
        return record.words[record.base + n]

    def put(record: Record, value: int) -> None:
        record.words[record.base + n] = value

    def put_judged(record: KpEvent, value: int) -> None:
        record.words[record.base + n] = value
        record.judge()

    return cast(int, property(get, put_judged if judged else put, doc=doc))


# by a name, for if mypy could read the slots in the class, it would report assignments
# to attributes that are none of them, even to properties
_SLOTS = ("addr", "base", "words")


_ZEROS = memoryview(bytes(4096)).cast("Q")


class Record:
    """A struct of 64-bit words in guest memory.

    Context: either.
    """

    __slots__ = _SLOTS
    SIZE: ClassVar[int]  # bytes

    def __init__(self, addr: KAddr, words: memoryview, base: int) -> None:
        """words: 64-bit words of the block it lies in; base: index of its first."""
        self.addr = addr
        self.words = words
        self.base = base

    def clear(self) -> None:
        words = self.SIZE // 8
        self.words[self.base : self.base + words] = _ZEROS[:words]


class KpSite(Record):
    """struct kp_site"""

    __slots__ = ()
    SIZE = abi.KpSite.SIZE
    probe_addr = _word(abi.KpSite.addr)
    cont = _word(abi.KpSite.cont, "where execution goes on after the handlers")
    flags = _word(abi.KpSite.flags)
    first = _word(abi.KpSite.first, "the newest kp_handler")
    hits = _word(abi.KpSite.hits, "entered in guest code, missed ones too")
    id = _word(abi.KpSite.id)


class KpHandler(Record):
    """struct kp_handler"""

    __slots__ = ()
    SIZE = abi.KpHandler.SIZE
    next = _word(abi.KpHandler.next)
    fn = _word(abi.KpHandler.fn)
    flags = _word(abi.KpHandler.flags)
    nmissed = _word(abi.KpHandler.nmissed)
    data = _word(abi.KpHandler.data)
    kp = _word(abi.KpHandler.kp)
    id = _word(abi.KpHandler.id)
    post_fn = _word(abi.KpHandler.post_fn)
    arg = _word(abi.KpHandler.arg, "for fn: a module's struct kprobe, or this")
    user = _word(abi.KpHandler.user, "the same for the other handlers")
    break_fn = _word(abi.KpHandler.break_fn)
    fault_fn = _word(abi.KpHandler.fault_fn)


class KpEvent(Record):
    """struct kp_event"""

    __slots__ = ()
    SIZE = abi.KpEvent.SIZE
    flags = _word(abi.KpEvent.flags, judged=True)
    type = _word(abi.KpEvent.type)
    _nhit = _word(abi.KpEvent.nhit)
    size = _word(abi.KpEvent.size, judged=True)
    prog = _word(abi.KpEvent.prog, judged=True)
    filter = _word(abi.KpEvent.filter, judged=True)
    files = _word(abi.KpEvent.files, "kp_file, where flags do not say all", judged=True)

    @property
    def nhit(self) -> int:
        return self._nhit & ~abi.EVENT_SIMPLE

    @nhit.setter
    def nhit(self, value: int) -> None:
        self._nhit = value
        self.judge()

    def describe(self, number: int, size: int, prog: int, flags: int) -> None:
        """Set the type of its records, and what they hold; nobody wants them yet."""
        self.type = number
        self._set(abi.KpEvent.flags, flags)
        self._set(abi.KpEvent.size, size)
        self._set(abi.KpEvent.prog, prog)
        self._nhit &= ~abi.EVENT_SIMPLE

    def record(self, files: int, filter_prog: int, flags: int) -> None:
        """Set who wants the records."""
        self._set(abi.KpEvent.files, files)
        self._set(abi.KpEvent.filter, filter_prog)
        self._set(abi.KpEvent.flags, flags)
        self.judge()

    def _set(self, offset: int, value: int) -> None:
        self.words[self.base + offset // 8] = value

    def judge(self) -> None:
        """Set or clear EVENT_SIMPLE, by which lite.S may write the records."""
        flags = self.flags
        size = 24 if flags & abi.EVENT_RETURN else 16
        simple = flags & abi.EVENT_RECORD and self.size == size
        if simple and not (self.prog | self.filter | self.files):
            self._nhit |= abi.EVENT_SIMPLE
        else:
            self._nhit &= ~abi.EVENT_SIMPLE


class KpTrigger(Record):
    """struct kp_trigger"""

    __slots__ = ()
    SIZE = abi.KpTrigger.SIZE
    next = _word(abi.KpTrigger.next)
    filter = _word(abi.KpTrigger.filter)
    flags = _word(abi.KpTrigger.flags)
    id = _word(abi.KpTrigger.id)


class KpFile(Record):
    """struct kp_file"""

    __slots__ = ()
    SIZE = abi.KpFile.SIZE
    next = _word(abi.KpFile.next)
    flags = _word(abi.KpFile.flags)
    array = _word(abi.KpFile.array)
    filter = _word(abi.KpFile.filter)
    triggers = _word(abi.KpFile.triggers)
    event = _word(abi.KpFile.event, "struct synth_event, 0: none")
    begin = _word(abi.KpFile.begin)
    commit = _word(abi.KpFile.commit)


class KpArray(Record):
    """struct kp_array; rings: words 0 to 7."""

    __slots__ = ()
    SIZE = abi.KpArray.SIZE
    flags = _word(abi.KpArray.flags)
    pids = _word(abi.KpArray.pids)
    no_pids = _word(abi.KpArray.no_pids)
    fn_next = _word(abi.KpArray.fn_next)
    fn_hash = _word(abi.KpArray.fn_hash)
    fn_pids = _word(abi.KpArray.fn_pids)
    fn_no_pids = _word(abi.KpArray.fn_no_pids)
    fn_probes = _word(abi.KpArray.fn_probes)
    fn_probe_next = _word(abi.KpArray.fn_probe_next)

    def set_ring(self, cpu: int, ring: int) -> None:
        self.words[self.base + cpu] = ring


class KpRethook(Record):
    """struct kp_rethook"""

    __slots__ = ()
    SIZE = abi.KpRethook.SIZE
    free = _word(abi.KpRethook.free)
    entry_fn = _word(abi.KpRethook.entry_fn)
    ret_fn = _word(abi.KpRethook.ret_fn)
    nmissed = _word(abi.KpRethook.nmissed)
    data = _word(abi.KpRethook.data)
    flags = _word(abi.KpRethook.flags)
    kp = _word(abi.KpRethook.kp)
    id = _word(abi.KpRethook.id)
    event = _word(abi.KpRethook.event, "kp_event that a return is for alone")
    site = _word(abi.KpRethook.site)
    long_way = _word(abi.KpRethook.long_way, "an entry is not simple")
    maxactive = _word(abi.KpRethook.maxactive)


class KpCpu(Record):
    """struct kp_cpu"""

    __slots__ = ()
    SIZE = abi.KpCpu.SIZE
    current_kprobe = _word(abi.KpCpu.current_kprobe)
    status = _word(abi.KpCpu.status)
    prev_kprobe = _word(abi.KpCpu.prev_kprobe)
    prev_status = _word(abi.KpCpu.prev_status)
    mail0 = _word(abi.KpCpu.mail)
    mail1 = _word(abi.KpCpu.mail + 8)
    mail2 = _word(abi.KpCpu.mail + 16)
    mail_ret = _word(abi.KpCpu.mail_ret)
    ring = _word(abi.KpCpu.ring)
    orphan_returns = _word(abi.KpCpu.orphan_returns)
    instance = _word(abi.KpCpu.instance, "kp_handler whose handler is running")
    jprobe = _word(abi.KpCpu.jprobe, "kp_jprobe")
    declined = _word(abi.KpCpu.declined, "address whose trap no handler wanted")
    in_fault = _word(abi.KpCpu.in_fault, "a fault_handler is running")
    stack = _word(abi.KpCpu.stack, "room for the addresses of a stack trace")
