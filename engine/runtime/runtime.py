# SPDX-License-Identifier: GPL-2.0-or-later
"""The records of engine/runtime in guest memory: made, read and written from here.

engine/runtime/runtime.h says what each word means.  A record is a Python object over
the guest's own bytes: reading an attribute reads the guest's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, ClassVar, TypeVar

from kpfs.engine.ktypes import KAddr
from kpfs.engine.machine import Machine
from kpfs.engine.runtime.heap import Heap

# hypercalls
HC_PY_HANDLER = 0x20
HC_PY_POST = 0x21
HC_PY_ENTRY = 0x22
HC_PY_RETURN = 0x23
HC_ORPHAN = 0x24
HC_PY_BREAK = 0x25
HC_TRIGGER = 0x31
HC_STACK = 0x32
HC_FN_PROBE = 0x33

SITE_SINGLESTEP, SITE_POST, SITE_AGGR = 1, 2, 4
HANDLER_DISABLED = 1
EVENT_RECORD = 1
EVENT_RETURN = 2
EVENT_SYSCALL = 4
EVENT_SIMPLE = 1 << 63
TRIGGER_POST = 1
FILE_RECORD, FILE_TRIGGER_COND = 1, 2
ARRAY_STACKTRACE, ARRAY_FUNC_STACKTRACE = 1, 2
KP_STACK_MAX = 128
RETHOOK_DISABLED = 1

# status of a CPU.  Kernel: KPROBE_HIT_ACTIVE ...
IDLE, HIT_ACTIVE, HIT_SS, REENTER, HIT_SSDONE = 0, 1, 2, 4, 8

NR_CMDLINES = 8192  # at first; a power of two
CMDLINE = Struct("<Q16s")
# struct kp_rethook_node: next, rethook, ret_addr, frame, task, func, rp; then its data
NODE = Struct("<7Q")

CONFIG = Struct("<8I3QI4x")  # struct kp_config
CONFIG_CLOCK = 32  # offset of its field clock
FIXUP = Struct("<iI")  # an entry of kp_fixups
FIXUP_MARK = 0x6B70_0000
EXTABLE = Struct("<ii")  # an entry of kp_extable: distances to both addresses


def _word(n: int, doc: str = "") -> Any:
    def get(record: Record) -> int:
        value: int = record.words[record.base + n]
        return value

    def put(record: Record, value: int) -> None:
        record.words[record.base + n] = value

    return property(get, put, doc=doc)


class Record:
    """A struct of 64-bit words in guest memory.

    Context: either.
    """

    __slots__ = ("addr", "base", "words")
    SIZE: ClassVar[int]  # bytes

    def __init__(self, addr: KAddr, words: memoryview, base: int) -> None:
        """words: 64-bit words of the block it lies in; base: index of its first."""
        self.addr = addr
        self.words = words
        self.base = base

    def clear(self) -> None:
        for i in range(self.base, self.base + self.SIZE // 8):
            self.words[i] = 0


class KpSite(Record):
    """struct kp_site"""

    __slots__ = ()
    SIZE = 64
    probe_addr = _word(0)
    cont = _word(1, "where execution goes on after the handlers")
    flags = _word(2)
    first = _word(3, "the newest kp_handler")
    hits = _word(4, "entered in guest code, missed ones too")
    id = _word(6)


class KpHandler(Record):
    """struct kp_handler"""

    __slots__ = ()
    SIZE = 128
    next = _word(0)
    fn = _word(1)
    flags = _word(2)
    nmissed = _word(3)
    data = _word(5)
    kp = _word(6)
    id = _word(7)
    post_fn = _word(8)
    arg = _word(9, "what fn is called with: a module's struct kprobe, or this")
    user = _word(10, "the same for the other handlers")
    break_fn = _word(11)
    fault_fn = _word(13)


def _condition(n: int, doc: str = "") -> Any:
    """A word of a kp_event by which its records are simple or not."""
    word = _word(n)

    def put(record: KpEvent, value: int) -> None:
        word.fset(record, value)
        record.judge()

    return property(word.fget, put, doc=doc)


class KpEvent(Record):
    """struct kp_event"""

    __slots__ = ()
    SIZE = 64
    flags = _condition(0)
    type = _word(1)
    _nhit = _word(2)
    size = _condition(3)
    prog = _condition(4)
    filter = _condition(5)
    files = _condition(6, "kp_file, where flags and filter do not say all")

    @property
    def nhit(self) -> int:
        count: int = self._nhit & ~EVENT_SIMPLE
        return count

    @nhit.setter
    def nhit(self, value: int) -> None:
        self._nhit = value
        self.judge()

    def judge(self) -> None:
        """Say whether lite.S may write the records."""
        flags = self.flags
        size = 24 if flags & EVENT_RETURN else 16
        simple = flags & EVENT_RECORD and self.size == size
        if simple and not (self.prog | self.filter | self.files):
            self._nhit |= EVENT_SIMPLE
        else:
            self._nhit &= ~EVENT_SIMPLE


class KpTrigger(Record):
    """struct kp_trigger"""

    __slots__ = ()
    SIZE = 64
    next = _word(0)
    filter = _word(1)
    flags = _word(2)
    id = _word(3)


class KpFile(Record):
    """struct kp_file"""

    __slots__ = ()
    SIZE = 64
    next = _word(0)
    flags = _word(1)
    array = _word(2)
    filter = _word(3)
    triggers = _word(4)
    event = _word(5, "struct synth_event, 0: none")
    begin = _word(6)
    commit = _word(7)


class KpArray(Record):
    """struct kp_array; rings: words 0 to 7."""

    __slots__ = ()
    SIZE = 256
    flags = _word(8)
    pids = _word(9)
    no_pids = _word(10)
    fn_next = _word(11)
    fn_hash = _word(12)
    fn_pids = _word(13)
    fn_no_pids = _word(14)
    fn_probes = _word(15)
    fn_probe_next = _word(16)

    def set_ring(self, cpu: int, ring: int) -> None:
        self.words[self.base + cpu] = ring


class KpRethook(Record):
    """struct kp_rethook"""

    __slots__ = ()
    SIZE = 128
    free = _word(0)
    entry_fn = _word(1)
    ret_fn = _word(2)
    nmissed = _word(3)
    data = _word(4)
    flags = _word(5)
    kp = _word(6)
    id = _word(7)
    event = _word(8, "kp_event that a return is for and no one else; else kp_no_event")
    site = _word(9)
    long_way = _word(12, "an entry is not simple")
    maxactive = _word(13)


class KpCpu(Record):
    """struct kp_cpu"""

    __slots__ = ()
    SIZE = 256
    RING = 72  # offset of the word ring
    current_kprobe = _word(0)
    status = _word(1)
    prev_kprobe = _word(2)
    prev_status = _word(3)
    mail0 = _word(4)
    mail1 = _word(5)
    mail2 = _word(6)
    mail_ret = _word(8)
    ring = _word(9)
    orphan_returns = _word(10)
    instance = _word(11, "kp_handler whose handler is running")
    jprobe = _word(13, "kp_jprobe")
    declined = _word(14, "address whose trap no handler wanted")
    in_fault = _word(15, "a fault_handler is running")
    stack = _word(16, "room for the addresses of a stack trace")


CPU_WORDS = KpCpu.SIZE // 8
CURRENT, STATUS, PREV_CURRENT, PREV_STATUS, MAIL0, MAIL1, MAIL2 = range(7)
MAIL3, MAIL_RET, INSTANCE = 7, 8, 11
JPROBE, DECLINED, IN_FAULT = 13, 14, 15
# struct kp_jprobe: offset of size, its length
JPROBE_SIZE_AT, JPROBE_LENGTH = 168, 240

_R = TypeVar("_R", bound=Record)


class Runtime:
    """The engine's guest code and its memory.

    Context: control, but where it says otherwise.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.symbols = machine.runtime_image.symbols()
        self.heap = Heap(machine)
        self._dying: list[tuple[KpRethook, KAddr, int]] = []
        self._garbage: list[Callable[[], None]] = []
        self._collecting = False
        # free records of each kind
        self._pools: dict[type[Record], list[Record]] = {}

        size = KpCpu.SIZE * machine.nr_cpus
        cpus = self.heap.alloc(size)
        words, base = self.heap.words(cpus)
        self.cpu_words = words[base : base + size // 8]  # all struct kp_cpu
        self.cpus = [
            KpCpu(KAddr(cpus + i * KpCpu.SIZE), self.cpu_words, i * CPU_WORDS)
            for i in range(machine.nr_cpus)
        ]
        nowhere = self.heap.alloc(4096)  # a ring that is off and has one page
        self.heap.words(nowhere)[0][self.heap.words(nowhere)[1]] = nowhere
        for cpu in self.cpus:
            cpu.ring = nowhere
        self._cpus_at = cpus
        self.nr_cmdlines = 0
        self._cmdlines_at = KAddr(0)
        self.config_changed: Callable[[], None] = lambda: None
        self._alloc_cmdlines(NR_CMDLINES)
        # instruction of ours that may fault -> where to go on then
        self.extable = dict(self._read_extable())

    def _alloc_cmdlines(self, count: int) -> None:
        """Make a table for names of tasks, and tell guest code all it must know."""
        size = CMDLINE.size * count
        self.nr_cmdlines = count
        self._cmdlines_at = self.heap.alloc(size)
        self._cmdlines = self.heap.view(self._cmdlines_at, size)
        config = CONFIG.pack(
            *self.machine.runtime_image.config,
            *(self._cpus_at, self._cmdlines_at, count - 1),
        )
        self.machine.write(self.symbols["kp_config"], config)
        self._apply_fixups(config)

    def resize_cmdlines(self, count: int) -> None:
        """Have places for that many names or some more; known ones are forgotten.

        Kernel: tracing_resize_saved_cmdlines()
        """
        old, size = self._cmdlines_at, CMDLINE.size * self.nr_cmdlines
        self._alloc_cmdlines(1 << (count - 1).bit_length())
        self.config_changed()
        self.heap.free(old, size)

    def _apply_fixups(self, config: bytes) -> None:
        """Write struct kp_config into the instructions that use it: KP_FIXUP()."""
        at = self.symbols.get("kp_fixups")
        while at is not None:
            distance, field = FIXUP.unpack(self.machine.read(at, FIXUP.size))
            offset = field & 0xFFFF
            if field - offset != FIXUP_MARK:
                break
            # operands: the address of the clock word has 8 bytes, all others 4
            size = 8 if offset == CONFIG_CLOCK else 4
            self.machine.text_writer.poke_text(
                at + distance, config[offset : offset + size]
            )
            at = KAddr(at + FIXUP.size)
        self.machine.text_writer.drop_all()

    def _read_extable(self) -> Iterator[tuple[int, int]]:
        """kp_extable of engine/runtime/nofault.S."""
        at = self.symbols["kp_extable"]
        while True:
            insn, fixup = EXTABLE.unpack(self.machine.read(at, EXTABLE.size))
            if not insn:
                return
            yield at + insn, at + 4 + fixup
            at = KAddr(at + EXTABLE.size)

    # ---- records
    def make(self, kind: type[_R]) -> _R:
        """A zeroed record."""
        pool = self._pools.get(kind)
        if pool:
            old = pool.pop()
            assert isinstance(old, kind)
            old.clear()
            return old
        addr = self.heap.alloc(kind.SIZE)
        return kind(addr, *self.heap.words(addr))

    def free(self, record: Record) -> None:
        """Nothing in the guest may refer to it any more: see after_quiescence()."""
        self._pools.setdefault(type(record), []).append(record)

    def after_quiescence(self, func: Callable[[], None]) -> None:
        """Call func when no CPU can still use what has been unlinked before.

        Kernel: call_rcu_tasks()
        """
        self._garbage.append(func)
        if not self._collecting:
            self._collect()

    def _collect(self) -> None:
        batch, self._garbage = self._garbage, []
        self._collecting = True

        def done() -> None:
            for func in batch:
                func()
            self._collecting = False
            if self._garbage:
                self._collect()

        self.machine.sched.call_after_quiescence(done)

    # ---- return probes
    def make_rethook(self, maxactive: int, data_size: int) -> tuple[KpRethook, KAddr]:
        """A return probe with its nodes on the free list, and the block of them."""
        self._reap()
        rh = self.make(KpRethook)
        size = node_size(data_size)
        nodes = self.heap.alloc(size * maxactive)
        words, base = self.heap.words(nodes)
        for i in range(maxactive):
            last = i == maxactive - 1
            words[base + i * size // 8] = 0 if last else nodes + (i + 1) * size
            words[base + i * size // 8 + 1] = rh.addr
        rh.free = nodes
        rh.maxactive = maxactive
        rh.event = self.symbols["kp_no_event"]
        return rh, nodes

    def free_rethook(self, rh: KpRethook, nodes: KAddr, size: int) -> None:
        """Its memory is used again when no node is in use; size: of all nodes."""
        rh.flags |= RETHOOK_DISABLED
        rh.long_way = 1
        rh.event = self.symbols["kp_no_event"]
        self._dying.append((rh, nodes, size))
        self.after_quiescence(self._reap)

    def _reap(self) -> None:
        for entry in [e for e in self._dying if not self.inuse(e[0])]:
            self._dying.remove(entry)
            rh, nodes, size = entry
            self.heap.free(nodes, size)
            self.free(rh)

    def inuse(self, rh: KpRethook) -> int:
        """Its nodes that are not on the free list."""
        count, node = int(rh.maxactive), int(rh.free)
        while node:
            count -= 1
            node = self.machine.read_u64(node)
        return count

    def flush_task(self, task: KAddr) -> None:
        """Take back the nodes of a task that is gone.

        Context: either.  Kernel: kprobe_flush_task()
        """
        head = KAddr(task + self.machine.runtime_image.config.task_rethooks)
        m = self.machine
        node = m.read_u64(head)
        m.write_u64(head, 0)
        while node:
            following = m.read_u64(node)
            rh = m.read_u64(node + 8)
            m.write_u64(node, m.read_u64(rh))
            m.write_u64(rh, node)
            node = following

    # ---- what handlers leave behind
    def comm_of(self, pid: int) -> str | None:
        """Name of the task at its last record, None if another took its place.

        Kernel: trace_find_cmdline()
        """
        known, comm = CMDLINE.unpack_from(
            self._cmdlines, pid % self.nr_cmdlines * CMDLINE.size
        )
        if known != pid:
            return None
        text: str = comm.split(b"\0", 1)[0].decode("latin-1")
        return text

    def save_cmdline(self, pid: int, comm: str) -> None:
        """Remember the name of a task.  Kernel: tracing_record_cmdline()."""
        name = comm.encode("latin-1")[:15]
        at = pid % self.nr_cmdlines * CMDLINE.size
        CMDLINE.pack_into(self._cmdlines, at, pid, name)

    def cmdlines(self) -> list[tuple[int, str]]:
        """(pid, name) of all that are remembered, by place."""
        return [
            (pid, comm.split(b"\0", 1)[0].decode("latin-1"))
            for pid, comm in CMDLINE.iter_unpack(self._cmdlines)
            if comm[0]
        ]

    def clear_cmdlines(self) -> None:
        self._cmdlines[:] = bytes(len(self._cmdlines))

    def reset_cpu(self, cpu: int) -> None:
        """Forget the probe being handled: the task that ran its handler was killed."""
        c = self.cpus[cpu]
        c.current_kprobe = c.status = c.prev_kprobe = c.prev_status = 0
        c.instance = c.declined = c.in_fault = 0
        if c.jprobe:
            self.machine.write_u64(c.jprobe + JPROBE_SIZE_AT, 0)


def node_size(data_size: int) -> int:
    """Bytes of a node with data_size bytes of data."""
    return NODE.size + (data_size + 7) // 8 * 8
