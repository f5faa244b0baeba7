# SPDX-License-Identifier: GPL-2.0-or-later
"""One event in several trace arrays."""

import contextlib
import errno
import random

import pytest

from kpfs.base.errors import KernelError
from kpfs.engine.kprobe import kprobe_disabled


def armed(trace, name):
    (tk,) = trace.event(name).probes
    return not kprobe_disabled(tk.rp.kp)


def test_an_event_is_armed_as_long_as_an_array_has_it_on(trace):
    trace.write("p:a vfs_read")
    event, instance = trace.event("a"), trace.ts.mkdir("i")
    trace.on("a")
    instance.array_events.enable_store(event, b"1")
    assert event.arrays_on == 2
    trace.off("a")
    assert (event.tracing, armed(trace, "a")) == (True, True)
    instance.array_events.enable_store(event, b"0")
    assert (event.tracing, armed(trace, "a")) == (False, False)


def test_unarmed_event_is_off(trace):
    trace.write("p:a vfs_read")
    trace.arch.fail["ftrace.arm"] = errno.EBUSY
    with pytest.raises(KernelError):
        trace.on("a")
    assert (trace.event("a").tracing, trace.file("a").enabled) == (False, False)
    trace.arch.fail.clear()
    trace.on("a")
    assert armed(trace, "a")


def test_an_instance_takes_its_triggers_with_it(trace):
    trace.write("p:a vfs_read\np:b vfs_write")
    instance = trace.ts.mkdir("i")
    a, b = (instance.find_event_file("kprobes", name) for name in "ab")
    trace.ts.triggers.store(a, b"enable_event:kprobes:b")
    assert b.enable_text() == "0*\n"
    assert (armed(trace, "a"), armed(trace, "b"), b.event.refcnt) == (True, True, 1)
    trace.ts.rmdir("i")
    assert (armed(trace, "a"), armed(trace, "b"), b.event.refcnt) == (False, False, 0)
    assert instance.array_events.files() == []
    assert trace.write("-:a\n-:b") == ""


@pytest.mark.parametrize("seed", range(3))
def test_guest_code_finds_each_array_that_has_the_event_on(trace, seed):
    """Files that have not changed are left as they are, whatever else changes."""
    trace.write("p:a vfs_read")
    event, rng = trace.event("a"), random.Random(seed)
    arrays = [trace.ts, *(trace.ts.mkdir(f"i{n}") for n in range(5))]
    files = [array.find_event_file("kprobes", "a") for array in arrays]
    (guest,) = event.guest_events()
    for _ in range(200):
        array, file = rng.choice([*zip(arrays, files, strict=True)])
        if rng.random() < 0.7:
            array.array_events.enable_store(event, rng.choice((b"0", b"1")))
        elif rng.random() < 0.5:
            wanted = rng.choice((b"0", b"common_pid > 1"))
            array.array_events.filter_store(event, wanted)
        else:
            with contextlib.suppress(KernelError):  # there is one already, or none
                wanted = rng.choice((b"stacktrace", b"!stacktrace"))
                trace.ts.triggers.store(file, wanted)
        on = [file for file in files if file.enabled]
        at, found = guest.files, []
        while at:
            record = next(file.guest for file in on if file.guest.addr == at)
            words = record.array, record.filter, record.triggers, record.flags
            found.append(words)
            at = record.next
        assert found == [
            (f.array.guest.addr, f.filter_prog or 0, f.triggers, f.guest_flags())
            for f in on
            if guest.files
        ]
        assert guest.files or len(on) <= 1
