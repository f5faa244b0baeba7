# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes of a command to the mount's files, as the guest makes them.

This also tests kpfs.engine.trace.array.marker and kpfs.backends.guest.files.options.
"""

import errno
import os

import pytest

from kpfs.backends.guest.tree import build
from kpfs.backends.guest.vfs import LLONG_MAX, Vfs
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import Caller
from kpfs.engine.kprobe import Kprobe
from kpfs.engine.register import register_kprobe
from tests.unit.fakes import writing

pytestmark = pytest.mark.guest

ME = Caller(os.getpid(), 0, 0)


@pytest.fixture
def vfs(kernel):
    return Vfs(kernel, build(kernel))


def code(vfs, opened, *args, at=0, **more):
    with pytest.raises(KernelError) as error:
        vfs.write_call(ME, opened, writing(*args, **more), at)
    return errno.errorcode[error.value.errno]


class TestInTheGuest:
    def test_an_empty_write_reaches_the_file(self, vfs):
        opened = vfs.open(ME, "/kprobes/enabled", os.O_RDWR)
        assert code(vfs, opened, "write", b"") == "EINVAL"
        assert code(vfs, opened, "pwrite64", b"") == "EINVAL"
        assert code(vfs, opened, "writev", b"", b"0") == "EINVAL"
        assert vfs.write_call(ME, opened, writing("writev", b"", b""), 3) == (0, 3)
        events = vfs.open(ME, "/tracing/kprobe_events", os.O_WRONLY)
        assert vfs.write_call(ME, events, writing("write", b""), 3) == (0, 3)

    @pytest.mark.parametrize(
        ("path", "data", "after"),
        [
            ("/kprobes/enabled", b"1\n", 7),
            ("/tracing/tracing_on", b"1\n", 8),
            ("/tracing/events/enable", b"0\n", 9),
            ("/tracing/kprobe_events", b"# nothing\n", 7),
            ("/sys/debug/kprobes-optimization", b"1\n", 9),
            ("/kmsg", b"text\n", 7),
        ],
    )
    def test_positions(self, vfs, path, data, after):
        opened = vfs.open(ME, path, os.O_RDWR)
        assert vfs.write_call(ME, opened, writing("write", data), 7) == (
            len(data),
            after,
        )
        parts = writing("writev", data, data)
        twice = 7 + 2 * (after - 7)
        assert vfs.write_call(ME, opened, parts, 7) == (2 * len(data), twice)

    def test_a_file_that_cannot_be_seeked(self, vfs):
        """FUSE's position stays where it was; what is read comes from the kernel's."""
        opened = vfs.open(ME, "/tracing/saved_cmdlines_size", os.O_RDWR)
        assert vfs.read(ME, opened, 2, 0) == b"65"
        assert vfs.write_call(ME, opened, writing("write", b"1"), 0) == (1, 0)
        assert vfs.read(ME, opened, 8, 2) == b"2\n"
        assert vfs.write_call(ME, opened, writing("write", b"128"), 0) == (3, 0)
        assert vfs.read(ME, opened, 8, 4) == b""

    @pytest.mark.parametrize(
        ("path", "reader", "writer"),
        [
            ("/kprobes/enabled", True, True),
            ("/tracing/kprobe_events", False, False),
            ("/tracing/trace", False, True),
            ("/tracing/trace_marker", False, False),
            ("/kmsg", True, True),
        ],
    )
    def test_pwrite_where_the_open_file_allows_it(self, vfs, path, reader, writer):
        data = b"1" if path.endswith("enabled") else b"# x\n"
        for flags, allowed in ((os.O_RDWR, reader), (os.O_WRONLY, writer)):
            opened = vfs.open(ME, path, flags)
            there = writing("pwrite64", data, pos=100)
            if allowed:
                assert vfs.write_call(ME, opened, there, 7) == (len(data), 7)
            else:
                assert code(vfs, opened, "pwrite64", data, pos=100) == "ESPIPE"
            assert code(vfs, opened, "pwrite64", data, pos=-1) == "EINVAL"

    def test_behind_the_last_position(self, vfs):
        opened = vfs.open(ME, "/kprobes/enabled", os.O_RDWR)
        assert code(vfs, opened, "write", b"1", at=LLONG_MAX) == "EINVAL"
        assert code(vfs, opened, "pwrite64", b"1", pos=LLONG_MAX) == "EINVAL"

    def test_it_is_one_system_call(self, kernel, vfs):
        """A write is the call of that name, and what that calls in turn."""
        hits = []
        for name in ("ksys_write", "__x64_sys_pwrite64", "vfs_writev", "vfs_write"):
            handler = lambda _p, _regs, name=name: hits.append(name)  # noqa: E731
            with kernel.lock:
                register_kprobe(
                    kernel.state, Kprobe(symbol_name=name, pre_handler=handler)
                )
        opened = vfs.open(ME, "/kprobes/enabled", os.O_RDWR)
        for name, *made in (
            ("write", "ksys_write", "vfs_write"),
            ("pwrite64", "__x64_sys_pwrite64", "vfs_write"),
            ("writev", "vfs_writev"),
        ):
            hits.clear()
            vfs.write_call(ME, opened, writing(name, b"1", b"1"), 0)
            assert hits == made

    def test_segments_are_in_the_callers_memory(self, kernel, vfs):
        opened = vfs.open(ME, "/tracing/trace_marker", os.O_WRONLY)
        vfs.write_call(ME, opened, writing("writev", b"one\n", b"", b"two"), 0)
        trace = vfs.open(ME, "/tracing/trace", os.O_RDONLY)
        lines = vfs.read(ME, trace, 65536, 0).decode().splitlines()
        assert [line.rsplit(": ")[-1] for line in lines[-2:]] == ["one", "two"]

    def test_one_record_of_a_writev_to_kmsg(self, kernel, vfs):
        opened = vfs.open(ME, "/kmsg", os.O_WRONLY)
        vfs.write_call(ME, opened, writing("writev", b"one ", b"two\n"), 0)
        assert bytes(kernel.guest.log.records(0)[-1].text) == b"one two"

    def test_the_calls_of_all_segments_are_made(self, kernel, vfs):
        opened = vfs.open(ME, "/machine/syscall", os.O_WRONLY)
        before = kernel.stats()["syscalls"]
        lines = writing("writev", b"getpid\n", b"getppid\ngetpid\n")
        vfs.write_call(ME, opened, lines, 0)
        assert kernel.stats()["syscalls"] == before + 4
