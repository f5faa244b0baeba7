# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes a device tree.  Document: the Devicetree Specification, chapter 5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kpfs.base.data_model import BIG_64

_MAGIC, _VERSION, _COMPATIBLE = 0xD00DFEED, 17, 16
_BEGIN, _END_NODE, _PROP, _END = 1, 2, 3, 9
_HEAD = BIG_64.struct("10I")
_NOTHING = 0, 0  # ends the list of reserved memory
Value = int | str | bytes | Sequence[int] | Sequence[str]


class FdtNode(NamedTuple):
    """A node: its properties, and the nodes below it."""

    name: str
    properties: dict[str, Value]
    below: Sequence[FdtNode] = ()


def u64(*words: int) -> list[int]:
    """Return numbers of 64 bits as cells of 32."""
    return [cell for word in words for cell in (word >> 32, word & 0xFFFF_FFFF)]


def _bytes(value: Value) -> bytes:
    if isinstance(value, bytes):
        return value
    words: Sequence[int | str]
    words = (value,) if isinstance(value, int | str) else value
    return b"".join(
        BIG_64.struct("I").pack(one) if isinstance(one, int) else one.encode() + b"\0"
        for one in words
    )


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def device_tree(root: FdtNode, reserved: tuple[int, int] | None = None) -> bytes:
    """Return the tree as a kernel takes it.

    reserved: address and size of memory that the kernel is to leave alone.
    """
    names: dict[str, int] = {}
    strings = bytearray()

    def place(name: str) -> int:
        if name not in names:
            names[name] = len(strings)
            strings.extend(name.encode() + b"\0")
        return names[name]

    def node(one: FdtNode) -> bytes:
        out = BIG_64.struct("I").pack(_BEGIN) + _padded(one.name.encode() + b"\0")
        for name, value in one.properties.items():
            data = _bytes(value)
            out += BIG_64.struct("3I").pack(_PROP, len(data), place(name)) + _padded(
                data
            )
        return out + b"".join(map(node, one.below)) + BIG_64.struct("I").pack(_END_NODE)

    structure = node(root) + BIG_64.struct("I").pack(_END)
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
    return head + ranges + structure + bytes(strings)
