# SPDX-License-Identifier: GPL-2.0-or-later
"""CMD's system calls made in a real kernel: what Replayer is for our own guest.

The guest's tasks have the descriptors that their processes have, opened under the same
names: what a call needs of the host's files is made in the guest first, without their
contents.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
import struct
from typing import NamedTuple

from kpfs.base import abi
from kpfs.base.errors import KernelError
from kpfs.fs.tree import Writers
from kpfs.linux.running import syscalls as nr
from kpfs.linux.running.files import OpenFile, OpenFiles
from kpfs.linux.running.linux_kernel import LinuxKernel
from kpfs.linux.running.machine import STOP, Argument, Op, Out, Place
from kpfs.linux.running.tasks import Task
from kpfs.mirror import calls as mirror_calls
from kpfs.mirror.answered import LinuxAnsweredCalls
from kpfs.mirror.host import AT_FDCWD, Host, trees_of
from kpfs.mirror.instead import NR_UNAME, UTS_FIELDS, UTS_LENGTH, Instead
from kpfs.mirror.left_out import LeftOut
from kpfs.mirror.linux_tasks import HostFile, LinuxTasks
from kpfs.mirror.plan import Plan
from kpfs.mirror.seccomp import Notification
from kpfs.mirror.supervisor import Replayed, Supervisor, await_listener, settled
from kpfs.mirror.write import NAMES, Commit, read_call, take

log = logging.getLogger(__name__)

OUT_MAX = abi.DATA_SIZE - abi.USER_BUFFER  # bytes that a call can write
GUESTS_FIELDS = (0, 2, 3, 4)  # of uname(2): sysname, release, version, machine
_IOV = struct.Struct("<2Q")
# which argument of a call says how much it writes to its memory
_SIZES = {0: 2, 17: 2, 78: 2, 217: 2, 79: 1, 89: 2, 267: 3}
_CHANGE_DIRECTORY = frozenset((nr.CHDIR, nr.FCHDIR))
_PATH_KINDS = frozenset(("path", "link_path", "old_path", "entry", "read_link"))


class Needs(NamedTuple):
    """What a call finds on the host."""

    fds: list[tuple[int, HostFile]]
    names: list[HostFile]
    in_tree: bool  # a descriptor of a file of the mount


class LinuxReplayer:
    """Makes a host's system call in a real kernel."""

    def __init__(
        self,
        kernel: LinuxKernel,
        files: OpenFiles,
        host: Host,
        writers: Writers,
        instead: Instead,
        *,
        lazy: bool = False,
    ) -> None:
        """writers: what the mount asks at each write; instead: answers for the host.

        lazy: calls that nobody would see in the guest are not made there.
        """
        self.answered = LinuxAnsweredCalls(kernel, host, instead.listener)
        self.kernel = kernel
        self.files = files
        self.writers = writers
        self.host = host
        with kernel.lock:
            self.tasks = LinuxTasks(kernel, files, host.another())
        self.lazy = lazy
        kept = mirror_calls.ANSWERED
        self.left_out = LeftOut(self.tasks, host, self.write, instead, kept)

    def skip(self, note: Notification) -> bool:
        """See kpfs.mirror.replayer.Replayer.skip()."""
        kernel = self.kernel
        if not self.lazy or (kernel.lock.taken() and not kernel.is_sure):
            return False
        return not kernel.watched and self.left_out.skip(note)

    def __call__(self, note: Notification, commit: Commit) -> Replayed:
        """See kpfs.mirror.supervisor.Replay.  Context: the lock is not held."""
        number, pid = note.nr, note.pid
        if number in mirror_calls.ANSWERED:
            return self.answered(note, commit, self.tasks.task)
        if self.lazy and not self.kernel.watched:
            return self.left_out.make(note, commit)
        try:
            plan = mirror_calls.plan_call(self.host, note)
        except mirror_calls.NotMirrored:
            value = self.write(note, commit) if number in NAMES else None
            if value is None:
                with self.kernel.lock:
                    self.tasks.task(pid)
            return value
        needs = self.needs(note, plan)
        with self.kernel.lock:
            task = self.tasks.task(pid)
            if number in mirror_calls.EXITS:
                self.tasks.exit(task, note.args[0])
            else:
                self.make(task, note.nr, plan, needs)
        if number in mirror_calls.EXECS:
            self.left_out.executes(pid)
        elif number in mirror_calls.EXITS:
            self.left_out.forget(pid)
        return self.left_out.answer(note, commit, plan.text)

    # ---- calls
    def make(self, task: Task, number: int, plan: Plan, needs: Needs) -> None:
        """Have a task make a call."""
        if needs.in_tree or plan.mount:
            return
        call = mirror_calls.CALLS[number]
        tasks = self.tasks
        if plan.cwd and tasks.cwd.get(task) != plan.cwd:
            tasks.enter(task, plan.cwd)
        for fd, file in needs.fds:
            tasks.provide(task, fd, file)
        for file in needs.names:
            tasks.make_path(file)
        if plan.spare_fd >= 0:  # of the host's; the guest's is another file
            self.files.make_room(task, plan.spare_fd)
        op = Op(plan.nr, tuple(self.arguments(plan)))
        memory = self.memory(task, plan)
        made = self.attempt(task, op, memory)
        fds = tasks.open.setdefault(task, set())
        tasks.same.pop(task, None)
        if made >= 0 and (call.new_fds or plan.new_fds):
            fds.update(self.place_new(task, made, plan))
        elif made >= 0 and plan.spare_fd >= 0:
            (fds.discard if number == nr.CLOSE else fds.add)(plan.spare_fd)
        elif number in _CHANGE_DIRECTORY:
            tasks.cwd.pop(task, None)  # it is another; which one, the host will say

    def attempt(self, task: Task, op: Op, memory: bytes) -> int:
        """Make a call, which is not to wait; what it returns."""
        results = self.kernel.attempt(task, [op], memory)
        return results[0] if results else -errno.EINTR

    def arguments(self, plan: Plan) -> list[Argument]:
        """The plan's, with what the call writes kept within the slot."""
        values: list[Argument] = []
        for number, value in enumerate(plan.args):
            values.append(Place(value) if plan.pointers >> number & 1 else value)
        size = _SIZES.get(plan.nr)
        if size is not None and size < len(values):
            there = plan.count if plan.nr in (nr.READ, nr.PREAD64) else OUT_MAX
            values[size] = min(plan.args[size], there, OUT_MAX)
        return values

    def memory(self, task: Task, plan: Plan) -> bytes:
        memory = plan.memory
        base = self.kernel.machine.address(task.slot, 0)
        for at in plan.relocations:
            word = int.from_bytes(memory[at : at + 8], "little") + base
            memory[at : at + 8] = word.to_bytes(8, "little")
            if plan.nr == nr.READV:  # behind the address: the room there
                size = int.from_bytes(memory[at + 8 : at + 16], "little")
                memory[at + 8 : at + 16] = min(size, OUT_MAX).to_bytes(8, "little")
        return bytes(memory[: abi.DATA_SIZE])

    def place_new(self, task: Task, made: int, plan: Plan) -> list[int]:
        """See to it that a new descriptor has the host's number."""
        wanted = plan.new_fds[:1]
        if plan.nr in (22, 293) or not wanted or wanted[0] == made:
            return [made]
        self.files.make_room(task, wanted[0])
        move = [Op(nr.DUP3, (made, wanted[0], 0), STOP), Op(nr.CLOSE, (made,))]
        self.kernel.attempt(task, move)
        return wanted

    # ---- what a call finds
    def needs(self, note: Notification, plan: Plan) -> Needs:
        """What the host has.  Context: without the lock, as it may be in the mount."""
        fds = []
        for fd, mode in plan.fds:
            path = self.host.fd_path(note.pid, fd) or b""
            if self.host.in_tree(path):
                return Needs([], [], True)  # its descriptor may have another number
            if not path.startswith(b"/") or path.startswith(b"/dev/"):
                path = b"/dev/zero"  # a pipe, a socket, a terminal
            fds.append((fd, HostFile(path, mode, _size(path, mode))))
        return Needs(fds, self.names(note, plan) if plan.names else [], False)

    def names(self, note: Notification, plan: Plan) -> list[HostFile]:
        """The files that the call's paths lead to."""
        kinds = mirror_calls.CALLS[note.nr].args
        modes, dirfd, found = iter(plan.names), AT_FDCWD, []
        for kind, value in zip(kinds, note.args, strict=False):
            if kind == "at":
                dirfd = value - (1 << 32) if value >> 31 & 1 else value
            if kind not in _PATH_KINDS:
                continue
            text = self.host.string(note.pid, value)
            _, mode = next(modes, (0, 0))
            if text:
                place = os.path.normpath(self.absolute(note.pid, dirfd, text))
                if not mode:  # there is none, but perhaps the directory to make it in
                    place = os.path.dirname(place)
                    mode = stat.S_IFDIR if os.path.isdir(place) else 0
                if mode and not self.host.in_tree(place):
                    found.append(HostFile(place, mode, _size(place, mode)))
            dirfd = AT_FDCWD
        return found

    def absolute(self, pid: int, dirfd: int, text: bytes) -> bytes:
        if text.startswith(b"/"):
            return text
        base = self.host.cwd(pid) if dirfd == AT_FDCWD else b""
        base = base or self.host.fd_path(pid, dirfd) or b"/"
        return os.path.join(base, text)

    # ---- writes to the mount's files
    def write(self, note: Notification, commit: Commit) -> int | None:
        """Make a write; None if the caller's own is to go on."""
        call = read_call(self.host, note)
        fd = self.host.take_writable(note.pid, note.args[0]) if call else -1
        if call is None or fd < 0:
            return None

        def in_place(files: OpenFiles, opened: OpenFile) -> int:
            moves = call.name != "pwrite64" and opened.seekable
            before = os.lseek(fd, 0, os.SEEK_CUR) if moves else 0
            with self.kernel.lock:
                if not commit():
                    raise KernelError(3, f"{note.pid} is gone")
                task = self.tasks.task(note.pid)
                number = files.descriptor_of(task, opened)
                if moves:
                    files.seek(task, opened, number, before)
                op = self.write_op(task, number, call.name, call.data, call.sizes)
                if call.name == "pwrite64":
                    op = Op(nr.PWRITE64, (number, call.data, len(call.data), call.pos))
                reply = self.kernel.request(
                    task, [op, Op(nr.LSEEK, (number, 0, nr.SEEK_CUR))]
                )
                taken, after = reply.results
                if moves and after >= 0:
                    opened.pos = after
            if moves and after not in (before, -29):
                with contextlib.suppress(OSError):
                    os.lseek(fd, after, os.SEEK_SET)
            if taken < 0:
                raise KernelError(-taken, "the guest")
            return taken

        try:
            return take(self.writers, in_place, fd, call)
        finally:
            os.close(fd)

    def write_op(
        self, task: Task, fd: int, name: str, data: bytes, sizes: list[int]
    ) -> Op:
        if name != "writev":
            return Op(nr.WRITE, (fd, data, len(data)))
        head = _IOV.size * len(sizes)
        at, words = self.kernel.machine.address(task.slot, head), b""
        for size in sizes:
            words += _IOV.pack(at, size)
            at += size
        return Op(nr.WRITEV, (fd, words + data, len(sizes)))


def _size(path: bytes, mode: int) -> int:
    """The size of a file of the host, 0 if it is none."""
    try:
        return os.stat(path).st_size if stat.S_ISREG(mode) else 0
    except OSError:
        return 0


def guest_names(kernel: LinuxKernel) -> dict[int, bytes]:
    """What uname(2) tells of the guest, by field."""
    size = UTS_LENGTH * UTS_FIELDS
    with kernel.lock:
        reply = kernel.request(kernel.tasks.agent, [Op(NR_UNAME, (Out(size),))])
        raw = reply.out(0, size)
    fields = (raw[UTS_LENGTH * field :][:UTS_LENGTH] for field in range(UTS_FIELDS))
    names = dict(enumerate(field.split(b"\0")[0] for field in fields))
    return {field: names[field] for field in GUESTS_FIELDS}


def serve(
    kernel: LinuxKernel,
    files: OpenFiles,
    writers: Writers,
    channel: int,
    source: str,
    tree: str,
    *,
    host_uname: bool,
    lazy: bool,
) -> None:
    """Await a listener on a socket, and supervise: the body of a thread.

    source: what the mount table calls the mount; tree: where it is.
    host_uname: uname(2) tells of the host; lazy: see LinuxReplayer.
    """
    try:
        received = await_listener(channel)
        if received is None:
            return
        listener, state = received
        instead = Instead({} if host_uname else guest_names(kernel), tree)
        instead.listener = listener
        host = Host(trees_of(source))
        replayer = LinuxReplayer(kernel, files, host, writers, instead, lazy=lazy)
        Supervisor(listener, state, replayer, settled, replayer.skip).run()
    except Exception:
        log.exception("the supervisor of system calls failed")
