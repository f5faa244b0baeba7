# SPDX-License-Identifier: GPL-2.0-or-later
"""Call frame information made of ORC tables of each known form."""

import struct

import pytest

from kpfs.linux.memory.btf import StructLayout
from kpfs.linux.memory.memory import KernelMemory
from kpfs.linux.memory.orc import OrcTable, debug_frame

PLACES, ROWS, TEXT = 0x10000, 0x20000, 0xF000
FIELDS = {"sp_offset": 0, "bp_offset": 2, "sp_reg": 4, "bp_reg": 4, "type": 5}
# numbers by their meaning: of Linux 5.10 and 6.1, of 6.12, of 7.3
OLD = {"sp": 5, "prev": 1, "bp": 4, "r10": 6, "at bp": 8, "behind sp": 9}
NEW = {"sp": 3, "prev": 8, "bp": 4, "r10": 6, "at bp": 10, "behind sp": 9}
# and of kinds of rows
FEW = {"none": 0, "end": 4, "call": 0, "regs": 1, "iret": 2}
MORE = {"none": 0, "end": 1, "call": 2, "regs": 3, "iret": 4}
FORMS = [
    pytest.param(OLD, FEW, id="6.1"),
    pytest.param(OLD, MORE, id="6.12"),
    pytest.param(NEW, MORE, id="7.3"),
]


class Memory(KernelMemory):
    """Two tables."""

    def __init__(self, rows):
        """rows: place in the text, offsets, and the word with the numbers."""
        self._pieces = {
            PLACES: b"".join(
                struct.pack("<i", TEXT + row[0] - PLACES - 4 * number)
                for number, row in enumerate(rows)
            ),
            ROWS: b"".join(struct.pack("<hhH", *row[1:]) for row in rows),
        }

    def _piece(self, addr, size):
        for start, piece in self._pieces.items():
            if start <= addr < start + len(piece):
                return piece[addr - start : addr - start + size]
        return b""


def frames(rows, kinds, size=None, text=0x1000, **more):
    at = {**FIELDS, **({"end": 5} if kinds["end"] == 4 else {})}
    layout = StructLayout(size or 6, at, {})
    table = OrcTable(PLACES, ROWS, len(rows))
    places = [(TEXT, TEXT + text)]
    return debug_frame(Memory(rows), layout, table, places, **more)


def entries(section):
    """Return the CIEs by their places, and (CIE, start, end, operations) of FDEs."""
    heads, found, at = {}, [], 0
    while at < len(section):
        size, place = struct.unpack_from("<II", section, at)
        body = section[at + 8 : at + 4 + size]
        if place == 0xFFFFFFFF:
            heads[at] = body.rstrip(b"\0")
        else:
            start, length = struct.unpack_from("<QQ", body)
            start -= TEXT
            found.append((heads[place], start, start + length, body[16:].rstrip(b"\0")))
        at += 4 + size
    return found


@pytest.mark.parametrize(("bases", "kinds"), FORMS)
def test_what_rows_say_is_said_by_dwarf(bases, kinds):
    def word(kind, stack="", frame=""):
        return kinds[kind] << 8 | bases.get(frame, 0) << 4 | bases.get(stack, 0)

    rows = [
        (0x00, 8, 0, word("call", "sp")),
        (0x01, 16, -16, word("call", "sp", "prev")),
        (0x04, 16, -16, word("call", "bp", "prev")),
        (0x44, 0, 0, word("call", "r10", "bp")),
        (0x48, -40, 0, word("call", "at bp", "bp")),
        (0x49, 16, 0, word("call", "behind sp")),
        (0x50, 0, 0, word("none")),  # between two functions
        (0x60, 8, 0, word("call", "sp")),
        (0x70, -8, 0, word("regs", "sp")),
        (0x80, 8, 0, word("iret", "sp")),
        (0x90, 0, 0, word("end")),
        (0x98, 0, 0, word("none")),  # a large hole
        (0x200, 8, 0, word("call", "sp")),
    ]
    calls, regs, iret, end, last = entries(frames(rows, kinds))
    assert calls[0] == last[0] != end[0]
    assert calls[1:3] == (0, 0x70)
    assert calls[3] == bytes.fromhex(
        "0c0708 0806"  # CFA is rsp+8, rbp the same
        "41 0c0710 8602"  # a byte later: rsp+16, rbp at CFA-16
        "43 0c0610 8602"  # rbp+16
        "0240 0c0a00 1006027600"  # r10; rbp at rbp+0
        "44 0f03765806 1006027600"  # the word at rbp-40
        "41 0f057700062310 0806"  # 16 behind the word at rsp
        "47"  # nothing new
        "50 0c0708 0806"
    )
    assert (regs[0], iret[0]) == (b"\1S" + calls[0][1:], b"\1S" + calls[0][1:])
    assert regs[1:3] == (0x70, 0x80)
    assert regs[3].startswith(bytes.fromhex("0f0477900106"))  # the word at rsp+152-8
    assert bytes.fromhex("100f027778") in regs[3]  # r15 at rsp-8
    assert regs[3].endswith(bytes.fromhex("10100377f8"))  # rip at rsp+128-8
    assert iret[1:] == (0x80, 0x90, bytes.fromhex("0f03772006 1010027708"))
    assert end[1:] == (0x90, 0x98, b"")
    assert end[0].endswith(b"\x07\x10")  # where it returns to is not defined
    assert last[1:] == (0x200, 0x1000, bytes.fromhex("0c0708 0806"))


@pytest.mark.parametrize(("bases", "kinds"), FORMS)
def test_stacks_end_where_programs_enter(bases, kinds):
    rows = [(at, 0, 0, kinds["regs"] << 8 | bases["sp"]) for at in (0, 16, 32)]
    entry = TEXT + 16, TEXT + 32
    first, second, third = entries(frames(rows, kinds, system_call=entry))
    assert first[3] == third[3] != b""
    assert second[1:] == (16, 32, b"")


def test_only_the_text_that_is_asked_for():
    bases, kinds = OLD, FEW
    rows = [(at, 8, 0, bases["sp"]) for at in range(0, 0x100, 2)]
    ((_, start, end, _),) = entries(frames(rows, kinds, text=0x40))
    assert (start, end) == (0, 0x40)


def test_a_copy_of_the_text():
    """The first row of the text may begin before it."""
    rows = [(0, 8, 0, OLD["sp"]), (0x20, 0, 0, FEW["end"] << 8)]
    layout = StructLayout(6, {**FIELDS, "end": 5}, {})
    table, places = OrcTable(PLACES, ROWS, 2), [(TEXT + 8, TEXT + 0x28)]
    found = entries(debug_frame(Memory(rows), layout, table, places, moved=0x100))
    assert [row[1:3] for row in found] == [(0x108, 0x120), (0x120, 0x128)]


def test_many_rows_are_several_entries():
    bases, kinds = OLD, FEW
    rows = [(at, at % 64 * 8, 0, bases["sp"]) for at in range(0, 0x2000, 2)]
    found = entries(frames(rows, kinds, text=0x2000))
    assert len(found) > 8
    assert [row[1] for row in found[1:]] == [row[2] for row in found[:-1]]


@pytest.mark.parametrize("count", [0, -1, 1 << 30])
def test_a_table_that_is_none_gives_nothing(count):
    layout, table = StructLayout(6, FIELDS, {}), OrcTable(PLACES, ROWS, count)
    assert debug_frame(Memory([]), layout, table, [(TEXT, TEXT + 1)]) == b""


def test_another_form_gives_nothing():
    assert frames([(0, 8, 0, 5)], FEW, size=8) == b""
