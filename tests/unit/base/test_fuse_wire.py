# SPDX-License-Identifier: GPL-2.0-or-later
"""Messages of FUSE as bytes."""

from kpfs.base import fuse_wire as wire
from kpfs.base.fuse_wire import Opcode
from kpfs.base.units import NSEC


def test_names_of_requests():
    assert wire.parse_rename(wire.FH.pack(7) + b"a\0b\0") == (7, b"a", b"b", 0)
    body = wire.RENAME2_REQUEST.pack(7, 1) + b"a\0b\0"
    assert wire.parse_rename2(body) == (7, b"a", b"b", 1)
    assert wire.parse_link(wire.FH.pack(3) + b"new\0") == (3, b"new")
    assert wire.parse_symlink(b"new\0target\0") == (b"new", b"target")
    body = wire.CREATE_REQUEST.pack(1, 2, 3) + b"new\0"
    assert wire.parse_create(body) == (1, 2, 3, b"new")
    body = wire.WRITE_REQUEST.pack(4, 5, 2, 0) + b"abc"
    assert wire.WriteRequest.parse(body) == (4, 5, b"ab", 0)


def test_fields_that_are_not_valid_are_left_out():
    words = wire.FATTR_MODE | wire.FATTR_MTIME, 4, 5, 0, 1, 2, 3, 4, 5, 6, 0o644, 7, 8
    asked = wire.SetattrRequest.parse(wire.SETATTR_REQUEST.pack(*words))
    assert asked == wire.SetattrRequest(mode=0o644, mtime=2 * NSEC + 5)


def test_forgetting():
    assert wire.forgotten(Opcode.FORGET, 9, wire.FH.pack(2)) == [(9, 2)]
    pairs = [(3, 1), (4, 2)]
    body = wire.COUNT.pack(2) + b"".join(wire.FORGET_ONE.pack(*pair) for pair in pairs)
    assert wire.forgotten(Opcode.BATCH_FORGET, 0, body + bytes(8)) == pairs


def test_times_before_1970():
    attr = wire.attributes(1, 2, 3, -1, 0, NSEC, 0o100644, 1, 0, 0, 0, 4096)
    assert wire.ATTR.unpack(attr)[3:9] == (-1, 0, 1, 999_999_999, 0, 0)


def test_a_directory_comes_in_pieces():
    entries = [(b"name%d" % i, 1, 8) for i in range(100)]
    seen: list[bytes] = []
    while piece := wire.dirents(entries, len(seen), 200):
        assert len(piece) <= 200
        at = 0
        while at < len(piece):
            _, following, length, _ = wire.DIRENT.unpack_from(piece, at)
            at += wire.DIRENT.size
            seen.append(piece[at : at + length])
            at += length + -length % 8
            assert following == len(seen)
    assert seen == [name for name, _, _ in entries]


def test_attributes_lie_ahead_of_entries():
    entries, ahead = [(b"a", 1, 8)], wire.no_entry()
    piece = wire.dirents(entries, 0, 4096, lambda _name: ahead)
    assert piece == ahead + wire.dirents(entries, 0, 4096)
    assert not wire.dirents(entries, 0, len(ahead) + 31, lambda _name: ahead)
