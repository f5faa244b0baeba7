# SPDX-License-Identifier: GPL-2.0-or-later
"""The slowdown of commands under ``kpfs run``."""

from __future__ import annotations

import glob
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.command import Command, with_event
from bench.row import Row

TIMEOUT = 300  # s
LOOPS = 200
# its arguments: seconds of the command are what it prints
MEASURE = """
import subprocess, sys, time
begin = time.perf_counter()
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
print(time.perf_counter() - begin)
assert done.returncode < 2
"""
# these commands with an event on, which they hit all the time
ARMED = with_event("vfs_read") + MEASURE
LOOP = f"i=0; while [ $i -lt {LOOPS} ]; do %s; i=$((i + 1)); done"
FTRACE = "tools/testing/selftests/ftrace"
VERDICT = re.compile(r"^\[\d+\] (.*?)\s*\[(\w+)\]$", re.M)
# of test.d/kprobe; uprobes are not emulated
NO_KPROBES = {"Uprobe event parser error log check": "UNSUPPORTED"}
LIST = "/sys/kernel/debug/kprobes/list"
LS = "ls", "-R", "/usr/lib"
FIND = "find", "/usr/share", "-name", "x"


class Timer:
    """Takes the time of commands, bare and under ``kpfs run``."""

    def __init__(self, kpfs: Command, repeats: int) -> None:
        self._kpfs = kpfs
        self._repeats = repeats

    def bare(self, *words: str) -> float:
        """Median seconds."""
        command = [sys.executable, "-Sc", MEASURE, *words]

        def once() -> float:
            done = subprocess.run(command, capture_output=True, timeout=TIMEOUT)
            return float(done.stdout)

        return statistics.median(once() for _ in range(self._repeats))

    def under_run(self, *words: str, program: str = MEASURE) -> float:
        """Median seconds."""
        command = "run", "--quiet-guest", "--", sys.executable, "-Sc", program, *words

        def once() -> float:
            return float(self._kpfs(*command, timeout=TIMEOUT).stdout)

        return statistics.median(once() for _ in range(self._repeats))

    def times(self, name: str, *words: str) -> Row:
        """Return how many times as long it takes."""
        if shutil.which(words[0]) is None:
            return Row(name, None, "x", note=f"there is no {words[0]}")
        bare, under = self.bare(*words), self.under_run(*words)
        note = f"{' '.join(words)[:40]}: {bare:.3f} s, {under:.3f} s"
        return Row(name, under / bare, "x", note=note)


def commands(repeats: int) -> Iterator[Row]:
    """A small work tree, processes that do nothing, and a file of the tree read."""
    with tempfile.TemporaryDirectory() as scratch:
        timer = Timer(Command(Path(scratch)), repeats)
        tree = Path(scratch) / "tree"
        tree.mkdir()
        for number in range(100):
            (tree / f"file{number}").write_text("x\n")
        if shutil.which("git"):
            subprocess.run(["git", "-C", tree, "init", "-q"], check=True)
        yield timer.times("run_git_status", "git", "-C", str(tree), "status")
        yield timer.times("run_true", "sh", "-c", LOOP % "/bin/true")
        taken = timer.under_run("sh", "-c", LOOP % f"cat {LIST}")
        yield Row("run_cat_list", taken / LOOPS * 1e3, "ms")


def trees(repeats: int) -> Iterator[Row]:
    """Large trees walked: many system calls, each soon over."""
    with tempfile.TemporaryDirectory() as scratch:
        timer = Timer(Command(Path(scratch)), min(repeats, 3))
        yield timer.times("run_find", *FIND)
        note = f"{' '.join(LS)}: bare {timer.bare(*LS):.3f} s"
        yield Row("run_ls", timer.under_run(*LS), "s", note=note)
        armed = timer.under_run(*LS, program=ARMED)
        yield Row("run_ls_armed", armed, "s", note="an event on vfs_read")


def unexpected(output: str, tests: int) -> str:
    """Return the verdicts of ftracetest that differ from what so many tests
    should say.
    """
    verdicts = VERDICT.findall(output)
    wrong = [
        f"{name}: {verdict}"
        for name, verdict in verdicts
        if verdict not in ("PASS", NO_KPROBES.get(name))
    ]
    if len(verdicts) != tests:
        wrong.append(f"{len(verdicts)} verdicts of {tests}")
    return ", ".join(wrong)


def ftracetest(_repeats: int) -> Iterator[Row]:
    """The kernel's own tests of kprobe events, once, where a kernel's source is.

    Their verdicts are compared, too: a command that fails early is no faster.
    """
    trees = [os.environ.get("KPFS_LINUX", ""), *sorted(glob.glob("/usr/src/linux*"))]
    folders = [Path(tree) / FTRACE for tree in trees if tree]
    folder = next((path for path in folders if (path / "ftracetest").exists()), None)
    if folder is None:
        note = "no kernel's source in KPFS_LINUX or below /usr/src"
        yield Row("ftracetest", None, "s", note=note)
        return
    with tempfile.TemporaryDirectory() as scratch:
        kpfs = Command(Path(scratch))
        script = f"cd {folder} && exec sh ftracetest -l {scratch}/logs test.d/kprobe"
        begin = time.perf_counter()
        done = kpfs("run", "--", "sh", "-c", script, timeout=TIMEOUT)
        taken = time.perf_counter() - begin
        tests = len(list((folder / "test.d/kprobe").glob("*.tc")))
        wrong = unexpected(done.stdout, tests)
        note = wrong or f"test.d/kprobe: {tests} verdicts as they should be"
        yield Row("ftracetest", taken, "s", note=note, wrong=bool(wrong))


GROUPS = {"commands": commands, "trees": trees, "ftracetest": ftracetest}
