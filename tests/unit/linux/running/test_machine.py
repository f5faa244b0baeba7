# SPDX-License-Identifier: GPL-2.0-or-later
"""Requests as they lie in the memory that guest and host share."""

from kpfs.base import abi
from kpfs.linux.running.machine import FINALLY, STOP, Batch, Op, Out, Result, SlotOffset

SIZE = abi.AgentOp.SIZE


def kinds(batch, number):
    at = number * SIZE + abi.AgentOp.kinds
    return list(batch.ops[at : at + abi.NR_ARGS])


def args(batch, number):
    at = number * SIZE + abi.AgentOp.args
    raw = batch.ops[at : at + 8 * abi.NR_ARGS]
    return [int.from_bytes(raw[i : i + 8], "little") for i in range(0, len(raw), 8)]


def test_what_arguments_are():
    ops = [
        Op(257, (-100, b"/a\0", 2), STOP),
        Op(0, (Result(0), Out(10), 10)),
        Op(3, (Result(0, 1), SlotOffset(4)), FINALLY),
    ]
    batch = Batch(ops, b"12345678")
    assert batch.count == 3
    assert len(batch.ops) == 3 * SIZE
    value, data = abi.ARG_VALUE, abi.ARG_DATA
    assert kinds(batch, 0)[:3] == [value, data, value]
    assert kinds(batch, 1)[:3] == [abi.ARG_RESULT, data, value]
    assert args(batch, 0)[:3] == [2**64 - 100, 8, 2]
    assert args(batch, 2)[:2] == [1, 4]
    assert bytes(batch.data) == b"12345678" + b"/a\0"
    assert batch.size == 32
    assert batch.places == [8, 16]
    flags = [batch.ops[i * SIZE + abi.AgentOp.flags] for i in range(3)]
    assert flags == [STOP, 0, FINALLY]


def test_data_behind_room():
    batch = Batch([Op(0, (Out(10),)), Op(1, (b"abc",)), Op(0, (Out(100),))])
    assert batch.places == [0, 16, 24]
    assert bytes(batch.data) == bytes(16) + b"abc"
    assert batch.size == 128
