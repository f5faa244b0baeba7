# SPDX-License-Identifier: GPL-2.0-or-later
"""Tells when a task of a Linux kernel lacks the descriptors of its process."""

import os
import signal
from types import SimpleNamespace

import pytest

from kpfs.backends.linux.task_book import LinuxTaskBook
from kpfs.base.ktypes import Caller
from kpfs.mirror.host import Host
from tests.there import stand_in


class Task:
    waits = False


class Tasks:
    """Those of a kernel, in which the test has one."""

    def __init__(self):
        self.of_test = Task()

    def known(self, pid):
        return self.of_test if pid == os.getpid() else None

    def fork(self, _parent, _caller, _comm):
        return Task()


@pytest.fixture
def book():
    kernel = SimpleNamespace(
        tasks=Tasks(),
        follow=lambda _forget: None,
        skip_policy=SimpleNamespace(join_tasks=lambda _book: None),
        make_tasks_by=lambda _create: None,
    )
    files = SimpleNamespace(inherit=lambda _parent, _task: None)
    host = Host([])
    yield LinuxTaskBook(stand_in(kernel), stand_in(files), host)
    host.close()


@pytest.mark.parametrize("late", [False, True])
def test_a_child_that_makes_its_first_call_late_is_behind(book, late):
    """Its parent's task, which forks it then, may have other descriptors by now."""
    child = os.fork()
    if not child:
        signal.pause()
    opened = os.open("/", os.O_RDONLY) if late else -1
    try:
        book.create(Caller(child, 0, 0), "child")
        assert book.behind == ({child} if late else set())
    finally:
        if late:
            os.close(opened)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
