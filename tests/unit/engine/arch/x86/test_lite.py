# SPDX-License-Identifier: GPL-2.0-or-later
"""Records of kprobe events: both ways of writing them, contexts, full buffers.

This also tests kpfs.engine.runtime.heap.
"""

import struct

import pytest

from kpfs.base import abi
from kpfs.base.abi import EVENT_RECORD
from kpfs.base.ktypes import KAddr
from kpfs.engine.arch.x86.regs import FLAGS, IP, SP
from kpfs.engine.runtime.records import KpEvent
from kpfs.engine.trace.ring.ring_buffer import RingBuffer
from tests.unit.engine.arch.bare import IF, NOP5

pytestmark = pytest.mark.guest

# 5: mov rax,rdi; 8: shl rax,2; 12: push rbp; 13: pop rbp; 14: mov rdi,rdi; 17: ret
F = NOP5 + bytes.fromhex("4889f8 48c1e002 55 5d 4889ff c3")
FTRACE, INT3, STEP, JUMP = 0, 5, 8, 12
WAYS = [FTRACE, INT3, STEP, JUMP]
HEAD = struct.Struct("<HBBiQ")
IRQS_OFF, HARDIRQ = abi.TRACE_FLAG_IRQS_OFF, abi.TRACE_FLAG_HARDIRQ
RESCHED = abi.TRACE_FLAG_NEED_RESCHED | abi.TRACE_FLAG_PREEMPT_RESCHED
SOFTIRQ, NMI = abi.TRACE_FLAG_SOFTIRQ, abi.TRACE_FLAG_NMI
BH_OFF = abi.TRACE_FLAG_BH_OFF


class Events:
    """A box with a kprobe event on F."""

    def __init__(self, b, offset, long_way=False, type_=1500):
        self.b = b
        self.rings = RingBuffer(b.runtime)
        self.ring = self.rings.cpus[0]
        self.event = b.runtime.make(KpEvent)
        self.event.flags, self.event.size = EVENT_RECORD, 16
        self.event.type = type_
        handler = b.runtime.symbols["kp_event_handler"]
        self.probe = b.probe("f", offset, pre_handler=handler, data=self.event.addr)
        if long_way:
            b.probe("f", offset)
        b.machine.run_later()
        assert b.text("f", 13)[offset] == {FTRACE: 0xE8, JUMP: 0xE9}.get(offset, 0xCC)

    def hit(self, flags=IF, count=0, resched=0):
        """Call f with this preempt count."""
        m = self.b.machine
        m.write(m.data + abi.KpfsPcpu.preempt_count, struct.pack("<II", count, resched))
        values = [0] * 21
        values[FLAGS], values[IP], values[SP] = flags | 2, m.addr("f"), m.stack
        m.write_u64(m.stack, abi.TEXT_BASE)
        m.cpu_.write_regs(values)
        m.cpu_.run()
        assert m.read(m.data + abi.KpfsPcpu.preempt_count, 4) == struct.pack(
            "<I", count
        )

    def records(self):
        return [
            (record[0], *HEAD.unpack_from(self.ring.pages, record[-2]))
            for record in self.ring.records()
        ]


@pytest.mark.parametrize("long_way", [False, True])
@pytest.mark.parametrize("offset", WAYS)
def test_record_and_counts(box, offset, long_way):
    e = Events(box({"f": F}), offset, long_way)
    for _ in range(4):
        e.hit()
    context = (NMI | HARDIRQ, 0xFF) if offset in (INT3, STEP) else (0, 0)
    at = e.probe.addr
    step = 100
    assert e.records() == [(step * i, 1500, *context, 42, at) for i in range(1, 5)]
    assert e.event.nhit == 4
    assert e.probe.ainsn.site.hits == 4
    assert e.b.runtime.comm_of(42) == "testing"
    assert e.b.runtime.comm_of(43) is None
    assert e.b.machine.clock.now() == 4 * step


@pytest.mark.parametrize("long_way", [False, True])
@pytest.mark.parametrize(
    ("flags", "count", "resched", "trapped", "called"),
    [
        # as Linux 6.1 shows them: ..Zff, then with one preempt_disable() d.Z.., ...
        (IF, 0, 0, (NMI | HARDIRQ, 0xFF), (0, 0)),
        (0, 0, 0, (NMI | HARDIRQ, 0xFF), (IRQS_OFF, 0)),
        (IF, 1, 0, (NMI | HARDIRQ | IRQS_OFF, 0), (0, 1)),
        (0, 2, 0, (NMI | HARDIRQ | IRQS_OFF, 1), (IRQS_OFF, 2)),
        (IF, 0, 1, (NMI | HARDIRQ | RESCHED, 0xFF), (RESCHED, 0)),
        (IF, 0x100, 0, (NMI | HARDIRQ | SOFTIRQ, 0xFF), (SOFTIRQ, 0)),
        (IF, 0x200, 0, (NMI | HARDIRQ | BH_OFF, 0xFF), (BH_OFF, 0)),
        (0, 0x10000, 0, (NMI | HARDIRQ, 0xFF), (IRQS_OFF | HARDIRQ, 0)),
        (IF, 20, 0, (NMI | HARDIRQ | IRQS_OFF, 14), (0, 14)),
    ],
)
@pytest.mark.parametrize("offset", WAYS)
def test_contexts(box, offset, long_way, flags, count, resched, trapped, called):
    e = Events(box({"f": F}), offset, long_way)
    e.hit()
    e.hit(flags, count, resched)
    expected = trapped if offset in (INT3, STEP) else called
    assert e.records()[1][2:4] == expected


@pytest.mark.parametrize("offset", [FTRACE, INT3])
def test_not_wanted(box, offset):
    e = Events(box({"f": F}), offset)
    e.hit()
    e.event.flags = 0
    e.hit()
    e.event.flags = EVENT_RECORD
    e.rings.on = False
    e.hit()
    e.rings.on = True
    e.hit()
    assert [ts for ts, *_ in e.records()] == [100, 200]
    assert e.event.nhit == 4
    assert e.probe.ainsn.site.hits == 4


def test_oldest_page_is_overwritten(box):
    e = Events(box({"f": F}), FTRACE)
    per_page = 4080 // 20
    for _ in range(2 * per_page + 3):
        e.hit()
    times = [ts for ts, *_ in e.records()]
    assert e.ring.nr_pages == 2
    assert times[0] == 100 * (per_page + 1)
    assert times[-1] == 100 * (2 * per_page + 3)
    assert len(times) == e.ring.entries == per_page + 3
    assert e.ring.overrun == per_page
    assert e.ring.stats().bytes == 20 * (per_page + 3)


def test_newest_is_dropped_without_overwrite(box):
    e = Events(box({"f": F}), FTRACE)
    e.ring.overwrite = False
    per_page = 4080 // 20
    for _ in range(2 * per_page + 3):
        e.hit()
    times = [ts for ts, *_ in e.records()]
    assert times == [100 * i for i in range(1, 2 * per_page + 1)]
    assert e.ring.stats().dropped == 3
    assert e.event.nhit == 2 * per_page + 3


def test_long_gap_takes_a_time_extend(box):
    e = Events(box({"f": F}), FTRACE)
    e.hit()
    later = 5_000_000_000
    e.b.machine.write_u64(e.b.machine.time_at, later)
    e.hit()
    e.hit()
    assert [ts for ts, *_ in e.records()] == [100, later + 100, later + 200]
    assert e.ring.stats().bytes == 20 + 28 + 20


def test_without_a_ring_hits_are_counted(box):
    b = box({"f": F})
    event = b.runtime.make(KpEvent)
    event.flags, event.size = EVENT_RECORD, 16
    handler = b.runtime.symbols["kp_event_handler"]
    b.probe("f", FTRACE, pre_handler=handler, data=event.addr)
    b.call("f", 1)
    assert event.nhit == 1


def test_missed_in_a_handler(box):
    b = box({"f": F})
    e = Events(b, FTRACE)
    b.runtime.cpus[0].current_kprobe = 1
    e.hit()
    b.runtime.cpus[0].current_kprobe = 0
    e.hit()
    assert e.event.nhit == 1
    assert b.arch.nmissed(e.probe) == 1


def test_disabled_event_of_two(box):
    b = box({"f": F})
    e = Events(b, FTRACE)
    from kpfs.engine.register import disable_kprobe

    other = b.runtime.make(KpEvent)
    other.flags, other.size, other.type = EVENT_RECORD, 16, 7
    handler = b.runtime.symbols["kp_event_handler"]
    p = b.probe("f", FTRACE, pre_handler=handler, data=other.addr)
    e.hit()
    disable_kprobe(b.state, p)
    e.hit()
    assert [row[1] for row in e.records()] == [7, 1500, 1500]


@pytest.mark.parametrize("offset", WAYS)
def test_names_go_into_a_table_of_another_size(box, offset):
    e = Events(box({"f": F}), offset)
    e.hit()
    e.hit()
    e.b.runtime.resize_cmdlines(16)
    assert e.b.runtime.comm_of(42) is None
    e.hit()
    assert e.b.runtime.comm_of(42) == "testing"
    assert e.ring.entries == 3


@pytest.mark.parametrize("offset", WAYS)
def test_records_by_the_short_way_are_counted_at_once(box, offset):
    e = Events(box({"f": F}), offset)
    for number in range(1, 5):
        e.hit()
        e.hit()
        assert e.ring.entries == len(e.records()) == 2 * number
        assert e.ring.stats().bytes == 40 * number
    assert e.b.arch.handlers[e.probe.handler].nmissed == 0


@pytest.mark.parametrize("offset", WAYS)
def test_an_event_whose_wants_change_between_hits(box, offset):
    e = Events(box({"f": F}), offset)
    prog = e.b.runtime.heap.alloc(64)  # that of no argument
    for number in range(6):
        e.event.prog = prog if number % 2 else 0
        e.hit()
    assert e.event.nhit == e.ring.entries == 6


WORDS = (
    *("head", "read", "tail", "last_ts", "entries", "overrun", "bytes", "dropped"),
    "full",
)


def contents(ring):
    """Return all that a writer leaves in a ring: words, and pages up to the commit."""
    ring._settle()
    words = {name: getattr(ring._ring, name) for name in WORDS}
    pages = []
    for page in range(ring.nr_pages):
        data = bytes(ring.pages[page * abi.KpPage.SIZE :][: abi.KpPage.SIZE])
        _, commit = abi.KpPage.STRUCT.unpack_from(data)
        end = abi.KpPage.STRUCT.size + commit
        pages.append((ring._page_entries[page], data[:end]))
    return words, pages


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("long_way", [False, True], ids=["lite.S", "record.c"])
def test_python_writes_what_guest_code_writes(box, long_way, overwrite):
    """The ring of CPU 1, which Python fills, gets the records of CPU 0's."""
    e = Events(box({"f": F}), FTRACE, long_way)
    guest, python = e.rings.cpus[:2]
    m, times = e.b.machine, []
    for ring in (guest, python):
        ring.overwrite = overwrite
    for hit in range(1, 700):
        if hit % 100 == 50:  # a time that needs an entry of its own
            m.write_u64(m.time_at, m.now() + (1 << 27) * hit)
        if hit == 300:
            guest._settle()
        e.hit()
        times.append(m.now())
    newest = list(guest.records())[-1]
    data = bytes(guest.pages[newest[2] : newest[3]])
    for time in times:
        m.write_u64(m.time_at, time)
        python.write(data)
    assert contents(python) == contents(guest)
    assert contents(guest)[0]["overrun" if overwrite else "dropped"] > 200


@pytest.mark.parametrize("offset", WAYS)
def test_a_ring_out_of_reach_is_written_the_long_way(box, monkeypatch, offset):
    b = box({"f": F})
    far = b.machine.memory.far
    monkeypatch.setattr(
        b.machine, "alloc_ring", lambda size, *, near: (KAddr(far.alloc(size)), False)
    )
    e = Events(b, offset)
    assert e.ring.addr < abi.MODULE_BASE
    for _ in range(300):
        e.hit()
    assert e.event.nhit == 300
    assert e.ring.entries + e.ring.overrun == 300
    assert len(e.records()) == e.ring.entries
    assert {record[1] for record in e.records()} == {1500}
