# SPDX-License-Identifier: GPL-2.0-or-later
"""Debuggers see threads, registers and memory of a guest kernel.

Tests kpfs.emulator.registers.
"""

import pytest

from kpfs.backends.guest.debugged import GuestDebugged
from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.base import abi
from kpfs.base.errors import MemoryFault
from kpfs.gdb.debugged import FIRST_TASK, RunState, read_some


@pytest.fixture
def debugged(kernel):
    with kernel.lock:
        yield GuestDebugged(kernel)


def function_at(kernel, address):
    return kernel.guest.kallsyms.symbol_at(address).name


def test_processors_come_first_and_each_has_registers_of_its_own(kernel, debugged):
    first, second = debugged.threads()[:2]
    assert [first.number, second.number] == [1, 2]
    assert "CPU 0" in first.name
    base = kernel.guest.info.percpu_base
    for thread in (first, second):
        registers = debugged.registers(thread)
        assert function_at(kernel, registers["rip"]) == "default_idle"
        assert registers["gs_base"] == base + thread.cpu * kernel.guest.info.percpu_size
        assert registers["cr3"] == kernel.guest.memory.cr3
    assert debugged.current == kernel.guest.cpus.active


def test_a_sleeping_task_stands_where_it_gave_up_its_processor(kernel, debugged):
    (init,) = [thread for thread in debugged.threads() if thread.pid == 1]
    assert (init.number, init.state) == (FIRST_TASK + 1, RunState.SLEEPS)
    registers = debugged.registers(init)
    assert function_at(kernel, registers["rip"]).startswith("context_switch")
    stack = registers["rsp"] - abi.STACK_BASE
    assert stack > 0
    assert debugged.read(registers["rsp"], 8)
    with pytest.raises(KeyError):
        debugged.set_register(init, "rax", 1)


def test_registers_are_written(debugged):
    for thread in debugged.threads()[:2]:
        for name in ("rbx", "gs_base", "k_gs_base", "cr2"):
            value = debugged.registers(thread)[name] ^ 0x1000
            debugged.set_register(thread, name, value)
            assert debugged.registers(thread)[name] == value
        with pytest.raises(KeyError):
            debugged.set_register(thread, "cs", 8)


def test_memory_ends_where_it_is_not_mapped(kernel, debugged):
    version = kernel.guest.needed("linux_banner")
    assert debugged.read(version, 13) == b"Linux version"
    with pytest.raises(MemoryFault):
        debugged.read(8, 1)
    guard = abi.STACK_BASE + abi.STACK_STRIDE
    assert len(read_some(debugged, guard - 16, 64)) == 16
    with pytest.raises(MemoryFault):
        read_some(debugged, guard, 1)


def test_text_is_written(kernel, debugged):
    """The changed code runs, although it was translated before."""
    func = kernel.guest.needed("ktime_get")
    assert kernel.guest.call(func)
    before = debugged.read(func, 6)
    debugged.write(func, b"\xb8\x2a\0\0\0\xc3")  # mov $42, %eax; ret
    assert kernel.guest.call(func) == 42
    debugged.write(func, before)
    assert kernel.guest.call(func) > 42


def test_another_kernel_takes_over(kernel, debugged):
    told = []
    debugged.follow(lambda: told.append(True))
    debugged.see_all(True)
    other = GuestKernel(quiet=True, lock=kernel.lock)
    debugged.replace(other)
    assert told
    assert not other.skip_policy.may_skip(0)
    other.stop()


def test_a_call_between_turns_comes_at_an_instruction(kernel, debugged):
    seen = []

    def between():
        registers = debugged.registers(debugged.threads()[debugged.current])
        seen.append(function_at(kernel, registers["rip"]))

    debugged.call_between_turns(between)
    kernel.guest.call(kernel.guest.needed("ktime_get"))
    assert seen
    debugged.call_between_turns(None)
    count = len(seen)
    kernel.guest.call(kernel.guest.needed("ktime_get"))
    assert len(seen) == count
