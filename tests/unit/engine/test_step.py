# SPDX-License-Identifier: GPL-2.0-or-later

import errno

import pytest

from kpfs.base.errors import KernelError
from kpfs.engine.step import Pattern, refuse

PATTERNS = Pattern(0x7F, 0x73, "a system instruction"), Pattern(0xF0, 0xA0, "another")


def test_the_first_class_that_fits_is_named():
    with pytest.raises(KernelError, match="a system instruction cannot be") as refused:
        refuse(PATTERNS, 0x1F3)
    assert refused.value.errno == errno.EINVAL
    with pytest.raises(KernelError, match="another cannot be probed"):
        refuse(PATTERNS, 0xA5)
    refuse(PATTERNS, 0x13)
