# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest kernel in this process.

Every operation runs in call(), which turns refusals into OSError with the kernel's
errno and the reason.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from kpfs import config as configuration
from kpfs.backends.guest.root.guest_kernel import GuestKernel as Root
from kpfs.backends.handlers import HandlerCalls
from kpfs.base.errors import KernelError, MemoryFault
from kpfs.base.typed import TYPE_CHECKING, TypeVar
from kpfs.base.units import MAX_CPUS, NSEC
from kpfs.guest.emu.traps import GuestPanicError
from kpfs.session.session import os_error

if TYPE_CHECKING:
    from kpfs.backends.guest.vfs import Vfs
    from kpfs.explain.verdicts import Verdict

FIRST_PID = 1000  # first pid of tasks for which none is asked
T = TypeVar("T")


def make_config(values: Mapping[str, bool | str]) -> configuration.Config:
    """Return the configuration with these values; ValueError."""
    words = [
        f"{name}={('y' if value else 'n') if isinstance(value, bool) else value}"
        for name, value in values.items()
    ]
    return configuration.make(map(configuration.parse_one, words))


class _OriginalText:
    """The tables of a running kernel, and its text without probes.

    Implements kpfs.engine.judge.Tables.
    """

    def __init__(self, root: Root) -> None:
        self.kallsyms, self.text = root.guest.kallsyms, root.guest.text
        self.read = root.arch.original_text


class GuestAccess:
    """One running kernel: its time, text and memory, and the calls of handlers."""

    def __init__(
        self, cpus: int, config: Mapping[str, bool | str], *, quiet: bool
    ) -> None:
        """cpus: 1 to MAX_CPUS.  ValueError: that, or the configuration."""
        if not 1 <= cpus <= MAX_CPUS:
            raise ValueError(f"1 to {MAX_CPUS} CPUs, not {cpus}")
        self.root = Root(nr_cpus=cpus, quiet=quiet, config=make_config(config))
        self._vfs: Vfs | None = None
        self.root.syscalls.attach_files(lambda request: self.vfs.serve(request))
        self.quiet = quiet
        self.closed = False
        self.next_pid = FIRST_PID
        self.ended: set[int] = set()  # pids of tasks that were told to exit
        self.handlers = HandlerCalls()
        if not quiet:
            self.root.background.start()

    @property
    def vfs(self) -> Vfs:
        """Return the files, which are made when they are first used."""
        if self.closed:
            self.check()
        with self.root.lock:
            if self._vfs is None:
                from kpfs.backends.guest import tree
                from kpfs.backends.guest.vfs import Vfs

                self._vfs = Vfs(self.root, tree.build(self.root))
            return self._vfs

    def close(self) -> None:
        if not self.closed:
            self.handlers.check()
            self.closed = True
            self.root.stop()

    @contextmanager
    def call(self, path: str = "") -> Iterator[None]:
        """Run an operation on a path, or on none.

        OSError: the kernel refuses it, or is dead (ESHUTDOWN).  What a handler raised
        meanwhile is raised at the end.
        """
        self.check()
        try:
            yield
        except (KernelError, MemoryFault) as refused:
            self.handlers.throw()
            raise os_error(refused, path) from None
        except GuestPanicError as panic:
            self.handlers.throw()
            raise os_error(KernelError(errno.ESHUTDOWN, panic.why), path) from None
        self.handlers.throw()

    def check(self) -> None:
        """Raise ValueError if it is closed, RuntimeError if a handler calls."""
        if self.closed:
            raise ValueError("this kernel is closed")
        self.handlers.check()

    # ---- time
    def now(self) -> float:
        with self.call(), self.root.lock:
            return self.root.guest.clock.now() / NSEC

    def advance(self, seconds: float) -> None:
        root = self.root
        with self.call(), root.lock:
            root.syscalls.check()
            guest = root.guest
            end = guest.clock.now() + round(seconds * NSEC)
            while (due := guest.next_deadline()) is not None and due <= end:
                guest.tick()
                root.background.guest_ran()
            guest.clock.advance(end)

    # ---- text and memory
    def disassemble(self, symbol: str) -> str:
        with self.call(symbol), self.root.lock:
            from kpfs.backends.guest.machine_info import GuestMachineInfo
            from kpfs.fs.machine import text_of

            info = GuestMachineInfo(self.root)
            found = info.functions_named(symbol)
            if not found:
                raise KernelError(errno.ENOENT, "no such function")
            return text_of(info, found)

    def explain(self, point: str) -> tuple[Verdict, str]:
        from kpfs.engine.arch.arches import JUDGES
        from kpfs.explain.explainer import Explainer

        with self.call(), self.root.lock:
            judge = JUDGES[self.root.guest.arch](_OriginalText(self.root))
            return Explainer(self.root.state, judge).explain(point)

    def symbol(self, name: str) -> int:
        found = self.root.guest.kallsyms.lookup_name(name)
        return found[0].addr if found else 0

    def read_memory(self, address: int, size: int) -> bytes:
        return self.memory(lambda: self.root.guest.read(address, size))

    def write_memory(self, address: int, data: bytes) -> None:
        self.memory(lambda: self.root.guest.write(address, data))

    def read_string(self, address: int, size: int) -> bytes:
        return self.memory(lambda: self.root.guest.read_cstring(address, size))

    def memory(self, access: Callable[[], T]) -> T:
        """Access memory, which a handler may do, too."""
        if self.handlers.is_within:
            return access()
        with self.call():
            return access()

    # ---- probes
