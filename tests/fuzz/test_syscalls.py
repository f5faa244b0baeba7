# SPDX-License-Identifier: GPL-2.0-or-later
"""Random system calls leave the guest as sound as it was."""

import pytest

from kpfs.guest.machine import Guest
from tests.fuzz.syscalls import Fuzzer
from tests.harness import WrongError

pytestmark = pytest.mark.guest


@pytest.fixture(params=[1, 4], ids="{}cpus".format)
def guest(request):
    guest = Guest(request.param, quiet=True)
    yield guest
    guest.close()


@pytest.mark.parametrize("calls", [4000, pytest.param(200_000, marks=pytest.mark.slow)])
def test_any_call_with_any_arguments(guest, calls):
    fuzzer = Fuzzer(11, guest)
    fuzzer.run(calls)
    assert fuzzer.counts["ok"] > calls / 10
    assert fuzzer.counts["errno"] > calls / 10


def test_a_torn_free_list_is_seen(guest):
    """The check itself: one byte of a free object is enough."""
    fuzzer = Fuzzer(0, guest)
    fuzzer.look()
    kmalloc = guest.kallsyms.lookup_name("__kmalloc")[0].addr
    kfree = guest.kallsyms.lookup_name("kfree")[0].addr
    first, second = guest.call(kmalloc, 16, 0), guest.call(kmalloc, 16, 0)
    guest.call(kfree, second)
    guest.call(kfree, first)
    guest.write(first, b"\x01")
    with pytest.raises(WrongError, match=r"slab error|validate_slab"):
        fuzzer.look()
