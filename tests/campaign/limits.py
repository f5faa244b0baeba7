# SPDX-License-Identifier: GPL-2.0-or-later
"""Each way to use kpfs under each limit: it works, or one line says why not.

The limits are those of setrlimit(2), full and missing file systems, and a filter of
seccomp(2) around everything. Afterwards no process, mount or half of a file is left.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.command import KPFS, ROOT
from tests import harness
from tests.campaign.hunt import Hunt, Part
from tests.campaign.restrictions import DENY, FINE, FULL, Tries
from tests.harness import WrongError

LONG = 240.0  # s for pytest, whose workers start slowly on a busy machine
FEWEST = 6  # descriptors; with less no shell reads a script
ULIMITS = {
    "n": (FEWEST, 8, 10, 12, 16, 18, 24, 32, 50, 64, 100, 128, 160, 256),
    "v": (50_000, 100_000, 300_000, 600_000, 1_000_000, 1_500_000, 2_097_152),
    "d": (20_000, 1_000_000),
    "u": (0, 1),
    "f": (0, 4, 100),
    "s": (64, 256, 512),
    "t": (1,),
    "l": (0,),
}
NO_PROC = 'mount --make-rprivate /; mount -t tmpfs none /proc; shift; exec "$@"'
NO_SYS = 'mount --make-rprivate /; mount -t tmpfs none /sys; shift; exec "$@"'
NO_SHM = """
mount --make-rprivate /
mkdir -p "$1/dev"; for name in null zero tty urandom fuse; do
  touch "$1/dev/$name"; mount --bind /dev/$name "$1/dev/$name"
done
mount --rbind "$1/dev" /dev; shift; exec "$@"
"""
PLACES = {
    "no /proc": NO_PROC,
    "no /sys": NO_SYS,
    "no /dev/shm": NO_SHM,
    "a full cache and /tmp": FULL,
}
MEMFD_CREATE, ENOSYS = "319", "38"
SECCOMP = (sys.executable, "-I", "-S", str(DENY), MEMFD_CREATE, ENOSYS)
PYTHON = """
import sys
sys.path.insert(0, sys.argv[1])
import kpfs
from kpfs.base.errors import SetupError
try:
    with kpfs.Kernel(kernel=sys.argv[2]) as k:
        k.write("tracing/kprobe_events", "p:e vfs_read")
        assert "vfs_read" in k.read("kprobes/list")
except SetupError as error:
    print(f"kpfs: {error}", file=sys.stderr)
    sys.exit(2)
print("fine")
"""
TRIVIAL = "def test(): pass\ndef test_2(): pass\n"
TESTS = """
def test_here(kpfs):
    assert kpfs.read("kprobes/list") == ""
def test_run(kpfs_run):
    assert kpfs_run("cat $KPFS/kprobes/list").returncode == 0
"""


class Uses:
    """The ways to use kpfs, each under a prefix of words that limits it."""

    def __init__(self, hunt: Hunt) -> None:
        self.tries = Tries(hunt)
        self.scratch = hunt.scratch
        self.made: Path | None = None
        self.kernel = "" if harness.missing_kernels(harness.KERNEL) else harness.KERNEL
        environment = self.tries.environment
        environment |= {"KPFS_WARM": "0", "XDG_DATA_HOME": str(harness.kernels())}
        self.table: dict[str, Callable[[list[str]], str]] = {
            "run": self.tries.run,
            "mount": self.tries.mount,
            "python": partial(self.python, ""),
            "pytest": self.pytest,
        }
        if self.kernel:
            words = ["--kernel", self.kernel]
            self.table |= {
                "run --kernel": partial(self.with_kernel, self.tries.run),
                "mount --kernel": partial(self.with_kernel, self.tries.mount),
                "run --inside": partial(self.run, *words, "--inside"),
                "python, a Linux kernel": partial(self.python, self.kernel),
                "kernel export": self.export,
                "kernel import": self.import_file,
            }

    def run(self, *words: str) -> str:
        *options, prefix = words
        script = "sh", "-c", "cat /proc/version && echo fine"
        done = self.tries.call([*prefix, str(KPFS), "run", *options, "--", *script])
        return self.tries.judge(done, done.stdout.endswith(FINE))

    def with_kernel(self, use: Callable[[list[str]], str], prefix: list[str]) -> str:
        before = self.tries.log
        self.tries.log = [*before, "--kernel", self.kernel]
        try:
            return use(prefix)
        finally:
            self.tries.log = before

    def python(self, kernel: str, prefix: list[str]) -> str:
        python = [*prefix, sys.executable, "-c"]  # which looks for packages, too
        if (
            not self.tries.runs_python(prefix)
            or self.tries.call([*python, ""]).returncode
        ):
            return "no Python runs there"
        words = [*python, PYTHON, str(ROOT), kernel]
        done = self.tries.call(words)
        return self.tries.judge(done, done.stdout == FINE)

    def pytest(self, prefix: list[str]) -> str:
        words = [*prefix, sys.executable, "-m", "pytest", "-q", "-n2", "-c", os.devnull]
        words += ["-p", "no:cacheprovider", "-p", "kpfs.api.pytest_plugin"]
        for name, text in (("trivial", TRIVIAL), ("tests", TESTS)):
            file = self.scratch / f"test_{name}.py"
            file.write_text(text)
            done = self.tries.call([*words, str(file)], LONG)
            if name == "trivial" and done.returncode:
                return "no pytest runs there"
        told = re.search("^(kpfs: |E .*SetupError: )", done.stdout, re.M)
        if "Traceback" in done.stdout + done.stderr or (done.returncode and not told):
            raise WrongError(f"pytest: {done.stdout[-3000:]} {done.stderr}")
        return "refused" if done.returncode else "works"

    def export(self, prefix: list[str]) -> str:
        folder = self.scratch / "exported"
        folder.mkdir(exist_ok=True)
        words = ["kernel", "export", self.kernel, str(folder / "x.kpfs")]
        done = self.tries.call([*prefix, str(KPFS), *words])
        how = self.tries.judge(done, works=True)
        left = [path.name for path in folder.iterdir()]
        if left != ["x.kpfs"] * (how == "works"):
            raise WrongError(f"kernel export, {how}: it leaves {left}")
        if self.made is None and how == "works":
            self.made = (folder / "x.kpfs").rename(self.scratch / "made.kpfs")
        (folder / "x.kpfs").unlink(missing_ok=True)
        return how

    def import_file(self, prefix: list[str]) -> str:
        if self.made is None:
            self.export([])
        data = self.scratch / "data"
        before = self.tries.environment
        self.tries.environment = {**before, "XDG_DATA_HOME": str(data)}
        try:
            words = ["kernel", "import", str(self.made), "x"]
            done = self.tries.call([*prefix, str(KPFS), *words])
            how = self.tries.judge(done, works=True)
            there = data / "kpfs/kernels"
            left = os.listdir(there) if there.exists() else []
            if left != ["x"] * (how == "works"):
                raise WrongError(f"kernel import, {how}: it leaves {left}")
            if left:
                self.tries.call([str(KPFS), "kernel", "rm", "x"])
            return how
        finally:
            self.tries.environment = before


def attempts(uses: Uses) -> dict[str, Callable[[], str]]:
    """Return each use under each limit, by the name that reports give it."""
    found: dict[str, Callable[[], str]] = {}
    for name, use in uses.table.items():
        for letter, values in ULIMITS.items():
            for value in values:
                script = f'ulimit -{letter} {value} && exec "$@"'
                found[f"{name}: ulimit -{letter} {value}"] = partial(
                    use, ["bash", "-c", script, "bash"]
                )
        for place, script in PLACES.items():
            found[f"{name}: {place}"] = partial(elsewhere, uses, script, use)
        found[f"{name}: a filter"] = partial(use, [*SECCOMP])
    return found


def elsewhere(uses: Uses, script: str, use: Callable[[list[str]], str]) -> str:
    """Try a use in a mount namespace that the script prepares."""
    tries = uses.tries
    tries.number += 1
    folder = uses.scratch / f"place{tries.number}"
    folder.mkdir()
    prefix = ["unshare", "-m", "sh", "-ec", script, "sh", str(folder)]
    if tries.call([*prefix, "true"]).returncode:
        return "no mount namespace here"
    return use(prefix)


def run(hunt: Hunt) -> None:
    hunt.each_of(attempts(Uses(hunt)))


PART = Part("limited uses", 1000, 1.5, run)
