# SPDX-License-Identifier: GPL-2.0-or-later
"""Messages of FUSE of a big-endian kernel, turned around and back."""

import pytest

from kpfs.base import fuse_wire as wire
from kpfs.base.data_model import BIG_64, LITTLE_64
from kpfs.base.fuse_wire import Opcode
from kpfs.linux.inside import fuse_order

ATTR = wire.attributes(*range(1, 7), *range(11, 17))


def asked(opcode, form, *values, rest=b""):
    """Return the request of a kernel, and what is left of it when it is turned."""
    head = BIG_64.struct("IIQQIII4x").pack(0, opcode, 7, 1, 2, 3, 4)
    raw = head + BIG_64.struct(form).pack(*values) + rest
    turned = fuse_order.request(raw, BIG_64)
    assert wire.HEADER.unpack_from(turned)[:4] == (0, opcode, 7, 1)
    return turned[wire.HEADER.size :]


def test_requests():
    body = asked(Opcode.READ, "QQIIQII", 5, 1 << 40, 4096, 0, 0, 0o2, 0)
    assert wire.parse_read(body) == (5, 1 << 40, 4096, 0, 2)
    body = asked(Opcode.WRITE, "QQIIQII", 5, 9, 4, 0, 0, 1, 0, rest=b"data")
    assert wire.WriteRequest.parse(body) == (5, 9, b"data", 1)
    body = asked(Opcode.CREATE, "4I", 2, 0o644, 0o22, 0, rest=b"name\0")
    assert wire.parse_create(body) == (2, 0o644, 0o22, b"name")
    body = asked(Opcode.BATCH_FORGET, "II4Q", 2, 0, 11, 1, 12, 2)
    assert wire.forgotten(Opcode.BATCH_FORGET, 0, body) == [(11, 1), (12, 2)]
    assert wire.name(asked(Opcode.LOOKUP, "5s", b"file\0")) == b"file"


@pytest.mark.parametrize("size", [0, 8, 39])
def test_a_request_that_is_cut_short_stays_so(size):
    assert fuse_order.request(bytes(size), BIG_64) == bytes(size)


def test_replies():
    form = "4Q2I3Q3q10I"
    plain = wire.entry(9, ATTR, 1, 2)
    turned = fuse_order.reply(Opcode.LOOKUP, plain, BIG_64)
    assert BIG_64.struct(form).unpack(turned) == LITTLE_64.struct(form).unpack(plain)
    rows = [(b"a", 3, 8), (b"longer name", 4, 4)]
    listed = wire.dirents(rows, 0, 4096, lambda _: plain)
    turned = fuse_order.reply(Opcode.READDIRPLUS, listed, BIG_64)
    assert len(turned) == len(listed)
    at = BIG_64.struct(form).size
    assert BIG_64.struct("QQII").unpack_from(turned, at) == (3, 1, 1, 8)
    assert b"longer name" in turned
    assert fuse_order.head(wire.ANSWER.pack(16, -2, 7), BIG_64) == BIG_64.struct(
        "IiQ"
    ).pack(16, -2, 7)
