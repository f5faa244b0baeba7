# SPDX-License-Identifier: GPL-2.0-or-later
"""A Linux kernel in this process: see kpfs.linux."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from kpfs.backends.handlers import HandlerCalls, UserHandler
from kpfs.backends.linux.dumped import core
from kpfs.backends.linux.machine_info import LinuxMachineInfo
from kpfs.backends.linux.tree import OwnFiles
from kpfs.base.errors import KernelError, MemoryFault
from kpfs.base.ktypes import Caller
from kpfs.base.units import NSEC, PAGE_SIZE
from kpfs.fs.machine import text_of
from kpfs.linux.running.functions import PythonFunctions
from kpfs.linux.running.linux_kernel import LinuxKernel
from kpfs.linux.running.tasks import AgentTask
from kpfs.session.session import os_error

if TYPE_CHECKING:
    from kpfs.explain.explainer import Explainer
    from kpfs.explain.verdicts import Verdict

FIRST_PID = 4_000_001  # no process of the guest's own comes so far
T = TypeVar("T")


def no_mounts(_pid: int) -> bytes:
    """Refuse to show machine/mounts: nothing is mounted."""
    raise FileNotFoundError(errno.ENOENT, "no mount")


class LinuxAccess:
    """One running kernel: its time, text and memory, and the calls of handlers."""

    def __init__(self, name: str, *, quiet: bool) -> None:
        """name: of a kernel made by ``kpfs kernel make``; SetupError: there is none."""
        self.kernel = LinuxKernel(name, quiet=quiet)
        self.quiet = quiet
        self.closed = False
        self.next_pid = FIRST_PID
        self.buffers: dict[AgentTask, int] = {}  # addresses of tasks' buffers
        self.handlers = HandlerCalls()
        self.probes: dict[int, object] = {}  # registered ones, by address
        self.info = LinuxMachineInfo(self.kernel, no_mounts, dump=core)
        self.own = OwnFiles(self.kernel, self.info)
        self.explainer: Explainer | None = None  # None: explain() makes another
        self._explained: list[object] = []  # the modules that explainer knows
        self.kernel.start()

    def close(self) -> None:
        if not self.closed:
            self.handlers.check()
            self.closed = True
            self.kernel.stop()

    def do(self, path: str, action: Callable[[], T]) -> T:
        """Run an operation on a path under the lock; OSError."""

        def locked() -> T:
            with self.kernel.lock:
                return action()

        return self.call(path, locked)

    def call(self, path: str, action: Callable[[], T]) -> T:
        """Run an operation that takes the lock itself; OSError."""
        if self.closed:
            raise ValueError("this kernel is closed")
        self.handlers.check()
        ticker = self.kernel.ticker
        try:
            result = action()
        except (KernelError, MemoryFault) as refused:
            self.handlers.throw(ticker)
            raise os_error(refused, path) from None
        self.handlers.throw(ticker)
        return result

    # ---- time
    def now(self) -> float:
        return self.do("", lambda: self.kernel.machine.now() / NSEC)

    def advance(self, seconds: float) -> None:
        machine = self.kernel.machine
        until = machine.now() + round(seconds * NSEC)
        self.do("", lambda: machine.advance(until))

    # ---- text and memory
    def disassemble(self, symbol: str) -> str:
        def action() -> str:
            found = self.info.functions_named(symbol)
            if not found:
                raise KernelError(errno.ENOENT, symbol)
            return text_of(self.info, found)

        return self.do(symbol, action)

    def explain(self, point: str) -> tuple[Verdict, str]:
        from kpfs.explain.kernels import explainer_of

        def loaded() -> list[object]:
            return [module.fingerprint for module in self.kernel.modules()]

        now = self.do(point, loaded)
        if self.explainer is None or self._explained != now:
            self.explainer, self._explained = explainer_of(self.kernel), now
        return self.explainer.explain(point)

    def symbol(self, name: str) -> int:
        from kpfs.linux.memory.modules import AllSymbols

        kernel = self.kernel
        if address := kernel.symbols.address(name):
            return address  # as in kallsyms, modules come behind
        modules = self.memory(kernel.modules)
        return AllSymbols(kernel.symbols, modules).address(name)

    def memory(self, access: Callable[[], T]) -> T:
        """Access memory, which a handler may do, too."""
        return access() if self.handlers.is_within else self.do("", access)

    def read_memory(self, address: int, size: int) -> bytes:
        return self.memory(lambda: self.kernel.memory.read(address, size))

    def write_memory(self, address: int, data: bytes) -> None:
        def action() -> None:
            self.kernel.memory.write(address, data)
            self.kernel.machine.board.flush()  # it may be code

        self.memory(action)

    def read_string(self, address: int, size: int) -> bytes:
        def action() -> bytes:
            found = b""
            while len(found) < size and b"\0" not in found:
                room = PAGE_SIZE - (address + len(found)) % PAGE_SIZE
                piece = min(size - len(found), room)
                found += self.kernel.memory.read(address + len(found), piece)
            return found.partition(b"\0")[0]

        return self.memory(action)

    # ---- probes
    @cached_property
    def functions(self) -> PythonFunctions:
        """Return the Python functions that the kernel can call.  Context: lock held."""
        self.kernel.follow(self.probes.clear)
        return PythonFunctions(self.kernel)

    def worker(self) -> AgentTask:
        """Return the task for work that is not a user's task's.  Context: lock held."""
        tasks = self.kernel.tasks
        caller = Caller(FIRST_PID, os.getuid(), 0)
        return tasks.known(FIRST_PID) or tasks.fork(tasks.agent, caller, "python")

    def handle(self, handler: UserHandler, *args: object) -> int:
        """Call a user's handler of a probe.  Context: hit."""
        try:
            return self.handlers.handle(handler, *args)
        except MemoryFault as fault:
            self.handlers.keep(os_error(fault))
            return 0
