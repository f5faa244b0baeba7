# SPDX-License-Identifier: GPL-2.0-or-later
"""The layouts of the kernel structures that are read from memory."""

from __future__ import annotations

import contextlib
import errno
import json
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import ClassVar, NamedTuple

from kpfs.base.errors import KernelError, SetupError
from kpfs.linux.memory.btf import NOWHERE, StructLayout, read_btf
from kpfs.linux.memory.memory import MAX_BYTES, KernelMemory, OneLook
from kpfs.linux.memory.symbols import CoreSymbols

FIELDS: dict[str, tuple[str, ...]] = {
    "module": (
        *("state", "list", "name", "kallsyms"),
        *("jump_entries", "num_jump_entries", "static_call_sites"),
        *("num_static_call_sites", "extable", "num_exentries"),
        *("bug_table", "num_bugs", "mem", "mem.base", "mem.size"),
        *("core_layout.base", "core_layout.size", "core_layout.text_size"),
        *("sect_attrs", "arch.num_orcs", "arch.orc_unwind_ip", "arch.orc_unwind"),
        *("init_layout.base", "init_layout.size", "init_layout.text_size"),
    ),
    "module_sect_attrs": ("grp.bin_attrs",),
    "bin_attribute": ("attr.name", "private"),
    "module_sect_attr": ("battr.attr.name", "address"),
    "module_memory": (),
    "ftrace_ops": ("next", "flags", "trampoline", "trampoline_size"),
    "dyn_ftrace": (),
    "load_info": ("hdr", "len"),
    "mod_kallsyms": ("symtab", "num_symtab", "strtab", "typetab"),
    "bug_entry": (),
    "pt_regs": ("stackframe",),
    "orc_entry": ("sp_offset", "bp_offset", "sp_reg", "bp_reg", "type", "end"),
    "kprobe": (
        *("hlist", "list", "nmissed", "addr", "pre_handler", "post_handler"),
        *("opcode", "ainsn.insn", "ainsn.boostable", "flags"),
        *("ainsn.api.insn", "ainsn.xol_insn"),  # arm64's
        *("symbol_name", "offset"),
    ),
    "optimized_kprobe": ("kp", "optinsn.copied_insn", "optinsn.insn"),
    "kretprobe": ("kp", "handler", "entry_handler", "maxactive", "nmissed"),
    "kprobe_ctlblk": ("kprobe_status",),
    "trace_kprobe": ("rp.kp", "nhit", "tp.event"),
    "trace_probe_event": ("class.system", "call.name"),
    "trace_array": ("list", "name", "array_buffer.buffer", "err_log"),
    "trace_buffer": ("buffers",),
    "ring_buffer_per_cpu": (
        *("head_page", "reader_page", "commit_page", "write_stamp"),
        *("overrun", "dropped_events"),
    ),
    "buffer_page": ("list", "page", "read"),
    "trace_event_call": ("list", "class", "name", "event.type", "flags", "prog_array"),
    "tracepoint": ("key",),
    "trace_iterator": (
        *("tr", "ts", "array_buffer", "seq.readpos", "seq.seq.readpos"),
        *("seq.seq.buffer", "seq.seq.len", "seq.buffer"),
    ),
    "perf_event": ("rb",),
    "fprobe": ("ops", "nmissed"),
    "bpf_map": ("name",),
    "bpf_prog": ("active", "aux", "type"),
    "bpf_tramp_link": ("link",),
    "bpf_prog_aux": ("name",),
    "bpf_prog_array": ("items",),
    "bpf_link": ("prog",),
    "bpf_kprobe_multi_link": ("link", "fp"),
    "array_buffer": ("buffer",),
    "task_struct": (
        *("tasks", "pid", "flags", "files", "comm", "signal", "thread_node"),
        *("on_cpu", "cpu", "thread_info.cpu", "stack", "fs"),
        *("state", "__state", "mm", "nvcsw", "nivcsw"),
        *("thread.sp", "thread.cpu_context", "thread.ra", "thread.s", "thread.ksp"),
        *("stack_canary", "thread_info.preempt_count"),
    ),
    "signal_struct": ("thread_head",),
    "files_struct": ("fdt",),
    "fdtable": ("fd",),
    "fs_struct": ("pwd.dentry",),
    "file": ("f_op", "private_data", "f_path.dentry"),
    "tty_file_private": ("tty",),
    "tty_struct": ("disc_data", "port"),
    "tty_port": ("buf.head",),
    "tty_buffer": ("next", "commit", "read", "data"),
    "pipe_inode_info": ("head", "tail", "ring_size", "bufs"),
    "pipe_buffer": ("len",),
    "n_tty_data": ("read_head", "read_tail", "read_buf"),
    "dentry": ("d_parent", "d_name.name", "d_sb"),
    "super_block": ("s_magic",),
    "tracing_log_err": ("list", "info.ts", "info.errs", "info.type", "loc"),
    "seq_file": ("private",),
    "pcpu_hot": ("current_task", "preempt_count"),
    "page": ("_refcount", "lru"),
    "kmem_cache": ("object_size", "size", "flags"),
    "kmem_cache_args": ("ctor", "align", "usersize"),
}
MAX_LISTED = 1 << 16  # in one list: a damaged one may have no end
# places in module.mem, which is there since 6.4; flags of events
VALUES = (
    *("MOD_TEXT", "MOD_INIT_TEXT", "MOD_MEM_NUM_TYPES"),
    *("_SLAB_NOLEAKTRACE", "_SLAB_TYPESAFE_BY_RCU"),
    *("TRACE_EVENT_FL_TRACEPOINT", "TRACE_EVENT_FL_CUSTOM", "FTRACE_OPS_FL_SAVE_REGS"),
)

Keep = Callable[[Callable[[], Sequence[bytes]]], Sequence[bytes | memoryview]]


class Tables(NamedTuple):
    """The layouts, constants and places of a kernel's data, as far as known."""

    layouts: dict[str, StructLayout]
    values: dict[str, int]  # constants, by name
    # where data are that kallsyms lacks, and their sizes
    data: dict[str, tuple[int, int]]


def no_tables() -> Tables:
    """Return that nothing is known."""
    return Tables({}, {}, {})


class Structures:
    """The layouts of a kernel's structures, by BTF or as they were found."""

    def __init__(
        self,
        memory: KernelMemory,
        symbols: CoreSymbols,
        keep: Keep = lambda make: make(),
        find: Callable[[], Tables] = no_tables,
    ) -> None:
        """memory: the memory of the image; keep: see KeptFile.get().

        find: finds the layouts of a kernel without BTF; SetupError.
        """
        self._memory, self._symbols, self._keep = memory, symbols, keep
        self._find = find

    @cached_property
    def _found(self) -> Tables:
        try:
            (piece,) = self._keep(self._pieces)
        except SetupError:  # no room to find them: the next process tries again
            return no_tables()
        layouts, values, data = json.loads(bytes(piece))
        rows = {name: StructLayout(*row) for name, row in layouts.items()}
        return Tables(rows, values, {name: (*row,) for name, row in data.items()})

    def _pieces(self) -> Sequence[bytes]:
        """Return the tables as a KeptFile has them."""
        found, btf = no_tables(), read_btf(self._memory, self._symbols)
        if btf is None:
            found = self._find()
        else:
            with contextlib.suppress(ValueError, IndexError):  # damaged
                found = Tables(btf.layouts(FIELDS), btf.values(VALUES), {})
        return [json.dumps(found).encode()]

    def __getitem__(self, name: str) -> StructLayout:
        return self._found.layouts.get(name, NOWHERE)

    @property
    def values(self) -> dict[str, int]:
        """The constants of VALUES that this kernel has."""
        return self._found.values

    def data(self, name: str) -> tuple[int, int]:
        """Return where data are, by kallsyms or as found, and their size; (0, 0)."""
        for symbol in self._symbols.lookup_name(name)[:1]:
            return symbol.addr, symbol.size
        return self._found.data.get(name, (0, 0))


class View:
    """A structure in memory, read when the view was made."""

    def __init__(self, memory: KernelMemory, layout: StructLayout, addr: int) -> None:
        """Raises MemoryFault."""
        self.addr = addr
        self.layout, self.model = layout, memory.model
        self.raw = memory.read(addr, layout.size)

    def number(self, field: str, size: int) -> int:
        """Return an unsigned field, 0 if this kernel's structure lacks it."""
        at = self.layout.at.get(field)
        return 0 if at is None else self.model.number(self.raw[at : at + size])

    def word(self, field: str) -> int:
        """Return a field that is a long."""
        return self.number(field, self.model.long)

    def bit(self, field: str) -> int:
        """Return a field of at most 8 bits."""
        first, count = self.layout.bits.get(field, (0, 8))
        return self.number(field, 1) >> first & (1 << count) - 1

    def place(self, field: str) -> int:
        """Return the address of a field."""
        return self.addr + self.layout.at[field]


class Reader:
    """Reads some structures out of a kernel's memory.

    Context: the machine's lock is held.  Methods raise MemoryFault.
    """

    needs: ClassVar[tuple[str, str]]  # a structure, and a field that it has to have
    most = MAX_BYTES  # bytes to read

    def __init__(
        self, memory: KernelMemory, symbols: CoreSymbols, structures: Structures
    ) -> None:
        """Raises KernelError(EOPNOTSUPP) if `needs` is not known of the kernel."""
        name, field = self.needs
        if not structures[name].has(field):
            raise KernelError(
                errno.EOPNOTSUPP, f"no BTF, and no struct {name} was found"
            )
        self._memory, self._symbols = OneLook(memory, self.most), symbols
        self._structures = structures

    def _view(self, structure: str, addr: int) -> View:
        return View(self._memory, self._structures[structure], addr)

    def _listed(self, structure: str, head: int) -> Iterator[View]:
        """Yield the structures of a list that they are in by their field ``list``."""
        at = self._structures[structure].at["list"]
        for node in self._memory.nodes(head, MAX_LISTED):
            yield self._view(structure, node - at)
