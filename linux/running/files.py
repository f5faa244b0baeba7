# SPDX-License-Identifier: GPL-2.0-or-later
"""Files that host processes have opened, with each task's descriptors in the kernel."""

from __future__ import annotations

import errno
import os
import re

from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError
from kpfs.linux.running.linux_kernel import LinuxKernel
from kpfs.linux.running.machine import FINALLY, STOP, MachineDiedError, Op, Out, Result
from kpfs.linux.running.ready import ReadyReader
from kpfs.linux.running.tasks import AgentTask

# A writer that asks for its position in one of these sets it to 0, so that the word
# of which it has written a part is forgotten.  Kernel: tracing_lseek()
NOT_ASKED = re.compile(
    rb"/(set_ftrace_(filter|notrace|pid|notrace_pid)|set_graph_(function|notrace)"
    rb"|stack_trace_filter)\0?$"
)
OUT_OF_THE_WAY = 500  # hardly any process has this descriptor
PIPE_SIZE = 65536  # bytes that a pipe takes
_FDS = "2i"


class MountedFile:
    """A file that was opened through the mount, and its descriptors in the kernel."""

    constant = sleeps = False  # see kpfs.fs.tree.OpenFile

    def __init__(self, flags: int, task: AgentTask, fd: int) -> None:
        self.flags = flags
        self.owner = task
        self.fds = {task: fd}
        self.pos = 0  # position of the kernel's file
        self.seekable = True
        self.may_ask = True  # for the kernel's position
        self.can_wait = True  # it may have a poll() that does not say "ready" at once
        self.ready: ReadyReader | None = None  # reads a text that is kept

    def set_flags(self, flags: int) -> None:
        """Note which of the flags are set that fcntl(2) can set."""
        self.flags ^= (self.flags ^ flags) & nr.SETFL_MASK

    @property
    def nonseekable(self) -> bool:
        return not self.seekable


class OpenFiles:
    """The open files of one kernel.  Context: the kernel's lock is held."""

    def __init__(self, kernel: LinuxKernel) -> None:
        self.kernel = kernel
        self.opened: dict[MountedFile, None] = {}  # in order

    def open(self, task: AgentTask, path: bytes, flags: int, mode: int) -> MountedFile:
        """Open a path, which ends with a 0, as a task."""
        open_it = Op(nr.OPENAT, (nr.AT_FDCWD, path, flags, mode), STOP)
        seek = Op(nr.LSEEK, (Result(0), 0, nr.SEEK_CUR))
        fd, at = self.kernel.tasks.request(task, [open_it, seek]).results
        if fd < 0:
            raise KernelError(-fd, "openat")
        opened = MountedFile(flags, task, fd)
        opened.seekable = at != -errno.ESPIPE
        if flags & os.O_ACCMODE == os.O_WRONLY:
            opened.may_ask = not NOT_ASKED.search(path)
        elif flags & os.O_ACCMODE == os.O_RDONLY:
            opened.ready = self.kernel.ready.reader(path.rstrip(b"\0"))
        self.opened[opened] = None
        return opened

    def check(self, opened: MountedFile) -> None:
        """Raises MachineDiedError if the file was opened in a machine that is gone."""
        if opened.owner.machine is not self.kernel.machine:
            raise MachineDiedError("it was opened in a machine that is gone")

    def descriptor_of(self, task: AgentTask, opened: MountedFile) -> int:
        fd = opened.fds.get(task)
        if fd is None:
            fd = opened.fds[task] = self.borrow(task, opened)
        return fd

    def borrow(self, task: AgentTask, opened: MountedFile) -> int:
        """Give a task another task's open file; return the new descriptor."""
        owner = next((t for t in opened.fds if not t.gone), opened.owner)
        reply = self.kernel.tasks.call(
            task,
            Op(nr.PIDFD_OPEN, (owner.pid, 0), STOP),
            Op(nr.PIDFD_GETFD, (Result(0), opened.fds[owner], 0), STOP),
            Op(nr.CLOSE, (Result(0),), FINALLY),
        )
        return reply.results[1]

    def inherit(self, parent: AgentTask, child: AgentTask) -> None:
        """Note that a forked child has its parent's descriptors."""
        for opened in list(self.opened):
            if parent in opened.fds:
                opened.fds[child] = opened.fds[parent]

    def holds(self, task: AgentTask, fd: int) -> bool:
        """Return True if a file of the mount is a task's descriptor fd."""
        return any(opened.fds.get(task) == fd for opened in self.opened)

    def make_room(self, task: AgentTask, fd: int) -> None:
        """Move any file of the mount away from a task's descriptor fd."""
        for opened in list(self.opened):
            if opened.fds.get(task) == fd:
                move = Op(nr.FCNTL, (fd, nr.F_DUPFD, OUT_OF_THE_WAY), STOP)
                reply = self.kernel.tasks.call(task, move, Op(nr.CLOSE, (fd,)))
                opened.fds[task] = reply.results[0]

    def seek(self, task: AgentTask, opened: MountedFile, fd: int, offset: int) -> None:
        """Set the kernel's file position to the host's."""
        if offset != opened.pos:
            self.kernel.tasks.call(task, Op(nr.LSEEK, (fd, offset, nr.SEEK_SET)))
            opened.pos = offset

    def read(
        self, task: AgentTask, opened: MountedFile, size: int, offset: int
    ) -> bytes:
        """Read a file at an offset, as a task that has it open."""
        fd = self.descriptor_of(task, opened)

        def real(at: int, count: int) -> bytes:
            if count:  # without it the kernel need not seek, which may take long
                self.seek(task, opened, fd, at)
            reply = self.kernel.tasks.call(task, Op(nr.READ, (fd, Out(count), count)))
            data = reply.out(0, reply.results[0])
            if count:
                opened.pos = at + len(data)
            return data

        if opened.ready is None:
            return real(offset, size)
        return opened.ready.read(offset, size, real)

    def splice_from(
        self, task: AgentTask, opened: MountedFile, size: int, offset: int, flags: int
    ) -> bytes:
        """Splice from a file at an offset to a pipe, and return what came there."""
        fd = self._seek_task(task, opened, offset)
        size = min(size, PIPE_SIZE)
        source, target = self._pipe(task)
        reply = self.kernel.tasks.call(
            task,
            Op(nr.SPLICE, (fd, 0, target, 0, size, flags), STOP),
            Op(nr.CLOSE, (target,), FINALLY),  # so that an empty pipe is at its end
            Op(nr.READ, (source, Out(size), size), STOP),
            Op(nr.CLOSE, (source,), FINALLY),
        )
        data = reply.out(0, reply.results[2])
        opened.pos = offset + len(data)
        return data

    def splice_into(
        self, task: AgentTask, opened: MountedFile, data: bytes, offset: int
    ) -> int:
        """Splice from a pipe into a file at an offset; return the bytes taken."""
        fd = self._seek_task(task, opened, offset)
        data = data[:PIPE_SIZE]
        source, target = self._pipe(task)
        reply = self.kernel.tasks.call(
            task,
            Op(nr.WRITE, (target, data, len(data)), STOP),
            Op(nr.CLOSE, (target,), FINALLY),
            Op(nr.SPLICE, (source, 0, fd, 0, len(data), 0), STOP),
            Op(nr.CLOSE, (source,), FINALLY),
        )
        taken = reply.results[2]
        if taken > len(data):
            raise KernelError(errno.EIO, f"{taken} bytes of {len(data)}")
        opened.pos = offset + taken
        return taken

    def _seek_task(self, task: AgentTask, opened: MountedFile, offset: int) -> int:
        """Return a task's descriptor, which is at an offset now."""
        fd = self.descriptor_of(task, opened)
        self.seek(task, opened, fd, offset)
        return fd

    def _pipe(self, task: AgentTask) -> tuple[int, int]:
        """Make a pipe for a moment; return a task's descriptors of its ends."""
        pair = self.kernel.arch.model.struct(_FDS)
        made = self.kernel.tasks.call(task, Op(nr.PIPE2, (Out(pair.size), 0)))
        ends: tuple[int, int] = pair.unpack(made.out(0, pair.size))
        return ends

    def close(self, opened: MountedFile) -> None:
        """Close every task's descriptor; a waiting task's after it has woken."""
        del self.opened[opened]
        for task, fd in opened.fds.items():
            machine = self.kernel.machine
            if task.gone or machine.dead or task.machine is not machine:
                continue
            if task.waits:
                task.later.append(Op(nr.CLOSE, (fd,)))
            else:
                task.closing = []
                try:
                    self.kernel.tasks.request(task, [Op(nr.CLOSE, (fd,))])
                finally:
                    task.closing = None
