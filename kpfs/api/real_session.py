# SPDX-License-Identifier: GPL-2.0-or-later
"""A real kernel in this process: see kpfs.linux."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from kpfs.api.handlers import Handlers, Theirs
from kpfs.api.session import os_error
from kpfs.base.caller import Caller
from kpfs.base.errors import KernelError, MemoryFault
from kpfs.fs.fuse.linux_machine import OwnTree
from kpfs.host.errors import SetupError
from kpfs.linux.errors import UnfitError
from kpfs.linux.running.functions import Functions
from kpfs.linux.running.linux_kernel import LinuxKernel
from kpfs.linux.running.tasks import Task

if TYPE_CHECKING:
    from kpfs.explain.command import Explainer
    from kpfs.explain.verdicts import Verdict

FIRST_PID = 4_000_001  # no process of the guest's own comes so far
NSEC = 1_000_000_000
PAGE_SIZE = 4096
T = TypeVar("T")


def _no_memory(fault: MemoryFault) -> OSError:
    return OSError(errno.EFAULT, f"nothing at {fault.addr:#x}")


def no_mounts(_pid: int) -> bytes:
    """machine/mounts: nothing is mounted."""
    raise FileNotFoundError(errno.ENOENT, "no mount")


class RealSession:
    """A real kernel that runs."""

    def __init__(self, name: str, *, quiet: bool) -> None:
        """SetupError: there is no kernel of that name (``kpfs kernel make``)."""
        try:
            self.kernel = LinuxKernel(name, quiet=quiet)
        except UnfitError as error:
            raise SetupError(str(error)) from None
        self.quiet = quiet
        self.closed = False
        self.next_pid = FIRST_PID
        self.buffers: dict[Task, int] = {}  # addresses of room that tasks have
        self.handlers = Handlers()
        self.probes: dict[int, object] = {}  # those registered, by their addresses
        self.own = OwnTree(self.kernel, no_mounts)
        self._explainer: Explainer | None = None
        self._explained: list[object] = []  # what was loaded when it was made
        self.kernel.start()

    def close(self) -> None:
        """End the guest."""
        if not self.closed:
            self.closed = True
            self.kernel.stop()

    def do(self, path: str, action: Callable[[], T]) -> T:
        """Do an operation on a path, with the lock; OSError."""

        def locked() -> T:
            with self.kernel.lock:
                return action()

        return self.call(path, locked)

    def call(self, path: str, action: Callable[[], T]) -> T:
        """Do one that takes the lock itself; OSError."""
        if self.closed:
            raise ValueError("this kernel is closed")
        self.handlers.check()
        ticker = self.kernel.ticker
        try:
            result = action()
        except KernelError as refused:
            self.handlers.throw(ticker)
            raise os_error(refused, path) from None
        except MemoryFault as fault:
            self.handlers.throw(ticker)
            raise _no_memory(fault) from None
        self.handlers.throw(ticker)
        return result

    # ---- probes
    @cached_property
    def functions(self) -> Functions:
        """What of Python the kernel can call.  Context: lock held."""
        self.kernel.follow(self.probes.clear)
        return Functions(self.kernel)

    def worker(self) -> Task:
        """A task for what none of the user's is to do.  Context: lock held."""
        tasks = self.kernel.tasks
        caller = Caller(FIRST_PID, os.getuid(), 0)
        return tasks.known(FIRST_PID) or tasks.fork(tasks.agent, caller, "python")

    def handle(self, handler: Theirs, *args: object) -> int:
        """Call a handler of a probe.  Context: hit."""
        try:
            return self.handlers.handle(handler, *args)
        except MemoryFault as fault:
            self.handlers.keep(_no_memory(fault))
            return 0

    # ---- snapshots
    def snapshot(self) -> RealSnapshot:
        """What the kernel is now; OSError, ValueError."""
        return self.do("", lambda: RealSnapshot(self))

    def forget_explainer(self) -> None:
        """The next explain() looks at the kernel anew."""
        self._explainer = None

    # ---- the clock
    def now(self) -> float:
        """Seconds since the kernel was booted."""
        return self.do("", lambda: self.kernel.machine.now() / NSEC)

    def advance(self, seconds: float) -> None:
        """Let so many seconds pass, with all that is due in them."""
        machine = self.kernel.machine
        until = machine.now() + round(seconds * NSEC)
        self.do("", lambda: machine.advance(until))

    # ---- what it is like
    def disassemble(self, symbol: str) -> str:
        """A function's text as it stands; OSError, ENOENT: there is none."""

        def action() -> bytes:
            node = self.own.find(f"machine/text/{symbol}")
            assert node is not None
            return node.text(0)

        return os.fsdecode(self.call(symbol, action))

    def explain(self, point: str) -> tuple[Verdict, str]:
        """See kpfs.explain.command.Explainer.explain()."""
        from kpfs.explain.command import explainer_of

        def loaded() -> list[object]:
            return [module.fingerprint for module in self.kernel.modules()]

        now = self.do(point, loaded)
        if self._explainer is None or self._explained != now:
            self._explainer, self._explained = explainer_of(self.kernel), now
        return self._explainer.explain(point)

    def symbol(self, name: str) -> int:
        """The address of a symbol, 0: there is none."""
        from kpfs.linux.memory.modules import AllSymbols

        kernel = self.kernel
        if address := kernel.symbols.address(name):
            return address  # as in kallsyms, modules come behind
        modules = self.memory(kernel.modules)
        return AllSymbols(kernel.symbols, modules).address(name)

    def memory(self, access: Callable[[], T]) -> T:
        """Do an access to memory, which a handler may do too."""
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


class RealSnapshot:
    """What a real kernel was when it was taken; it can be restored any number of times.

    Context: the kernel's lock is held.
    """

    def __init__(self, session: RealSession) -> None:
        from kpfs.linux.running.frozen import freeze

        self.session = session
        self._frozen = freeze(session.kernel)
        self._next_pid, self._buffers = session.next_pid, dict(session.buffers)
        self._probes, self._functions = dict(session.probes), session.functions.held()

    def restore(self) -> None:
        """Make the kernel what it was."""
        from kpfs.linux.running.frozen import thaw

        thaw(self.session.kernel, self._frozen)
        self.session.forget_explainer()
        self.session.next_pid = self._next_pid
        self.session.buffers = dict(self._buffers)
        self.session.functions.restore(self._functions)
        self.session.probes.clear()
        self.session.probes.update(self._probes)
