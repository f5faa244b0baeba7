# SPDX-License-Identifier: GPL-2.0-or-later
"""The modules of a kernel's package by the protocol of FUSE."""

import errno
import os
import stat
import struct
import zipfile

import pytest

from kpfs.base import fuse_wire as wire
from kpfs.base.fuse_wire import Opcode
from kpfs.linux.inside.files import MAX_IO
from kpfs.linux.inside.packagefiles import PackageFiles
from kpfs.linux.store import kmod
from tests.unit.linux.inside.asking import Client, names

TOP = "usr/lib/modules/1.2.3"
DATA = os.urandom(200_000)


@pytest.fixture(autouse=True)
def no_programs(monkeypatch):
    """There is no depmod."""
    monkeypatch.setattr(kmod, "search_path", lambda: "")


@pytest.fixture
def archive(tmp_path):
    (tmp_path / "config").write_text("CONFIG_HZ=250\n")
    path = tmp_path / "modules"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("kernel/fs/a.ko.xz", DATA)
        made.writestr("kernel/b.ko", b"b")
        made.writestr("modules.order", "kernel/b.ko\n")
    return path


@pytest.fixture
def client(archive):
    return Client(PackageFiles(str(archive.parent), "1.2.3"))


def test_directories_and_files(client):
    def list_of(path, opcode=Opcode.READDIR):
        body = wire.READ_REQUEST.pack(0, 0, 8192, 0)
        error, reply = client.ask(opcode, client.node(path), body)
        assert error == 0
        return names(reply) if opcode == Opcode.READDIR else reply

    assert client.ask(Opcode.LOOKUP, wire.ROOT, b"usr\0")[0] == 0
    assert list_of("usr/lib") == [b".", b"..", b"modules"]
    assert list_of("lib/modules") == [b".", b"..", b"1.2.3"]
    assert list_of(TOP) == [b".", b"..", b"kernel", b"modules.order"]
    assert list_of(f"{TOP}/kernel") == [b".", b"..", b"b.ko", b"fs"]
    assert b"a.ko.xz" in list_of(f"{TOP}/kernel/fs", Opcode.READDIRPLUS)
    assert list_of("boot") == [b".", b"..", b"config-1.2.3"]
    assert client.node("usr/bin") == 0
    assert client.node("boot/config-9.9.9") == 0
    assert client.node(f"{TOP}/none") == 0


def test_contents(client):
    number = client.node(f"{TOP}/kernel/fs/a.ko.xz")
    error, reply = client.ask(Opcode.GETATTR, number)
    _, size = struct.unpack_from("<2Q", reply, 16)
    (mode,) = struct.unpack_from("<I", reply, 16 + 60)
    assert (error, size, stat.S_IFMT(mode)) == (0, len(DATA), stat.S_IFREG)

    def read(offset, size):
        return client.read(number, size, offset)

    assert read(0, MAX_IO) == (0, DATA[:MAX_IO])
    assert read(MAX_IO, MAX_IO) == (0, DATA[MAX_IO:])
    assert read(len(DATA), 4096) == (0, b"")
    assert read(5, 3) == (0, DATA[5:8])


def test_the_configuration_is_there_before_modules_are_unpacked(client, archive):
    archive.unlink()
    assert client.read(client.node("boot/config-1.2.3")) == (0, b"CONFIG_HZ=250\n")


def test_a_kernel_without_its_configuration_has_no_such_file(archive):
    archive.with_name("config").write_text("")
    assert Client(PackageFiles(str(archive.parent), "1.2.3")).node("boot") == 0


def test_nothing_is_changed(client):
    number = client.node(f"{TOP}/kernel/b.ko")
    body = wire.WRITE_REQUEST.pack(0, 0, 1, 0) + b"x"
    assert client.ask(Opcode.WRITE, number, body)[0] == errno.ENOSYS
    assert client.ask(Opcode.UNLINK, wire.ROOT, b"usr\0")[0] == errno.ENOSYS
    assert client.read(wire.ROOT)[0] == errno.EISDIR


def test_the_archive_is_unpacked_at_the_first_look_into_it(client, archive):
    os.rename(archive, f"{archive}.away")
    assert client.node("usr/lib/modules") != 0
    number = client.node("usr/lib/modules/1.2.3")
    assert client.ask(Opcode.LOOKUP, number, b"kernel\0")[0] == errno.ENOENT
    archive.write_bytes(b"damaged")
    assert client.ask(Opcode.LOOKUP, number, b"kernel\0")[0] == errno.EIO
    os.rename(f"{archive}.away", archive)
    assert client.node(f"{TOP}/kernel") != 0


def test_successor_knows_the_same_numbers(client, archive):
    number = client.node(f"{TOP}/kernel/b.ko")
    known = client.files.packed()
    other = Client(PackageFiles(str(archive.parent), "1.2.3"))
    other.files.adopt(known)
    assert other.read(number) == (0, b"b")


@pytest.mark.parametrize("name", [b"../../../../secret", b"..", b"", b"kernel/b.ko"])
def test_a_name_leads_nowhere_else(client, archive, name):
    (archive.parent / "secret").write_text("text")
    number = client.node(TOP)
    assert client.ask(Opcode.LOOKUP, number, name + b"\0")[0] == errno.EINVAL
