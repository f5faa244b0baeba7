# SPDX-License-Identifier: GPL-2.0-or-later
"""ftracetest of a kernel's own version, inside that kernel and in QEMU, test by test.

Each folder of tests is one run inside and one in QEMU, at once, with the same programs,
those of Debian's packages. A test that QEMU's kernel does not survive, or in which it
hangs, is left out there and counted as ``not in QEMU``. ``python -m
tests.campaign.selftests KERNEL [FILE...]`` prints a table of folders and times; names
of files may be cut short, as ``kprobe`` or ``ftrace/fgraph``.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from bench.command import KPFS, NotHereError
from kpfs.linux.arch.arches import split_name
from kpfs.linux.distribution import deb_archive, debian, fetch
from kpfs.linux.distribution.deb_archive import Suite
from kpfs.linux.distribution.fetch import MissingError
from kpfs.linux.distribution.offer import Access
from kpfs.linux.errors import UnfitError
from kpfs.linux.make import cpio
from tests import harness
from tests.campaign.hunt import Hunt, Part
from tests.harness import WrongError
from tests.qemu import QemuKernel

KERNELS = ("6.12-s390x", "6.12-ppc64el", "6.12-armhf", "6.1-i386", "6.1-mips64el")
FTRACE = "tools/testing/selftests/ftrace"
SUITES = (
    *("bookworm", "bookworm-backports", "trixie", "trixie-backports", "sid"),
    "experimental",
)
# what the tests call, and what that needs
PROGRAMS = tuple(
    """
    base-files bash busybox-static coreutils dash debianutils diffutils findutils gawk
    grep hostname iputils-ping kmod libacl1 libattr1 libaudit1 libblkid1 libc6
    libcap-ng0 libcap2 libcrypt1 libgcc-s1 libgcrypt20 libgmp10 libgpg-error0 libidn2-0
    libkmod2 liblz4-1 liblzma5 libmount1 libmpfr6 libncursesw6 libpcre2-8-0 libproc2-0
    libreadline8 libselinux1 libsigsegv2 libsmartcols1 libssl3 libsystemd0 libtinfo6
    libunistring2 libuuid1 libzstd1 mount procps sed util-linux zlib1g
    """.split()
)
TIMEOUT = 1200  # s for the tests of a folder
TRIES = 4  # starts of QEMU's kernel for a folder
LOST, HANGS, MISSING = "kernel lost", "does not end", "not reached"
BEGUN = re.compile(r"^\[(\d+)\] ", re.M)
VERDICT = re.compile(r"\t\[([A-Z]+)\]")
INSTANCE = re.compile(r"^#[ \t]*flags:.*instance", re.M)
INIT = """#!/bin/sh
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mount -t debugfs none /sys/kernel/debug; mount -t tracefs none /sys/kernel/tracing
busybox ip link set lo up
{}
busybox reboot -f
"""
ROW = "{:14} {:12} {:>5} {:>5} {:>6} {:>8} {:>8}  {}"


class Runs(NamedTuple):
    """The verdicts of some tests, and the processor time that they took."""

    verdicts: Mapping[str, str]
    seconds: float


class Compared(NamedTuple):
    """A folder of tests, inside a kernel and in QEMU."""

    folder: str
    inside: Runs
    qemu: Runs

    def only_inside(self) -> list[str]:
        """Return the tests for which QEMU has no verdict."""
        there = self.qemu.verdicts
        return [test for test in self.inside.verdicts if _lacks(there.get(test))]

    def equal(self) -> list[str]:
        """Return the tests that end inside as in QEMU."""
        both = self.inside.verdicts.items() & self.qemu.verdicts.items()
        return [test for test, verdict in both if not _lacks(verdict)]

    def differences(self) -> list[str]:
        """Return a line for each test that ends inside otherwise than in QEMU."""
        there = {t: v for t, v in self.qemu.verdicts.items() if not _lacks(v)}
        found = {test: self.inside.verdicts.get(test, MISSING) for test in there}
        return [
            f"{test}: {verdict}, in QEMU {there[test]}"
            for test, verdict in found.items()
            if verdict != there[test]
        ]


def _lacks(verdict: str | None) -> bool:
    """Return True unless a test came to an end of its own."""
    return verdict in (None, LOST, HANGS)


def read_verdicts(tests: Mapping[str, str], said: str, *, late: bool) -> dict[str, str]:
    """Return the verdicts of tests, by their files, as far as ftracetest came.

    tests: their text by file, in their order. said: its output, in which a kernel may
    have put lines of its own. late: it was ended from outside.
    """
    names = [*tests]
    names += [f"{name} (instance)" for name in tests if INSTANCE.search(tests[name])]
    parts = BEGUN.split(said.replace("\r", ""))[1:]
    found = {}
    for number, text in zip(parts[::2], parts[1::2], strict=True):
        verdict = VERDICT.search(text)
        found[names[int(number) - 1]] = (
            verdict[1] if verdict else HANGS if late else LOST
        )
    return found


class Ftracetest:
    """The tests of a kernel's version, and a root for them."""

    def __init__(self, kernel: str, scratch: Path) -> None:
        """Fetch what is needed.  Raises NotHereError, UnfitError."""
        self.kernel, self.scratch = kernel, scratch
        self.running: list[subprocess.Popen[bytes]] = []
        self.stopped = False
        _, arch = split_name(kernel)
        if reason := harness.missing_kernels(kernel):
            raise NotHereError(reason)
        self.qemu = QemuKernel(kernel, scratch)
        suite = "sid" if arch == "riscv64" else SUITES[0]
        programs = harness.made_root(arch, suite, PROGRAMS, "ftracetest")
        self.root = scratch / "root"
        shutil.copytree(programs, self.root, symlinks=True)
        (self.root / "usr/bin/awk").symlink_to("gawk")  # as its scripts would
        for name in ("dev", "proc", "sys"):
            (self.root / name).mkdir(exist_ok=True)
        series = re.match(r"\d+\.\d+", kernel)
        if not series:
            raise NotHereError(f"{kernel} does not name a series")
        shutil.copytree(source(series[0]), self.root / "ftrace")
        self.entries = list(_entries(self.root))

    def folders(self) -> dict[str, dict[str, str]]:
        """Return the tests by folder: their text by file."""
        found: dict[str, dict[str, str]] = {}
        top = self.root / "ftrace/test.d"
        for path in sorted(top.rglob("*.tc")):
            file = str(path.relative_to(top))
            if (folder := file.partition("/")[0]) != "template":
                found.setdefault(folder, {})[file] = path.read_text()
        return found

    def stop(self, *_: object) -> None:
        """End the runs; what they said so far counts."""
        self.stopped = True
        for child in self.running:
            child.terminate()

    def compare(self, folder: str, tests: Mapping[str, str]) -> Compared:
        with ThreadPoolExecutor(2) as pool:
            inside = pool.submit(self.run_inside, tests)
            qemu = pool.submit(self.run_in_qemu, tests)
            return Compared(folder, inside.result(), qemu.result())

    def run_inside(self, tests: Mapping[str, str]) -> Runs:
        words = "--kernel", self.kernel, "--inside", "--root", self.root
        return self._run([KPFS, "run", *words, "--", "sh", "-c", _script(tests)], tests)

    def run_in_qemu(self, tests: Mapping[str, str]) -> Runs:
        """Run tests in QEMU, again without those that its kernel does not survive."""
        verdicts: dict[str, str] = {}
        seconds, left = 0.0, dict(tests)
        for _ in range(TRIES):
            init = INIT.format(_script(left)).encode()
            first = cpio.CpioEntry("init", cpio.PROGRAM, init)
            initrd = self.scratch / "initrd"
            initrd.write_bytes(cpio.archive([*self.entries, first]))
            runs = self._run(self.qemu.command(initrd, "rdinit=/init"), left)
            verdicts |= runs.verdicts
            seconds += runs.seconds
            wrong = [each for each, how in runs.verdicts.items() if _lacks(how)]
            if not wrong or self.stopped:
                break
            left.pop(wrong[0].removesuffix(" (instance)"))
        return Runs(verdicts, seconds)

    def _run(self, words: Sequence[str | Path], tests: Mapping[str, str]) -> Runs:
        """Run a command; measure what it and its children take."""
        environment = {
            **os.environ,
            "XDG_DATA_HOME": str(harness.kernels()),
            "KPFS_WARM": "0",  # whose time nobody would measure
        }
        with tempfile.TemporaryFile("w+", errors="replace") as console:
            timed = ["timeout", "--kill-after=9", str(TIMEOUT), *words]
            child = subprocess.Popen(
                timed, stdin=subprocess.DEVNULL, stdout=console,
                stderr=subprocess.STDOUT, env=environment,
            )  # fmt: skip
            self.running.append(child)
            _, status, usage = os.wait4(child.pid, 0)
            self.running.remove(child)
            child.returncode = os.waitstatus_to_exitcode(status)
            console.seek(0)
            late = self.stopped or child.returncode in (124, 137)
            said = console.read()
            verdicts = read_verdicts(tests, said, late=late)
        if not verdicts and not self.stopped:
            raise WrongError(f"no test has begun: {said[-300:].strip()}")
        return Runs(verdicts, usage.ru_utime + usage.ru_stime)


def _script(tests: Mapping[str, str]) -> str:
    files = " ".join(f"test.d/{file}" for file in tests)
    return f"cd /ftrace && ./ftracetest -l /tmp/logs {files}"


def _entries(root: Path) -> Iterator[cpio.CpioEntry]:
    for path in sorted(root.rglob("*")):
        name, mode = str(path.relative_to(root)), path.lstat().st_mode
        if stat.S_ISLNK(mode):
            yield cpio.CpioEntry(name, mode, os.readlink(path).encode())
        elif stat.S_ISREG(mode):
            yield cpio.CpioEntry(name, mode, path.read_bytes())
        elif stat.S_ISDIR(mode):
            yield cpio.CpioEntry(name, mode)


def source(series: str) -> Path:
    """Return ftracetest of a series of kernels, out of Debian's source of it."""

    def make(folder: Path) -> None:
        package = f"linux-source-{series}"
        for suite in SUITES:
            place = Suite(debian.MIRROR, suite)
            args = place, "amd64", debian.KEYS, Access(), re.escape(package)
            try:
                found = deb_archive.packages(*args)
            except MissingError:
                continue
            if package in found:
                break
        else:
            raise NotHereError(f"Debian has no {package}")
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            deb = fetch.save(found[package].file, scratch)
            subprocess.run(["dpkg", "-x", deb, scratch], check=True)
            (packed,) = Path(scratch, "usr/src").glob(f"{package}.tar.xz")
            words = "tar", "-xf", packed, "-C", folder, "--strip-components=5"
            subprocess.run([*words, f"{package}/{FTRACE}"], check=True)

    return harness.kept(("ftracetest", series), make)


def run(hunt: Hunt) -> None:
    for kernel in [hunt.kernel] if hunt.kernel else KERNELS:
        (scratch := hunt.scratch / kernel).mkdir()
        try:
            suite = Ftracetest(kernel, scratch)
        except NotHereError as error:
            hunt.did(0, f"without {kernel}: {error}")
            continue
        for folder, tests in suite.folders().items():
            if not hunt.more():
                return
            some = dict(itertools.islice(tests.items(), hunt.left(len(tests))))
            try:
                compared = suite.compare(folder, some)
            except WrongError as error:
                hunt.finding(f"{kernel}: {error}")
                break
            for line in compared.differences():
                hunt.finding(f"{kernel}: {line}")
            hunt.did(len(some), kernel)
            for test in compared.only_inside():
                hunt.did(0, f"not in QEMU: {test}")


def table(kernel: str, wanted: Sequence[str]) -> None:
    """Print how folders of tests end, beside QEMU."""
    print(ROW.format("kernel", "folder", "tests", "equal", "differ", "s", "QEMU", ""))
    with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch:
        suite = Ftracetest(kernel, Path(scratch))
        signal.signal(signal.SIGTERM, suite.stop)
        for folder, tests in suite.folders().items():
            some = {
                file: text
                for file, text in tests.items()
                if not wanted or file.startswith(tuple(wanted))
            }
            if not some or suite.stopped:
                continue
            compared = suite.compare(folder, some)
            inside, qemu = compared.inside, compared.qemu
            differences, alone = compared.differences(), compared.only_inside()
            count = len(inside.verdicts)
            equal = len(compared.equal())
            kinds = Counter(inside.verdicts.values()).items()
            said = ", ".join(f"{n} {kind}" for kind, n in kinds)
            numbers = count, equal, len(differences)
            took = f"{inside.seconds:.0f}", f"{qemu.seconds:.0f}"
            print(ROW.format(kernel, folder, *numbers, *took, said), flush=True)
            for line in differences:
                print(f"  {line}")
            for test in alone:
                why = qemu.verdicts.get(test, MISSING)
                print(f"  {test}: {inside.verdicts[test]}, not in QEMU: {why}")


PART = Part("tests", 1000, 4.0, run, kernels=True)


if __name__ == "__main__":
    try:
        table(sys.argv[1], sys.argv[2:])
    except (NotHereError, UnfitError, WrongError) as error:
        sys.exit(str(error))
