# SPDX-License-Identifier: GPL-2.0-or-later
"""Files that are nearly modules, and names: errno and message, and nothing stays.

This also tests kpfs.backends.guest.machine_info, kpfs.guest.loader.modelf and
kpfs.guest.loader.modtables.
"""

import errno
import os
import struct

import pytest

from kpfs.base.errors import KernelError
from tests.modbox import module, refused
from tests.there import code

PLAIN = """
TARGET int plain_function(int x) { return x + 1; }
INIT(return 0;)
EXIT()
"""
SHOFF, SHNUM, SHSTRNDX = 40, 60, 62
NAME, TYPE, FLAGS, ADDR, OFFSET = 0, 4, 8, 16, 24
SIZE, LINK, INFO, ALIGN = 32, 40, 44, 48
NULL, SYMTAB, STRTAB, RELA, NOBITS = 0, 2, 3, 4, 8
THIS_MODULE = ".gnu.linkonce.this_module"


class Elf:
    """The bytes of a module, to be spoilt."""

    def __init__(self, data):
        self.data = bytearray(data)
        (self.shoff,) = struct.unpack_from("<Q", data, SHOFF)
        (self.nr,) = struct.unpack_from("<H", data, SHNUM)
        (self.names,) = struct.unpack_from("<H", data, SHSTRNDX)

    def saved(self, folder):
        path = folder / "spoilt.ko"
        path.write_bytes(bytes(self.data))
        return path

    def header(self, index):
        return self.shoff + 64 * index

    def get(self, index, field):
        fmt = "<I" if field in (NAME, TYPE, LINK, INFO) else "<Q"
        return struct.unpack_from(fmt, self.data, self.header(index) + field)[0]

    def put(self, index, field, value):
        fmt = "<I" if field in (NAME, TYPE, LINK, INFO) else "<Q"
        struct.pack_into(fmt, self.data, self.header(index) + field, value)

    def find(self, name):
        start = self.get(self.names, OFFSET)
        for i in range(self.nr):
            at = start + self.get(i, NAME)
            if self.data[at:].split(b"\0", 1)[0] == name.encode():
                return i
        raise LookupError(name)

    def of_type(self, kind):
        return next(i for i in range(self.nr) if self.get(i, TYPE) == kind)


def section_0(field):
    def spoil(e):
        e.put(0, field, 1)
        return [
            f"ELF Spec violation: section 0 type({int(field == TYPE)})!=SH_NULL "
            "or non-zero len or addr"
        ]

    return spoil


def name_index(value):
    def spoil(e):
        number = value(e.nr)
        struct.pack_into("<H", e.data, SHSTRNDX, number)
        return [
            f"Invalid ELF section name index: {number} || e_shstrndx ({number}) >= "
            f"e_shnum ({e.nr})"
        ]

    return spoil


def names_outside(e):
    e.put(e.names, OFFSET, len(e.data))
    return ["Invalid ELF section hdr(type 3)"]


def no_names(e):
    e.put(e.names, SIZE, 0)
    return ["empty section name table"]


def names_without_end(e):
    e.put(e.names, SIZE, e.get(e.names, SIZE) - 1)
    return ["ELF Spec violation: section name table isn't null terminated"]


def section_outside(e):
    index = e.find(".text")
    e.put(index, OFFSET, len(e.data) - 1)
    return [f"Invalid ELF section in module (section {index} type 1)"]


def name_outside(e):
    index = e.find(".text")
    e.put(index, NAME, e.get(e.names, SIZE))
    return [f"Invalid ELF section name in module (section {index} type 1)"]


def strings_of_symbols(value):
    def spoil(e):
        number = value(e.nr)
        e.put(e.of_type(SYMTAB), LINK, number)
        return [
            f"Invalid ELF sh_link!=SHN_UNDEF({number}) or (sh_link({number}) >= "
            f"hdr->e_shnum({e.nr})"
        ]

    return spoil


def stripped(e):
    e.put(e.of_type(SYMTAB), TYPE, STRTAB)
    return ["spoilt: module has no symbols (stripped?)"]


def other_struct_module(e):
    e.put(e.find(THIS_MODULE), SIZE, 232)
    return []


def no_vermagic(e):
    at = e.data.index(b"vermagic=")
    e.data[at : at + 8] = b"vermagix"
    return []


@pytest.mark.parametrize(
    "spoil",
    [
        *(section_0(TYPE), section_0(ADDR), section_0(SIZE)),
        *(name_index(lambda nr: 0), name_index(lambda nr: nr)),
        *(names_outside, no_names, names_without_end, section_outside, name_outside),
        *(strings_of_symbols(lambda nr: 0), strings_of_symbols(lambda nr: nr)),
        *(stripped, other_struct_module, no_vermagic),
    ],
)
def test_spoilt(box, tmp_path, spoil):
    elf = Elf(module("spoilt", PLAIN).read_bytes())
    messages = spoil(elf)
    assert refused(box, errno.ENOEXEC, elf.saved(tmp_path)) == messages
    assert box.modules() == []


class Tables(Elf):
    """A module's file with its tables, and the contents of its sections."""

    def at(self, index, field):
        return self.get(index, OFFSET) + field

    def relocations(self):
        """Index of the section that relocates .text of the init function."""
        target = self.find(THIS_MODULE)
        return next(
            i
            for i in range(self.nr)
            if self.get(i, TYPE) == RELA and self.get(i, INFO) == target
        )

    def symbol(self, name):
        """Return where the row of a symbol is."""
        table = self.of_type(SYMTAB)
        names = self.get(self.get(table, LINK), OFFSET)
        start = self.get(table, OFFSET)
        for at in range(start, start + self.get(table, SIZE), 24):
            (offset,) = struct.unpack_from("<I", self.data, at)
            if self.data[names + offset :].split(b"\0", 1)[0] == name.encode():
                return at
        raise LookupError(name)


def alignment(value):
    def spoil(e):
        index = e.find(".text")
        e.put(index, ALIGN, value)
        return f"section {index} has an alignment of {value:#x}"

    return spoil


def too_large(e):
    index = e.find(".init.text")
    e.put(index, TYPE, NOBITS)
    e.put(index, SIZE, 1 << 40)
    return f"section {index} has a size of {1 << 40:#x}"


def odd_symbols(e):
    index = e.of_type(SYMTAB)
    e.put(index, SIZE, e.get(index, SIZE) - 1)
    return f"the symbol table has a size of {e.get(index, SIZE):#x}"


def strings_without_end(e):
    index = e.get(e.of_type(SYMTAB), LINK)
    e.put(index, SIZE, e.get(index, SIZE) - 1)
    return "the names of symbols have no end"


def symbol_name_outside(e):
    table = e.of_type(SYMTAB)
    struct.pack_into("<I", e.data, e.at(table, 24), 0x10000)
    return "symbol 1 has its name at 0x10000"


def odd_relocations(e):
    index = e.relocations()
    e.put(index, SIZE, e.get(index, SIZE) - 1)
    return f"section {index} has a size of {e.get(index, SIZE):#x}"


def unknown_symbol(e):
    index = e.relocations()
    struct.pack_into("<I", e.data, e.at(index, 12), 0xFFFF)
    return f"section {index} relocates against symbol 65535"


def relocated_outside(e):
    index = e.relocations()
    place = e.get(e.find(THIS_MODULE), SIZE) - 7
    struct.pack_into("<Q", e.data, e.at(index, 0), place)
    return f"section {index} relocates what is at {place:#x}"


@pytest.mark.parametrize(
    "spoil",
    [
        *(alignment(3), alignment(4 << 20), alignment(1 << 63), too_large),
        *(odd_symbols, strings_without_end, symbol_name_outside),
        *(odd_relocations, unknown_symbol, relocated_outside),
    ],
)
def test_damaged_tables(box, tmp_path, spoil):
    elf = Tables(module("spoilt", PLAIN).read_bytes())
    message = spoil(elf)
    said = [f"spoilt: damaged module: {message}"]
    assert refused(box, errno.ENOEXEC, elf.saved(tmp_path)) == said
    assert box.modules() == []


def test_a_symbol_behind_the_end_of_memory(box, tmp_path):
    elf = Tables(module("spoilt", PLAIN).read_bytes())
    struct.pack_into("<Q", elf.data, elf.symbol("plain_function") + 8, (1 << 64) - 1)
    box.insmod(elf.saved(tmp_path))
    assert box.modules() == ["spoilt"]
    assert "\tend\t[spoilt]" in box.read("/kallsyms").replace(" t ", "\t")
    box.rmmod("spoilt")


def test_a_file_of_another_class(box, tmp_path):
    elf = Elf(module("spoilt", PLAIN).read_bytes())
    elf.data[4] = 1  # 32 bits
    (said,) = refused(box, errno.ENOEXEC, elf.saved(tmp_path))
    assert said == "Invalid ELF file: not an ELF64 file of x86-64"


def test_a_refusal_does_not_have_the_reason_of_another(box):
    """The errno is the same, but it was the module's own init that failed."""
    with pytest.raises(KernelError, match="No such file"):
        box.insmod("./nosuch")
    with pytest.raises(KernelError) as e:
        box.insmod(module("fails", "INIT(return -2;)\n"))
    assert e.value.errno == errno.ENOENT
    assert "No such file" not in e.value.why


def test_pages_of_a_refused_module_are_given_back(box):
    unknown = "void nobody_has_me(void);\n" + PLAIN.replace(
        "return 0;", "nobody_has_me(); return 0;"
    )
    said = ["unknown: Unknown symbol nobody_has_me (err -2)"]
    for _ in range(2):
        assert refused(box, errno.ENOENT, module("unknown", unknown)) == said


def test_files_that_are_none(box, tmp_path):
    os.mkfifo(tmp_path / "fifo.ko")
    assert refused(box, errno.EINVAL, tmp_path / "fifo.ko") == []
    with open(tmp_path / "large.ko", "wb") as f:
        f.truncate((64 << 20) + 1)
    assert refused(box, errno.EFBIG, tmp_path / "large.ko") == []
    (tmp_path / "empty.ko").touch()
    assert refused(box, errno.ENOEXEC, tmp_path / "empty.ko") == [
        "Invalid ELF header len 0"
    ]


def test_a_path_with_blanks(box, tmp_path):
    path = tmp_path / "a b.ko"
    path.write_bytes(module("spoilt", PLAIN).read_bytes())
    refused(box, errno.ENOENT, path)
    box.write("/machine/insmod", f'"{path}"\n')
    assert box.modules() == ["spoilt"]


def test_names_of_rmmod(box):
    """rmmod takes one file name at a time, with - for _, as kmod does."""
    for word in ("kprobe-example", "./kprobe_example.ko"):
        box.insmod("kprobe_example")
        refused(box, errno.EINVAL, "kprobe_example", "kprobe_example", by="rmmod")
        box.write("/machine/rmmod", word + "\n")
        assert box.modules() == []


def test_only_root_may_unload(box):
    from kpfs.base.ktypes import Caller

    box.insmod("kprobe_example")
    box.caller = Caller(777_005, 1000, 1000)
    refused(box, errno.EPERM, "kprobe_example", by="rmmod")
    assert box.modules() == ["kprobe_example"]


def test_symbols_of_a_module_that_is_still_loading(box):
    """The init has not come back: a module that needs the symbol has to wait."""
    owner = """
        int owned(void) { return 5; }
        EXPORT_SYMBOL_GPL(owned);
        INIT(int *p = NULL; __asm__("" : "+r"(p)); p[2] = 1; return 0;)
    """
    user = "int owned(void);\n" + PLAIN.replace("return 0;", "return owned() - 5;")
    with pytest.raises(KernelError):
        box.insmod(module("owner", owner))
    assert box.read("/modules").split()[4] == "Loading"
    refused(box, errno.EBUSY, module("user", user))
    assert box.modules() == ["owner"]


def test_an_exit_function_is_no_site_of_ftrace(box):
    """__exit is notrace in Linux: kprobe_events refuses a probe there."""
    text = "TARGET void target(void) {} INIT(target(); return 0;) EXIT(target();)"
    box.insmod(module("exits", text))
    events = "/tracing/kprobe_events"
    box.write(events, "p:begins exits:target\n")
    assert code(box.write, events, "p:ends exits:end\n") == "EINVAL"
