# SPDX-License-Identifier: GPL-2.0-or-later
"""Synthetic events by commands, their records as text, and what keeps them alive.

This also tests kpfs.engine.trace.synth.synth_event.
"""

import errno
import struct

import pytest

from kpfs.base.errors import KernelError
from kpfs.engine.trace.synth.synth_field import field_size, gfp_text
from kpfs.engine.trace.synth.trace_events_synth import TraceSynthOps
from kpfs.engine.trace.text.trace_iter import trace_text
from tests.there import code
from tests.unit.engine.trace.fakes import Trace, Writer

MODULE = 0xFFFFFFFFC0001000


class Synth(Trace):
    """A trace with synthetic events."""

    def __init__(self):
        super().__init__()
        self.synth = TraceSynthOps(self.ts)

    def define(self, text, ops="own"):
        """A write to synthetic_events, or to dynamic_events; the errno's name."""
        try:
            self.ts.dyn_events.run_commands(text.encode("latin-1"), ops and self.synth)
        except KernelError as error:
            return errno.errorcode[error.errno]
        return ""

    def lines(self, *records):
        """Return trace's lines for records of the event e, without their heads."""
        writer = Writer(self)
        for data in records:
            head = struct.pack("<HBBi", self.event("e", "synthetic").id, 0, 0, 7)
            writer.write(1, head + data)
        text = trace_text(self.ts).split("|         |\n")[1]
        return [line.rpartition("e: ")[2] for line in text.splitlines()]


@pytest.fixture
def synth():
    return Synth()


def test_both_files_show_it(synth):
    assert synth.define("e u64 a; char b[3]; unsigned int c char[] d # no more\n") == ""
    assert synth.synth.own_show() == "e\tu64 a; char[3] b; unsigned int c; char[] d\n"
    assert synth.ts.dyn_events.show() == f"s:synthetic/{synth.synth.own_show()}"
    assert synth.ts.dyn_events.show(synth.ops) == ""
    assert synth.define(synth.ts.dyn_events.show(), ops=None) == "EEXIST"
    assert synth.define("!e") == ""
    assert synth.ts.dyn_events.show() == synth.synth.own_show() == ""


def test_a_kprobe_event_is_no_business_of_the_file(synth):
    synth.write("p:k vfs_read")
    assert synth.define("!k") == "ENOENT"
    assert synth.define("-:k a b") == "EINVAL"
    assert synth.show()
    assert synth.define("s:e u64 a") == "EINVAL"
    assert synth.define("s:e u64 a", ops=None) == ""
    assert synth.write("-:e") == "ENOENT"
    synth.ts.dyn_events.release_all(synth.synth)
    assert synth.ts.dyn_events.show() == synth.show() != ""


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("e u64 a; nosuch b", "Invalid type @ 9 in e u64 a; nosuch b"),
        ("e u64 a; u64", "Invalid field @ 2 in e u64 a; u64"),
        ("  e  char a[x]", "Invalid array specification @ 8 in e  char a[x]"),
        ("e unsigned u8", "Incomplete type @ 2 in e unsigned u8"),
        ("e u8 a-b", "Illegal name @ 5 in e u8 a-b"),
    ],
)
def test_the_caret_stands_under_the_first_place_that_reads_so(synth, command, error):
    assert synth.define(command) == "EINVAL"
    assert synth.errors() == [error]
    assert synth.ts.dyn_events.show() == ""


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        ("u64", 8),
        ("bool", 1),
        ("gfp_t", 4),
        ("char[]", 0),
        ("char[020]", 16),
        ("long[]", 0),
    ],
)
def test_sizes_of_types(kind, size):
    assert field_size(kind) == size


@pytest.mark.parametrize(
    "kind", ["char[257]", "char[1000]", "char[0x10]", "char[4", "char[-1]"]
)
def test_wrong_sizes(kind):
    with pytest.raises(KernelError):
        field_size(kind)


def test_numbers_as_text(synth):
    synth.define("e s8 a; s16 b; s32 c; s64 d; u8 e; gfp_t f; bool g; gfp_t h")
    slots = struct.pack("<8q", -1, -2, -3, -4, -5, 0xCC0, 1, 0)
    assert synth.lines(slots) == [
        "a=255 b=65534 c=-3 d=-4 e=251 f=cc0  (GFP_KERNEL\0)g=1 h=0 (\0)"
    ]
    assert gfp_text(0x80000801) == "GFP_NOWAIT|GFP_DMA|0x80000000\0"


def test_strings_and_stacks_as_text(synth):
    synth.define("e char[4] a; char[] b; long[] c; u8 d")
    fixed = b"longer than its field".ljust(256, b"\0")
    read = synth.machine.kallsyms.lookup_name("vfs_read")[0].addr
    at = 8 + 256 + 3 * 8
    slots = struct.pack("<QQQ", 4 << 16 | at, 24 << 16 | at + 8, 9)
    behind = b"dyn\0".ljust(8, b"\0") + struct.pack("<QQQ", read, 0, read)
    assert synth.lines(fixed + slots + behind) == [
        "a=longer than its field b=dyn c=STACK:",
        "=> vfs_read+0x0/0x20",
        "d=9",
    ]


def test_a_stack_that_would_lie_behind_the_buffer(synth):
    synth.define("e long[] a")
    where = 0xFFFF << 16 | 0xFFFF
    assert synth.lines(struct.pack("<Q", where))[0] == "a=STACK:"


def test_its_module_stays_while_it_is_on(synth):
    synth.define("e u64 a")
    event = synth.event("e", "synthetic")
    event.module = MODULE
    synth.on("e", "synthetic")
    synth.ts.mkdir("i").array_events.enable_store(event, b"1")
    assert synth.machine.modules.uses[MODULE] == 2
    assert synth.define("!e") == synth.define("-:e", ops=None) == "EBUSY"
    synth.off("e", "synthetic")
    synth.ts.rmdir("i")
    assert synth.machine.modules.uses[MODULE] == 0
    synth.machine.modules.going.add(MODULE)
    assert code(synth.on, "e", "synthetic") == "EBUSY"
    assert synth.file("e", "synthetic").enable_text() == "0\n"
    assert synth.define("!e") == ""


def test_its_file_in_guest_memory_says_what_is_wanted(synth):
    synth.define("e u64 a; char[] b")
    file = synth.file("e", "synthetic")
    guest = file.guest_file()
    file.write_description()
    number, fields, dynamic, words = struct.unpack(
        "<4I", synth.machine.read(guest.event, 16)
    )
    assert (fields, dynamic, words) == (2, 1, 2)
    assert number == synth.event("e", "synthetic").id
    assert (guest.flags, guest.filter) == (0, 0)
    synth.on("e", "synthetic")
    synth.ts.array_events.filter_store(synth.event("e", "synthetic"), b"a == 1")
    assert guest.flags
    assert guest.filter
    synth.off("e", "synthetic")
    assert not guest.flags
