# SPDX-License-Identifier: GPL-2.0-or-later
"""Parts of ``kpfs run`` that need no tree: supervision, namespaces, directories.

This also tests kpfs.host.namespaces and kpfs.host.terminal.
"""

import contextlib
import errno
import os
import shlex
import signal
import subprocess
import sys

import pytest

from kpfs.commands import run as run_command
from kpfs.host import mounts, namespaces
from kpfs.linux.arch.arches import ARCHES
from kpfs.linux.board.board import read_agent
from tests.harness import ROOT, run, state, until
from tests.terminal import Terminal
from tests.there import stand_in, there


class NoDaemon:
    log = "log"

    def has_died(self):
        return False


def shell(script):
    return run_command.supervise(["sh", "-c", script], stand_in(NoDaemon()))


def status_of(*command):
    """The status of a command that is supervised.

    By a process of one thread, as kpfs run has it: another thread of the tests' process
    might be given the SIGCHLD.
    """
    pid = os.fork()
    if pid == 0:
        status = 255
        try:
            status = run_command.supervise(command, stand_in(NoDaemon()))
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)],
)
def test_exit_status(script, status):
    assert status_of("sh", "-c", script) == status


def test_a_command_that_cannot_be_run(tmp_path, capfd):
    assert status_of(str(tmp_path / "none")) == 127
    assert "No such file or directory" in capfd.readouterr().err
    assert status_of(str(tmp_path)) == 126
    assert "Permission denied" in capfd.readouterr().err


SCRIPTS = [
    (b"#!/none -x\n", 127, "needs /none, which is not there"),
    (b"#!/bin/sh\r\n", 127, "has lines that end in CR LF"),
    (b"#! /bin/sh\r x\r\n", 127, "has lines that end in CR LF"),
    (read_agent(ARCHES["arm64"])[:4096], 126, "is a program for arm64"),
    (b"#!/bin/sh\nexit 3\n", 3, ""),
    (b"exit 4\n", 4, ""),  # the shell's, as execvp(3) has it
]


@pytest.mark.parametrize(("text", "status", "why"), SCRIPTS, ids=range(len(SCRIPTS)))
@pytest.mark.parametrize("is_found", [False, True])
def test_why_a_command_cannot_be_run(
    tmp_path, capfd, monkeypatch, text, status, why, is_found
):
    it = tmp_path / "it"
    it.write_bytes(text)
    it.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    name = "it" if is_found else str(it)
    assert status_of(name) == status
    assert capfd.readouterr().err.startswith(f"kpfs: {it} {why}" if why else "")
    found = run_command.cannot_start(name)
    if why:
        assert found[0] == 127 or status == 126
        assert found[1].startswith(f"{it} {why}")
    else:
        assert found == (0, "")


def test_commands_that_cannot_start(tmp_path):
    (tmp_path / "text").touch(0o644)
    for name, status in (("none", 127), ("text", 126), ("", 126)):
        path = f"{tmp_path}/{name}"
        why = os.strerror(errno.ENOENT if status == 127 else errno.EACCES)
        assert run_command.cannot_start(path) == (status, f"{path}: {why}")
    assert run_command.cannot_start("no-such-command")[0] == 127
    assert run_command.cannot_start("insmod") == (0, "")


def test_signals_are_as_the_caller_has_them(capfd):
    """Python ignores SIGPIPE; a command must not inherit that."""
    status_of("grep", "-E", "Sig(Ign|Blk)", "/proc/self/status")
    words = capfd.readouterr().out.split()
    assert int(words[1], 16) & 1 << signal.SIGCHLD - 1 == 0
    assert int(words[3], 16) & 1 << signal.SIGPIPE - 1 == 0


def test_a_signal_to_kpfs_reaches_the_command():
    program = """
from kpfs.commands import run as run_command
from tests.unit.commands.test_run import shell
raise SystemExit(shell("trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done"))
"""
    child = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE
    )
    with child:
        assert there(child.stdout).readline() == b"up\n"
        child.terminate()
        assert child.wait() == 9


@pytest.mark.parametrize(
    ("is_mount", "filters", "sysctl", "says"),
    [
        (False, 2, "", "chroot"),
        (True, 0, "", "chroot"),
        (True, 0, "1", "chroot"),
        (True, 2, "", "container"),
        (True, 2, "0", "sysctl kernel.unprivileged_userns_clone=1"),
    ],
)
def test_the_advice_where_namespaces_are_denied(
    monkeypatch, is_mount, filters, sysctl, says
):
    """The root of a chroot may be a mount, as that of a container is."""
    files = {
        "/proc/sys/kernel/unprivileged_userns_clone": f"{sysctl}\n",
        "/proc/self/status": f"Name:\tx\nSeccomp:\t{filters}\n",
    }
    monkeypatch.setattr(mounts, "mount_at", lambda path: is_mount or None)
    monkeypatch.setattr(namespaces, "_read", lambda path: files.get(path, ""))
    line = namespaces._remedy(OSError(errno.EPERM, os.strerror(errno.EPERM)))
    assert says in line


def test_the_advice_where_there_are_too_many_namespaces():
    line = namespaces._remedy(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert line == "sysctl user.max_user_namespaces is too low"


def test_identity_maps_every_id():
    text = namespaces._MapWriter.identity("uid_map")
    assert [line.split()[0] for line in text.splitlines()] == [
        line.split()[1] for line in text.splitlines()
    ]


def in_namespaces(code):
    """Run Python code where it may mount, in a process of its own."""
    head = "from kpfs.host import mounts, namespaces\nnamespaces.enter_namespaces()\n"
    done = run(sys.executable, "-c", head + code, cwd=ROOT)
    if "no user and mount namespace" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    return done


def test_inside_it_is_root(tmp_path):
    done = in_namespaces("import os; print(os.geteuid(), os.getegid())")
    assert done.stdout == "0 0\n", done.stderr


def test_provide_directory(tmp_path):
    """Other entries beside an added directory stay as they were."""
    top = tmp_path / "top"
    (top / "sub").mkdir(parents=True)
    (top / "sub" / "inner").write_text("inner")
    (top / "file").write_text("old")
    (top / "link").symlink_to("file")
    done = in_namespaces(
        f"""
import os
top = {str(top)!r}
mounts.provide_directory(top + "/added")
print(sorted(os.listdir(top)), os.listdir(top + "/added"))
print(open(top + "/link").read(), open(top + "/sub/inner").read())
print(os.readlink(top + "/link"))
open(top + "/file", "w").write("new")
"""
    )
    assert done.stdout.splitlines() == [
        "['added', 'file', 'link', 'sub'] []",
        "old inner",
        "file",
    ], done.stderr
    assert sorted(p.name for p in top.iterdir()) == ["file", "link", "sub"]
    assert (top / "file").read_text() == "new"


def test_make_read_only(tmp_path):
    done = in_namespaces(
        f"""
mounts.make_read_only({str(tmp_path)!r})
open({str(tmp_path / "x")!r}, "w")
"""
    )
    assert "Read-only file system" in done.stderr


# ---- job control, under a shell on a terminal of its own
PYTHON = os.path.basename(sys.executable)
RUN = "from tests.unit.commands.test_run import shell; raise SystemExit(shell({!r}))"


class Shell(Terminal):
    """bash with job control at a terminal."""

    def __init__(self):
        words = f"cd {ROOT}; exec bash --norc --noprofile --noediting -i"
        super().__init__(["sh", "-c", words], PS1="outer$ ", PYTHON=sys.executable)
        self.until("outer$ ")
        self.enter("stty -echo; echo rea''dy")
        self.until("ready")
        self.until("outer$ ")

    def enter(self, line):
        self.type(f"{line}\n")

    def run(self, script):
        """supervise() in a process of its own."""
        self.enter(f"$PYTHON -c {shlex.quote(RUN.format(script))}")

    def stop(self):
        self.type("\x1a")
        self.until("Stopped")

    def foreground(self, name):
        """Wait until a program has the terminal, and waits itself: its pid."""

        def is_there():
            group = os.tcgetpgrp(self.fd)
            with contextlib.suppress(OSError), open(f"/proc/{group}/comm") as comm:
                return comm.read().strip() == name[:15] and state(group) == "S"
            return False

        until(is_there, f"{name} does not get the terminal")
        return os.tcgetpgrp(self.fd)


@pytest.fixture
def terminal():
    with Shell() as made:
        yield made


INNER = "PS1='inner$ ' exec bash --norc --noprofile --noediting -i"


def test_a_shell_that_suspends_itself(terminal):
    terminal.run(INNER)
    for _ in range(3):
        terminal.until("inner$ ")
        terminal.enter("suspend")
        terminal.until("Stopped")
        terminal.until("outer$ ")
        terminal.enter("fg")
        terminal.enter("echo in''side")
        terminal.until("inside")
    terminal.enter("exit 7")
    terminal.until("outer$ ")
    terminal.enter("echo status $?")
    terminal.until("status 7")


def test_ctrl_z_stops_and_fg_continues(terminal):
    """For a command in our own group, and for jobs of a shell."""
    terminal.run("echo up; read line; echo got $line; exit 3")
    terminal.until("up")
    for _ in range(3):
        terminal.stop()
        terminal.enter("fg; echo status $?")
        terminal.until("raise SystemExit")  # fg says what it continues
        terminal.foreground(PYTHON)
    terminal.enter("words")
    terminal.until("got words")
    terminal.until("status 3")
    terminal.run(INNER)
    terminal.until("inner$ ")
    terminal.enter("sleep 60")
    terminal.foreground("sleep")
    terminal.stop()
    terminal.until("inner$ ")
    terminal.enter("kill %1; exit")


def test_stopped_by_a_signal_to_kpfs(terminal):
    """exec: what stops between dash's vfork() and exec never lets its shell stop."""
    terminal.run("echo up $PPID; exec sleep 60")
    terminal.until("up ")
    terminal.until("\n")
    job = terminal.foreground(PYTHON)
    terminal.stop()
    terminal.enter("bg")
    until(lambda: state(job) == "S", "it does not go on")
    terminal.enter("kill -TSTP %1")
    until(lambda: state(job) == "T", "it does not stop")
    terminal.enter("jobs; echo do''ne")
    terminal.until("Stopped")
    terminal.until("done")
    terminal.enter("kill -HUP %1; fg; echo status $?")
    terminal.until("status 129")


def test_a_killed_shell_leaves_the_terminal(terminal):
    """The command was started by a shell without job control, such as a script."""
    inner = shlex.quote(RUN.format(INNER))
    terminal.enter(f'sh -c \'"$0" -c "$1"; cat\' $PYTHON {inner}')
    terminal.until("inner$ ")
    terminal.enter("kill -9 $$")
    terminal.enter("line")
    terminal.until("line")
    terminal.type("\x04")
    terminal.until("outer$ ")
