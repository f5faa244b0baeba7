# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel for all tests of a module."""

import pytest

from kpfs.backends.guest.root.guest_kernel import GuestKernel


@pytest.fixture(scope="module")
def one_cpu():
    kernel = GuestKernel(nr_cpus=1, quiet=True)
    with kernel.lock:
        yield kernel
    kernel.stop()
