# SPDX-License-Identifier: GPL-2.0-or-later
"""Flags of open(2) of other hosts."""

import os

from kpfs.fs.fuse.openflags import guest_flags


def test_flags_of_arm64():
    """O_RDWR, O_TRUNC, O_LARGEFILE, O_DIRECTORY there."""
    assert guest_flags(0o441002, "aarch64") == 0o301002
    every = 0o4763777
    assert guest_flags(every, "aarch64") == every


def test_flags_of_x86():
    flags = os.O_RDWR | os.O_DIRECTORY | os.O_NOFOLLOW
    assert guest_flags(flags, "x86_64") == flags
