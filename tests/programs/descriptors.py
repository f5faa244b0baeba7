# SPDX-License-Identifier: GPL-2.0-or-later
"""Random programs of tasks that open, share and close files, compared with the guest.

Run under ``kpfs run`` with the module tables.ko: descriptors.py PROGRAM SEED...
Processes of PROGRAM (descriptors.c) do what is drawn by a seed, in any order.  Now and
then the tables of the guest's tasks are compared with what /proc and kcmp(2) say of the
processes.  Prints each difference, and a last line "N programs, M looks".
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import random
import signal
import struct
import sys
import tempfile
from typing import NamedTuple

SYS_KCMP, SYS_FUTEX, KCMP_FILE, KCMP_FILES = 312, 202, 0, 2
FUTEX_WAIT, FUTEX_WAKE, EVERYBODY = 0, 1, 1 << 30
SLOT = struct.Struct("2I6i256s")
ORDER = struct.Struct("6i256s")  # the same behind the two counts
SLOTS = 32
ORDERS = (
    *("NOTHING", "PIPE", "DUP", "DUP2", "DUP3", "FCNTL", "CLOSE", "CLOSE_RANGE"),
    *("OPEN", "FORK", "THREAD", "UNSHARE", "EXEC", "NAME", "CHDIR"),
    *("PREAD", "SOCKETS", "EVENTFD", "EXIT"),
)
WEIGHTS = {  # weights of what is drawn
    "NOTHING": 2,
    "PIPE": 8,
    "DUP": 3,
    "DUP2": 4,
    "DUP3": 3,
    "FCNTL": 5,
    "CLOSE": 8,
    "CLOSE_RANGE": 2,
    "OPEN": 8,
    "FORK": 6,
    "THREAD": 2,
    "UNSHARE": 1,
    "EXEC": 2,
    "NAME": 1,
    "CHDIR": 1,
    "PREAD": 4,
    "SOCKETS": 2,
    "EVENTFD": 2,
    "EXIT": 2,
    "LOOK": 3,
    "ARM": 3,
    "KILL": 1,
}
F_DUPFD, F_SETFD, F_DUPFD_CLOEXEC, CLONE_FILES = 0, 2, 1030, 1024
CLOSE_RANGE_UNSHARE, CLOSE_RANGE_CLOEXEC = 2, 4
ACCESS = os.O_RDONLY, os.O_WRONLY, os.O_RDWR
TRACING = "/sys/kernel/tracing/"
DEBUG = "/sys/kernel/debug/"
MOUNTED = {  # files of the mount, with what they can be opened for
    f"{TRACING}available_events": os.O_RDONLY,
    f"{TRACING}trace_marker": os.O_WRONLY,
    f"{TRACING}events/enable": os.O_RDWR,
    f"{DEBUG}kprobes/list": os.O_RDONLY,
    f"{DEBUG}tables": os.O_RDONLY,  # served by code of the guest
}
EVENTS = "do_sys_openat2", "filp_close", "ksys_dup3", "do_pipe2", "begin_new_exec"
MOST_FD = 12
libc = ctypes.CDLL(None)
FOREIGN: set[str] = set()  # what the command had at first has no other end in the guest


class File(NamedTuple):
    """A descriptor, in the guest or on the host."""

    flags: int  # access mode, O_CLOEXEC
    kind: str  # pipe, dir, file; mount: of the mount
    name: str
    file: object  # equal for all that lead to one open file
    pipe: object  # equal for all that lead to one pipe


class Task(NamedTuple):
    parent: int
    comm: str
    uid: int
    table: object
    files: dict[int, File]


class Slots:
    """The memory shared with the tasks."""

    def __init__(self, folder: str) -> None:
        self.path = f"{folder}/slots"
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(fd, SLOTS * SLOT.size)
        self.memory = mmap.mmap(fd, SLOTS * SLOT.size)
        os.close(fd)
        self.at = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))

    def clear(self) -> None:
        self.memory[:] = bytes(len(self.memory))
        struct.pack_into("I", self.memory, 0, 1)  # the first is to execute a program

    def give(self, slot: int, order: str, args: list[int], path: str = "") -> None:
        """Tell a task what to do."""
        at = slot * SLOT.size
        (given,) = struct.unpack_from("I", self.memory, at)
        words = *(*args, 0, 0, 0)[:3], 0, 0
        number = ORDERS.index(order)
        # not the counts, where a task looks: pack_into() clears all at first
        ORDER.pack_into(self.memory, at + 8, number, *words, path.encode())
        ctypes.c_uint32.from_address(self.at + at).value = given + 1
        word = ctypes.c_void_p(self.at + at)
        libc.syscall(SYS_FUTEX, word, FUTEX_WAKE, EVERYBODY, 0, 0, 0)

    def result(self, slot: int) -> int:
        """Wait until it is done; return what it gave."""
        at = slot * SLOT.size
        while True:
            given, done = struct.unpack_from("2I", self.memory, at)
            if given == done:
                return int(SLOT.unpack_from(self.memory, at)[6])
            second = (ctypes.c_long * 2)(1, 0)
            word = ctypes.c_void_p(self.at + at + 4)
            libc.syscall(SYS_FUTEX, word, FUTEX_WAIT, done, second, 0, 0)


def kcmp(kind: int, one: int, other: int, *fds: int) -> bool:
    return not libc.syscall(SYS_KCMP, one, other, kind, *(*fds, 0, 0)[:2])


def read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def host_file(pid: int, fd: int, files: dict[str, list[tuple[int, int]]]) -> File:
    link = os.readlink(f"/proc/{pid}/fd/{fd}")
    flags = int(read(f"/proc/{pid}/fdinfo/{fd}").split()[3], 8)
    flags &= os.O_ACCMODE | os.O_CLOEXEC
    others = files.setdefault(link, [])
    same = (
        at
        for at, (owner, other) in enumerate(others)
        if kcmp(KCMP_FILE, pid, owner, fd, other)
    )
    at = next(same, len(others))
    if at == len(others):
        others.append((pid, fd))
    if ":[" in link and (link in FOREIGN or not link.startswith("pipe:")):
        return File(flags, "file", "fd", (link, at), 0)
    if link.startswith((TRACING, DEBUG)):
        return File(flags, "mount", os.path.basename(link), (link, at), 0)
    if link.startswith("pipe:"):
        return File(flags, "pipe", "pipe", (link, at), link)
    kind = "dir" if os.path.isdir(link) else "file"
    name = os.path.basename(link.removesuffix(" (deleted)"))
    return File(flags, kind, name, (link, at), 0)


def host_tasks(pids: dict[int, int]) -> dict[int, Task]:
    """Return what the host says of tasks.  pids: each with its process."""
    tasks: dict[int, Task] = {}
    files: dict[str, list[tuple[int, int]]] = {}
    for pid, leader in pids.items():
        table = next((o for o in tasks if kcmp(KCMP_FILES, pid, o)), pid)
        numbers = sorted(map(int, os.listdir(f"/proc/{pid}/fd")))
        status = dict(
            line.split(":", 1) for line in read(f"/proc/{pid}/status").splitlines()
        )
        tasks[pid] = Task(
            int(status["PPid"]) if leader == pid else leader,
            status["Name"].strip(),
            int(status["Uid"].split()[0]),
            tasks[table].table if table in tasks else table,
            {fd: host_file(pid, fd, files) for fd in numbers},
        )
    return tasks


def guest_tasks(text: str) -> tuple[dict[int, Task], list[str]]:
    """Return what tables.ko says, and what is wrong in that alone."""
    tasks: dict[int, Task] = {}
    wrong: list[str] = []
    readers: dict[str, set[object]] = {}
    writers: dict[str, set[object]] = {}
    pipes: dict[str, tuple[int, int]] = {}
    lines = text.splitlines()
    if lines[-1] != "end":
        wrong.append("the guest's tables are cut off")
    for line in lines[:-1]:
        word, *words = line.split(" ", 11)
        if word == "task":
            pid, parent, uid, table = map(int, words[:4])
            tasks[pid] = Task(parent, " ".join(words[4:]), uid, table, {})
        elif "taken" in words:
            wrong.append(f"{pid}: {line}")
        else:
            number, cloexec, how, file, fs, folder, pipe, r, w, name = words
            flags = int(how, 16) & os.O_ACCMODE | int(cloexec) * os.O_CLOEXEC
            kind = "dir" if int(folder) else "file"
            kind = {"mirror": kind, "pipefs": "pipe"}.get(fs, "mount")
            if kind == "pipe":
                pipes[pipe] = int(r), int(w)
                ends = writers if flags & os.O_ACCMODE else readers
                ends.setdefault(pipe, set()).add(file)
            tasks[pid].files[int(number)] = File(flags, kind, name, file, pipe)
    for pipe, counts in pipes.items():
        there = len(readers.get(pipe, ())), len(writers.get(pipe, ()))
        if there != counts:
            wrong.append(f"pipe {pipe} counts {counts}, and has {there}")
    return tasks, wrong


class Pairs:
    """Names of things in the guest and on the host, which must go together."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.guest: dict[object, object] = {}
        self.host: dict[object, object] = {}

    def wrong(self, guest: object, host: object) -> list[str]:
        one = self.guest.setdefault(guest, host) == host
        if one and self.host.setdefault(host, guest) == guest:
            return []
        return [f"{self.what}: {host} is {guest}, {self.guest[guest]} is as well"]


class Comparison:
    """The descriptors of the guest beside those of the host."""

    def __init__(self, guest: dict[int, Task], host: dict[int, Task]) -> None:
        self.guest, self.host = guest, host
        self.tables, self.files = Pairs("table"), Pairs("file")
        self.pipes = Pairs("pipe")

    def run(self, named: bool) -> list[str]:
        """Return what differs.  named: names must agree."""
        wrong: list[str] = []
        for pid, there in self.host.items():
            mine = self.guest.get(pid)
            if mine is not None:
                found = self.task(mine, there, named)
                wrong += [f"{pid}: {line}" for line in found]
            elif named:
                wrong.append(f"{pid} has no task")
        return wrong

    def task(self, mine: Task, there: Task, named: bool) -> list[str]:
        found = self.tables.wrong(mine.table, there.table)
        if there.parent in self.host and mine.parent != there.parent:
            found.append(f"parent {mine.parent}, not {there.parent}")
        if named and (mine.comm, mine.uid) != (there.comm, there.uid):
            found.append(f"{mine.comm, mine.uid}, not {there.comm, there.uid}")
        for fd in sorted(mine.files.keys() | there.files.keys()):
            wrong = self.file(mine.files.get(fd), there.files.get(fd))
            found += [f"{fd}: {line}" for line in wrong]
        return found

    def file(self, mine: File | None, there: File | None) -> list[str]:
        if there is None:
            return [f"is open: {mine}"]
        if mine is None:
            return [f"is not open: {there}"]
        if (mine.flags, mine.kind, mine.name) != (there.flags, there.kind, there.name):
            return [f"{mine}, not {there}"]
        wrong = self.files.wrong(mine.file, there.file)
        if there.kind == "pipe":
            wrong += self.pipes.wrong(mine.pipe, there.pipe)
        return wrong


class Campaign:
    """The programs of many seeds, one after the other."""

    def __init__(self, program: str, folder: str) -> None:
        self.program = program
        self.folder = folder
        self.slots = Slots(folder)
        self.looks = 0
        for name in ("a", "b", "d/c"):
            os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
            with open(f"{folder}/{name}", "w", encoding="ascii") as file:
                file.write(name)
        with open(f"{TRACING}kprobe_events", "w", encoding="ascii") as file:
            file.writelines(f"p:d_{name} {name}\n" for name in EVENTS)
        self.switches = [
            os.open(f"{TRACING}events/kprobes/d_{name}/enable", os.O_RDWR)
            for name in EVENTS
        ]
        self.tables = os.open("/sys/kernel/debug/tables", os.O_RDONLY)

    def run(self, seed: int) -> list[str]:
        """Run one program; return what was wrong."""
        self.slots.clear()
        self.rng = random.Random(seed)
        self.armed: set[int] = set()
        self.said: list[str] = []
        child = os.posix_spawn(
            self.program, ("descriptors", self.slots.path, "0"), os.environ
        )
        self.live = {0: child}  # by slot
        self.leaders = {0: child}
        self.free = list(range(SLOTS - 1, 0, -1))
        self.slots.result(0)  # it is there
        wrong: list[str] = []
        try:
            for _ in range(self.rng.randint(10, 40)):
                wrong += self.step()
                if wrong or not self.live:
                    break
            if self.live and not wrong:
                wrong += self.look()
        finally:
            for pid in set(self.leaders.values()):
                self.kill(pid)
            os.waitpid(child, 0)
            for number in self.armed:
                os.write(self.switches[number], b"0")
        return wrong

    def kill(self, pid: int) -> None:
        """Kill a process, and wait until it has gone."""
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.await_end(pid)

    def await_end(self, pid: int) -> None:
        while True:
            try:
                state = read(f"/proc/{pid}/stat").rpartition(")")[2].split()[0]
            except (FileNotFoundError, ProcessLookupError):
                return
            if state in "ZX":
                return

    def forget(self, ended: list[int]) -> None:
        for slot in ended:
            del self.live[slot], self.leaders[slot]
            # its number is not used again: the memory may still be read

    def step(self) -> list[str]:
        rng = self.rng
        order = rng.choices([*WEIGHTS], [*WEIGHTS.values()])[0]
        if order == "LOOK":
            return self.look()
        if order == "ARM":
            number = rng.randrange(len(self.switches))
            self.armed ^= {number}
            os.write(self.switches[number], b"01"[(v := number in self.armed) : v + 1])
            return []
        slot = rng.choice([*self.live])
        leader = self.leaders[slot]
        same = [s for s, pid in self.leaders.items() if pid == leader]
        if order == "KILL":
            self.say(slot, "KILL")
            self.kill(leader)
            self.forget(same)
        elif order == "EXIT":
            thread = self.live[slot] != leader
            self.say(slot, "EXIT", int(thread))
            pid = self.live[slot]
            self.slots.give(slot, "EXIT", [int(thread)])
            self.await_end(pid if thread else leader)
            self.forget([slot] if thread else same)
        elif order in ("FORK", "THREAD"):
            self.multiply(slot, order)
        elif order == "EXEC" and len(same) > 1:
            pass  # its threads would end, and another have its number
        else:
            self.do(slot, order, *self.draw(order))
        return []

    def say(self, slot: int, order: str, *args: object) -> None:
        words = " ".join(map(str, args))
        self.said.append(f"{slot} ({self.live[slot]}) {order} {words}")

    def do(self, slot: int, order: str, args: list[int], path: str = "") -> int:
        self.say(slot, order, *args, path)
        self.slots.give(slot, order, args, path)
        result = self.slots.result(slot)
        self.said[-1] += f" = {result}"
        return result

    def multiply(self, slot: int, order: str) -> None:
        if not self.free:
            return
        new = self.free.pop()
        flags = CLONE_FILES if order == "FORK" and not self.rng.randrange(4) else 0
        pid = self.do(slot, order, [new, flags])
        if pid > 0:
            self.live[new] = pid
            self.leaders[new] = pid if order == "FORK" else self.leaders[slot]

    def fd(self) -> int:
        return self.rng.randint(0, MOST_FD)

    def draw(self, order: str) -> tuple[list[int], str]:
        """Draw arguments."""
        rng, folder = self.rng, self.folder
        cloexec = rng.choice((0, 0, os.O_CLOEXEC))
        if order in ("SOCKETS", "EVENTFD"):
            return [cloexec | rng.choice((0, os.O_NONBLOCK))], ""
        if order == "PIPE":
            return [cloexec | rng.choice((0, os.O_NONBLOCK))], ""
        if order == "OPEN" and rng.randrange(2):
            path, how = rng.choice([*MOUNTED.items()])
            return [how | cloexec], path
        if order == "OPEN":
            name = rng.choice(("a", "b", "d", "d/c"))
            how = os.O_RDONLY if name == "d" else rng.choice(ACCESS)
            return [how | cloexec], f"{folder}/{name}"
        if order == "FCNTL":
            command = rng.choice((F_DUPFD, F_DUPFD_CLOEXEC, F_SETFD))
            last = rng.randint(0, 1) if command == F_SETFD else self.fd()
            return [self.fd(), command, last], ""
        if order == "CLOSE_RANGE":
            first = self.fd()
            how = rng.choice((0, 0, CLOSE_RANGE_CLOEXEC, CLOSE_RANGE_UNSHARE))
            return [first, first + rng.randint(0, 4), how], ""
        if order == "NAME":
            return [], f"name{rng.randrange(100)}"
        if order == "CHDIR":
            return [], rng.choice((folder, f"{folder}/d", "/"))
        return [self.fd(), self.fd(), cloexec], ""

    def look(self) -> list[str]:
        """Compare; the guest is brought up to date by a write to the mount."""
        named = self.rng.random() < 0.7
        if named:
            for slot in self.live:
                self.do(slot, "NOTHING", [])
        self.looks += 1
        number = self.rng.randrange(len(self.switches))
        os.write(self.switches[number], b"1" if number in self.armed else b"0")
        text, size = b"", 1
        while size:
            size = len(more := os.pread(self.tables, 48 << 10, len(text)))
            text += more
        guest, wrong = guest_tasks(text.decode("latin-1"))
        pids = {self.live[slot]: self.leaders[slot] for slot in self.live}
        return wrong + Comparison(guest, host_tasks(pids)).run(named)


def main() -> int:
    program, seeds = sys.argv[1], [int(seed) for seed in sys.argv[2:]]
    found = 0
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the directory itself
            FOREIGN.add(os.readlink(f"/proc/self/fd/{fd}"))
    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(program, folder)
        for seed in seeds:
            if wrong := campaign.run(seed):
                found += 1
                print(f"seed {seed}:", *campaign.said, *wrong, sep="\n  ", flush=True)
    print(f"{len(seeds)} programs, {campaign.looks} looks", flush=True)
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
