# SPDX-License-Identifier: GPL-2.0-or-later
"""Hints go from the daemon to the runner."""

import os

from kpfs.host import hints


def test_which_hints_matter():
    fd = hints.new()
    hints.add(fd, "no uprobes", if_failed=True)
    hints.add(fd, "no hist triggers", if_failed=False)
    hints.add(fd, "no uprobes", if_failed=True)
    assert hints.read(fd, failed=False) == ["no hist triggers"]
    assert hints.read(fd, failed=True) == ["no uprobes", "no hist triggers"]
    os.close(fd)


def test_without_a_place():
    hints.add(-1, "no uprobes", if_failed=False)
    assert hints.read(-1, failed=True) == []
