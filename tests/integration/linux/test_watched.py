# SPDX-License-Identifier: GPL-2.0-or-later
"""Watchers of every kind are found in the kernel's memory.

Tests kpfs.linux.running.watched, kpfs.linux.running.heads.
"""

import time

import pytest

from kpfs.base import pagemap
from kpfs.base.skip_policy import NONE
from kpfs.linux.running import watched
from tests import harness
from tests.integration.linux.conftest import Process

pytestmark = pytest.mark.kernel

TRACING = "/sys/kernel/tracing"
EVENTS = f"{TRACING}/kprobe_events"
PATIENCE = 5  # s


def is_unwatched(linux):
    """Return True if nothing watches, as far as is known under the lock."""
    if linux.watch.seen is None:
        with linux.lock:
            linux.watch.update()
    return linux.watch.seen == NONE


def ends(linux):
    """Return True if nobody looks any more, soon."""
    deadline = time.monotonic() + PATIENCE
    while not is_unwatched(linux) and time.monotonic() < deadline:
        with linux.lock:
            linux.machine.advance(linux.machine.now() + 100_000_000)
        time.sleep(watched.UNWATCHED)
    return is_unwatched(linux)


def test_nobody_looks_at_a_fresh_guest(linux, shell):
    assert is_unwatched(linux)
    shell.read(f"{TRACING}/trace")
    shell.echo(EVENTS, "p:e vfs_read")  # which is not enabled
    assert is_unwatched(linux)


@pytest.mark.long
@pytest.mark.parametrize(
    ("define", "file", "on", "off"),
    [
        ("p:e vfs_read+5", "events/kprobes/enable", "1", "0"),
        ("r:e vfs_read", "events/kprobes/enable", "1", "0"),
        ("", "events/raw_syscalls/sys_enter/enable", "1", "0"),
        pytest.param(
            *("", "current_tracer", "function_graph", "nop"), marks=pytest.mark.slow
        ),
        ("", "events/sched/sched_switch/trigger", "stacktrace", "!stacktrace"),
        ("", "set_ftrace_filter", "vfs_read:traceoff", "!vfs_read:traceoff"),
    ],
)
def test_a_watcher_is_seen_until_it_ends(linux, shell, define, file, on, off):
    assert is_unwatched(linux)
    if define:
        shell.echo(EVENTS, define)
    shell.echo(f"{TRACING}/{file}", on, flags=0)
    assert not is_unwatched(linux)
    shell.getppid()
    assert not is_unwatched(linux)
    shell.echo(f"{TRACING}/{file}", off, flags=0)
    assert ends(linux)


def test_a_host_that_does_not_tell_which_pages_are_copied(linux, shell, monkeypatch):
    monkeypatch.setattr(pagemap, "PATH", "/proc/self/no-such-file")
    assert is_unwatched(linux)
    shell.echo(f"{TRACING}/events/raw_syscalls/enable", "1")
    assert not is_unwatched(linux)
    shell.echo(f"{TRACING}/events/raw_syscalls/enable", "0")
    assert ends(linux)


@pytest.mark.slow
def test_the_guest_goes_on_with_pages_that_are_shared_again(linux, process):
    """The text is the same, and so is what was translated of it."""
    shell, other = process(), process()
    for _ in range(3):
        shell.echo(f"{TRACING}/current_tracer", "function", flags=0)
        shell.getppid(2)
        assert "getppid" in other.read(f"{TRACING}/trace")
        shell.echo(f"{TRACING}/current_tracer", "nop", flags=0)
        assert ends(linux)
        shell.getppid(2)


def test_reboot_ends_all(boot):
    linux = boot()
    shell = Process(linux, 4_000_001)
    shell.echo(f"{TRACING}/events/raw_syscalls/enable", "1")
    assert not is_unwatched(linux)
    with linux.lock:
        linux.reboot()
    assert is_unwatched(linux)


@pytest.mark.parametrize("name", [harness.on(harness.ARMHF)])
def test_watchers_and_entries_are_seen_without_symbols_of_data(boot, name):
    """Calls are left out, and names kept, as with other kernels."""
    linux = boot(name)
    with linux.lock:
        linux.follow_directories(lambda: None)
    shell = Process(linux, 4_000_001)
    assert is_unwatched(linux)
    shell.echo(f"{TRACING}/events/raw_syscalls/enable", "1")
    assert not is_unwatched(linux)
    shell.echo(f"{TRACING}/events/raw_syscalls/enable", "0")
    assert ends(linux)
    assert linux.directories.as_made
    shell.echo(EVENTS, "p:e vfs_read")
    assert not linux.directories.as_made
