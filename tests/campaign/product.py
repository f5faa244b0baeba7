# SPDX-License-Identifier: GPL-2.0-or-later
"""Every way to use kpfs with everything that can be done there, over each kernel.

Two features that each work by themselves may hang together. So the product of all is
tried, in an order that is drawn anew from the seed, each with a time limit.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from bench.command import KPFS
from kpfs.host import mounts
from tests import harness
from tests.campaign import processes, walk
from tests.campaign.hunt import Hunt, Part
from tests.harness import WrongError

PATIENCE = 180.0  # s for one try, on a machine that others use too
FILES, FILES_INSIDE, FILES_OF_TWO = 150, 40, 20
OTHER_KERNEL = "6.12-cloud"
WAYS = ("mount", "run", "inside", "python", "pytest")
DEEDS = ("read", "refuse", "command", "two", "signal")
WALK = str(Path(walk.__file__))
REAL_PLACES = ("/sys/kernel/tracing", "/sys/kernel/debug", "/proc/sys/kernel")
MOUNT = """
"$0" mount $2 "$1" || exit
folder=$1; shift 2
PLACE=$folder "$@"; status=$?
"$0" umount "$folder" && exit $status
"""
TESTS = """
import sys
sys.path[:0] = [{root!r}]
import pytest
from tests.campaign import walk

@pytest.mark.kpfs(kernel={kernel!r})
def test_walk(kpfs):
    if not {words!r}:
        walk.walk(walk.Api(kpfs), {deed!r}, {seed}, {count}, [""])

@pytest.mark.kpfs(kernel={kernel!r})
def test_run(kpfs_run):
    done = kpfs_run({words!r} or ["true"])
    assert done.returncode in (0, 1, 2), done
    assert "Traceback" not in done.stderr, done
"""
# those that end or stop nobody; after them SIGTERM ends all
STOPS = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}


class Try(NamedTuple):
    """One element of the product."""

    kernel: str  # "": the guest kernel
    way: str
    deed: str

    def __str__(self) -> str:
        return f"{self.kernel or 'own'} x {self.way} x {self.deed}"


def kernels() -> list[str]:
    """Return the kernels to try: our own, and those that are made or can be made."""
    found = [""]
    if not harness.missing_kernels(harness.KERNEL):
        found.append(harness.KERNEL)
    if os.path.isdir(harness.kernels() / "kpfs/kernels" / OTHER_KERNEL):
        found.append(OTHER_KERNEL)
    return found


def product() -> list[Try]:
    """Return the whole product. Our own kernel has no --inside."""
    tries = itertools.starmap(Try, itertools.product(kernels(), WAYS, DEEDS))
    return [each for each in tries if each.kernel or each.way != "inside"]


class Product:
    """Makes the tries, in new folders."""

    def __init__(self, hunt: Hunt) -> None:
        self.rng = hunt.rng
        self.scratch = hunt.scratch
        self.log = hunt.scratch / "log"
        self.others = set(processes.below(os.getpid()))  # those of other tests
        self.number = 0
        self.said = ""  # about the try: for a finding

    def one(self, each: Try) -> None:
        """Make a try. Raises WrongError."""
        self.number += 1
        self.log.write_text("")
        environment = {
            **os.environ,
            "XDG_DATA_HOME": str(harness.kernels()),
            "TMPDIR": str(self.scratch),
            "KPFS_WARM": self.rng.choice(("0", processes.WARM)),
        }
        inner, count = [], FILES
        deed = each.deed if each.deed == "refuse" else "read"
        if each.deed == "command":
            inner = [str(KPFS), *self.rng.choice(self.commands(each.kernel))]
        if each.deed == "two":
            count = FILES_OF_TWO
        started = [
            self.start(each, deed, count, inner, environment)
            for _ in range(2 if each.deed == "two" else 1)
        ]
        if each.deed == "signal":
            self.send_one(started[0])
        for child in started:
            self.await_end(each, child)
        self.all_end()
        if each.deed != "signal":  # the log may tell of a signal
            self.check_log()

    def commands(self, kernel: str) -> list[list[str]]:
        """Return every subcommand, with words that suit a kernel."""
        place = str(self.scratch / f"nested{self.number}")
        options = ["--kernel", kernel] if kernel else []
        found = [
            ["--version"],
            ["doctor", "--json"],
            ["completion", "bash"],
            ["kernel", "list"],
            ["kernel", "show", kernel or "none"],
            ["kernel", "export", kernel or "none", "/nowhere/x"],
            ["kernel", "import", "/dev/null", "x"],
            ["kernel", "make", "x", "--vmlinuz", "/dev/null"],
            ["explain", *options, "vfs_read"],
            ["top", "--once"],
            ["trace", *options, "-e", "p:e vfs_read", "--", "true"],
            ["run", *options, "--", "true"],
            ["mount", place],
            ["umount", place],
        ]
        if kernel:
            found.append(["run", *options, "--inside", "--", "true"])
            found.append(["matrix", "--kernels", kernel, "--", "true"])
        return found

    def start(
        self,
        each: Try,
        deed: str,
        count: int,
        inner: list[str],
        environment: dict[str, str],
    ) -> subprocess.Popen[str]:
        self.number += 1
        seed = self.rng.randrange(1 << 30)
        options = ["--log", str(self.log)]
        options += ["--kernel", each.kernel] if each.kernel else []
        # what --inside cannot see is a virtual environment below /tmp
        python = [os.path.realpath(sys.executable), "-I", "-S", WALK]
        drawn = [*python, deed, str(seed)]
        if each.way == "mount":
            target = self.scratch / f"m{self.number}"
            target.mkdir()
            words = ["sh", "-c", MOUNT, str(KPFS), str(target), " ".join(options)]
            words += inner or [*drawn, str(count), str(target)]
        elif each.way == "run":
            places = "/sys/kernel/debug/kpfs", *REAL_PLACES
            words = [str(KPFS), "run", *options, "--"]
            words += inner or [*drawn, str(count), *places]
        elif each.way == "inside":
            count = min(count, FILES_INSIDE)
            words = [str(KPFS), "run", *options[2:], "--inside", "--"]
            words += inner or [*drawn, str(count), "/proc", "/sys"]
        elif each.way == "python":
            words = [sys.executable, WALK]
            if inner:
                words += ["--run", each.kernel, *inner]
            else:
                words += [deed, str(seed), str(count), "--api", each.kernel]
        else:
            file = self.scratch / f"test_{self.number}.py"
            facts = {"deed": deed, "seed": seed, "count": count, "words": inner}
            facts |= {"root": walk.ROOT, "kernel": each.kernel}
            file.write_text(TESTS.format(**facts))
            words = [sys.executable, "-m", "pytest", "-q", "-n2", "-c", os.devnull]
            words += ["-p", "no:cacheprovider", "-p", "kpfs.api.pytest_plugin"]
            words.append(str(file))
        self.said = " ".join(words)
        return subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace", env=environment, stdin=subprocess.DEVNULL, cwd=walk.ROOT,
        )  # fmt: skip

    # ---- signals
    def send_one(self, child: subprocess.Popen[str]) -> None:
        """Send a signal to one of the processes at any moment; then end all."""
        time.sleep(self.rng.random() * 3)
        found = [child.pid, *processes.below(child.pid)]
        pid = self.rng.choice(found)
        number = self.rng.choice(sorted(signal.valid_signals()))
        role = f"{processes.name(pid)} ({harness.state(pid)})"
        self.said += f"\n{signal.strsignal(number)} to {role}"
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            if number in STOPS:
                time.sleep(self.rng.random() * 2)
                os.kill(pid, signal.SIGCONT)

    # ---- the end
    def await_end(self, each: Try, child: subprocess.Popen[str]) -> None:
        try:
            out, err = child.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired as late:
            raise WrongError(f"hangs: {self.tail(late.stdout, late.stderr)}") from None
        if each.deed == "signal":
            return
        tail = f"status {child.returncode}: {self.tail(out, err)}"
        if "Traceback" in err:
            raise WrongError(f"a traceback: {tail}")
        if each.deed == "command":
            if child.returncode not in (0, 1, 2):
                raise WrongError(tail)
        elif child.returncode:
            raise WrongError(tail)

    def tail(self, out: object, err: object) -> str:
        texts = [
            text.decode(errors="replace") if isinstance(text, bytes) else str(text)
            for text in (out, err)
        ]
        return "\n".join(f"...{text[-1500:]}" for text in texts)

    def all_end(self) -> None:
        """Raise WrongError unless all has ended. A mount may outlive a signal."""
        for entry in list(mounts.table()):
            if entry.target.startswith(f"{self.scratch}/"):
                done = harness.run(KPFS, "umount", entry.target, timeout=PATIENCE)
                if done.returncode and harness.is_mounted(Path(entry.target)):
                    raise WrongError(f"umount: {done.stderr}")
        if left := processes.linger(processes.SOON, self.others):
            raise WrongError(f"left behind: {processes.told(left)}")

    def check_log(self) -> None:
        lines = self.log.read_text(errors="replace").splitlines()
        if grave := [line for line in lines if harness.GRAVE.search(line)]:
            raise WrongError("the log complains: " + "\n".join(grave[:5]))


def run(hunt: Hunt) -> None:
    maker, tries = Product(hunt), product()
    hunt.rng.shuffle(tries)

    def one() -> str:
        each = tries[hunt.done % len(tries)]
        maker.one(each)
        return each.way

    hunt.each(one, lambda: f"{tries[hunt.done % len(tries)]} {maker.said}", maker.log)


PART = Part("tries", 200, 2, run)
