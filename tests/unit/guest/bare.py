# SPDX-License-Identifier: GPL-2.0-or-later
"""Small things to test the machine with: hand-made ELF files, a bare CPU."""

import struct

from kpfs.guest.emu.cpu import Cpu
from kpfs.guest.emu.cpu_registers import REG_FLAGS, REG_IP, REG_SP
from kpfs.guest.emu.memory import KERNEL_DATA, KERNEL_TEXT, Memory

EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
PHDR = struct.Struct("<IIQQQQQQ")
SHDR = struct.Struct("<IIQQQQIIQQ")
SYM = struct.Struct("<IBBHQQ")
RELA = struct.Struct("<QQq")

PROGBITS, SYMTAB, STRTAB, RELA_TYPE, NOBITS = 1, 2, 3, 4, 8
ALLOC, WRITE, EXEC = 2, 1, 4


class Strings:
    def __init__(self):
        self.data = b"\0"

    def add(self, text):
        at = len(self.data)
        self.data += text.encode() + b"\0"
        return at


def make_elf(sections, symbols=(), relocations=(), segments=(), kind=1):
    """An ELF file: sections (name, type, flags, addr, data or size),
    symbols (name, value, section index, info), relocations (section index, rows),
    segments (flags, vaddr, data, memsz).  Section indices count from 1.
    """
    names, strings = Strings(), Strings()
    body, rows, phdrs = b"", [(0,) * 10], []
    start = EHDR.size + PHDR.size * len(segments)

    def place(data):
        nonlocal body
        body += bytes(-len(body) % 16)
        at = start + len(body)
        body += data
        return at

    for flags, vaddr, data, memsz in segments:
        phdrs.append((1, flags, place(data), vaddr, vaddr, len(data), memsz, 4096))
    for name, type_, flags, addr, data in sections:
        size = data if isinstance(data, int) else len(data)
        at = 0 if isinstance(data, int) else place(data)
        rows.append((names.add(name), type_, flags, addr, at, size, 0, 0, 16, 0))
    table = SYM.pack(0, 0, 0, 0, 0, 0)
    for name, value, shndx, info in symbols:
        table += SYM.pack(strings.add(name), info, 0, shndx, value, 0)
    symtab = len(rows)
    row = (names.add(".symtab"), SYMTAB, 0, 0, place(table), len(table))
    rows.append((*row, symtab + 1, 1, 8, 24))
    row = (names.add(".strtab"), STRTAB, 0, 0, place(strings.data), len(strings.data))
    rows.append((*row, 0, 0, 1, 0))
    for target, entries in relocations:
        data = b"".join(
            RELA.pack(at, sym << 32 | t, add) for at, t, sym, add in entries
        )
        row = (names.add(f".rela{target}"), RELA_TYPE, 0, 0, place(data), len(data))
        rows.append((*row, symtab, target, 8, 24))
    shstr = names.add(".shstrtab")
    at = place(names.data)
    rows.append((shstr, STRTAB, 0, 0, at, len(names.data), 0, 0, 1, 0))
    shoff = place(b"".join(SHDR.pack(*row) for row in rows))
    head = EHDR.pack(
        *(b"\x7fELF\x02\x01\x01" + bytes(9), kind, 62, 1, 0, EHDR.size, shoff, 0, 64),
        *(56, len(segments), 64, len(rows), len(rows) - 1),
    )
    return head + b"".join(PHDR.pack(*p) for p in phdrs) + body


class BareCpu:
    """An engine with a page of text, a stack, and hypercall 0x10 to stop."""

    def __init__(self, nr_cpus=1):
        self.memory = Memory()
        self.cpu = Cpu(self.memory, nr_cpus)
        self.text = self.memory.area.alloc(4096, KERNEL_TEXT)
        self.data = self.memory.area.alloc(8192, KERNEL_DATA)
        self.stack = self.data + 8192
        self.stops = []
        self.cpu.hypercalls[0x10] = self.on_stop

    def on_stop(self, value):
        self.stops.append(value)
        self.cpu.stop()

    def load(self, code, flags=0x202):
        """Code at the start of the text page; a stop follows it."""
        code = bytes.fromhex(code) + b"\xe7\x10\xeb\x00"
        self.memory.write(self.text, code)
        self.cpu.drop(self.text, len(code))
        self.cpu.write_reg(REG_IP, self.text)
        self.cpu.write_reg(REG_SP, self.stack)
        self.cpu.write_reg(REG_FLAGS, flags)

    def run(self, code, flags=0x202):
        self.load(code, flags)
        self.cpu.run()

    def ip(self):
        return self.cpu.read_reg(REG_IP) - self.text
