# SPDX-License-Identifier: GPL-2.0-or-later
"""Watchers, and the calls that need not be made for them.

Tests kpfs.backends.guest.root.watched and kpfs.base.skip_policy.
"""

import pytest

from kpfs.backends.guest.root import watched as kernel_watched
from kpfs.base import syscall_numbers as nr
from kpfs.base.skip_policy import EVERY, MADE_UNSEEN, NONE
from tests.integration.files.test_ftrace import Files
from tests.integration.mirror.test_replay import ME, Mirrored, string

pytestmark = pytest.mark.guest

ENABLE = "/tracing/events/kprobes/enable"


class Probes:
    """Arms probes, and says which calls can be seen."""

    def __init__(self, kernel):
        self.files = Files(kernel)
        self.kernel = kernel

    def arm(self, *functions):
        for name in functions:
            self.files.write("/tracing/kprobe_events", f"p:{name} {name}\n")
        self.files.write(ENABLE, "1")

    def disarm(self):
        self.files.write(ENABLE, "0")

    def seen(self):
        with self.kernel.lock:
            found = self.kernel.watch.update()
        assert self.kernel.watch.seen is found
        return found


@pytest.fixture
def probes(kernel):
    return Probes(kernel)


def test_nobody_sees_anything_at_first(probes):
    assert probes.kernel.watch.seen is NONE
    assert probes.seen() is NONE


def test_a_probe_sees_the_calls_that_reach_it(probes):
    probes.arm("vfs_mkdir")
    assert probes.seen() == {nr.MKDIR, nr.MKDIRAT}
    probes.disarm()
    assert probes.seen() == NONE
    probes.arm("vfs_read")
    assert probes.seen() == {nr.MKDIR, nr.MKDIRAT, nr.READ, nr.PREAD64}


def test_changes_are_seen_at_the_next_look(probes):
    probes.arm("vfs_mkdir")
    assert probes.kernel.watch.seen is None
    probes.seen()
    probes.disarm()
    assert probes.kernel.watch.seen is None


@pytest.mark.parametrize("function", ["schedule", "dput", "do_exit", "filp_close"])
def test_there_are_functions_that_all_calls_may_reach(probes, function):
    probes.arm("vfs_mkdir", function)
    assert probes.seen() is EVERY
    assert nr.GETPPID in probes.seen()


def test_the_events_of_a_system_call_see_it_alone(probes):
    enter = "/tracing/events/syscalls/sys_enter_{}/enable"
    probes.files.write(enter.format("mkdir"), "1")
    assert probes.seen() == {nr.MKDIR}
    probes.files.write("/tracing/events/syscalls/sys_exit_read/enable", "1")
    assert probes.seen() == {nr.MKDIR, nr.READ}
    probes.files.write("/tracing/events/raw_syscalls/sys_enter/enable", "1")
    assert probes.seen() is EVERY
    probes.files.write("/tracing/events/raw_syscalls/enable", "0")
    probes.files.write(enter.format("mkdir"), "0")
    assert probes.seen() == {nr.READ}


@pytest.mark.parametrize(
    "event",
    [
        "sched/sched_switch",
        "raw_syscalls/sys_enter",
        # the guest makes these for processes that do not call them there
        "syscalls/sys_enter_exit_group",
        "syscalls/sys_exit_clone3",
    ],
)
def test_events_of_the_kernel_see_all_calls(probes, event):
    path = f"/tracing/events/{event}/enable"
    probes.files.write(path, "1")
    assert probes.seen() is EVERY
    probes.files.write(path, "0")
    assert probes.seen() == NONE


def test_the_function_tracer_sees_what_its_filter_lets_it_see(probes):
    probes.files.write("/tracing/current_tracer", "function")
    assert probes.seen() is EVERY
    probes.files.write("/tracing/set_ftrace_filter", "vfs_mkdir\n")
    assert probes.seen() == {nr.MKDIR, nr.MKDIRAT}


def test_a_module_may_see_everything(probes):
    probes.files.write("/machine/insmod", "kprobe_example")
    assert probes.seen() is EVERY


def test_many_places_are_not_looked_at(probes, monkeypatch):
    monkeypatch.setattr(kernel_watched, "PLACES_MAX", 1)
    probes.arm("vfs_mkdir")
    assert probes.seen() == {nr.MKDIR, nr.MKDIRAT}
    probes.arm("vfs_rmdir")
    assert probes.seen() is EVERY


def test_calls_that_nobody_sees_are_made_for_a_while_after_one_that_is_seen(
    probes, tmp_path
):
    mirrored = Mirrored(probes.kernel)
    mirrored.replayer.lazy = True
    folder = string(bytes(tmp_path / "d"))
    assert mirrored(nr.GETPPID) is None
    assert ME() in mirrored.replayer.kernel.tasks.behind
    probes.arm("vfs_mkdir")
    for _ in range(2):
        assert mirrored(nr.MKDIR, folder, 0o755) == 0
        assert mirrored.replayer.kernel.tasks.behind == set()
        assert None not in [mirrored(nr.GETPPID) for _ in range(MADE_UNSEEN)]
        assert mirrored(nr.GETPPID) is None
        assert mirrored.replayer.kernel.tasks.behind == {ME()}
    mirrored.replayer.host.close()
