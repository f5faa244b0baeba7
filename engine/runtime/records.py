# SPDX-License-Identifier: GPL-2.0-or-later
"""The records of engine/runtime in guest memory, as Python objects.

A record is an object over the guest's own bytes: reading an attribute reads the guest's
memory.  Its attributes are the fields of the structure in base/abi.py, which is
generated; engine/runtime/runtime.h says what each word means.
"""

from __future__ import annotations

from kpfs.base import abi
from kpfs.base.ktypes import KAddr
from kpfs.base.typed import cast

_E = abi.KpEvent
# indexes of words in struct kp_cpu, for code that reads the words of all CPUs at once
CPU_WORDS = abi.KpCpu.SIZE // 8
CURRENT, STATUS = abi.KpCpu.current_kprobe // 8, abi.KpCpu.status // 8
PREV_CURRENT, PREV_STATUS = abi.KpCpu.prev_kprobe // 8, abi.KpCpu.prev_status // 8
MAIL0, MAIL1, MAIL2, MAIL3 = range(abi.KpCpu.mail // 8, abi.KpCpu.mail // 8 + 4)
MAIL_RET, INSTANCE = abi.KpCpu.mail_ret // 8, abi.KpCpu.instance // 8
DECLINED = abi.KpCpu.declined // 8
IN_FAULT = abi.KpCpu.in_fault // 8
# of those in struct kp_event
_FLAGS, _TYPE, _NHIT = (n // 8 for n in (_E.flags, _E.type, _E.nhit))
_SIZE, _PROG, _FILTER = (n // 8 for n in (_E.size, _E.prog, _E.filter))
_FILES = _E.files // 8


def _word(offset: int, *, judged: bool = False) -> int:
    """Return a property that reads and writes the word at that offset of a record.

    It is annotated as an int, since that is what a reader of the attribute gets: a
    descriptor class with types of its own would make every hit slower.
    judged: the word is one that decides whether the records of a kp_event are simple.
    """
    n = offset // 8

    def get(record: RuntimeRecord) -> int:
        return record.words[record.base + n]

    def put(record: RuntimeRecord, value: int) -> None:
        record.words[record.base + n] = value

    def put_judged(record: KpEvent, value: int) -> None:
        record.words[record.base + n] = value
        record.judge()

    return cast(int, property(get, put_judged if judged else put))


# Named outside the class, since mypy would otherwise report every assignment to an
# attribute that is no slot, even to a property.
_SLOTS = ("addr", "base", "words")


class RuntimeRecord:
    """A struct of 64-bit words in guest memory.

    A subclass also inherits the layout of its structure from base/abi.py. Each
    offset there becomes a property, unless the subclass defines that attribute itself.

    Context: either.
    """

    __slots__ = _SLOTS
    SIZE: int  # bytes

    def __init_subclass__(cls) -> None:
        own = {*vars(cls), *_SLOTS, "SIZE"}
        for name, offset in vars(cls.__bases__[1]).items():
            if name not in own and isinstance(offset, int):
                setattr(cls, name, _word(offset))

    def __init__(self, addr: KAddr, words: memoryview, base: int) -> None:
        """words: 64-bit words of the block it lies in; base: index of its first."""
        self.addr = addr
        self.words = words
        self.base = base


class KpSite(RuntimeRecord, abi.KpSite):
    __slots__ = ()
    addr: KAddr  # where the record is, as in all of them
    probe_addr = _word(abi.KpSite.addr)


class KpHandler(RuntimeRecord, abi.KpHandler):
    __slots__ = ()


class KpEvent(RuntimeRecord, abi.KpEvent):
    __slots__ = ()
    flags = _word(abi.KpEvent.flags, judged=True)
    size = _word(abi.KpEvent.size, judged=True)
    prog = _word(abi.KpEvent.prog, judged=True)
    filter = _word(abi.KpEvent.filter, judged=True)
    files = _word(abi.KpEvent.files, judged=True)
    _nhit = _word(abi.KpEvent.nhit)

    @property
    def nhit(self) -> int:
        return self._nhit & ~abi.EVENT_SIMPLE

    @nhit.setter
    def nhit(self, value: int) -> None:
        self._nhit = value
        self.judge()

    def describe(self, number: int, size: int, prog: int, flags: int) -> None:
        """Set type, size and fetch program of the records; no file wants them yet."""
        words, base = self.words, self.base
        words[base + _TYPE], words[base + _SIZE] = number, size
        words[base + _FLAGS], words[base + _PROG] = flags, prog
        words[base + _NHIT] &= ~abi.EVENT_SIMPLE

    def record(self, files: int, filter_prog: int, flags: int) -> None:
        """Set which files want the records, and by which filter."""
        words, base = self.words, self.base
        words[base + _FILES], words[base + _FILTER] = files, filter_prog
        words[base + _FLAGS] = flags
        self.judge()

    def judge(self) -> None:
        """Set EVENT_SIMPLE, by which lite.S may write the records, or clear it."""
        flags = self.flags
        size = 24 if flags & abi.EVENT_RETURN else 16
        simple = flags & abi.EVENT_RECORD and self.size == size
        if simple and not (self.prog | self.filter | self.files):
            self._nhit |= abi.EVENT_SIMPLE
        else:
            self._nhit &= ~abi.EVENT_SIMPLE


class KpTrigger(RuntimeRecord, abi.KpTrigger):
    __slots__ = ()


class KpFile(RuntimeRecord, abi.KpFile):
    __slots__ = ()


class KpArray(RuntimeRecord, abi.KpArray):
    __slots__ = ()

    def set_ring(self, cpu: int, ring: int) -> None:
        self.words[self.base + abi.KpArray.ring // 8 + cpu] = ring


class KpRing(RuntimeRecord, abi.KpRing):
    __slots__ = ()


class KpRethook(RuntimeRecord, abi.KpRethook):
    __slots__ = ()


class KpCpu(RuntimeRecord, abi.KpCpu):
    __slots__ = ()
    mail0, mail1, mail2 = (_word(abi.KpCpu.mail + 8 * n) for n in range(3))
