# SPDX-License-Identifier: GPL-2.0-or-later
"""Tells when a task of a Linux kernel lacks the descriptors of its process."""

import os
import signal
import threading
from types import SimpleNamespace

import pytest

from kpfs.backends.linux.task_book import LinuxTaskBook
from kpfs.base.ktypes import Caller
from kpfs.base.lock import FairLock
from kpfs.mirror.host import Host
from tests.there import stand_in


class Task:
    waits = False


class Tasks:
    """The tasks of a kernel, in which one process has a task."""

    creator = 0
    agent = Task()

    def known(self, pid):
        return Task() if pid == self.creator else None

    def fork(self, _parent, _caller, _comm):
        return Task()


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for fd in ends:
        os.close(fd)


@pytest.fixture
def book():
    kernel = SimpleNamespace(
        lock=FairLock(),
        tasks=Tasks(),
        follow=lambda _forget: None,
        skip_policy=SimpleNamespace(join_tasks=lambda _book: None),
        make_tasks_by=lambda _create: None,
    )
    files = SimpleNamespace(inherit=lambda _parent, _task: None)
    host = Host([])
    yield LinuxTaskBook(stand_in(kernel), stand_in(files), host)
    host.close()


def parent(said, late):
    """Be a process that forks a child, perhaps opens a file, and waits."""
    child = os.fork()
    if child:
        if late:
            os.open("/", os.O_RDONLY)
        os.write(said, child.to_bytes(4, "little"))
    signal.pause()


@pytest.mark.parametrize("late", [False, True])
def test_a_child_that_makes_its_first_call_late_is_behind(book, pipe, late):
    """The parent's task, which forks it then, may have other descriptors by now."""
    read, write = pipe
    creator = os.fork()
    if not creator:
        parent(write, late)
    book.kernel.tasks.creator = creator
    child = int.from_bytes(os.read(read, 4), "little")
    try:
        book.create(Caller(child, 0, 0), "child")
        assert book.behind == ({child} if late else set())
    finally:
        for pid in (child, creator):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(creator, 0)


def test_a_thread_of_kpfs_has_no_task_of_its_own(book):
    """A file that it opens for a program stays open when the thread has ended."""
    caller = Caller(threading.get_native_id(), 0, 0)
    assert book.create(caller, "kpfs") is book.kernel.tasks.agent
