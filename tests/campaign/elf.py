# SPDX-License-Identifier: GPL-2.0-or-later
"""Damaged modules: each is loaded, or refused with an errno and a line in the log.

What is loaded in spite of the damage may do to its guest what it likes.
"""

from __future__ import annotations

import errno
import random
import struct
from functools import partial
from pathlib import Path

from kpfs.base import abi
from kpfs.base.errors import KernelError
from kpfs.guest.loader.modelf import THIS_MODULE, RelocatableFile
from tests import harness
from tests.campaign.hunt import Hunt, Part
from tests.campaign.seeds import Seeds, hunt_with
from tests.harness import WrongError
from tests.modbox import Box, build

PER_CHILD = 100
PATIENCE = 300  # s for that many, on a machine that others use too
SHIPPED = harness.ROOT / "guest" / "image" / "modules"
BUILT = ("all_kinds", "hammer", "synth_calls")
EDGES = (0, 1, 2, 3, 4, 7, 8, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFF1, 0xFFFF, 0x7FFFFFFF)
WIDE = (0x80000000, 0xFFFFFFFF, 1 << 32, 1 << 63, (1 << 63) - 1, (1 << 64) - 1)
EHDR, SHDR, SYM, RELA = 64, 64, 24, 24
SHT_SYMTAB, SHT_RELA = 2, 4
TOLD = (errno.ENOEXEC, errno.ENOMEM)  # what else may be the answer of its init
HARSH = 0.3  # share that is damaged in more than one place


class Damage:
    """One way to spoil the bytes of a module, chosen at random."""

    def __init__(self, data: bytes, rng: random.Random) -> None:
        self.data = bytearray(data)
        self.rng = rng
        (shoff,) = struct.unpack_from("<Q", data, 40)
        (number,) = struct.unpack_from("<H", data, 60)
        self.headers = [shoff + SHDR * i for i in range(number)]

    def value(self) -> int:
        """Return a number, often one at the edge of a range."""
        edges = (*EDGES, *WIDE, len(self.data), len(self.data) - 1)
        if self.rng.random() < 0.7:
            return self.rng.choice(edges)
        return self.rng.getrandbits(64)

    def put(self, at: int, size: int) -> None:
        raw = (self.value() & (1 << 8 * size) - 1).to_bytes(size, "little")
        self.data[at : at + size] = raw

    def flip(self) -> None:
        at = self.rng.randrange(len(self.data))
        self.data[at] ^= 1 << self.rng.randrange(8)

    def byte(self) -> None:
        self.data[self.rng.randrange(len(self.data))] = self.rng.randrange(256)

    def header(self) -> None:
        at, size = self.rng.choice(
            ((0, 4), (4, 1), (16, 2), (18, 2), (40, 8), (58, 2), (60, 2), (62, 2))
        )
        self.put(at, size)

    def section(self) -> None:
        """Spoil a field of a section's header."""
        at = self.rng.choice((0, 4, 8, 16, 24, 32, 40, 44, 48, 56))
        size = 4 if at in (0, 4, 40, 44) else 8
        self.put(self.rng.choice(self.headers) + at, size)

    def swap(self) -> None:
        """Swap the headers of two sections."""
        one, two = self.rng.choice(self.headers), self.rng.choice(self.headers)
        data = self.data
        data[one : one + SHDR], data[two : two + SHDR] = (
            data[two : two + SHDR], data[one : one + SHDR],
        )  # fmt: skip

    def row(self, kind: int, fields: tuple[tuple[int, int], ...], size: int) -> None:
        """Spoil a field in a row of a table whose section has that type."""
        found = []
        for header in self.headers:
            is_of, offset, length = (
                struct.unpack_from("<I", self.data, header + 4)[0],
                *struct.unpack_from("<QQ", self.data, header + 24),
            )
            if is_of == kind and length >= size and offset + length <= len(self.data):
                found.append((offset, length // size))
        if not found:
            return
        offset, count = self.rng.choice(found)
        at, width = self.rng.choice(fields)
        self.put(offset + size * self.rng.randrange(count) + at, width)

    def symbol(self) -> None:
        self.row(SHT_SYMTAB, ((0, 4), (4, 1), (5, 1), (6, 2), (8, 8), (16, 8)), SYM)

    def relocation(self) -> None:
        self.row(SHT_RELA, ((0, 8), (8, 4), (12, 4), (16, 8)), RELA)

    def cut(self) -> None:
        del self.data[self.rng.randrange(len(self.data)) :]

    def move(self) -> None:
        """Remove or double a piece."""
        at, size = self.rng.randrange(len(self.data)), self.rng.randint(1, 64)
        piece = self.data[at : at + size] * self.rng.choice((0, 2))
        self.data[at : at + size] = piece

    def string(self) -> None:
        """Spoil a letter, as of a name, a licence, a parameter or the version."""
        places = [i for i, b in enumerate(self.data) if 0x20 < b < 0x7F]
        self.data[self.rng.choice(places)] = self.rng.choice(b"\0a.=%\xff")

    def apply(self) -> bytes:
        usual = (self.flip, self.byte, self.header, self.section, self.section)
        more = (
            self.swap,
            self.symbol,
            self.relocation,
            self.cut,
            self.move,
            self.string,
        )
        times = 1 if self.rng.random() > HARSH else self.rng.randint(2, 6)
        for _ in range(times):
            if len(self.data) > EHDR:
                self.rng.choice((*usual, *more))()
                self.headers = [h for h in self.headers if h + SHDR <= len(self.data)]
                if not self.headers:
                    break
        return bytes(self.data)


def is_silent(data: bytes) -> bool:
    """Return True if Linux refuses such a file without a word."""
    try:
        image = RelocatableFile(data)
    except KernelError:
        return False
    this = image.section(THIS_MODULE)
    other_size = bool(this and this.size != abi.Module.SIZE)
    return other_size or "vermagic" not in image.modinfo()


class Loader(Seeds):
    """Loads damaged modules."""

    def __init__(self, modules: list[Path], path: Path, at: int) -> None:
        self.modules = modules
        self.data = b""
        self.seq = 0  # number of the guest's last line
        super().__init__(path, at)

    def boot(self, rng: random.Random) -> Box:
        self.seq = 0
        return super().boot(rng)

    def load(self, rng: random.Random) -> str:
        """Damage one module and load it."""
        module = rng.choice(self.modules)
        self.data = Damage(module.read_bytes(), rng).apply()
        self.path.write_bytes(self.data)
        self.logged()
        try:
            self.box.insmod(self.path)
        except KernelError as error:
            how = "" if self.slept else self.refused(error)
        else:
            how = "loaded"
            self.unload(rng)
        if self.box.kernel.syscalls.dead:
            self.tally["dead guest"] += 1
            self.box.close()
            self.box = self.boot(rng)
        return how

    def logged(self) -> bool:
        """Return True if the log has become longer since the last call."""
        records = self.box.kernel.guest.log.records(self.seq)
        self.seq = records[-1].seq + 1 if records else self.seq
        return bool(records)

    def refused(self, error: KernelError) -> str:
        """Return the errno's name, which the log must explain."""
        # its init may say anything
        name = errno.errorcode.get(error.errno, "of no known errno")
        if self.box.kernel.syscalls.dead:
            return name
        told = self.logged() or error.errno not in TOLD
        if not told and not is_silent(self.data):
            raise WrongError(f"{name}, and no line: {error.why}")
        return name

    def unload(self, rng: random.Random) -> None:
        """Take away all modules; those whose code is damaged may not let us."""
        try:
            for module in list(self.box.kernel.guest.modules):
                self.box.rmmod(module.name)
        except KernelError:
            self.box.close()
            self.box = self.boot(rng)


def run(hunt: Hunt) -> None:
    modules = [*sorted(SHIPPED.glob("*.ko")), *(build(name) for name in BUILT)]
    hunt_with(partial(Loader, modules), hunt, PER_CHILD, PATIENCE)


PART = Part("damaged files", 10_000, 1, run)
