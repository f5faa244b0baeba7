# SPDX-License-Identifier: GPL-2.0-or-later
"""The files of a kernel in packages that are made up here."""

import gzip
import io
import lzma
import os
import shutil
import subprocess
import tarfile

import pytest

from kpfs.linux.errors import UnfitError
from kpfs.linux.make.cpio import CpioEntry, archive
from kpfs.linux.package import packages

FILES = {
    "boot/vmlinuz-6.1.0-9": b"kernel",
    "boot/config-6.1.0-9": b"CONFIG_KPROBES=y\n",
    "lib/modules/6.1.0-9/kernel/fs/fat.ko": b"module",
    "lib/modules/6.1.0-9/modules.order": b"kernel/fs/fat.ko\n",
    "usr/share/doc/README": b"nobody wants it",
}
WANTED = packages.KernelFiles(
    b"kernel",
    "CONFIG_KPROBES=y\n",
    {"kernel/fs/fat.ko": b"module", "modules.order": b"kernel/fs/fat.ko\n"},
)


def read(paths):
    return packages.read_packages(paths).complete()


def deb(files, compress=lzma.compress, name="data.tar.xz"):
    """An ar archive with a tar archive in it."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for path, data in files.items():
            member = tarfile.TarInfo(f"./{path}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    out = b"!<arch>\n"
    for part, data in (("debian-binary", b"2.0"), (name, compress(raw.getvalue()))):
        out += f"{part:16}{0:<12}{0:<6}{0:<6}{0o644:<8o}{len(data):<10}".encode()
        out += b"`\n" + data + b"\n" * (len(data) % 2)
    return out


def rpm(files, compress=gzip.compress):
    """A lead, two headers without entries, a cpio archive."""
    entries = [CpioEntry(f"./{path}", 0o100644, data) for path, data in files.items()]
    header = b"\x8e\xad\xe8\x01" + bytes(12)
    lead = b"\xed\xab\xee\xdb" + bytes(92)
    return lead + header + header + compress(archive(entries))


@pytest.mark.parametrize(
    "data",
    [
        deb(FILES),
        deb(FILES, gzip.compress, "data.tar.gz"),
        deb(FILES, bytes, "data.tar"),
        rpm(FILES),
        rpm(FILES, lzma.compress),
        rpm({f"usr/{name}": data for name, data in FILES.items()}),
    ],
)
def test_the_files_of_a_kernel(tmp_path, data):
    path = tmp_path / "package"
    path.write_bytes(data)
    assert read([str(path)]) == WANTED._replace(origin="package")


def test_modules_are_read_when_they_are_wanted(tmp_path):
    path = tmp_path / "package"
    path.write_bytes(deb(FILES))
    files = packages.read_packages([str(path)])
    assert (files.vmlinuz, files.config) == WANTED[:2]
    assert files.modules == {}
    assert dict(files.rest) == WANTED.modules
    large = FILES | {"lib/modules/6.1.0-9/kernel/a.ko": os.urandom(1 << 20)}
    path.write_bytes(deb(large)[: 1 << 19])
    files = packages.read_packages([str(path)])
    assert files.vmlinuz == b"kernel"
    with pytest.raises(UnfitError, match="the package is damaged"):
        list(files.rest)


SPEC = """
Name: kernel-core
Version: 6.1.0
Release: 9
Summary: kernel
License: GPL-2.0-only
AutoReqProv: no
%define _binary_payload PAYLOAD
%define __os_install_post %{nil}
%description
The kernel.
%install
mkdir -p %{buildroot}
cp -a SOURCE/lib %{buildroot}/
%files
/lib
"""


@pytest.mark.skipif(not shutil.which("rpmbuild"), reason="rpmbuild is missing")
@pytest.mark.parametrize("payload", ["w9.gzdio", "w2.xzdio", "w3.zstdio"])
def test_a_package_that_rpmbuild_has_made(tmp_path, payload):
    top = tmp_path / "top"
    folder = tmp_path / "lib/modules/6.1.0-9"
    (folder / "kernel").mkdir(parents=True)
    (folder / "vmlinuz").write_bytes(b"kernel")
    (folder / "config").write_text("CONFIG_KPROBES=y\n")
    (folder / "kernel" / "fat.ko").write_bytes(b"module" * 1000)
    (folder / "kernel" / "link.ko").symlink_to("fat.ko")
    spec = tmp_path / "kernel.spec"
    text = SPEC.replace("PAYLOAD", payload).replace("SOURCE", str(tmp_path))
    spec.write_text(text)
    define = "--define", f"_topdir {top}"
    subprocess.run(["rpmbuild", "-bb", "--quiet", *define, spec], check=True)
    (made,) = top.rglob("*.rpm")
    found = read([str(made)])
    modules = {"kernel/fat.ko": b"module" * 1000}
    assert found[:4] == (b"kernel", "CONFIG_KPROBES=y\n", modules, made.name)


def test_a_kernel_in_several_packages(tmp_path):
    names = "core", "modules", "again"
    paths = core, modules, again = [str(tmp_path / name) for name in names]
    with_modules = {n: d for n, d in FILES.items() if "/lib/" in f"/{n}"}
    parts = {n: d for n, d in FILES.items() if n not in with_modules}, with_modules
    for path, files in zip(paths, (*parts, parts[0]), strict=True):
        with open(path, "wb") as file:
            file.write(rpm(files))
    found = read([core, modules])
    assert found == WANTED._replace(origin="core modules")
    assert read([modules, core])[:3] == found[:3]
    with pytest.raises(UnfitError, match="holds no kernel"):
        read([modules])
    with pytest.raises(UnfitError, match="again: that is a second kernel"):
        read([core, modules, again])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "neither a .deb nor an .rpm"),
        (b"MZ something else", "neither a .deb nor an .rpm"),
        (deb({"usr/share/doc/README": b""}), "holds no kernel"),
        (b"!<arch>\n", "holds no files"),
        (deb(FILES, lambda data: lzma.compress(data)[:150]), "damaged"),
        (rpm(FILES)[:100], "damaged"),
        (rpm(FILES, lambda data: gzip.compress(data)[:60]), "damaged"),
    ],
)
def test_what_is_no_package(tmp_path, data, why):
    path = tmp_path / "package"
    path.write_bytes(data)
    with pytest.raises(UnfitError, match=why):
        read([str(path)])


@pytest.mark.parametrize(
    "data",
    [
        deb(FILES),
        deb(FILES, gzip.compress, "data.tar.gz"),
        rpm(FILES),
        rpm(FILES, lzma.compress),
    ],
)
def test_a_package_that_has_no_end(tmp_path, monkeypatch, data):
    path = tmp_path / "package"
    path.write_bytes(data)
    monkeypatch.setattr(packages, "MAX_UNPACKED", 20)
    with pytest.raises(UnfitError, match="more than any kernel"):
        read([str(path)])


def test_a_path_that_leads_elsewhere_is_a_name_in_an_archive(tmp_path):
    """Nothing is unpacked into folders, and what is no regular file is left out."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for path, kind in (
            ("./boot/vmlinuz-6.1", tarfile.REGTYPE),
            ("./boot/config-6.1", tarfile.SYMTYPE),
            ("./lib/modules/6.1/a.ko", tarfile.CHRTYPE),
            ("./lib/modules/6.1/b.ko", tarfile.LNKTYPE),
            ("/../../etc/c.ko", tarfile.REGTYPE),
        ):
            member = tarfile.TarInfo(path)
            member.type, member.linkname = kind, "/etc/passwd"
            tar.addfile(member, io.BytesIO())
    path = tmp_path / "package"
    path.write_bytes(deb({}, lambda _: raw.getvalue(), "data.tar"))
    with pytest.raises(UnfitError, match="no kernel"):  # it is empty
        read([str(path)])
    assert os.listdir(tmp_path) == ["package"]


def test_a_package_of_arch_linux(tmp_path):
    zstandard = pytest.importorskip("zstandard")
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for path, data in {
            "usr/lib/modules/7.1-arch1/vmlinuz": b"kernel",
            "usr/lib/modules/7.1-arch1/kernel/fat.ko.zst": b"module",
            ".PKGINFO": b"pkgname = linux",
        }.items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    path = tmp_path / "linux.pkg.tar.zst"
    path.write_bytes(zstandard.compress(raw.getvalue()))
    found = read([str(path)])
    assert (found.vmlinuz, found.config) == (b"kernel", "")
    assert found.modules == {"kernel/fat.ko.zst": b"module"}


def test_no_such_file(tmp_path):
    with pytest.raises(UnfitError, match="No such file"):
        read([str(tmp_path / "none")])


def test_modules_of_a_folder(tmp_path):
    for name, data in WANTED.modules.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    (tmp_path / "modules.dep").write_bytes(b"made by depmod")
    assert packages.read_folder(str(tmp_path)) == WANTED.modules


# ---- numbers that lead back, for which int() is too kind
def test_a_part_of_a_deb_of_negative_size_is_no_loop(tmp_path):
    head = f"{'debian-binary':16}{0:<12}{0:<6}{0:<6}{0o644:<8o}{-60:<10}".encode()
    path = tmp_path / "package"
    path.write_bytes(b"!<arch>\n" + head + b"`\n")
    with pytest.raises(UnfitError, match="package is damaged"):
        read([str(path)])


@pytest.mark.parametrize("text", [b"-0000078", b"+0000001", b" 0000001", b"0x000001"])
def test_a_file_of_an_rpm_of_negative_size_is_no_loop(tmp_path, text):
    cpio = archive([CpioEntry("a", 0o100644)])
    at = 6 + 8 * 6  # c_filesize
    cpio = cpio[:at] + text + cpio[at + 8 :]
    head = rpm({}, lambda _data: b"")
    path = tmp_path / "package"
    path.write_bytes(head + gzip.compress(cpio))
    with pytest.raises(UnfitError, match="package is damaged"):
        read([str(path)])


def test_attributes_of_a_member_are_not_read_whole(tmp_path, monkeypatch):
    """tarfile reads a long name, or attributes of PAX, into memory at once."""
    monkeypatch.setattr(packages, "_LONGEST", 1000)
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as tar:
        tar.addfile(tarfile.TarInfo("x" * 5000))
    data = deb({}, lambda _data: gzip.compress(raw.getvalue()), "data.tar.gz")
    path = tmp_path / "package"
    path.write_bytes(data)
    with pytest.raises(UnfitError, match="package is damaged"):
        read([str(path)])


def test_the_cap_on_what_is_unpacked_is_told():
    assert packages.TOO_LARGE.endswith("it holds more than any kernel (1024 MiB)")
