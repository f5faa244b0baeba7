# SPDX-License-Identifier: GPL-2.0-or-later
"""Fetch arguments: what they compile to, their format text, and the guest's answers."""

import struct

import pytest

from kpfs.engine.trace.probe.fetch import Op, encode, prog_size
from kpfs.engine.trace.text.output import trace_text

FUNC = "__x64_sys_getppid"
DI, SI, AX, SP = 112, 104, 80, 152


def arguments(trace, text, place="vfs_read", kind="p"):
    trace.ts.release_all()
    assert trace.write(f"{kind}:e {place} {text}") == ""
    return trace.ts.dyn_events_named("e")[0].args


def compiled(arg):
    return [(insn.op, insn.value) for insn in arg.code]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("%di", [(Op.REG, DI), (Op.ST_RAW, 0)]),
        ("$stack", [(Op.STACKP, SP), (Op.ST_RAW, 0)]),
        ("$stack3", [(Op.STACK, 3), (Op.ST_RAW, 0)]),
        ("$arg2", [(Op.REG, SI), (Op.ST_RAW, 0)]),
        ("$arg7", [(Op.STACK, 1), (Op.ST_RAW, 0)]),
        ("+8(%si)", [(Op.REG, SI), (Op.ST_MEM, 8)]),
        ("+u8(%si)", [(Op.REG, SI), (Op.ST_UMEM, 8)]),
        ("+0(+8(%si))", [(Op.REG, SI), (Op.DEREF, 8), (Op.ST_MEM, 0)]),
        ("+0(%si):string", [(Op.REG, SI), (Op.ST_STRING, 0)]),
        ("+0(%si):ustring", [(Op.REG, SI), (Op.ST_USTRING, 0)]),
        ("+u0(%si):string", [(Op.REG, SI), (Op.ST_USTRING, 0)]),
        ("$comm", [(Op.COMM, 0), (Op.ST_STRING, 0)]),
        (
            "+0(%si):string[2]",
            [(Op.REG, SI), (Op.DEREF, 0), (Op.ST_STRING, 0), (Op.LP_ARRAY, 0)],
        ),
        (
            "@jiffies+4:symstr",
            [
                (Op.SYMBOL, 0),
                (Op.IMM, 0xFFFFFFFF82000004),
                (Op.DEREF, 0),
                (Op.ST_SYMSTR, 0),
            ],
        ),
    ],
)
def test_code(trace, text, code):
    (arg,) = arguments(trace, text)
    assert compiled(arg) == [*code, (Op.END, 0)]


def test_bitfield(trace):
    (arg,) = arguments(trace, "%di:b4@3/16")
    insn = arg.code[-2]
    assert (insn.op, insn.lshift, insn.rshift, insn.size) == (Op.MOD_BF, 9, 12, 2)


def test_return_value(trace):
    (arg,) = arguments(trace, "$retval:s32", kind="r")
    assert compiled(arg) == [(Op.REG, AX), (Op.ST_RAW, 0), (Op.END, 0)]


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
    assert prog[second + 8] == Op.IMM
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


# ---- in the guest


class Guest:
    def __init__(self, kernel):
        self.kernel = kernel
        self.ts = kernel.trace
        self.ops = kernel.kprobe_events
        self.task = kernel.guest.syscalls.host_task(1234, 0)
        kernel.guest.syscalls.set_comm(self.task, "hitn")

    def values(self, args, kind="p", place=FUNC):
        """What one hit of a probe prints of its arguments."""
        self.ts.release_all()
        command = f"{kind}:e {place} {args}".encode("latin-1")
        self.ts.run_commands(command, self.ops)
        event = self.ts.events.find("kprobes", "e")
        self.ts.enable_store(event, b"1")
        self.ts.ring.reset()
        self.kernel.guest.syscalls.call(self.task, "getppid")
        self.ts.enable_store(event, b"0")
        text = trace_text(self.ts).partition(": e: (")[2]
        return text.partition(") ")[2].removesuffix("\n")


@pytest.fixture(scope="module")
def guest():
    from kpfs.kernel import Kernel

    kernel = Kernel(nr_cpus=1, quiet=True)
    with kernel.lock:
        yield Guest(kernel)
    kernel.stop()


@pytest.mark.guest
@pytest.mark.parametrize("offset", ["", "+5"])
@pytest.mark.parametrize(
    ("args", "text"),
    [
        # conformance case 101
        (
            r"a=\200:u8 b=\200:s8 c=\200:x8 d=\70000:u16 e=\70000:s16 f=\70000:x16",
            "a=200 b=-56 c=0xc8 d=4464 e=4464 f=0x1170",
        ),
        (
            r"g=\-5:u32 h=\-5:s32 i=\-5:x32 j=\-5:u64 k=\-5:s64 l=\-5:x64 m=\-5",
            "g=4294967291 h=-5 i=0xfffffffb j=18446744073709551611 k=-5 "
            "l=0xfffffffffffffffb m=0xfffffffffffffffb",
        ),
        (r"n=\0:symbol o=\0xab:b4@4/8 p=\0xab:b4@0/8", "n=0x0 o=10 p=11"),
        # 102
        (
            "b=@linux_banner:u8[5] c=@linux_banner:x8 d=@linux_banner+1:x16 "
            r"g=+0(\0):string h=@linux_banner:b4@0/8 i=@linux_banner:x8[2]",
            "b={76,105,110,117,120} c=0x4c d=0x6e69 g=(fault) h=12 i={0x4c,0x69}",
        ),
        # 103
        (r'c=$comm s=\"str"', 'c="hitn" s="str"'),
        # user memory only, and none of it there
        ("x=@linux_banner:ustring", "x=(fault)"),
        (r"x=+u0(\0):string y=+0(\0xffffffff00000000):string", "x=(fault) y=(fault)"),
        # not canonical: #GP instead of #PF
        (r"x=+0(\0x8000000000000000):string", "x=(fault)"),
        # a fault on the way to a string leaves it the room of those after it
        (
            r'n=+0(+8(\0)):string b=\"foo" c=+0(\0):string e=+0(+8(\0)):string',
            'n="foo" b="foo" c=(fault) e=(fault)',
        ),
    ],
)
def test_values(guest, offset, args, text):
    assert guest.values(args, place=FUNC + offset) == text


@pytest.mark.guest
def test_symbols(guest):
    text = guest.values(r'a=%ip:symbol b=%ip:symstr c=\"x" d=$stack0:symstr')
    symbol = guest.kernel.guest.kallsyms.lookup_name(FUNC)[0]
    name = guest.kernel.guest.kallsyms.symbol_at(symbol.addr).name
    here = f"{name}+0x1/{symbol.size:#x}"
    first, second, third, fourth = text.split()
    assert first == f"a={here}"
    # as in Linux, what follows a symbol takes the place of its NUL
    assert second == f'b="{here}x"'
    assert third == 'c="x"'
    assert fourth.startswith('d="do_syscall_64+0x')


@pytest.mark.guest
def test_registers_and_memory(guest):
    text = guest.values("a=$stack b=%sp c=+0($stack) d=$stack0 e=%cs:x16 f=$stack2048")
    values = dict(item.split("=") for item in text.split())
    assert values["a"] == values["b"]
    assert values["c"] == values["d"] != "0x0"
    assert values["e"] == "0x10"
    assert values["f"] == "0x0"  # not of this stack


@pytest.mark.guest
def test_return_probe_in_the_guest(guest):
    assert guest.values("$retval:s32 c=$comm", kind="r") == 'arg1=1 c="hitn"'


@pytest.mark.guest
def test_array_of_strings(guest):
    heap = guest.ts.runtime.heap
    block = heap.alloc(64)
    heap.view(block, 64)[:] = struct.pack("<QQQ40s", block + 24, 0, block + 28, b"one")
    text = guest.values(f"a=+0(\\{block:#x}):string[3] b=+0(\\{block:#x}):x64[2]")
    # the second pointer is null: that ends the fetch, as the kernel's loop goes on
    assert text.startswith('a={"one",(fault),')
    assert text.endswith(f"b={{{block + 24:#x},0x0}}")


@pytest.mark.guest
def test_record_too_long_for_a_page_is_not_written(guest):
    heap = guest.ts.runtime.heap
    block = heap.alloc(4096)
    heap.view(block, 4096)[:] = b"x" * 4096
    assert guest.values(f"a=+0(\\{block:#x}):string") == ""
    heap.view(block, 4096)[3000] = 0
    assert guest.values(f"a=+0(\\{block:#x}):string") == f'a="{"x" * 3000}"'
