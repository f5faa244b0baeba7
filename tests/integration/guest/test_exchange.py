# SPDX-License-Identifier: GPL-2.0-or-later
"""Instructions of x86-64 that change some arithmetic flags, and keep the others."""

import ctypes
import itertools

import pytest

from kpfs.emulator import libunicorn
from kpfs.emulator.x86_registers import GENERAL

X86, MODE_64 = 4, 8
NEHALEM = 15  # it has cmpxchg16b
CODE, DATA, PAGE = 0x1000, 0x2000, 0x1000
CF, PF, AF, ZF, SF, OF = 1, 4, 0x10, 0x40, 0x80, 0x800
ARITHMETIC = CF | PF | AF | ZF | SF | OF
OTHERS = 0x40500  # TF, DF and AC
OPERAND = 0xFFF4_AFFF  # flags would be there, too: TF, IF, DF, IOPL and AC

# what stands before the instruction, by which libunicorn keeps flags differently
BEFORE = {
    "nothing": "",
    "cmp": "4839f7",  # cmp rdi, rsi
    "add": "4801f7",
    "sub of a byte": "4028f7",
    "inc": "48ffc7",
    "logic": "4885f6",  # test rsi, rsi
    "shl": "48d1e7",
    "stc": "f9",
    "popf": "6a01 9d",  # push 1; popf
    "cmp and a new block": "4839f7 eb00",
    "popf and cmp": "6a01 9d 4839f7",
}
# the instruction, and which flags it changes
CHANGED = {
    "cmpxchg8b": ("410fc708", ZF),
    "lock cmpxchg8b": ("f0410fc708", ZF),
    "cmpxchg16b": ("490fc708", ZF),
    "lock cmpxchg16b": ("f0490fc708", ZF),
    "lar": ("0f02d0", ZF),
    "lsl": ("0f03d0", ZF),
    "verr": ("0f00e0", ZF),
    "verw": ("0f00e8", ZF),
    "inc": ("49ffc1", ARITHMETIC & ~CF),
    "rol": ("49d1c1", CF | OF),
    "bt": ("490fbae103", ARITHMETIC & ~ZF),
    "sahf": ("9e", ARITHMETIC & ~OF),
    "std": ("fd fc", 0),
    "cmc": ("f5", CF),
}
NOP, SHOW = "90", "9c 415a"  # pushfq; pop r10


@pytest.fixture
def run():
    """Run code in a new engine; return the flags that it reads, or leaves."""
    places = itertools.count(CODE, 32)  # each has room for one code
    library, _ = libunicorn.load()
    engine = ctypes.c_void_p(libunicorn.open_engine(X86, MODE_64, NEHALEM))

    def register(name, value=None):
        word = ctypes.c_uint64(value or 0)
        function = library.uc_reg_read if value is None else library.uc_reg_write
        libunicorn.check(function(engine, GENERAL[name], ctypes.byref(word)))
        return word.value

    def run_code(text, data):
        code, start = bytes.fromhex(text), next(places)
        for at, raw in ((start, code), (DATA, data)):
            place = ctypes.c_uint64(at)
            library.uc_mem_write(engine, place, raw, ctypes.c_size_t(len(raw)))
        values = {"rflags": 2, "rdi": 5, "rsi": OPERAND, "r8": DATA, "r9": 7}
        values |= {"rsp": DATA + PAGE - 64, "rax": 0, "rdx": 0, "r10": 0}
        for name, value in values.items():
            register(name, value)
        begin, end = ctypes.c_uint64(start), ctypes.c_uint64(start + len(code))
        none = ctypes.c_size_t(0)
        libunicorn.check(library.uc_emu_start(engine, begin, end, none, none))
        return register("r10") or register("rflags")

    size = ctypes.c_size_t(2 * PAGE)
    libunicorn.check(library.uc_mem_map(engine, ctypes.c_uint64(CODE), size, 7))
    yield run_code
    library.uc_close(engine)


@pytest.mark.parametrize("name", CHANGED)
def test_the_other_flags_stay(run, name):
    instruction, changes = CHANGED[name]
    states = itertools.product(BEFORE, (bytes(16), b"\1" * 16), ("", SHOW))
    for before, data, shown in states:
        kept = run(BEFORE[before] + NOP + shown, data)
        flags = run(BEFORE[before] + instruction + shown, data)
        assert (flags ^ kept) & ~changes == 0, before
        assert not flags & OTHERS, before
        if "cmpxchg" in name:
            assert bool(flags & ZF) == (data == bytes(16)), before
