# SPDX-License-Identifier: GPL-2.0-or-later
"""The protocol of a kernel in this process, which each kind of kernel implements.

kpfs.api shows it to users.  All methods raise OSError where the kernel refuses.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator

from kpfs.base.errors import KernelError, MemoryFault
from kpfs.base.typed import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from kpfs.coverage.report import Report
    from kpfs.explain.verdicts import Verdict
    from kpfs.gdb.debugged import Debugged
    from kpfs.session.files import KernelTask
    from kpfs.session.probes import Probe, ProbeDefinition
    from kpfs.session.records import Record

_CALL = r"^\w+\(\): "  # the call that stands before a reason


class Image(NamedTuple):
    """The file of a kernel or a module, and where it is in memory."""

    name: str
    content: bytes
    start: int
    end: int
    sections: dict[str, int]  # addresses of a module's


class Snapshot(Protocol):
    """The state that a kernel had once.  It can be restored any number of times."""

    @property
    def session(self) -> object:
        """The session that it belongs to."""


class Session(Protocol):
    """A running kernel.  ValueError: it is closed; RuntimeError: a handler calls."""

    quiet: bool
    next_pid: int  # pid of the next task for which none is asked

    def close(self) -> None:
        """End the kernel."""

    # ---- tasks and what they use
    def task(self, pid: int, comm: str, uid: int = 0) -> KernelTask:
        """Return the task with a pid, which is forked if there is none."""

    def records(self, instance: str) -> Iterator[Record]:
        """Return the records of a trace array, oldest first; ENOENT.

        instance: "" for the top array.
        """

    def dmesg(self) -> str:
        """Return the kernel's log as dmesg prints it.  No code of the kernel runs."""

    def lost(self) -> list[str]:
        """Return what the kernel has lost, a line for each cause."""

    # ---- snapshots; the session is quiet
    def snapshot(self) -> Snapshot:
        """Return the state of the kernel.  ValueError: a task waits."""

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot of this session."""

    # ---- time
    def now(self) -> float:
        """Return the seconds since the kernel booted."""

    def advance(self, seconds: float) -> None:
        """Let time pass in a quiet session, with all that is due in it."""

    # ---- text and memory
    def disassemble(self, symbol: str) -> str:
        """Return a function's text as it stands; ENOENT."""

    def explain(self, point: str) -> tuple[Verdict, str]:
        """See kpfs.explain.command.Explainer.explain()."""

    def symbol(self, name: str) -> int:
        """Return the address of a symbol, or 0.  Handlers may call it."""

    def read_memory(self, address: int, size: int) -> bytes:
        """Return bytes of memory.  Handlers may call it: MemoryFault."""

    def write_memory(self, address: int, data: bytes) -> None:
        """Change bytes of memory.  Handlers may call it: MemoryFault."""

    def read_string(self, address: int, size: int) -> bytes:
        """Return the bytes up to a NUL.  Handlers may call it: MemoryFault."""

    # ---- coverage
    def cover(self, *, of_kernel: bool) -> None:
        """Begin to record coverage; ValueError: it is recorded, or cannot be."""

    def coverage(self) -> Report:
        """Return what was reached; ValueError: it is not recorded."""

    # ---- for debuggers
    def debugged(self) -> Debugged:
        """Return the kernel as debuggers see it."""

    def vmcoreinfo(self) -> bytes:
        """Return what a Linux kernel says of itself for dumps; b"" of the guest's."""

    def images(self) -> list[Image]:
        """Return the kernel and its modules, if their files have debug information."""

    # ---- probes
    def probe(self, asked: ProbeDefinition) -> Probe:
        """Register a kprobe or a return probe."""


def keep(session: Session) -> Callable[[], None]:
    """See kpfs.gdb.debugged.Debugged.keep()."""
    if not session.quiet:
        raise KernelError(errno.EOPNOTSUPP, "only a quiet kernel can go back")
    try:
        snapshot = session.snapshot()
    except (TypeError, ValueError) as error:
        raise KernelError(errno.EBUSY, str(error)) from error
    except OSError as error:
        raise KernelError(error.errno or errno.EIO, str(error)) from error
    return lambda: session.restore(snapshot)


def os_error(refused: KernelError | MemoryFault, path: str = "") -> OSError:
    """Return the OSError for a refusal, with its reason behind the errno's text."""
    import re

    if isinstance(refused, MemoryFault):
        refused = KernelError(errno.EFAULT, str(refused))
    why = re.sub(_CALL, "", refused.why)
    text = os.strerror(refused.errno)
    if why not in ("", "failed", path, f"/{path}"):
        text = f"{text}: {why}"
    return OSError(refused.errno, text, path) if path else OSError(refused.errno, text)
