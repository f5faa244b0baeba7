# SPDX-License-Identifier: GPL-2.0-or-later
"""The grammar of probe definitions: what is refused, and how that is said.

This also tests kpfs.engine.trace.errlog.
"""

import pytest

from kpfs.engine.trace.event.trace_event import TraceEvent
from kpfs.engine.trace.words import argv_split, is_good_name, is_good_system_name
from tests.unit.engine.trace.catalogue import CATALOGUE
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


def check(trace, command, errno, *entries):
    assert trace.write(command) == errno
    assert trace.errors() == [f"{text} @ {at} in {command}" for text, at in entries]


@pytest.mark.parametrize(("command", "errno", "text", "column"), CATALOGUE)
def test_catalogue(clean, command, errno, text, column):
    check(clean, command, errno, *([(text, column)] if text else []))


ADDRESS = "Invalid probed address or symbol"
ENTRY = "Retprobe address must be an function entry"
SUFFIX = "Invalid probed address suffix"
EVENT_NAME = "Event name must follow the same rules as C identifiers"
GROUP_NAME = "Group name must follow the same rules as C identifiers"


@pytest.mark.parametrize(
    ("command", "errno", "text", "column"),
    [
        ("p:a vfs_read+0x7fffffff", "ENOENT", ADDRESS, 4),
        ("p:a vfs_read+4294967296", "EINVAL", ADDRESS, 4),
        ("p:a vfs_read+4294967295", "ENOENT", ADDRESS, 4),
        ("p:a vfs_read+", "EINVAL", ADDRESS, 4),
        ("p:a vfs_read+5x", "EINVAL", ADDRESS, 4),
        ("p:a vfs_read+5+5", "EINVAL", ADDRESS, 4),
        ("p:a -5", "EINVAL", ADDRESS, 4),
        ("p:a 99999999999999999999", "ENOENT", ADDRESS, 4),
        ("p:a 0x1000+5", "ENOENT", ADDRESS, 4),
        ("p:a 0", "EINVAL", "Failed to register probe event", 4),
        ("p:a vfs_read%", "EINVAL", SUFFIX, 12),
        ("r:a vfs_read+5", "EINVAL", ENTRY, 4),
        ("p:a linux_banner", "EINVAL", "Failed to register probe event", 4),
        ("r:a linux_banner", "EINVAL", "Failed to register probe event", 4),
        ("p:a plain", "EINVAL", "Failed to register probe event", 4),
        ("p:e twice", "EADDRNOTAVAIL", "The symbol is not unique", 4),
        ("p:e twice+5", "EADDRNOTAVAIL", "The symbol is not unique", 4),
        ("p:1a vfs_read", "EINVAL", EVENT_NAME, 2),
        ("p:1g/a vfs_read", "EINVAL", GROUP_NAME, 2),
        ("p:g/1a vfs_read", "EINVAL", EVENT_NAME, 4),
        ("p:g/a/b vfs_read", "EINVAL", EVENT_NAME, 4),
        ("p:.a vfs_read", "EINVAL", "Group name is not specified", 2),
        ("p:/a vfs_read", "EINVAL", "Group name is not specified", 2),
        ("p: vfs_read", "EINVAL", "Event name is not specified", 2),
        ("p:\xc3\xa9 vfs_read", "EINVAL", EVENT_NAME, 2),
        (f"p:{'a' * 64} vfs_read", "EINVAL", "Event name is too long", 2),
        (f"p:{'g' * 64}/a vfs_read", "EINVAL", "Group name is too long", 2),
        ("p : a vfs_read", "EINVAL", "Invalid fetch argument", 4),
        ("r4097:d vfs_read", "EINVAL", "Maxactive is too big", 1),
        ("r0x:e vfs_read", "EINVAL", "Invalid maxactive number", 1),
        ("r99999999999:l vfs_read", "EINVAL", "Invalid maxactive number", 1),
        (f"r{'1' * 64} vfs_read", "EINVAL", "Invalid maxactive number", 1),
        ("p10:i vfs_read", "EINVAL", "Maxactive is not for kprobe", 1),
        # Linux forgets the u when it counts
        ("p:a vfs_read a=+u0(%zz)", "EINVAL", "Invalid register name", 18),
        ("p:a vfs_read a=-u8(%zz)", "EINVAL", "Invalid register name", 18),
        ("p:a vfs_read a=-8(%zz)", "EINVAL", "Invalid register name", 18),
        ("p:a vfs_read+5 x=$arg1", "EINVAL", "Invalid $-variable specified", 17),
        ("r:a vfs_read x=$arg1", "EINVAL", "Invalid $-variable specified", 15),
    ],
)
def test_refused(clean, command, errno, text, column):
    check(clean, command, errno, (text, column))


@pytest.mark.parametrize(
    "command",
    [
        "p:g-x/a vfs_read",
        "p:_a vfs_read",
        "p:g.a vfs_read",
        f"p:{'a' * 63} vfs_read",
        "pabc:e vfs_read",
        "r-1:k vfs_read",
        "p:a vfs_read x=++0(%di)",
        "p:a vfs_read x=+-8(%di)",
        "p:a vfs_read x=+0(%di)x",
        "p:a vfs_read x=+0(%di)[3]",
        "p:a vfs_read x=\\+5",
        "p:a vfs_read x=\\-1",
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


def test_log_keeps_the_last_eight(clean):
    for i in range(12):
        clean.write(f"p:a nosuch_{i}")
    commands = [e.rpartition("in ")[2] for e in clean.errors()]
    assert commands == [f"p:a nosuch_{i}" for i in range(4, 12)]


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
