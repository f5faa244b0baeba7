# SPDX-License-Identifier: GPL-2.0-or-later
"""The sockets of daemons, by their names."""

import os
import socket

import pytest

from kpfs.base.errors import SetupError
from kpfs.gdb.sockets import forget_dead, parse_address, socket_path, sockets


def test_only_daemons_that_live_have_sockets(tmp_path):
    ours = socket_path(str(tmp_path), os.getpid(), "arm64")
    dead = socket_path(str(tmp_path), 1 << 30, "x86")
    for path in (ours, dead, str(tmp_path / "other")):
        open(path, "w").close()
    assert [(each.path, each.pid, each.arch) for each in sockets(str(tmp_path))] == [
        (ours, os.getpid(), "arm64")
    ]
    forget_dead(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == [os.path.basename(ours), "other"]
    forget_dead(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("text", "path", "port"),
    [
        ("a", "{cwd}/a", 0),
        ("./99", "{cwd}/99", 0),
        ("/a:1", "/a:1", 0),
        ("127.0.0.1:1234", "", 1234),
        ("localhost:65535", "", 65535),
        (":0", "", 0),
    ],
)
def test_an_address_is_a_path_or_a_port(text, path, port):
    assert parse_address(text) == (path.format(cwd=os.getcwd()), port)


@pytest.mark.parametrize(
    "text",
    [
        *("99999", "1234", "127.0.0.1:x", "127.0.0.1:", ":", ":-1"),
        *("0.0.0.0:1", "[::1]:1", "host:1", ":\u0661", "\u0661"),
    ],
)
def test_what_is_no_address(text):
    with pytest.raises(SetupError, match=r"a path, or 127\.0\.0\.1:PORT"):
        parse_address(text)


@pytest.mark.parametrize("port", ["65536", "9" * 5000])
def test_a_port_that_is_too_large(port):
    with pytest.raises(SetupError, match="a port is a number up to 65535"):
        parse_address(f"127.0.0.1:{port}")


def test_the_socket_of_an_ended_daemon_is_removed(tmp_path):
    path = str(tmp_path / "gdb")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        forget_dead(str(tmp_path), path)
        assert os.path.exists(path)
    forget_dead(str(tmp_path), path)
    assert not os.path.exists(path)
    (tmp_path / "gdb").write_text("a file")
    forget_dead(str(tmp_path), path)
    forget_dead(str(tmp_path), ":1234")
    assert os.path.exists(path)
