# SPDX-License-Identifier: GPL-2.0-or-later
"""Hosts that lack files which ``kpfs run`` shows, as containers lack /dev/kmsg.

Whatever the command writes to a path of the emulated kernel reaches that kernel; the
host gets no file.
"""

import os
import sys

import pytest

from tests import harness

pytestmark = [pytest.mark.fuse, pytest.mark.guest]

# covers directories, and takes entries out of them
BARE = """
import os, sys
from kpfs.host import mounts
mounts.mount("", "/", "", mounts.MS_REC | mounts.MS_PRIVATE)
for path in (
    "/dev/kmsg", "/proc/sys/debug", "/proc/sys/kernel/ftrace_enabled", "/sys/module",
    "/sys/kernel/debug", "/sys/kernel/tracing",
):
    mounts._cover(os.path.dirname(path))
    if os.path.ismount(path):
        mounts.umount(path, mounts.MNT_DETACH)
        (os.rmdir if os.path.isdir(path) else os.unlink)(path)
os.execvp(sys.argv[1], sys.argv[1:])
"""
SCRIPT = """
echo logged >/dev/kmsg || echo refused
dd if=/dev/kmsg bs=8192 iflag=nonblock 2>/dev/null | grep -o ";logged"
cat /proc/sys/debug/kprobes-optimization /proc/sys/kernel/ftrace_enabled
echo 0 >/proc/sys/debug/kprobes-optimization
cat $KPFS/sys/debug/kprobes-optimization
ls -d /sys/module /sys/kernel/tracing/trace /sys/kernel/debug/kprobes/list
: >/dev/new
"""
SHOWN = """\
;logged
1
1
0
/sys/kernel/debug/kprobes/list
/sys/kernel/tracing/trace
/sys/module
"""
LEFT = "ls -d /dev/kmsg /dev/new /sys/module /sys/kernel/tracing 2>/dev/null"


@pytest.fixture(scope="session")
def bare():
    """The words of a command that runs another one on such a host."""
    options = "-m" if os.geteuid() == 0 else "-rm"
    words = ["unshare", options, "env", f"PYTHONPATH={harness.ROOT}"]
    words += [sys.executable, "-c", BARE, "env", "-u", "PYTHONPATH"]
    done = harness.run(*words, "sh", "-c", LEFT)
    if done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.stdout == ""
    return words


def test_nothing_lands_on_the_host(kpfs, bare):
    words = kpfs.command("run", "--", "sh", "-c", SCRIPT)
    done = harness.run(*bare, "sh", "-c", f'"$@"; {LEFT}', "sh", *words)
    assert done.stdout == SHOWN
    assert "/dev/new: Read-only file system" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.user
def test_as_an_ordinary_user(ordinary, bare):
    done = ordinary(f"$kpfs run -- sh -c '{SCRIPT}'; {LEFT}", around=bare)
    assert done.stdout == SHOWN
    assert "/dev/new: Read-only file system" in done.stderr


HOSTS_OWN = """
for path in /sys/kernel/rcu_normal /sys/power/state /proc/irq/default_smp_affinity \\
    /lib/modules/$(uname -r)/build/Makefile /lib/modules/$(uname -r)/kernel \\
    /lib/modules/$(uname -r)/modules.dep
do
    test -w $path && echo $path
done
test -w /sys/kernel/tracing/trace && : >/lib/modules/new && echo fine
"""


@pytest.mark.parametrize(
    "options",
    [
        (),
        pytest.param(("--kernel", harness.KERNEL), marks=pytest.mark.kernel),
    ],
)
def test_what_the_host_shares_cannot_be_written(kpfs, options):
    """Root would switch the host's kernel, and change the next run's modules."""
    done = kpfs("run", *options, "--", "sh", "-c", HOSTS_OWN)
    assert (done.stdout, done.stderr) == ("fine\n", "")
