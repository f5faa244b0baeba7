# SPDX-License-Identifier: GPL-2.0-or-later
"""splice(2) and sendfile(2) from and to the files, as Linux 6.1 and 6.12 have it.

What each file answers was asked of both kernels, for all files of the trees.
"""

import errno
import fcntl
import os
import platform
import re
import sys

import pytest

from tests import harness
from tests.e2e.test_tools import PATH, needs

pytestmark = pytest.mark.fuse

LINUX_HOST = tuple(int(n) for n in re.findall(r"\d+", platform.release())[:2])
GUEST = pytest.param((), id="guest", marks=pytest.mark.guest)
KERNEL = ("--kernel", harness.KERNEL)
LINUX = pytest.param(KERNEL, id="linux", marks=pytest.mark.kernel)
START = """
import array, ctypes, errno, fcntl, os, signal, sys, termios, threading
TRACING = "/sys/kernel/tracing/"
RAW = TRACING + "per_cpu/cpu0/trace_pipe_raw"
libc = ctypes.CDLL(None, use_errno=True)
libc.splice.restype = libc.sendfile.restype = ctypes.c_ssize_t

def made(value):
    return value if value >= 0 else errno.errorcode[ctypes.get_errno()]

def splice(source, target, size=4096, flags=0):
    size = ctypes.c_size_t(size)
    return made(libc.splice(source, None, target, None, size, flags))

def sendfile(source, target, size=4096):
    return made(libc.sendfile(target, source, None, ctypes.c_size_t(size)))

def waiting(pipe):
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]

def handle(*_):
    pass

signal.signal(signal.SIGALRM, handle)
libc.siginterrupt(signal.SIGALRM, 1)

def marks(count, size=60):
    fd = os.open(TRACING + "trace_marker", os.O_WRONLY)
    for number in range(count):
        os.write(fd, b"%0*d" % (size, number))
    os.close(fd)

def put(name, text):
    with open(TRACING + name, "w") as file:
        file.write(text)
"""
EACH = """
put("kprobe_events", "p:kp vfs_read")
marks(1)
paths = [
    "/proc/sys/debug/kprobes-optimization", "/proc/sys/kernel/ftrace_enabled",
    "/proc/sys/kernel/osrelease", "/proc/sys/kernel/printk", "/proc/version",
    "/proc/cmdline", "/proc/kallsyms", "/proc/modules", "/dev/kmsg",
]
for top in (TRACING, "/sys/kernel/debug/kprobes", "/sys/module/kprobe_example"):
    for folder, names, files in os.walk(top):
        if "events" in names:
            names.remove("events")
        paths += [os.path.join(folder, name) for name in files]
for folder in ("events/kprobes", "events/kprobes/kp", "events/sched/sched_switch"):
    paths += [entry.path for entry in os.scandir(TRACING + folder) if entry.is_file()]
null, (source, target) = os.open("/dev/null", os.O_WRONLY), os.pipe()
os.set_blocking(target, False)
for path in sorted(paths):
    found = ["-"] * 4
    for index, take in enumerate((splice, sendfile)):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            break  # it is for writing
        found[index] = take(fd, null if index else target)
        os.close(fd)
    if waiting(source):
        os.read(source, 1 << 16)
    try:
        fd = os.open(path, os.O_WRONLY)
    except OSError:
        pass  # it is for reading
    else:
        os.write(target, b"@")
        found[2:] = splice(source, fd, 1), waiting(source)
        os.close(fd)
        os.read(source, 1)
    print(path.replace(TRACING, "", 1), *found)
"""


@pytest.fixture
def program(kpfs):
    """Runs a program in Python under kpfs run; returns the lines that it prints."""

    def program(text, *options):
        words = (*options, "--", sys.executable, "-Sc", START + text)
        done = kpfs("run", "--quiet-guest", *words, timeout=150)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    return program


def is_spliced(path):
    """Return True if Linux splices from a file."""
    name = path.rpartition("/")[2]
    if path.startswith(("/proc/sys/", "/sys/module/")):
        return True
    if name in ("trace", "trace_pipe", "trace_pipe_raw", "snapshot_raw"):
        return True
    return path in ("/proc/version", "/proc/cmdline")


@pytest.mark.parametrize("options", [GUEST, LINUX])
def test_which_files_can_be_spliced(program, options):
    before = "os.system('modprobe kprobe_example 2>/dev/null')\n"
    lines = program(before + EACH, *options)
    assert len(lines) > 70
    for line in lines:
        path, taken, sent, into, left = line.split()
        name = path.rpartition("/")[2]
        if not is_spliced(path):
            assert {taken, sent} <= {"EINVAL", "-"}, line
        elif name in ("trace_pipe", "trace_pipe_raw", "snapshot_raw"):
            assert taken == "EAGAIN" or int(taken) > 0, line
            assert sent == "EINVAL", line  # as it has no position
        else:
            assert taken == "-" or int(taken) == int(sent) > 0, line
        # sysctls and parameters refuse what is no number, the others to be spliced
        assert into in ("EINVAL", "-") or path.startswith("/sys/module/"), line
        assert left in ("1", "-"), line


INTO = """
def into(path, text, *, sent=False):
    fd = os.open(path, os.O_WRONLY)
    if sent:
        file = os.memfd_create("text")
        os.write(file, text)
        os.lseek(file, 0, 0)
        done = sendfile(file, fd), os.lseek(file, 0, 1)
    else:
        source, target = os.pipe()
        os.write(target, text)
        done = splice(source, fd), waiting(source)
    os.close(fd)
    with open(path) as file:
        print(*done, file.read().count("1"))

for sent in (False, True):
    into("/proc/sys/debug/kprobes-optimization", b"0\\n", sent=sent)
    into("/proc/sys/debug/kprobes-optimization", b"7\\n", sent=sent)
    into("/proc/sys/debug/kprobes-optimization", b"1\\n", sent=sent)
    into(TRACING + "kprobe_events", b"p:one vfs_read 1\\n", sent=sent)
    into(TRACING + "tracing_on", b"0\\n", sent=sent)
"""


@pytest.mark.parametrize("options", [GUEST, LINUX])
def test_splicing_into_files(program, options):
    """Sysctls and parameters of modules take it; others refuse, and nothing is lost."""
    spliced = ["2 0 0", "EINVAL 2 0", "2 0 1", "EINVAL 17 0", "EINVAL 2 1"]
    sent = ["2 2 0", "EINVAL 0 0", "2 2 1", "EINVAL 0 0", "EINVAL 0 1"]
    assert program(INTO, *options) == spliced + sent


# Steps: s splice, n the same with SPLICE_F_NONBLOCK, r read, f sendfile, l lseek; each
# with a size, and what it gives.
STEPS = """
def steps(name, flags, *expected):
    source, target = os.pipe()
    fd, null = os.open(TRACING + name, os.O_RDONLY | flags), os.open("/dev/null", 1)
    ways = {
        "s": lambda size: splice(fd, target, size),
        "n": lambda size: splice(fd, target, size, 2),
        "r": lambda size: made(libc.read(fd, bytes(size), size)),
        "f": lambda size: sendfile(fd, null, size),
        "l": lambda size: os.lseek(fd, size, 0),
    }
    found = []
    for step, result in expected:
        found.append((step, ways[step[0]](int(step[1:]))))
        if left := waiting(source):
            os.read(source, left)
    os.close(fd)
    print(*(pair for pair in zip(found, expected) if pair[0] != pair[1]))

WAIT, NOW = 0, os.O_NONBLOCK
AGAIN, INVALID, WHOLE = "EAGAIN", "EINVAL", 4096
raw = "per_cpu/cpu0/trace_pipe_raw"
put("buffer_size_kb", "1000")
marks(3)
with open(TRACING + "trace") as file:
    text = file.read()
size, line = len(text), len(text.splitlines()[-1]) + 1
"""


@pytest.mark.parametrize("options", [GUEST, LINUX])
@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(
            """
steps("trace", WAIT, ("s100", 100), ("n100", 100), ("s4096", size - 200), ("s1", 0),
    ("l0", 0), ("f50", 50), ("f4096", size - 50), ("f1", 0), ("l0", 0), ("s4096", size))
steps("README", WAIT, ("s4096", INVALID), ("f4096", INVALID))
""",
            id="text",
        ),
        pytest.param(
            """
steps("trace_pipe", NOW, ("n10", 0), (f"s{2 * line + 5}", 2 * line), ("s4096", line),
    ("s4096", AGAIN), ("f4096", INVALID))
marks(200)
steps("trace_pipe", NOW, ("s4096", 4096 // line * line))
""",
            id="lines",
        ),
        pytest.param(
            """
steps(raw, NOW, ("n4096", AGAIN), ("s4096", AGAIN), ("n100", INVALID), ("n5000", AGAIN),
    ("r4096", WHOLE), ("n4096", AGAIN))
marks(3)
steps(raw, NOW, ("r100", 100), ("n4096", INVALID), ("r4096", 3996), ("n4096", AGAIN))
put("trace", "")
marks(200)
steps(raw, NOW, ("n4096", WHOLE), ("n5000", WHOLE), ("f4096", INVALID),
    ("s65536", 2 * WHOLE), ("s65536", AGAIN), ("r4096", WHOLE), ("r4096", AGAIN))
steps("per_cpu/cpu0/snapshot_raw", NOW, ("n4096", AGAIN))
""",
            id="pages",
        ),
    ],
)
def test_sizes(program, asked, options):
    lines = program(STEPS + asked, *options, "--cpus", "1")
    assert lines == [""] * asked.count("steps(")


WAITING = """
def interrupted(name, flags=0, pipe_flags=0):
    source, target = os.pipe2(pipe_flags)
    fd = os.open(TRACING + name, os.O_RDONLY)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    done = splice(fd, target, 4096, flags)
    signal.setitimer(signal.ITIMER_REAL, 0)
    os.close(fd)
    return done

raw = "per_cpu/cpu0/trace_pipe_raw"
put("buffer_size_kb", "1000")
put("buffer_percent", "1")
# SPLICE_F_NONBLOCK is for the pipe, and so is O_NONBLOCK of it; only the raw file heeds
for name in ("trace_pipe", raw):
    print(name, *(interrupted(name, *how) for how in ((), (2,), (0, os.O_NONBLOCK))))
marks(1)
print(interrupted(raw))

def reader(name, found):
    source, target = os.pipe()
    fd = os.open(TRACING + name, os.O_RDONLY)
    files.append(fd)
    ready.release()
    found.append(splice(fd, target))
    os.close(fd)

def is_in_splice(thread):
    with open(f"/proc/self/task/{thread.native_id}/syscall") as file:
        return file.read().split()[0] == "275"

def in_thread(name, wake):
    put("trace", "")
    found = []
    thread = threading.Thread(target=reader, args=(name, found))
    thread.start()
    ready.acquire()
    while not is_in_splice(thread):
        pass
    wake(found)
    thread.join()
    return found[0]

def fill(found):
    while not found:
        marks(100)

def wake(found):
    while not found:  # it may not wait yet
        fcntl.ioctl(files[-1], 0)

ready, files = threading.Semaphore(0), []
print(in_thread("trace_pipe", lambda _: marks(1)) > 60)
print(in_thread(raw, fill), in_thread(raw, wake))
try:
    fcntl.ioctl(os.open(TRACING + "trace", 0), 0)
except OSError as error:
    print(errno.errorcode[error.errno])
"""


@pytest.mark.parametrize("options", [GUEST, LINUX])
def test_waiting(program, options):
    raw = "per_cpu/cpu0/trace_pipe_raw"
    assert program(WAITING, *options, "--cpus", "1") == [
        "trace_pipe EINTR EINTR EINTR",
        f"{raw} EINTR EAGAIN EAGAIN",
        "EINTR",
        "True",
        "4096 0",
        "ENOTTY",
    ]


@pytest.mark.parametrize(
    "options",
    [GUEST, pytest.param(("--transport", "libfuse"), marks=pytest.mark.libfuse)],
)
@pytest.mark.parametrize("flags", [0, os.O_DIRECT])
def test_on_a_mount(kpfs, options, flags):
    """The program itself sets O_DIRECT by fcntl(2), where no supervisor does."""
    mount = kpfs.mount(*options)
    source, target = os.pipe()

    def splice(name, flags):
        fd = os.open(mount / name, os.O_RDONLY | os.O_NONBLOCK)
        try:
            fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK | flags)
            return os.splice(fd, target, 4096)
        except OSError as error:
            return errno.errorcode[error.errno or 0]
        finally:
            os.close(fd)

    (mount / "tracing/trace_marker").write_text("x")
    files = "tracing/trace", "tracing/trace_pipe", "version", "tracing/README"
    taken = [splice(name, flags) for name in files]
    if not flags and LINUX_HOST >= (6, 5):
        assert taken == ["EINVAL"] * 4
    elif flags:
        assert min(taken[:3]) > 0
        assert taken[3] == "EINVAL"
    os.close(source)
    os.close(target)


RECORD = """
trace-cmd record -q -o {folder}/dat -e syscalls:sys_enter_getppid {python} -Sc '
import os
for number in range({count}):
    os.getppid()
'
trace-cmd report -i {folder}/dat | grep -c "sys_enter_getppid:"
"""


@needs("trace-cmd", "trace-cmd")
@pytest.mark.long
@pytest.mark.parametrize("options", [GUEST, LINUX])
def test_trace_cmd_record_loses_nothing(kpfs, tmp_path, options):
    """The recorders splice trace_pipe_raw, and read(2) the rest."""
    count, home = 5000, {**os.environ, "PATH": PATH, "HOME": str(tmp_path)}
    script = RECORD.format(folder=tmp_path, python=sys.executable, count=count)
    done = kpfs("run", *options, "--", "sh", "-ec", script, env=home, timeout=150)
    assert done.returncode == 0, done.stderr
    assert count <= int(done.stdout.split()[-1]) < count + 200
