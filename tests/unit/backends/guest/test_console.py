# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's console never makes the kernel wait."""

import os

from kpfs.backends.guest.console import Console
from kpfs.guest.running.klog import LogRecord


class Levels:
    def levels(self):
        return 7, 4, 1, 7


def test_messages_that_do_not_fit_are_dropped_and_counted():
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    console = Console(writer, Levels())
    record = LogRecord(0, 1_500_000_000, 0, 6, b"x" * 900)
    for _ in range(100):
        console.show([record])
    lines = os.read(reader, 1 << 20).splitlines()
    assert set(lines) == {b"[    1.500000] " + b"x" * 900}
    assert 50 < len(lines) < 100
    console.show([record._replace(level=7), record._replace(text=b"here")])
    assert os.read(reader, 1 << 20) == (
        b"** %d printk messages dropped **\n[    1.500000] here\n" % (100 - len(lines))
    )
    os.close(reader)
    console.show([record, record])  # nobody reads it any more
    os.close(writer)
