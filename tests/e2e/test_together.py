# SPDX-License-Identifier: GPL-2.0-or-later
"""Processes that use the same files at once: slices of ``scripts/campaign together``.

Each case is a pair of actions of which one once waited for the other for ever: it had a
lock of the host's kernel, and its answer needed what the other one had.
"""

import re

import pytest

from bench.command import KPFS
from tests.campaign.hunt import Hunt
from tests.campaign.together import one, program

pytestmark = [pytest.mark.fuse, pytest.mark.guest]

CASES = [
    ("append",),  # two writers
    ("write_shared", "seek_shared"),  # one has the position, and wants the inode
    ("epoll", "read", "watch"),  # one has an epoll instance while it asks
    ("map", "read", "watch"),  # a call's data are in a page that is read for it
    ("fork", "append", "duplicate"),
]
# the locks are the host's, whatever kernel is asked
OTHER = pytest.param("6.1-cloud", marks=[pytest.mark.kernel, pytest.mark.long])


@pytest.mark.parametrize("kernel", ["", OTHER], ids=["guest", "linux"])
@pytest.mark.parametrize("names", CASES, ids=" and ".join)
def test_all_come_to_their_end(names, kernel, tmp_path):
    place = tmp_path / "hunt"
    place.mkdir()
    actions = 20 if kernel else 60
    one(Hunt("together", 1, 0, 1, place), kernel, program(1, 4, actions, *names))


def test_a_call_may_wait_for_a_file_system_of_the_command(kpfs, tmp_path):
    """A kpfs mount within: its daemon's own calls are made meanwhile.

    Nobody takes the supervisor for stuck, so later calls are made, too.
    """
    place = tmp_path / "within"
    place.mkdir()
    done = kpfs.sh(
        f"""
        kpfs=$0
        {KPFS} mount {place} || exit
        cd /sys/kernel/tracing
        echo 'p:seen vfs_statx' >kprobe_events; echo 1 >events/kprobes/seen/enable
        for n in 1 2 3; do cat {place}/tracing/README >/dev/null; done
        {KPFS} umount {place}
        echo 'p:late vfs_mkdir' >>kprobe_events; echo 1 >events/kprobes/late/enable
        for n in 1 2 3 4 5 6 7 8 9; do mkdir {tmp_path}/$n; done
        cat kprobe_profile
        """
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"(?m)^ *late +9 ", done.stdout), done.stdout
