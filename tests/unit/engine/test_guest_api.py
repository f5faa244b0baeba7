# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.engine.guest_api: structures of modules, by the address alone.

What the calls do with what stands in the structures is tested by modules that call
them: tests/integration/modules/test_suites.py.
"""

import struct

import pytest

from kpfs.base import abi
from kpfs.engine.guest_api import GuestApi
from tests.fake import FakeMachine, new_state

HANDLER = 0x9000
KINDS = (abi.CTL_KPROBES, abi.CTL_KRETPROBES, abi.CTL_JPROBES)


@pytest.fixture
def st():
    machine = FakeMachine()
    machine.add_function("f")
    machine.add_function("entry_of_jprobe")
    return new_state(machine)


def structure(st):
    """A structure that can be any of the three: a probe at f, and the array of it."""
    machine = st.machine
    f, entry = (machine.kallsyms.lookup_name(n)[0] for n in ("f", "entry_of_jprobe"))
    at = machine.area.alloc_data(4096)
    machine.write_u64(at + abi.Kprobe.addr, f.addr)
    # jprobe.entry lies where kretprobe.handler does
    machine.write_u64(at + abi.Jprobe.entry, entry.addr)
    array = at + 2048
    machine.write(array, struct.pack("<Q", at))
    return at, array


@pytest.mark.parametrize("registered", KINDS)
@pytest.mark.parametrize("unregistered", KINDS)
def test_any_kind_is_unregistered_as_what_it_is(st, registered, unregistered):
    api = GuestApi(lambda: st)
    at, array = structure(st)
    api.serve(registered | abi.CTL_REGISTER, array, 1)
    assert len(st.kprobe_table) == 1
    api.serve(unregistered | abi.CTL_UNREGISTER, array, 1)
    assert not st.kprobe_table
    assert not st.arch.rethooks.there
    # and it can be registered again, as any kind
    api.serve(unregistered | abi.CTL_REGISTER, array, 1)
    api.serve(unregistered | abi.CTL_UNREGISTER, array, 1)
    assert not st.kprobe_table
    # one that is not registered has its address cleared
    api.serve(registered | abi.CTL_UNREGISTER, array, 1)
    assert st.machine.read_u64(at + abi.Kprobe.addr) == 0


def test_the_structure_says_how_the_instruction_is_run(st):
    """The architecture's part is in tests/modules/headers_suite.c."""
    api = GuestApi(lambda: st)
    at, array = structure(st)
    api.serve(abi.CTL_KPROBES | abi.CTL_REGISTER, array, 1)
    ainsn = abi.ArchSpecificInsn.STRUCT
    raw = st.machine.read(at + abi.Kprobe.ainsn, ainsn.size)
    assert ainsn.unpack(raw) == st.arch.copied_insn(next(iter(api._probes.values())))


def test_control_block_of_an_idle_cpu(st):
    api = GuestApi(lambda: st)
    at = st.machine.area.alloc_data(24)
    st.machine.write(at, b"x" * 24)
    api.serve(abi.CTL_KPROBE_CTLBLK, at, 0)
    assert st.machine.read(at, 24) == bytes(24)
