# SPDX-License-Identifier: GPL-2.0-or-later
import os

import pytest

from kpfs.base import syscall_numbers as nr
from kpfs.base.data_model import LITTLE_64
from kpfs.base.errors import MemoryFault
from kpfs.base.ktypes import KAddr
from kpfs.linux.running.directories import HEADS, Directories
from kpfs.linux.running.machine import Op

AT = {name: 0x1000 + 16 * number for number, name in enumerate(HEADS)}
READ = Op(nr.READ, (3, 0, 0))
WRITE = Op(nr.WRITE, (3, b"x", 1))


def opened(flags):
    return Op(nr.OPENAT, (nr.AT_FDCWD, b"file\0", flags, 0))


class Guest:
    """A board, saved memory and structures; each list is empty."""

    model = LITTLE_64

    def __init__(self, missing=""):
        self.missing = missing
        self.ram = bytearray(0x2000)
        for at in AT.values():
            self.point(at, at)
        self.saved = bytes(self.ram)

    def point(self, at, where):
        """Set a list head's pointers."""
        self.ram[at : at + 16] = where.to_bytes(8, "little") * 2

    def data(self, name):
        return (0, 0) if name == self.missing else (AT[name], 16)

    def translate(self, address):
        return address

    def read(self, addr, size):
        if not addr:
            raise MemoryFault(KAddr(addr))
        return self.saved[addr : addr + size]


def follow(guest):
    told = []
    return Directories(guest, guest, guest, lambda: told.append(1)), told


def test_nothing_is_told_while_the_lists_are_as_they_were():
    directories, told = follow(Guest())
    directories.ran([WRITE])
    assert directories.as_made
    assert not told


@pytest.mark.parametrize("name", HEADS)
def test_an_entry_that_comes_and_goes_is_told(name):
    guest = Guest()
    directories, told = follow(guest)
    guest.point(AT[name], 0x9000)
    directories.ran([])  # by something that had begun before
    assert not directories.as_made
    assert len(told) == 1
    guest.point(AT[name], AT[name])
    directories.ran([WRITE])
    assert directories.as_made
    assert len(told) == 2


@pytest.mark.parametrize(
    ("op", "may"),
    [
        (READ, False),
        (opened(os.O_RDWR), False),
        (opened(os.O_WRONLY | os.O_TRUNC), True),
        (WRITE, True),
    ],
)
def test_with_entries_whatever_does_not_just_look_is_told(op, may):
    guest = Guest()
    directories, told = follow(guest)
    guest.point(AT["dyn_event_list"], 0x9000)
    directories.ran([])
    told.clear()
    directories.ran([READ, op])
    assert bool(told) == may


def test_a_kernel_without_one_of_the_lists_may_have_changed():
    directories, told = follow(Guest("dyn_event_list"))
    directories.ran([WRITE])
    assert not directories.as_made
    assert told


def test_a_list_with_two_entries_cannot_be_told_by_its_head():
    guest = Guest()
    at = AT["modules"]
    guest.ram[at : at + 16] = (0x9000).to_bytes(8, "little") + bytes(8)
    guest.saved = bytes(guest.ram)
    directories, _ = follow(guest)
    assert not directories.as_made
