# SPDX-License-Identifier: GPL-2.0-or-later
"""The engine's guest code and its memory; makes its records and frees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct

from kpfs.base import abi, mapping
from kpfs.base.ktypes import KAddr
from kpfs.base.typed import TypeVar
from kpfs.engine.machine import Machine
from kpfs.engine.runtime.heap import Heap
from kpfs.engine.runtime.records import CPU_WORDS, KpCpu, KpRethook, RuntimeRecord

NR_CMDLINES = 1 << 15  # at least: as Linux, by the last 15 bits of a pid
CMDLINE = Struct(f"<Q{abi.KpCmdline.SIZE - abi.KpCmdline.comm}s")
FIXUP = Struct("<iI")  # an entry of kp_fixups
EXTABLE = Struct("<ii")  # an entry of kp_extable: distances to both addresses

_ZEROS = memoryview(bytes(4096)).cast("Q")
_R = TypeVar("_R", bound=RuntimeRecord)


class Runtime:
    """The engine's guest code and its memory.

    Context: control, but where it says otherwise.
    """

    def __init__(
        self, machine: Machine, config_changed: Callable[[], None] = lambda: None
    ) -> None:
        """config_changed is called when the guest's struct kp_config has changed."""
        self.machine = machine
        self._config_changed = config_changed
        self.symbols = machine.runtime_image.symbols()
        self.heap = Heap(machine)
        self._dying: list[tuple[KpRethook, KAddr, int]] = []
        # for what has been unlinked, but may be in use.  Kernel: call_rcu_tasks()
        self.after_quiescence = machine.quiescence.call_after
        # free records of each kind
        self._pools: dict[type[RuntimeRecord], list[RuntimeRecord]] = {}

        size = KpCpu.SIZE * machine.nr_cpus
        cpus = self.heap.alloc(size)
        words, base = self.heap.words(cpus)
        # all struct kp_cpu
        self.cpu_words = mapping.known(words[base : base + size // 8])
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
        self._alloc_cmdlines(NR_CMDLINES)
        # instruction of ours that may fault -> where to go on then
        self.extable = dict(self._read_extable())

    def _alloc_cmdlines(self, count: int) -> None:
        """Make a table for names of tasks, and tell guest code all it must know."""
        size = CMDLINE.size * count
        self.nr_cmdlines = count
        self._cmdlines_at = self.heap.alloc(size)
        self._cmdlines = self.heap.view(self._cmdlines_at, size)
        *offsets, clock = self.machine.runtime_image.config
        config = abi.KpConfig.STRUCT.pack(
            *offsets, count - 1, clock, self._cpus_at, self._cmdlines_at
        )
        self.machine.write(self.symbols["kp_config"], config)
        self._apply_fixups(config)

    def resize_cmdlines(self, count: int) -> None:
        """Make room for at least count names; those known so far are forgotten.

        Kernel: tracing_resize_saved_cmdlines()
        """
        old, size = self._cmdlines_at, CMDLINE.size * self.nr_cmdlines
        self._alloc_cmdlines(max(NR_CMDLINES, 1 << (count - 1).bit_length()))
        self._config_changed()
        self.heap.free(old, size)

    def _apply_fixups(self, config: bytes) -> None:
        """Write struct kp_config into the instructions that use it: KP_FIXUP()."""
        at = self.symbols.get("kp_fixups")
        while at is not None:
            distance, field = FIXUP.unpack(self.machine.read(at, FIXUP.size))
            offset = field & 0xFFFF
            if field - offset != abi.KP_FIXUP_MARK:
                break
            # operands: the address of the clock word has 8 bytes, all others 4
            size = 8 if offset == abi.KpConfig.clock else 4
            operand = config[offset : offset + size]
            self.machine.text_writer.poke_text(at + distance, operand)
            at = KAddr(at + FIXUP.size)
        self.machine.text_writer.drop_all()

    def _read_extable(self) -> Iterator[tuple[int, int]]:
        """The pairs of addresses in kp_extable, of engine/runtime/nofault.S."""
        at = self.symbols["kp_extable"]
        while True:
            insn, fixup = EXTABLE.unpack(self.machine.read(at, EXTABLE.size))
            if not insn:
                return
            yield at + insn, at + 4 + fixup
            at = KAddr(at + EXTABLE.size)

    # ---- records
    def make(self, kind: type[_R]) -> _R:
        """Make a record whose words are all 0."""
        pool = self._pools.get(kind)
        if pool:
            old = pool.pop()
            assert isinstance(old, kind)
            words, base = kind.SIZE // 8, old.base
            old.words[base : base + words] = _ZEROS[:words]
            return old
        addr = self.heap.alloc(kind.SIZE)
        return kind(addr, *self.heap.words(addr))

    def free(self, record: RuntimeRecord) -> None:
        """Give a record back; the guest must not use it: see after_quiescence()."""
        self._pools.setdefault(type(record), []).append(record)

    # ---- return probes
    def make_rethook(self, maxactive: int, data_size: int) -> tuple[KpRethook, KAddr]:
        """Make a kp_rethook with free nodes; return it and the block of its nodes."""
        self._reap()
        rh = self.make(KpRethook)
        size = node_size(data_size)
        nodes = self.heap.alloc(size * maxactive)
        words, base = self.heap.words(nodes)
        for i in range(maxactive):
            last = i == maxactive - 1
            words[base + i * size // 8] = 0 if last else nodes + (i + 1) * size
            words[base + (i * size + abi.KpRethookNode.rethook) // 8] = rh.addr
        rh.free = nodes
        rh.maxactive = maxactive
        rh.event = self.symbols["kp_no_event"]
        return rh, nodes

    def free_rethook(self, rh: KpRethook, nodes: KAddr, size: int) -> None:
        """Free it once none of its nodes is in use; size is that of all nodes."""
        rh.flags |= abi.RETHOOK_DISABLED
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
        """Return how many of its nodes are not on the free list."""
        count, node = rh.maxactive, rh.free
        while node:
            count -= 1
            node = self.machine.read_u64(node)
        return count

    # ---- what handlers leave behind
    def comm_of(self, pid: int) -> str | None:
        """Name of the task at its last record, None if another took its place.

        Context: any, even without the lock.  Kernel: trace_find_cmdline()
        """
        known, comm = self.cmdline_at(pid)
        return _text(comm) if known == pid else None

    def cmdline_at(self, pid: int) -> tuple[int, bytes]:
        """Return the pid and the name that stand at the place of a pid.  Context: any.

        comm_of() is made of nothing else.
        """
        table, size = self._cmdlines, CMDLINE.size
        pid_and_name: tuple[int, bytes] = CMDLINE.unpack_from(
            table, pid % (len(table) // size) * size
        )
        return pid_and_name

    def save_cmdline(self, pid: int, comm: str) -> None:
        """Remember the name of a task.  Kernel: tracing_record_cmdline()."""
        name = comm.encode("latin-1")[:15]
        at = pid % self.nr_cmdlines * CMDLINE.size
        CMDLINE.pack_into(self._cmdlines, at, pid, name)

    def cmdlines(self) -> list[tuple[int, str]]:
        """Return (pid, name) of all remembered tasks, by place; not of idle tasks."""
        return [
            (pid, _text(comm))
            for pid, comm in CMDLINE.iter_unpack(self._cmdlines)
            if pid and comm[0]
        ]

    def reset_cpu(self, cpu: int) -> None:
        """Forget the probe being handled: the task that ran its handler was killed."""
        c = self.cpus[cpu]
        c.current_kprobe = c.status = c.prev_kprobe = c.prev_status = 0
        c.instance = c.declined = c.in_fault = 0
        if c.jprobe:
            self.machine.write_u64(c.jprobe + abi.KpJprobe.size, 0)


def _text(comm: bytes) -> str:
    return comm.partition(b"\0")[0].decode("latin-1")


def node_size(data_size: int) -> int:
    """Return the bytes of a node with data_size bytes of data."""
    return abi.KpRethookNode.SIZE + (data_size + 7) // 8 * 8
