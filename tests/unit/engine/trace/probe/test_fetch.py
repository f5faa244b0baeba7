# SPDX-License-Identifier: GPL-2.0-or-later
"""Fetch arguments: what they compile to, and their format text."""

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


def test_format(trace):
    trace.write(
        "p:e vfs_read a=%di b=%si:u8 c=%dx:s16 d=%cx:x32 e=+0(%di):u8[3] f=$comm "
        r"h=%ip:symbol i=%ax:b4@4/32 k=\5:u16 l=+0(%di):string[2] m=%ip:symstr"
    )
    text = trace.event("e").format_text()
    assert text.startswith(f"name: e\nID: {trace.event('e').id}\nformat:\n")
    fields = [line for line in text.splitlines() if line.startswith("\tfield:")]
    assert fields[4:] == [
        "\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;",
        "\tfield:u64 a;\toffset:16;\tsize:8;\tsigned:0;",
        "\tfield:u8 b;\toffset:24;\tsize:1;\tsigned:0;",
        "\tfield:s16 c;\toffset:25;\tsize:2;\tsigned:1;",
        "\tfield:u32 d;\toffset:27;\tsize:4;\tsigned:0;",
        "\tfield:u8 e[];\toffset:31;\tsize:3;\tsigned:0;",
        "\tfield:__data_loc char[] f;\toffset:34;\tsize:4;\tsigned:1;",
        "\tfield:u64 h;\toffset:38;\tsize:8;\tsigned:0;",
        "\tfield:u32 i;\toffset:46;\tsize:4;\tsigned:0;",
        "\tfield:u16 k;\toffset:50;\tsize:2;\tsigned:0;",
        "\tfield:__data_loc char[][2] l;\toffset:52;\tsize:8;\tsigned:1;",
        "\tfield:__data_loc char[] m;\toffset:60;\tsize:4;\tsigned:1;",
    ]
    assert text.splitlines()[-1] == (
        r'print fmt: "(%lx) a=0x%Lx b=%u c=%d d=0x%x e={%u,%u,%u} f=\"%s\" h=%pS '
        r'i=%u k=%u l={\"%s\",\"%s\"} m=\"%s\"", REC->__probe_ip, REC->a, REC->b, '
        r"REC->c, REC->d, REC->e[0], REC->e[1], REC->e[2], __get_str(f), REC->h, "
        r"REC->i, REC->k, __get_str(l[0]), __get_str(l[1]), __get_str(m)"
    )


def test_format_of_a_return_probe(trace):
    trace.write("r:e vfs_read")
    lines = trace.event("e").format_text().splitlines()
    assert lines[8:10] == [
        "\tfield:unsigned long __probe_func;\toffset:8;\tsize:8;\tsigned:0;",
        "\tfield:unsigned long __probe_ret_ip;\toffset:16;\tsize:8;\tsigned:0;",
    ]
    assert lines[-1] == (
        'print fmt: "(%lx <- %lx)", REC->__probe_func, REC->__probe_ret_ip'
    )
