# SPDX-License-Identifier: GPL-2.0-or-later
"""Turns messages of FUSE from a kernel's byte order into that of fuse_wire.py.

Files are served in little-endian words, as most kernels have them.  So the numbers of a
big-endian kernel's requests are turned around before they are taken apart, and those of
the replies when they are made.
"""

from __future__ import annotations

from struct import Struct

from kpfs.base import fuse_wire as wire
from kpfs.base.data_model import LITTLE_64, DataModel
from kpfs.base.fuse_wire import Opcode

_READ = "QQIIQI4x"  # with what follows READ_REQUEST


def _form(*layouts: Struct) -> str:
    return "".join(layout.format.removeprefix("<") for layout in layouts)


# by opcode: what a request and a reply begin with; names and contents are behind it
_REQUESTS: dict[int, str] = {
    Opcode.INIT: _form(wire.INIT_REQUEST),
    Opcode.FORGET: _form(wire.FH),
    Opcode.GETATTR: _form(wire.GETATTR_REQUEST),
    Opcode.SETATTR: _form(wire.SETATTR_REQUEST),
    Opcode.MKNOD: _form(wire.MKNOD_REQUEST),
    Opcode.MKDIR: _form(wire.MKDIR_REQUEST),
    Opcode.RENAME: _form(wire.FH),
    Opcode.RENAME2: _form(wire.RENAME2_REQUEST),
    Opcode.LINK: _form(wire.FH),
    Opcode.CREATE: _form(wire.CREATE_REQUEST),
    **dict.fromkeys(
        (Opcode.READ, Opcode.READDIR, Opcode.READDIRPLUS, Opcode.WRITE), _READ
    ),
}
_NAMED = _form(wire.ENTRY, wire.ATTR)
_REPLIES: dict[int, str] = {
    Opcode.INIT: _form(wire.INIT_ANSWER),
    Opcode.STATFS: _form(wire.STATFS_ANSWER),
    Opcode.WRITE: _form(wire.WRITE_ANSWER),
    Opcode.CREATE: _form(wire.ENTRY, wire.ATTR, wire.OPEN_ANSWER),
    Opcode.GETATTR: _form(wire.ATTR_ANSWER, wire.ATTR),
    Opcode.SETATTR: _form(wire.ATTR_ANSWER, wire.ATTR),
    **dict.fromkeys(
        (Opcode.LOOKUP, Opcode.SYMLINK, Opcode.MKNOD, Opcode.MKDIR, Opcode.LINK), _NAMED
    ),
}  # fmt: skip
_HEADER, _HEAD = _form(wire.HEADER), _form(wire.ANSWER)
_LISTED: dict[int, str] = {Opcode.READDIR: "", Opcode.READDIRPLUS: _NAMED}
_NAME_SIZE = 2  # the place of the name's length in DIRENT


def _turned(raw: bytes, form: str, source: DataModel, to: DataModel) -> bytes:
    """Turn the numbers around that bytes begin with, if these are so many."""
    layout = source.struct(form)
    if len(raw) < layout.size:
        return raw
    return to.struct(form).pack(*layout.unpack_from(raw)) + raw[layout.size :]


def request(raw: bytes, model: DataModel) -> bytes:
    """Return a kernel's request as it is parsed."""
    turned = _turned(raw, _HEADER, model, LITTLE_64)
    head, body = turned[: wire.HEADER.size], turned[wire.HEADER.size :]
    opcode = wire.HEADER.unpack(head)[1] if len(head) == wire.HEADER.size else 0
    if opcode == Opcode.BATCH_FORGET:
        rows = (len(body) - wire.COUNT.size) // wire.FORGET_ONE.size
        form = _form(wire.COUNT) + _form(wire.FORGET_ONE) * max(rows, 0)
    else:
        form = _REQUESTS.get(opcode, "")
    return head + _turned(body, form, model, LITTLE_64)


def reply(opcode: int, data: bytes, model: DataModel) -> bytes:
    """Return the body of a reply as a kernel reads it."""
    if opcode not in _LISTED:
        return _turned(data, _REPLIES.get(opcode, ""), LITTLE_64, model)
    form, found, at = _LISTED[opcode] + _form(wire.DIRENT), b"", 0
    before = wire.ENTRY.size + wire.ATTR.size if _LISTED[opcode] else 0
    while at < len(data):
        length = wire.DIRENT.unpack_from(data, at + before)[_NAME_SIZE]
        end = at + before + wire.DIRENT.size + (length + 7 & -8)
        found += _turned(data[at:end], form, LITTLE_64, model)
        at = end
    return found


def head(raw: bytes, model: DataModel) -> bytes:
    """Return what a reply or a notification begins with."""
    return _turned(raw, _HEAD, LITTLE_64, model)
