# SPDX-License-Identifier: GPL-2.0-or-later
"""Long texts that programs of the guest read are those that its kernel would make.

Tests kpfs.linux.inside.lines.
"""

import os
import re
from collections import Counter

import pytest

from kpfs.base import syscall_numbers as nr
from kpfs.linux.board.own import show
from kpfs.linux.inside import lines, mounted, tree
from kpfs.linux.running.machine import STOP, Op, Out
from kpfs.linux.store import store
from tests import harness

pytestmark = pytest.mark.kernel

KALLSYMS = "/proc/kallsyms"
TRACING = "/sys/kernel/tracing"
FUNCTIONS = f"{TRACING}/available_filter_functions"
SIZE = 100_000
SETUID = 105
# what each of them calls for a line, as far as the tracer may look
ROOTS = "s_next", "s_show", "kallsyms_lookup", "seq_puts", "seq_putc"


class Guest:
    """A guest whose tasks read files."""

    def __init__(self, folder):
        self.guest = mounted.start(folder, quiet=True)
        self.machine = self.guest.loop.machine
        self.task = self.guest.worker
        show(self.machine.board, self.task.slot, seen=True)

    def open(self, path, flags=os.O_RDONLY, task=None):
        op = Op(nr.OPEN, (f"{tree.NEW}{path}\0".encode(), flags), STOP)
        return (task or self.task).call(op)[0]

    def read(self, path, size=SIZE, task=None):
        """Read a file to its end as a task."""
        task, data = task or self.task, b""
        fd = self.open(path, task=task)
        while piece := self.take(fd, size, task):
            data += piece
        task.call(Op(nr.CLOSE, (fd,)))
        return data

    def take(self, fd, size, task=None, at=None):
        """Read once."""
        task = task or self.task
        call = Op(nr.READ, (fd, Out(size), size))
        if at is not None:
            call = Op(nr.PREAD64, (fd, Out(size), size, at))
        place = task.start([call], lambda: None)[0]
        task.wait()
        count = task.results(1)[0]
        assert count >= 0
        return bytes(task.memory[place : place + count])

    def write(self, path, text):
        fd = self.open(path, os.O_WRONLY | os.O_APPEND)
        data = text.encode() + b"\n"
        self.task.call(Op(nr.WRITE, (fd, data, len(data))), Op(nr.CLOSE, (fd,)))

    def counted(self, path):
        """Read a file; return its text, and how many blocks that took."""
        before = self.machine.board.blocks
        text = self.read(path)
        return text, self.machine.board.blocks - before


@pytest.fixture
def folder():
    return store.folder(harness.KERNEL)


@pytest.fixture
def begin(folder):
    begun = []

    def start():
        begun.append(Guest(folder))
        return begun[-1]

    yield start
    for guest in begun:
        guest.machine.close()


@pytest.fixture
def guest(begin):
    return begin()


@pytest.fixture
def slow(begin):
    """A guest whose kernel makes all lines itself."""
    made = begin()
    made.machine.board.set_calls([])
    return made


@pytest.mark.parametrize("path", [KALLSYMS, FUNCTIONS])
def test_the_same_bytes_for_less(guest, slow, path):
    own, blocks = slow.counted(path)
    assert guest.read(path, 1000) == own
    text, fewer = guest.counted(path)
    assert text == own
    assert fewer < blocks / 8


@pytest.mark.parametrize("path", [KALLSYMS, FUNCTIONS])
def test_from_anywhere(guest, slow, path):
    own = slow.read(path)
    fd = guest.open(path)
    for at in (0, 5000, 123_456, 4000, len(own) - 100):
        assert own.startswith(guest.take(fd, SIZE, at=at), at), at
    # and on from where read() left it
    assert guest.take(fd, SIZE) == own[: len(guest.take(guest.open(path), SIZE))]


def test_addresses_are_hidden_from_users(guest, slow):
    users = [each.task.fork("user") for each in (guest, slow)]
    for user in users:
        user.call(Op(SETUID, (1000,)))
    own = slow.read(KALLSYMS, task=users[1])
    assert b"\nffffffff" not in own
    assert guest.read(KALLSYMS, task=users[0]) == own
    assert b"\nffffffff" in guest.read(KALLSYMS)
    guest.write("/proc/sys/kernel/kptr_restrict", "2")
    assert guest.read(KALLSYMS) == own


def test_symbols_behind_the_kernels_own(guest, slow):
    for each in (guest, slow):
        each.write(f"{TRACING}/kprobe_events", "p:e vfs_read+5")
    text = guest.read(KALLSYMS)
    assert b"\t[overlay]\n" in text
    assert b"\t[__builtin__kprobes]\n" in text
    assert text == slow.read(KALLSYMS)


@pytest.mark.long
def test_another_file_of_the_same_operations_is_let_alone(guest, slow):
    """A filter of the very functions that the other one begins with."""
    first = slow.read(FUNCTIONS).decode().split("\n")[:3]
    for each in (guest, slow):
        each.read(FUNCTIONS)
        for name in first:
            each.write(f"{TRACING}/set_ftrace_filter", name)
    found = guest.read(f"{TRACING}/set_ftrace_filter")
    assert found == slow.read(f"{TRACING}/set_ftrace_filter")
    assert found.count(b"\n") < 100


@pytest.mark.parametrize("function", ["seq_printf", "update_iter"])
def test_a_probe_is_hit_by_each_line(guest, function):
    guest.write(f"{TRACING}/kprobe_events", f"p:e {function}")
    guest.read(KALLSYMS)
    guest.write(f"{TRACING}/events/kprobes/e/enable", "1")
    text = guest.read(KALLSYMS)
    hits = int(guest.read(f"{TRACING}/kprobe_profile").split()[1])
    assert hits >= text.count(b"\n")
    guest.write(f"{TRACING}/events/kprobes/e/enable", "0")


@pytest.mark.long
def test_functions_that_make_a_line(guest):
    """The kernel's own tracer says what is called for a line."""
    if b"function_graph" not in guest.read(f"{TRACING}/available_tracers"):
        pytest.skip("this kernel has no function_graph")
    symbols, memory = guest.guest.symbols, guest.guest.memory
    for name in ROOTS:
        guest.write(f"{TRACING}/set_graph_function", name)
    guest.write(f"{TRACING}/tracing_on", "0")
    guest.write(f"{TRACING}/current_tracer", "function_graph")  # takes seconds
    for place, path in zip(lines.find(guest.guest), (KALLSYMS, FUNCTIONS), strict=True):
        known = {
            row.name.split(".")[0]
            for at, _ in place.functions
            if (row := symbols.symbol_at(at))
        }
        assert memory.word(place.op + 24) == place.show
        fd = guest.open(path)
        guest.write(f"{TRACING}/tracing_on", "1")
        taken = guest.take(fd, SIZE // 10).count(b"\n")
        guest.write(f"{TRACING}/tracing_on", "0")
        trace = guest.read(f"{TRACING}/trace").decode()
        guest.open(f"{TRACING}/trace", os.O_WRONLY | os.O_TRUNC)
        calls = Counter(re.findall(r"(\w+)(?:\.\S+)?\(\)", trace))
        # not what an interrupt takes
        called = {name for name, count in calls.items() if count > taken / 2}
        assert called
        assert called <= known
