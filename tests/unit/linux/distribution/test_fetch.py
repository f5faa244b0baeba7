# SPDX-License-Identifier: GPL-2.0-or-later

import hashlib
import socket
import urllib.request

import pytest

from kpfs.base import places
from kpfs.linux.distribution import fetch
from kpfs.linux.distribution.offer import RemoteFile
from kpfs.linux.errors import UnfitError

DATA = bytes(range(256)) * 4096


@pytest.fixture
def file(archive):
    archive.files["/pool/a.deb"] = DATA
    digest = hashlib.sha256(DATA).hexdigest()
    return RemoteFile(f"{archive.url}/pool/a.deb", len(DATA), digest)


def content(path):
    with open(path, "rb") as file:
        return file.read()


def test_a_file_comes_whole(archive, file, tmp_path):
    seen: list[int] = []
    path = fetch.save(file, str(tmp_path), seen.append)
    assert path == str(tmp_path / "a.deb")
    assert content(path) == DATA
    assert seen[-1] == len(DATA)
    assert list((tmp_path / "cache/kpfs").iterdir()) == []


@pytest.mark.parametrize("ranges", [True, False])
def test_an_earlier_try_is_gone_on_from(archive, file, tmp_path, ranges):
    archive.cut, archive.ranges = 1000, ranges
    with pytest.raises(UnfitError, match=r"ended too early|IncompleteRead"):
        fetch.save(file, str(tmp_path))
    archive.cut = None
    assert content(fetch.save(file, str(tmp_path))) == DATA
    assert [asked for _, asked in archive.asked] == [None, "bytes=1000-"]


def test_another_file_is_refused_and_not_kept(archive, file, tmp_path):
    archive.files["/pool/a.deb"] = DATA[::-1]
    with pytest.raises(UnfitError, match="not the file that the archive's index"):
        fetch.save(file, str(tmp_path))
    with pytest.raises(UnfitError, match="not the file that the archive's index"):
        fetch.read_checked(file)
    archive.files["/pool/a.deb"] = DATA
    assert content(fetch.save(file, str(tmp_path))) == DATA


def test_what_is_whole_already_is_not_asked_for(archive, file, tmp_path):
    (tmp_path / "cache/kpfs").mkdir(parents=True)
    (tmp_path / "cache/kpfs" / f"{file.digest}.part").write_bytes(DATA)
    assert content(fetch.save(file, str(tmp_path))) == DATA
    assert archive.asked == []


def test_two_at_once_get_it_both(archive, file, tmp_path):
    folders = [tmp_path / str(number) for number in range(4)]
    for folder in folders:
        folder.mkdir()
    paths = fetch.each(lambda folder: fetch.save(file, str(folder)), folders)
    assert [content(path) for path in paths] == [DATA] * 4


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_cache_that_others_change_is_left_alone(archive, file, tmp_path, kind):
    """Other users could redirect a write, or change a file after its check."""
    theirs = tmp_path / "cache/kpfs"
    theirs.mkdir(parents=True)
    theirs.chmod(0o777)
    (tmp_path / "mine").write_text("mine")
    part = theirs / f"{file.digest}.part"
    if kind == "link":
        part.symlink_to(tmp_path / "mine")
    else:
        part.write_bytes(DATA[:1000])
    path = fetch.save(file, str(tmp_path))
    assert content(path) == DATA
    assert (tmp_path / "mine").read_text() == "mine"
    assert [asked for _, asked in archive.asked] == [None]


def test_a_proxy_of_the_environment(archive, monkeypatch):
    archive.files["http://archive.example/a"] = b"by the proxy"
    monkeypatch.setenv("http_proxy", archive.url)
    monkeypatch.setattr(urllib.request, "_opener", None)  # it is made once
    assert fetch.read("http://archive.example/a") == b"by the proxy"


def test_what_servers_do(archive, monkeypatch):
    with pytest.raises(fetch.MissingError, match="no such file"):
        fetch.read(f"{archive.url}/none")
    archive.files["/long"] = b"12345"
    with pytest.raises(UnfitError, match="more than 0 MiB"):
        fetch.read(f"{archive.url}/long", 4)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(UnfitError, match=f"127.0.0.1:{port}/x: Connection refused"):
        fetch.read(f"http://127.0.0.1:{port}/x")
    monkeypatch.setattr(fetch, "TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(UnfitError, match="no answer for"):
            fetch.read(f"http://127.0.0.1:{port}/x")


def test_a_certificate_that_is_not_trusted():
    import ssl
    import urllib.error

    reason = urllib.error.URLError(ssl.SSLCertVerificationError("self-signed"))
    told = str(fetch._told("https://mirror/x", reason))
    assert told.startswith("https://mirror/x: its certificate is not trusted")
    assert "update-ca-certificates" in told


def test_the_cache_is_where_the_user_says(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/some/where")
    assert places.cache() == "/some/where/kpfs"
