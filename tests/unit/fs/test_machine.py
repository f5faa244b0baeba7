# SPDX-License-Identifier: GPL-2.0-or-later
"""machine/: syscall, text, stats."""

import errno
import os
from types import SimpleNamespace

import pytest

from kpfs.backends.guest.machine_info import GuestMachineInfo
from kpfs.engine.kprobe import Kprobe
from kpfs.engine.register import register_kprobe
from kpfs.fs.machine import Stats, Syscall, TextDir
from kpfs.fs.node import File
from tests.there import code
from tests.unit.fakes import ME, FakeKernel


@pytest.fixture
def kernel():
    return FakeKernel()


def write(kernel, data):
    handle = Syscall(GuestMachineInfo(kernel)).open(os.O_WRONLY)
    taken = handle.write(data, 0)
    assert kernel.calls == []
    handle.written(lambda: kernel.syscalls.task(ME))
    return taken


def test_lines_are_system_calls(kernel):
    data = b'getppid\n\nopenat -100 "/a b" 0x10 010 buf word\n  read 3\n'
    assert write(kernel, data) == len(data)
    assert kernel.calls == [
        (ME.pid, "getppid", ()),
        (ME.pid, "openat", (-100, b"/a b", 16, 8, 0x1000, b"word")),
        (ME.pid, "read", (3,)),
    ]


def test_the_first_failure_ends_the_write(kernel):
    kernel.results["close"] = -errno.EBADF
    assert code(write, kernel, b"getppid\nclose 99\ngetpid\n") == "EBADF"
    assert [name for _, name, _ in kernel.calls] == ["getppid", "close"]


def test_too_many_arguments(kernel):
    assert code(write, kernel, b"mmap 1 2 3 4 5 6 7\n") == "EINVAL"
    assert code(write, kernel, b"mmap " + b"9" * 5000) == "EINVAL"


def test_noise(kernel):
    assert write(kernel, b'\xff"\x00" 09 --1 0x\n') == 15
    assert kernel.calls == [(ME.pid, "\xff", (b"\0", b"09", b"--1", b"0x"))]


def test_text(kernel):
    listed = []

    def text_listing(*args):
        listed.append(args)
        return "listing"

    kernel.state.arch.text_listing = text_listing
    kernel.guest.add_symbol("data", 0x1000, 8, "D")
    directory = TextDir(GuestMachineInfo(kernel))
    assert set(directory.names()) == {"vfs_read", "vfs_write"}
    assert directory.lookup("data") is None
    node = directory.lookup("vfs_read")
    assert node is directory.lookup("vfs_read")
    assert isinstance(node, File)
    assert node.show() == "listing"
    addr = kernel.guest.kallsyms.lookup_name("vfs_read")[0].addr
    assert listed == [(addr, addr + 32)]


def test_a_text_for_each_function_of_a_name(kernel):
    """A probe by that name is refused, so that the file is where one sees why."""
    kernel.state.arch.text_listing = lambda start, _end: f"{start:#x}:\n"
    kernel.guest.add_symbol("vfs_read", 0x3000, 16, "t")
    first, second = kernel.guest.kallsyms.lookup_name("vfs_read")
    node = TextDir(GuestMachineInfo(kernel)).lookup("vfs_read")
    assert isinstance(node, File)
    assert node.show() == (
        f"vfs_read at {first.addr:#x}, 32 bytes\n{first.addr:#x}:\n\n"
        f"vfs_read at {second.addr:#x}, 16 bytes\n{second.addr:#x}:\n"
    )


def test_stats(kernel):
    kernel.state.arch.nmissed = lambda p: 3
    for offset in (0, 9):
        register_kprobe(kernel.state, Kprobe(symbol_name="vfs_read", offset=offset))
    for p in kernel.state.table_entries():
        p.site = None
    kernel.guest = SimpleNamespace(read_u64=lambda _addr: 0)
    rows = [
        line.split() for line in Stats(GuestMachineInfo(kernel)).show().splitlines()
    ]
    assert ["ftrace", "1", "0", "3"] in rows
    assert ["breakpoint", "1", "0", "3"] in rows
    assert ["syscalls", "0"] in rows
