# SPDX-License-Identifier: GPL-2.0-or-later
"""The archive of the kernel's first file system."""

from kpfs.linux.make import cpio

ENTRIES = [
    cpio.CpioEntry("bin", cpio.DIRECTORY),
    cpio.CpioEntry("init", cpio.PROGRAM, b"12345"),
    cpio.CpioEntry("odd", 0o100600, b"x"),
]


def test_the_same_bytes_for_the_same_contents():
    made = cpio.archive(ENTRIES)
    assert made == cpio.archive(ENTRIES)
    assert len(made) % 4 == 0
    assert made.startswith(b"070701" + b"%08x" % 1 + b"%08x" % cpio.DIRECTORY)
    assert b"init\0\0" + b"12345" in made
    assert made.count(b"070701") == len(ENTRIES) + 1
