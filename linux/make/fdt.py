# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes a device tree of its source.

Document: the Devicetree Specification, chapters 5 and 6.  The source has no labels, no
directives, and no semicolons within strings.
"""

from __future__ import annotations

import re

from kpfs.base.data_model import BIG_64

_MAGIC, _VERSION, _COMPATIBLE = 0xD00DFEED, 17, 16
_BEGIN, _END_NODE, _PROP, _END = 1, 2, 3, 9
_HEAD, _CELL = BIG_64.struct("10I"), BIG_64.struct("I")
_NOTHING = 0, 0  # ends the list of reserved memory
# the end of a node; a name, with the begin of a node or what a property is
_STATEMENT = re.compile(r'\s*(?:(\};)|([^\s{};="]+)\s*(?:(\{)|(?:=([^;]*))?;))')
_VALUE = re.compile(r'"([^"]*)"|<([^>]*)>|\[([^]]*)\]')  # text, cells, bytes


def u64(*words: int) -> str:
    """Return numbers of 64 bits as cells of 32."""
    return " ".join(f"{word >> 32:#x} {word & 0xFFFF_FFFF:#x}" for word in words)


def _bytes(value: str) -> bytes:
    out = b""
    for text, cells, raw in _VALUE.findall(value):
        out += b"".join(_CELL.pack(int(cell, 0)) for cell in cells.split())
        out += bytes.fromhex(raw)
        out += b"" if cells or raw else text.encode() + b"\0"
    return out


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def device_tree(source: str, reserved: tuple[int, int] | None = None) -> bytes:
    """Return the tree as a kernel takes it.

    reserved: address and size of memory that the kernel is to leave alone.
    """
    names: dict[str, int] = {}
    strings, structure, at = bytearray(), bytearray(), 0
    while found := _STATEMENT.match(source, at):
        at = found.end()
        end, name, begin, value = found.groups()
        if end:
            structure += _CELL.pack(_END_NODE)
        elif begin:
            called = name.strip("/").encode() + b"\0"
            structure += _CELL.pack(_BEGIN) + _padded(called)
        else:
            if name not in names:
                names[name] = len(strings)
                strings += name.encode() + b"\0"
            data = _bytes(value or "")
            head = BIG_64.struct("3I").pack(_PROP, len(data), names[name])
            structure += head + _padded(data)
    if source[at:].strip():
        raise ValueError(source[at:])
    structure += _CELL.pack(_END)
    ranges = b"".join(
        BIG_64.struct("2Q").pack(*each)
        for each in (*([reserved] if reserved else []), _NOTHING)
    )
    reserved_at = _HEAD.size
    structure_at = reserved_at + len(ranges)
    strings_at = structure_at + len(structure)
    size = strings_at + len(strings)
    head = _HEAD.pack(
        *(_MAGIC, size, structure_at, strings_at, reserved_at, _VERSION, _COMPATIBLE),
        *(0, len(strings), len(structure)),
    )
    return head + ranges + bytes(structure + strings)
