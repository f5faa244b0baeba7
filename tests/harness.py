# SPDX-License-Identifier: GPL-2.0-or-later
"""What tests of whole commands share: how to run kpfs, and what it needs here."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import pwd
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench import command

ROOT, KPFS, TIMEOUT = command.ROOT, command.KPFS, command.TIMEOUT
CONFORMANCE = ROOT / "tests" / "conformance"
ORACLE = Path(os.environ.get("KPFS_ORACLE", ROOT / "../shared/oracle/run"))
GRAVE = re.compile(r"kpfs\[\d+\] (WARNING|ERROR|CRITICAL) ")
NOBODY = 65534
KERNEL = "6.1-cloud"  # the smallest that apt offers
TWO_CPUS = "6.1-cloud-2"  # the same


def missing_fuse() -> str:
    """Why the tests that mount cannot run; "" if they can."""
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"/dev/fuse: {error.strerror}"
    if os.geteuid() != 0 and not shutil.which("fusermount"):
        return "fusermount is not installed (Debian: fuse3)"
    return ""


def missing_user() -> str:
    """Why the tests as an ordinary user cannot run; "" if they can."""
    if os.geteuid() != 0:
        return ""  # these tests are then run as who we are
    if not shutil.which("setpriv") or not shutil.which("unshare"):
        return "setpriv and unshare are not installed (Debian: util-linux)"
    return missing_fuse()


def missing_oracle() -> str:
    """Why a real kernel cannot be asked; "" if it can."""
    return "" if os.access(ORACLE, os.X_OK) else f"{ORACLE} is not there"


@functools.cache
def missing_kernel() -> str:
    """Why there is no kernel of a distribution; "" if there is, made now if need be.

    It is kept for the next run, and made anew where it is one of an older kpfs.
    """
    return missing_fuse() or _missing_image(KERNEL)


@functools.cache
def missing_two_cpus() -> str:
    """Why there is no such kernel with two CPUs; "" if there is."""
    source = "--package", KERNEL
    return missing_fuse() or _missing_image(TWO_CPUS, *source, "--cpus", "2")


def _missing_image(name: str, *options: str) -> str:
    environment = {**os.environ, "XDG_DATA_HOME": str(kernels())}
    command.prepare()
    with exclusive("kernels"):  # other workers want it, too
        return _make_image(name, options, environment)


def _make_image(
    name: str, options: tuple[str, ...], environment: dict[str, str]
) -> str:
    for words in (("show", name), ("make", name, *options)):
        done = subprocess.run(
            [str(KPFS), "kernel", *words],
            env=environment,
            capture_output=True,
            text=True,
        )
        if not done.returncode:
            return ""
    return done.stderr.strip()


def kernels() -> Path:
    """XDG_DATA_HOME for the tests that run a kernel of a distribution."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(cache, "kpfs-tests")


@contextlib.contextmanager
def exclusive(name: str) -> Iterator[None]:
    """Keep other workers, and other runs of this user, from what has that name."""
    kernels().mkdir(parents=True, exist_ok=True)
    with open(kernels() / f"{name}.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class WrongError(Exception):
    """Something that must hold does not."""


class Kpfs(command.Command):
    """The command, for tests: at the end it complains about the log."""

    def __init__(self, scratch: Path) -> None:
        super().__init__(scratch)
        self.announced: list[str] = []

    def sh(self, script: str, **options: object) -> subprocess.CompletedProcess[str]:
        """``kpfs run -- sh -c script``."""
        return self("run", "--", "sh", "-c", script, **options)

    def announce(self, pattern: str) -> None:
        """The log may have warnings that match pattern."""
        self.announced.append(pattern)

    def grave_lines(self) -> list[str]:
        """Lines of the log at WARNING or above that nobody announced."""
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


def is_mounted(target: Path) -> bool:
    """Return True if the mount table has target."""
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        return any(line.split()[4] == str(target) for line in table)


def daemon_of(target: Path) -> int:
    """The pid of the daemon that serves target."""
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        for line in table:
            if line.split()[4] == str(target):
                return int(line.split(" - ")[1].split()[1].removeprefix("kpfs:"))
    raise AssertionError(f"{target} is not mounted")


def alive(pid: int) -> bool:
    """Return True if pid is a process that has not ended; a zombie has."""
    return state(pid) not in ("", "Z")


def kill(pid: int, number: signal.Signals) -> None:
    """kill(2), and wait until the process has ended."""
    handle = os.pidfd_open(pid)
    try:
        os.kill(pid, number)
        wait_for(handle, f"process {pid} goes on after {number.name}")
    finally:
        os.close(handle)


def wait_for(fd: int, complaint: str, seconds: float = TIMEOUT) -> None:
    """Wait until fd is readable (a pidfd: until its process has ended)."""
    import select

    ready = select.poll()
    ready.register(fd, select.POLLIN)
    assert ready.poll(seconds * 1000), complaint


def until(
    ready: Callable[[], object], complaint: str, seconds: float = TIMEOUT
) -> None:
    """Wait until ready() is true."""
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, complaint
        time.sleep(0.01)


def state(pid: int) -> str:
    """What a process does, a letter of proc(5); "": there is none."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def await_blocked(child: subprocess.Popen[Any], path: Path) -> None:
    """Wait until a child sleeps that has opened a file, as one does who reads it."""

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
    """What a user needs of the project, as in a fresh clone."""
    skip = shutil.ignore_patterns("__pycache__")
    parts = "kpfs", "engine", "guest", "linux", "requirements", "scripts", "bench"
    for name in parts:
        shutil.copytree(ROOT / name, target / name, symlinks=True, ignore=skip)
    shutil.copy(ROOT / "pyproject.toml", target)


def user_name() -> str:
    """Who we are, by the password database."""
    return pwd.getpwuid(os.geteuid()).pw_name


def pip_settings() -> dict[str, str]:
    """The part of the environment that says where packages come from."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith("PIP_") or name.lower().endswith("_proxy")
    }
