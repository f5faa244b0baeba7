# SPDX-License-Identifier: GPL-2.0-or-later
"""Make the calls of a command's processes by tasks of a Linux kernel.

The tasks have the descriptors that their processes have, opened under the same names.
If a call needs files of the host, they are made in the kernel first, without contents.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING

from kpfs.backends.linux.answered import LinuxAnsweredCalls
from kpfs.backends.linux.task_book import MAX_FD, HostFile, LinuxTaskBook
from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.data_model import LITTLE_64, DataModel
from kpfs.base.errors import KernelError
from kpfs.base.syscall_numbers import AT_FDCWD
from kpfs.base.units import UTS_LENGTH, WORD
from kpfs.linux.running.machine import STOP, Argument, Op, Out, SlotOffset
from kpfs.mirror import calls as mirror_calls
from kpfs.mirror.host import Host
from kpfs.mirror.host_overrides import UTS_FIELDS
from kpfs.mirror.plan import Plan
from kpfs.mirror.seccomp import Notification

if TYPE_CHECKING:
    from collections.abc import Callable

    from kpfs.fs.tree import WriteCall
    from kpfs.linux.running.files import MountedFile, OpenFiles
    from kpfs.linux.running.linux_kernel import LinuxKernel
    from kpfs.linux.running.tasks import AgentTask
    from kpfs.mirror.kernel import Commit, Replayed

_EVENTS = "/sys/kernel/tracing/set_event"  # those that are on
OUT_MAX = abi.DATA_SIZE - abi.USER_BUFFER  # bytes that a call can write
_SIGNALS = "misses signals of programs: without --inside, they are the host's"
# events that programs do not set off, and why
SILENT = {
    "sched_process_exec": "does not fire: without --inside, the kernel has no contents "
    "of programs, and execve(2) fails there after the look-up",
    "signal_generate": _SIGNALS,
    "signal_deliver": _SIGNALS,
    "page_fault_user": "misses programs: without --inside, their memory is the host's",
}
UTS_NAMES = (0, 2, 3, 4)  # fields of uname(2): sysname, release, version, machine
_IOV, _PAIR = "2L", "2i"
# numbers in what arguments of the host's calls point to: the argument, their form, and
# how many there are, or less the argument that says it
_STRUCTURES = {
    nr.OPENAT2: ((2, "3Q", 1),),
    nr.UTIMENSAT: ((2, "4q", 1),),
    nr.POLL: ((0, "ihh", -1),),
    nr.PPOLL: ((0, "ihh", -1),),
}
# the argument of a call that limits how much it writes to its memory
_SIZES = {
    nr.READ: 2,
    nr.PREAD64: 2,
    nr.GETDENTS: 2,
    nr.GETDENTS64: 2,
    nr.GETCWD: 1,
    nr.READLINK: 2,
    nr.READLINKAT: 3,
    nr.GETRANDOM: 1,
    nr.SCHED_GETAFFINITY: 1,
    nr.SCHED_GETATTR: 2,
    nr.GETXATTR: 3,
    nr.LGETXATTR: 3,
    nr.FGETXATTR: 3,
    nr.LISTXATTR: 2,
    nr.LLISTXATTR: 2,
    nr.FLISTXATTR: 2,
    nr.RECVFROM: 2,
}
_HOW = 2  # argument of openat2()
_PIPES = frozenset((nr.PIPE, nr.PIPE2))
_SOCKETS = frozenset((nr.SENDTO, nr.RECVFROM, nr.SHUTDOWN))
# calls that come back after a moment of the kernel's time, whatever else happens
_BRIEF = frozenset((nr.NANOSLEEP, nr.CLOCK_NANOSLEEP, nr.SYNC))
_CHANGE_DIRECTORY = frozenset((nr.CHDIR, nr.FCHDIR))
_PATH_KINDS = frozenset(("path", "link_path", "old_path", "entry", "read_link"))


class LinuxMirror:
    """Implements kpfs.mirror.kernel.MirroredKernel."""

    answered = mirror_calls.ANSWERED
    made = frozenset(mirror_calls.CALLS)

    def __init__(
        self,
        kernel: LinuxKernel,
        files: OpenFiles,
        host: Host,
        listener: int,
        tell: Callable[[str], object] = lambda _line: None,
    ) -> None:
        """listener: the supervisor's.  tell: tells the user something at the end."""
        self._tell = tell
        self._silent = dict(SILENT)  # those that nobody was told of
        self.kernel, self.lock = kernel, kernel.lock
        self.skip_policy = kernel.skip_policy
        self.files = files
        self.host = host
        self._answer = LinuxAnsweredCalls(kernel, host, listener)
        with kernel.lock:
            self.tasks = LinuxTaskBook(kernel, files, host)

    def uts_names(self) -> dict[int, bytes]:
        size = UTS_LENGTH * UTS_FIELDS
        with self.kernel.lock:
            uname = Op(nr.UNAME, (Out(size),))
            raw = self.kernel.tasks.call(self.kernel.tasks.agent, uname).out(0, size)
        fields = (raw[UTS_LENGTH * field :][:UTS_LENGTH] for field in UTS_NAMES)
        names = (field.partition(b"\0")[0] for field in fields)
        return dict(zip(UTS_NAMES, names, strict=True))

    def answer(self, note: Notification, commit: Commit) -> Replayed:
        return self._answer(note, commit, self.tasks.task)

    # ---- calls
    def make(self, note: Notification, plan: Plan) -> None:
        names = self.names(note, plan) if plan.nr_names else []
        if self.lock.taken():
            self.lock.hand_on()
        with self.lock:
            task = self.tasks.task(note.pid)
            if note.nr in mirror_calls.EXITS:
                self.tasks.exit(task, note.args[0])
            else:
                self.call(task, note.nr, plan, names)

    def call(
        self, task: AgentTask, number: int, plan: Plan, names: list[HostFile]
    ) -> None:
        """Have a task make a call.  names: the files that its paths lead to.

        Context: lock held.
        """
        if plan.of_mount or plan.mount:  # its descriptor may have another number
            return
        tasks, has = self.tasks, self.tasks.has[task]
        if number in _SOCKETS and plan.args[0] not in has.pairs:
            return  # its other end is the host's
        if plan.cwd and has.cwd != plan.cwd_text:
            tasks.enter(task, plan.cwd_text)
        if plan.nr_fds:
            self.provide(task, plan)
        if plan.watched:
            self.provide_watched(task, plan)
        for file in names:
            tasks.make_path(file)
        spare_fd = plan.spare_fd
        if spare_fd >= 0:  # the host's; the guest's is another file
            self.files.make_room(task, spare_fd)
        op = Op(number, tuple(self.arguments(number, plan)))
        memory = self.memory(task, plan)
        brief = number in _BRIEF
        results = self.kernel.tasks.attempt(task, [op], memory, brief=brief)
        made = results[0] if results else -errno.EINTR
        has.same = None
        if made >= 0:
            self.note_descriptors(task, made, plan)
        if number in _CHANGE_DIRECTORY:
            has.cwd = b""  # the host will say which one it is now
        elif number in mirror_calls.EXECS and self._silent:
            for event in self._awaited():
                self._tell(f"{event} {self._silent.pop(event)}")

    def note_descriptors(self, task: AgentTask, made: int, plan: Plan) -> None:
        """Note which descriptors a task has after a call, and give them their numbers.

        made: what the call has returned.
        """
        has, spare_fd = self.tasks.has[task], plan.spare_fd
        if plan.nr == nr.SOCKETPAIR:
            self.place_pair(task, plan)
        elif mirror_calls.CALLS[plan.nr].new_fds or plan.nr_new:
            has.open.update(self.place_new(task, made, plan))
        elif spare_fd >= 0:
            (has.open.discard if plan.nr == nr.CLOSE else has.open.add)(spare_fd)
            has.pairs.pop(spare_fd, None)

    def _awaited(self) -> list[str]:
        """Return which silent events somebody waits for."""
        kernel, names = self.kernel, list(self._silent)
        key = kernel.structures["tracepoint"].at.get("key")
        found = [kernel.symbols.address(f"__tracepoint_{name}") for name in names]
        if not any(found) or key is None:  # no symbols of data, or no BTF
            with contextlib.suppress(KernelError):
                lines = kernel.tasks.read_file(_EVENTS).decode("latin-1").split()
                on = {line.partition(":")[2] for line in lines}
                return [name for name in names if name in on]
            return []
        return [
            name
            for name, at in zip(names, found, strict=True)
            if at and kernel.memory.number(at + key, 4)  # static_key.enabled
        ]

    def arguments(self, number: int, plan: Plan) -> list[Argument]:
        """Return the plan's arguments; what the call writes stays within the slot."""
        args: list[int] = plan.args[: len(mirror_calls.CALLS[number].args)]
        size = _SIZES.get(number)
        if size is not None:
            there = plan.count if number in (nr.READ, nr.PREAD64) else OUT_MAX
            args[size] = min(args[size], there, OUT_MAX)
        pointers = plan.pointers
        if not pointers:
            return [*args]
        return [
            SlotOffset(value) if pointers >> index & 1 else value
            for index, value in enumerate(args)
        ]

    def memory(self, task: AgentTask, plan: Plan) -> bytes:
        if not plan.size:
            return b""
        memory = plan.memory
        base = self.kernel.machine.address(task.slot, 0)
        model = self.kernel.arch.model
        if plan.nr == nr.OPENAT2 and plan.pointers >> _HOW & 1:
            at = plan.args[_HOW]  # the flags are the first word of struct open_how
            flags = self.kernel.arch.open_flags(LITTLE_64.number(memory[at : at + 8]))
            memory[at : at + 8] = LITTLE_64.raw(flags, 8)
        for index, form, count in _STRUCTURES.get(plan.nr, ()):
            if model != LITTLE_64 and plan.pointers >> index & 1:
                form *= count if count > 0 else plan.args[-count]
                values = LITTLE_64.struct(form).unpack_from(memory, plan.args[index])
                model.struct(form).pack_into(memory, plan.args[index], *values)
        _relocate(plan, base, model)
        return bytes(memory[: abi.DATA_SIZE])

    def place_new(self, task: AgentTask, made: int, plan: Plan) -> list[int]:
        """Give a new descriptor the number that it has on the host."""
        wanted = plan.new_fds[:1]
        if plan.nr in _PIPES:  # a task reads and writes other files in their place
            return []
        if not wanted or wanted[0] == made:
            return [made]
        self.files.make_room(task, wanted[0])
        move = [Op(nr.DUP3, (made, wanted[0], 0), STOP), Op(nr.CLOSE, (made,))]
        self.kernel.tasks.attempt(task, move)
        return wanted

    def place_pair(self, task: AgentTask, plan: Plan) -> None:
        """Give two sockets that a call has made the numbers that they have on the host.

        They are moved out of the way first: one may have the number of the other.
        """
        memory = self.kernel.machine.memory(task.slot)
        pair = self.kernel.arch.model.struct(_PAIR)
        made = pair.unpack_from(memory, abi.USER_BUFFER)
        wanted = plan.new_fds
        if len(wanted) != len(made):
            return
        ops = [Op(nr.FCNTL, (fd, nr.F_DUPFD, MAX_FD), STOP) for fd in made]
        ops += [Op(nr.CLOSE, (fd,)) for fd in made]
        aside = self.kernel.tasks.attempt(task, ops)
        for fd, number in zip(aside, wanted, strict=False):
            self.files.make_room(task, number)
            self.kernel.tasks.attempt(
                task, [Op(nr.DUP3, (fd, number, 0), STOP), Op(nr.CLOSE, (fd,))]
            )
        self.tasks.has[task].open.update(wanted)
        self.tasks.has[task].pairs.update(dict.fromkeys(wanted, b""))

    # ---- the files that a call uses
    def names(self, note: Notification, plan: Plan) -> list[HostFile]:
        """Return those that the call's paths lead to, and the kernel lacks.

        Context: without the lock, as a path may lead to the mount, which needs it.
        """
        kinds = mirror_calls.CALLS[note.nr].args
        modes, dirfd, found = iter(plan.name_mode), AT_FDCWD, []
        for index, kind in enumerate(kinds):
            if kind == "at":
                dirfd = note.args[index]
            if kind not in _PATH_KINDS:
                continue
            text = plan.path(index)
            mode = next(modes, 0)
            if text and text not in self.tasks.made:
                place = os.path.normpath(self.host.absolute(note.pid, dirfd, text))
                if not mode:  # there is none, but perhaps the directory to make it in
                    place = os.path.dirname(place)
                    mode = stat.S_IFDIR if os.path.isdir(place) else 0
                if (
                    mode
                    and not self.tasks.is_there(place)
                    and not self.host.in_tree(place)
                ):
                    found.append(HostFile(place, mode, _size(place, mode)))
            dirfd = AT_FDCWD
        return found

    def provide(self, task: AgentTask, plan: Plan) -> None:
        """Give the task the call's descriptors that it lacks.  Context: lock held."""
        tasks = self.tasks
        for (fd, mode), size in zip(plan.fds, plan.fd_size, strict=False):
            if fd in tasks.has[task].open:
                continue
            path = tasks.host.fd_path(task.host_pid, fd) or b""
            if not path.startswith(b"/") or path.startswith(b"/dev/"):
                path, size = b"/dev/zero", 0  # a pipe, a socket, a terminal
            tasks.provide(task, fd, HostFile(path, mode, size))

    def provide_watched(self, task: AgentTask, plan: Plan) -> None:
        """Give the task the descriptors that a call looks at.  Context: lock held."""
        tasks = self.tasks
        for fd in plan.watched:
            if not 0 <= fd < MAX_FD or fd in tasks.has[task].open:
                continue
            path = tasks.host.fd_path(task.host_pid, fd)
            if path is not None and not tasks.host.in_tree(path):
                tasks.provide(task, fd, HostFile(b"/dev/zero", 0, 0))

    # ---- writes to files of the mount
    def may_write(self, opened: MountedFile) -> bool:
        return True

    def write(
        self, files: OpenFiles, opened: MountedFile, pid: int, call: WriteCall, at: int
    ) -> tuple[int, int]:
        moves = call.name != "pwrite64" and opened.seekable
        task = self.tasks.task(pid)
        number = files.descriptor_of(task, opened)
        if moves:
            files.seek(task, opened, number, at)
        ops = [self._op(task, number, call)]
        if opened.may_ask:
            ops.append(Op(nr.LSEEK, (number, 0, nr.SEEK_CUR)))
        reply = self.kernel.tasks.request(task, ops)
        taken = reply.taken(0, len(call.data))
        after = reply.results[1] if opened.may_ask else at + max(taken, 0)
        if moves and after >= 0:
            opened.pos = after
        if taken < 0:
            raise KernelError(-taken)
        return taken, after

    def _op(self, task: AgentTask, fd: int, call: WriteCall) -> Op:
        data = call.data
        if call.name == "write":
            return Op(nr.WRITE, (fd, data, len(data)))
        if call.name == "pwrite64":
            return Op(nr.PWRITE64, (fd, data, len(data), call.pos))
        row = self.kernel.arch.model.struct(_IOV)
        head = row.size * len(call.sizes)
        at, words = self.kernel.machine.address(task.slot, head), b""
        for size in call.sizes:
            words += row.pack(at, size)
            at += size
        return Op(nr.WRITEV, (fd, words + data, len(call.sizes)))


def _relocate(plan: Plan, base: int, model: DataModel) -> None:
    """Give words of the plan's memory the addresses that they are offsets from.

    They are pointers of an array which ends with NULL, or each has its room behind it.
    Where longs are shorter, an array has its begin, and its rows follow each other.
    """
    memory, last, to, long = plan.memory, -1, 0, model.long
    vectored = plan.nr in mirror_calls.VECTORED
    row = 2 * WORD if vectored else WORD
    for at in plan.relocations:
        to = to + row * long // WORD if at == last + row else at
        last, second = at, 0
        word = LITTLE_64.number(memory[at : at + WORD]) + base
        if vectored:
            second = LITTLE_64.number(memory[at + WORD : at + row])
            if plan.nr in mirror_calls.READ_VECTORS:
                second = min(second, OUT_MAX)
        memory[to : to + long] = model.raw(word, long)
        if vectored or long < WORD:
            memory[to + long : to + 2 * long] = model.raw(second, long)


def _size(path: bytes, mode: int) -> int:
    """Return the size of a file of the host; 0 if it is no regular file."""
    try:
        return os.stat(path).st_size if stat.S_ISREG(mode) else 0
    except OSError:
        return 0
