# SPDX-License-Identifier: GPL-2.0-or-later
"""tracing/events: directories that come and go with the events."""

import os
from types import SimpleNamespace

import pytest

from kpfs.backends.guest.files.events import (
    AvailableEvents,
    EventsDir,
    GroupEnable,
    SetEvent,
)
from kpfs.engine.trace.event.event_file import parse_enable
from kpfs.engine.trace.event.trace_event import Events, TraceEvent
from kpfs.fs.node import walk
from tests.there import code, dir_at, file_at
from tests.unit.fakes import FakeKernel


class Event(TraceEvent):
    enabled = False

    def reg(self, enable):
        pass

    def fields(self):
        return ()

    def print_fmt(self):
        return '"", 0'


@pytest.fixture
def kernel():
    kernel = FakeKernel()
    events = Events()

    def enable_store(event, data):
        event.enabled = parse_enable(data)

    array_events = SimpleNamespace(
        enable_store=enable_store,
        file=lambda event: SimpleNamespace(
            enable_text=lambda: f"{int(event.enabled)}\n"
        ),
        group_enable_text=lambda group: f"{group}\n",
        group_enable_store=lambda group, data: kernel.calls.append((group, data)),
        group_filter_store=lambda group, data: kernel.calls.append((group, data)),
        set_event_text=lambda: "set\n",
        set_event_store=lambda data: 2,
        set_event_clear=lambda: kernel.calls.append("clear"),
        available_events_text=lambda: "available\n",
    )
    kernel.trace = SimpleNamespace(
        events=events, array_events=array_events, removed=False
    )
    return kernel


@pytest.fixture
def root(kernel):
    directory = EventsDir(kernel)
    directory.children["enable"] = GroupEnable(kernel)
    return directory


def test_groups_live_as_long_as_their_events(kernel, root):
    assert list(root.names()) == ["enable"]
    assert code(walk, root, "/kprobes") == "ENOENT"
    event = Event("kprobes", "e")
    kernel.trace.events.add(event)
    assert list(root.names()) == ["enable", "kprobes"]
    assert list(dir_at(root, "/kprobes").names()) == ["enable", "filter", "e"]
    assert {"enable", "format", "id"} <= set(dir_at(root, "/kprobes/e").names())
    assert walk(root, "/kprobes/e/id").mode == 0o100440
    assert walk(root, "/kprobes/e/enable").mode == 0o100640
    kernel.trace.events.remove(event)
    assert code(walk, root, "/kprobes") == "ENOENT"


def test_attributes_stick_until_the_event_goes(kernel, root):
    event = Event("kprobes", "e")
    kernel.trace.events.add(event)
    walk(root, "/kprobes/e/id").chmod(0o600)
    walk(root, "/kprobes").chmod(0o700)
    assert walk(root, "/kprobes/e/id").mode == 0o100600
    assert walk(root, "/kprobes").mode == 0o40700
    kernel.trace.events.remove(event)
    kernel.trace.events.add(Event("kprobes", "e"))
    assert walk(root, "/kprobes/e/id").mode == 0o100440


def test_files_of_an_event(kernel, root):
    event = Event("g", "e")
    kernel.trace.events.add(event)
    enable = file_at(root, "/g/e/enable").open(os.O_RDWR)
    assert enable.read(10, 0) == b"0\n"
    assert enable.write(b"01\n", 5) == 3
    assert event.enabled
    assert enable.read(10, 0) == b"1\n"
    assert code(enable.write, b"2", 0) == "EINVAL"
    assert file_at(root, "/g/e/id").show() == f"{event.id}\n"
    assert f"ID: {event.id}\n" in file_at(root, "/g/e/format").show()
    assert code(file_at(root, "/g/e/id").open(os.O_WRONLY).write, b"1", 0) == "EINVAL"


def test_an_open_file_of_a_deleted_event(kernel, root):
    event = Event("g", "e")
    kernel.trace.events.add(event)
    handles = [
        file_at(root, f"/g/e/{name}").open(os.O_RDONLY)
        for name in ("enable", "id", "format")
    ]
    kernel.trace.events.remove(event)
    for handle in handles:
        assert code(handle.read, 10, 0) == "ENODEV"


def test_enable_of_groups(kernel, root):
    kernel.trace.events.add(Event("g", "e"))
    assert file_at(root, "/enable").show() == "None\n"
    assert file_at(root, "/g/enable").show() == "g\n"
    file_at(root, "/g/enable").store(b"1")
    file_at(root, "/g/filter").store(b"x > 5")
    assert kernel.calls == [("g", b"1"), ("g", b"x > 5")]
    handle = file_at(root, "/g/filter").open(os.O_RDONLY)
    assert handle.read(10, 0) == b"### global"
    assert handle.read(10, 10) == b""


def test_events_of_ftrace_are_only_described(kernel, root):
    event = Event("ftrace", "print")
    event.ignore_enable = True
    kernel.trace.events.add(event)
    assert list(dir_at(root, "/ftrace").names()) == ["print"]
    assert list(dir_at(root, "/ftrace/print").names()) == ["id", "format"]


def test_an_event_named_like_a_file_of_its_group(kernel, root):
    kernel.trace.events.add(Event("g", "enable"))
    assert isinstance(walk(root, "/g/enable"), GroupEnable)


def test_set_event(kernel):
    file = SetEvent(kernel)
    assert file.open(os.O_RDWR).write(b"a b", 0) == 2
    assert kernel.calls == []
    file.open(os.O_WRONLY | os.O_TRUNC)
    assert kernel.calls == ["clear"]
    assert file.show() == "set\n"
    assert AvailableEvents(kernel).show() == "available\n"
