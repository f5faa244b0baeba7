# SPDX-License-Identifier: GPL-2.0-or-later
"""The meaning of a line of machine/syscall."""

import pytest

from kpfs.fs.syscall_line import Buffer, parse
from tests.there import code


def test_words():
    call = parse(b'openat -100 "/a b" 0x10 010 buf word\n')
    assert call is not None
    assert call.name == "openat"
    assert call.args == [-100, b"/a b", 16, 8, Buffer.BUF, b"word"]
    assert parse(b"  \n") is None


@pytest.mark.parametrize("line", [b"x 1 2 3 4 5 6 7", b"x 0x" + 23 * b"1"])
def test_what_is_refused(line):
    assert code(parse, line) == "EINVAL"
