# SPDX-License-Identifier: GPL-2.0-or-later
"""Reading trace: which reader holds the lock, and what the text has.

This also tests kpfs.backends.guest.files.text_handle.
"""

import os
import threading

import pytest

from kpfs.backends.guest.tree import build
from kpfs.backends.guest.vfs import Vfs
from kpfs.base.ktypes import Caller
from kpfs.engine.trace.text.lines import Lines

pytestmark = pytest.mark.guest
ME, OTHER = Caller(4711, 0, 0), Caller(4712, 0, 0)
TRACE = "/tracing/trace"


class Files:
    """Files of a whole kernel, used by one task."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.vfs = Vfs(kernel, build(kernel))

    def write(self, path, text, flags=os.O_WRONLY, caller=ME):
        opened = self.vfs.open(caller, path, flags)
        self.vfs.write(caller, opened, text.encode(), 0)
        self.vfs.release(opened)

    def open(self, path=TRACE):
        return self.vfs.open(ME, path, os.O_RDONLY)

    def read(self, opened, size, offset):
        return self.vfs.read(ME, opened, size, offset).decode()

    def whole(self, path=TRACE, size=65536):
        opened, text = self.open(path), ""
        while piece := self.read(opened, size, len(text)):
            text += piece
        self.vfs.release(opened)
        return text

    def mark(self, count, name="m", caller=ME):
        for i in range(count):
            self.write("/tracing/trace_marker", f"{name}{i}\n", caller=caller)


@pytest.fixture
def files(kernel):
    return Files(kernel)


@pytest.fixture
def free(files, monkeypatch):
    """For each line that is made: True if somebody else can have the lock meanwhile."""
    free, make = [], Lines.parts

    def parts(*args):
        def try_it():
            with files.kernel.lock:
                free.append(True)

        before = len(free)
        other = threading.Thread(target=try_it, daemon=True)
        other.start()
        other.join(0.5)
        if len(free) == before:
            free.append(False)
        return make(*args)

    monkeypatch.setattr(Lines, "parts", parts)
    return free


def test_text_is_made_without_the_lock(files, free):
    """Somebody else gets the lock while a line is made."""
    files.mark(50)
    text = files.whole(size=2048)
    assert text.count("m") >= 50
    assert free == [True] * len(free)
    assert len(free) >= 50


def test_text_of_new_records_is_made_without_the_lock(files, free):
    opened = files.open()
    text = files.read(opened, 65536, 0)
    free.clear()
    files.mark(9, "new-", OTHER)
    assert files.read(opened, 65536, len(text)).count("new-") == 9
    assert free == [True] * len(free)
    files.vfs.release(opened)


def test_text_of_trace_pipe_is_made_without_the_lock(files, free):
    files.mark(50)
    opened = files.vfs.open(ME, "/tracing/trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
    text = files.read(opened, 65536, 0)
    assert text.count("m") >= 50
    assert free == [True] * len(free)
    assert len(free) >= 50
    files.vfs.release(opened)


def test_text_for_a_blocked_reader_is_made_without_the_lock(files, free):
    files.kernel.background.start()
    opened = files.vfs.open(ME, "/tracing/trace_pipe", os.O_RDONLY)
    read = []
    reader = threading.Thread(
        target=lambda: read.append(files.read(opened, 65536, 0)), daemon=True
    )
    reader.start()
    while not files.kernel.background._waiting:
        pass
    with files.kernel.lock:
        files.mark(9)
    reader.join(10)
    assert read[0].count("m") >= 9
    assert free == [True] * len(free)
    files.vfs.release(opened)


def test_reader_behind_other_writers_comes_to_the_end(files):
    opened = files.open()
    text, rounds = files.read(opened, 65536, 0), 0
    while True:
        files.mark(1, caller=OTHER)
        piece = files.read(opened, 65536, len(text))
        if not piece:
            break
        text, rounds = text + piece, rounds + 1
        assert rounds < 50
    # and may read on
    assert "m0" in files.read(opened, 65536, len(text))
    files.vfs.release(opened)


@pytest.mark.parametrize("size", [10, 1000, 4096, 1 << 20])
def test_pieces_of_any_size_make_the_same_text(files, size):
    files.mark(60)
    assert files.whole(size=size) == files.whole()


def test_a_reader_sees_the_hits_of_its_own_read(files):
    files.write("/tracing/kprobe_events", "p:own ksys_read\n")
    files.write("/tracing/events/kprobes/own/enable", "1")
    opened = files.open()
    text = files.read(opened, 65536, 0)
    assert "entries-in-buffer/entries-written: 1/1 " in text
    assert text.count(" own: ") == 1
    # it comes to the end nevertheless, and reads on if it wants to
    assert files.read(opened, 65536, len(text)) == ""
    more = files.read(opened, 65536, len(text))
    assert more.count(" own: ") == 2
    files.vfs.release(opened)


def test_a_read_at_any_offset_gives_what_is_there(files):
    files.mark(40)
    whole = files.whole()
    opened = files.open()
    for offset in (700, 3, 0, len(whole) - 5, len(whole) + 5, 1500, 1600):
        assert files.read(opened, 100, offset) == whole[offset : offset + 100]
    files.vfs.release(opened)


def test_two_threads_that_read_one_open_file(files):
    files.mark(200)
    whole = files.whole()
    opened = files.open()
    wrong = []

    def read(offset):
        for _ in range(20):
            if files.read(opened, 300, offset) != whole[offset : offset + 300]:
                wrong.append(offset)

    threads = [threading.Thread(target=read, args=(n * 1000,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    files.vfs.release(opened)


def test_prepared_text_is_dropped_when_the_trace_is_cleared(files):
    files.mark(9, "old")
    opened = files.open()
    opened.handle.prepare(65536, 0)
    files.write(TRACE, "\n", os.O_WRONLY | os.O_TRUNC)
    files.mark(1, "new")
    with files.kernel.lock:
        text = opened.handle.read(65536, 0).decode()
    assert "old" not in text
    assert "new0" in text
    files.vfs.release(opened)


def test_many_readers_of_a_full_buffer_keep_little(files):
    files.write("/tracing/buffer_size_kb", "1024")
    files.write(
        "/tracing/kprobe_events", "".join(f"p:e{i} ksys_write\n" for i in range(9))
    )
    files.write("/tracing/events/kprobes/enable", "1")
    files.mark(3000)
    files.write("/tracing/events/kprobes/enable", "0")
    opened = [files.open() for _ in range(20)]
    for one in opened:
        assert len(files.read(one, 4096, 0)) == 4096
        handle = one.handle
        assert handle.iterator._text.size < 4096
        assert handle.prepared is None
    for one in opened:
        files.vfs.release(one)
