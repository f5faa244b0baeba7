# SPDX-License-Identifier: GPL-2.0-or-later
"""Debuggers see a Linux kernel of each architecture.

Tests kpfs.linux.memory.tasks and kpfs.linux.running.kernel_on_board.
"""

import pytest

from kpfs.backends.linux.coverage import LinuxCoverage
from kpfs.backends.linux.debugged import LinuxDebugged
from kpfs.backends.linux.dumped import vmcoreinfo
from kpfs.base import elf
from kpfs.base.errors import MemoryFault
from kpfs.gdb.debugged import FIRST_TASK, RunState, read_some
from kpfs.linux.memory.modules import loaded_modules
from kpfs.linux.memory.unwind import NUMBERINGS, CallFrames
from kpfs.linux.memory.vmlinux import ModuleFile
from kpfs.linux.running.loading import load_named
from kpfs.linux.running.stacks import Stacks
from tests import harness

KERNELS = harness.on_each(
    (harness.KERNEL, harness.ARM64, harness.RISCV64, harness.S390X, harness.PPC64)
)
# kallsyms has no data there; stacks of the last one are guessed
KERNELS_OF_32_BITS = harness.on_each((harness.ARMHF, harness.I386))
WITHOUT_DATA = [*KERNELS_OF_32_BITS, *harness.on_each((harness.MIPS64,))]
# by architecture: where it counts, and some other register
REGISTERS = {
    "x86": ("rip", "rbx"),
    "arm64": ("pc", "x9"),
    "riscv64": ("pc", "x9"),
    "s390x": ("pswa", "r9"),
    "ppc64": ("pc", "r9"),
    "armhf": ("pc", "r9"),
    "i386": ("eip", "ebx"),
    "mips64": ("pc", "r9"),
}
# where a task stands that sleeps
SWITCHES = "__schedule", "__switch_to", "ret_from_fork"


@pytest.fixture(params=KERNELS)
def linux(request, boot):
    return boot(request.param)


@pytest.fixture
def debugged(linux):
    with linux.lock:
        yield LinuxDebugged(linux)


@pytest.mark.parametrize("linux", KERNELS + WITHOUT_DATA, indirect=True)
def test_threads_are_the_processors_and_the_tasks_that_sleep(linux, debugged):
    threads = debugged.threads()
    agent, *others = threads
    assert (agent.number, agent.cpu, agent.pid, agent.comm) == (1, 0, 1, "init")
    assert {"kthreadd"} <= {thread.comm for thread in others}
    counter, _ = REGISTERS[debugged.arch]
    for thread in others:
        assert thread.state is RunState.SLEEPS
        assert thread.number == FIRST_TASK + thread.pid
        registers = debugged.registers(thread)
        place = linux.symbols.name_of(registers[counter])
        assert place.startswith(SWITCHES)
        with pytest.raises(KeyError):
            debugged.set_register(thread, counter, 0)


@pytest.mark.parametrize("linux", KERNELS + KERNELS_OF_32_BITS, indirect=True)
def test_stacks_of_tasks_that_sleep_are_whole(linux, debugged):
    (thread,) = [each for each in debugged.threads() if each.comm == "kthreadd"]
    names = Stacks(linux).of_sleeper(debugged.registers(thread), 20)
    places = [name.partition("+")[0] for name in names]  # guesses have a question mark
    assert "kthreadd" == places[places.index("schedule") + 1]
    assert places[-1].startswith(("ret_from_fork", "start_kernel_thread"))


@pytest.mark.parametrize("linux", [harness.on(harness.ARMHF)], indirect=True)
def test_callers_of_a_modules_functions_are_known(linux):
    """Each section of its text has an unwind table of its own."""
    with linux.lock:
        load_named(linux, linux.tasks.agent, "dummy")
        parts = linux.memory, linux.symbols, linux.structures
        (module,) = [each for each in loaded_modules(*parts) if each.name == "dummy"]
        file = ModuleFile(linux.memory, module, linux.structures, elf.EM_ARM)
        section = file.call_frames
    frames = CallFrames(section, linux.memory.model, NUMBERINGS[elf.EM_ARM])
    places = [row.addr for row in module.rows if row.type == "t" and row.addr]
    assert len(places) > 5
    for place in places:
        if module.is_text(place):
            known = {**dict.fromkeys(range(15), 0), 15: place + 4}
            assert frames.caller(known, lambda _: 7, is_call=False)


def test_registers_of_the_processor_are_the_engine_s(linux, debugged):
    (agent, *_) = debugged.threads()
    registers = debugged.registers(agent)
    counter, name = REGISTERS[debugged.arch]
    # the agent stands at its pause, in its own text
    assert registers[counter] == linux.meta.pause
    debugged.set_register(agent, name, 0x1234)
    assert debugged.registers(agent)[name] == 0x1234


def test_memory_is_read_and_written_by_virtual_address(linux, debugged):
    banner = linux.symbols.address("linux_banner")
    assert debugged.read(banner, 13) == b"Linux version"
    debugged.write(banner, b"X")
    assert read_some(debugged, banner, 13) == b"Xinux version"
    with pytest.raises(MemoryFault):
        debugged.read(1 << 36, 1)


@pytest.mark.parametrize(
    "linux", [*KERNELS[:1], *KERNELS_OF_32_BITS[:1]], indirect=True
)
def test_what_a_kernel_says_of_itself_for_dumps(linux):
    with linux.lock:
        said = vmcoreinfo(linux)
    assert said.startswith(f"OSRELEASE={linux.meta.release}\n".encode())


@pytest.mark.kernel
def test_a_debugger_and_coverage_both_follow_to_another_machine(boot):
    linux = boot()
    with linux.lock:
        replaced: list[int] = []
        debugged = LinuxDebugged(linux)
        debugged.follow(lambda: replaced.append(linux.machine.board.address))
        coverage = LinuxCoverage(linux)
        before = coverage._blocks
        linux.reboot()
        assert replaced == [linux.machine.board.address]
        assert coverage._blocks is not before
