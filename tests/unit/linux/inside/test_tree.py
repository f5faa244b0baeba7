# SPDX-License-Identifier: GPL-2.0-or-later
"""The memory of a file server, which a root of the kernel can take away or forge."""

import errno
import mmap
from types import SimpleNamespace

import pytest

from kpfs.base import abi
from kpfs.base.data_model import LITTLE_64
from kpfs.linux.inside.tree import BUFFER, Ends, FileServer, SharedBuffer
from kpfs.linux.running.machine import MachineDiedError
from tests.there import stand_in

ADDRESS = 0x7000_0000_0000
RAM = 1 << 20


class Worker:
    """A worker whose memory lies in RAM from page 1 on, as far as it is mapped."""

    slot, pid = 3, 4
    model = LITTLE_64

    def __init__(self, mapped=BUFFER, result=0):
        self.mapped, self.result = mapped, result
        self.board = SimpleNamespace(ram=mmap.mmap(-1, RAM), translate=self.translate)
        self.asked: list[int] = []

    def translate(self, address, _space):
        at = address - ADDRESS
        return at + mmap.PAGESIZE if at < self.mapped else abi.NEVER

    def results(self, count):
        return [0] * (count - 1) + [self.result]

    def restart(self, ops, then):
        self.asked.append(len(ops))
        return len(ops)


def test_the_pages_of_a_buffer():
    buffer = SharedBuffer(stand_in(Worker()), ADDRESS)
    assert sum(map(len, buffer.views(0, BUFFER))) == BUFFER
    assert [len(view) for view in buffer.views(16, 8000)] == [4080, 3920]
    assert buffer.views(0, 0) == []


@pytest.mark.parametrize(
    ("at", "size"), [(0, BUFFER + 1), (16, BUFFER), (0, 1 << 62), (0, -1), (1 << 62, 8)]
)
def test_nobody_looks_beyond_a_buffer(at, size):
    buffer = SharedBuffer(stand_in(Worker()), ADDRESS)
    with pytest.raises(OSError, match="bytes"):
        buffer.views(at, size)


@pytest.mark.parametrize("place", [abi.NEVER, abi.REGION_PHYS, RAM, abi.APIC_BASE])
def test_memory_that_is_not_ram_is_no_buffer(place):
    worker = Worker()
    worker.board.translate = lambda *_: place
    with pytest.raises(OSError, match="not mapped") as raised:
        SharedBuffer(stand_in(worker), ADDRESS).views(0, 100)
    assert raised.value.errno == errno.EFAULT


@pytest.mark.parametrize(("mapped", "result"), [(BUFFER, 1 << 62), (0, 100)])
def test_a_kernel_that_damages_its_file_server_is_dead(mapped, result):
    worker = Worker(mapped, result)
    server = FileServer(stand_in(worker), stand_in(None), Ends(5, ADDRESS))
    server._asked = 1
    with pytest.raises(MachineDiedError, match="damaged a file server"):
        server._serve()


@pytest.mark.parametrize("result", [-errno.EINTR, -(1 << 63)])
def test_a_request_that_failed_is_made_again(result):
    worker = Worker(BUFFER, result)
    server = FileServer(stand_in(worker), stand_in(None), Ends(5, ADDRESS))
    server._asked = 1
    server._serve()
    assert worker.asked == [1]
