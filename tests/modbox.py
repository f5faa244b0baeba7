# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel without a mount whose files are used to load modules written in tests."""

import errno
import functools
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from kpfs.backends.guest import box
from kpfs.base.errors import KernelError
from kpfs.config import Config
from kpfs.root.guest_kernel import DEFAULTS

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "tests" / "modules"
HEAD = "#include <linux/kprobes.h>\n#include <linux/module.h>\n"
NOIPA = "__attribute__((__noipa__)) "
LICENSE = 'MODULE_LICENSE("GPL");\n'


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="kpfs-modules-")


def build(name: str, text: str | None = None, *options: str) -> Path:
    """NAME.ko of a text, or of the file of that name in tests/modules.

    Where there is no compiler the test is skipped.
    """
    if not shutil.which("gcc"):
        pytest.skip("gcc is missing (Debian: gcc)")
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
    tool = str(ROOT / "scripts" / "build-module")
    done = subprocess.run(
        [tool, "--in-tree", *options, "-o", str(made), str(source)],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr, done.stderr
    return made


def module(name: str, body: str, *options: str) -> Path:
    """A module of a body that lacks the head and the licence."""
    return build(name, HEAD + body + LICENSE, *options)


class Box(box.Box):
    """A kernel that modules are loaded into, and what tests ask of it."""

    def __init__(self, nr_cpus: int = 2, config: Config = DEFAULTS) -> None:
        super().__init__(nr_cpus, config)
        # its import, where it is compiled first, is not to count as a guest's time
        _ = self.kernel.guest.backtrace
        self._seq = 0

    # ---- modules
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
