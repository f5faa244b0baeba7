# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels that can have tasks of callers; the rest is in tests/integration/linux."""

import pytest

from kpfs.linux.errors import UnfitError
from kpfs.linux.running import linux_kernel


def test_kernels_that_are_too_old_for_callers():
    for release in ("5.6.0", "5.10.0-46-amd64", "6.1.192+", "10.0"):
        linux_kernel.check_callers(release)
    for release in ("5.4.0-216-generic", "4.19.0-27-amd64"):
        with pytest.raises(UnfitError, match=f"{release}: .*--inside only"):
            linux_kernel.check_callers(release)
