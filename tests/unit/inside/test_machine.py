# SPDX-License-Identifier: GPL-2.0-or-later
"""Faults of kpfs that a client is told of."""

import json
import socket
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from kpfs.base.errors import KernelError
from kpfs.inside.machine import CommandSession
from kpfs.linux.inside.command import TROUBLE


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (IndexError("no such row"), "a fault of kpfs: IndexError in test_machine.py:"),
        (KernelError(5, "panic"), "the kernel died: EIO: panic"),
    ],
)
def test_the_client_is_told_of_what_ended_the_session(error, why):
    def fail(*_words):
        raise error

    loop = SimpleNamespace(watch=fail, machine=SimpleNamespace(dead=""))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        kernel = Mock(loop=loop)
        CommandSession(kernel, theirs).run(Mock(terminal=None), [0, 1, 2])
        begun, ended = [json.loads(line) for line in ours.recv(4096).splitlines()]
    assert list(begun) == ["begun"]
    assert ended["status"] == TROUBLE
    assert ended["why"].startswith(why)
    assert ended["why"].endswith(str(error.args[-1]))
