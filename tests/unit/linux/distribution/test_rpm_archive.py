# SPDX-License-Identifier: GPL-2.0-or-later
"""Distributions whose servers are not asked here, by archives of their form."""

import gzip
import hashlib
import io
import tarfile

import pytest

from kpfs.linux.distribution import distributions
from kpfs.linux.distribution.arch_linux import ArchLinux
from kpfs.linux.distribution.distributions import distribution
from kpfs.linux.distribution.offer import Access
from kpfs.linux.errors import UnfitError

ROW = """<package type="rpm"><name>{name}</name><arch>{arch}</arch>
<version epoch="0" ver="{version}" rel="{release}"/>
<checksum type="sha256" pkgid="YES">{digest}</checksum>
<size package="7" installed="9" archive="10"/>
<location href="Packages/{name}-{version}-{release}.rpm"/></package>"""
PRIMARY = """<?xml version="1.0"?><metadata xmlns="http://linux.duke.edu/metadata/common"
 xmlns:rpm="http://linux.duke.edu/metadata/rpm" packages="2">{rows}</metadata>"""
INDEX = """<?xml version="1.0"?><repomd xmlns="http://linux.duke.edu/metadata/repo">
<data type="filelists"><location href="repodata/no.xml.gz"/></data>
<data type="primary"><checksum type="sha256">{digest}</checksum>
<location href="repodata/primary.xml.gz"/><size>{size}</size></data></repomd>"""


def put(archive, place, *names, version="6.17.1", release="1", arch="x86_64"):
    rows = [
        ROW.format(
            name=name,
            version=version,
            release=release,
            digest="ab" * 32,
            arch=arch,
        )
        for name in names
    ]
    data = gzip.compress(PRIMARY.format(rows="".join(rows)).encode())
    digest = hashlib.sha256(data).hexdigest()
    index = INDEX.format(digest=digest, size=len(data))
    archive.files[f"{place}/repodata/primary.xml.gz"] = data
    archive.files[f"{place}/repodata/repomd.xml"] = index.encode()


@pytest.fixture
def access(archive):
    return Access(archive.url, signed=False)


def test_fedora(archive, access):
    parts = "kernel-core", "kernel-modules-core", "kernel-modules", "kernel-doc"
    put(archive, "/releases/43/Everything/x86_64/os", *parts)
    put(archive, "/updates/43/Everything/x86_64", *parts, version="6.17.10")
    offer = distribution("fedora", access).find("43")
    assert (offer.name, offer.release) == ("fedora:43", "6.17.10-1.x86_64")
    assert [file.name for file in offer.files] == [
        f"{part}-6.17.10-1.rpm" for part in parts[:3]
    ]
    with pytest.raises(UnfitError, match="fedora's archive has no kernel 41"):
        distribution("fedora", access).find("41")
    with pytest.raises(UnfitError, match="flavours there: none"):
        distribution("fedora", access).find("43-rt")


def test_the_architecture(archive, access):
    put(archive, "/9/BaseOS/aarch64/os", "kernel-core", arch="aarch64")
    assert distribution("alma", access).find("9-arm64").release == "6.17.1-1.aarch64"


def test_a_kernel_whose_modules_are_in_fewer_packages(archive, access):
    """Red Hat Enterprise Linux 8, whose Linux is 4.18."""
    parts, version = ("kernel-core", "kernel-modules"), "4.18.0"
    place = "/8/BaseOS/x86_64/os"
    put(archive, place, *parts, version=version, release="553.el8_10")
    offer = distribution("alma", access).find("8")
    assert (offer.name, offer.release) == ("alma:8", "4.18.0-553.el8_10.x86_64")
    assert [file.name for file in offer.files] == [
        f"{part}-4.18.0-553.el8_10.rpm" for part in parts
    ]


def test_opensuse(archive, access):
    put(archive, "/tumbleweed/repo/oss", "kernel-default", "kernel-default-devel")
    put(archive, "/update/leap/15.6/oss", "kernel-default", version="6.4.0")
    for name, version in (("tumbleweed", "6.17.1"), ("15.6", "6.4.0")):
        offer = distribution("opensuse", access).find(name)
        assert [file.name for file in offer.files] == [
            f"kernel-default-{version}-1.rpm"
        ]


def test_amazon(archive, access):
    listed = "/al2023/core/mirrors/latest/x86_64/mirror.list"
    archive.files[listed] = f"{archive.url}/guids/12ab/x86_64/\n".encode()
    put(archive, "/guids/12ab/x86_64", "kernel", "kernel6.12")
    for name, package in (("2023", "kernel"), ("2023-6.12", "kernel6.12")):
        offer = distribution("amazon", access).find(name)
        assert [file.name for file in offer.files] == [f"{package}-6.17.1-1.rpm"]


def test_arch_linux(archive, access):
    for repository, name in (("core", "linux"), ("extra", "linux-zen")):
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w:gz") as tar:
            text = (
                f"%FILENAME%\n{name}-7.1.pkg.tar.zst\n\n%NAME%\n{name}\n\n%VERSION%\n"
                f"7.1\n\n%CSIZE%\n7\n\n%SHA256SUM%\n{'cd' * 32}\n\n"
            ).encode()
            member = tarfile.TarInfo(f"{name}-7.1/desc")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))
        place = f"/{repository}/os/x86_64/{repository}.db"
        archive.files[place] = raw.getvalue()
    offer = ArchLinux(access).find("linux-zen")
    url = f"{archive.url}/extra/os/x86_64/linux-zen-7.1.pkg.tar.zst"
    assert [(file.url, file.size, file.digest) for file in offer.files] == [
        (url, 7, "cd" * 32)
    ]


@pytest.mark.parametrize("name", ["fedora:43", "arch:linux"])
def test_only_a_certificate_vouches_for_these(archive, name):
    with pytest.raises(UnfitError, match="without https, say --insecure-no-signature"):
        distributions.find(name, Access(archive.url))


@pytest.mark.parametrize("index", [b"<", b"<a/>", b"\xff"])
def test_a_damaged_index(archive, access, index):
    archive.files["/9/BaseOS/x86_64/os/repodata/repomd.xml"] = index
    with pytest.raises(UnfitError, match="its index is damaged"):
        distribution("alma", access).find("9")
