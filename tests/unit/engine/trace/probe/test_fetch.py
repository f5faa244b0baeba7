# SPDX-License-Identifier: GPL-2.0-or-later
"""Fetch arguments: what they compile to; recorded cases have their formats."""

import struct

import pytest

from kpfs.engine.trace.probe.fetch import FetchOp, encode, prog_size

DI, SI, AX, SP = 112, 104, 80, 152


def arguments(trace, text, place="vfs_read", kind="p"):
    trace.ts.dyn_events.release_all()
    assert trace.write(f"{kind}:e {place} {text}") == ""
    return trace.ts.dyn_events.named("e")[0].args


def compiled(arg):
    return [(insn.op, insn.value) for insn in arg.code]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("%di", [(FetchOp.REG, DI), (FetchOp.ST_RAW, 0)]),
        ("$stack", [(FetchOp.STACKP, SP), (FetchOp.ST_RAW, 0)]),
        ("$stack3", [(FetchOp.STACK, 3), (FetchOp.ST_RAW, 0)]),
        ("$arg2", [(FetchOp.REG, SI), (FetchOp.ST_RAW, 0)]),
        ("$arg7", [(FetchOp.STACK, 1), (FetchOp.ST_RAW, 0)]),
        ("+8(%si)", [(FetchOp.REG, SI), (FetchOp.ST_MEM, 8)]),
        ("+u8(%si)", [(FetchOp.REG, SI), (FetchOp.ST_UMEM, 8)]),
        ("+0(+8(%si))", [(FetchOp.REG, SI), (FetchOp.DEREF, 8), (FetchOp.ST_MEM, 0)]),
        ("+0(%si):string", [(FetchOp.REG, SI), (FetchOp.ST_STRING, 0)]),
        ("+0(%si):ustring", [(FetchOp.REG, SI), (FetchOp.ST_USTRING, 0)]),
        ("+u0(%si):string", [(FetchOp.REG, SI), (FetchOp.ST_USTRING, 0)]),
        ("$comm", [(FetchOp.COMM, 0), (FetchOp.ST_STRING, 0)]),
        (
            "+0(%si):string[2]",
            [
                (FetchOp.REG, SI),
                (FetchOp.DEREF, 0),
                (FetchOp.ST_STRING, 0),
                (FetchOp.LP_ARRAY, 0),
            ],
        ),
        (
            "@jiffies+4:symstr",
            [
                (FetchOp.SYMBOL, 0),
                (FetchOp.IMM, 0xFFFFFFFF82000004),
                (FetchOp.DEREF, 0),
                (FetchOp.ST_SYMSTR, 0),
            ],
        ),
    ],
)
def test_code(trace, text, code):
    (arg,) = arguments(trace, text)
    assert compiled(arg) == [*code, (FetchOp.END, 0)]


def test_bitfield(trace):
    (arg,) = arguments(trace, "%di:b4@3/16")
    insn = arg.code[-2]
    assert (insn.op, insn.lshift, insn.rshift, insn.size) == (FetchOp.MOD_BF, 9, 12, 2)


def test_return_value(trace):
    (arg,) = arguments(trace, "$retval:s32", kind="r")
    assert compiled(arg) == [(FetchOp.REG, AX), (FetchOp.ST_RAW, 0), (FetchOp.END, 0)]


def test_program_in_memory(trace):
    args = arguments(trace, r'a=%di:u8 b=\"xy" c=@jiffies')
    addr = 0x1000
    prog = encode(args, 16, addr)
    assert len(prog) == prog_size(args)
    assert struct.unpack_from("<IIII", prog) == (3, 1 + 4 + 8, 16, 1)
    assert struct.unpack_from("<IHH", prog, 16) == (16, 3, 0)
    # the second argument loads the address of its string, which ends the program
    second = 16 + 8 + 3 * 16
    assert struct.unpack_from("<IHH", prog, second) == (17, 3, 1)
    assert prog[second + 8] == FetchOp.IMM
    string = struct.unpack_from("<Q", prog, second + 8 + 8)[0]
    assert prog[string - addr :] == b"xy\0"
