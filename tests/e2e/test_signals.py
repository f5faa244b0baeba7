# SPDX-License-Identifier: GPL-2.0-or-later
"""Signals that end commands: what they had collected is kept, and nothing is left.

Those of kpfs trace are in test_trace.py, and a kernel that never answers in
test_hostile_kernel.py.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from kpfs.base.signals import ENDING
from tests import harness
from tests.terminal import Terminal

INSIDE = "run", "--kernel", harness.KERNEL, "--inside", "--"
FULL = "kpfs: not all that CMD wrote could be written: No space left on device\n"
CONTAINER = ("unshare", "--fork", "--pid", "--mount-proc", "--kill-child")


def ended(kpfs, number, ready, *words):
    """Start a command, send it a signal when it is ready, and return how it ended."""
    command = kpfs.command(*words)
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True) as child:
        harness.until(ready, "it does not begin")
        child.send_signal(number)
        out, err = child.communicate(timeout=60)
    return child.returncode, out, err


def test_an_interrupt_at_any_moment_of_the_start_ends_it_without_a_word(kpfs):
    if not (harness.ROOT / ".venv/blocks").exists():
        pytest.skip("env(1) blocked no signals here when .venv was made")
    chance = random.Random(1)
    for _ in range(40):
        command = kpfs.command("completion", "bash")
        with subprocess.Popen(command, stdout=-1, stderr=-1, text=True) as child:
            time.sleep(chance.random() * 0.1)
            child.send_signal(signal.SIGINT)
            _, err = child.communicate(timeout=60)
        assert "Traceback" not in err
        assert "KeyboardInterrupt" not in err


@pytest.mark.parametrize("number", ENDING)
def test_nothing_is_left_of_a_kernel_that_was_being_made(
    kpfs, tmp_path, monkeypatch, number
):
    place = tmp_path / "data/kpfs/kernels"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    os.mkfifo(tmp_path / "package.deb")  # it is waited for, beside the new folder
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("TMPDIR", str(temporary))
    words = "kernel", "make", "new", "--deb", tmp_path / "package.deb"

    def begun():
        return place.exists() and os.listdir(place)

    assert ended(kpfs, number, begun, *words) == (-number, "", "")
    assert (os.listdir(place), os.listdir(temporary)) == ([], [])
    begun_again = ended(kpfs, signal.SIGKILL, begun, *words)
    assert begun_again == (-signal.SIGKILL, "", "")
    (left,) = os.listdir(place)
    assert ended(kpfs, number, lambda: left not in os.listdir(place), *words)
    assert os.listdir(place) == []


@pytest.mark.fuse
@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize("words", [("--json",), ("--once",)])
def test_top_shows_what_it_has_seen(kpfs, mount, number, words):
    (mount / "tracing/kprobe_events").write_text("p:here vfs_read")
    (mount / "tracing/events/kprobes/here/enable").write_text("1")
    command = kpfs.command("top", *words, "--interval", "3600", mount)
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True) as child:
        harness.until(lambda: sleeps(child.pid), "it does not come to its pause")
        child.send_signal(number)
        out, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (-number, "")
    assert "kprobes/here" in out


def sleeps(pid):
    """Return True if a process sleeps for a time."""
    with open(f"/proc/{pid}/wchan") as file:
        return "nanosleep" in file.read()


@pytest.mark.kernel
@pytest.mark.parametrize("number", ENDING)
def test_a_matrix_keeps_the_rows_that_are_done(kpfs, tmp_path, monkeypatch, number):
    folder = tmp_path / "rw"
    folder.mkdir()
    names = ["first", "second", "third"]
    harness.own_kernels(tmp_path / "data", dict.fromkeys(names, harness.KERNEL))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    script = "echo here; mkdir one || { mkdir two; sleep 999; }"
    report = tmp_path / "report.xml"
    words = "matrix", "--json", "--jobs", "1", "--kernels", ",".join(names)
    more = "--rw", folder, "--junit", report, "--"
    monkeypatch.chdir(folder)
    status, out, err = ended(
        kpfs, number, (folder / "two").exists, *words, *more, "sh", "-c", script
    )
    (row,) = json.loads(out)
    assert (row["kernel"], row["status"], row["output"]) == ("first", 0, "here\n")
    name = signal.Signals(number).name
    assert err == f"kpfs: {name}: there is no row for second, third\n"
    assert (status, 'tests="1"' in report.read_text()) == (-number, True)


@pytest.mark.kernel
def test_jobs_as_the_first_process_of_a_container(kpfs, tmp_path):
    """The first process gets the children of others, whose parents have ended."""
    if harness.run(*CONTAINER, "true").returncode:
        pytest.skip("no pid namespace here")
    words = kpfs.command("matrix", "--kernels", harness.KERNEL, "--", "sleep", "0.5")
    script = '(sleep 0.1; sleep 0.1) & exec "$@"'
    done = harness.run(*CONTAINER, "sh", "-c", script, "sh", *words, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("script", "status"), [("echo one", 2), ("seq 100000", 2), ("echo one; exit 5", 5)]
)
def test_a_full_disk_inside(kpfs, script, status):
    with open("/dev/full", "w") as full:
        command = kpfs.command(*INSIDE, "sh", "-c", script)
        done = subprocess.run(command, stdout=full, stderr=-1, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (status, FULL)


@pytest.mark.kernel
@pytest.mark.fuse
@pytest.mark.parametrize("options", [(), INSIDE[1:3], INSIDE[1:4]])
@pytest.mark.parametrize(
    ("script", "status"),
    [("exec sleep 999", 129), ("trap 'exit 7' HUP; while :; do sleep 1; done", 7)],
)
@pytest.mark.parametrize("shell", [(), ("sh", "-c", '"$@"; exit', "sh")])
def test_a_terminal_that_hangs_up(kpfs, options, script, status, shell):
    """Linux tells the session's leader alone, and the rest when that has ended."""
    command = kpfs.command("run", *options, "--", "sh", "-c", f"echo go; {script}")
    with Terminal([*shell, *command]) as terminal:
        terminal.expect("go")
        others = harness.children(terminal.pid)
        ended = terminal.hang_up()
    assert ended == (-signal.SIGHUP if shell else status)
    harness.until(lambda: not any(map(harness.alive, others)), "a process is left")


@pytest.mark.kernel
def test_a_command_inside_goes_on_in_the_foreground(kpfs):
    """In the background it is stopped, as it sets the terminal."""
    words = "bash", "--norc", "--noprofile", "--noediting", "-i"
    line = " ".join([*kpfs.command(*INSIDE), "sh -c 'read x; echo got $x'"])
    with Terminal(words, PS1="outer$ ") as terminal:
        terminal.expect(r"outer\$ ")
        terminal.type(f"{line} &\n")
        terminal.expect(r"\[1\]")
        harness.until(lambda: stopped(terminal.pid), "it is not stopped")
        terminal.type("fg\n")
        terminal.expect("run --")
        terminal.type("hello\n")
        terminal.expect("got hello")


def stopped(shell):
    return any(harness.state(pid) == "T" for pid in harness.children(shell))


TRIES_A_PLACE = """
import argparse, os, signal
from kpfs.commands import matrix
unlink = os.unlink
def unlink_late(path):
    signal.raise_signal(signal.SIGTERM)
    unlink(path)
os.unlink = unlink_late
matrix.run_in(argparse.Namespace(jobs=1), {"none": ""}, {})
"""


def test_no_file_is_left_with_which_a_place_for_others_was_tried(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = harness.run(sys.executable, "-c", TRIES_A_PLACE, cwd=harness.ROOT)
    assert (done.returncode, done.stderr) == (-signal.SIGTERM, "")
    assert not list(tmp_path.iterdir())
