# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs mount`` and ``kpfs umount``.

This also tests kpfs.commands.daemon, kpfs.backends.guest.boot and kpfs.host.guard.
"""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys

import pytest

from kpfs.base import syscall_numbers as nr
from kpfs.base.shown import shown
from kpfs.host import fusemount, mounts
from tests import harness, modbox
from tests.there import there

pytestmark = [pytest.mark.fuse, pytest.mark.guest]


def test_mount_returns_when_the_tree_answers(kpfs):
    target = kpfs.mount()
    assert (target / "kprobes/enabled").read_text() == "1\n"
    daemon = harness.daemon_of(target)
    done = kpfs("umount", target)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not harness.is_mounted(target)
    assert not harness.alive(daemon)
    assert list(target.iterdir()) == []


def test_a_mount_comes_though_its_starter_is_killed(kpfs, tmp_path):
    """The mount comes all the same, and its log does not complain."""
    target = tmp_path / "killed"
    target.mkdir()
    starter = subprocess.Popen(kpfs.command("mount", target))
    while "kpfs" not in map(comm_of, harness.children(starter.pid)):
        assert starter.poll() is None
    starter.kill()
    starter.wait()
    harness.until(lambda: harness.is_mounted(target), "no mount comes")
    assert (target / "kprobes/enabled").read_text() == "1\n"
    assert kpfs("umount", target).returncode == 0
    assert kpfs.grave_lines() == []


def comm_of(pid):
    try:
        with open(f"/proc/{pid}/comm") as comm:
            return comm.read().strip()
    except OSError:
        return ""


def test_a_second_mount_is_refused(kpfs, mount):
    done = kpfs("mount", mount)
    assert done.returncode == 2
    assert "mounted already" in done.stderr
    assert (mount / "kprobes/enabled").read_text() == "1\n"


def test_of_two_mounts_at_once_one_is_refused(kpfs, tmp_path):
    target = tmp_path / "both"
    target.mkdir()
    mounting = [
        subprocess.Popen(
            kpfs.command("mount", target), stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    said = [process.communicate()[1] for process in mounting]
    assert sorted(process.returncode for process in mounting) == [0, 2]
    assert "mounted already" in "".join(said)
    assert kpfs("umount", target).returncode == 0
    assert not harness.is_mounted(target)


def test_two_mounts_are_two_kernels(kpfs):
    one, other = kpfs.mount(), kpfs.mount()
    (one / "kprobes/enabled").write_text("0")
    assert (one / "kprobes/enabled").read_text() == "0\n"
    assert (other / "kprobes/enabled").read_text() == "1\n"


@contextlib.contextmanager
def reader_of(path):
    """A process that waits for something to read, or for the end of the mount."""
    words = "cat", path
    with subprocess.Popen(words, stdout=-3, stderr=-1, text=True) as reader:
        try:
            harness.await_blocked(reader, path)
            yield reader
        finally:
            reader.kill()


@pytest.mark.parametrize("use", ["an open file", "a directory", "a reader"])
def test_umount_of_a_mount_in_use(kpfs, mount, use):
    with contextlib.ExitStack() as uses:
        if use == "an open file":
            uses.enter_context((mount / "kprobes/list").open())
        elif use == "a reader":
            uses.enter_context(reader_of(mount / "tracing/trace_pipe"))
        else:
            words = "sleep", "600"
            user = uses.enter_context(subprocess.Popen(words, cwd=mount / "tracing"))
            uses.callback(user.kill)
        done = kpfs("umount", mount)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "in use" in done.stderr
    assert kpfs("umount", mount).returncode == 0


@contextlib.contextmanager
def another_namespace(kpfs):
    """Make a mount namespace that has all mounts of this one, too."""
    with subprocess.Popen(
        [*kpfs.command("run"), "sh", "-c", "echo up; exec sleep 60"],
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as other:
        assert there(other.stdout).readline() == b"up\n"
        try:
            yield
        finally:
            os.killpg(other.pid, signal.SIGTERM)


def test_umount_of_a_mount_that_a_namespace_has_too(kpfs, mount):
    with another_namespace(kpfs):
        daemon = harness.daemon_of(mount)
        done = kpfs("umount", mount)
        assert (done.returncode, done.stderr) == (0, "")
        assert not harness.alive(daemon)


def test_a_daemon_that_ends_takes_no_other_mount_away(kpfs, mount):
    """Linux gives the next mount the ident of the one that is gone."""
    with another_namespace(kpfs):
        daemon = harness.daemon_of(mount)
        mounts.detach(there(mounts.mount_at(str(mount))))
        following = kpfs.mount()
        harness.kill(daemon, signal.SIGTERM)
        assert harness.is_mounted(following)
        assert (following / "kprobes/enabled").read_text() == "1\n"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_ends_it_cleanly(kpfs, mount, name):
    harness.kill(harness.daemon_of(mount), signal.Signals[name])
    assert not harness.is_mounted(mount)
    assert f"{mount}: ended by {name}\n" in kpfs.log.read_text()


def test_the_log_says_that_somebody_has_unmounted_it(kpfs, mount):
    daemon = os.pidfd_open(harness.daemon_of(mount))
    mounts.detach(there(mounts.mount_at(str(mount))))
    harness.wait_for(daemon, "the daemon goes on")
    os.close(daemon)
    assert f"{mount}: unmounted, or aborted\n" in kpfs.log.read_text()


def test_a_mount_that_was_aborted_is_taken_away(mount):
    """umount -f aborts it and leaves it in place while it is in use."""
    daemon = os.pidfd_open(harness.daemon_of(mount))
    used = os.open(mount, os.O_PATH)
    mounts.abort(str(mount))
    harness.wait_for(daemon, "the daemon goes on")
    assert not harness.is_mounted(mount)
    os.close(used)
    os.close(daemon)


@pytest.mark.parametrize("full", [False, True], ids=["", "a full standard error"])
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "umount"])
def test_in_the_foreground(kpfs, tmp_path, name, full):
    target = tmp_path / "m"
    target.mkdir()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while full:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    command = kpfs.command("mount", "--foreground", target)
    with subprocess.Popen(command, stderr=writer) as child, open(reader) as told:
        os.close(writer)
        harness.until(lambda: (target / "kprobes").exists(), "no mount comes")
        assert harness.daemon_of(target) == child.pid
        (target / "machine/reboot").write_text("1")  # which is logged
        for _ in range(20):  # so that several threads wait for requests
            assert (target / "kprobes/list").read_text() == ""
        if name == "umount":
            assert kpfs("umount", target).returncode == 0
        else:
            child.send_signal(signal.Signals[name])
        assert child.wait(harness.TIMEOUT) == 0
        assert "Traceback" not in told.read()
    assert not harness.is_mounted(target)


def test_a_signal_while_a_reader_is_blocked(mount):
    with subprocess.Popen(
        ["cat", mount / "tracing/trace_pipe"], stderr=subprocess.DEVNULL
    ) as reader:
        harness.await_blocked(reader, mount / "tracing/trace_pipe")
        harness.kill(harness.daemon_of(mount), signal.SIGTERM)
        reader.wait(harness.TIMEOUT)
    assert not harness.is_mounted(mount)


def test_a_killed_daemon_lets_readers_go(mount):
    with reader_of(mount / "tracing/trace_pipe") as reader:
        harness.kill(harness.daemon_of(mount), signal.SIGKILL)
        assert "connection abort" in reader.communicate(timeout=harness.TIMEOUT)[1]


@contextlib.contextmanager
def asked(mount):
    """A process that waits for an answer of a daemon that was stopped."""
    daemon = harness.daemon_of(mount)
    os.kill(daemon, signal.SIGSTOP)
    harness.until(lambda: harness.state(daemon) == "T", "it does not stop")
    words = "cat", mount / "kprobes/enabled"
    with subprocess.Popen(words, stdout=-1, stderr=-1, text=True) as caller:
        try:
            harness.until(lambda: opens(caller.pid), "it does not wait")
            yield caller
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(daemon, signal.SIGCONT)
            caller.kill()


def opens(pid):
    """Return True if a process waits in openat(2)."""
    with open(f"/proc/{pid}/syscall") as file:
        return file.read().startswith(f"{nr.OPENAT} ") and harness.state(pid) in "SD"


def test_a_daemon_that_was_stopped_goes_on(mount):
    with asked(mount) as caller:
        os.kill(harness.daemon_of(mount), signal.SIGCONT)
        assert caller.communicate(timeout=harness.TIMEOUT) == ("1\n", "")


def test_umount_of_a_daemon_that_was_stopped(kpfs, mount):
    """The daemon is killed, although a SIGTERM waits for it, too."""
    daemon = harness.daemon_of(mount)
    with reader_of(mount / "tracing/trace_pipe") as reader, asked(mount) as caller:
        os.kill(daemon, signal.SIGTERM)
        done = kpfs("umount", mount)
        words = f"kpfs: {mount}: its daemon (pid {daemon}) was stuck: killed\n"
        assert (done.returncode, done.stderr) == (0, words)
        for process in (reader, caller):
            said = process.communicate(timeout=harness.TIMEOUT)[1]
            assert "connection abort" in said
    assert not harness.is_mounted(mount)
    assert not harness.alive(daemon)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_ends_a_mount_that_is_not_there_yet(kpfs, tmp_path, name):
    target = tmp_path / "m"
    target.mkdir()
    number = signal.Signals[name]
    with subprocess.Popen(kpfs.command("mount", target), stderr=-1) as starter:
        harness.until(lambda: harness.children(starter.pid), "it starts nothing")
        (daemon,) = harness.children(starter.pid)
        os.kill(daemon, signal.SIGSTOP)
        harness.until(lambda: catches_sigterm(starter.pid), "it does not hear signals")
        starter.send_signal(number)
        assert starter.communicate(timeout=harness.TIMEOUT)[1] == b""
    assert starter.returncode == -number
    harness.until(lambda: not harness.alive(daemon), "the daemon goes on")
    assert not harness.is_mounted(target)


def catches_sigterm(pid):
    """Return True if a process has a handler for it; for SIGINT Python always has."""
    with open(f"/proc/{pid}/status") as file:
        caught = re.search(r"SigCgt:\s*(\w+)", file.read())
    return bool(int(there(caught)[1], 16) >> (signal.SIGTERM - 1) & 1)


def test_umount_spares_a_process_that_has_the_number_of_a_dead_daemon(kpfs, tmp_path):
    target = tmp_path / "m"
    target.mkdir()
    with subprocess.Popen(["sleep", "600"]) as other:
        source = mounts.source_name(other.pid)
        os.close(fusemount.mount(str(target), source, allow_other=False))
        assert harness.daemon_of(target) == other.pid
        done = kpfs("umount", target)
        assert (done.returncode, done.stderr) == (0, "")
        assert not harness.is_mounted(target)
        assert other.poll() is None
        other.kill()


@pytest.fixture
def moved(kpfs, tmp_path):
    """A mount that moved with a directory above it; at its old place is another."""
    (tmp_path / "old/m").mkdir(parents=True)
    assert kpfs("mount", tmp_path / "old/m").returncode == 0
    (tmp_path / "old").rename(tmp_path / "new")
    (tmp_path / "old/m").mkdir(parents=True)
    assert kpfs("mount", tmp_path / "old/m").returncode == 0
    kpfs.mounted += [tmp_path / "old/m", tmp_path / "new/m"]
    return tmp_path / "new/m"


def test_a_signal_ends_a_mount_that_was_moved(moved):
    daemon = harness.daemon_of(moved)
    harness.kill(daemon, signal.SIGTERM)
    assert not harness.is_mounted(moved)
    assert (moved.parent.parent / "old/m/kprobes").is_dir()


def test_umount_of_a_mount_that_was_moved(kpfs, moved):
    daemon = harness.daemon_of(moved)
    assert kpfs("umount", moved).returncode == 0
    assert not harness.is_mounted(moved)
    assert not harness.alive(daemon)
    assert (moved.parent.parent / "old/m/kprobes").is_dir()


def test_the_mount_of_a_killed_daemon_is_replaced(kpfs, mount):
    harness.kill(harness.daemon_of(mount), signal.SIGKILL)
    assert harness.is_mounted(mount)
    done = kpfs("mount", mount)
    assert (done.returncode, done.stderr) == (0, "")
    assert (mount / "kprobes/enabled").read_text() == "1\n"
    assert kpfs("umount", mount).returncode == 0
    assert not harness.is_mounted(mount)


def test_it_is_replaced_at_once(kpfs, mount):
    """A new mount works although Linux remembers the attributes of the old root."""
    for _ in range(3):
        daemon = harness.daemon_of(mount)
        mount.stat()
        harness.kill(daemon, signal.SIGKILL)
        done = kpfs("mount", mount)
        assert (done.returncode, done.stderr) == (0, "")


def test_umount_of_the_mount_of_a_killed_daemon(kpfs, mount):
    harness.kill(harness.daemon_of(mount), signal.SIGKILL)
    done = kpfs("umount", mount)
    assert (done.returncode, done.stderr) == (0, "")
    assert not harness.is_mounted(mount)


def test_by_a_relative_path_with_blanks(kpfs, tmp_path):
    target = tmp_path / "a b\\c"
    target.mkdir()
    assert kpfs("mount", "../a b\\c", cwd=target).returncode == 0
    assert (target / "kprobes/enabled").read_text() == "1\n"
    assert kpfs("umount", "a b\\c", cwd=tmp_path).returncode == 0
    assert list(target.iterdir()) == []


def test_the_daemon_keeps_nothing_of_its_caller(kpfs, tmp_path):
    """A daemon must not keep a pipeline or a deleted directory alive."""
    target, ours = tmp_path / "m", tmp_path / "ours"
    target.mkdir()
    ours.mkdir()
    reading, writing = os.pipe()
    done = kpfs("mount", target, cwd=ours, pass_fds=[writing])
    os.close(writing)
    assert done.returncode == 0
    assert os.read(reading, 1) == b""
    os.close(reading)
    assert os.readlink(f"/proc/{harness.daemon_of(target)}/cwd") == "/"
    assert kpfs("umount", target).returncode == 0


def test_cpus(kpfs):
    target = kpfs.mount("--cpus", "4")
    assert "4\n" in (target / "tracing/trace").read_text().split("#P:")[1][:3]


# ---- a guest that does not come back
# in a function of the kernel, as the turn of a module's own code would end
LOOPS = """
void *memset(void *to, int value, unsigned long size);
void *(*volatile clear)(void *, int, unsigned long) = memset;
static char room[1 << 20];
INIT(__asm__ __volatile__("cli"); for (;;) clear(room, 0, sizeof(room)); return 0;)
"""


@pytest.fixture
def stuck(kpfs, mount):
    """(mount, writer): the guest loops for the write, with interrupts off.

    That it ends in time is tested by unit/host/test_patience.py, which has a clock.
    """
    kpfs.announce("did not end within 2 s: killed")
    kpfs.announce("soft lockup|lockup")
    made = modbox.module("loops", LOOPS)
    script = f"echo {made} > {mount}/machine/insmod"
    daemon = harness.daemon_of(mount)
    before = harness.cpu_time(daemon)
    with subprocess.Popen(["sh", "-c", script], stderr=subprocess.DEVNULL) as writer:
        # longer than it takes to load a module
        harness.until(lambda: harness.cpu_time(daemon) > before + 0.5, "no loop")
        assert writer.poll() is None
        yield mount, writer


def test_a_signal_while_the_guest_is_stuck(kpfs, stuck):
    mount, writer = stuck
    daemon = harness.daemon_of(mount)
    harness.kill(daemon, signal.SIGTERM)
    assert writer.wait(harness.TIMEOUT) != 0
    # the guard ends after the daemon
    harness.until(lambda: not harness.is_mounted(mount), "it stays mounted")
    assert f"kpfs[{daemon}] the daemon did not end within 2 s: killed" in (
        kpfs.log.read_text()
    )


def test_umount_while_the_guest_is_stuck(kpfs, stuck):
    mount, writer = stuck
    daemon = harness.daemon_of(mount)
    done = kpfs("umount", mount)
    words = f"kpfs: {mount}: its daemon (pid {daemon}) was stuck: killed\n"
    assert (done.returncode, done.stderr) == (0, words)
    assert writer.wait(harness.TIMEOUT) != 0
    assert not harness.is_mounted(mount)
    assert not harness.alive(daemon)


def test_a_guard_that_is_killed_is_said_once(kpfs, mount):
    """The daemon goes on without, and ends when it is told to."""
    kpfs.announce("the guard was killed")
    daemon = harness.daemon_of(mount)
    (guard,) = harness.children(daemon)
    os.kill(guard, signal.SIGKILL)
    said = "the guard was killed"
    harness.until(lambda: said in kpfs.log.read_text(), "nothing is said")
    assert (mount / "kprobes/enabled").read_text() == "1\n"
    harness.kill(daemon, signal.SIGTERM)
    assert not harness.is_mounted(mount)
    log = kpfs.log.read_text()
    assert log.count("the guard was killed") == 1
    assert "Exception" not in log


# ---- a fresh guest
PANICS = 'void panic(const char *fmt, ...);\nINIT(panic("the end"); return 0;)\n'


def test_reboot(kpfs, mount):
    """Reboot a living and a dead guest; nobody goes on waiting for the old one."""
    kpfs.announce("kernel panic")
    words = "cat", mount / "tracing/trace_pipe"
    pipe = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=-1, text=True)
    (mount / "tracing/instances/one").mkdir()
    (mount / "tracing/kprobe_events").write_text("p vfs_read\n")
    harness.await_blocked(pipe, mount / "tracing/trace_pipe")
    log = os.open(mount / "kmsg", os.O_RDONLY)
    with (mount / "machine/stats").open() as stats:
        poll = select.poll()
        poll.register(stats, select.POLLPRI)
        assert poll.poll(0) == []
        (mount / "machine/reboot").write_text("1\n")
        assert "Cannot send after" in pipe.communicate(timeout=harness.TIMEOUT)[1]
        assert poll.poll(1000 * harness.TIMEOUT) == [(stats.fileno(), select.POLLERR)]
        with pytest.raises(OSError, match="Cannot send after"):
            stats.read()
    with pytest.raises(OSError, match="Cannot send after"):
        os.read(log, 8192)
    os.close(log)
    assert (mount / "tracing/kprobe_events").read_text() == ""
    assert os.listdir(mount / "tracing/instances") == []
    with pytest.raises(OSError, match="Cannot send after"):
        (mount / "machine/insmod").write_text(f"{modbox.module('panics', PANICS)}\n")
    with pytest.raises(OSError, match="Cannot send after"):
        (mount / "kprobes/list").read_text()
    (mount / "machine/reboot").write_text("1\n")
    (mount / "tracing/kprobe_events").write_text("p:mine vfs_read\n")
    (mount / "tracing/events/kprobes/mine/enable").write_text("1")
    (mount / "kprobes/enabled").read_text()
    # a reader of trace whose reads are recorded never comes to its end
    (mount / "tracing/events/kprobes/mine/enable").write_text("0")
    assert "mine: (vfs_read" in (mount / "tracing/trace").read_text()


def test_reboot_under_run(kpfs, tmp_path):
    """The command's system calls are made in the new guest, by tasks made anew."""
    kpfs.announce("kernel panic")
    folder = tmp_path / "made"
    folder.mkdir()
    made = modbox.module("panics", PANICS)
    done = kpfs.sh(
        f"""
        trace() {{
            cd /sys/kernel/tracing
            echo p:call __x64_sys_mkdir > kprobe_events
            echo 1 > events/kprobes/call/enable
            mkdir {folder}/$2
            echo 0 > events/kprobes/call/enable
            grep -c "$1-.*call: " trace
        }} 2>/dev/null
        cd /tmp
        echo p:call __x64_sys_mkdir > /sys/kernel/tracing/kprobe_events
        echo 1 > $KPFS/machine/reboot
        cat /sys/kernel/tracing/kprobe_events
        trace mkdir one
        insmod {made}
        cat $KPFS/kprobes/list
        echo 1 > $KPFS/machine/reboot
        cat $KPFS/kprobes/list
        trace mkdir two
        """
    )
    assert done.stdout == "1\n1\n"
    assert done.stderr.count("Cannot send after transport endpoint shutdown") == 2


# ---- what cannot be done is one line
@pytest.mark.parametrize(
    "words", ["mount .", "mount --log l m", "umount .", "umount m"]
)
def test_in_a_removed_directory(kpfs, tmp_path, words):
    gone = tmp_path / "gone"
    gone.mkdir()
    script = 'cd "$1"; rmdir "$1"; shift; exec "$@"'
    done = harness.run("sh", "-c", script, "sh", gone, *kpfs.command(*words.split()))
    assert done.returncode == 2
    ours = [
        line
        for line in done.stderr.splitlines()
        if not line.startswith("shell-init: ")  # bash, of scripts/kpfs
    ]
    assert len(ours) == 1
    assert re.fullmatch(r"kpfs: .+: .+", ours[0])


def test_the_directory_of_a_log_is_not_made(kpfs, tmp_path):
    (tmp_path / "m").mkdir()
    log = tmp_path / "none\udcff/kpfs.log"
    done = kpfs("mount", "--log", log, tmp_path / "m")
    assert done.returncode == 2
    assert done.stderr == f"kpfs: {shown(str(log))}: No such file or directory\n"
    assert not log.parent.exists()
    assert not harness.is_mounted(tmp_path / "m")


@pytest.mark.parametrize("flaw", ["a link", "a second name", "a pipe", "a folder"])
def test_a_log_that_leads_elsewhere_is_not_written(kpfs, tmp_path, flaw):
    """Root with the HOME of another user would write wherever that user likes."""
    folder, target = tmp_path / "cache/kpfs", tmp_path / "m"
    folder.mkdir(parents=True)
    target.mkdir()
    (tmp_path / "other").write_text("as it was\n")
    if flaw == "a link":
        (folder / "kpfs.log").symlink_to(tmp_path / "other")
    elif flaw == "a pipe":  # an open of it waits for a reader
        os.mkfifo(folder / "kpfs.log")
    elif flaw == "a folder":
        folder.rmdir()
        folder.symlink_to(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").mkdir()
        os.chmod(tmp_path / "cache", 0o777)  # so anybody can have made the link
    else:
        (folder / "kpfs.log").hardlink_to(tmp_path / "other")
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    words = [str(harness.KPFS), "mount", str(target)]
    done = subprocess.run(words, env=environment, timeout=harness.TIMEOUT)
    assert done.returncode == 0
    assert kpfs("umount", target).returncode == 0
    assert (tmp_path / "other").read_text() == "as it was\n"
    assert not (tmp_path / "elsewhere/kpfs.log").exists()


@pytest.mark.user
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another")
def test_a_mount_is_closed_to_others(mount, ordinary):
    for folder in (mount, *mount.parents[:3]):
        folder.chmod(0o755)
    done = ordinary(f"ls {mount} || cat {mount}/kallsyms")
    assert done.returncode == 1
    assert done.stderr.count("Permission denied") == 2


@pytest.mark.user
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another")
def test_the_files_of_a_user_are_closed_to_root(ordinary):
    done = ordinary("$kpfs run -- sleep 60 >/dev/null 2>&1 & echo $!")
    runner = int(done.stdout)
    tree = "/sys/kernel/debug/kpfs"
    there = "nsenter", "-m", "-t", str(runner)

    def mounted():
        return tree in harness.run(*there, "cat", "/proc/self/mountinfo").stdout

    try:
        harness.until(mounted, "nothing is mounted")
        for words in (("ls", tree), ("cat", f"{tree}/kallsyms")):
            assert "Permission denied" in harness.run(*there, *words).stderr
    finally:
        os.kill(runner, signal.SIGTERM)


def test_the_log_stays_short(tmp_path):
    program = """
import logging, os, sys
from kpfs.commands import daemon
logging.basicConfig(stream=sys.stderr)
daemon.keep_log_short(10_000)
for i in range(1_000):
    logging.error("line %d: %s", i, "x" * 80)
    assert os.fstat(1).st_size < 10_000 + 200
"""
    log = tmp_path / "log"
    with log.open("ab") as file:
        command = [sys.executable, "-c", program]
        subprocess.run(command, stdout=file, stderr=file, check=True, cwd=harness.ROOT)
    first, *_, last = log.read_text().splitlines()
    assert re.fullmatch(r"kpfs: the log was 1\d{4} bytes long and begins anew", first)
    assert "line 999: " in last
