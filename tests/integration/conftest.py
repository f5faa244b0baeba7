# SPDX-License-Identifier: GPL-2.0-or-later
"""A booted guest."""

import os

import pytest

from kpfs.guest.images import IMAGE_DIR, KERNEL_IMAGE
from kpfs.guest.machine import Guest


def boot(**options):
    if not os.path.exists(os.path.join(IMAGE_DIR, KERNEL_IMAGE)):
        pytest.fail("no guest image: run scripts/build-guest", pytrace=False)
    return Guest(**options)


def text(guest, code):
    """The address of new text in the guest, given in hexadecimal."""
    code = bytes.fromhex(code)
    addr = guest.area.alloc_text(len(code))
    guest.text_writer.poke_text(addr, code)
    guest.text_writer.drop(addr, len(code))
    return addr


@pytest.fixture
def guest():
    """A new guest with two CPUs, quiet."""
    guest = boot(quiet=True)
    yield guest
    guest.close()


@pytest.fixture(scope="module")
def shared_guest():
    """A quiet guest for tests that change nothing."""
    guest = boot(quiet=True)
    yield guest
    guest.close()
