# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.linux.running.frozen: what a copy of a kernel leaves as it is."""

import os

import pytest

from kpfs.linux.running import frozen
from tests.integration.linux.conftest import Process

pytestmark = pytest.mark.kernel


def test_descriptors_of_this_process_stay_as_they_are(boot):
    """One that is open again only by its number would be another file's."""
    kernel = boot()
    task = Process(kernel, os.getpid()).task
    assert task.read_comm()
    with kernel.lock:
        copy = frozen.freeze(kernel)
        task.forget_comm()
        taken = os.open(os.devnull, os.O_RDONLY)  # the same number
        frozen.thaw(kernel, copy)
        task.forget_comm()
    os.close(taken)
