# SPDX-License-Identifier: GPL-2.0-or-later
"""Tasks of the guest have the descriptors that their processes have.

This tests kpfs.backends.guest.task_book, kpfs.backends.guest.marks and
guest/src/fs/mirror.c.
"""

import pytest

from tests.campaign import descriptors

pytestmark = [pytest.mark.fuse, pytest.mark.guest]

SEEDS = (
    *range(1, 3),
    *(5013, 312107680, 402995437, 542730921, 908605439, 908605489),  # failed once
)


@pytest.mark.parametrize("mode", descriptors.MODES)
def test_random_programs(kpfs, tmp_path, mode):
    script = descriptors.command(tmp_path, SEEDS)
    done = kpfs("run", f"--mirror={mode}", "--", "sh", "-c", script)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


PIPELINES = """
cd /sys/kernel/tracing
echo p:opened do_sys_openat2 >kprobe_events
for i in 1 2 3; do
    echo 1 >events/kprobes/opened/enable
    (x=$(uname); cat trace) | cat >/dev/null
    echo 0 >events/kprobes/opened/enable
    (sleep 0; x=$(uname); cat trace) | cat >/dev/null
done
dmesg
"""


def test_pipelines_while_a_probe_comes_and_goes(kpfs):
    """Numbers of pipes are soon those of other files."""
    done = kpfs.sh(PIPELINES)
    assert "BUG" not in done.stdout
