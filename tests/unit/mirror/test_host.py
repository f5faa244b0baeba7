# SPDX-License-Identifier: GPL-2.0-or-later
"""The parser of /proc, and the plans that are made of a process.

This also tests kpfs.mirror.plan, in Python and in C, kpfs.mirror.library and
kpfs.base.host_process.
"""

import ctypes
import fcntl
import mmap
import os
import signal
import stat
import threading

import pytest

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.syscall_numbers import AT_FDCWD
from kpfs.mirror import calls as mirror_calls
from kpfs.mirror.calls import plan_call
from kpfs.mirror.host import Host, MountPlace, standing
from kpfs.mirror.plan import Plan
from kpfs.mirror.seccomp import Notification

PAGE = mmap.PAGESIZE


@pytest.fixture
def host():
    yield (host := Host([]))
    host.close()


@pytest.fixture
def edge():
    """The last page before one that is not mapped: its end."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    at = libc.mmap(None, ctypes.c_size_t(2 * PAGE), 3, 0x22, -1, ctypes.c_long(0))
    libc.munmap(ctypes.c_void_p(at + PAGE), ctypes.c_size_t(PAGE))
    yield at + PAGE
    libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(PAGE))


def put(at, data):
    ctypes.memmove(at, data, len(data))
    return at


def test_strings(host, edge):
    me = os.getpid()
    long = ctypes.create_string_buffer(b"x" * 3000)
    assert host.string(me, ctypes.addressof(long)) == b"x" * 3000
    assert host.string(me, ctypes.addressof(long), 1000) is None
    assert host.string(me, put(edge - 4, b"end\0")) == b"end"
    assert host.string(me, put(edge - 4, b"none")) is None
    assert host.string(me, edge) is None
    assert host.string(me, 0) is None
    assert host.string(me, 1 << 63) is None


def test_reads_end_where_memory_does(host, edge):
    put(edge - 10, b"0123456789")
    assert host.read(os.getpid(), edge - 10, 100) == b"0123456789"
    assert host.read(os.getpid(), edge, 1) == b""


def test_pointers_end_with_null(host):
    array = (ctypes.c_uint64 * 40)(*range(1, 31))
    at = ctypes.addressof(array)
    assert host.pointers(os.getpid(), at, 256) == list(range(1, 31))
    assert host.pointers(os.getpid(), at, 7) == list(range(1, 8))


def test_a_process_that_is_gone(host):
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    assert host.string(child, 0x1000) is None
    assert call(host, nr.OPEN, 0x1000, pid=child).new_fds == []
    assert host.fd_path(child, 0) is None
    assert host.creator(child) == 0
    assert standing(child).sleeps
    assert not standing(child).catches(17)


def test_processes(host):
    me = os.getpid()
    assert host.creator(me) == os.getppid()
    release = threading.Event()
    waiting = threading.Thread(target=release.wait)
    waiting.start()
    assert host.creator(waiting.native_id) == me
    release.set()
    waiting.join()
    assert not standing(me).sleeps
    assert standing(me).parent == os.getppid()
    before = signal.signal(signal.SIGUSR2, lambda *_: None)
    assert standing(me).catches(signal.SIGUSR2)
    signal.signal(signal.SIGUSR2, before)
    assert not standing(me).catches(signal.SIGUSR2)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        pytest.param(lambda fd: None, True, id="nothing"),
        pytest.param(
            lambda fd: os.set_inheritable(fd, True), False, id="close-on-exec"
        ),
        pytest.param(
            lambda fd: os.set_blocking(fd, False), True, id="of the open file"
        ),
        pytest.param(lambda fd: os.dup2(0, fd, inheritable=False), False, id="file"),
        pytest.param(os.close, False, id="one less"),
        pytest.param(lambda fd: os.dup(fd), False, id="one more"),
    ],
)
def test_what_two_children_of_a_process_have(host, change, same):
    ends = os.pipe()
    pids = []
    for do in (lambda fd: None), change:
        pid = os.fork()
        if not pid:
            do(ends[1])
            os.kill(os.getpid(), signal.SIGSTOP)
        pids.append(pid)
        os.waitpid(pid, os.WUNTRACED)
    try:
        assert host.same_descriptors(*pids) is same
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        for fd in ends:
            os.close(fd)


def test_memory_is_that_after_an_exec(host):
    own = ctypes.create_string_buffer(b"before")
    read, write = os.pipe()
    hold, release = os.pipe()
    child = os.fork()
    if not child:
        os.read(hold, 1)
        os.dup2(write, 1)
        os.execvp("sh", ["sh", "-c", "echo; sleep 60"])
    os.close(write)
    assert host.string(child, ctypes.addressof(own)) == b"before"
    os.write(release, b"g")
    os.read(read, 1)
    assert host.string(child, ctypes.addressof(own)) is None
    maps = open(f"/proc/{child}/maps").read().splitlines()
    stack = next(line for line in maps if line.endswith("[stack]"))
    low, high = (int(word, 16) for word in stack.split()[0].split("-"))
    assert len(host.read(child, high - 64, 64)) == 64
    os.kill(child, 9)
    os.waitpid(child, 0)
    for fd in (read, hold, release):
        os.close(fd)
    assert low < high


@pytest.mark.parametrize("kcmp", [True, False])
@pytest.mark.parametrize("there", range(4))
def test_free_descriptors_are_those_that_open_gives(host, kcmp, there, monkeypatch):
    ask = host._plan_call

    def refused(question, plan):
        ask(question, plan)
        made = Plan.from_address(plan.value)
        made.unknown, made.nr_new = True, 0

    if not kcmp:
        monkeypatch.setattr(host, "_plan_call", refused)
    hold, release = os.pipe()
    answer, write = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(hold, 200)
        os.dup2(write, 201)
        os.closerange(there, 200)
        os.write(201, b"r")
        os.read(200, 1)
        os.write(201, bytes(os.open("/", os.O_RDONLY) for _ in range(2)))
        os._exit(0)
    os.read(answer, 1)
    free = call(host, nr.PIPE, 0, pid=child).new_fds
    assert free == [there, there + 1]
    assert call(host, nr.DUP, 0, pid=child).new_fds == free[:1]
    assert call(host, nr.FCNTL, 0, fcntl.F_DUPFD, 200, pid=child).new_fds == [202]
    os.write(release, b"g")
    assert list(os.read(answer, 2)) == free
    os.waitpid(child, 0)
    for fd in (hold, release, answer, write):
        os.close(fd)


def test_a_file_of_proc_has_no_size(host):
    fd = os.open("/proc/self/status", os.O_RDONLY)
    assert call(host, nr.READ, fd, 0, 100).count == 100
    os.read(fd, 10)
    assert call(host, nr.READ, fd, 0, 100).count == 0
    assert call(host, nr.PREAD64, fd, 0, 100, 10).count == 0
    assert call(host, nr.PREAD64, fd, 0, 100, 0).count == 100
    os.close(fd)


def test_files(host, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "file").write_text("")
    link = ctypes.create_string_buffer(os.fsencode(tmp_path / "link"))
    none = ctypes.create_string_buffer(b"./none//../x/")
    file, target = ctypes.addressof(link), link.value.count(b"/")

    def named(number, *args):
        plan = call(host, number, *args)
        assert plan.nr_names == 1
        return plan.components[0], plan.name_mode[0] & 0o170000

    assert named(nr.STAT, file, 0) == (target, stat.S_IFREG)
    assert named(nr.LSTAT, file, 0) == (target, stat.S_IFLNK)
    assert named(nr.OPEN, file, os.O_NOFOLLOW) == (target, stat.S_IFLNK)
    assert named(nr.OPEN, file, os.O_CREAT | os.O_EXCL) == (target, stat.S_IFLNK)
    assert named(nr.OPEN, file, os.O_CREAT) == (target, stat.S_IFREG)
    assert named(nr.UNLINK, file) == (0, stat.S_IFLNK)
    plan = call(host, nr.READLINK, file, 0, 10)
    assert (plan.link_text, plan.text) == (b"file", link.value)
    monkeypatch.chdir(tmp_path)
    assert named(nr.STAT, ctypes.addressof(none), 0) == (2, 0)
    assert call(host, nr.STAT, ctypes.addressof(none)).cwd_text == os.fsencode(tmp_path)
    folder = os.open(tmp_path, os.O_PATH)
    name = ctypes.create_string_buffer(b"file")
    plan = call(host, nr.NEWFSTATAT, folder, ctypes.addressof(name), 0, 0)
    assert plan.fds == [(folder, stat.S_IFDIR)]
    assert (plan.nr_names, plan.name_mode[0] & 0o170000) == (1, stat.S_IFREG)
    os.close(folder)


def test_start_of_a_path(trees, tmp_path, monkeypatch):
    me, here = os.getpid(), os.fsencode(tmp_path)
    folder = os.open(tmp_path, os.O_PATH)
    monkeypatch.chdir(tmp_path)
    for word in (AT_FDCWD, AT_FDCWD & 0xFFFFFFFF, AT_FDCWD & (1 << 64) - 1, folder):
        assert trees.absolute(me, word, b"a/b") == here + b"/a/b"
        assert trees.absolute(me, word, b"/a") == b"/a"
    os.close(folder)
    assert trees.absolute(me, 1 << 20, b"a") == b"/a"  # not open
    monkeypatch.chdir("/")
    assert trees.absolute(me, AT_FDCWD, b"proc/modules") == b"/proc/modules"


@pytest.fixture
def trees(tmp_path):
    (tmp_path / "tree").mkdir()
    yield (host := Host([MountPlace(f"{tmp_path}/tree", 0)]))
    host.close()


def test_places_of_the_mount(trees, tmp_path, monkeypatch):
    top = os.fsencode(tmp_path)

    def in_tree(path):
        """Return the answers of C and of Python."""
        text = ctypes.create_string_buffer(path)
        assert trees.in_tree(os.path.join(os.fsencode(os.getcwd()), path)) == (
            call(trees, nr.OPEN, ctypes.addressof(text)) is None
        )
        return trees.in_tree(os.path.join(os.fsencode(os.getcwd()), path))

    for inside in (b"/tree", b"/tree/", b"/tree/a/b", b"/x/../tree/a", b"//tree/./a"):
        assert in_tree(top + inside), inside
    for outside in (b"/tre", b"/treex", b"/tree/../x", b""):
        assert not in_tree(top + outside), outside
    monkeypatch.chdir(tmp_path / "tree")
    assert in_tree(b"a")
    assert in_tree(b"../tree")
    assert not in_tree(b"..")


def call(host, number, *args, pid=None):
    words = (*args, 0, 0, 0, 0, 0, 0)[:6]
    return plan_call(host, Notification(1, pid or os.getpid(), number, words))


def test_opens_and_writes_of_the_mount_are_left_to_it(tmp_path):
    (tmp_path / "tree").mkdir()
    device = os.stat(tmp_path).st_dev
    trees = Host([MountPlace(f"{tmp_path}/tree", device)])
    (tmp_path / "tree" / "f").write_text("")
    path = ctypes.create_string_buffer(os.fsencode(tmp_path / "tree" / "f"))
    at = ctypes.addressof(path)
    fd = os.open(tmp_path / "tree" / "f", os.O_RDWR)
    for number, first in ((2, at), (85, at), (87, at), (0, fd), (1, fd)):
        assert call(trees, number, first, 0, 0) is None
    # it asks the guest for none of these
    for number, first in ((4, at), (21, at), (5, fd), (32, fd)):
        assert call(trees, number, first, 0, 0).nr == number
    name = ctypes.create_string_buffer(b"x")
    for plan in (
        call(trees, nr.FSTAT, fd),
        call(trees, nr.NEWFSTATAT, fd, ctypes.addressof(name), 0, 0),
    ):
        assert plan.of_mount
    assert not call(trees, nr.STAT, at).of_mount  # it has no descriptor
    # nor for this one, unless it has something else there
    assert call(trees, 3, fd).mount
    os.close(fd)
    trees.close()


def test_what_a_duplicate_will_be(host):
    fd = os.open(os.devnull, os.O_RDONLY)
    for cmd in (fcntl.F_DUPFD, fcntl.F_DUPFD_CLOEXEC):
        plan = call(host, 72, fd, cmd, 200)
        assert plan.new_fds == [200]
    assert call(host, 72, fd, fcntl.F_SETFD, 1).new_fds == []
    os.close(fd)


def test_a_link_into_the_mount_is_found_by_its_device(tmp_path):
    (tmp_path / "f").write_text("")
    device = os.stat(tmp_path).st_dev
    host = Host([MountPlace("/nowhere/else", device)])
    path = ctypes.create_string_buffer(os.fsencode(tmp_path / "f"))
    assert call(host, 2, ctypes.addressof(path), 0, 0) is None
    host.close()


def test_each_kind_of_argument_is_either_known_to_c_or_to_python():
    kinds = {kind for call in mirror_calls.CALLS.values() for kind in call.args}
    in_c = {kind for kind in kinds if hasattr(abi, f"PLAN_{kind.upper()}")}
    in_python = {name for name in vars(mirror_calls._Carrier) if name[0] != "_"}
    assert in_c ^ in_python == kinds


def test_any_arguments_make_a_plan(host):
    """Programs may call with rubbish: no exception."""
    for number in mirror_calls.CALLS:
        for word in (0, 1, 4096, (1 << 32) - 1, (1 << 63) - 1, (1 << 64) - 1):
            plan_call(host, Notification(1, os.getpid(), number, (word,) * 6))


def test_the_memory_of_few_processes_is_held_open(host, edge, monkeypatch):
    monkeypatch.setattr("kpfs.mirror.host.MOST", 2)
    at = put(edge - 8, b"is here\0")
    children = []
    for _ in range(4):
        pid = os.fork()
        if not pid:
            signal.pause()
        children.append(pid)
    try:
        for pid in children * 2:
            assert host.string(pid, at) == b"is here"
        fds = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
        links = [os.readlink(fd) for fd in fds if os.path.islink(fd)]
        assert sum(link.endswith("/mem") for link in links) == 2
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def test_threads_look_at_once(host, edge):
    """None uses a file that another one closes, as all processes are forgotten."""
    at = put(edge - 8, b"is here\0")
    me, found, ended = os.getpid(), [], threading.Event()

    def look():
        while not ended.is_set():
            found.append((host.string(me, at), host.fd_path(me, 0) is not None))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(300):
        host.forget(me)
        host.string(me, at)
    ended.set()
    for thread in threads:
        thread.join(10)
    assert set(found) == {(b"is here", True)}


def test_what_a_number_leads_to_now(host, tmp_path):
    """Descriptors of files in /proc that are held open must not hide a change."""
    me, files = os.getpid(), [tmp_path / name for name in "ab"]
    for path in files:
        path.write_text("0123456789")
    one, other = (os.open(path, os.O_RDONLY) for path in files)
    fd = os.dup2(one, 200)  # no number that what is held open will have

    def says():
        plan = call(host, nr.LSEEK, fd, 0, os.SEEK_CUR)
        return host.fd_path(me, fd), plan.fds == [(fd, stat.S_IFREG)], plan.count

    assert says() == (os.fsencode(files[0]), True, 0)
    os.lseek(fd, 3, os.SEEK_SET)
    assert says() == (os.fsencode(files[0]), True, 3)
    assert call(host, nr.READ, fd, 0, 100).count == 7
    assert call(host, nr.PREAD64, fd, 0, 100, 9).count == 1
    assert call(host, nr.LSEEK, fd, 0, os.SEEK_END).count == 10
    assert call(host, nr.FSTAT, fd, 0).fd_size[0] == 10
    os.lseek(other, 5, os.SEEK_SET)
    os.dup2(other, fd)
    assert says() == (os.fsencode(files[1]), True, 5)
    os.close(fd)
    assert says() == (None, False, 0)
    assert call(host, nr.FCNTL, one, fcntl.F_DUPFD, fd).new_fds == [fd]
    os.close(one)
    os.close(other)
