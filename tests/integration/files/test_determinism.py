# SPDX-License-Identifier: GPL-2.0-or-later
"""On a quiet machine the same session gives the same trace."""

import pytest

from kpfs.backends.guest import tree
from kpfs.backends.guest.root.guest_kernel import GuestKernel
from tests.there import file_at

pytestmark = pytest.mark.guest

EVENTS = "p:entry vfs_read\np:inside vfs_read+5 n=%dx\nr:back vfs_read $retval\n"
AT_FDCWD, O_RDWR_CREAT = -100, 0o102
TICKS = 10


class Session:
    """The files and the system calls of one kernel, without a mount."""

    def __init__(self):
        self.kernel = GuestKernel(nr_cpus=2, quiet=True)
        self.guest = self.kernel.guest
        self.root = tree.build(self.kernel)

    def store(self, path, text):
        with self.kernel.lock:
            file_at(self.root, path).store(text.encode())

    def show(self, path):
        with self.kernel.lock:
            return file_at(self.root, path).show()

    def work(self, pid):
        """A process opens, writes and reads a file, and a while passes."""
        task = self.guest.host_tasks.of_process(pid, 0, comm=f"work{pid}", parent=1)
        call = self.guest.syscalls.call
        fd = call(task, "openat", AT_FDCWD, f"/tmp/{pid}", O_RDWR_CREAT, 0o644)
        call(task, "write", fd, "some text", 9)
        for _ in range(pid % 3 + 2):
            call(task, "read", fd, b"\0" * 16, 16)
        for _ in range(TICKS):
            self.guest.tick()

    def run(self):
        """Return all that can be seen, at several times."""
        seen = []
        self.store("/tracing/kprobe_events", EVENTS)
        self.store("/tracing/events/kprobes/enable", "1")
        for optimization in "101":
            self.store("/sys/debug/kprobes-optimization", optimization)
            for pid in (50, 61, 72):
                self.work(pid)
                seen.append(self.show("/kprobes/list"))
            seen.append(self.show("/tracing/kprobe_profile"))
            seen.append(self.show("/machine/text/vfs_read"))
        seen.append(self.show("/tracing/trace"))
        self.guest.close()
        return seen


def test_same_session_same_trace():
    first, second = Session().run(), Session().run()
    assert first == second
    lists, trace = first[:3], first[-1]
    assert all("[OPTIMIZED]" in text for text in lists)
    assert any("jump, was" in text for text in first)
    assert any("breakpoint, was" in text for text in first)
    for name in ("entry", "inside", "back"):
        assert trace.count(f" {name}: ") > 20
