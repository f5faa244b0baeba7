# SPDX-License-Identifier: GPL-2.0-or-later
"""Waiting for the files that wait, in each way that Linux has."""

import select
import subprocess
import sys

import pytest

from tests import harness

pytestmark = pytest.mark.fuse

BEHIND = "--kernel", harness.KERNEL
PLACES = [
    pytest.param((), id="guest"),
    pytest.param(BEHIND, id="behind", marks=pytest.mark.kernel),
    # what Linux itself says
    pytest.param((*BEHIND, "--inside"), id="inside", marks=pytest.mark.kernel),
]

# waits with a time limit for an empty file, and for what another file's reader takes
LIMITS = """
import os, select
os.mkdir("/sys/kernel/tracing/instances/x")
files = [os.open(f"/sys/kernel/tracing/{folder}trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
         for folder in ("", "instances/x/")]
marker = os.open("/sys/kernel/tracing/trace_marker", os.O_WRONLY)
poll, level, edge = select.poll(), select.epoll(), select.epoll()
for fd in files:
    poll.register(fd, select.POLLIN)
    level.register(fd, select.EPOLLIN)
    edge.register(fd, select.EPOLLIN | select.EPOLLET)
ways = {
    "poll": lambda: poll.poll(100),
    "select": lambda: select.select(files, [], [], 0.1)[0],
    "level": lambda: level.poll(0.1),
    "edge": lambda: edge.poll(0.1),
}
for name, wait in ways.items():
    print(name, *(len(wait()) for _ in range(3)))
    for _ in range(2):
        os.write(marker, b"hello")
        print(name, *(len(wait()) for _ in range(3)))
    os.read(files[0], 4096)
"""
LIMITS_SAID = """\
poll 0 0 0
poll 1 1 1
poll 1 1 1
select 0 0 0
select 1 1 1
select 1 1 1
level 0 0 0
level 1 1 1
level 1 1 1
edge 0 0 0
edge 1 0 0
edge 1 0 0
"""


@pytest.mark.parametrize("where", PLACES)
def test_waits_with_a_time_limit_end(kpfs, where):
    done = kpfs("run", *where, "--", sys.executable, "-ISc", LIMITS)
    assert (done.stdout, done.stderr) == (LIMITS_SAID, "")


@pytest.mark.parametrize("kernel", harness.on_each(harness.FOREIGN))
def test_signals_end_waits_on_each_architecture(kpfs, kernel):
    """The task that waits would be made anew for each poller, and so on."""
    test_waits_with_a_time_limit_end(kpfs, ("--kernel", kernel))


@pytest.mark.kernel
def test_a_change_that_a_file_tells_once(kpfs):
    """Linux says POLLPRI and POLLERR of a changed sysctl to who asks first."""
    name = kpfs.mount(*BEHIND) / "sys/kernel/hostname"
    with name.open() as file:
        file.read()
        poll = select.poll()
        poll.register(file, select.POLLPRI)
        assert poll.poll(100) == []
        for new in ("one", "two"):
            name.write_text(new)
            told = [(file.fileno(), select.POLLPRI | select.POLLERR)]
            assert poll.poll(1000 * harness.TIMEOUT) == told
            assert poll.poll(100) == []


# ---- the product of ways to wait, states of a file, and files
PROGRAM = str(harness.ROOT / "tests/programs/waits.py")
# what Linux 6.1 says of itself
RIGHT = (harness.ROOT / "tests/data/waits.out").read_text().splitlines()
# Paths that a command sees, and the one of a sysctl that the guest kernel lacks.
SEEN = "/sys/kernel/tracing", "/dev/kmsg", "/proc/sys/kernel/printk_devkmsg"
ONE_CPU = "--cpus", "1"  # the files of the first CPU have all records


def asked(lines):
    """Return which files, states and ways lines are about, as words of the program."""
    columns = zip(*(line.split()[:3] for line in lines), strict=True)
    files, states, ways = (" ".join(dict.fromkeys(column)) for column in columns)
    return ways, states, files


def by_mount(*options):
    def run(kpfs, words):
        m = kpfs.mount(*ONE_CPU, *options)
        places = str(m / "tracing"), str(m / "kmsg"), ""
        command = [sys.executable, "-IS", PROGRAM, *places, *words]
        limit = 10 * harness.TIMEOUT
        return subprocess.run(command, capture_output=True, text=True, timeout=limit)

    return run


def by_run(*options, limit=""):
    def run(kpfs, words):
        command = sys.executable, "-IS", PROGRAM, *SEEN[:2], limit, *words
        return kpfs("run", *options, "--", *command)

    return run


HAVE_KERNEL = pytest.mark.kernel
WHERE = [
    pytest.param(by_run(*ONE_CPU), id="guest"),
    pytest.param(by_mount(), id="mount"),
    pytest.param(
        by_mount("--transport", "libfuse"), id="libfuse", marks=pytest.mark.libfuse
    ),
    pytest.param(by_run(*BEHIND, limit=SEEN[2]), id="behind", marks=HAVE_KERNEL),
    pytest.param(
        by_run(*BEHIND, "--inside", limit=SEEN[2]), id="inside", marks=HAVE_KERNEL
    ),
]


def told(kpfs, run, lines):
    done = run(kpfs, asked(lines))
    # a state of some files is that the ring has been full
    said = [line for line in done.stderr.splitlines() if "kpfs: lost: " not in line]
    assert not said
    assert done.returncode == 0
    return done.stdout.splitlines()


@pytest.mark.parametrize("run", WHERE)
def test_each_way_to_wait_for_a_record(kpfs, run):
    lines = [line for line in RIGHT if line.startswith("trace_pipe one ")]
    assert told(kpfs, run, lines) == lines


def cases():
    """Yield a case for each file and place; all but one of each file are slow."""
    for number, file in enumerate(dict.fromkeys(line.split()[0] for line in RIGHT)):
        for place in WHERE:
            often = place.id == ("mount", "behind", "guest")[number % 3]
            marks = [*place.marks, pytest.mark.long if often else pytest.mark.slow]
            yield pytest.param(
                *place.values, file, id=f"{place.id}-{file}", marks=marks
            )


@pytest.mark.parametrize(("run", "file"), [*cases()])
def test_each_way_to_wait_for_each_file_in_each_state(kpfs, run, file):
    lines = [line for line in RIGHT if line.startswith(f"{file} ")]
    assert told(kpfs, run, lines) == lines
