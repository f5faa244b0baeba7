# SPDX-License-Identifier: GPL-2.0-or-later
"""The sockets of daemons, by their names."""

import os

from kpfs.gdb.sockets import forget_dead, socket_path, sockets


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
