# SPDX-License-Identifier: GPL-2.0-or-later
"""The files of a kernel that has a command inside, for another process of this host.

Only programs inside see that kernel's files.  So a task of kpfs in the kernel reads and
writes them for whoever is at the other end of a socket: kpfs.inside.files.  Requests
are taken between the turns of the kernel, and none is waited for, so that the command
goes on.  Probes do not see that task.  Files of machine/ are read out of the kernel's
memory.  A message is a line of JSON; there is one request at a time.
"""

from __future__ import annotations

import errno
import json
import os
import select
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from kpfs.backends.linux.machine_info import LinuxMachineInfo
from kpfs.backends.linux.tree import DIRENTS_SIZE, OwnFiles, guest_path
from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError
from kpfs.fs.node import names_of
from kpfs.linux.memory.memory import looking
from kpfs.linux.running import syscalls
from kpfs.linux.running.machine import FINALLY, STOP, Op, Out, Reply, Result

if TYPE_CHECKING:
    from kpfs.linux.inside.mounted import PreparedKernel
    from kpfs.linux.running.linux_kernel import LinuxKernel

# reads for an answer, and their bytes: most files of Linux give a page at a time
READS, PIECE = 20, 6 << 10
FIRST = 3  # reads for the answer that opens a file
UNREAD = 1 << 20  # bytes of an answer that nobody has to be reading yet
_SERVED = "text", "probes", "lost", "stats"  # files of machine/ that only tell


class InsideFiles:
    """Serves files of a kernel.  Context: the thread of its loop."""

    def __init__(self, kernel: PreparedKernel, channel: socket.socket) -> None:
        self._channel = channel
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNREAD)
        self._kernel, self._loop, self._input = kernel, kernel.loop, b""
        self._worker = kernel.loop.agent.fork("kpfs-page")
        self._number = 0  # that the request came with
        like = cast("LinuxKernel", kernel)  # as far as files go that only tell
        self._own = OwnFiles(like, LinuxMachineInfo(like, lambda _pid: b""))
        self._loop.watch(channel.fileno(), select.POLLIN, self._listen)

    def _listen(self) -> None:
        data = b""
        try:
            data = self._channel.recv(1 << 16)
        except OSError:
            pass
        if not data:
            self._loop.unwatch(self._channel.fileno())
            return
        self._input += data
        if self._input.endswith(b"\n"):
            asked, self._input = json.loads(self._input), b""
            try:
                self._begin(asked)
            except KernelError as error:
                self._answer({"error": error.errno})

    def _answer(self, answer: dict[str, Any]) -> None:
        try:
            line = json.dumps(answer | {"number": self._number})
            self._channel.sendall(line.encode() + b"\n")
        except OSError:
            self._loop.unwatch(self._channel.fileno())

    def _begin(self, asked: dict[str, Any]) -> None:
        """Begin what is asked for: to write, read or list a path, or to go on."""
        path, self._number = asked["path"], asked["number"]
        if path.startswith("machine/"):
            self._answer({"data": self._told(path), "end": True})
        elif path == "kallsyms":
            self._answer({"data": self._symbols(), "end": True})
        elif "text" in asked:
            self._write(guest_path(path), asked["text"].encode())
        elif asked.get("list"):
            self._list(guest_path(path))
        elif "fd" in asked:
            self._read(asked, asked["fd"], [])
        elif "close" in asked:
            close = [Op(nr.CLOSE, (asked["close"],))]
            self._request(close, lambda _reply: self._answer({}))
        else:
            flags = os.O_RDONLY | os.O_CLOEXEC
            place = nr.AT_FDCWD, guest_path(path), flags, 0
            self._read(asked, -1, [Op(nr.OPENAT, place, STOP)])

    def _told(self, path: str) -> str:
        """Return the contents of a file of machine/, or the names in a directory."""
        node = self._own.find(path) if path.split("/")[1] in _SERVED else None
        if node is None:
            raise KernelError(errno.ENOENT, path)
        try:
            file = self._own.open(node, os.O_RDONLY, 0)
        except KernelError as error:
            if error.errno != errno.EISDIR:
                raise
            return "\n".join(name for name, _ in names_of(node))
        data = bytearray()
        while piece := file.read(UNREAD, len(data)):
            data += piece
        file.release()
        return data.decode(errors="replace")

    def _symbols(self) -> str:
        """Return kallsyms: the kernel takes 2 s for it, and its own part is known."""
        kernel = self._kernel
        rows = [*kernel.symbols.rows()]
        with looking():
            for module in kernel.modules():
                rows += [(each.addr, each.type, each.name) for each in module.rows]
        return "".join(f"{addr:016x} {kind} {name}\n" for addr, kind, name in rows)

    # ---- in the kernel
    def _request(self, ops: list[Op], then: Callable[[Reply], None]) -> None:
        """Make system calls, and call then(reply) when they have been made."""
        worker = self._worker

        def done() -> None:
            reply = Reply(self._loop.machine, worker.slot, places, len(ops))
            try:
                then(reply)
            except KernelError as error:
                self._answer({"error": error.errno})

        places = worker.start(ops, done)

    def _write(self, path: bytes, data: bytes) -> None:
        ops = [
            Op(nr.OPENAT, (nr.AT_FDCWD, path, os.O_WRONLY | os.O_APPEND, 0), STOP),
            Op(nr.WRITE, (Result(0), data, len(data))),
            Op(nr.CLOSE, (Result(0),), FINALLY),
        ]

        def written(reply: Reply) -> None:
            opened, wrote, _ = reply.results
            self._answer({"error": -min(opened, wrote, 0)})

        self._request(ops, written)

    def _list(self, path: bytes) -> None:
        flags = os.O_RDONLY | nr.O_DIRECTORY
        entries = Result(0), Out(DIRENTS_SIZE), DIRENTS_SIZE
        ops = [
            Op(nr.OPENAT, (nr.AT_FDCWD, path, flags, 0), STOP),
            Op(nr.GETDENTS64, entries),
            Op(nr.CLOSE, (Result(0),), FINALLY),
        ]

        def listed(reply: Reply) -> None:
            opened, size, _ = reply.results
            if min(opened, size) < 0:
                self._answer({"error": -min(opened, size)})
                return
            found = syscalls.read_dirents(reply.out(1, size), reply.model)
            names = "\n".join(name for name, _ in found if name not in (".", ".."))
            self._answer({"data": names, "end": True})

        self._request(ops, listed)

    def _read(self, asked: dict[str, Any], fd: int, ops: list[Op]) -> None:
        """Read on in a file that is open, or that the operations open."""
        source, begin = Result(0) if ops else fd, len(ops)
        reads = FIRST if ops else READS
        ops += [Op(nr.READ, (source, Out(PIECE), PIECE))] * reads

        def came(reply: Reply) -> None:
            opened = reply.results[0] if begin else fd
            sizes = reply.results[begin:]
            if opened < 0:
                self._answer({"error": -opened})
                return
            # in memory the path is the first argument, if there is one
            pieces = [
                reply.out(begin + i, size) for i, size in enumerate(sizes) if size > 0
            ]
            ends = any(size <= 0 for size in sizes)
            text = b"".join(pieces).decode("latin-1")
            answer = {"data": text, "fd": opened, "end": ends}
            if not pieces and min(sizes) < 0:
                answer = {"error": -min(sizes)}
            if ends and not asked.get("keep"):
                close = [Op(nr.CLOSE, (opened,))]
                self._request(close, lambda _reply: self._answer(answer))
            else:
                self._answer(answer)

        self._request(ops, came)
