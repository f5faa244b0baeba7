# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls that are left out, and tasks that catch up: kpfs.backends.guest.task_book."""

import errno
import gc
import os
import signal
import stat
import subprocess
import threading
import time

import pytest

from kpfs.backends.guest.mirror import GuestMirror
from kpfs.backends.guest.tree import build
from kpfs.backends.guest.vfs import Vfs
from kpfs.base import syscall_numbers as nr
from kpfs.base.ktypes import Caller
from kpfs.engine.kprobe import Kprobe
from kpfs.engine.register import register_kprobe, unregister_kprobe
from kpfs.mirror.host import Host
from kpfs.mirror.replayer import Replayer
from kpfs.mirror.seccomp import Notification
from tests.guest import come_to_rest, tasks_of
from tests.there import there

pytestmark = pytest.mark.guest

F_GETFD, F_GETFL, F_SETFL = 1, 3, 4


class Lazy:
    """A replayer that leaves out what nobody sees, and children that it mirrors."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.mirror = GuestMirror(kernel, Host([]))
        self.replayer = Replayer(self.mirror, self.mirror.host, lazy=True)
        self.tasks = self.mirror.tasks
        self.tasks.begun = True
        self.children: list[subprocess.Popen[bytes]] = []

    def child(self, **how):
        """A process that sleeps."""
        self.children.append(subprocess.Popen(["sleep", "60"], **how))
        return self.children[-1].pid

    def skips(self, pid, number=nr.GETPID):
        """True if a call is left out, at once or when somebody has looked again."""
        note = Notification(1, pid, number, (0,) * 6)
        return self.replayer.skip(note) or not self.replayer.must_make(note)

    def follow(self, pid):
        """Leave out a call, then catch up."""
        self.skips(pid)
        self.catch_up()

    def catch_up(self, pid=None):
        with self.kernel.lock:
            self.kernel.skip_policy.catch_up(pid)

    def pids(self):
        """The pids that the guest has."""
        return {task.pid for task in tasks_of(self.kernel.guest)}

    def call(self, pid, name, *args):
        """Return the result of a call of its task, or the errno."""
        with self.kernel.lock:
            task = self.tasks.known[pid]
            return self.kernel.guest.syscalls.call(task, name, *args)

    def end(self):
        for child in self.children:
            child.kill()
            child.wait()
        self.replayer.host.close()


@pytest.fixture
def lazy(kernel):
    yield (lazy := Lazy(kernel))
    lazy.end()


class TestWhatIsLeftOut:
    def test_nothing_is_made_while_nobody_looks(self, lazy):
        pid = lazy.child()
        assert lazy.skips(pid)
        assert pid not in lazy.pids()

    def test_a_probe_in_the_text_looks(self, lazy, kernel):
        pid = lazy.child()
        with kernel.lock:
            p = Kprobe(symbol_name="vfs_read")
            register_kprobe(kernel.state, p)
        assert not lazy.skips(pid)
        with kernel.lock:
            unregister_kprobe(kernel.state, p)
        assert lazy.skips(pid)

    def test_an_event_of_the_guest_looks(self, lazy, kernel):
        pid = lazy.child()
        with kernel.lock:
            events = kernel.guest.trace_events
            group, name = next((e.group, e.name) for e in events.all())
            events.enable(group, name, 1, kernel.guest.address_of("schedule"))
        assert not lazy.skips(pid)
        with kernel.lock:
            events.enable(group, name, 0, 0)
        assert lazy.skips(pid)

    @pytest.mark.parametrize(
        ("file", "flags", "stays"),
        [
            ("/kprobes/list", os.O_RDONLY, True),
            ("/kprobes/enabled", os.O_WRONLY, False),
            ("/tracing/set_event_pid", os.O_RDONLY, False),  # which shows tasks
        ],
    )
    def test_a_file_is_used(self, lazy, kernel, file, flags, stays):
        """C goes on to let calls go on, if that brought no task up to date."""
        vfs, me = Vfs(kernel, build(kernel), lazy=True), Caller(os.getpid(), 0, 0)
        path = lazy.tasks.fast_path
        assert lazy.skips(lazy.child())
        assert path.is_open
        opened = vfs.open(me, file, flags)
        if flags == os.O_RDONLY:
            vfs.read(me, opened, 100, 0)
        vfs.release(opened)
        assert path.is_open == stays

    def test_a_probe_is_armed_between_two_reads(self, lazy, kernel):
        vfs, me = Vfs(kernel, build(kernel), lazy=True), Caller(os.getpid(), 0, 0)
        path = lazy.tasks.fast_path
        opened = vfs.open(me, "/kprobes/list", os.O_RDONLY)
        assert lazy.skips(lazy.child())
        with kernel.lock:
            register_kprobe(kernel.state, Kprobe(symbol_name="vfs_mkdir"))
        vfs.read(me, opened, 100, 0)
        assert not path.is_open
        vfs.release(opened)

    def test_with_always_nothing_is_left_out(self, kernel):
        mirror = GuestMirror(kernel, Host([]))
        replayer = Replayer(mirror, mirror.host)
        assert not replayer.skip(Notification(1, os.getpid(), nr.GETPID, (0,) * 6))


class TestCatchingUp:
    def test_tasks_are_made_with_their_parents(self, lazy, kernel):
        pid = lazy.child()
        assert lazy.skips(os.getpid())
        assert lazy.skips(pid)
        lazy.catch_up()
        assert {pid, os.getpid()} <= lazy.pids()
        assert lazy.call(pid, "getppid") == os.getpid()
        comms = {task.pid: task.comm for task in tasks_of(kernel.guest)}
        assert comms[pid] == "sleep"

    def test_a_descriptor_comes_after_others_have_looked(self, lazy):
        """accept(2) may wait for long; by then the task is up to date without it."""
        pid = lazy.child()
        assert lazy.skips(pid, nr.ACCEPT4)
        lazy.catch_up()
        assert pid not in lazy.tasks.behind
        lazy.skips(pid)
        assert pid in lazy.tasks.behind
        assert not lazy.tasks.changing

    def test_ended_process_has_no_task(self, lazy):
        pid = lazy.child()
        lazy.follow(pid)
        assert pid in lazy.pids()
        lazy.skips(pid)
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # a zombie
        lazy.catch_up()
        assert pid not in lazy.pids()

    def test_process_that_ends_unseen_leaves_nothing(self, lazy):
        pid = lazy.child()
        lazy.skips(pid)
        exit_group = Notification(1, pid, nr.EXIT_GROUP, (0,) * 6)
        assert not lazy.replayer.skip(exit_group)  # its parent may have to be awaited
        assert lazy.replayer(exit_group, lambda: True) is None
        assert pid not in lazy.tasks.behind

    def test_one_process_alone(self, lazy):
        first, second = lazy.child(), lazy.child()
        for pid in (first, second):
            lazy.skips(pid)
        lazy.catch_up(second)
        assert second in lazy.pids()
        assert first not in lazy.pids()

    def test_a_process_that_is_not_ours_gets_no_task(self, lazy):
        pid = lazy.child()
        lazy.catch_up(pid)
        assert pid not in lazy.pids()

    def test_descriptors(self, lazy, tmp_path):
        (tmp_path / "f").write_text("x" * 100)
        file = os.open(tmp_path / "f", os.O_RDONLY)
        folder = os.open(tmp_path, os.O_RDONLY)
        pid = lazy.child(pass_fds=(file, folder))
        lazy.follow(pid)
        assert lazy.call(pid, "fcntl", file, F_GETFL) & os.O_ACCMODE == os.O_RDONLY
        assert lazy.call(pid, "fcntl", folder, F_GETFD) == 0
        assert lazy.call(pid, "fchdir", folder) == 0
        assert lazy.call(pid, "fchdir", file) < 0
        assert lazy.call(pid, "fcntl", 500, F_GETFD) < 0
        os.close(file)
        os.close(folder)

    @pytest.mark.parametrize("is_known", [False, True])
    def test_a_pid_that_a_task_of_the_guest_has(self, lazy, kernel, pipe, is_known):
        pid, guest = lazy.child(pass_fds=pipe), kernel.guest
        with kernel.lock:
            init = guest.requests.init()
            assert guest.host_tasks._clone(init, pid, 0, "own", 0) == pid
            if is_known:
                guest.requests.find(pid)
        lazy.follow(pid)
        task = lazy.tasks.known[pid]
        assert task.pid != pid
        assert lazy.call(pid, "write", pipe[1], b"hello", 5) == 5
        assert lazy.call(pid, "fcntl", pipe[1] + 100, F_GETFD) == -errno.EBADF

    def test_open_files_are_shared_as_on_the_host(self, lazy, tmp_path):
        (tmp_path / "f").write_text("x" * 100)
        one = os.open(tmp_path / "f", os.O_RDONLY)
        same, other = os.dup(one), os.open(tmp_path / "f", os.O_RDONLY)
        fds = one, same, other
        pids = [lazy.child(pass_fds=fds) for _ in range(2)]
        for pid in pids:
            lazy.follow(pid)
        lazy.call(pids[0], "fcntl", one, F_SETFL, os.O_APPEND)
        marked = [
            bool(lazy.call(pid, "fcntl", fd, F_GETFL) & os.O_APPEND)
            for pid in pids
            for fd in fds
        ]
        assert marked == [True, True, False] * 2
        lazy.call(pids[1], "fcntl", other, F_SETFL, os.O_APPEND)
        assert lazy.call(pids[0], "fcntl", other, F_GETFL) & os.O_APPEND
        for fd in fds:
            os.close(fd)

    def test_both_ends_of_a_pipe(self, lazy, pipe):
        read, write = pipe
        pid = lazy.child(pass_fds=(read, write))
        lazy.follow(pid)
        task = lazy.tasks.known[pid]
        assert lazy.call(pid, "write", write, b"hello", 5) == 5
        assert lazy.call(pid, "read", read, task.buffer, 9) == 5

    def test_pipes_from_outside_are_no_pipes_here(self, lazy, pipe):
        """Nobody in the guest has their other end, and they are never waited for."""
        read, _ = pipe
        pid = lazy.child(pass_fds=(read,))
        lazy.tasks.begin(pid)
        lazy.follow(pid)
        assert lazy.call(pid, "lseek", read, 0, os.SEEK_SET) == 0

    def test_descriptors_that_were_closed_are_closed(self, lazy):
        me, number = os.getpid(), 300
        os.dup2(0, number)
        lazy.follow(me)
        assert lazy.call(me, "fcntl", number, F_GETFD) >= 0
        os.close(number)
        lazy.follow(me)
        assert lazy.call(me, "fcntl", number, F_GETFD) < 0

    def test_a_table_that_threads_share(self, lazy, pipe):
        me, ended = os.getpid(), threading.Event()
        lazy.follow(me)
        thread = threading.Thread(target=ended.wait)
        thread.start()
        other = there(thread.native_id)
        lazy.follow(other)
        task, same = lazy.tasks.known[other], lazy.tasks.known[me]
        assert task.table == same.table
        lazy.call(other, "close", pipe[0])
        assert lazy.call(me, "fcntl", pipe[0], F_GETFD) == -errno.EBADF
        ended.set()
        thread.join()

    def test_a_child_makes_its_first_call_late(self, lazy, kernel):
        """The parent has made calls meanwhile, and has other descriptors by now."""
        me = os.getpid()
        lazy.follow(me)
        read, write = os.pipe()
        pid = lazy.child(pass_fds=(read, write))
        os.close(write)
        lazy.follow(me)
        with kernel.lock:
            task = lazy.tasks.task(pid)
        assert lazy.call(pid, "write", write, b"hello", 5) == 5
        assert lazy.call(me, "read", read, task.buffer, 0) == 0
        assert lazy.call(pid, "read", read, task.buffer, 9) == 5
        os.close(read)

    def test_another_file_has_the_number_of_a_pipe(self, lazy, kernel):
        """A task whose process has made no call meanwhile has the pipe still."""
        me = os.getpid()
        lazy.follow(me)
        read, write = os.pipe()
        number = os.dup(write)
        lazy.follow(me)
        os.dup2(0, number)
        pid = lazy.child(pass_fds=(read, write, number))
        lazy.follow(pid)
        assert lazy.call(pid, "lseek", number, 0, os.SEEK_CUR) != -errno.ESPIPE
        assert lazy.call(me, "lseek", number, 0, os.SEEK_CUR) != -errno.ESPIPE
        for fd in (read, write, number):
            os.close(fd)

    def test_what_is_right_stays_as_it_is(self, lazy, kernel, pipe):
        """Nobody sees a descriptor closed that its process has all the time."""
        hits = []

        def hit(_probe, _regs):
            hits.append(1)
            return 0

        gc.collect()
        me = os.getpid()
        lazy.follow(me)
        with kernel.lock:
            p = Kprobe(symbol_name="filp_close", pre_handler=hit)
            register_kprobe(kernel.state, p)
            lazy.tasks.behind.add(me)
            lazy.tasks.catch_up()
            unregister_kprobe(kernel.state, p)
        assert hits == []

    def test_nothing_is_left_in_the_guest(self, lazy, kernel):
        def counters():
            guest = kernel.guest
            come_to_rest(kernel)
            names = ("nr_dentry", "nr_inodes", "nr_files")
            return [
                guest.read_u64(guest.kallsyms.lookup_name(n)[0].addr) for n in names
            ]

        gc.collect()  # its finalizers close descriptors that are followed
        me = os.getpid()
        lazy.follow(me)
        before = counters()
        for _ in range(5):
            lazy.follow(me)
        assert counters() == before


class TestForks:
    """While a watcher is told of each, the maker of a task is known."""

    @pytest.fixture
    def told(self, kernel):
        with kernel.lock:
            kernel.trace.options.set("event-fork", True)

    def test_children_that_have_made_no_call_yet(self, lazy, told):
        me, pid = os.getpid(), lazy.child()
        assert not lazy.skips(me)
        with lazy.kernel.lock:
            lazy.tasks.task(me)
        lazy.catch_up()
        assert pid in lazy.pids()
        assert lazy.call(pid, "getppid") == me

    def test_threads_that_have_made_no_call_yet(self, lazy, told):
        ended = threading.Event()
        thread = threading.Thread(target=ended.wait)
        thread.start()
        with lazy.kernel.lock:
            lazy.tasks.task(os.getpid())
        lazy.catch_up()
        assert thread.native_id in lazy.pids()
        ended.set()
        thread.join()

    def test_those_of_a_process_that_ends(self, lazy, told):
        script = ["sh", "-c", "sleep 60 & echo $!; read x"]
        pipe = subprocess.PIPE
        with subprocess.Popen(script, text=True, stdin=pipe, stdout=pipe) as parent:
            child = int(there(parent.stdout).readline())
            exit_group = Notification(1, parent.pid, nr.EXIT_GROUP, (0,) * 6)
            lazy.replayer(exit_group, lambda: True)
            assert parent.pid not in lazy.pids()
            assert child in lazy.pids()
            os.kill(child, signal.SIGKILL)

    def test_else_nobody_looks_for_them(self, lazy):
        me, pid = os.getpid(), lazy.child()
        with lazy.kernel.lock:
            lazy.tasks.task(me)
        lazy.follow(me)
        assert pid not in lazy.pids()


def test_descriptors_of_a_process(tmp_path):
    fd = os.open(tmp_path, os.O_RDONLY | os.O_CLOEXEC)
    found = {d.number: d for d in Host([]).descriptors(os.getpid())}[fd]
    assert found.name == os.fsencode(tmp_path)
    assert stat.S_ISDIR(found.mode)
    assert found.flags & os.O_CLOEXEC
    os.close(fd)


def test_a_file_of_the_mount_that_was_opened_unseen(lazy, tmp_path, monkeypatch):
    """The guest finds it at the same path as the host."""
    from kpfs.backends.guest.tree import build
    from kpfs.backends.guest.vfs import Vfs
    from kpfs.base.ktypes import Caller

    for name in ("list", "enabled"):
        (tmp_path / name).write_text("")
    monkeypatch.setattr(lazy.tasks.host, "_trees", (bytes(tmp_path) + b"/",))
    kernel = lazy.kernel
    vfs = Vfs(kernel, build(kernel), lazy=True)
    script = "exec 3<list 4<enabled; exec sleep 60"
    lazy.children.append(subprocess.Popen(["sh", "-c", script], cwd=tmp_path))
    pid = lazy.children[-1].pid
    while not os.path.exists(f"/proc/{pid}/fd/4"):
        time.sleep(0.001)
    assert lazy.skips(pid)
    caller = Caller(pid, os.getuid(), os.getgid())
    paths = "/kprobes/enabled", "/kprobes/list"
    opened = [vfs.open(caller, path, os.O_RDONLY) for path in paths]
    assert pid not in lazy.pids()
    vfs.release(vfs.open(caller, "/kprobes/enabled", os.O_WRONLY | os.O_TRUNC))
    assert [list(one.fds.values()) for one in opened] == [[4], [3]]
    for one in opened:
        vfs.release(one)
    for number in (3, 4):
        assert lazy.call(pid, "close", number) == -errno.EBADF


def test_two_threads_that_want_a_task_for_one_new_process(kernel, monkeypatch):
    """The first has to step aside while it forks; the second waits for that task."""
    tasks, made = kernel.guest.host_tasks, []
    begun: list[bool] = []
    clone = tasks._clone

    def long_clone(*args):
        while len(begun) < 2:
            kernel.guest.sched.step_aside(0.001)
        return clone(*args)

    def want():
        with kernel.lock:
            begun.append(True)
            made.append(tasks.of_process(777_000, 0, "new", 1))

    monkeypatch.setattr(tasks, "_clone", long_clone)
    threads = [threading.Thread(target=want) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made[0] is made[1]
    assert made[0].pid == 777_000
