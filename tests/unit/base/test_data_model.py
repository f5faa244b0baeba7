# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers of both byte orders and word sizes, and all readers of memory on each."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from kpfs.backends import raw
from kpfs.base import elf
from kpfs.base.data_model import BIG_64, LITTLE_32, LITTLE_64
from kpfs.base.ktypes import KAddr, Symbol
from kpfs.linux.memory import dmesg, kprobes
from kpfs.linux.memory.btf import MAGIC, StructLayout, read_btf
from kpfs.linux.memory.calls import call_numbers
from kpfs.linux.memory.ftrace import ftrace_sites
from kpfs.linux.memory.memory import KernelMemory
from kpfs.linux.memory.modules import loaded_modules
from kpfs.linux.memory.structures import View
from kpfs.linux.memory.vmlinux import Vmlinux
from kpfs.linux.running import syscalls
from kpfs.linux.running.heads import Heads
from kpfs.linux.running.machine import Batch, Op

BASE = 0x1000


class Packed(KernelMemory):
    """Memory from BASE on, in which structures are put one after the other."""

    def __init__(self, model):
        self.model, self.bytes = model, bytearray(0x8000)
        self.end = BASE
        self.names: dict[str, Symbol] = {}

    def put(self, form, *values, at=0, name=""):
        """Pack values at an address, or behind the last ones; return the address."""
        packed = self.model.struct(form)
        at = at or self.end
        packed.pack_into(self.bytes, at - BASE, *values)
        self.end = max(self.end, at + packed.size + 7 & -8)
        if name:
            self.names[name] = Symbol(name, KAddr(at), packed.size, "D")
        return at

    def _piece(self, addr, size):
        return bytes(self.bytes[addr - BASE : addr - BASE + size])

    # ---- symbols
    def address(self, name):
        found = self.names.get(name)
        return found.addr if found else 0

    def lookup_name(self, name):
        return [self.names[name]] if name in self.names else []

    def beginning_with(self, prefix):
        return [(0x5000 + 16 * n, prefix + name) for n, name in enumerate("abc")]

    def rows(self):
        return [(row.addr, row.type, row.name) for row in self.names.values()]


MODELS = [LITTLE_64, BIG_64, LITTLE_32]


@pytest.fixture(params=MODELS, ids=lambda model: f"{model.order} {model.long}")
def memory(request):
    return Packed(request.param)


def test_words_and_structures(memory):
    long = 1 << 8 * memory.model.long - 24
    at = memory.put("iHLq", -2, 7, long, -1)
    assert memory.word(at + 6) == long
    view = View(memory, StructLayout(22, {"a": 0, "b": 4, "c": 6}, {}), at)
    assert [view.number("a", 4), view.number("b", 2), view.word("c")] == [
        0xFFFF_FFFE, 7, long,
    ]  # fmt: skip


def test_lists(memory):
    first, second, head = BASE, BASE + 16, BASE + 32
    for at, after, before in ((first, second, head), (second, head, first)):
        memory.put("LL", after, before, at=at)
    memory.put("LL", first, second, at=head, name="some_list")
    assert [*memory.nodes(head, 9)] == [first, second]


def test_types(memory):
    names = b"\0task\0pid\0int\0"
    words = [10, 1 << 24, 4, 0, 1, 4 << 24 | 1, 8, 6, 1, 32]
    memory.put("HBBIIIII", MAGIC, 1, 0, 24, 0, 4 * len(words), 4 * len(words),
               len(names), name="__start_BTF")  # fmt: skip
    end = memory.put(f"{len(words)}I", *words, at=BASE + 24) + 4 * len(words)
    memory.put(f"{len(names)}s", names, at=end)
    memory.put("B", 0, at=end + len(names), name="__stop_BTF")
    found: Any = read_btf(memory, memory)
    assert found.layouts({"task": ["pid"]})["task"] == (8, {"pid": 4}, {})


def test_ftrace_probes_and_calls(memory):
    records = memory.put("4L", 0x100, 0, 0x200, 0)
    page = memory.put("LLii", 0, records, 2, 0)
    memory.put("L", page, name="ftrace_pages_start")
    assert [*ftrace_sites(memory, memory, 0)] == [0x100, 0x200]
    row = 3 * memory.model.long
    longer = memory.put("6L", 0x100, 0, 7, 0x200, 0, 7)
    memory.put("LLii", 0, longer, 2, 0, at=page)
    assert [*ftrace_sites(memory, memory, 0)] == [0x100, 0x200]
    assert [*ftrace_sites(memory, memory, row)] == [0x100, 0x200]
    head = memory.put("LL", 0, 0, name="kprobe_blacklist")
    node = memory.put("4L", head, head, 0x300, 0x310)
    memory.put("LL", node, node, at=head)
    found = kprobes.function_ranges(memory, memory, "kprobe_blacklist")
    assert [*found] == [(0x300, 0x310)]
    table = memory.put("3L", 0x5000, 0x5020, 0x5010), 3 * memory.model.long
    assert call_numbers(memory, memory, table, "sys_") == {"a": 0, "c": 1, "b": 2}


def test_the_log(memory):
    long = memory.model.long
    fields = {
        "printk_ringbuffer.desc_ring": 0,
        "printk_ringbuffer.text_data_ring": 8 + 4 * long,
        "prb_desc_ring.count_bits": 0, "prb_desc_ring.descs": 8,
        "prb_desc_ring.infos": 8 + long, "prb_desc_ring.head_id": 8 + 2 * long,
        "prb_desc_ring.tail_id": 8 + 3 * long, "prb_data_ring.size_bits": 0,
        "prb_data_ring.data": 8, "prb_desc.state_var": 0,
        "prb_desc.text_blk_lpos": long, "prb_data_blk_lpos.begin": 0,
        "prb_data_blk_lpos.next": long, "printk_info.seq": 0, "printk_info.ts_nsec": 8,
        "printk_info.text_len": 16,
    }  # fmt: skip
    text = "".join(f"OFFSET({name})={at}\n" for name, at in fields.items())
    text += f"SIZE(prb_desc)={3 * long}\nSIZE(printk_info)=24\n"
    at = memory.put("1024s", text.encode())
    memory.put("L", at, name="vmcoreinfo_data")
    memory.end += 4096
    number = 1 << 4 * long
    desc = memory.put("3L", 1 << 8 * long - 2 | number, 0, 16)
    info = memory.put("QQHBB4x", 9, 5_000_000_000, 5, 1, 6 << 5)
    data = memory.put("L5s", number, b"hello")
    ring = memory.put("I4x4LI4xL", 4, desc, info, number, number, 4, data)
    memory.put("L", ring, name="prb")
    (line,) = dmesg.read_log(memory, memory)
    assert line.kmsg() == "14,9,5000000,-;hello\n"
    assert dmesg.read_log(memory, memory, 9) == [line]
    assert dmesg.read_log(memory, memory, 10) == []


def test_modules(memory):
    texts = memory.put("16s", b"\0init_it\0")
    row, long = elf.pack_symbol(memory.model, 1, 0, 1, 0x7010, 8), memory.model.long
    rows = memory.put(f"{len(row)}s", row)
    kept = memory.put("LI4xLL", rows, 1, texts, memory.put("1s", b"T"))
    head = memory.put("LL", 0, 0, name="modules")
    module = memory.put("I4xLL8sLLI4xLI", 0, head, head, b"brd", kept, 0x7000, 64, 0, 0)
    memory.put("LL", module + 8, module + 8, at=head)
    name = 8 + 2 * long
    mem = name + 8 + long
    layouts = {
        "module": StructLayout(mem + 2 * (long + 8), {
            "state": 0, "list": 8, "name": name, "kallsyms": name + 8, "mem": mem,
            "mem.base": mem, "mem.size": mem + long,
        }, {}),
        "mod_kallsyms": StructLayout(
            3 * long + 8,
            {"symtab": 0, "num_symtab": long, "strtab": long + 8,
             "typetab": 2 * long + 8}, {},
        ),
        "module_memory": StructLayout(long + 8, {}, {}),
    }  # fmt: skip

    structures: Any = MagicMock(values={"MOD_TEXT": 0, "MOD_INIT_TEXT": 1})
    structures.values["MOD_MEM_NUM_TYPES"] = 2
    structures.__getitem__.side_effect = layouts.__getitem__
    structures.data.side_effect = lambda name: [memory.address(name)]
    (found,) = loaded_modules(memory, memory, structures)
    assert (found.name, found.text) == ("brd", (0x7000, 0x7040))
    assert found.lookup_name("init_it")[0].addr == 0x7010


def test_files(memory):
    """An ELF file that is made of memory is read as such a machine has it."""
    memory.put("16s", b"text", at=BASE, name="_stext")
    memory.put("B", 0, at=BASE + 16, name="_etext")

    class Plain(Vmlinux):
        def _frames(self):
            return b""

    machine = elf.EM_S390 if memory.model.long == 8 else elf.EM_ARM
    made: Any = Plain(memory, memory, Mock(), machine)
    found: Any = elf.ElfFile(made.content(), machine)
    assert found.model == memory.model
    assert found.contents(found.section(".text"))[:4] == b"text"
    assert found.addresses()["_stext"] == BASE


def test_records_of_a_trace(memory):
    """The first bits of a structure are the low ones, or the high ones."""

    def word(kind, delta):
        big = memory.model is BIG_64
        return kind << 27 | delta if big else kind | delta << 5

    data = memory.model.struct("HBBi").pack(1500, 0, 0, 77)
    at = memory.put("qL", 100, 24)
    memory.put("III8sI", word(30, 5), 1, word(2, 2), data, word(29, 0),
               at=at + 8 + memory.model.long)  # fmt: skip
    page = memory.read(at, 4096)
    (found,) = raw.page_entries(page, memory.model)
    assert found == (100 + 5 + (1 << 27) + 2, data)
    (record,) = raw.records([(1, 0, data)], {}, {}, memory.model)
    assert (record.pid, record.event) == (77, "1500")


def test_requests_of_the_agent(memory):
    batch = Batch([Op(64, (1, b"x", 1 << 40))], model=memory.model)
    number, *args = memory.model.struct("7Q").unpack_from(batch.ops)
    assert (number, args[0], args[2]) == (64, 1, 1 << 40)


def test_what_system_calls_return(memory):
    raw_entry = memory.model.struct("QqHB5s").pack(7, 0, 24, 8, b"file\0")
    assert [*syscalls.read_dirents(raw_entry, memory.model)] == [("file", 0o100000)]
    statx = bytearray(256)
    memory.model.struct("IIQIIIH").pack_into(statx, 0, 0, 512, 0, 3, 0, 0, 0o644)
    memory.model.struct("qI").pack_into(statx, 64, 5, 6)
    found = syscalls.read_statx(bytes(statx), memory.model)
    assert (found.mode, found.nlink, found.atime) == (0o644, 3, 5_000_000_006)


def test_heads(memory):
    at = memory.put("LL", BASE, BASE, name="empty")
    board: Any = SimpleNamespace(ram=memory.bytes, translate=lambda at: at - BASE)
    places: Any = SimpleNamespace(data=lambda name: (memory.address(name), 16))
    heads = Heads(board, memory, places, ["empty"])
    assert heads.unchanged()
    memory.put("L", 0, at=at)
    assert not heads.unchanged()


def test_a_long_is_as_the_architecture_has_it():
    assert LITTLE_64.struct("iL").pack(-1, 2) == b"\xff" * 4 + b"\2" + bytes(7)
    assert BIG_64.struct("lH").pack(-2, 3) == b"\xff" * 7 + b"\xfe\0\3"
    assert LITTLE_32.struct("Ll").size == 8
    assert BIG_64.struct("Q") is BIG_64.struct("Q")


@pytest.mark.parametrize("model", MODELS)
def test_numbers(model):
    assert model.number(model.raw(-2, 4)) == 0xFFFF_FFFE
    assert model.number(model.raw(-2, 4), signed=True) == -2
    packed = model.struct("3I").pack(1, 2, 1 << 31)
    assert [*model.array("I", packed)] == [1, 2, 1 << 31]
