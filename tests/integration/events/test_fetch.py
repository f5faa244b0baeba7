# SPDX-License-Identifier: GPL-2.0-or-later
"""Fetch arguments: what they give in the guest.

This also tests kpfs.engine.trace.probe.kprobe_event.
"""

import struct

import pytest

from kpfs.engine.trace.text.trace_iter import trace_text

pytestmark = pytest.mark.guest

FUNC = "__x64_sys_getppid"


class Guest:
    def __init__(self, kernel):
        self.kernel = kernel
        self.ts = kernel.trace
        self.ops = kernel.kprobe_events
        self.task = kernel.guest.host_tasks.of_process(1234, 0)
        kernel.guest.host_tasks.set_comm(self.task, "hitn")

    def values(self, args, kind="p", place=FUNC):
        """Return the arguments that one hit of a probe prints."""
        self.ts.dyn_events.release_all()
        command = f"{kind}:e {place} {args}".encode("latin-1")
        self.ts.dyn_events.run_commands(command, self.ops)
        event = self.ts.events.find("kprobes", "e")
        self.ts.array_events.enable_store(event, b"1")
        self.ts.ring.reset()
        self.kernel.guest.syscalls.call(self.task, "getppid")
        self.ts.array_events.enable_store(event, b"0")
        text = trace_text(self.ts).partition(": e: (")[2]
        return text.partition(") ")[2].removesuffix("\n")


@pytest.fixture(scope="module")
def guest(one_cpu):
    return Guest(one_cpu)


@pytest.mark.parametrize("offset", ["", "+5"])
@pytest.mark.parametrize(
    ("args", "text"),
    [
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


def test_registers_and_memory(guest):
    text = guest.values("a=$stack b=%sp c=+0($stack) d=$stack0 e=%cs:x16 f=$stack2048")
    values = dict(item.split("=") for item in text.split())
    assert values["a"] == values["b"]
    assert values["c"] == values["d"] != "0x0"
    assert values["e"] == "0x10"
    assert values["f"] == "0x0"  # not of this stack


def test_return_probe_in_the_guest(guest):
    assert guest.values("$retval:s32 c=$comm", kind="r") == 'arg1=1 c="hitn"'


def test_array_of_strings(guest):
    heap = guest.ts.runtime.heap
    block = heap.alloc(64)
    heap.view(block, 64)[:] = struct.pack("<QQQ40s", block + 24, 0, block + 28, b"one")
    text = guest.values(f"a=+0(\\{block:#x}):string[3] b=+0(\\{block:#x}):x64[2]")
    # the second pointer is null: that ends the fetch, as the kernel's loop goes on
    assert text.startswith('a={"one",(fault),')
    assert text.endswith(f"b={{{block + 24:#x},0x0}}")


def test_record_too_long_for_a_page_is_not_written(guest):
    heap = guest.ts.runtime.heap
    block = heap.alloc(4096)
    heap.view(block, 4096)[:] = b"x" * 4096
    assert guest.values(f"a=+0(\\{block:#x}):string") == ""
    heap.view(block, 4096)[3000] = 0
    assert guest.values(f"a=+0(\\{block:#x}):string") == f'a="{"x" * 3000}"'
