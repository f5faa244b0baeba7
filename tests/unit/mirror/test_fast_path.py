# SPDX-License-Identifier: GPL-2.0-or-later
"""Reports that go on without Python, of a process under a real filter."""

import ctypes
import mmap
import os
import signal
import sys
import time
from contextlib import suppress
from typing import ClassVar

import pytest

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.lock import FairLock
from kpfs.mirror import seccomp
from kpfs.mirror.fast_path import EXIT, GO, NEVER, PATH, FastPath
from kpfs.mirror.keeper import SLOT, STATE_SIZE
from tests.unit.mirror.test_seccomp import filtered

NAME = b"modules"
PIDFD_GET_INFO = 0xC040FF0B
IOCTL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p)
RECEIVED, LATE = abi.FAST_PATH_RECEIVED, abi.FAST_PATH_LATE


@pytest.fixture(autouse=True)
def ended():
    """End the process of a test that fails half way."""
    Receiver.all = []
    yield
    for receiver in Receiver.all:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(receiver.pid, signal.SIGKILL)
            os.waitpid(receiver.pid, 0)


class Receiver:
    """Receives what a process calls, with a fast path, up to its end."""

    all: ClassVar[list["Receiver"]]

    def __init__(self, body, *numbers):
        self.lock = FairLock()
        self.path = FastPath(self.lock)
        self.path.show([NAME])
        self.state = mmap.mmap(-1, STATE_SIZE)
        self.path.watch(ctypes.addressof(ctypes.c_char.from_buffer(self.state)), 2)
        self.slot = ctypes.addressof(ctypes.c_char.from_buffer(self.state))
        self.report = seccomp.report()
        self.pid, self.listener = filtered(numbers, body)
        self.all.append(self)

    def open(self, turn=None, pid=None, ends=False, **ways):
        table = bytearray(abi.FAST_PATH_CALLS)
        for name, way in ways.items():
            table[getattr(nr, name)] = way
        now = self.path.turn if turn is None else turn
        self.path.open(now, pid or self.pid, frozenset(), bytes(table), ends)

    def next(self):
        """The next report: what it came to, and itself."""
        at = ctypes.addressof(self.report)
        result = self.path.receive(self.listener, self.slot, at)
        return result, seccomp.parse(self.report)

    def rest(self):
        """All further reports, which go on; the process is gone then."""
        found = []
        with suppress(OSError):
            while True:
                result, note = self.next()
                if result == RECEIVED:
                    seccomp.let_go_on(self.listener, note.id)
                found.append((result, note.nr))
        assert os.waitpid(self.pid, 0)[1] == 0
        os.close(self.listener)
        return found


def calls():
    for _ in range(5):
        os.getppid()
    os.getuid()
    return 0


def test_open_calls_go_on_alone():
    receiver = Receiver(calls, nr.GETPPID, nr.GETUID)
    receiver.open(GETPPID=GO)
    before = time.monotonic_ns()
    result, note = receiver.next()
    assert (result, note.nr, note.pid) == (RECEIVED, nr.GETUID, receiver.pid)
    last, begin, received = SLOT.unpack_from(receiver.state, 0)
    assert (last, received) == (note.id, 6)
    assert before <= begin <= time.monotonic_ns()
    seccomp.let_go_on(receiver.listener, note.id)
    assert receiver.rest() == []


@pytest.mark.parametrize("turn", [NEVER, 1], ids=["closed", "of another turn"])
def test_no_call_goes_on_unless_it_is_open(turn):
    receiver = Receiver(calls, nr.GETPPID)
    receiver.open(turn, GETPPID=GO)
    assert receiver.rest() == [(RECEIVED, nr.GETPPID)] * 5


def test_no_call_of_another_process_goes_on():
    receiver = Receiver(calls, nr.GETPPID)
    receiver.open(GETPPID=GO)
    receiver.path.forget(receiver.pid)
    assert receiver.rest() == [(RECEIVED, nr.GETPPID)] * 5


def test_path_is_closed_once_the_lock_is_taken():
    receiver = Receiver(calls, nr.GETPPID, nr.GETUID)
    receiver.open(GETUID=GO)
    assert receiver.next()[0] == RECEIVED
    with receiver.lock:
        assert not receiver.path.is_open
        assert receiver.path.turn == NEVER
    seccomp.let_go_on(receiver.listener, seccomp.parse(receiver.report).id)
    assert receiver.rest() == [(RECEIVED, nr.GETPPID)] * 4 + [(RECEIVED, nr.GETUID)]


def test_call_that_goes_on_while_the_lock_is_taken_is_told():
    """The lock is taken between the receipt and the answer, as read() is then."""
    receiver = Receiver(calls, nr.GETPPID)
    receiver.open(GETPPID=GO)
    original = IOCTL(receiver.path.ioctl)

    def ioctl(fd, request, argument):
        if request == seccomp.SECCOMP_IOCTL_NOTIF_SEND:
            with receiver.lock:
                pass
        return original(fd, request, argument)

    taking = IOCTL(ioctl)
    receiver.path.ioctl = ctypes.cast(taking, ctypes.c_void_p).value
    assert receiver.next()[0] == LATE
    receiver.path.ioctl = ctypes.cast(original, ctypes.c_void_p).value
    assert receiver.rest() == [(RECEIVED, nr.GETPPID)] * 4


PATHS = {
    "/etc/passwd": False,
    "modules": True,
    "/proc/modules": True,
    "/proc/modules/": False,
    "/modules/x": False,
    "module": False,
    "modulesx": False,
    "": False,
    "a" * 254: False,
    "/" + "a" * 300: True,  # too long to tell
}


def in_one_page(text):
    """Return a path in memory that no end of a page parts, as only one page is read."""
    kept = []
    while True:
        path = bytes(bytearray(os.fsencode(text)))
        kept.append(path)
        begin = id(path) + sys.getsizeof(b"") - 1
        if begin // mmap.PAGESIZE == (begin + len(path)) // mmap.PAGESIZE:
            return path


def test_paths_with_the_names_are_for_python():
    paths = [in_one_page(path) for path in PATHS]

    def body():
        for path in paths:
            with suppress(OSError):
                os.stat(path, dir_fd=None)
            os.getuid()
        return 0

    receiver = Receiver(body, nr.STAT, nr.NEWFSTATAT, nr.GETUID)
    receiver.open(STAT=PATH, NEWFSTATAT=PATH + 1)
    found = [number for _, number in receiver.rest()]
    told: list[list[int]] = [[]]
    for number in found:
        if number == nr.GETUID:
            told.append([])
        else:
            told[-1].append(number)
    assert [bool(each) for each in told[:-1]] == list(PATHS.values())


@pytest.mark.parametrize("left", range(1, 10))
def test_path_at_the_end_of_memory_is_read(left):
    """No page follows it."""
    memory = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None)
    libc.munmap(ctypes.c_void_p(start + mmap.PAGESIZE), mmap.PAGESIZE)
    text = NAME[: left - 1] + b"\0"
    ctypes.memmove(start + mmap.PAGESIZE - len(text), text, len(text))

    def body():
        at = ctypes.c_void_p(start + mmap.PAGESIZE - len(text))
        libc.syscall(nr.ACCESS, at, 0)
        return 0

    receiver = Receiver(body, nr.ACCESS)
    receiver.open(ACCESS=PATH)
    assert [number for _, number in receiver.rest()] == [nr.ACCESS] * (
        text == NAME + b"\0"
    )


def test_memory_that_cannot_be_read_is_for_python():
    def body():
        ctypes.CDLL(None).syscall(nr.ACCESS, ctypes.c_void_p(1), 0)
        return 0

    receiver = Receiver(body, nr.ACCESS)
    receiver.open(ACCESS=PATH)
    assert receiver.rest() == [(RECEIVED, nr.ACCESS)]


def test_end_of_all_callers_is_an_error():
    receiver = Receiver(lambda: 0, nr.GETPPID)
    os.waitpid(receiver.pid, 0)
    with pytest.raises(FileNotFoundError):  # ENOENT
        receiver.next()
    os.close(receiver.listener)


@pytest.mark.parametrize("ends", [True, False], ids=["without a task", "with a task"])
def test_process_ends_alone_if_it_has_no_task(ends):
    receiver = Receiver(calls, nr.EXIT_GROUP)
    receiver.open(EXIT_GROUP=EXIT, ends=ends)
    assert receiver.rest() == [(RECEIVED, nr.EXIT_GROUP)] * (not ends)
    assert receiver.path.take_ended() == [receiver.pid] * ends
    assert receiver.path.take_ended() == []


def with_a_child():
    signal.signal(signal.SIGCHLD, lambda *_: None)
    if not (child := os.fork()):
        time.sleep(0.1)  # up to when the parent waits
        os.getppid()
        os._exit(0)
    os.waitpid(child, 0)
    return 0


@pytest.mark.parametrize("busy", [True, False])
def test_end_is_asked_for_while_a_call_of_the_parent_may_be_in_work(busy):
    receiver = Receiver(with_a_child, nr.GETPPID, nr.EXIT_GROUP)
    _, first = receiver.next()
    receiver.open(EXIT_GROUP=EXIT, pid=first.pid, ends=True)
    SLOT.pack_into(receiver.state, SLOT.size, 0, busy, 0)
    seccomp.let_go_on(receiver.listener, first.id)
    _, last = receiver.next()
    assert last.pid == (first.pid if busy else receiver.pid)
    seccomp.let_go_on(receiver.listener, last.id)
    receiver.rest()


def test_end_is_asked_for_while_the_parent_runs():
    """The parent is this process, which receives."""
    former = signal.signal(signal.SIGCHLD, lambda *_: None)
    try:
        receiver = Receiver(calls, nr.EXIT_GROUP)
        receiver.open(EXIT_GROUP=EXIT, ends=True)
        assert receiver.rest() == [(RECEIVED, nr.EXIT_GROUP)]
    finally:
        signal.signal(signal.SIGCHLD, former)


def test_parent_is_read_from_proc_if_no_pidfd_tells_it():
    receiver, refused = Receiver(calls, nr.EXIT_GROUP), []
    receiver.open(EXIT_GROUP=EXIT, ends=True)
    original = IOCTL(receiver.path.ioctl)

    def ioctl(fd, request, argument):
        if request != PIDFD_GET_INFO:
            return original(fd, request, argument)
        refused.append(fd)
        return -1

    refusing = IOCTL(ioctl)
    receiver.path.ioctl = ctypes.cast(refusing, ctypes.c_void_p).value
    assert receiver.rest() == []
    assert len(refused) == 1
