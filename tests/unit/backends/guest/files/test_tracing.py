# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes to files of tracing/ that are handed on; recorded cases say the rest."""

import os
from types import SimpleNamespace

import pytest

from kpfs.backends.guest.files import buffers, dynevents
from kpfs.fs.seqfile import MAX_WRITE
from tests.there import code, stand_in
from tests.unit.fakes import FakeKernel


def test_a_write_cut_by_fuse_is_taken_up_to_a_line():
    kernel, made = FakeKernel(), []
    kernel.trace = SimpleNamespace(run_commands=lambda *words: made.append(words))
    file = dynevents.DynamicEvents(stand_in(kernel))
    data = b"p vfs_read\n" * (MAX_WRITE // 11 + 1)
    taken = file.open(os.O_WRONLY).write(data[:MAX_WRITE], 0)
    assert taken == MAX_WRITE // 11 * 11
    assert made == [(data[:taken], None)]


@pytest.mark.parametrize(
    ("text", "cpus", "mask"),
    [
        (b"3\n", 2, 3),
        (b"\n", 2, 0),
        (b" 1,\n", 2, 1),
        (b"1\0x", 2, 1),
        (b"00000001,00000002", 40, 1 << 32 | 2),
        (b"1 2", 40, 1 << 32 | 2),
        (b"4", 2, "EOVERFLOW"),
        (b"0,1", 2, "EOVERFLOW"),
        (b"000000001", 2, "EOVERFLOW"),
        (b"0x1", 2, "EINVAL"),
        (b"x00000001", 2, "EINVAL"),
    ],
)
def test_masks_are_read_from_their_end(text, cpus, mask):
    if isinstance(mask, str):
        assert code(buffers.cpumask_parse, text, cpus) == mask
    else:
        assert buffers.cpumask_parse(text, cpus) == mask
