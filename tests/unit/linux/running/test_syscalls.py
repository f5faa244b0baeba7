# SPDX-License-Identifier: GPL-2.0-or-later
"""The structures that system calls write, compared with this host's own."""

import os

from kpfs.base import syscall_numbers as nr
from kpfs.base.data_model import LITTLE_64
from kpfs.linux.running import syscalls


def test_dirents():
    raw = b""
    for name, kind in ((b".", 4), (b"file", 8)):
        size = (19 + len(name) + 8) & -8
        head = (7).to_bytes(8, "little") + bytes(8) + size.to_bytes(2, "little")
        raw += (head + bytes([kind]) + name).ljust(size, b"\0")
    found = list(syscalls.read_dirents(raw, LITTLE_64))
    assert found == [
        (".", 0o040000),
        ("file", 0o100000),
    ]


def test_statx(tmp_path):
    import ctypes

    path = tmp_path / "file"
    path.write_bytes(b"12345")
    os.utime(path, ns=(1_000_000_001, 2_000_000_002))
    buffer = ctypes.create_string_buffer(syscalls.STATX_SIZE)
    call = ctypes.CDLL(None).syscall
    assert call(nr.STATX, nr.AT_FDCWD, bytes(path), 0, nr.STATX_BASIC, buffer) == 0
    found, expected = syscalls.read_statx(buffer.raw, LITTLE_64), path.stat()
    assert (found.mode, found.size, found.nlink, found.ino) == (
        expected.st_mode,
        5,
        1,
        expected.st_ino,
    )
    assert (found.atime, found.mtime) == (1_000_000_001, 2_000_000_002)
