# SPDX-License-Identifier: GPL-2.0-or-later
"""kallsyms and kmsg."""

import os
from types import SimpleNamespace

import pytest

from kpfs.backends.guest.files.proc import KallsymsFile, Kmsg
from kpfs.guest.running.klog import LogRecord
from tests.fake import FakeLog
from tests.there import code
from tests.unit.fakes import FakeKernel


class LogKernel(FakeKernel):
    """A kernel with records of a log."""

    def __init__(self):
        super().__init__()
        self.records: list[LogRecord] = []
        self.guest.log = RecordLog(self.records)
        self.background = self.follower = self

    def look(self):
        """Do nothing, as nobody follows this log."""


class RecordLog(FakeLog):
    def __init__(self, kept):
        super().__init__()
        self.kept = kept

    def records(self, since=0):
        return [r for r in self.kept if r.seq >= since]

    def next_seq(self):
        return self.kept[-1].seq + 1 if self.kept else 0


@pytest.fixture
def kernel():
    return LogKernel()


def test_kallsyms(kernel):
    addr = kernel.guest.kallsyms.lookup_name("vfs_read")[0].addr
    module = kernel.guest.add_function("setup", module="dummy")
    lines = KallsymsFile(kernel).show().splitlines()
    assert lines[0] == f"{addr:016x} T vfs_read"
    assert lines[-1] == f"{module:016x} T setup\t[dummy]"


def test_kmsg_gives_one_record_at_a_time(kernel):
    kernel.records += [
        LogRecord(7, 1_500_999, 0, 6, b"hello"),
        LogRecord(8, 2_000_000_000, 1, 4, b"a\\b\x07\xc3\xa4"),
    ]
    handle = Kmsg(kernel).open(os.O_RDONLY | os.O_NONBLOCK)
    assert handle.ready()
    assert handle.read(8192, 0) == b"6,7,1500,-;hello\n"
    assert handle.read(8192, 0) == b"12,8,2000000,-;a\\x5cb\\x07\\xc3\\xa4\n"
    assert not handle.ready()
    assert code(handle.read, 8192, 0) == "EAGAIN"
    kernel.records.append(LogRecord(9, 0, 0, 6, b"new"))
    assert handle.read(8192, 0) == b"6,9,0,-;new\n"


def test_kmsg_record_that_does_not_fit_is_lost(kernel):
    kernel.records += [LogRecord(n, 0, 0, 6, b"x" * 50) for n in (1, 2)]
    handle = Kmsg(kernel).open(os.O_RDONLY)
    assert code(handle.read, 10, 0) == "EINVAL"
    assert handle.read(100, 0).startswith(b"6,2,")


# what is written: facility, level and text of the record, as recorded from Linux 6.1
KMSG = {
    b"plain\n": (1, 4, b"plain"),
    b"<3>bad\n": (1, 3, b"bad"),
    b"<14>user\n": (1, 6, b"user"),
    b"<30>daemon": (3, 6, b"daemon"),
    b"<2047>all": (255, 7, b"all"),
    b"<9999>x": (225, 7, b"x"),
    b"<99999999999>y": (255, 7, b"y"),
    b"<>e": (1, 0, b"e"),
    b"<x>y": (1, 4, b"<x>y"),
    b"<0x6>hex": (1, 4, b"<0x6>hex"),
    b"< 3>sp": (1, 4, b"< 3>sp"),
    b"<-3>neg": (1, 4, b"<-3>neg"),
    b"  lead": (1, 4, b"  lead"),
    b"nul\0junk": (1, 4, b"nul"),
    b"two\nlines\n": (1, 4, b"two\nlines"),
    b"\n": (1, 4, b""),
    b"\n\nx\n\n": (1, 4, b"\n\nx\n"),
    b"<3>": (1, 3, b""),
    b"\xffe\xc3\xa4\x7f": (1, 4, b"\xffe\xc3\xa4\x7f"),
}


def test_writing_to_kmsg(kernel):
    file = Kmsg(kernel)
    printed = []
    log = SimpleNamespace(store=lambda *args: printed.append(args))
    kernel.guest = SimpleNamespace(log=log)
    for data in KMSG:
        file.store(data)
    assert printed == list(KMSG.values())
    file.store(b"x" * 992)
    assert code(file.store, b"x" * 993) == "EINVAL"
