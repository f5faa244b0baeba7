# SPDX-License-Identifier: GPL-2.0-or-later
"""The start of a mount; test_ops.py and integration/fuse test its answers."""

import signal

import pytest

from kpfs.base.errors import SetupError
from kpfs.base.signals import ENDING
from kpfs.fs.fuse import server
from kpfs.host import fusemount
from tests.there import stand_in


def test_a_signal_waits_until_the_mount_can_be_ended(monkeypatch):
    """An earlier end would leave a mount that nobody serves."""
    blocked = []

    def refuse(*_words, allow_other):
        blocked.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))
        raise SetupError("no")

    monkeypatch.setattr(fusemount, "mount", refuse)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with pytest.raises(SetupError):
        server.mount(stand_in(None), "/nowhere")
    assert set(ENDING) <= set(blocked[0])
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
