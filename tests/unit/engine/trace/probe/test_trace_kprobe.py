# SPDX-License-Identifier: GPL-2.0-or-later
"""Kprobe events: how they switch, and modules; recorded cases have what they show.

This also tests kpfs.engine.trace.probe.kprobe_event and
kpfs.engine.trace.probe.notrace.
"""

import errno
import gc
import re
import struct
import weakref

import pytest

from kpfs.base.abi import EVENT_RECORD, EVENT_RETURN
from kpfs.base.errors import KernelError
from kpfs.engine.kprobe import KprobeFlag, kprobe_disabled
from kpfs.engine.register import kprobes_module_callback
from kpfs.engine.runtime.records import KpEvent
from kpfs.engine.state import ModuleState
from tests.unit.engine.trace.fakes import Trace


def probe(trace, name="e"):
    return trace.ts.dyn_events.named(name)[0]


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("r:rr vfs_write $retval", "r10:kprobes/rr vfs_write arg1=$retval"),
        ("r4294967295:mx ksys_read", "r10:kprobes/mx ksys_read"),
        (f"p no:{'a' * 80}", f"p:kprobes/p_no_{'a' * 58} no:{'a' * 80}"),
    ],
)
def test_show(trace, command, line):
    assert trace.write(command) == ""
    assert trace.show() == line + "\n"


def test_address_is_shown_hashed(trace):
    addr = trace.machine.kallsyms.lookup_name("vfs_read")[0].addr
    assert trace.write(f"p {addr:#x}\nr:g {addr:#x}") == ""
    assert f"{addr:x}" not in trace.show()
    first, second = trace.show().splitlines()
    assert re.fullmatch(r"p:kprobes/p_(0x0{8}[0-9a-f]{8}) \1", first)
    assert re.fullmatch(r"r10:kprobes/g 0x0{8}[0-9a-f]{8}", second)
    place = first.split()[1]
    assert trace.write(f"-:g {place}") == ""


@pytest.mark.parametrize("addr", ["5", "+5", "010", "0xffffffffffffffff"])
def test_address_of_nothing_waits_forever(trace, addr):
    assert trace.write(f"p:a {addr}") == ""
    assert trace.st.kprobe_table == {}
    trace.on("a")
    assert trace.event("a").tracing


def test_return_probe_by_address_knows_no_retval(trace):
    addr = trace.machine.kallsyms.lookup_name("vfs_read")[0].addr
    assert trace.write(f"r:c {addr:#x} $retval") == "EINVAL"
    assert trace.errors()[0].startswith("$retval is not available on probe")


def test_argument_too_few_is_shown_behind_the_command(trace):
    trace.write("p:a vfs_read x=%di y=%si")
    assert trace.write("p:a vfs_write x=%di") == "EEXIST"
    assert "@ 20 in " in trace.errors()[0]


def test_failed_registration_leaves_nothing(trace):
    trace.machine.add_function("f")
    for command in ("p:a vfs_read+1", "p:a vfs_read x=%zz", "p:a f x=@nosuch"):
        assert trace.write(command)
    assert trace.show() == ""
    assert trace.ts.events.groups() == ["ftrace"]
    assert trace.ops.profile() == ""
    assert trace.st.kprobe_table == {}


def test_failed_sibling_leaves_the_event(trace):
    trace.write("p:a vfs_read")
    assert trace.write("p:a vfs_write+1") == "EILSEQ"
    assert trace.show() == "p:kprobes/a vfs_read\n"
    assert len(trace.event("a").probes) == 1


def test_enabling_switches_all_probes_and_records(trace):
    trace.write("p:m vfs_read\np:m vfs_write")
    event = trace.event("m")
    assert all(kprobe_disabled(tk.rp.kp) for tk in event.probes)
    trace.on("m")
    assert not any(kprobe_disabled(tk.rp.kp) for tk in event.probes)
    assert [tk.guest.flags for tk in event.probes] == [EVENT_RECORD] * 2
    trace.write("p:m ksys_read")
    assert not kprobe_disabled(event.probes[2].rp.kp)
    assert event.probes[2].guest.flags == EVENT_RECORD
    trace.off("m")
    assert all(kprobe_disabled(tk.rp.kp) for tk in event.probes)
    assert [tk.guest.flags for tk in event.probes] == [0] * 3


def test_first_enabling_gives_the_buffers_their_size(trace):
    trace.write("p:e vfs_read")
    assert trace.ts.ring.cpus[0].nr_pages == 2
    trace.on("e")
    assert trace.ts.ring.cpus[0].nr_pages == 354


def test_words_for_guest_code(trace):
    trace.write("p:e vfs_read a=%di:u8 b=+0(%si):string\nr:r vfs_read")
    e, r = probe(trace), probe(trace, "r")
    assert (e.guest.type, e.guest.size) == (trace.event("e").id, 16 + 1 + 4)
    assert e.guest.prog == e.prog
    assert e.rp.kp.data == e.guest.addr
    assert (r.guest.size, r.guest.prog, r.guest.flags) == (24, 0, EVENT_RETURN)
    assert r.rp.guest_data == r.guest.addr


def test_failure_to_enable_one_undoes_all(trace):
    trace.write("p:m vfs_read\np:m vfs_write+5\np:m ksys_read")
    trace.arch.fail["arch_arm_kprobe"] = errno.EBUSY
    with pytest.raises(KernelError):
        trace.on("m")
    event = trace.event("m")
    assert not event.tracing
    assert not event.tracing
    assert all(kprobe_disabled(tk.rp.kp) for tk in event.probes)
    assert trace.machine.patched() == []


def test_profile(trace):
    trace.write("p:e vfs_read\nr:r vfs_read")
    probe(trace).guest.nhit = 12
    kp = probe(trace, "r").rp.kp
    trace.arch.handlers[kp.handler] = 2
    trace.arch.rethooks.there[probe(trace, "r").rp.addr] = 3
    assert trace.ops.profile() == (
        "  e                                                         12"
        "               0\n"
        "  r                                                          0"
        "               5\n"
    )


# ---- modules


def load(trace, *names):
    for name in names:
        trace.machine.add_function(name, module="mod")
    kprobes_module_callback(trace.st, ModuleState.COMING, "mod")
    trace.ops.module_coming("mod")


def unload(trace, *names):
    kprobes_module_callback(trace.st, ModuleState.GOING, "mod")
    trace.machine.remove_symbols(
        trace.machine.kallsyms.lookup_name(n)[0].addr for n in names
    )


def test_probe_waits_for_its_module(trace):
    assert trace.write("p:a mod:setup\np:b mod:nosuch\np:c mod:setup+1") == ""
    trace.on("a")
    assert trace.st.kprobe_table == {}
    load(trace, "setup")
    assert probe(trace, "a").registered
    assert not kprobe_disabled(probe(trace, "a").rp.kp)
    assert not probe(trace, "b").registered
    assert not probe(trace, "c").registered
    warnings = [text for level, text in trace.machine.log.lines if level == 4]
    assert "trace_kprobe: Failed to re-register probe b on mod: -2" in warnings
    assert "trace_kprobe: Failed to re-register probe c on mod: -84" in warnings


def test_no_such_symbol_in_a_loaded_module(trace):
    load(trace, "setup")
    assert trace.write("p:a mod:nosuch") == "ENOENT"
    assert trace.write("p:a mod:setup") == ""


def test_probe_of_a_module_that_goes_and_comes_again(trace):
    load(trace, "setup")
    trace.write("p:a mod:setup\np:b setup")
    trace.on("a")
    trace.on("b")
    unload(trace, "setup")
    assert probe(trace, "a").rp.kp.flags & KprobeFlag.GONE
    assert trace.show() == "p:kprobes/a mod:setup\np:kprobes/b setup\n"
    # switching is accepted and does nothing
    trace.off("a")
    trace.on("a")
    assert trace.write("-:a") == "EBUSY"
    load(trace, "setup")
    assert not probe(trace, "a").rp.kp.flags & KprobeFlag.GONE
    assert not kprobe_disabled(probe(trace, "a").rp.kp)


def test_many_events_are_made_and_deleted_fast():
    trace = Trace()
    for i in range(500):
        trace.machine.add_function(f"f{i}")
    lines = [f"p:e{i} f{i % 500}" for i in range(2000)]
    assert trace.write("\n".join(lines)) == ""
    assert trace.show().count("\n") == 2000
    assert trace.write("\n".join(f"-:e{i}" for i in range(2000))) == ""
    assert trace.show() == ""
    trace.machine.quiescence.quiesce()


def test_a_deleted_event_is_not_left_to_the_garbage_collector(trace):
    trace.write("p:e vfs_read\np:e vfs_open")
    event = weakref.ref(trace.event("e"))
    gc.disable()
    try:
        trace.write("-:e")
        assert event() is None
    finally:
        gc.enable()


def test_a_probe_that_joins_an_event_leaves_the_others_alone(trace, monkeypatch):
    """Each would be told anew of each: five thousand took half a minute."""
    trace.write("p:e vfs_read\n")
    trace.on("e")
    first = trace.event("e").probes[0].guest
    told, judge = [], KpEvent.judge

    def told_of(event):
        told.append(event)
        judge(event)

    monkeypatch.setattr(KpEvent, "judge", told_of)
    assert not trace.write("".join(f"p:e vfs_write+{6 + i}\n" for i in range(5)))
    assert first not in told
    probes = trace.event("e").probes
    assert len(probes) == 6
    assert {tk.guest.flags for tk in probes} == {first.flags}
    assert trace.write("p:e vfs_write+7\n") == "EEXIST"
    assert len(trace.event("e").probes) == 6
    trace.off("e")
    assert not trace.write("-:e vfs_write+7\n")
    assert not trace.write("p:e vfs_write+7\n")


def test_text_can_be_made_of_an_event_that_goes_meanwhile(trace):
    """The lines of trace are made without the lock."""
    trace.write("p:e vfs_read x=%di\n")
    trace.write("p:e vfs_write x=%di\n")
    event = trace.event("e")
    assert not trace.write("-:e\n")
    place = trace.machine.kallsyms.lookup_name("vfs_read")[0].addr
    record = struct.pack("<HBBiQQ", event.id, 0, 0, 7, place, 5)
    show = event.printer(lambda addr, _offset: f"{addr:#x}")
    assert show(memoryview(record), 0) == f"e: ({place:#x}) x=0x5\n"
