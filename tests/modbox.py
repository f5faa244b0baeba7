# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel without a mount whose files are used to load modules written in tests."""

import errno
import functools
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from kpfs.engine.errors import KernelError
from kpfs.fs import tree
from kpfs.fs.vfs import Vfs
from kpfs.kernel import Caller, Kernel

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "tests" / "modules"
HEAD = "#include <linux/kprobes.h>\n#include <linux/module.h>\n"
NOIPA = "__attribute__((__noipa__)) "
LICENSE = 'MODULE_LICENSE("GPL");\n'


@functools.cache
def _folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="kpfs-modules-")


def build(name: str, text: str | None = None, *options: str) -> Path:
    """NAME.ko of a text, or of the file of that name in tests/modules."""
    source = SOURCES / f"{name}.c"
    key = hashlib.sha256(repr((name, text, options)).encode()).hexdigest()[:16]
    folder = Path(_folder().name) / key
    made = folder / f"{name}.ko"
    if made.exists():
        return made
    folder.mkdir(exist_ok=True)
    if text is not None:
        source = folder / f"{name}.c"
        source.write_text(text)
    tool = [ROOT / "scripts" / "build-module", "--in-tree", *options, "-o", made]
    done = subprocess.run(
        [*tool, source], capture_output=True, text=True, cwd=folder, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr, done.stderr
    return made


def module(name: str, body: str, *options: str) -> Path:
    """A module of a body that lacks the head and the licence."""
    return build(name, HEAD + body + LICENSE, *options)


class Box:
    """A quiet kernel and the files of its mount, used by this process."""

    def __init__(self, nr_cpus: int = 2) -> None:
        self.kernel = Kernel(nr_cpus=nr_cpus, quiet=True)
        self.vfs = Vfs(self.kernel, tree.build(self.kernel))
        self.caller = Caller(os.getpid(), 0, 0)
        self._seq = 0

    def close(self) -> None:
        self.kernel.stop()

    # ---- files
    def read(self, path: str) -> str:
        opened = self.vfs.open(self.caller, path, os.O_RDONLY)
        data = b""
        try:
            while piece := self.vfs.read(self.caller, opened, 65536, len(data)):
                data += piece
        finally:
            self.vfs.release(opened)
        return data.decode()

    def write(self, path: str, text: str) -> None:
        opened = self.vfs.open(self.caller, path, os.O_WRONLY | os.O_APPEND)
        try:
            self.vfs.write(self.caller, opened, text.encode(), 0)
        finally:
            self.vfs.release(opened)

    # ---- modules
    def insmod(self, path: Path | str, *parameters: str) -> None:
        self.write("/machine/insmod", " ".join((str(path), *parameters)) + "\n")

    def rmmod(self, name: str) -> None:
        self.write("/machine/rmmod", f"{name}\n")

    def modules(self) -> list[str]:
        """The names of those that are loaded."""
        return [line.split()[0] for line in self.read("/modules").splitlines()]

    def log(self) -> list[str]:
        """The kernel's messages since the last call."""
        records = self.kernel.guest.log.records(self._seq)
        if records:
            self._seq = records[-1].seq + 1
        return [r.text.decode() for r in records]

    # ---- the guest
    def address(self, name: str) -> int:
        return self.kernel.guest.kallsyms.lookup_name(name)[0].addr

    def call(self, function: str, *args: int) -> int:
        """Run a function of the guest; its value, signed."""
        value = self.kernel.guest.call(self.address(function), *args)
        return value - (1 << 64) if value >> 63 else value

    def syscall(self, name: str, *args: int | str) -> int:
        """By a process of its own."""
        task = self.kernel.guest.syscalls.host_task(777_000, 0, "caller", 1)
        return self.kernel.guest.syscalls.call(task, name, *args)

    def int_at(self, symbol: str) -> int:
        raw = self.kernel.guest.read(self.address(symbol), 4)
        return int.from_bytes(raw, "little", signed=True)

    def list(self) -> list[str]:
        """kprobes/list without the addresses, blanks in one."""
        lines = self.read("/kprobes/list").splitlines()
        return [" ".join(line.split()[1:]) for line in lines]


def refused(box: Box, number: int, *words: Path | str, by: str = "insmod") -> list[str]:
    """What the log says of an insmod or rmmod that fails so, and leaves nothing."""
    box.log()
    free = list(box.kernel.guest.memory.area._free)
    with pytest.raises(KernelError) as e:
        box.write(f"/machine/{by}", " ".join(map(str, words)) + "\n")
    assert errno.errorcode[e.value.errno] == errno.errorcode[number]
    assert box.kernel.guest.memory.area._free == free
    return box.log()
