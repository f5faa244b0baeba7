# SPDX-License-Identifier: GPL-2.0-or-later
"""Requests of FUSE and the answers to them, without a mount.

This also tests kpfs.base.fuse_wire.
"""

import errno
import logging
import os
import struct

import pytest

from kpfs.base import fuse_wire as wire
from kpfs.base.errors import KernelError
from kpfs.base.fuse_wire import Opcode
from kpfs.fs.fuse.loop import Answer, Request
from kpfs.fs.fuse.ops import FOREVER, MAX_BACKGROUND, OPEN_SIZE, Operations
from kpfs.fs.tree import EMPTY_WRITE
from tests.there import there
from tests.unit.backends.trees import KINDS, MAKE

PID = 100


def request(opcode, nodeid, body):
    return Request((0, opcode, 2, nodeid, 0, 0, PID), body)


class Linux:
    """Asks as Linux does, and reads the answers."""

    def __init__(self, tree):
        self.tree = tree
        self.told = []
        self.hold = -1  # for which the attributes that were asked for last are kept
        self.ready = 0
        self.ops = Operations(self.tree, self.notified, self.is_ready)
        self.ops.keeping = True

    def notified(self, *what):
        self.told.append(what)

    def is_ready(self):
        self.ready += 1

    def ask(self, opcode, nodeid=wire.ROOT, body=b"") -> Answer:
        return there(self.ops.serve(request(opcode, nodeid, body)))

    def get(self, *words) -> bytes:
        """The payload of an answer that is no error."""
        made = self.ask(*words)
        assert made.error == 0, errno.errorcode[made.error]
        return made.payload

    def code(self, *words):
        return errno.errorcode.get(self.ask(*words).error)

    def look_up(self, path):
        """(nodeid, entry time-out, attribute time-out, attributes)"""
        made = wire.ROOT, 0, 0, ()
        for name in path.split("/"):
            raw = self.get(Opcode.LOOKUP, made[0], name.encode() + b"\0")
            number, _, entry, attributes, *_ = wire.ENTRY.unpack_from(raw)
            made = number, entry, attributes, wire.ATTR.unpack_from(raw, 40)
        return made

    def number(self, path):
        return self.look_up(path)[0]

    def attributes(self, nodeid, flags=0, fh=0):
        body = wire.GETATTR_REQUEST.pack(flags, fh)
        raw = self.get(Opcode.GETATTR, nodeid, body)
        assert len(raw) == 104
        self.hold = wire.ATTR_ANSWER.unpack_from(raw)[0]
        return wire.ATTR.unpack_from(raw, 16)

    def open(self, nodeid, flags=os.O_RDWR):
        raw = self.get(Opcode.OPEN, nodeid, wire.OPEN_REQUEST.pack(flags))
        return wire.OPEN_ANSWER.unpack(raw)[0]

    def read(self, fh, size=4096, offset=0, how=wire.READ_LOCKOWNER):
        body = wire.READ_REQUEST.pack(fh, offset, size, how)
        return Opcode.READ, wire.ROOT, body

    def write(self, fh, data, offset=0):
        body = wire.WRITE_REQUEST.pack(fh, offset, len(data), 0)
        return Opcode.WRITE, wire.ROOT, body + data

    def release(self, fh):
        self.get(Opcode.RELEASE, wire.ROOT, struct.pack("=QIIQ", fh, 0, 0, 0))


SIZE, MODE = 1, 9  # places in the attributes


@pytest.fixture(params=KINDS)
def linux(request, tmp_path):
    return Linux(MAKE[request.param](tmp_path))


@pytest.fixture
def guest(tmp_path):
    """Over the guest kernel's tree."""
    return Linux(MAKE["guest"](tmp_path))


def test_init(linux):
    body = wire.INIT_REQUEST.pack(7, 45, 131072, 0xFFFFFFFF)
    made = linux.ask(Opcode.INIT, 0, body)
    words = wire.INIT_ANSWER.unpack(made.payload)
    assert len(made.payload) == 64
    assert words[:3] == (7, wire.MINOR, 131072)
    assert words[3] == 1 << 3 | 1 << 5 | 1 << 18
    assert words[4] == MAX_BACKGROUND
    there(made.then)()
    assert linux.ready == 1


def test_a_linux_that_is_too_old(linux):
    body = wire.INIT_REQUEST.pack(7, 19, 131072, 0)
    assert linux.code(Opcode.INIT, 0, body) == "EPROTO"


def test_linux_keeps_what_it_knows_of_directories(linux):
    number, entry, hold, attributes = linux.look_up("kprobes")
    assert (entry, hold) == (FOREVER, FOREVER)
    assert linux.attributes(number)[MODE] == attributes[MODE]
    assert linux.hold == FOREVER


def test_an_open_file_has_two_sizes(linux):
    assert linux.look_up("kprobes/enabled")[1:3] == (FOREVER, FOREVER)
    number, *_, attributes = linux.look_up("kprobes/enabled")
    size = attributes[SIZE]
    assert (linux.attributes(number)[SIZE], linux.hold) == (size, FOREVER)
    assert linux.told == []
    fh = linux.open(number)
    assert [code for code, _ in linux.told] == [wire.NOTIFY_STORE]
    assert (linux.attributes(number)[SIZE], linux.hold) == (size, 0)
    assert linux.told[1:] == [
        (wire.NOTIFY_INVAL_INODE, wire.INVAL_INODE.pack(number, -1, 0))
    ]
    _, entry, hold, attributes = linux.look_up("kprobes/enabled")
    assert (entry, hold, attributes[SIZE]) == (FOREVER, 0, OPEN_SIZE)
    linux.release(fh)
    assert linux.look_up("kprobes/enabled")[2] == FOREVER


def test_an_older_linux_keeps_nothing_of_files(linux):
    linux.ask(Opcode.INIT, 0, wire.INIT_REQUEST.pack(7, 34, 0, 0))
    number, entry, hold, attributes = linux.look_up("kprobes/enabled")
    assert (entry, hold, attributes[SIZE]) == (FOREVER, 0, OPEN_SIZE)
    linux.attributes(number)
    assert linux.hold == 0
    assert [code for code, _ in linux.told] == [wire.NOTIFY_INVAL_INODE]


def set_attributes(valid, fh=0, size=0, mode=0, ids=(0, 0), atime=0):
    words = valid, fh, size, 0, atime, 7, 0, 8, 9, 0, mode, *ids
    body = wire.SETATTR_REQUEST.pack(*words)
    assert len(body) == 88
    return body


def test_setattr(linux):
    number = linux.number("kprobes/enabled")

    def change(*valid, **words):
        return linux.get(Opcode.SETATTR, number, set_attributes(sum(valid), **words))

    raw = change(wire.FATTR_SIZE, size=10)
    assert wire.ATTR.unpack_from(raw, 16)[SIZE] == 10
    fh = linux.open(number)
    raw = change(wire.FATTR_SIZE | wire.FATTR_FH, fh=fh, size=12)
    assert wire.ATTR.unpack_from(raw, 16)[SIZE] == OPEN_SIZE
    linux.release(fh)
    assert linux.attributes(number)[SIZE] == 12
    change(wire.FATTR_MODE, mode=0o100640)
    # of files in a folder of the host, which stand for the kernel's
    user, group = (5, 8) if os.geteuid() == 0 else (os.getuid(), os.getgid())
    change(wire.FATTR_UID, ids=(user, 6))
    change(wire.FATTR_GID, ids=(7, group))
    change(wire.FATTR_ATIME, atime=-5)
    seen = linux.attributes(number)
    assert (seen[3], seen[6]) == (-5, 8)
    assert (seen[MODE], seen[11], seen[12]) == (0o100640, user, group)
    change(wire.FATTR_MTIME)
    seen = linux.attributes(number)
    assert (seen[3], seen[4], seen[7]) == (-5, 7, 9)


def test_read_and_write(linux):
    fh = linux.open(linux.number("kprobes/enabled"))
    assert linux.get(*linux.read(fh)) == b"1\n"
    assert wire.WRITE_ANSWER.unpack(linux.get(*linux.write(fh, b"0\n"))) == (2,)
    assert linux.get(*linux.read(fh, 1)) == b"0"
    assert linux.code(Opcode.FSYNC, wire.ROOT, b"") == "EINVAL"
    linux.release(fh)
    assert not linux.ops.files


def test_an_open_that_linux_gave_up(linux):
    body = wire.OPEN_REQUEST.pack(os.O_RDONLY)
    made = linux.ask(Opcode.OPEN, linux.number("kprobes/enabled"), body)
    assert linux.ops.files
    there(made.undo)()
    assert not linux.ops.files


def test_the_page_cache_is_refused(linux):
    fh = linux.open(linux.number("kprobes/enabled"))
    assert linux.code(*linux.read(fh, how=0)) == "EINVAL"


def test_seek_end(guest):
    for path, result in (("kprobes/list", "EINVAL"), ("kprobes/enabled", None)):
        number = guest.number(path)
        fh = guest.open(number)
        body = wire.GETATTR_REQUEST.pack(wire.GETATTR_FH, fh)
        assert guest.code(Opcode.GETATTR, number, body) == result


def test_linux_gets_its_size_back(linux):
    """After what leaves it with a size of 0, at the next open."""
    number = linux.number("kprobes/enabled")
    expected = wire.STORE.pack(number, OPEN_SIZE - 1, 1) + b"\0"

    def stored():
        told = linux.told[:]
        linux.told.clear()
        return [what for code, what in told if code == wire.NOTIFY_STORE]

    fh = linux.open(number)
    assert stored() == [expected]
    linux.open(number)
    assert stored() == []
    linux.attributes(number, wire.GETATTR_FH, fh)
    linux.open(number)
    assert stored() == [expected]
    linux.open(number, os.O_WRONLY | os.O_TRUNC)
    assert stored() == []
    for _ in range(2):  # a truncation may be slow
        linux.open(number)
        assert stored() == [expected]


def test_chmod_of_a_sysctl(guest):
    number = guest.number("sys/debug/kprobes-optimization")
    body = set_attributes(wire.FATTR_MODE, mode=0o100600)
    assert guest.code(Opcode.SETATTR, number, body) == "EPERM"


def entries(raw):
    found, at = {}, 0
    while at < len(raw):
        _, following, length, kind = wire.DIRENT.unpack_from(raw, at)
        begin = at + wire.DIRENT.size
        found[raw[begin : begin + length].decode()] = kind, following
        at = begin + length + -length % 8
    return found


def test_readdir_gives_types(linux):
    folder = linux.number("kprobes")
    fh = wire.OPEN_ANSWER.unpack(linux.get(Opcode.OPENDIR, folder))[0]
    body = wire.READ_REQUEST.pack(fh, 0, 4096, 0)
    found = entries(linux.get(Opcode.READDIR, folder, body))
    assert set(found) == {".", "..", "list", "enabled", "blacklist"}
    assert found["list"][0] == 0o10
    assert found["."][0] == 0o04
    linux.get(Opcode.RELEASEDIR, folder, struct.pack("=QIIQ", fh, 0, 0, 0))
    assert not linux.ops.dirs


def test_lookups_are_forgotten(linux):
    number = linux.number("kprobes/enabled")
    linux.number("kprobes/enabled")
    before = len(linux.ops.inodes)
    once = wire.FH.pack(1)
    assert linux.ops.serve(request(Opcode.FORGET, number, once)) is None
    assert len(linux.ops.inodes) == before
    body = struct.pack("=II", 1, 0) + wire.FORGET_ONE.pack(number, 1)
    assert linux.ops.serve(request(Opcode.BATCH_FORGET, 0, body)) is None
    assert len(linux.ops.inodes) == before - 1
    assert linux.code(Opcode.GETATTR, number, bytes(16)) == "ESTALE"


def test_nothing_stays_of_a_directory_that_is_forgotten(linux):
    before = set(linux.ops.asked)
    number = linux.number("kprobes")
    assert linux.ops.asked == {*before, number}
    once = wire.FH.pack(1)
    assert linux.ops.serve(request(Opcode.FORGET, number, once)) is None
    assert linux.ops.asked == before


def test_what_is_not_there(linux):
    assert linux.code(Opcode.LOOKUP, wire.ROOT, b"none\0") == "ENOENT"
    number = linux.number("kprobes/list")
    assert linux.code(Opcode.LOOKUP, number, b"x\0") == "ENOTDIR"
    body = wire.OPEN_REQUEST.pack(os.O_WRONLY)
    assert linux.code(Opcode.OPEN, linux.number("kprobes"), body) == "EISDIR"
    assert linux.code(99, wire.ROOT, b"") == "ENOSYS"


@pytest.mark.logs("bug in statfs")
def test_errors(linux, caplog):
    def answer_to(error):
        def fail(*_request):
            raise error

        linux.ops.methods[Opcode.STATFS] = fail
        return linux.code(Opcode.STATFS)

    assert answer_to(KernelError(errno.EBUSY, "busy")) == "EBUSY"
    assert answer_to(KernelError(512, "ERESTARTSYS")) == "EINTR"
    assert answer_to(KernelError(516, "ERESTART_RESTARTBLOCK")) == "EINTR"
    assert answer_to(KernelError(523, "EBADCOOKIE")) == "EINVAL"
    assert answer_to(KernelError(524, "ENOTSUPP")) in ("EOPNOTSUPP", "ENOTSUP")
    with caplog.at_level(logging.ERROR):
        assert answer_to(KeyboardInterrupt()) == "EIO"
    assert "bug" in caplog.text


def test_a_write_of_a_thread_that_stands_for_another(linux):
    ops = linux.ops
    fh = linux.open(linux.number("kprobes/enabled"))
    made = []

    def in_place(_files, file):
        made.append(file)
        return 5

    ops.writers[PID] = in_place
    assert wire.WRITE_ANSWER.unpack(linux.get(*linux.write(fh, b"data", 3))) == (5,)
    assert made == [ops.files[fh]]
    assert ops.writers == {}, "for one write"
    ops.writers[PID] = in_place
    body = wire.IOCTL_REQUEST.pack(fh, EMPTY_WRITE, 0)
    assert wire.IOCTL_ANSWER.unpack(linux.get(Opcode.IOCTL, 1, body))[0] == 5
    assert len(made) == 2


def test_no_other_has_an_ioctl(linux):
    tcgets, fh = 0x5401, linux.open(linux.number("kprobes/enabled"))
    for number, writers in ((EMPTY_WRITE, {}), (EMPTY_WRITE, {101: None})):
        linux.ops.writers = writers
        body = wire.IOCTL_REQUEST.pack(fh, number, 0)
        assert linux.code(Opcode.IOCTL, 1, body) == "ENOTTY"
    linux.ops.writers = {PID: None}
    for number in (tcgets, 0):
        body = wire.IOCTL_REQUEST.pack(fh, number, 1)
        assert linux.code(Opcode.IOCTL, 1, body) == "ENOTTY"
    assert linux.ops.writers == {PID: None}
