# SPDX-License-Identifier: GPL-2.0-or-later
"""The grammar of probe definitions, beside what recorded cases ask of it.

This also tests kpfs.engine.trace.errlog.
"""

import pytest

from kpfs.engine.trace.event.trace_event import TraceEvent
from kpfs.engine.trace.words import argv_split, is_good_name, is_good_system_name
from tests.unit.engine.trace.fakes import Trace


@pytest.fixture(scope="module")
def shared():
    trace = Trace()
    machine = trace.machine
    machine.add_function("get_kprobe")
    machine.add_blacklist(machine.kallsyms.lookup_name("get_kprobe")[0])
    trace.st.load_blacklist()
    machine.add_symbol("linux_banner", 0xFFFFFFFF82001000, 100, "R")
    trace.ts.events.add(TraceEvent("sched", "sched_switch"))
    return trace


@pytest.fixture
def clean(shared):
    yield shared
    shared.ts.err_log.clear()
    shared.ts.dyn_events.release_all()


ADDRESS = "Invalid probed address or symbol"
EVENT_NAME = "Event name must follow the same rules as C identifiers"


@pytest.mark.parametrize(
    ("command", "errno", "text", "column"),
    [
        ("p:a 99999999999999999999", "ENOENT", ADDRESS, 4),
        ("p:a 0x1000+5", "ENOENT", ADDRESS, 4),
        ("p:a 0", "EINVAL", "Failed to register probe event", 4),
        ("p:a plain", "EINVAL", "Failed to register probe event", 4),
        ("p:e twice", "EADDRNOTAVAIL", "The symbol is not unique", 4),
        ("p:e twice+5", "EADDRNOTAVAIL", "The symbol is not unique", 4),
        ("p:\xc3\xa9 vfs_read", "EINVAL", EVENT_NAME, 2),
        ("r0x:e vfs_read", "EINVAL", "Invalid maxactive number", 1),
        (f"r{'1' * 64} vfs_read", "EINVAL", "Invalid maxactive number", 1),
        # Linux forgets the u when it counts
        ("p:a vfs_read a=+u0(%zz)", "EINVAL", "Invalid register name", 18),
        ("p:a vfs_read a=-u8(%zz)", "EINVAL", "Invalid register name", 18),
        ("p:a vfs_read a=-8(%zz)", "EINVAL", "Invalid register name", 18),
    ],
)
def test_refused(clean, command, errno, text, column):
    assert clean.write(command) == errno
    assert clean.errors() == [f"{text} @ {column} in {command}"]


@pytest.mark.parametrize(
    "command",
    [
        f"p:{'a' * 63} vfs_read",
        "pabc:e vfs_read",
        "p:a vfs_read x=+0(%di)[3]",
        "p:a vfs_read x=$arg7 y=$stack2048",
        "p:a vfs_read %si arg2=%di x=%di:b8@0/8",
        "p:a vfs_read c=%di:b1@18446744073709551615/8",
        "p:a vfs_read x=@jiffies-8 y=@0x1000:x8[64]",
    ],
)
def test_accepted(clean, command):
    assert clean.write(command) == ""


def test_too_big_an_event(clean):
    args = " ".join(f"a{i}=+0(%di):u64[64]" for i in range(20))
    assert clean.write(f"p:e vfs_read {args}") == "E2BIG"
    assert clean.errors()[0].startswith("Event too big (too many fields?) @ 130 in ")


def test_arguments_beyond_the_128th_are_cut(clean):
    args = " ".join(f"a{i}=%di" for i in range(129))
    assert clean.write(f"p:e vfs_read {args}") == ""
    assert len(clean.show().split()) == 130


def test_log_entry(clean):
    clean.machine.clock.time = 12_345_678_901
    clean.write("  p:a-b   vfs_read    x=%di ")
    assert clean.ts.err_log.text() == (
        "[   12.345678] trace_kprobe: error: Event name must follow the same rules "
        "as C identifiers\n"
        "  Command: p:a-b vfs_read x=%di\n"
        "             ^\n"
    )


def test_words_and_names():
    assert argv_split("\tp:a\xa0vfs_read\x0b\x0cx=1 ") == ["p:a", "vfs_read", "x=1"]
    assert argv_split(" \n") == []
    assert is_good_name("_a9")
    assert not is_good_name("")
    assert not is_good_name("a-b")
    assert is_good_system_name("-a-b")
    assert not is_good_system_name("9a")
