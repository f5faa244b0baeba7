# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's own tests of dynamic events, where a kernel's source is at hand."""

import glob
import os
import re
import shlex
from pathlib import Path

import pytest

pytestmark = [pytest.mark.fuse, pytest.mark.guest]

FTRACE = "tools/testing/selftests/ftrace"
# a fork, an open and a symlink of the shell, a directory of an event, an instruction
QUICK = ["kprobe/kprobe_args_user", "kprobe/kprobe_args_string", "kprobe/probepoint"]
SYNTHETIC = [
    *("dynevent/add_remove_synth", "dynevent/clear_select_events"),
    "dynevent/generic_clear_event",
    *(
        f"trigger/inter-event/trigger-synthetic{name}"
        for name in ("-event-createremove", "-event-syntax", "_event_syntax_errors")
    ),
]
ALL = ["kprobe", "dynevent/add_remove_kprobe", *SYNTHETIC]
NR_TESTS, NEED_NO_PASS = 29, {"Uprobe event parser error log check"}
RESULT = re.compile(r"^\[\d+\] (.*?)\s*\[(\w+)\]$", re.M)


def source():
    """Return the folder of the tests, in KPFS_LINUX or below /usr/src, or None."""
    trees = [os.environ.get("KPFS_LINUX", ""), *sorted(glob.glob("/usr/src/linux*"))]
    found = [Path(tree) / FTRACE for tree in trees if tree]
    return next((path for path in found if (path / "ftracetest").exists()), None)


@pytest.fixture
def command():
    """A function that returns the words for running some of the tests."""
    folder = source()
    if folder is None:
        pytest.skip("no kernel source (KPFS_LINUX, or unpacked below /usr/src)")

    def words(names, logs):
        paths = [f"test.d/{name}" for name in names]
        tests = [p if (folder / p).is_dir() else f"{p}.tc" for p in paths]
        ftracetest = f"exec sh ftracetest -l {logs} {' '.join(tests)}"
        return ["sh", "-c", f"cd {folder} && {ftracetest}"]

    return words


def results(output):
    return dict(RESULT.findall(output))


def all_pass(output):
    found = results(output)
    failed = {name: result for name, result in found.items() if result != "PASS"}
    assert set(failed) <= NEED_NO_PASS, failed
    assert len(found) == NR_TESTS


def test_quick_ones(kpfs, command, tmp_path):
    done = kpfs("run", "--", *command(QUICK, tmp_path), timeout=170)
    assert list(results(done.stdout).values()) == ["PASS"] * len(QUICK)


@pytest.mark.slow
def test_all(kpfs, command, tmp_path):
    done = kpfs("run", "--", *command(ALL, tmp_path), timeout=900)
    all_pass(done.stdout)


@pytest.mark.slow
@pytest.mark.user
def test_all_as_an_ordinary_user(ordinary, command):
    words = shlex.join(command(ALL, '"$HOME/logs"'))
    done = ordinary(f"$kpfs run -- {words}", timeout=900)
    all_pass(done.stdout)
