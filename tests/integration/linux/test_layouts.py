# SPDX-License-Identifier: GPL-2.0-or-later
"""The layouts that are found in a kernel are those that its own BTF has.

Tests kpfs.linux.running.trial,
kpfs.linux.running.probe_layouts, kpfs.linux.running.ring_layouts,
kpfs.linux.running.call_layouts,
kpfs.linux.running.data_layouts and kpfs.linux.running.inserting.
"""

import pytest

from kpfs.linux.memory.kprobes import Kprobes, cpu_offset
from kpfs.linux.memory.modules import ModuleSections
from kpfs.linux.running.layouts import find_layouts
from kpfs.linux.running.loading import load_named
from kpfs.linux.running.saved_kernel import SavedKernel
from kpfs.linux.store import store
from tests import harness

KERNELS = harness.on_each(
    (
        *(harness.KERNEL, harness.TWO_CPUS),
        *(harness.ARM64, harness.S390X, harness.PPC64),
    )
)
# fields that have other names in some kernels
NAMES = {"cpu": "thread_info.cpu", "ainsn.insn": "ainsn.api.insn"}
LARGER = {"task_struct"}  # the kernel allocates fewer bytes than it declares
WITHOUT_JUMPS = {harness.S390X, harness.ARM64, harness.MIPS64, harness.NEW_MIPS64}
STRUCTURES = {
    *("task_struct", "signal_struct", "kprobe", "kretprobe", "trace_kprobe"),
    *("trace_probe_event", "trace_event_call", "trace_array", "trace_buffer"),
    *("ring_buffer_per_cpu", "buffer_page", "load_info", "module", "mod_kallsyms"),
    *("module_sect_attrs", "module_sect_attr"),
}
SINCE_6_4 = "module_memory"
DATA = {
    *("ftrace_enabled", "kprobes_all_disarmed", "kernel_locked_down"),
    "lockdown_reasons",
}
LISTS = {"kprobe_insn_slots", "bpf_kallsyms"}  # s390x has no compiler, and others


def found_in(saved):
    return find_layouts(saved.folder, saved.file, saved.meta, saved.symbols)


@pytest.mark.parametrize("name", KERNELS)
def test_layouts_are_found_as_btf_has_them(name):
    saved = SavedKernel(store.folder(name))
    found = found_in(saved)
    others = set() if name in WITHOUT_JUMPS else {"optimized_kprobe"}
    others |= {SINCE_6_4} if saved.structures[SINCE_6_4].size else set()
    assert found.layouts.keys() == STRUCTURES | others
    for structure, layout in found.layouts.items():
        told = saved.structures[structure]
        for field, at in layout.at.items():
            there = field if told.has(field) else NAMES[field]
            assert (structure, field, at) == (structure, field, told.at[there])
            if field in told.bits and field in layout.bits:
                assert layout.bits[field] == tuple(told.bits[field])
        assert layout.size <= told.size or structure in LARGER
    assert found.data.keys() >= DATA | (LISTS if name != harness.S390X else set())
    for data, (addr, size) in found.data.items():
        (symbol, *_) = saved.symbols.lookup_name(data)
        assert (data, addr) == (data, symbol.addr)
        assert size <= symbol.size
    offsets = Kprobes(saved.memory, saved.symbols, saved.structures).cpu_offsets
    for cpu, offset in enumerate(offsets):
        assert found.values.pop(cpu_offset(cpu)) == offset
    values = saved.structures.values
    assert "TRACE_EVENT_FL_TRACEPOINT" in found.values
    assert found.values == {name: values[name] for name in found.values}


@pytest.mark.parametrize(
    "name",
    harness.on_each((harness.ARMHF, harness.I386, harness.MIPS64, harness.NEW_MIPS64)),
)
def test_kernels_without_btf_show_the_same_each_time(name):
    saved = SavedKernel(store.folder(name))
    found = found_in(saved)
    others = set() if name in WITHOUT_JUMPS else {"optimized_kprobe"}
    others |= {SINCE_6_4} & found.layouts.keys()
    assert found.layouts.keys() == STRUCTURES | others
    cpus = range(len(saved.meta.processors))
    assert found.values.keys() >= set(map(cpu_offset, cpus))
    assert found.data.keys() > DATA | LISTS
    assert found == found_in(saved)


@pytest.mark.parametrize(
    ("name", "module"),
    harness.on_each(
        (
            (harness.ARMHF, "overlay"),
            (harness.I386, "fuse"),
            (harness.MIPS64, "overlay"),
            (harness.NEW_MIPS64, "overlay"),
        )
    ),
)
def test_modules_are_read_without_btf(boot, name, module):
    linux = boot(name)
    with linux.lock:
        load_named(linux, linux.tasks.agent, module)
        (loaded,) = linux.modules()
        start, end = loaded.text
        listed = linux.tasks.read_file("/proc/modules").decode().split()
        assert (loaded.name, start) == (listed[0], int(listed[5], 16))
        functions = [row for row in loaded.rows if row.type in "tT"]
        assert len(functions) > 100
        assert all(loaded.is_text(row.addr) for row in functions if row.addr < end)
        reader = ModuleSections(linux.memory, linux.symbols, linux.structures)
        ((_, sections),) = reader.rows()
        assert start <= sections[".text"] < end
