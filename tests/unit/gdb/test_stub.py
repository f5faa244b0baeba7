# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands of gdb over a kernel that is made by hand.

Tests kpfs.gdb.description, kpfs.gdb.points, kpfs.gdb.files and kpfs.gdb.monitor.
"""

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kpfs.emulator.stops import Stop, StopReason
from kpfs.gdb.files import VMLINUX
from kpfs.gdb.stub import Stub, StubReply, Then
from tests.there import stand_in
from tests.unit.gdb.fakes import PHYSICAL_AT, FakeDebugged


@pytest.fixture
def debugged():
    return FakeDebugged()


@pytest.fixture
def stub(debugged):
    return Stub(debugged)


@pytest.fixture
def ask(stub):
    return lambda packet: stub.receive(packet).text


def number_of(stub, name):
    return [register.name for register in stub._registers].index(name)


# ---- what it is
def test_the_description_names_the_registers_of_g_in_their_order(stub, ask):
    text = ask(b"qXfer:features:read:target.xml:0,ffff")
    assert text[:1] == b"l"
    rows = ET.fromstring(text[1:].split(b"?>")[1].split(b">", 1)[1]).iter("reg")
    sizes = [int(row.get("bitsize", "0")) // 8 for row in rows]
    assert len(ask(b"g")) == 2 * sum(sizes)


def test_long_texts_come_in_pieces(ask):
    whole = ask(b"qXfer:features:read:target.xml:0,ffff")[1:]
    found, more = b"", b"m"
    while more == b"m":
        piece = ask(b"qXfer:features:read:target.xml:%x,40" % len(found))
        more, found = piece[:1], found + piece[1:]
    assert found == whole
    assert ask(b"qXfer:features:read:target.xml:%x,40" % (len(whole) + 1)) == b"E16"
    assert ask(b"qXfer:features:read:other.xml:0,40") == b"E00"


def test_threads_are_listed_with_their_names(ask):
    text = ask(b"qXfer:threads:read::0,ffff")
    rows = ET.fromstring(text[1:]).iter("thread")
    found = [(row.get("id"), row.get("core"), row.get("name")) for row in rows]
    assert found == [
        ("1", "0", "CPU 0: cat/77"),
        ("2", "1", "CPU 1: idle"),
        ("3ed", None, 'a<"&?/5'),
    ]
    assert ask(b"qfThreadInfo") == b"m1,2,3ed"
    assert ask(b"qsThreadInfo") == b"l"
    assert bytes.fromhex(ask(b"qThreadExtraInfo,2").decode()) == b"CPU 1: idle"
    assert [ask(b"T" + number) for number in (b"2", b"9")] == [b"OK", b"E03"]


# ---- registers
def test_unknown_registers_have_no_value(stub, ask):
    rax, cr3 = number_of(stub, "rax"), number_of(stub, "cr3")
    assert ask(b"p%x" % rax) == b"0100000000000000"
    assert ask(b"p%x" % cr3) == b"x" * 16
    assert ask(b"g")[:16] == b"0100000000000000"
    assert ask(b"p200") == b"E16"


def test_registers_are_those_of_the_thread_that_was_chosen(stub, ask):
    rax, rip = number_of(stub, "rax"), number_of(stub, "rip")
    assert ask(b"Hg2") == b"OK"
    assert ask(b"p%x" % rax) == b"0200000000000000"
    assert ask(b"Hg3ed") == b"OK"
    assert ask(b"p%x" % rip) == b"3412000000000000"
    assert ask(b"P%x=0000000000000000" % rip) == b"E16"
    assert ask(b"Hg9") == b"E03"
    assert ask(b"Hx1") == b"E03"


def test_registers_are_written(stub, ask, debugged):
    rax = number_of(stub, "rax")
    assert ask(b"P%x=ff00000000000000" % rax) == b"OK"
    assert debugged.known[0]["rax"] == 0xFF
    assert ask(b"p%x" % rax) == b"ff00000000000000"
    assert ask(b"P%x=ff" % rax) == b"E16"
    whole = ask(b"g").replace(b"x", b"0")
    assert ask(b"G" + b"2a" + whole[2:]) == b"OK"
    assert debugged.known[0] == {"rax": 0x2A, "rip": 0x1010, "gs_base": 7, "eflags": 2}
    assert ask(b"G00") == b"E16"


# ---- memory
def test_memory_is_read_up_to_where_it_ends(ask):
    assert ask(b"m1000,4") == b"00010203"
    assert ask(b"x1000,4") == b"b\0\1\2\3"
    assert len(ask(b"m2ff0,40")) == 32
    assert ask(b"m3000,4") == b"E0e"
    assert ask(b"mfffffffffffffffffff,1") == b"E0e"
    assert ask(b"m1000,0") == b""


def test_memory_is_written_all_or_nothing(ask, debugged):
    assert ask(b"M1000,2:abcd") == b"OK"
    assert ask(b"X1002,3:$#}") == b"OK"
    assert debugged.memory[:5] == b"\xab\xcd$#}"
    assert ask(b"M2fff,2:abcd") == b"E0e"
    assert debugged.memory[-1] == 255
    assert ask(b"M1000,3:abcd") == b"E16"
    assert ask(b"X1000,0:") == b"OK"


# ---- stops
def test_breakpoints_are_hooks(ask, debugged):
    assert ask(b"Z0,1234,1") == b"OK"
    assert ask(b"Z1,1234,1") == b"OK"
    assert debugged.stops.places == {0x1234}
    assert ask(b"z0,1234,1") == b"OK"
    assert ask(b"z0,1234,1") == b"OK"
    assert not debugged.stops.places
    assert ask(b"Z9,1234,1") == b""
    assert ask(b"Z0,10000000000000000,1") == b"E16"
    assert ask(b"Z0,1234") == b"E16"


def test_conditions_are_evaluated_where_the_kernel_stands(stub, ask, debugged):
    """rax == 1, and a word of memory that is not there."""
    equal, missing = b"260000220113" + b"27", b"22001a27"
    assert b";ConditionalBreakpoints+" in ask(b"qSupported:swbreak+")
    assert ask(b"Z0,1010,1;X7,%s" % equal) == b"OK"
    stop = Stop(StopReason.PLACE, 0x1010)
    assert not stub.passes(stop)
    debugged.known[0]["rax"] = 5
    assert stub.passes(stop)
    # a step that ends there is a step
    stub.receive(b"vCont;s:1")
    assert not stub.passes(stop)
    assert stub.stopped(stop) == b"T05thread:1;"
    assert ask(b"Z0,1010,1;X7,%sX4,%s" % (equal, missing)) == b"OK"
    assert not stub.passes(stop)
    assert stub.stopped(stop) == b"T05thread:1;swbreak:;"
    assert ask(b"Z0,1010,1") == b"OK"
    assert not stub.passes(stop)


def test_watchpoints_are_of_physical_memory_page_by_page(stub, ask, debugged):
    assert ask(b"Z2,1ffc,8") == b"OK"
    assert list(debugged.stops.watches.values()) == [
        (PHYSICAL_AT + 0xFFC, PHYSICAL_AT + 0xFFF, False, True),
        (PHYSICAL_AT + 0x1000, PHYSICAL_AT + 0x1003, False, True),
    ]
    second = list(debugged.stops.watches)[1]
    told = stub.stopped(Stop(StopReason.ACCESS, 0x1010, second, PHYSICAL_AT + 0x1002))
    assert told == b"T05thread:1;watch:2002;"
    assert ask(b"z2,1ffc,8") == b"OK"
    assert not debugged.stops.watches
    assert ask(b"Z3,2ffc,8") == b"E0e"
    assert not debugged.stops.watches
    assert ask(b"Z4,1000,0") == b"E16"


def test_a_breakpoint_is_told_of_to_a_gdb_that_understands(stub, ask):
    stop = Stop(StopReason.PLACE, 0x1010)
    assert stub.stopped(stop) == b"T05thread:1;"
    assert b"swbreak+" in ask(b"qSupported:multiprocess+;swbreak+;xmlRegisters=i386")
    assert stub.stopped(stop) == b"T05thread:1;swbreak:;"
    assert ask(b"?") == b"T05thread:1;swbreak:;"
    assert stub.stopped(None) == b"T02thread:1;"


def test_a_step_is_of_one_processor(stub, debugged):
    assert stub.receive(b"vCont;s:2;c") == StubReply(None, Then.RUN)
    assert debugged.stops.stepping
    step = Stop(StopReason.STEP, 0x1014)
    assert stub.passes(step)  # it is the other processor's
    debugged.current = 1
    assert not stub.passes(step)
    assert stub.stopped(step) == b"T05thread:2;"
    assert not debugged.stops.stepping


def test_a_step_over_a_range_ends_outside(stub):
    assert stub.receive(b"vCont;r1010,1020:1;c").then is Then.RUN
    assert stub.passes(Stop(StopReason.STEP, 0x101F))
    assert not stub.passes(Stop(StopReason.STEP, 0x1020))
    assert not stub.passes(Stop(StopReason.PLACE, 0x1014))


def test_going_on(stub, debugged):
    assert stub.receive(b"c").then is Then.RUN
    assert stub.receive(b"c1020").then is Then.RUN
    assert debugged.known[0]["rip"] == 0x1020
    assert stub.receive(b"C05;1030").then is Then.RUN
    assert debugged.known[0]["rip"] == 0x1030
    assert stub.receive(b"vCont;C05:1;c").then is Then.RUN
    assert not debugged.stops.stepping
    assert stub.receive(b"s").then is Then.RUN
    assert stub.receive(b"vCont?").text.startswith(b"vCont;c;C;s;S")
    # a sleeping task cannot be stepped
    assert stub.receive(b"vCont;s:3ed") == StubReply(b"E03")
    assert stub.receive(b"vCont;x") == StubReply(b"E16")


def test_nobody_kills_the_kernel(stub):
    assert stub.receive(b"vKill;1") == StubReply(b"E01")
    assert stub.receive(b"k") == StubReply(None, Then.LEAVE)
    assert stub.receive(b"D") == StubReply(b"OK", Then.LEAVE)


def test_all_is_taken_away_at_the_end(stub, ask, debugged):
    ask(b"Z0,1234,1")
    ask(b"Z2,1000,8")
    stub.release()
    assert not debugged.stops.places
    assert not debugged.stops.watches


def test_breakpoints_follow_to_another_machine(stub, ask, debugged):
    ask(b"Z0,1234,1")
    ask(b"Z2,1ffc,8")
    debugged.stops = type(debugged.stops)()
    stub.replaced()
    assert debugged.stops.places == {0x1234}
    assert len(debugged.stops.watches) == 2


# ---- the rest
def test_the_kernel_s_file_is_read(ask, debugged):
    assert ask(b"qXfer:exec-file:read:1:0,100") == b"l" + VMLINUX
    assert ask(b"vFile:setfs:0") == b"F0"
    assert ask(b"vFile:pread:3,10,0") == b"F-1,9"
    assert ask(b"vFile:open:%s,0,0" % b"/etc/passwd".hex().encode()) == b"F-1,2"
    assert ask(b"vFile:open:%s,0,0" % VMLINUX.hex().encode()) == b"F3"
    assert ask(b"vFile:pread:3,10,0") == b"F10;" + debugged.vmlinux()[:16]
    assert ask(b"vFile:pread:3,10,c4") == b"F8;" + bytes(8)
    assert ask(b"vFile:fstat:3").startswith(b"F40;")
    assert ask(b"vFile:close:3") == b"F0"
    assert ask(b"vFile:unlink:2f") in (b"", b"E16", b"F-1,9")


def test_files_of_modules_are_read(ask):
    own, foreign = (b"/modules/%s.ko" % name for name in (b"own", b"foreign"))
    assert ask(b"vFile:open:%s,0,0" % own.hex().encode()) == b"F3"
    assert ask(b"vFile:pread:3,100,0") == b"Fb;\x7fELF of own"
    assert ask(b"vFile:open:%s,0,0" % foreign.hex().encode()) == b"F-1,2"


@pytest.fixture
def monitor(ask):
    def monitor(line):
        reply = ask(b"qRcmd," + line.hex().encode())
        return reply if reply == b"OK" else bytes.fromhex(reply.decode()).decode()

    return monitor


def test_a_snapshot_is_gone_back_to(stub, ask, debugged, monitor):
    assert "something runs" in monitor(b"snapshot")
    stub.monitor.at_rest = True
    assert monitor(b"restore") == "there is no snapshot\n"
    assert monitor(b"snapshot") == "it is kept\n"
    for _ in range(2):
        assert ask(b"M1000,2:abcd") == b"OK"
        assert monitor(b"restore") == "the kernel is what it was then\n"
        assert debugged.memory[:2] == b"\0\1"


@pytest.mark.parametrize(
    ("packet", "writes"),
    [
        (b"M1000,1:ff", True),
        (b"X1000,1:a", True),
        (b"P10=0807060504030201", True),
        (b"c1000", True),
        (b"s1000", True),
        (b"m1000,1", False),
        (b"X1000,0:", False),  # by which gdb asks whether there is X
        (b"g", False),
        (b"p10", False),
        (b"Z0,1000,1", False),
        (b"c", False),
        (b"vCont;s:1", False),
    ],
)
def test_what_writes_is_known(stub, ask, packet, writes):
    ask(packet)
    assert stub.has_written == writes


def test_monitor(stub, monitor):
    assert monitor(b"say") == "so\n"
    assert monitor(b"refuse") == "refuse: ENOMEM: no room\n"
    assert "says so" in monitor(b"help")
    assert monitor(b"modules").splitlines() == [
        "own target:/modules/own.ko .text=0x1100 .data=0x1200",
        "foreign - .text=0x1300",
    ]
    assert "something runs" in monitor(b"begin")
    stub.monitor.at_rest = True
    assert monitor(b"begin") == "begun\n"
    assert "no such command" in monitor(b"nothing at all")


@settings(deadline=None)  # how busy the machine is does not matter
@given(st.binary(max_size=60))
def test_every_packet_has_an_answer(packet):
    reply = Stub(stand_in(FakeDebugged())).receive(packet)
    assert reply.text is not None or reply.then is not Then.STAY


@settings(deadline=None)  # how busy the machine is does not matter
@given(
    st.sampled_from(
        b"g G p P m M x X H T Z0, Z2, z c C s vCont; vFile:pread: vFile:open: "
        b"qXfer:threads:read: qXfer:features:read:target.xml: qRcmd, qThreadExtraInfo, "
        b"qSupported".split()
    ),
    st.text("0123456789abcdef,:;=-", max_size=30),
)
def test_every_command_with_bad_operands_has_an_answer(command, operands):
    debugged = FakeDebugged()
    reply = Stub(stand_in(debugged)).receive(command + operands.encode())
    assert reply.text is not None or reply.then is not Then.STAY
