# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes to the mount's files under ``kpfs run``, where FUSE alone would differ.

The recorded cases at the real paths are in tests/conformance.
"""

import os
import platform
import re
import shlex
import subprocess
import sys
import time

import pytest

from tests import harness

pytestmark = [pytest.mark.fuse, pytest.mark.guest]

ENABLED = "/sys/kernel/debug/kprobes/enabled"
LINUX = tuple(int(n) for n in re.findall(r"\d+", platform.release())[:2])
START = """
import ctypes, errno, os, signal, struct, sys, threading, time
ENABLED = "/sys/kernel/debug/kprobes/enabled"
TRACING = "/sys/kernel/tracing/"
def code(function, *args):
    try:
        return function(*args)
    except OSError as error:
        return errno.errorcode[error.errno]
def write(path, data):
    fd = os.open(path, os.O_WRONLY)
    try:
        return code(os.write, fd, data)
    finally:
        os.close(fd)
def position(fd):
    return os.lseek(fd, 0, os.SEEK_CUR)
"""


@pytest.fixture
def program(kpfs):
    """Runs a program in Python under kpfs run: its lines."""

    def program(text, *options, prefix=()):
        words = (*options, "--", *prefix, sys.executable, "-Sc", START + text)
        done = kpfs("run", *words)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    return program


def test_each_write_is_made_once_by_the_task_of_the_writer(program):
    me, *hits = program(
        """
write(TRACING + "kprobe_events", b"p:w ksys_write n=%dx:u64")
enable, ignores = (os.open(TRACING + name, os.O_RDWR)
    for name in ("events/kprobes/w/enable", "error_log"))
os.write(enable, b"1")
for size in (0, 1, 20000, 0, 200000):
    os.write(ignores, b"x" * size)
os.write(enable, b"0\\n")
with open("/proc/self/comm") as comm:
    print(f"{comm.read().strip()[:15]}-{os.getpid()}")
for line in open(TRACING + "trace"):
    if not line.startswith("#"):
        print(line.split()[0], line.split("n=")[1].strip())
""",
        "--quiet-guest",
    )
    assert {hit.split()[0] for hit in hits} == {me}
    # the last is more than one request of FUSE takes
    first, second, third, fourth, *pieces, last = [int(h.split()[1]) for h in hits]
    assert (first, second, third, fourth, last) == (0, 1, 20000, 0, 2)
    assert (len(pieces), sum(pieces)) == (2, 200000)


def test_threads(program):
    """A thread that is not the first of its process writes, too."""
    (line,) = program("""
thread = threading.Thread(target=lambda: print(write(ENABLED, b"")))
thread.start()
thread.join()
""")
    assert line == ("EINVAL" if LINUX >= (6, 9) else "0")


def test_many_at_once(program):
    """Each makes its own, and all of them are there in the end."""
    lines = program("""
for n in range(8):
    if not os.fork():
        fd = os.open(TRACING + "kprobe_events", os.O_WRONLY | os.O_APPEND)
        for m in range(20):
            os.write(fd, b"p:e%d_%d vfs_read\\n" % (n, m))
            assert position(fd) == 0
            assert code(os.write, fd, b"nonsense") == "EINVAL"
        os._exit(0)
print({os.wait()[1] for _ in range(8)})
print(len(open(TRACING + "kprobe_events").readlines()))
""")
    assert lines == ["{0}", "160"]


def test_a_position_that_is_shared(program):
    lines = program("""
fd = os.open(TRACING + "tracing_on", os.O_RDWR)
if not os.fork():
    os.write(fd, b"1\\n")
    os._exit(0)
os.wait()
print(position(fd), os.read(fd, 9))
os.write(fd, b"1\\n")
print(position(fd), os.pwrite(fd, b"0", 50), position(fd), os.pread(fd, 9, 0))
""")
    assert lines == ["1 b'\\n'", "3 1 3 b'0\\n'"]


def test_descriptors_that_cannot_be_written_to(program):
    lines = program("""
fd = os.open(ENABLED, os.O_RDONLY)
print(code(os.write, fd, b"0"), code(os.pwrite, fd, b"0", 0), code(os.write, fd, b""))
path = os.open(ENABLED, os.O_PATH)
print(code(os.write, path, b"0"), code(os.writev, path, [b"0"]))
os.close(fd)
print(code(os.write, fd, b"0"), open(ENABLED).read())
""")
    assert lines == ["EBADF EBADF EBADF", "EBADF EBADF", "EBADF 1", ""]


def test_memory_that_is_not_there(program):
    lines = program("""
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open(ENABLED, os.O_WRONLY)
for size in (1, 5000, 1 << 40):
    print(libc.write(fd, ctypes.c_void_p(16), ctypes.c_size_t(size)),
        errno.errorcode[ctypes.get_errno()])
""")
    assert lines == ["-1 EFAULT"] * 3


def test_kmsg(program):
    lines = program("""
fd = os.open("/dev/kmsg", os.O_WRONLY)
print(os.writev(fd, [b"one ", b"two\\n"]), os.pwrite(fd, b"three", 9))
log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
while isinstance(record := code(os.read, log, 8192), bytes):
    if b"two" in record or b"three" in record:
        print(record.decode().split(";")[1].strip())
""")
    assert lines == ["8 5", "one two", "three"]


def test_a_blocked_reader_does_not_hold_up_a_writer(program):
    """Both use one open file, whose position the reader has locked."""
    lines = program("""
fd = os.open("/dev/kmsg", os.O_RDWR)
log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
seen = 0
while isinstance(code(os.read, log, 8192), bytes):
    seen += 1
records = []
def reader():
    for _ in range(seen + 1):
        records.append(os.read(fd, 8192).decode().split(";")[1].strip())
thread = threading.Thread(target=reader)
thread.start()
time.sleep(0.3)
print(os.write(fd, b"wake up"))
thread.join()
print(records[-1])
""")
    assert lines == ["7", "wake up"]


def test_inotify(program):
    """One event for each write that took something."""
    lines = program("""
libc = ctypes.CDLL(None)
notify = libc.inotify_init1(os.O_NONBLOCK)
libc.inotify_add_watch(notify, ENABLED.encode(), 2)
fd = os.open(ENABLED, os.O_WRONLY)
for data in (b"1", b"", b"x", b"1"):
    code(os.write, fd, data)
    events = code(os.read, notify, 4096)
    print(events if isinstance(events, str) else len(events))
""")
    assert lines == ["16", "EAGAIN", "EAGAIN", "16"]


def test_a_writer_that_is_killed(program):
    """Nothing hangs, and what it had begun is whole or not there."""
    lines = program("""
text = b"".join(b"p:e%d vfs_read\\n" % n for n in range(50))
for delay in range(0, 40, 4):
    child = os.fork()
    if not child:
        while True:
            write(TRACING + "kprobe_events", text)
            write(TRACING + "dynamic_events", b"")
            os.close(os.open(TRACING + "kprobe_events", os.O_WRONLY | os.O_TRUNC))
    time.sleep(delay / 1000)
    os.kill(child, 9)
    os.waitpid(child, 0)
    there = len(open(TRACING + "kprobe_events").readlines())
    if there not in (0, 50):
        print(there)
    os.close(os.open(TRACING + "kprobe_events", os.O_WRONLY | os.O_TRUNC))
print(write(ENABLED, b""))
""")
    assert lines == ["EINVAL"]


def test_the_files_of_one_within_another(kpfs):
    """Their own daemon makes their writes, the outer one keeps off."""
    inner = f"echo 0 >{ENABLED}; printf 1 >>{ENABLED}; echo 0 >{ENABLED}; cat {ENABLED}"
    done = kpfs.sh(f"{harness.KPFS} run -- sh -c '{inner}'; cat {ENABLED}")
    said = "kpfs: system calls are not mirrored: another process has them, "
    assert done.stdout == "0\n1\n"
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1


def test_the_end_with_writes_under_way(kpfs):
    """The daemon, which waits for its own mount, ends; so do the writers."""
    writer = f"while echo 1 >{ENABLED}; do :; done >/dev/null 2>&1 </dev/null &"
    for _ in range(3):
        assert kpfs.sh(f"{writer} {writer} sleep 0.2", timeout=20).returncode == 0


def test_without_mirroring_it_is_fuse(program):
    lines = program('print(write(ENABLED, b""), write(ENABLED, b"0"))', "--no-mirror")
    assert lines == ["0 1"]


def leads_to(link):
    try:
        return os.readlink(link)
    except FileNotFoundError:  # it was just closed
        return "/proc/"


def at_rest(directory):
    """Return the least number of links in it; a call under way adds some briefly.

    Files of /proc do not count: kpfs.mirror.proc_fd_cache keeps some open.
    """
    counts = []
    for _ in range(20):
        places = [leads_to(f"{directory}/{name}") for name in os.listdir(directory)]
        counts.append(sum(not place.startswith("/proc/") for place in places))
        time.sleep(0.01)
    return min(counts)


def test_nothing_of_it_stays_open(kpfs, tmp_path):
    """The daemon's descriptors are those that it had."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    script = f"""
    K={ENABLED}
    writes() {{ for n in 1 2 3 4 5 6 7; do echo 1 >$K; echo x >$K; done 2>/dev/null; }}
    writes; echo 1 >{fifo}; read x <{fifo}
    writes; writes; echo 2 >{fifo}; read x <{fifo}
    """
    run = subprocess.Popen(kpfs.command("run", "--", "sh", "-c", script))
    fifo.read_text()
    pids = harness.children(run.pid)
    names = {open(f"/proc/{pid}/comm").read().strip(): pid for pid in pids}
    descriptors = f"/proc/{names['kpfs']}/fd"
    before = at_rest(descriptors)
    fifo.write_text("go\n")
    fifo.read_text()
    harness.until(lambda: at_rest(descriptors) <= before, "some stay open")
    fifo.write_text("go\n")
    assert run.wait(harness.TIMEOUT) == 0


@pytest.mark.user
def test_as_an_ordinary_user(ordinary):
    """The host lets a user take descriptors of a process of the same user."""
    text = """
print(write(ENABLED, b""))
fd = os.open(ENABLED, os.O_RDWR)
print(os.write(fd, b"1"), position(fd))
print(code(os.pwrite, os.open(TRACING + "kprobe_events", os.O_RDWR), b"x", 0))
"""
    command = ["/usr/bin/python3", "-Sc", START + text]
    done = ordinary(f"$kpfs run -- {shlex.join(command)}")
    assert (done.stdout, done.stderr) == ("EINVAL\n1 0\nESPIPE\n", "")
