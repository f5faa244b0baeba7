# SPDX-License-Identifier: GPL-2.0-or-later
"""The host's files by the protocol of FUSE.  Tests kpfs.linux.inside.files."""

import errno
import os
import shutil
import stat
import struct

import pytest

from kpfs.base import fuse_wire as wire
from kpfs.base.fuse_wire import Opcode
from kpfs.linux.arch.arches import MIPS64
from kpfs.linux.inside import files, hostfiles
from kpfs.linux.inside.files import MAX_IO
from kpfs.linux.inside.hostfiles import HostFiles
from tests.unit.linux.inside.asking import Client, names

NAME = b"file"


def host(*writable):
    """A client of this host's files."""
    return Client(HostFiles(tuple(str(path) for path in writable)))


def test_a_file_is_found_with_its_attributes(tmp_path):
    (tmp_path / "file").write_text("text")
    os.utime(tmp_path / "file", ns=(5, 1_000_000_007))
    client = host()
    error, reply = client.ask(Opcode.LOOKUP, client.node(tmp_path), NAME + b"\0")
    st = (tmp_path / "file").stat()
    ino, size, _, _, mtime, _, _, ns = struct.unpack_from("<6QII", reply, 40)
    assert (error, ino, size, mtime, ns) == (0, st.st_ino, 4, 1, 7)


def test_a_root_shows_what_lies_below_it(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "file").touch()
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("/etc")
    client = Client(HostFiles(root=str(tmp_path)))
    assert client.read(client.node("file")) == (0, b"text")
    assert client.ask(Opcode.READLINK, client.node("link")) == (0, b"/etc")
    for name, found in (("link", errno.ENOTDIR), ("proc", errno.ENOENT)):
        assert client.ask(Opcode.LOOKUP, client.node(name), NAME + b"\0")[0] == found


def test_the_kernels_own_directories_are_there_whatever_a_root_has(tmp_path):
    (tmp_path / "proc").symlink_to("/proc")
    (tmp_path / "dev").touch()
    client = Client(HostFiles(root=str(tmp_path)))
    request = wire.READ_REQUEST.pack(0, 0, 4096, 0)
    error, reply = client.ask(Opcode.READDIR, wire.ROOT, request)
    assert (error, names(reply)[2:]) == (0, [b"dev", b"proc", b"sys"])
    for name in "proc", "dev", "sys":
        error, reply = client.ask(Opcode.READDIR, client.node(name), request)
        assert (error, names(reply)) == (0, [b".", b".."])


def test_a_name_that_is_not_there_is_remembered(tmp_path):
    client = host()
    error, reply = client.ask(Opcode.LOOKUP, client.node(tmp_path), b"none\0")
    node, _, valid = struct.unpack_from("<3Q", reply)
    assert (error, node) == (0, 0)
    assert valid


def test_contents_come_from_any_place(tmp_path):
    data = os.urandom(100_000)
    (tmp_path / "file").write_bytes(data)
    client = host()
    node = client.node(tmp_path / "file")
    for offset, size in ((0, 4096), (99_000, 4096), (200_000, 10)):
        assert client.read(node, size, offset) == (0, data[offset : offset + size])


def test_a_directory_is_read_in_parts(tmp_path):
    for number in range(50):
        (tmp_path / f"file{number:02}").touch()
    client = host()
    found: list[bytes] = []
    node = client.node(tmp_path)
    while True:
        request = wire.READ_REQUEST.pack(0, len(found), 256, 0)
        error, reply = client.ask(Opcode.READDIR, node, request)
        assert error == 0
        if not reply:
            break
        found += names(reply)
    assert found[:2] == [b".", b".."]
    assert found[2:] == [f"file{number:02}".encode() for number in range(50)]


def test_kernels_own_directories_are_empty():
    client = host()
    proc = client.node("/proc")
    assert client.ask(Opcode.LOOKUP, proc, b"self\0")[0] == errno.ENOENT
    _, reply = client.ask(Opcode.READDIR, proc, wire.READ_REQUEST.pack(0, 0, 4096, 0))
    assert names(reply) == [b".", b".."]


@pytest.mark.parametrize(
    ("opcode", "body"),
    [
        (Opcode.MKDIR, wire.MKDIR_REQUEST.pack(0o755, 0) + b"new\0"),
        (Opcode.MKNOD, wire.MKNOD_REQUEST.pack(0o100644, 0, 0) + b"new\0"),
        (Opcode.SYMLINK, b"new\0target\0"),
        (Opcode.UNLINK, b"file\0"),
        (Opcode.RENAME, wire.FH.pack(wire.ROOT) + b"file\0new\0"),
    ],
)
def test_nothing_changes_elsewhere(tmp_path, opcode, body):
    (tmp_path / "file").touch()
    (tmp_path / "rw").mkdir()
    client = host(tmp_path / "rw")
    assert client.ask(opcode, client.node(tmp_path), body)[0] == errno.EROFS
    assert sorted(os.listdir(tmp_path)) == ["file", "rw"]
    file = client.node(tmp_path / "file")
    body = wire.WRITE_REQUEST.pack(0, 0, 1, 0) + b"x"
    assert client.ask(Opcode.WRITE, file, body)[0] == errno.EROFS


def test_a_file_that_another_guest_has_made_meanwhile(tmp_path):
    client = host(tmp_path)
    top = client.node(tmp_path)
    (tmp_path / "file").write_text("text")
    for flags, expected in ((os.O_RDWR, 0), (os.O_RDWR | os.O_EXCL, errno.EEXIST)):
        body = wire.CREATE_REQUEST.pack(flags, 0o100644, 0o022) + b"file\0"
        assert client.ask(Opcode.CREATE, top, body)[0] == expected
    assert (tmp_path / "file").read_text() == "text"


def test_a_link_into_the_folder_changes_nothing_beside_it(tmp_path):
    """A sibling whose name begins alike is another folder."""
    (tmp_path / "rw-other").mkdir()
    client = host(tmp_path / "rw")
    body = wire.MKDIR_REQUEST.pack(0o755, 0) + b"new\0"
    node = client.node(tmp_path / "rw-other")
    assert client.ask(Opcode.MKDIR, node, body)[0] == errno.EROFS


def test_a_renamed_folder_is_followed(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("text")
    client = host(tmp_path)
    file, top = client.node(tmp_path / "a" / "file"), client.node(tmp_path)
    body = wire.FH.pack(top) + b"a\0b\0"
    assert client.ask(Opcode.RENAME, top, body) == (0, b"")
    assert client.read(file) == (0, b"text")


def test_a_file_that_is_removed_can_be_read_on(tmp_path):
    (tmp_path / "file").write_text("text")
    client = host(tmp_path)
    file, top = client.node(tmp_path / "file"), client.node(tmp_path)
    assert client.ask(Opcode.UNLINK, top, b"file\0") == (0, b"")
    assert client.read(file) == (0, b"text")
    assert client.ask(Opcode.GETATTR, file, bytes(16))[0] == 0


@pytest.mark.parametrize("ask", ["lookup", "getattr"])
def test_a_replaced_file_keeps_its_node(tmp_path, ask):
    """The overlay answers ESTALE for a name that leads to another node."""
    (tmp_path / "file").write_text("old")
    client = host()
    node = client.node(tmp_path / "file")
    assert client.read(node) == (0, b"old")
    (tmp_path / "new").write_text("new text")
    os.replace(tmp_path / "new", tmp_path / "file")
    if ask == "lookup":
        assert client.node(tmp_path / "file") == node
    else:
        client.ask(Opcode.GETATTR, node, bytes(16))
    assert client.read(node) == (0, b"new text")


def rewrite(file):
    """Change a file's contents, and neither its size nor its time."""
    before = file.stat()
    file.write_text(file.read_text().swapcase())
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace(file):
    """Put another file of the same size and time in a file's place."""
    new = file.with_name("new")
    new.write_text(file.read_text().swapcase())
    shutil.copystat(file, new)
    os.replace(new, file)


@pytest.mark.parametrize("change", [rewrite, replace])
@pytest.mark.parametrize("opcode", [Opcode.LOOKUP, Opcode.GETATTR])
def test_what_the_kernel_would_take_for_the_same(tmp_path, change, opcode):
    """The kernel drops cached data by itself only if size or time has changed."""
    file = tmp_path / "file"
    file.write_text("old")
    client = host()
    node, top = client.node(file), client.node(tmp_path)
    assert (client.read(node), client.files.stale) == ((0, b"old"), set())
    change(file)
    client.files.stale = set()  # the directory may be among them
    asked = (top, b"file\0") if opcode == Opcode.LOOKUP else (node, bytes(16))
    for stale in ({node}, set()):
        assert client.ask(opcode, *asked)[0] == 0
        assert client.files.stale == stale
        client.files.stale = set()
    assert client.read(node) == (0, b"OLD")


def grow(file):
    file.write_text("longer")


def replace_by_larger(file):
    file.with_name("new").write_text("longer")
    file.with_name("new").rename(file)


def test_a_directory_in_the_place_of_a_file(tmp_path):
    (tmp_path / "file").write_text("old")
    client = host()
    old = client.node(tmp_path / "file")
    (tmp_path / "file").unlink()
    (tmp_path / "file").mkdir()
    new = client.node(tmp_path / "file")
    assert new != old
    assert client.read(new)[0] != 0


def test_what_comes_and_goes_in_a_known_directory(tmp_path):
    folder = tmp_path / "known"
    folder.mkdir()
    (tmp_path / "unknown").mkdir()
    files = HostFiles(root=str(tmp_path))
    client = Client(files)
    node = client.node("known")
    assert not files.outdated()
    os.utime(tmp_path / "unknown", (1, 1))
    assert not files.outdated()
    os.utime(folder, (1, 1))
    assert (files.outdated(), files.outdated()) == (True, False)
    os.utime(folder, (2, 2))
    client.ask(Opcode.GETATTR, node, bytes(16))  # the kernel may see it first
    assert (files.outdated(), files.outdated()) == (True, False)
    folder.rmdir()
    assert (files.outdated(), files.outdated()) == (True, False)


def test_a_known_file_that_is_gone(tmp_path):
    (tmp_path / "file").touch()
    files = HostFiles(root=str(tmp_path))
    client = Client(files)
    client.node("file")
    assert not files.outdated()
    (tmp_path / "file").unlink()
    client.ask(Opcode.LOOKUP, wire.ROOT, NAME + b"\0")
    assert (files.outdated(), files.outdated()) == (True, False)


@pytest.mark.parametrize("change", [grow, replace_by_larger])
@pytest.mark.parametrize("asked", [True, False])
def test_another_size_of_a_file_that_was_read(tmp_path, change, asked):
    """A message would hide the new size, whether the kernel asks meanwhile or not."""
    file = tmp_path / "file"
    file.write_text("old")
    files = HostFiles(("/writable",), root=str(tmp_path))
    client = Client(files)
    node = client.node("file")
    assert client.read(node) == (0, b"old")
    assert not files.outdated()
    change(file)
    if asked:
        client.ask(Opcode.LOOKUP, wire.ROOT, NAME + b"\0")
    assert (files.outdated(), files.outdated()) == (True, False)
    client.ask(Opcode.LOOKUP, wire.ROOT, NAME + b"\0")
    assert files.stale - {wire.ROOT} == set()
    assert client.read(node) == (0, b"longer")


def test_files_that_the_command_itself_changes_are_not_looked_at(tmp_path):
    file = tmp_path / "file"
    file.write_text("old")
    client = host(str(tmp_path))
    node = client.node(file)
    client.read(node)
    assert not client.files.outdated()
    grow(file)
    client.ask(Opcode.GETATTR, node, bytes(16))
    assert not client.files.outdated()


def test_only_regular_files_are_opened(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    client = host()
    node = client.node(tmp_path / "fifo")
    assert client.read(node)[0] == errno.EACCES


def test_few_files_stay_open(tmp_path, monkeypatch):
    monkeypatch.setattr("kpfs.linux.inside.hostfiles.MAX_OPEN", 4)
    client = host()
    before = len(os.listdir("/proc/self/fd"))
    for number in range(20):
        (tmp_path / f"{number}").write_text(f"{number}")
        node = client.node(tmp_path / f"{number}")
        assert client.read(node) == (0, f"{number}".encode())
    assert len(os.listdir("/proc/self/fd")) <= before + 4


def test_forgotten_file_is_closed(tmp_path):
    (tmp_path / "file").touch()
    client = host()
    before = len(os.listdir("/proc/self/fd"))
    node = client.node(tmp_path / "file")
    client.read(node)
    assert client.ask(Opcode.FORGET, node, wire.FH.pack(1)) is None
    assert len(os.listdir("/proc/self/fd")) == before
    assert client.ask(Opcode.GETATTR, node, bytes(16))[0] == errno.ESTALE


def test_unserved_request_is_not_repeated():
    assert host().ask(14, wire.ROOT)[0] == errno.ENOSYS  # OPEN


def test_a_kernel_with_numbers_of_its_own(tmp_path):
    """mips64 has other numbers of errors, and of flags that open() has."""
    client = host(tmp_path)
    client.files.serve(MIPS64)
    assert client.ask(14, wire.ROOT)[0] == 89  # ENOSYS
    (tmp_path / "file").touch()
    body = wire.CREATE_REQUEST.pack(0x400, 0o100644, 0o022) + b"file\0"
    top = client.node(tmp_path)
    assert client.ask(Opcode.CREATE, top, body)[0] == errno.EEXIST
    (tmp_path / "folder" / "below").mkdir(parents=True)
    assert client.ask(Opcode.RMDIR, top, b"folder\0")[0] == 93  # ENOTEMPTY


# ---- a kernel that means harm
WRITE = wire.WRITE_REQUEST.pack(0, 0, 1, 0) + b"x"


@pytest.fixture
def beside(tmp_path):
    """(folder that may be changed, file beside it)."""
    (tmp_path / "rw").mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/file").write_text("text")
    return tmp_path / "rw", tmp_path / "secret/file"


@pytest.mark.parametrize("name", [b"../secret/file", b"..", b".", b"", b"a/b"])
def test_a_name_is_one_name(beside, name):
    rw, _ = beside
    client = host(rw)
    top = client.node(rw)
    assert client.ask(Opcode.LOOKUP, top, name + b"\0")[0] == errno.EINVAL
    body = wire.CREATE_REQUEST.pack(os.O_RDWR, 0o100644, 0) + name + b"\0"
    assert client.ask(Opcode.CREATE, top, body)[0] == errno.EINVAL
    assert client.ask(Opcode.UNLINK, top, name + b"\0")[0] == errno.EINVAL


def test_a_link_is_no_directory(beside):
    """A kernel follows links itself."""
    rw, file = beside
    client = host(rw)
    body = b"link\0" + bytes(file.parent) + b"\0"
    assert client.ask(Opcode.SYMLINK, client.node(rw), body)[0] == 0
    link = client.node(rw / "link")
    assert client.ask(Opcode.LOOKUP, link, b"file\0")[0] == errno.ENOTDIR
    assert client.ask(Opcode.UNLINK, link, b"file\0")[0] == errno.ENOTDIR
    assert file.read_text() == "text"


@pytest.mark.parametrize(
    ("opcode", "body"),
    [
        (Opcode.MKDIR, wire.MKDIR_REQUEST.pack(0o755, 0) + b"new\0"),
        (Opcode.MKNOD, wire.MKNOD_REQUEST.pack(0o100644, 0, 0) + b"new\0"),
        (Opcode.CREATE, wire.CREATE_REQUEST.pack(os.O_RDWR, 0o100644, 0) + b"new\0"),
        (Opcode.SYMLINK, b"new\0target\0"),
        (Opcode.UNLINK, b"file\0"),
    ],
)
def test_a_folder_that_another_guest_makes_a_link(beside, opcode, body):
    rw, file = beside
    (rw / "d").mkdir()
    (rw / "d/file").write_text("ours")
    client = host(rw)
    folder, inner = client.node(rw / "d"), client.node(rw / "d/file")
    (rw / "d").rename(rw / "e")
    (rw / "d").symlink_to(file.parent)
    assert client.ask(opcode, folder, body)[0] in (errno.ESTALE, errno.ENOTDIR)
    assert client.ask(Opcode.WRITE, inner, WRITE)[0] == errno.ESTALE
    assert client.read(inner)[0] == errno.ESTALE
    mode = wire.SETATTR_REQUEST.pack(wire.FATTR_MODE, *bytes(9), 0o777, 0, 0)
    assert client.ask(Opcode.SETATTR, inner, mode)[0] == errno.ESTALE
    assert file.read_text() == "text"
    assert os.listdir(file.parent) == ["file"]


def test_a_device_is_not_even_opened(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "fifo")
    client = host()
    node = client.node(tmp_path / "fifo")
    monkeypatch.setattr(os, "open", lambda *_: pytest.fail("opened"))
    assert client.read(node)[0] == errno.EACCES


# ---- requests that no kernel makes
HUGE = (1 << 64) - 1


@pytest.mark.parametrize(
    ("opcode", "body"),
    [
        (Opcode.READ, wire.READ_REQUEST.pack(0, HUGE, 100, 0)),
        (Opcode.READ, b"short"),
        (Opcode.WRITE, wire.WRITE_REQUEST.pack(0, HUGE, 1, 0) + b"x"),
        (Opcode.SETATTR, wire.SETATTR_REQUEST.pack(8, 0, HUGE, *[0] * 10)),
        (Opcode.SYMLINK, b"alone"),
        (Opcode.RENAME, wire.FH.pack(1) + b"alone"),
        (Opcode.BATCH_FORGET, wire.COUNT.pack(9) + b"short"),
    ],
)
def test_a_number_beyond_all_is_refused(tmp_path, opcode, body):
    (tmp_path / "file").write_text("text")
    client = host(tmp_path)
    node = client.node(tmp_path if opcode == Opcode.SYMLINK else tmp_path / "file")
    assert client.ask(opcode, node, body)[0] == errno.EINVAL
    assert (tmp_path / "file").read_text() == "text"


def test_a_request_without_a_head_has_no_reply():
    client = host()
    assert client.files.answer(b"\0" * 39, client.memory) == 0


def test_a_read_stays_within_the_buffer(tmp_path):
    (tmp_path / "file").write_bytes(bytes(2 * MAX_IO))
    client = host()
    assert client.read(client.node(tmp_path / "file"), 0xFFFFFFFF) == (0, bytes(MAX_IO))


def test_a_folder_that_became_a_link_is_not_looked_into(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d/fd").touch()
    client = host()
    folder, inner = client.node(tmp_path / "d"), client.node(tmp_path / "d/fd")
    (tmp_path / "d").rename(tmp_path / "e")
    (tmp_path / "d").symlink_to("/proc/self")
    body = wire.READ_REQUEST.pack(0, 0, 4096, 0)
    for opcode, node in (
        (Opcode.READDIR, folder),
        (Opcode.READDIRPLUS, folder),
        (Opcode.STATFS, inner),
        (Opcode.GETATTR, inner),
        (Opcode.READLINK, inner),
    ):
        assert client.ask(opcode, node, body)[0] == errno.ESTALE, opcode
    assert client.ask(Opcode.LOOKUP, folder, b"environ\0")[0] == errno.ESTALE


def test_procfs_is_hidden_wherever_it_is_mounted(tmp_path, monkeypatch):
    """procfs shows descriptors and memory of the process that serves the files."""
    client = host()
    node = client.node(tmp_path)
    place = os.stat(tmp_path).st_dev
    monkeypatch.setattr(client.files, "_hidden", frozenset([place]))
    body = wire.READ_REQUEST.pack(0, 0, 4096, 0)
    assert names(client.ask(Opcode.READDIR, node, body)[1]) == [b".", b".."]
    assert client.ask(Opcode.LOOKUP, node, b"self\0")[0] == errno.ENOENT


def test_the_devices_of_procfs_are_found():
    assert os.stat("/proc").st_dev in hostfiles.procfs_devices()


@pytest.mark.parametrize(
    ("opcode", "body"),
    [
        (Opcode.RMDIR, b"rw\0"),
        (Opcode.UNLINK, b"rw\0"),
        (Opcode.SYMLINK, b"rw\0/etc\0"),
        (Opcode.MKDIR, wire.MKDIR_REQUEST.pack(0o755, 0) + b"rw\0"),
        (Opcode.CREATE, wire.CREATE_REQUEST.pack(os.O_RDWR, 0o100644, 0) + b"rw\0"),
    ],
)
@pytest.mark.parametrize("deleted", [False, True])
def test_the_writable_folder_itself_stays(tmp_path, opcode, body, deleted):
    """The folder's entry is in the folder above, which may not be changed."""
    (tmp_path / "rw").mkdir()
    client = host(tmp_path / "rw")
    top = client.node(tmp_path)
    if deleted:
        (tmp_path / "rw").rmdir()
    assert client.ask(opcode, top, body)[0] == errno.EROFS
    assert os.listdir(tmp_path) == [] if deleted else ["rw"]


@pytest.mark.parametrize("bits", [0o4755, 0o2755])
def test_nobody_gets_the_rights_of_a_file_that_a_kernel_makes(tmp_path, bits):
    (tmp_path / "file").touch(0o700)
    client = host(tmp_path)
    top, file = client.node(tmp_path), client.node(tmp_path / "file")
    mode = wire.SETATTR_REQUEST.pack(wire.FATTR_MODE, *[0] * 9, bits, 0, 0)
    assert client.ask(Opcode.SETATTR, file, mode)[0] == errno.EPERM
    body = wire.CREATE_REQUEST.pack(os.O_RDWR, 0o100000 | bits, 0) + b"new\0"
    assert client.ask(Opcode.CREATE, top, body)[0] == errno.EPERM
    body = wire.MKNOD_REQUEST.pack(0o100000 | bits, 0, 0) + b"new\0"
    assert client.ask(Opcode.MKNOD, top, body)[0] == errno.EPERM
    assert os.listdir(tmp_path) == ["file"]
    (tmp_path / "file").chmod(bits)
    assert client.ask(Opcode.WRITE, file, WRITE)[0] == 0
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o755
    body = wire.MKDIR_REQUEST.pack(0o2755, 0) + b"folder\0"
    assert client.ask(Opcode.MKDIR, top, body)[0] == 0  # files get its group there


@pytest.mark.parametrize("name", [b"", b"user.x", b"security.capability", b"x" * 4096])
@pytest.mark.parametrize("size", [0, 1, 65536, (1 << 32) - 1])
def test_extended_attributes_are_not_served(tmp_path, name, size):
    """Capabilities, say, would give others on the host somebody's rights."""
    (tmp_path / "file").touch()
    client = host(tmp_path)
    file = client.node(tmp_path / "file")
    head, value = struct.pack("<2I", size, 0), bytes(min(size, 65536))
    for opcode, body in (
        (Opcode.SETXATTR, head + name + b"\0" + value),
        (Opcode.GETXATTR, head + name + b"\0"),
        (Opcode.LISTXATTR, head),
        (Opcode.REMOVEXATTR, name + b"\0"),
    ):
        assert client.ask(opcode, file, body) == (errno.ENOSYS, b"")
    assert os.listxattr(tmp_path / "file") == []
    assert client.read(file) == (0, b"")


def test_a_device_that_is_there_already_is_not_opened(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "fifo")
    client = host(tmp_path)
    top = client.node(tmp_path)
    opened = os.open

    def watched(path, flags, *args, **options):
        assert os.fsencode(path) != b"fifo" or flags & (os.O_PATH | os.O_EXCL)
        return opened(path, flags, *args, **options)

    monkeypatch.setattr(os, "open", watched)
    body = wire.CREATE_REQUEST.pack(os.O_RDWR, 0o100644, 0) + b"fifo\0"
    assert client.ask(Opcode.CREATE, top, body)[0] == 0


def test_what_a_kernel_may_know_has_a_bound(tmp_path, monkeypatch):
    client = host()
    node = client.node(tmp_path)
    (tmp_path / "file").touch()
    monkeypatch.setattr(hostfiles, "MAX_NODES", 0)
    assert client.ask(Opcode.LOOKUP, node, NAME + b"\0")[0] == errno.ENOMEM


def test_what_was_read_is_noted_within_bounds(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_READS", 2)
    (tmp_path / "file").touch()
    client = host()
    client.files.reads = []
    for _ in range(5):
        client.read(client.node(tmp_path / "file"))
    assert len(client.files.reads) == 2
