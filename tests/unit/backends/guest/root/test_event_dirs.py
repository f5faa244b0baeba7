# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest is told of the directories of events, at once or when it asks."""

from contextlib import contextmanager

import pytest

from kpfs.backends.guest.root.event_dirs import EventDirs
from kpfs.base import abi
from kpfs.engine.trace.event.trace_event import Change

CREATE, REMOVE, ASKING, UPDATE = 0x1000, 0x2000, 0x3000, 0x5000
FUNCTIONS = {
    "tracefs_create_dir": CREATE,
    "tracefs_remove": REMOVE,
    "update_event_dirs": UPDATE,
}
DIR = abi.KpfsTraceDir.STRUCT
ROOM = 3


class Guest:
    """Makes dentries 0x100, 0x101 ... and keeps what it was called with."""

    def __init__(self):
        self.calls = []
        self.batches = []
        self.updates = 0
        self.dirs = None
        self.memory: dict[int, bytes | bytearray] = {ASKING: bytes(ROOM * DIR.size)}
        self.last = 0xFF
        self.area = self
        self.note = None

    @contextmanager
    def put_off(self, note):
        self.note = note
        yield
        self.note = None

    def needed(self, name):
        return FUNCTIONS[name]

    def alloc_data(self, _size):
        return 0x4000

    def read_u64(self, at):
        return int.from_bytes(self.memory[ASKING][at - ASKING :][:8], "little")

    def write(self, at, data):
        self.memory[at] = data

    def view(self, at, size):
        self.memory[at] = bytearray(size)
        return memoryview(self.memory[at])

    def create(self, name, parent):
        self.calls.append(("create", name, parent))
        self.last += 1
        return self.last

    def call(self, function, *args):
        if function == UPDATE:
            self.updates += 1
            self.asks(self.dirs)
            return 0
        if function == REMOVE:
            self.calls.append(("remove", *args))
            return 0
        name, parent = args
        return self.create(self.memory[name].partition(b"\0")[0].decode(), parent)

    def asks(self, dirs):
        """Act as guest code does after a call that may have changed something."""
        while count := dirs.update(ASKING, ROOM):
            self.batches.append(count)
            rows = list(DIR.iter_unpack(self.memory[ASKING]))
            assert len(rows) == count <= ROOM
            self.memory[ASKING] = b"".join(map(self.acts, rows))

    def acts(self, row):
        """Do one thing, and return its structure with what came of it."""
        _, remove, parent, function, name = row
        made = 0
        if function:
            self.calls.append(("call", function))
        elif remove:
            self.calls.append(("remove", remove))
        else:
            made = self.create(name.partition(b"\0")[0].decode(), parent)
        return DIR.pack(made, 0, 0, 0, b"")


@pytest.fixture
def guest():
    return Guest()


CHANGES = [
    Change("g", "e", come=True, with_group=True),
    Change("g", "f", come=True, with_group=False),
    Change("g", "e", come=False, with_group=False),
    Change("g", "f", come=False, with_group=True),
]
COME_AND_GONE = [
    ("create", "g", 0),
    ("create", "e", 0x100),
    ("create", "f", 0x100),
    ("remove", 0x101),
    ("remove", 0x102),
    ("remove", 0x100),
]


def come_and_go(dirs):
    for change in CHANGES:
        dirs.changed([change])


def test_at_once(guest):
    come_and_go(EventDirs(guest))
    assert guest.calls == COME_AND_GONE


def test_update_when_the_guest_asks(guest):
    dirs = EventDirs(guest)
    with dirs.deferred():
        come_and_go(dirs)
        assert guest.calls == []
    guest.asks(dirs)
    assert guest.calls == COME_AND_GONE
    assert not dirs.update(ASKING, ROOM)


def test_functions_of_trace_points_are_put_off_as_well(guest):
    dirs = EventDirs(guest)
    with dirs.deferred():
        dirs.changed(CHANGES[:1])
        assert guest.note(0x7000) == 0
    assert guest.note is None
    guest.asks(dirs)
    assert guest.calls == [("call", 0x7000), *COME_AND_GONE[:2]]


def test_deferred_changes_are_made_before_the_next(guest):
    dirs = guest.dirs = EventDirs(guest)
    with dirs.deferred():
        dirs.changed(CHANGES[:1])
    dirs.changed(CHANGES[1:2])
    assert guest.calls == COME_AND_GONE[:3]
    guest.asks(dirs)
    assert guest.calls == COME_AND_GONE[:3]


def test_many_at_once_are_one_call_of_guest_code(guest):
    guest.dirs = EventDirs(guest)
    guest.dirs.changed(CHANGES)
    assert guest.calls == COME_AND_GONE
    assert guest.updates == 1
    # an event's directory waits for its group's, a removal for what it removes
    assert guest.batches == [1, 2, 3]


def test_things_are_told_of_as_many_at_once_as_there_is_room(guest):
    dirs = guest.dirs = EventDirs(guest)
    names = "abcde"
    dirs.changed([Change("g", each, come=True, with_group=False) for each in names])
    dirs.changed([Change("g", each, come=False, with_group=False) for each in names])
    assert guest.batches == [3, 2, 3, 2]
    assert guest.calls == [
        *(("create", each, 0) for each in names),
        *(("remove", 0x100 + number) for number in range(5)),
    ]
