# SPDX-License-Identifier: GPL-2.0-or-later
"""Indexes of strangers: each field of a file, in each form of index, with wild values.

What comes of one is an error of one line, or a file of which name, size and digest can
do no harm here.
"""

import gzip
import hashlib
import io
import lzma
import os
import re
import shutil
import tarfile
import urllib.error
import urllib.request
from http.client import HTTPException, HTTPMessage

import pytest

from kpfs.linux.distribution import fetch
from kpfs.linux.distribution.arch_linux import ArchLinux
from kpfs.linux.distribution.debian import Debian
from kpfs.linux.distribution.distributions import distribution
from kpfs.linux.distribution.offer import MAX_FILE, Access, listed_file, rank
from kpfs.linux.errors import UnfitError

RIGHT = {
    "name": "pool/kernel.pkg",
    "size": "3",
    "digest": "ab" * 32,
    "algorithm": "sha256",
    "version": "6.1.9-1",
}
LONG = "9" * 5000
VALUES = {
    "name": (
        *("../../outside", "/etc/passwd", "..", "pool/..", "pool/.", "pool/", ""),
        *(
            "pool/\u00e9.deb",
            "pool/a b?c#d",
            "pool/\x1b[31m",
            "x" * 5000,
            "http://[::1",
        ),
        *("pool/\ufffd", "pool/%2e%2e", "pool/%2f..%2fx", "pool/\\..\\x", "\u0661"),
    ),
    "size": ("-1", "", "x", "1_0", "\u0661", LONG, str(1 << 62), "0x10", "1e9", " 3"),
    "digest": (
        *("../outside", "{outside}", "", "ab", "ab" * 64, "ab" * 31 + "/.", "gg" * 32),
        *("\u0661" * 64, "ab" * 31 + "\x1b[", LONG, "..", "-" + "ab" * 31 + "a"),
    ),
    "algorithm": ("md5", "sha1", "../sha256", "shake_128", "", "SHA256", "\u00e9"),
    "version": ("", LONG, "\x1b]0;x\x07", "../../x", "\u0661.\u0662", "~rc1", "-"),
}
ROWS = [(field, value) for field, values in VALUES.items() for value in values]


def escaped(text):
    """Return text for XML, which cannot have some characters at all."""
    text = re.sub("[\0-\x08\x0b-\x1f]", "?", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def deb(archive, row):
    index = (
        f"Package: linux-image-6.1.0-9-amd64\nVersion: {row['version']}\n"
        f"Filename: {row['name']}\nSize: {row['size']}\nSHA256: {row['digest']}\n"
    )
    path = "/dists/sid/main/binary-amd64/Packages.xz"
    archive.files[path] = lzma.compress(index.encode("utf-8", "replace"))
    return Debian(Access(archive.url, signed=False)).find("sid").files


def release(archive, row):
    """Have the signed list of indexes name a wild one."""
    from kpfs.linux.distribution import deb_archive

    path = "main/binary-amd64/Packages.xz"
    text = f"SHA256:\n {row['digest']} {row['size']} {path}\n"
    deb_archive._read_index(text, f"{archive.url}/dists/sid", path)
    return ()


def rpm(archive, row):
    row = {name: escaped(value) for name, value in row.items()}
    version, _, release = row["version"].partition("-")
    primary = (
        '<metadata xmlns="http://linux.duke.edu/metadata/common"><package type="rpm">'
        f'<name>kernel-core</name><arch>x86_64</arch><version ver="{version}" '
        f'rel="{release}"/><checksum type="{row["algorithm"]}">{row["digest"]}'
        f'</checksum><size package="{row["size"]}"/><location href="{row["name"]}"/>'
        "</package></metadata>"
    )
    data = gzip.compress(primary.encode("utf-8", "replace"))
    put_repomd(archive, hashlib.sha256(data).hexdigest(), len(data))
    archive.files["/9/BaseOS/x86_64/os/repodata/primary.xml.gz"] = data
    return distribution("alma", Access(archive.url, signed=False)).find("9").files


def repomd(archive, row):
    """Have the list of an rpm repository's indexes name a wild one."""
    row = {name: escaped(value) for name, value in row.items()}
    put_repomd(archive, row["digest"], row["size"], row["algorithm"], row["name"])
    return distribution("alma", Access(archive.url, signed=False)).find("9").files


def put_repomd(
    archive, digest, size, algorithm="sha256", name="repodata/primary.xml.gz"
):
    archive.files["/9/BaseOS/x86_64/os/repodata/repomd.xml"] = (
        '<repomd xmlns="http://linux.duke.edu/metadata/repo"><data type="primary">'
        f'<checksum type="{algorithm}">{digest}</checksum><location href="{name}"/>'
        f"<size>{size}</size></data></repomd>"
    ).encode("utf-8", "replace")


def arch(archive, row):
    text = (
        f"%FILENAME%\n{row['name']}\n\n%NAME%\nlinux\n\n%VERSION%\n{row['version']}\n\n"
        f"%CSIZE%\n{row['size']}\n\n%SHA256SUM%\n{row['digest']}\n\n"
    ).encode("utf-8", "replace")
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as tar:
        member = tarfile.TarInfo("linux-7.1/desc")
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text))
    archive.files["/core/os/x86_64/core.db"] = raw.getvalue()
    empty = io.BytesIO()
    tarfile.open(fileobj=empty, mode="w:gz").close()
    archive.files["/extra/os/x86_64/extra.db"] = empty.getvalue()
    return ArchLinux(Access(archive.url, signed=False)).find("linux").files


FORMS = {"deb": deb, "release": release, "rpm": rpm, "repomd": repomd, "arch": arch}


def check(file):
    """Assert that what an index said of a file can do no harm."""
    assert re.fullmatch(r"[!-.0-~]{1,200}", file.name)
    assert file.name not in (".", "..")
    assert re.fullmatch("[0-9a-f]{64}|[0-9a-f]{128}", file.digest)
    assert 0 <= file.size <= MAX_FILE


@pytest.mark.parametrize("form", FORMS)
def test_a_wild_field(archive, tmp_path, form):
    for field, value in ROWS:
        value = value.replace("{outside}", str(tmp_path / "outside"))
        told = "it is taken"
        try:
            files = FORMS[form](archive, {**RIGHT, field: value})
            for file in files:
                check(file)
                archive.files[file.url.removeprefix(archive.url)] = b"own"
                fetch.save(file._replace(size=3), str(tmp_path / "folder"))
        except UnfitError as error:
            told = str(error)
        row = f"{field} {value:.99}"
        assert told, row
        assert "\n" not in told, row
        there = {os.path.relpath(path, tmp_path) for path in tmp_path.rglob("*")}
        parts = {path for path in there if re.fullmatch(r".*/[0-9a-f]{64}.part", path)}
        assert there - parts <= {"cache", "cache/kpfs"}, row
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)


@pytest.mark.parametrize("form", FORMS)
def test_the_right_fields(archive, form):
    if form in ("release", "repomd"):
        with pytest.raises(UnfitError, match="no such file"):
            FORMS[form](archive, RIGHT)
        return
    (file,) = FORMS[form](archive, {**RIGHT, "digest": "AB" * 32})
    assert file.name == "kernel.pkg"
    assert (file.size, file.digest) == (3, "ab" * 32)


@pytest.mark.parametrize(
    ("path", "size", "digest", "why"),
    [
        ("a.deb", "3", "../evil", "a.deb: a digest is not 64 hexadecimal digits"),
        ("a.deb", "-3", "ab" * 32, f"a.deb: its size is not a number up to {1 << 30}"),
        ("pool/..", "3", "ab" * 32, "..: that is no name of a file"),
    ],
)
def test_what_is_damaged_is_named(path, size, digest, why):
    with pytest.raises(UnfitError) as caught:
        listed_file("http://a", path, size, digest)
    assert str(caught.value) == f"http://a: its index is damaged: {why}"


def test_a_name_beyond_ascii_is_asked_for_as_a_url_has_it(archive, tmp_path):
    archive.files["/pool/%C3%A9+~x.deb"] = b"own"
    digest = hashlib.sha256(b"own").hexdigest()
    file = listed_file(archive.url, "pool/\u00e9+~x.deb", "3", digest)
    path = fetch.save(file, str(tmp_path))
    assert path == str(tmp_path / "%C3%A9+~x.deb")


def test_versions_of_any_length_have_a_rank():
    assert rank(LONG) > rank("7.1")
    assert rank("\u0661.1") < rank("1.1")


def test_only_https_is_led_to_from_https():
    handler = fetch._CertifiedRedirects()
    for ours, theirs in (("https", "http"), ("https", "ftp"), ("https", "file")):
        asked = urllib.request.Request(f"{ours}://a/x")
        with pytest.raises((HTTPException, urllib.error.HTTPError)):
            handler.redirect_request(
                asked, None, 302, "Found", HTTPMessage(), f"{theirs}://b/x"
            )
    for ours, theirs in (("https", "https"), ("http", "http"), ("http", "https")):
        asked = urllib.request.Request(f"{ours}://a/x")
        assert handler.redirect_request(
            asked, None, 302, "Found", HTTPMessage(), f"{theirs}://b/x"
        )


@pytest.mark.parametrize(
    "listed", [b"", b" \n", b"\xff", b"file:///etc", b"http://b/x"]
)
def test_a_list_of_mirrors_leads_to_no_server_without_a_certificate(
    monkeypatch, listed
):
    monkeypatch.setattr(fetch, "read", lambda url: listed)
    with pytest.raises(UnfitError, match="its index is damaged"):
        distribution("amazon", Access()).find("2023")


@pytest.mark.parametrize(
    "url",
    ["none", "", "http://[::1", "http://a:99999/", "http://a:x/", "http://\u00e9/"],
)
def test_what_is_no_url(archive, url):
    with pytest.raises(UnfitError) as caught:
        fetch.read(f"{url}/x")
    assert str(caught.value)
