# SPDX-License-Identifier: GPL-2.0-or-later
"""Code that keeps a processor from ever coming back: it is ended, whatever it does.

Each way is tried in each kind of kernel, beside another kernel of the process, which
goes on meanwhile; Linux kernels are usually alone. This tests emulator/blocks.c,
kpfs.guest.emu.cpu and kpfs.linux.running.machine.
"""

import contextlib
import os
import threading

import pytest

from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import Caller
from kpfs.guest.emu.traps import GuestPanicError
from kpfs.guest.machine import Guest
from kpfs.linux.running import machine
from kpfs.linux.running.linux_kernel import LinuxKernel
from kpfs.linux.running.machine import Op
from tests import harness

LIMIT = 0.3  # s of processor time
X86 = {
    "loop": "fa ebfe",  # cli; 1: jmp 1b
    "halt": "fa f4",
    "halts": "fb f4 ebfd",  # sti; 1: hlt; jmp 1b
    "paging off": "0f20c0 25ffffff7f 0f22c0",  # in CR0
    "no PAE": "0f20e0 83e0df 0f22e0",  # in CR4
    "EFER 0": "b9800000c0 31c0 31d2 0f30",
    "other page tables": "48b800f0ffffff0f0000 0f22d8",
    "no handlers": "6a00 6a00 0f011c24 cc",  # lidt with zeros; int3
    "no stack": "31e4 50",
    "no stack for a trap": "fa 31e4 cc",
    "no task register": "31c0 0f00d8",
    # from a ring of 1 by a gate of a GDT of its own
    "far call without a task register": "fa 6a00 48b80000100000ec0000 50"
    "48b8ffff000000b3cf00 50 48b8ffff000000bbaf00 50 48b8ffff00000093cf00 50"
    "48b8ffff0000009baf00 50 6a00 6a00 4889e3 53 666a3f 0f011424 31c0 0f00d8"
    "6a29 53 6a02 6a21 488d0503000000 50 48cf ff1d00000000 000000003300",
    "all TLB entries": "fa 0f20d8 0f22d8 ebf8",  # 1: mov %cr3,%rax; mov %rax,%cr3
    "one TLB entry": "fa 0f013c24 ebfa",
    "long string": "fa 4889e6 4889e7 48c7c1ffffffff fc f3a4",
    "string of a device": "fa 48c7c600d05fff 48c7c1ffffff7f fc f3ac",
    "single steps": "9c 48810c2400010000 9d 90 ebf3",
    "interrupts": "cd80 ebfc",
    "breakpoints": "cc ebfd",
    "bad instructions": "0f0b ebfc",
    "code that writes itself": "fa 0f20c0 25fffffeff 0f22c0 c60500000000eb ebf7",
    "nowhere": "48b80000000000000080 ffe0",
    "return to a program that is nowhere": "6a10 6a00 6a02 6a33 6a00 48cf",
    "sines": "fa d9eb d9fe ddd8 ebf8",
    "atomics": "fa f0480fc14424c0 f390 ebf5",
}
ARM64 = {
    "loop": "df4f03d5 00000014",  # msr daifset, #15; b .
    "halts": "df4f03d5 7f2003d5 ffffff17",
    "all TLB entries": "df4f03d5 1f8708d5 9f3f03d5 feffff17",
    "paging off": "001038d5 00f87f92 001018d5 df3f03d5",
    "no handlers": "1fc018d5 df3f03d5 00000000",
    "bad instructions": "00000000 ffffff17",
    "breakpoints": "000020d4 ffffff17",
    "nowhere": "e00380d2 00fc60d3 0000b0d2 00001fd6",
}
RISCV64 = {
    "loop": "73700110 6f000000",  # csrci sstatus, 2; j .
    "halts": "73700110 73005010 6ff0dfff",
    "all TLB entries": "73700110 73000012 6ff0dfff",
    "paging off": "73100018",
    "no handlers": "73105010 731000c0",
    "bad instructions": "731000c0 6ff0dfff",
    "breakpoints": "73001000 6ff0dfff",
    "nowhere": "13050000 67000500",
}
LONG = pytest.mark.long
KINDS = {
    "guest": ("", X86, [pytest.mark.guest]),
    "linux": (harness.KERNEL, X86, [pytest.mark.kernel, LONG]),
    "arm64": (harness.ARM64, ARM64, [pytest.mark.arm64_kernel, LONG]),
    "riscv64": (harness.RISCV64, RISCV64, [pytest.mark.riscv64_kernel, LONG]),
}
PREFIX = {"x86": "__x64_sys_", "arm64": "__arm64_sys_", "riscv64": "__riscv_sys_"}


class OfGuest:
    """The guest kernel: execute() runs code in it."""

    def __init__(self):
        self.guest = Guest(2, quiet=True)
        _ = self.guest.backtrace  # its import takes long where it is compiled first
        dog = self.guest.cpus.watchdog
        dog.limit, dog.rewind_at = LIMIT, 0
        self._asks = self._task(1234)

    def _task(self, pid):
        return self.guest.host_tasks.of_process(pid, 0, comm="t", parent=1)

    def execute(self, code):
        area = self.guest.area.alloc_text(len(code))
        self.guest.text_writer.poke_text(area, code)
        self.guest.syscalls.call_function(self._task(1235), area)

    def answers(self):
        return self.guest.syscalls.call(self._asks, "getppid") == 1

    @property
    def dead(self):
        return self.guest.sched.dead

    def close(self):
        self.guest.close()


class OfLinux:
    """A Linux kernel: execute() puts code in the place of a system call's function."""

    def __init__(self, name):
        self.kernel = LinuxKernel(name, quiet=True)
        self.kernel.machine.board.set(turn_ticks=100_000_000)
        self.kernel.start()
        self._asks, self._executes = map(self._task, (4_000_001, 4_000_002))

    def _task(self, pid):
        tasks = self.kernel.tasks
        with self.kernel.lock:
            return tasks.fork(tasks.agent, Caller(pid, os.getuid(), os.getgid()), "t")

    def _call(self, task, number):
        with self.kernel.lock:
            return self.kernel.tasks.request(task, [Op(number)]).results[0]

    def execute(self, code):
        kernel = self.kernel
        with kernel.lock:
            prefix = PREFIX[kernel.arch.name]
            kernel.memory.write(kernel.symbols.address(f"{prefix}getuid"), code)
            kernel.machine.board.flush()
        self._call(self._executes, nr.GETUID)

    def answers(self):
        return self._call(self._asks, nr.GETPPID) >= 0

    @property
    def dead(self):
        return self.kernel.machine.dead

    def close(self):
        self.kernel.stop()


@pytest.fixture
def make(monkeypatch):
    monkeypatch.setattr(machine, "MAX_LOCKED_OUT", LIMIT)
    monkeypatch.setattr(machine, "MIN_SECONDS", LIMIT)
    monkeypatch.setattr(machine, "MAX_TURNS", 20)
    with contextlib.ExitStack() as stack:

        def make(name):
            made = OfLinux(name) if name else OfGuest()
            stack.callback(made.close)
            return made

        yield make


WAYS = [
    pytest.param(
        *(name, code, beside),
        marks=[*marks, pytest.mark.slow] if beside and LONG in marks else marks,
        id=f"{kind}-{way}-{'beside' if beside else 'alone'}".replace(" ", "-"),
    )
    for kind, (name, ways, marks) in KINDS.items()
    for way, code in ways.items()
    for beside in ((False, True) if name else (True,))
]


@pytest.mark.logs("panic|soft lockup|hard lockup|the guest is dead|BUG|Oops|died")
@pytest.mark.parametrize(("name", "code", "neighbour"), WAYS)
def test_it_is_ended(make, name, code, neighbour):
    kernel, others = make(name), [make(name) for _ in range(neighbour)]
    over, answers = threading.Event(), []

    def ask(other):
        while not over.is_set():
            answers.append(other.answers())

    threads = [threading.Thread(target=ask, args=(other,)) for other in others]
    for thread in threads:
        thread.start()
    try:
        with contextlib.suppress(KernelError, GuestPanicError):
            kernel.execute(bytes.fromhex(code))
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert kernel.dead or kernel.answers()
    assert all(answers)
    assert len(answers) >= len(others)
    assert not any(other.dead for other in others)
