# SPDX-License-Identifier: GPL-2.0-or-later
"""Build modules written in tests, and load them into a kernel without a mount."""

import ctypes
import errno
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from kpfs.backends.guest import box
from kpfs.backends.guest.root.guest_kernel import DEFAULTS
from kpfs.base.errors import KernelError
from kpfs.config import Config
from tests import harness

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "tests" / "modules"
# what the texts of modules in tests begin with, and are written in
HEAD = """
#include <linux/kprobes.h>
#include <linux/module.h>
#define TARGET __attribute__((__noipa__))
#define INIT(...) static int __init go(void) { __VA_ARGS__ } module_init(go);
#define EXIT(...) static void __exit end(void) { __VA_ARGS__ } module_exit(end);
#define PRE(name, ...) \\
    static int name(struct kprobe *p, struct pt_regs *r) { __VA_ARGS__ }
#define KRET(name, ...) \\
    static int name(struct kretprobe_instance *i, struct pt_regs *r) { __VA_ARGS__ }
#define WITH_KPROBE(...) static struct kprobe kp = { __VA_ARGS__ }; \\
    INIT(return register_kprobe(&kp);) EXIT(unregister_kprobe(&kp);)
#define WITH_KRETPROBE(...) static struct kretprobe rp = { __VA_ARGS__ }; \\
    INIT(return register_kretprobe(&rp);) EXIT(unregister_kretprobe(&rp);)
"""
LICENSE = 'MODULE_LICENSE("GPL");\n'


@functools.cache
def _folder() -> Path:
    """Return the folder of modules that this compiler makes with these headers.

    It stays for the next run; folders of other headers go after a week.
    """
    compiler = subprocess.run(["gcc", "--version"], capture_output=True, check=True)
    digest = hashlib.sha256(compiler.stdout)
    headers = [*(ROOT / "guest" / "include").rglob("*"), *SOURCES.glob("*.h")]
    for path in (ROOT / "kpfs" / "bin" / "build-module", *sorted(headers)):
        digest.update(path.read_bytes() if path.is_file() else b"")
    folder = harness.kernels() / "modules" / digest.hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder)
    for other in folder.parent.iterdir():
        if other.stat().st_mtime < time.time() - harness.WEEK:
            shutil.rmtree(other, ignore_errors=True)
    return folder


def need_compiler() -> None:
    """Skip the test where there is none."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is missing (Debian: gcc)")


def build(name: str, text: str | None = None, *options: str) -> Path:
    """Compile a text, or the file of that name in tests/modules; return NAME.ko.

    Where there is no compiler the test is skipped.
    """
    need_compiler()
    source = SOURCES / f"{name}.c"
    words = repr((name, text or source.read_text(), options))
    key = hashlib.sha256(words.encode()).hexdigest()[:16]
    kept = _folder() / key
    if not kept.exists():
        made = Path(tempfile.mkdtemp(dir=_folder()))
        if text is not None:
            source = made / f"{name}.c"
            source.write_text(text)
        tool = ROOT / "scripts" / "build-module"
        done = harness.run(
            tool, "--in-tree", *options, "-o", f"{name}.ko", source, cwd=made
        )
        assert done.returncode == 0, done.stderr
        assert "warning" not in done.stderr, done.stderr
        try:
            made.rename(kept)
        except OSError:  # another worker was faster
            shutil.rmtree(made)
    return kept / f"{name}.ko"


def module(name: str, body: str, *options: str) -> Path:
    """Build a module of a body, to which the head and the licence are added."""
    return build(name, HEAD + body + LICENSE, *options)


class Box(box.Box):
    """A kernel for loading modules, with questions that tests ask of it."""

    def __init__(self, nr_cpus: int = 2, config: Config = DEFAULTS) -> None:
        super().__init__(nr_cpus, config)
        # its import, where it is compiled first, is not to count as a guest's time
        _ = self.kernel.guest.backtrace
        self._seq = 0

    # ---- modules
    def rmmod(self, name: str) -> None:
        self.write("/machine/rmmod", f"{name}\n")

    def modules(self) -> list[str]:
        """Return the names of the loaded modules, the newest first."""
        return [line.split()[0] for line in self.read("/modules").splitlines()]

    def log(self) -> list[str]:
        """Return the kernel's messages since the last call."""
        records = self.kernel.guest.log.records(self._seq)
        if records:
            self._seq = records[-1].seq + 1
        return [r.text.decode() for r in records]

    # ---- the guest
    def syscall(self, name: str, *args: int | str, pid: int = 777_000) -> int:
        """Have a process make a system call."""
        task = self.kernel.guest.host_tasks.of_process(pid, 0, "caller", 1)
        return self.kernel.guest.syscalls.call(task, name, *args)

    def call_in(self, pid: int, symbol: str, *args: int) -> int:
        """Have a process call a function of a module, which may kill it."""
        guest = self.kernel.guest
        task = guest.host_tasks.of_process(pid, 0, "caller", 1)
        return guest.syscalls.call_function(task, self.address(symbol), *args)

    def call_int(self, function: str, *args: int) -> int:
        """Run a function that returns an int: the upper half of rax is nobody's."""
        return ctypes.c_int(self.call(function, *args)).value

    def settle(self, ticks: int = 8) -> None:
        """Advance the clock: the optimizer runs, freed memory is given back."""
        for _ in range(ticks):
            self.kernel.guest.tick()

    def int_at(self, symbol: str) -> int:
        raw = self.kernel.guest.read(self.address(symbol), 4)
        return int.from_bytes(raw, "little", signed=True)

    def list(self) -> list[str]:
        """Return the lines of kprobes/list without addresses, with single blanks."""
        lines = self.read("/kprobes/list").splitlines()
        return [" ".join(line.split()[1:]) for line in lines]


def refused(box: Box, number: int, *words: Path | str, by: str = "insmod") -> list[str]:
    """Have insmod or rmmod fail with an errno and leave nothing; return the log."""
    box.log()
    free = list(box.kernel.guest.memory.area._free)
    with pytest.raises(KernelError) as e:
        box.write(f"/machine/{by}", " ".join(map(str, words)) + "\n")
    assert errno.errorcode[e.value.errno] == errno.errorcode[number]
    assert box.kernel.guest.memory.area._free == free
    return box.log()
