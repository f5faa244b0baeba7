# SPDX-License-Identifier: GPL-2.0-or-later
"""Refused writes to files of the kernel's own, and what could not be opened or made.

Tests kpfs.linux.inside.refused and kpfs.linux.memory.opened_paths.
"""

import itertools
import json
import sys

import pytest

from tests import harness

pytestmark = pytest.mark.kernel

# by file: a text that it refuses, and with what
FILES = {
    "/sys/kernel/tracing/kprobe_events": ("p:x nosuch_function", "ENOENT"),
    "/sys/kernel/tracing/current_tracer": ("nosuch", "EINVAL"),
    "/sys/kernel/tracing/events/sched/sched_switch/filter": ("nosuch == 1", "EINVAL"),
    "/sys/kernel/tracing/trace_clock": ("nosuch", "EINVAL"),
    "/sys/kernel/tracing/trace": ("", ""),
    "/sys/kernel/debug/kprobes/enabled": ("x", "EINVAL"),
    "/sys/kernel/mm/transparent_hugepage/enabled": ("nosuch", "EINVAL"),
    "/proc/sys/kernel/kptr_restrict": ("77", "EINVAL"),
    "/proc/sys/kernel/ftrace_enabled": ("no number", "EINVAL"),
    "/proc/self/oom_score_adj": ("5000", "EINVAL"),
}
WAYS = "write", "pwrite", "writev"
# how the file is named
PLACES = "whole", "relative", "by a folder"
WRITES = """
import json, os, sys
for path, text, way, place in json.loads(sys.argv[1]):
    folder, name = os.path.split(path)
    if place == "whole":
        fd = os.open(path, os.O_WRONLY)
    elif place == "relative":
        os.chdir(folder)
        fd = os.open(name, os.O_WRONLY)
    else:
        fd = os.open(name, os.O_WRONLY, dir_fd=os.open(folder, os.O_PATH))
    raw = text.encode()
    try:
        if way == "writev":
            os.writev(fd, [raw, b""])
        elif way == "pwrite":
            os.pwrite(fd, raw, 0)
        else:
            os.write(fd, raw)
    except OSError as error:
        print(error.errno, flush=True)
sys.exit(1)
"""
OPENS = """
import os, sys
os.chdir("/sys/kernel/tracing")
for path, flags in (
    ("nosuch", os.O_WRONLY | os.O_CREAT), ("events/nosuch/enable", os.O_WRONLY),
    ("/sys/kernel/debug/../nosuch", os.O_RDWR), ("../../nosuch", os.O_WRONLY),
    ("/sys/kernel/debug/tracing/nosuch", os.O_RDONLY), ("/sys/kernel", os.O_WRONLY),
    ("/nosuch", os.O_WRONLY), ("/proc/nosuch", os.O_RDONLY),
):
    try:
        os.open(path, flags)
    except OSError:
        pass
# none of these is a refusal
read, write = os.pipe()
os.set_blocking(write, False)
os.close(read)
try:
    os.write(write, b"x")
except BrokenPipeError:
    pass
os.write(os.open("current_tracer", os.O_WRONLY), b"nop")
sys.exit(1)
"""


def reasons(kpfs, kernel, *argv, options=()):
    """Run a command in a kernel; return why it failed."""
    done = kpfs("matrix", "--kernels", kernel, "--json", *options, "--", *argv)
    (row,) = json.loads(done.stdout)
    assert (done.stderr, row["status"]) == ("", 1), row
    return row["reasons"]


def python(kpfs, script, *argv):
    words = sys.executable, "-I", "-S", "-c", script, *argv
    return reasons(kpfs, harness.KERNEL, *words)


def test_writes_of_all_kinds_to_files_of_all_kinds(kpfs):
    product = itertools.product(FILES, WAYS, PLACES)
    asked = [(path, FILES[path][0], way, place) for path, way, place in product]
    told = python(kpfs, WRITES, json.dumps(asked))
    expected = [
        f"write({path.removeprefix('/sys/kernel/tracing/')}, {text!r}) = {error}"
        for path, (text, error) in FILES.items()
        if error
    ]
    names = [reason.split(": ")[0] for reason in told if reason.startswith("write(")]
    expected = [name.replace("/proc/self/", "/proc/PID/") for name in expected]
    (pid,) = {name.split("/")[2] for name in names if "oom_score_adj" in name}
    assert names == [name.replace("PID", pid) for name in reversed(expected)]
    assert told[0].split(":")[0].endswith("EINVAL")
    (probe,) = (reason for reason in told if "kprobe_events" in reason)
    assert probe.endswith(
        "trace_kprobe: error: Invalid probed address or symbol: no symbol "
        "nosuch_function"
    )


def test_files_that_cannot_be_opened(kpfs):
    told = python(kpfs, OPENS)
    assert [reason for reason in told if "open(" in reason] == [
        "open(/sys/kernel, O_WRONLY) = EISDIR",
        "open(/sys/nosuch, O_WRONLY) = ENOENT",
        "open(/sys/kernel/nosuch, O_RDWR) = ENOENT",
        "open(events/nosuch/enable, O_WRONLY) = ENOENT",
        "open(nosuch, O_WRONLY) = EACCES",
        "perhaps: open(nosuch, O_RDONLY) = ENOENT",
    ]
    assert not [reason for reason in told if "write(" in reason]


FOLDERS = """
import ctypes, os, struct, sys
def attempt(call, *args):
    try:
        call(*args)
    except OSError:
        pass
os.chdir("/sys/kernel/tracing")
os.mkdir("instances/ours")
at = os.open("instances", os.O_PATH)
attempt(lambda: os.mkdir("ours", dir_fd=at))
attempt(os.mkdir, "events/nosuch")
attempt(os.rmdir, "options")
used = os.open("instances/ours/trace_pipe", os.O_RDONLY)
attempt(lambda: os.rmdir("ours", dir_fd=at))
attempt(os.mkdir, "/tmp")
attempt(os.unlink, "instances/nosuch")
libc = ctypes.CDLL(None)
number = int(open("events/sched/sched_switch/id").read())
attr = struct.pack("<IIQ112x", 2, 128, number)
event = libc.syscall(298, attr, -1, 0, -1, 0)
assert event >= 0
assert libc.ioctl(event, 0x40082406, b"nosuch == 1") < 0
assert libc.ioctl(event, 0x40042408, 1) < 0
assert libc.ioctl(event, 0x24ff, 0) < 0
assert libc.ioctl(0, 0x5401, attr) < 0
sys.exit(1)
"""


def test_folders_and_events_of_perf(kpfs):
    told = python(kpfs, FOLDERS)
    assert told == [
        "ioctl(0x24ff) = ENOTTY",
        "ioctl(PERF_EVENT_IOC_SET_BPF) = EINVAL",
        "ioctl(PERF_EVENT_IOC_SET_FILTER, 'nosuch == 1') = EINVAL",
        "rmdir(instances/ours) = EBUSY",
        "rmdir(options) = EPERM",
        "mkdir(events/nosuch) = EPERM",
        "perhaps: mkdir(instances/ours) = EEXIST",
    ]


BURST = """
cd /sys/kernel/tracing
echo 'p:a vfs_read x=%nosuch y=+0(' >kprobe_events
echo 'p:b vfs_read x=$nosuch' >kprobe_events
echo 'p:a vfs_read x=%nosuch y=+0(' >kprobe_events
exit 1
"""


@pytest.mark.parametrize(
    ("kernel", "root"),
    [
        (harness.KERNEL, None),
        harness.on(harness.ARM64, harness.arm64_root),
        harness.on(harness.RISCV64, harness.riscv64_root),
    ],
)
def test_each_write_has_the_kernels_words_about_it(kpfs, kernel, root):
    options = ("--root", f"{kernel}={root()}") if root else ()
    shell = ("busybox",) if root else ()
    told = reasons(kpfs, kernel, *shell, "sh", "-c", BURST, options=options)
    write, why = "write(kprobe_events, ", "EINVAL: trace_kprobe: error:"
    assert told[:2] == [
        f"{write}'p:a vfs_read x=%nosuch y=+0(') = {why} Invalid register name",
        f"{write}'p:b vfs_read x=$nosuch') = {why} Invalid $-variable specified",
    ]
