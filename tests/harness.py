# SPDX-License-Identifier: GPL-2.0-or-later
"""Helpers for tests of whole commands: running kpfs, and its requirements."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench import command
from kpfs.base.errors import SetupError
from kpfs.host.mounts import fusermount
from kpfs.linux.distribution import deb_archive, debian, fetch
from kpfs.linux.distribution.deb_archive import Suite
from kpfs.linux.distribution.offer import Access

ROOT, KPFS, TIMEOUT = command.ROOT, command.KPFS, command.TIMEOUT
CONFORMANCE = ROOT / "tests" / "conformance"
ORACLE = Path(os.environ.get("KPFS_ORACLE", ROOT / "../shared/oracle/run"))
GRAVE = re.compile(r"kpfs\[\d+\] (WARNING|ERROR|CRITICAL) ")
NOBODY = 65534
WEEK = 7 * 86400.0  # s
KERNEL = "6.1-cloud"  # the smallest that apt offers
TWO_CPUS, TWO_CPUS_PACKAGE = "6.12-cloud-2", "6.12-cloud"
WITH_PARAMETERS = f"{KERNEL}+cpus=2+preempt=full"
LOCKED = tuple(
    f"{KERNEL}+lockdown={level}" for level in ("integrity", "confidentiality")
)
ARM64 = "6.12-cloud-arm64"
ARM64_TWO_CPUS = "6.12-cloud-arm64-2"
RISCV64 = "6.12-riscv64"
RISCV64_TWO_CPUS = "6.12-riscv64-2"
S390X = "6.12-s390x"
PPC64, OLD_PPC64 = "6.12-ppc64el", "6.1-ppc64el"
S390X_TWO_CPUS, PPC64_TWO_CPUS = f"{S390X}+cpus=2", f"{PPC64}+cpus=2"
ARMHF, I386, MIPS64 = "6.12-armhf", "6.1-i386", "6.1-mips64el"
NEW_MIPS64 = "6.12-mips64el"
ARMHF_TWO_CPUS, I386_TWO_CPUS = f"{ARMHF}+cpus=2", f"{I386}+cpus=2"
MIPS64_TWO_CPUS = f"{MIPS64}+cpus=2"
FOREIGN = ARM64, RISCV64, S390X, PPC64, ARMHF, I386, MIPS64, NEW_MIPS64
# of these, the ones for all: another byte order, and longs of 32 bits
EXEMPLARS = S390X, ARMHF
KERNELS = {  # by markers of the tests that run them
    "kernel": (KERNEL,),
    "two_cpus": (TWO_CPUS,),
    "parameters": (WITH_PARAMETERS,),
    "locked": LOCKED,
    "arm64_kernel": (ARM64,),
    "arm64_two_cpus": (ARM64_TWO_CPUS,),
    "riscv64_kernel": (RISCV64,),
    "riscv64_two_cpus": (RISCV64_TWO_CPUS,),
    "s390x_kernel": (S390X,),
    "ppc64_kernel": (PPC64,),
    "old_ppc64_kernel": (OLD_PPC64,),
    "s390x_two_cpus": (S390X_TWO_CPUS,),
    "ppc64_two_cpus": (PPC64_TWO_CPUS,),
    "armhf_kernel": (ARMHF,),
    "i386_kernel": (I386,),
    "armhf_two_cpus": (ARMHF_TWO_CPUS,),
    "i386_two_cpus": (I386_TWO_CPUS,),
    "mips64_kernel": (MIPS64,),
    "mips64_two_cpus": (MIPS64_TWO_CPUS,),
    "new_mips64_kernel": (NEW_MIPS64,),
}
# the packages of those with two CPUs
PACKAGES = {
    TWO_CPUS: TWO_CPUS_PACKAGE,
    ARM64_TWO_CPUS: ARM64,
    RISCV64_TWO_CPUS: RISCV64,
}


def needed_by(kernel: str) -> Any:
    """Return the marker of tests that run this Linux kernel."""
    (name,) = (marker for marker, names in KERNELS.items() if kernel in names)
    return getattr(pytest.mark, name)


def on(kernel: str, *values: object, marks: Iterable[Any] = (), id: Any = None) -> Any:
    """Return a row of parameters: a Linux kernel, with its marker, and more."""
    marks = needed_by(kernel), *marks
    return pytest.param(kernel, *values, marks=marks, id=id)


def repeated_on(kernel: str) -> list[Any]:
    """Return the markers of a test that is repeated on several architectures.

    It is slow on those of FOREIGN for which EXEMPLARS stand.
    """
    rare = kernel.startswith(FOREIGN) and not kernel.startswith(EXEMPLARS)
    return [needed_by(kernel), *[pytest.mark.slow] * rare]


def on_each(rows: Iterable[str | tuple[Any, ...]]) -> list[Any]:
    """Return rows of a repeated test: kernels, or tuples that begin with one."""
    whole = [(row,) if isinstance(row, str) else row for row in rows]
    return [pytest.param(*row, marks=repeated_on(row[0])) for row in whole]


def missing_fuse() -> str:
    """Return why tests that mount cannot run; "" if they can."""
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"/dev/fuse: {error.strerror}"
    if os.geteuid() != 0 and not fusermount():
        return "fusermount is not installed (Debian: fuse3)"
    return ""


@functools.cache
def missing_libfuse() -> str:
    """Return why tests of the transport libfuse cannot run; "" if they can."""
    try:
        import kpfs.fs.fuse.libfuse  # noqa: F401 it loads the library
    except SetupError as error:
        return str(error)
    return missing_fuse()


def missing_user() -> str:
    """Return why tests as an ordinary user cannot run; "" if they can."""
    if os.geteuid() != 0:
        return ""  # these tests then run as ourselves
    if not shutil.which("setpriv") or not shutil.which("unshare"):
        return "setpriv and unshare are not installed (Debian: util-linux)"
    return missing_fuse()


def missing_oracle() -> str:
    """Return why no Linux kernel can be asked; "" if one can."""
    return "" if os.access(ORACLE, os.X_OK) else f"{ORACLE} is not there"


@functools.cache
def missing_kernels(*names: str) -> str:
    """Make Linux kernels if need be; return why there are none, or "".

    They are kept for the next run, and made anew if an older kpfs has made them.
    """
    return missing_fuse() or "".join(map(_missing_image, names))


ARM64_PACKAGES = "libc6", "dash", "busybox", "coreutils", "libselinux1", "libpcre2-8-0"


def arm64_root() -> Path:
    """Return a folder with programs of arm64, downloaded when it is first needed."""
    return made_root("arm64", "bookworm", ARM64_PACKAGES)


def riscv64_root() -> Path:
    """Return a folder with busybox of riscv64, downloaded when it is first needed."""
    return made_root("riscv64", "sid", ("busybox-static",))


def s390x_root() -> Path:
    """Return a folder with busybox of s390x, downloaded when it is first needed."""
    return made_root("s390x", "bookworm", ("busybox-static",))


def armhf_root() -> Path:
    """Return a folder with busybox of armhf, downloaded when it is first needed."""
    return made_root("armhf", "bookworm", ("busybox-static",))


def i386_root() -> Path:
    """Return a folder with busybox of i386, downloaded when it is first needed."""
    return made_root("i386", "bookworm", ("busybox-static",))


def mips64_root() -> Path:
    """Return a folder with busybox of mips64el, downloaded when it is first needed."""
    return made_root("mips64el", "bookworm", ("busybox-static",))


def ppc64_root() -> Path:
    """Return a folder with busybox of ppc64el, downloaded when it is first needed."""
    return made_root("ppc64el", "bookworm", ("busybox-static",))


@functools.cache
def made_root(arch: str, suite: str, names: tuple[str, ...], of: str = "root") -> Path:
    """Return a folder with packages of Debian, downloaded when it is first needed."""
    root = kernels() / f"{arch}-{of}"
    with exclusive(root.name):
        if not root.exists():
            with tempfile.TemporaryDirectory(dir=kernels()) as scratch:
                unpack_packages(arch, suite, names, Path(scratch)).rename(root)
    return root


def unpack_packages(
    arch: str, suite: str, names: tuple[str, ...], scratch: Path
) -> Path:
    """Download packages of Debian, unpack them into a new root, and return that."""
    root = scratch / "root"
    for place in ("usr/bin", "usr/sbin", "usr/lib", "tmp"):
        (root / place).mkdir(parents=True)
    for name in ("bin", "sbin", "lib"):
        (root / name).symlink_to(f"usr/{name}")
    source, wanted = Suite(debian.MIRROR, suite), "|".join(map(re.escape, names))
    there = deb_archive.packages(source, arch, debian.KEYS, Access(), wanted)
    for name in names:
        package = fetch.save(there[name].file, str(scratch))
        subprocess.run(["dpkg", "-x", package, root], check=True)
    if not (root / "bin" / "sh").exists():
        (root / "bin" / "sh").symlink_to("busybox")
    return root


def _missing_image(name: str) -> str:
    options = ("--package", PACKAGES[name], "--cpus", "2") if name in PACKAGES else ()
    environment = {**os.environ, "XDG_DATA_HOME": str(kernels())}

    def make(folder: Path) -> None:
        command.prepare()
        for words in (("show", name), ("make", name, *options)):
            done = run(KPFS, "kernel", *words, env=environment)
            if not done.returncode:
                break
        why = done.stderr.strip() if done.returncode else ""
        # what is not to be had may be skipped, but not what kpfs does wrong
        assert not why or re.match(r"kpfs: https?://.*$", why), why
        (folder / "why").write_text(why)

    return (once(f"kernel-{name}", make) / "why").read_text()


def kernels() -> Path:
    """Return the XDG_DATA_HOME of tests that run a Linux kernel."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(cache, "kpfs-tests")


def own_kernels(data: Path, names: Mapping[str, str]) -> Path:
    """Return a folder of kernels below XDG_DATA_HOME, with made ones by other names.

    A test may make and remove kernels there, and other tests keep theirs.
    """
    folder = data / "kpfs" / "kernels"
    folder.mkdir(parents=True)
    for name, made in names.items():
        (folder / name).symlink_to(kernels() / "kpfs" / "kernels" / made)
    return folder


@contextlib.contextmanager
def exclusive(name: str) -> Iterator[None]:
    """Hold a named lock against other workers and other runs of this user."""
    kernels().mkdir(parents=True, exist_ok=True)
    with open(kernels() / f"{name}.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run_folder() -> Path:
    """Return the folder of this run of tests, for all its workers and any user."""
    run = os.environ.setdefault("KPFS_TESTS_RUN", str(os.getpid()))
    return Path("/var/tmp") / f"kpfs-tests-{run}"


def once(name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder that the first worker of this run to ask for it has filled."""
    folder = run_folder() / name
    with exclusive(f"once-{name}"):
        return _filled(folder, make)


def kept(what: object, make: Callable[[Path], None]) -> Path:
    """Return a folder that this run or an earlier one has filled.

    what: all that decides what is made, whose repr() is unambiguous. What no run has
    asked for in a week goes.
    """
    digest = hashlib.sha256(repr(what).encode()).hexdigest()[:16]
    folder = kernels() / "kept" / digest
    with exclusive("kept"):
        if not folder.exists() and folder.parent.exists():
            for other in folder.parent.iterdir():
                if other.stat().st_mtime < time.time() - WEEK:
                    shutil.rmtree(other)
        _filled(folder, make)
        os.utime(folder)
    return folder


def _filled(folder: Path, make: Callable[[Path], None]) -> Path:
    if not (folder / "made").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        make(folder)
        (folder / "made").touch()
    return folder


class WrongError(Exception):
    """Raised when something that must hold does not."""


# the command in an interpreter of its own, once some constants were changed
PATCHED = """
import importlib, sys
sys.path[:0] = ["{root}"]
for name, value in {constants}.items():
    module, _, name = name.rpartition(".")
    setattr(importlib.import_module(module), name, value)
importlib.import_module("kpfs.cli").script()
"""


class Kpfs(command.Command):
    """The command for tests, which at the end checks the log."""

    def __init__(self, scratch: Path) -> None:
        super().__init__(scratch)
        self.announced: list[str] = []
        self.constants: dict[str, float] = {}  # by dotted name: what they shall be

    def command(self, *words: str | Path) -> list[str]:
        line = super().command(*words)
        if self.constants:
            code = PATCHED.format(root=ROOT, constants=self.constants)
            line[:1] = [sys.executable, "-c", code]
        return line

    def sh(self, script: str, **options: object) -> subprocess.CompletedProcess[str]:
        """Run ``kpfs run -- sh -c script``."""
        return self("run", "--", "sh", "-c", script, **options)

    @contextlib.contextmanager
    def started(self, *words: str, **options: Any) -> Iterator[Any]:
        """Yield the command as a process that runs, whose stdout is a pipe."""
        command = self.command(*words)
        with subprocess.Popen(command, stdout=subprocess.PIPE, **options) as process:
            yield process

    def announce(self, pattern: str) -> None:
        """Allow warnings in the log that match pattern."""
        self.announced.append(pattern)

    def grave_lines(self) -> list[str]:
        """Return lines of the log at WARNING or above that no test announced."""
        if not self.log.exists():
            return []
        lines = self.log.read_text(errors="replace").splitlines()
        return [
            line
            for line in lines
            if GRAVE.search(line)
            and not any(re.search(pattern, line) for pattern in self.announced)
        ]

    def finish(self) -> None:
        """Unmount what is still mounted, and complain about the log."""
        for target in self.mounted:
            if is_mounted(target):
                self("umount", target)
        assert self.grave_lines() == [], f"unannounced in {self.log}"


def run(*words: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; its stdout and stderr are kept as text."""
    return subprocess.run(words, capture_output=True, text=True, **options)


def is_mounted(target: Path) -> bool:
    """Return True if the mount table has target."""
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        return any(line.split()[4] == str(target) for line in table)


def daemon_of(target: Path) -> int:
    """Return the pid of the daemon that serves target."""
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        for line in table:
            if line.split()[4] == str(target):
                return int(line.split(" - ")[1].split()[1].removeprefix("kpfs:"))
    raise AssertionError(f"{target} is not mounted")


def alive(pid: int) -> bool:
    """Return True if pid is a process that has not ended; a zombie has ended."""
    return state(pid) not in ("", "Z")


def kill(pid: int, number: signal.Signals) -> None:
    """Send a signal, and wait until the process has ended."""
    handle = os.pidfd_open(pid)
    try:
        os.kill(pid, number)
        wait_for(handle, f"process {pid} goes on after {number.name}")
    finally:
        os.close(handle)


def children(pid: int) -> list[int]:
    """Return the children of a process's first thread."""
    return [
        int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    ]


def kill_with_child(process: subprocess.Popen[Any], complaint: str) -> None:
    """Kill a process as soon as it has a child, which must end as well."""
    until(lambda: children(process.pid), "it starts nothing")
    (child,) = children(process.pid)
    handle = os.pidfd_open(child)
    process.kill()
    process.wait()
    wait_for(handle, complaint)
    os.close(handle)


def wait_for(fd: int, complaint: str, seconds: float = TIMEOUT) -> None:
    """Wait until fd is readable (a pidfd: until its process has ended)."""
    import select

    ready = select.poll()
    ready.register(fd, select.POLLIN)
    assert ready.poll(seconds * 1000), complaint


def until(
    ready: Callable[[], object],
    complaint: str,
    seconds: float = TIMEOUT,
    every: float = 0.01,
) -> None:
    """Wait until ready() is true, and ask it so often (s)."""
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, complaint
        time.sleep(every)


def state(pid: int) -> str:
    """Return the letter of proc(5) for what a process does; "" if there is none."""
    with contextlib.suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        return stat.rpartition(")")[2].split()[0]
    return ""


def await_blocked(child: subprocess.Popen[Any], path: Path) -> None:
    """Wait until a child has opened a file and sleeps, as a blocked reader does."""

    def waits() -> bool:
        with contextlib.suppress(OSError):
            folder = f"/proc/{child.pid}/fd"
            links = [os.readlink(f"{folder}/{name}") for name in os.listdir(folder)]
            return str(path) in links and state(child.pid) == "S"
        return False

    until(waits, f"{child.args!r} does not wait for {path}")
    assert child.poll() is None


def cpu_time(pid: int) -> float:
    """Return how long a process has run, in s."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def copy_checkout(target: Path) -> None:
    """Copy the parts of the project that a user needs, as in a fresh clone."""
    skip = shutil.ignore_patterns("__pycache__")
    linked = [path.name for path in (ROOT / "kpfs").iterdir() if path.is_symlink()]
    for name in ("kpfs", *linked, "requirements", "scripts", "bench"):
        shutil.copytree(ROOT / name, target / name, symlinks=True, ignore=skip)
    shutil.copy(ROOT / "pyproject.toml", target)


def user_name() -> str:
    """Return the name of the user that runs the tests."""
    return pwd.getpwuid(os.geteuid()).pw_name


def pip_settings() -> dict[str, str]:
    """Return the environment variables that say where packages come from."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith("PIP_") or name.lower().endswith("_proxy")
    }
