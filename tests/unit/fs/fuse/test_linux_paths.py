# SPDX-License-Identifier: GPL-2.0-or-later
import errno

import pytest

from kpfs.base.errors import KernelError
from kpfs.fs.fuse import proto
from kpfs.fs.fuse.linux_paths import Paths


def test_a_path_keeps_its_number_while_it_is_known():
    paths = Paths()
    first = paths.look_up("/tracing")
    assert paths.look_up("/tracing") is first
    paths.forget(first.number, 1)
    assert paths[first.number] is first
    paths.forget(first.number, 1)
    with pytest.raises(KernelError) as caught:
        paths[first.number]
    assert caught.value.errno == errno.ESTALE
    assert paths.look_up("/tracing").number != first.number


def test_a_path_that_was_forgotten_lasts_no_more():
    paths = Paths()
    path = paths.look_up("/tracing/events")
    path.lasts = True
    paths.forget(path.number, 1)
    assert not paths.look_up("/tracing/events").lasts


def test_the_root_is_never_forgotten():
    paths = Paths()
    paths.forget(proto.ROOT, 1)
    assert paths[proto.ROOT].text == ""
