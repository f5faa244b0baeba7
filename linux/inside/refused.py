# SPDX-License-Identifier: GPL-2.0-or-later
"""Notes what a command has written to files of the kernel's own that refused it.

Also which of them could not be opened, which folders not be made or removed, and what
perf's events refused.  The board stops behind the calls by which a write or an open
returns, if that is an error.  The rest is read from the task's memory:
what its program had in its registers, and where the file is.  So a write that succeeds
costs nothing.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import MemoryFault
from kpfs.linux.inside.failed_call import FailedCall, Opened, Written
from kpfs.linux.memory.functions import returns_to
from kpfs.linux.memory.opened_paths import OpenedPaths
from kpfs.linux.memory.stack import stack_size

if TYPE_CHECKING:
    from kpfs.linux.running.kernel_on_board import KernelOnBoard

# Where a write or an open returns to: the functions that call it, and its names. A dot
# stands for what begins the names of functions of system calls.
_MKDIR, _RMDIR = "do_mkdirat filename_mkdirat", "do_rmdir filename_rmdir"
_RETURNS = {
    "write": ("ksys_write ksys_pwrite64 .pwrite64", "vfs_write"),
    "writev": ("do_writev", "vfs_writev"),
    "openat": (".openat", "do_sys_openat2"),
    "open": (".open", "do_sys_openat2"),
    "creat": (".creat", "do_sys_openat2"),
    "openat2": (".openat2 __do_sys_openat2", "do_sys_openat2"),
    "mkdir": (".mkdir", _MKDIR),
    "mkdirat": (".mkdirat", _MKDIR),
    "rmdir": (".rmdir", _RMDIR),
    "unlinkat": (".unlinkat", _RMDIR),  # with AT_REMOVEDIR
    "ioctl": ("perf_ioctl", "_perf_ioctl"),
}
_OF_CWD = "open", "creat", "mkdir", "rmdir"  # calls without a folder's descriptor
# of perf's events: include/uapi/linux/perf_event.h
_SET_FILTER = 0x40082406
_IOCTLS = {
    0x2400: "ENABLE",
    0x2401: "DISABLE",
    0x2402: "REFRESH",
    0x2403: "RESET",
    0x2405: "SET_OUTPUT",
    0x40042408: "SET_BPF",
    _SET_FILTER: "SET_FILTER",
    0x40082404: "PERIOD",
    0x40042409: "PAUSE_OUTPUT",
    0xC008240A: "QUERY_BPF",
}
# errors that tell of no refusal: a pipe is full or closed, a signal has come
_NO_REFUSALS = {errno.EAGAIN, errno.EINTR, errno.EPIPE, *range(512, 517)}
TRACEFS = "/sys/kernel/tracing/"
_IN_DEBUGFS = "/sys/kernel/debug/tracing/"  # the same, which the kernel mounts there
_MEMORY = "/dev/mem", "/dev/port", "/proc/kcore"
_ROOTS = "/sys/", "/proc/sys/", *_MEMORY  # begin the paths of the kernel's own files
# and of those that programs miss if they cannot read them
_MISSED = TRACEFS, "/sys/kernel/debug/", "/sys/kernel/security/", *_MEMORY
# what the calls do that make or remove folders
_OF_FOLDERS = {
    "mkdir": "mkdir",
    "mkdirat": "mkdir",
    "rmdir": "rmdir",
    "unlinkat": "rmdir",
}
READS, _ACCESS = "O_RDONLY", ("O_RDONLY", "O_WRONLY", "O_RDWR")
_MAX_PATH = 128
_MAX_WRITTEN = 80  # bytes that are told
_INT = 0xFFFFFFFF
_MAX_LOGGED = 64  # rows of the log, of which the kernel keeps 8


class Refused:
    """Knows what the running task has asked for when a write or an open has failed.

    Context: the board has stopped at one of places.
    """

    def __init__(self, kernel: KernelOnBoard) -> None:
        self._kernel, self._board = kernel, kernel.machine.board
        self._memory, self._symbols = kernel.memory, kernel.symbols
        self._program = kernel.memory.of_program
        arch = kernel.arch
        self.places: dict[int, str] = {}  # by address: the name of the call
        for call, (callers, callees) in _RETURNS.items():
            names = callers.replace(".", arch.syscall_prefix)
            for callee in callees.split():
                for at in self._returns_to(names, callee):
                    self.places[at] = call
        self._logged = 0  # time of the last row of error_log that was seen

    def _returns_to(self, callers: str, callee: str) -> list[int]:
        kernel, memory = self._kernel, self._kernel.saved_memory
        with contextlib.suppress(MemoryFault):
            return [
                *returns_to(memory, self._symbols, kernel.arch.name, callers, callee)
            ]
        return []

    def rows(self) -> list[tuple[int, int]]:
        """Return what CallStops.set() wants."""
        return [(at, abi.FAILED) for at in self.places]

    def call(self, at: int) -> FailedCall | None:
        """Return the call that has failed, None if it concerns no file of interest.

        Raises MemoryFault, KernelError.
        """
        board = self._board
        error = -board.read_reg(board.arch.result) & _INT
        if error in _NO_REFUSALS:
            return None
        stack = board.read_reg(board.arch.stack_pointer)
        name = self.places[at]
        asked = self._asked(name, self._arguments(stack - 1), stack - 1)
        if asked is None:
            return None
        log: tuple[str, ...] = ()
        with contextlib.suppress(MemoryFault):  # that log may not have been set up
            log = self._log_of(asked)
        return asked._replace(error=error, log=log)

    def _asked(self, name: str, given: list[int], stack: int) -> FailedCall | None:
        if name.startswith("write"):
            return self._write(name, given, stack)
        if name == "ioctl":
            return self._ioctl(given)
        if name in _OF_CWD:
            given = [nr.AT_FDCWD & _INT, *given]
        path = self._path(given, stack)
        if path is None:
            return None
        if name in _OF_FOLDERS:
            if not path.startswith(_ROOTS):
                return None
            return FailedCall(_OF_FOLDERS[name], (Opened(_shown(path), ""),))
        return self._open(name, given, path)

    def _arguments(self, stack: int) -> list[int]:
        """Return the first arguments that a program has made a call with."""
        arch, size = self._kernel.arch, self._kernel.structures["pt_regs"].size
        size = size or arch.regs_size
        end = (stack | stack_size(arch.model) - 1) + 1
        raw = self._memory.read(arch.program_registers(end, size, self._memory), size)
        return [
            arch.model.number(raw[offset : offset + arch.model.long])
            for offset in arch.syscall_arguments
        ]

    def _files(self) -> OpenedPaths:
        return OpenedPaths(self._memory, self._symbols, self._kernel.structures)

    def _write(self, name: str, given: list[int], stack: int) -> FailedCall | None:
        fd, at, size = given[:3]
        files = self._files()
        path = files.path_of(files.task_on(stack), fd & _INT)
        if not path:
            return None
        long = self._program.model.long
        if name == "writev":
            at, size = self._program.word(at), self._program.word(at + long)
        text = self._program.read(at, min(size, _MAX_WRITTEN)).decode("latin-1").strip()
        return FailedCall("write", (Written(_shown(path), text),))

    def _path(self, given: list[int], stack: int) -> str | None:
        folder, path = given[0] & _INT, self._program.string(given[1], _MAX_PATH)
        if path.startswith("/") and not path.startswith(_ROOTS):
            return None  # as of most that are only looked for
        return self._absolute(path, folder, stack)

    def _open(self, name: str, given: list[int], path: str) -> FailedCall | None:
        flags = os.O_WRONLY
        if name != "creat":
            flags = self._program.word(given[2]) if name == "openat2" else given[2]
        access = _ACCESS[min(flags & os.O_ACCMODE, 2)]
        if not path.startswith(_MISSED if access == READS else _ROOTS):
            return None
        return FailedCall("open", (Opened(_shown(path), access),))

    def _ioctl(self, given: list[int]) -> FailedCall:
        _, command, at = given[:3]
        name = _IOCTLS.get(command & _INT, "")
        words = [f"PERF_EVENT_IOC_{name}" if name else f"{command & _INT:#x}"]
        if command & _INT == _SET_FILTER:
            words.append(repr(self._program.string(at, _MAX_WRITTEN)))
        return FailedCall("ioctl", tuple(words))

    def _absolute(self, path: str, folder: int, stack: int) -> str:
        if not path.startswith("/"):
            files = self._files()
            task = files.task_on(stack)
            is_here = folder == nr.AT_FDCWD & _INT
            start = files.directory(task) if is_here else files.path_of(task, folder)
            path = os.path.join(start or "/", path)
        return os.path.normpath(path)

    def _log_of(self, call: FailedCall) -> tuple[str, ...]:
        """Return what tracefs has first logged of a call, in memory as in error_log."""
        at, structures = self._symbols.address("global_trace"), self._kernel.structures
        array, row = structures["trace_array"], structures["tracing_log_err"]
        if call.name != "write" or not (at and array.has("err_log") and row.has("loc")):
            return ()
        word, since, first = self._memory.word, self._logged, 0
        long = self._memory.model.long
        head = last = at + array.at["err_log"]
        for _ in range(_MAX_LOGGED):
            last = word(last + long)  # list_head.prev
            time = word(last - row.at["list"] + row.at["info.ts"])
            if last == head or time <= since:
                break
            first, self._logged = last - row.at["list"], max(self._logged, time)
        if not first:
            return ()
        number = self._memory.read(first + row.at["info.type"], 1)[0]
        text = word(word(first + row.at["info.errs"]) + long * number)
        place = self._memory.string(first + row.at["loc"], _MAX_PATH)
        return (place + self._memory.string(text, _MAX_PATH),)


def _shown(path: str) -> str:
    """Return the path of a file as it is told: that in tracefs is short."""
    if path.startswith(_IN_DEBUGFS):
        path = TRACEFS + path.removeprefix(_IN_DEBUGFS)
    return path.removeprefix(TRACEFS)
