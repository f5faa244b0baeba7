# SPDX-License-Identifier: GPL-2.0-or-later
"""Random floating-point instructions: inside a Linux kernel they do what the host's do.

tests/programs/floats.c does them, from a table that is made here.
"""

from __future__ import annotations

import ctypes
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from tests import harness
from tests.campaign.hunt import Hunt, Part
from tests.harness import WrongError
from tests.programs import static_program

AT_ONCE = 20_000  # cases of one command
KINDS = "sdix"  # kinds of operands, in the table of floats.c

NONE, DATA, REP, REPNE = "", "66", "f3", "f2"
XMM = "c1"  # xmm0 and xmm1, or mm0 and mm1, or eax and ecx
OPERANDS = {NONE: "s", DATA: "d", REP: "s", REPNE: "d"}  # kind, by the prefix


def sse_floats() -> Iterator[tuple[str, str]]:
    """Yield kind of operands and bytes of SSE's floating-point instructions."""
    for prefix, kind in OPERANDS.items():
        lanes = (0x51, 0x58, 0x59, 0x5A, 0x5C, 0x5D, 0x5E, 0x5F)
        for code in lanes:
            yield kind, f"{prefix} 0f {code:02x} {XMM}"
        for predicate in range(8):
            yield kind, f"{prefix} 0f c2 {XMM} {predicate:02x}"
        for code, rex in itertools.product((0x2C, 0x2D), ("", "48")):
            if not rex or prefix in (REP, REPNE):
                yield kind, f"{prefix} {rex} 0f {code:02x} {XMM}"
        yield "i", f"{prefix} 0f 2a {XMM}"
        if prefix in (REP, REPNE):
            yield "i", f"{prefix} 48 0f 2a {XMM}"


def other_floats() -> Iterator[tuple[str, str]]:
    """Yield kind and bytes of those with some prefixes, and of SSE3 and SSE4.1."""
    for prefix in (NONE, DATA):
        for code in (0x14, 0x15, 0x2E, 0x2F, 0x50, 0x54, 0x55, 0x56, 0x57):
            yield OPERANDS[prefix], f"{prefix} 0f {code:02x} {XMM}"
        yield OPERANDS[prefix], f"{prefix} 0f c6 {XMM} 1b"
    for prefix, code in itertools.product((DATA, REPNE), (0x7C, 0x7D, 0xD0)):
        yield "d" if prefix == DATA else "s", f"{prefix} 0f {code:02x} {XMM}"
    for prefix, kind in ((NONE, "i"), (DATA, "s"), (REP, "s")):
        yield kind, f"{prefix} 0f 5b {XMM}"
    for prefix, kind in ((DATA, "d"), (REP, "i"), (REPNE, "d")):
        yield kind, f"{prefix} 0f e6 {XMM}"
    for code, mode in itertools.product(range(8, 12), range(16)):
        yield "sd"[code % 2], f"66 0f 3a {code:02x} {XMM} {mode:02x}"
    for code, mask in itertools.product((0x40, 0x41), (0xFF, 0x31, 0x13, 0x75, 0xA2)):
        yield "sd"[code % 2], f"66 0f 3a {code:02x} {XMM} {mask:02x}"
    yield from (("s", "0f ae 1e"), ("d", "0f ae 1e"))  # stmxcsr
    yield "i", "0f ae 16"  # ldmxcsr


def sse_integers() -> Iterator[tuple[str, str]]:
    """Yield kind of operands and bytes of SSE's and MMX's other instructions."""
    both = (
        *range(0x60, 0x6C),
        *range(0x74, 0x77),
        *(0xD1, 0xD2, 0xD3, 0xD4, 0xD5, 0xD7, *range(0xD8, 0xE6)),
        *range(0xE8, 0xF0),
        *(*range(0xF1, 0xF7), *range(0xF8, 0xFF)),
    )
    for prefix, code in itertools.product((NONE, DATA), both):
        yield "i", f"{prefix} 0f {code:02x} {XMM}"
        if code in (*range(0xD1, 0xD4), *range(0xE1, 0xE3), *range(0xF1, 0xF4)):
            yield "i", f"{prefix} 0f {code:02x} 06"
    yield from (("i", f"66 0f {code:02x} {XMM}") for code in (0x6C, 0x6D))
    for prefix in (NONE, DATA, REP, REPNE):
        yield "i", f"{prefix} 0f 70 {XMM} b1"
    for prefix, code in itertools.product((NONE, DATA), (*range(12), 0x1C, 0x1D, 0x1E)):
        yield "i", f"{prefix} 0f 38 {code:02x} {XMM}"
    codes = (0x10, 0x14, 0x15, 0x17, *range(0x20, 0x26), 0x28, 0x29, 0x2B)
    for code in (*codes, *range(0x30, 0x36), *range(0x37, 0x42)):
        yield "i", f"66 0f 38 {code:02x} {XMM}"
    for code in (
        0x0C,
        0x0D,
        0x0E,
        0x0F,
        0x14,
        0x15,
        0x16,
        0x17,
        0x20,
        0x21,
        0x22,
        0x42,
    ):
        for byte in (1, 0x16, 0xC9):
            yield "i", f"66 0f 3a {code:02x} {XMM} {byte:02x}"
    for code, byte in itertools.product(range(0x60, 0x64), range(0, 0x80, 5)):
        for rex in ("", "48"):
            yield "i", f"66 {rex} 0f 3a {code:02x} {XMM} {byte:02x}"
    yield "i", f"0f 3a 0f {XMM} 05"
    yield from (("i", f"f2 0f 38 f0 {XMM}"), ("i", f"f2 48 0f 38 f1 {XMM}"))
    yield from (("i", f"f3 0f b8 {XMM}"), ("i", "0f 77"))


def x87() -> Iterator[tuple[str, str]]:
    """Yield kind of operands and bytes of the x87's instructions."""
    arithmetic = (0xC1, 0xC9, 0xE1, 0xE9, 0xF1, 0xF9)
    registers = {
        0xD8: (*arithmetic, 0xD1, 0xD9),
        0xD9: (0xC1, 0xC9, 0xD0, 0xE0, 0xE1, 0xE4, 0xE5, *range(0xE8, 0xEF)),
        0xDA: (0xC1, 0xC9, 0xD1, 0xD9, 0xE9),
        0xDB: (0xC1, 0xC9, 0xD1, 0xD9, 0xE2, 0xE3, 0xE9, 0xF1),
        0xDC: arithmetic,
        0xDD: (0xC1, 0xD1, 0xD9, 0xE1, 0xE9),
        0xDE: (*arithmetic, 0xD9),
        0xDF: (0xE0, 0xE9, 0xF1),
    }
    more = {0xD9: range(0xF0, 0x100)}
    for first, seconds in (*registers.items(), *more.items()):
        yield from (("x", f"{first:02x} {second:02x}") for second in seconds)
    memory = {
        **dict.fromkeys((0xD8, 0xDA, 0xDC, 0xDE), range(8)),
        0xD9: (0, 2, 3, 7),
        0xDB: (0, 1, 2, 3, 5, 7),
        0xDD: (0, 1, 2, 3, 7),
        0xDF: (0, 1, 2, 3, 4, 5, 7),
    }
    for first, numbers in memory.items():
        yield from (("x", f"{first:02x} {n << 3 | 6:02x}") for n in numbers)
    yield "x", "9b"


def table(kinds: str) -> str:
    """Return the lines that floats.c reads, of some kinds of operands."""
    rows = (*sse_floats(), *other_floats(), *sse_integers(), *x87())
    lines = (f"{kind} {code.replace(' ', '')}\n" for kind, code in rows)
    return "".join(line for line in lines if line[0] in kinds)


class Instruction(ctypes.Structure):
    """struct instruction of floats.c."""

    kind: bytes
    size: int
    code: ctypes.Array[ctypes.c_uint8]
    _fields_ = [
        ("kind", ctypes.c_char),
        ("size", ctypes.c_uint8),
        ("code", ctypes.c_uint8 * 14),
    ]

    def __str__(self) -> str:
        return bytes(self.code)[: self.size].hex()


class Record(ctypes.Structure):
    """struct record of floats.c."""

    number: int
    done: ctypes.Array[Instruction]
    _fields_ = [
        ("number", ctypes.c_uint32),
        ("code", ctypes.c_int32),
        ("done", Instruction * 3),
        ("mxcsr_before", ctypes.c_uint32),
        ("control_before", ctypes.c_uint32),
        ("xmm_before", ctypes.c_uint8 * 16 * 2),
        ("st_before", ctypes.c_uint8 * 16 * 2),
        ("memory_before", ctypes.c_uint8 * 16),
        ("rax_before", ctypes.c_uint64),
        ("mxcsr", ctypes.c_uint32),
        ("control", ctypes.c_uint16),
        ("status", ctypes.c_uint16),
        ("tags", ctypes.c_uint32),
        ("at", ctypes.c_uint32),
        ("rax", ctypes.c_uint64),
        ("rcx", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
        ("xmm", ctypes.c_uint8 * 16 * 2),
        ("st", ctypes.c_uint8 * 16 * 8),
        ("memory", ctypes.c_uint8 * 16),
    ]

    def value(self, name: str) -> object:
        """Return a field, with registers in hex."""
        value = getattr(self, name)
        if isinstance(value, int):
            return hex(value)
        if name in ("memory", "memory_before"):
            return bytes(value)[::-1].hex()
        return [bytes(one)[::-1].hex() for one in value]

    def __str__(self) -> str:
        done = " ".join(str(one) for one in self.done if one.size)
        names = (field[0] for field in self._fields_)
        before = (name for name in names if name.endswith("_before"))
        words = (f"{name} {self.value(name)}" for name in before)
        return f"case {self.number}: {done}, {', '.join(words)}"

    def results(self) -> dict[str, object]:
        """Return what is to be the same."""
        names = [field[0] for field in self._fields_]
        found = {name: self.value(name) for name in names[names.index("mxcsr") :]}
        found["code"] = self.value("code")
        if self.done[0].kind != b"x":
            # MMX fills registers and their tags up; libunicorn does not always
            del found["tags"]
            found["st"] = [bytes(one)[7::-1].hex() for one in self.st]
        return found


def records(raw: bytes) -> list[Record]:
    size = ctypes.sizeof(Record)
    ends = range(0, len(raw) - size + 1, size)
    return [Record.from_buffer_copy(raw, at) for at in ends]


def differences(host: bytes, inside: bytes) -> list[str]:
    """Return a text for each case that is another one inside than on the host."""
    if len(host) != len(inside):
        raise WrongError(f"{len(host)} bytes on the host, {len(inside)} inside")
    texts = []
    for here, there in zip(records(host), records(inside), strict=True):
        found = there.results()
        wrong = [
            f"  {name}: {value}, and inside {found[name]}"
            for name, value in here.results().items()
            if value != found[name]
        ]
        if wrong:
            texts.append("\n".join((str(here), *wrong)))
    return texts


def compare(
    kpfs: harness.Kpfs, kernel: str, folder: Path, seed: int, first: int, count: int
) -> list[str]:
    """Do cases on the host and inside a kernel; return the differences.

    folder: has the program, and gets the results.
    """
    words = f"{folder}/floats {seed} {first} {count} <{folder}/table"
    (folder / "table").write_text(table(KINDS))
    here = ("sh", "-c", f"{words} >{folder}/host")
    there = ("sh", "-c", f"{words} >{folder}/inside")
    options = "--kernel", kernel, "--inside", "--rw", str(folder)
    for done in (harness.run(*here), kpfs("run", *options, "--", *there)):
        if done.returncode:
            raise WrongError(f"{done.stdout}\n{done.stderr}")
    return differences(*((folder / n).read_bytes() for n in ("host", "inside")))


def run(hunt: Hunt) -> None:
    kernel = hunt.kernel or harness.KERNEL
    if not hunt.kernel:
        os.environ["XDG_DATA_HOME"] = str(harness.kernels())
    static_program("floats", hunt.scratch)
    seed = hunt.rng.randrange(1 << 30)
    while hunt.more():
        count = hunt.left(AT_ONCE)
        kpfs = harness.Kpfs(hunt.scratch)
        for text in compare(kpfs, kernel, hunt.scratch, seed, hunt.done, count):
            hunt.finding(text)
        hunt.did(count)


PART = Part("cases", 100_000, 1.0, run, kernels=True)
