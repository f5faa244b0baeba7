# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of strangers: packages, kernels, exported images, archives of modules, indexes.

They are damaged (flipped bits, cut, wild numbers, parts swapped), on the outside or
before they are packed, or sound and hostile: bombs, paths that lead out, links,
devices, descriptions with wild registers, tables and clocks.  Each is refused with one
line, or what it describes runs for a while.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import mmap
import os
import random
import struct
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import zstandard

from kpfs.base import abi
from kpfs.emulator.libunicorn import EmulatorError
from kpfs.linux.board.stops import reason
from kpfs.linux.distribution import arch_linux, deb_archive, fetch, rpm_archive
from kpfs.linux.distribution.offer import RemoteFile
from kpfs.linux.errors import UnfitError
from kpfs.linux.make import x86 as firmware
from kpfs.linux.make.cpio import CpioEntry, archive
from kpfs.linux.package import bzimage, compression, packages
from kpfs.linux.store import archive as exports
from kpfs.linux.store import image, store
from kpfs.linux.store.modules import ModuleArchive
from tests.campaign.attack import Attack
from tests.campaign.board import program, wild
from tests.campaign.hunt import Hunt, Part
from tests.campaign.seeds import hunt_with
from tests.harness import WrongError
from tests.unit.linux.distribution import test_offer as hostile
from tests.unit.linux.package.test_bzimage import image as bzimage_of
from tests.unit.linux.store.test_image import sound

PER_CHILD = 500
PATIENCE = 900
SECONDS = 30.0  # s of processor time for one file
TURN_TICKS = 20_000_000
OUTSIDE = "../outside"
NAMES = (
    *("boot/vmlinuz-6.1", "boot/config-6.1", "lib/modules/6.1/kernel/a.ko"),
    *("lib/modules/6.1/kernel/b.ko.xz", "lib/modules/6.1/modules.builtin", "README"),
    *(f"lib/modules/6.1/{OUTSIDE}.ko", "/lib/modules/6.1/x.ko", f"{OUTSIDE}.ko"),
    *("lib/modules/6.1/kernel/a.ko/c.ko", "lib/modules/6.1/" + "x" * 300 + ".ko"),
    *("lib/modules/6.1/..", "boot/vmlinuz-" + "x" * 5000, "lib/modules/6.1/\udcff.ko"),
)
WIDE: tuple[int, ...] = (
    0,
    1,
    0x7F,
    0xFF,
    0x7FFF,
    0xFFFF,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
)
WIDE = (*WIDE, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 64) - 4096)
TEXTS = (b"-1", b"-0000001", b"ffffffff", b"9999999999", b"0o777", b"1_0", b"        ")
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "data.tar.xz": lzma.compress,
    "data.tar.gz": gzip.compress,
    "data.tar.zst": zstandard.ZstdCompressor().compress,
    "data.tar.bz2": bz2.compress,
    "data.tar": bytes,
}


def damage(data: bytes, rng: random.Random) -> bytes:
    """Return data in which something is wrong."""
    out = bytearray(data)
    for _ in range(rng.choice((0, 0, 0, 0, 0, 1, 2, 5, 30))):
        if not out:
            break
        at = (
            rng.randrange(len(out))
            if rng.random() < 0.6
            else rng.randrange(min(len(out), 600))
        )
        kind = rng.randrange(6)
        if kind == 0:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            size = rng.choice((1, 2, 4, 8))
            value = rng.choice(WIDE) % (1 << 8 * size)
            out[at : at + size] = value.to_bytes(size, rng.choice(("little", "big")))
        elif kind == 2:
            text = rng.choice(TEXTS)
            out[at : at + len(text)] = text
        elif kind == 3:
            del out[at:]
        elif kind == 4:
            end = at + rng.choice((1, 8, 60, 512, 4096))
            out[at:at] = out[at:end]
        else:
            other = rng.randrange(len(out))
            size = rng.choice((4, 60, 512))
            out[at : at + size] = out[other : other + size]
    return bytes(out)


def bomb(rng: random.Random) -> bytes:
    return bytes(rng.choice((1 << 20, 4 << 20)))


def vmlinux(rng: random.Random) -> bytes:
    """Return an ELF file with segments at wild places."""
    count = rng.randint(0, 3)
    head = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, 62, 1, rng.choice(WIDE), 64,
        rng.choice((0, 0, *WIDE)), 0, 64, 56, rng.choice((count, count, 65535)), 64,
        rng.choice((0, 0, 1, 65535)), rng.choice((0, 0, 7)),
    )  # fmt: skip
    rows = [
        struct.pack(
            "<IIQQQQQQ", 1, 7, rng.choice((64, *WIDE)), 0, rng.choice((4096, *WIDE)),
            rng.choice((8, *WIDE)), rng.choice((8, *WIDE)), 0,
        )
        for _ in range(count)
    ]  # fmt: skip
    return head + b"".join(rows) + rng.randbytes(64)


def kernel(rng: random.Random) -> bytes:
    """Return a bzImage, damaged before or after it was packed."""
    packing = rng.choice((lzma.compress, gzip.compress, bz2.compress, lz4, lzma_alone))
    inner = vmlinux(rng) if rng.random() < 0.8 else bomb(rng)
    return damage(bzimage_of(damage(packing(damage(inner, rng)), rng)), rng)


def lzma_alone(data: bytes) -> bytes:
    return lzma.compress(data, lzma.FORMAT_ALONE)


def lz4(data: bytes) -> bytes:
    """Return blocks that mostly repeat themselves."""
    block = bytes((0x1F, data[0] if data else 0, 1, 0)) + b"\xff" * (len(data) // 200)
    return b"\x02\x21\x4c\x18" + struct.pack("<I", len(block) + 1) + block + b"\0"


def files(rng: random.Random) -> dict[str, bytes]:
    """Return the files of a package."""
    names = rng.sample(NAMES, rng.randint(1, 6))
    made = {}
    for name in names:
        kind = rng.random()
        data = kernel(rng) if "vmlinuz" in name else b"CONFIG_X=y\n"
        made[name] = bomb(rng) if kind < 0.05 else damage(data, rng)
    return made


def deb(rng: random.Random) -> bytes:
    """Return a package of Debian."""
    raw = io.BytesIO()
    form = rng.choice((tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT))
    with tarfile.open(fileobj=raw, mode="w", format=form) as tar:
        for name, data in files(rng).items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            member.type = rng.choice(
                (tarfile.REGTYPE,) * 8 + tuple(b"%c" % i for i in b"1234567xgLKS")
            )
            member.linkname = rng.choice(("", "/etc/passwd", OUTSIDE))
            if form == tarfile.PAX_FORMAT and rng.random() < 0.3:
                member.pax_headers = {"size": rng.choice(("-1", "9" * 30, "x", "5"))}
            try:
                tar.addfile(member, io.BytesIO(data))
            except (ValueError, tarfile.TarError):
                continue
    name = rng.choice(list(PACKERS))
    packed = damage(PACKERS[name](damage(raw.getvalue(), rng)), rng)
    out = b"!<arch>\n"
    for part, data in (("debian-binary", b"2.0"), (name, packed)):
        size = len(data) if rng.random() < 0.95 else rng.choice((0, 1, 9999999999))
        out += f"{part:16}{0:<12}{0:<6}{0:<6}{0o644:<8o}{size:<10}".encode()
        out += b"`\n" + data + b"\n" * (len(data) % 2)
    return damage(out, rng)


def rpm(rng: random.Random) -> bytes:
    """Return a package of Fedora."""
    entries = []
    for name, data in files(rng).items():
        mode = rng.choice((0o100644,) * 5 + (0o120777, 0o020666, 0o040755, 0))
        entries.append(CpioEntry(name.encode("utf-8", "replace").decode(), mode, data))
    header = b"\x8e\xad\xe8\x01" + bytes(12)
    packer = rng.choice([PACKERS[name] for name in PACKERS if name != "data.tar"])
    packed = damage(packer(damage(archive(entries), rng)), rng)
    return damage(b"\xed\xab\xee\xdb" + bytes(92) + header + header + packed, rng)


def modules(rng: random.Random) -> bytes:
    """Return an archive of modules."""
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in files(rng).items():
            place = name.removeprefix("lib/modules/6.1/")
            made.writestr(place.encode("utf-8", "replace").decode(), data)
    return damage(raw.getvalue(), rng)


def change(value: Any, rng: random.Random) -> Any:
    """Return a description of which something has changed, at any depth."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice(list(value))
        made = {**value, name: change(value[name], rng)}
        if rng.random() < 0.05:
            del made[name]
        return made
    if isinstance(value, list) and value and rng.random() < 0.9:
        place = rng.randrange(len(value))
        return [*value[:place], change(value[place], rng), *value[place + 1 :]]
    if isinstance(value, int) and rng.random() < 0.85:
        return rng.choice((*WIDE, wild(rng), -1, rng.randrange(1 << 16)))
    odd: tuple[Any, ...] = (
        "",
        None,
        True,
        0.0,
        3.0,
        -1,
        1 << 64,
        [],
        {},
        [[]],
        "x" * 100,
        "\n",
        1e300,
    )
    return rng.choice(odd)


def description(rng: random.Random) -> bytes:
    meta: Any = {**sound(), "memory": rng.choice((4096, 1 << 20, 4 << 20))}
    meta["processors"] = meta["processors"][: rng.randint(1, 2)]
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2, 20))):
        meta = change(meta, rng)
    text = json.dumps(meta).encode()
    if rng.random() < 0.02:
        text = b"[" * 100_000
    return text if rng.random() < 0.9 else damage(text, rng)


def memory(rng: random.Random, size: int) -> bytes:
    """Return a kernel's memory: code, and tables that lead anywhere."""
    ram = bytearray(min(size, 64 << 10))
    for at in range(0, len(ram), 4096):
        code = program(rng)[:4096] if rng.random() < 0.5 else rng.randbytes(4096)
        ram[at : at + len(code)] = code
    return bytes(ram)


def exported(rng: random.Random) -> bytes:
    """Return an exported image, whose digest is right."""
    meta = description(rng)
    rows = {
        image.META: meta, image.SYMBOLS: b"ffffffff81000000 T _stext\n",
        image.CONFIG: b"CONFIG_X=y\n", image.MODULES: modules(rng),
        image.RAM: memory(rng, 1 << 20),
    }  # fmt: skip
    out = b""
    for name, data in rows.items():
        size = rng.choice((4096, 1 << 20, 4 << 20)) if name == image.RAM else len(data)
        size = max(size, len(data)) if rng.random() < 0.98 else rng.choice(WIDE)
        count = 1 if rng.random() < 0.98 else rng.choice(WIDE)
        called = name if rng.random() < 0.99 else OUTSIDE
        out += bytes((len(called),)) + called.encode() + struct.pack("<QQ", size, count)
        place = 0 if rng.random() < 0.98 else rng.choice(WIDE)
        length = len(data) if rng.random() < 0.98 else rng.choice(WIDE)
        out += struct.pack("<QQ", place, length) + data
    packed = zlib.compress(out if rng.random() < 0.8 else damage(out, rng), 1)
    digest = hashlib.sha256(packed).digest()
    head = struct.pack("<12sIQ32s", exports.MAGIC, exports.VERSION, len(packed), digest)
    whole = head + packed
    return whole if rng.random() < 0.8 else damage(whole, rng)


class Index:
    """An archive without a server, of which an index has wild fields."""

    url = "http://archive"

    def __init__(self, rng: random.Random) -> None:
        self.files: dict[str, bytes] = {}
        self.rng = rng

    def read(self, url: str, *_: object) -> bytes:
        data = self.files.get(url.removeprefix(self.url))
        if data is None:
            raise fetch.MissingError(f"{url}: no such file")
        return data if self.rng.random() < 0.9 else damage(data, self.rng)

    def decompress(self, data: bytes, what: str) -> bytes:
        return damage(compression.decompress(data, what), self.rng)

    def find(self) -> list[RemoteFile]:
        """Return the files of a kernel that it offers. Raises UnfitError."""
        row = dict(hostile.RIGHT)
        for name in self.rng.sample(list(row), self.rng.randrange(3)):
            row[name] = self.rng.choice(hostile.VALUES[name])
        put_and_find = self.rng.choice(list(hostile.FORMS.values()))
        with ExitStack() as stack:
            for module in (deb_archive, rpm_archive, arch_linux):
                stack.enter_context(patch.object(module, "decompress", self.decompress))
            stack.enter_context(patch.object(fetch, "_read", self.read))
            stack.enter_context(patch.object(fetch, "is_there", lambda _: True))
            return list(put_and_find(self, row))


class ArchivesAttack(Attack):
    """Has kpfs read such files, as its commands do."""

    def __init__(self, path: Path, at: int) -> None:
        super().__init__(path, at)
        self.home = path.parent / "home"
        os.environ["XDG_DATA_HOME"] = str(self.home)
        self.kinds: dict[str, Callable[[random.Random], str]] = {
            "deb": lambda rng: self.package(deb(rng), rng),
            "rpm": lambda rng: self.package(rpm(rng), rng),
            "vmlinuz": lambda rng: self.vmlinuz(kernel(rng)),
            "modules": self.modules,
            "image": self.image,
            "index": self.index,
        }

    def one(self, rng: random.Random) -> str:
        kind = rng.choice(list(self.kinds))
        begin = time.thread_time()
        try:
            how = self.kinds[kind](rng)
        except (UnfitError, EmulatorError) as error:
            how = "refused"
            if not str(error) or "\n" in str(error):
                raise WrongError(f"no line: {error!r}") from error
        took = time.thread_time() - begin
        if took > SECONDS:
            raise WrongError(f"{took:.0f} s for a file")
        left = set(os.listdir(self.path.parent)) - {"home", self.path.name, "unpacked"}
        if left:
            raise WrongError(f"it has made {left}")
        return f"{kind} {how}"

    def write(self, data: bytes) -> str:
        self.path.write_bytes(data)
        return str(self.path)

    def package(self, data: bytes, rng: random.Random) -> str:
        found = packages.read_packages([self.write(data)]).complete()
        return self.vmlinuz(found.vmlinuz)

    def vmlinuz(self, data: bytes) -> str:
        self.write(data)
        parts = bzimage.parse(data)
        ram = mmap.mmap(-1, 8 << 20)
        firmware.place(ram, parts, b"initrd", "", 1)
        return "taken"

    def modules(self, rng: random.Random) -> str:
        from tempfile import TemporaryDirectory

        path = self.write(modules(rng))
        with ModuleArchive(path) as found, TemporaryDirectory() as folder:
            for name in ("a", "b", "c"):
                try:
                    found.needed(name)
                except (KeyError, UnfitError):
                    pass
            try:
                found.unpack(os.path.join(folder, "new/lib"))
            except OSError:  # as of names that are too long
                return "unpacked in part"
            beside = [os.listdir(folder), os.listdir(os.path.join(folder, "new"))]
            if beside != [["new"], ["lib"]]:
                raise WrongError(f"it was unpacked to {beside}")
        return "unpacked"

    def index(self, rng: random.Random) -> str:
        for file in Index(rng).find():
            hostile.check(file)
        return "offers"

    def image(self, rng: random.Random) -> str:
        """Import an image; let one that is taken run for a while."""
        meta = exports.import_file(self.write(exported(rng)), "a")
        with image.open_ram(store.folder("a"), meta) as saved:
            board = image.load(saved, meta)
        board.set(turn_ticks=TURN_TICKS)
        try:
            for _ in range(20):
                why = board.run()
                if why == abi.STOP_TURN:
                    break
                if why not in (abi.STOP_PAUSE, abi.STOP_CALL):
                    reason(board, why)
                    break
        finally:
            board.close()
        return "runs"


def run(hunt: Hunt) -> None:
    hunt_with(ArchivesAttack, hunt, PER_CHILD, PATIENCE)


PART = Part("files", 20_000, 2, run)
