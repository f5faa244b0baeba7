# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel that is measured in QEMU, which emulates the processor too (no KVM)."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from time import perf_counter

from bench.command import NotHereError
from kpfs.linux.arch.arches import X86_64
from kpfs.linux.distribution import distributions, fetch
from kpfs.linux.make import cpio
from kpfs.linux.package import packages

HERE = Path(__file__).parent
QEMU = "qemu-system-x86_64"
TIMEOUT = 180  # s
FIRST_LIST = "first_list"  # seconds to it, in what figures() gives
OPEN_READ_CLOSE = "open_read_close"
# as Debian's compilers are called
TRIPLETS = {
    "x86": "x86_64-linux-gnu",
    "i386": "i686-linux-gnu",
    "arm64": "aarch64-linux-gnu",
    "armhf": "arm-linux-gnueabihf",
    "mips64": "mips64el-linux-gnuabi64",
    "ppc64": "powerpc64le-linux-gnu",
    "riscv64": "riscv64-linux-gnu",
    "s390x": "s390x-linux-gnu",
}
BEGIN = "@@@"  # the console may show something of before
APPEND = "console=ttyS0 quiet loglevel=1 nokaslr"
SETUP = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
mount -t debugfs none /sys/kernel/debug; mount -t tracefs none /sys/kernel/tracing
"""
HITS = f"""export KPROBES=/sys/kernel/debug/kprobes TRACING=/sys/kernel/tracing
export SYSCTL=/proc/sys/debug/kprobes-optimization
cat $KPROBES/list; echo {BEGIN}{FIRST_LIST}
echo "{BEGIN}{OPEN_READ_CLOSE} $(getppid 15 $KPROBES/list)"
sh /getppid.sh | sed s/^/{BEGIN}/
"""


def build(folder: str, name: str = "getppid", arch: str = X86_64.name) -> str:
    """The program of bench/NAME.c, static, below a folder, for an architecture."""
    program = f"{folder}/{name}"
    compiler = f"{TRIPLETS[arch]}-gcc"
    words = [compiler, "-O2", "-static", "-o", program, str(HERE / f"{name}.c")]
    try:
        subprocess.run(words, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotHereError(f"{compiler} cannot make a static program") from error
    return program


def figures(name: str) -> dict[str, float]:
    """Seconds to the first list, and microseconds of all else.

    "base" is a call without a probe.

    NotHereError: something is missing.
    """
    return run(name, "getppid", HITS)


def run(name: str, program: str, script: str) -> dict[str, float]:
    """Run a shell script in a kernel, beside a program of this folder.

    Returns microseconds by what stands behind BEGIN, with the nanoseconds behind that;
    the least where it comes several times.
    NotHereError: something is missing.
    """
    missing = [each for each in (QEMU, "busybox") if not shutil.which(each)]
    if missing:
        raise NotHereError(f"{' and '.join(missing)} missing")
    with tempfile.TemporaryDirectory() as folder:
        kernel, initrd = Path(folder) / "vmlinuz", Path(folder) / "initrd"
        kernel.write_bytes(fetch_kernel(name))
        initrd.write_bytes(_root(build(folder, program), script))
        return _asked(kernel, initrd)


def fetch_kernel(name: str) -> bytes:
    """Fetch the vmlinuz of a kernel's package.  Raises NotHereError, UnfitError."""
    if not distributions.is_name(name):
        raise NotHereError(f"{name} is of no package, so its file is not known")
    with tempfile.TemporaryDirectory() as folder:
        files = [fetch.save(file, folder) for file in distributions.find(name).files]
        return packages.read_packages(files).vmlinuz


def _root(program: str, script: str) -> bytes:
    """The first file system."""
    folders = "bin", "proc", "sys", "dev", "tmp"
    files = {
        "init": f"{SETUP}{script}poweroff -f\n".encode(),
        "getppid.sh": (HERE / "getppid.sh").read_bytes(),
        f"bin/{Path(program).name}": Path(program).read_bytes(),
        "bin/busybox": Path(shutil.which("busybox") or "").read_bytes(),
    }
    entries = [cpio.CpioEntry(each, cpio.DIRECTORY) for each in folders]
    entries += [
        cpio.CpioEntry(each, cpio.PROGRAM, data) for each, data in files.items()
    ]
    return cpio.archive(entries)


def _asked(kernel: Path, initrd: Path) -> dict[str, float]:
    took: dict[str, float] = {}
    words = [QEMU, "-M", "q35", "-cpu", "max", "-m", "1G", "-nographic", "-no-reboot"]
    words += ["-kernel", str(kernel), "-initrd", str(initrd), "-append", APPEND]
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    begin = perf_counter()
    with subprocess.Popen(words, stdin=null, stdout=pipe, stderr=null) as qemu:
        assert qemu.stdout
        signal.signal(signal.SIGALRM, lambda *_: qemu.kill())
        signal.alarm(TIMEOUT)
        for line in qemu.stdout:
            _, mark, said = line.decode("latin-1").partition(BEGIN)
            kind, *value = said.split() if mark else [""]
            if kind == FIRST_LIST:
                took[kind] = perf_counter() - begin
            with contextlib.suppress(ValueError):
                if len(value) == 1:
                    us = float(value[0]) / 1e3
                    took[kind] = min(us, took.get(kind, us))
        signal.alarm(0)
    if not took:
        raise NotHereError(f"{os.path.basename(kernel)} does not answer in {QEMU}")
    return took
