# SPDX-License-Identifier: GPL-2.0-or-later
"""A Linux kernel: calls that nobody sees are left out, and a watcher misses no hit.

Tests kpfs.linux.running.watched, kpfs.linux.running.heads,
kpfs.backends.linux.task_book.
"""

import re
from collections import Counter

import pytest

from kpfs.mirror.calls import CALLS
from tests import harness
from tests.e2e import looking

pytestmark = [pytest.mark.fuse, pytest.mark.kernel]

SCRIPTS = looking.SCRIPTS | {
    "descriptors that are gone": (
        "cat $T/trace; exec 7</etc/group; exec 7<&-; exec 7>/dev/null",
        "echo x >&7; (exec cat /etc/passwd 7<&- >/dev/null)",
    ),
}
FORM = """
sh -c '{before}
echo 1 >$T/events/raw_syscalls/sys_enter/enable
{then}
echo 0 >$T/events/raw_syscalls/sys_enter/enable' >/dev/null 2>&1
echo "=== {name}"
cat $T/trace
echo >$T/trace
"""
HIT = re.compile(r".*-(\d+) +\[\d+\] .* sys_enter: NR (\d+) ")
# By what the agent and its tasks wait, and how descriptors and directories are brought
# to where they are on the host; how often names are asked for is the host's affair.
OURS = frozenset(("3", "24", "72", "80", "202", "292", "332"))
# Made with --mirror=always alone.
IN_NUMBERS = frozenset(str(number) for number, call in CALLS.items() if call.always)


def calls(text):
    """Return how often each call was made, but by init."""
    hits = (HIT.match(line) for line in text.splitlines())
    return Counter(
        hit[2]
        for hit in hits
        if hit and hit[1] != "1" and hit[2] not in OURS | IN_NUMBERS
    )


def test_leaving_calls_out_changes_no_hit(kpfs, tmp_path):
    def run(mode, script):
        options = "--quiet-guest", f"--mirror={mode}"
        command = "--kernel", harness.KERNEL, *options, "--", "sh", "-c", script
        done = kpfs("run", *command)
        assert done.stderr == ""
        return done.stdout

    always, watched = (
        looking.found(run, mode, tmp_path, FORM, SCRIPTS, calls)
        for mode in ("always", "watched")
    )
    assert [name for name in SCRIPTS if watched[name].total() < 5] == []
    assert looking.differences(always, watched) == {}


def test_a_directory_made_unseen_takes_new_entries(kpfs, tmp_path):
    script = f"""
T=/sys/kernel/tracing
mkdir {tmp_path}/folder
echo 'p:made vfs_symlink' >$T/kprobe_events
echo 1 >$T/events/kprobes/made/enable
ln -s nothing {tmp_path}/folder/link
echo 0 >$T/events/kprobes/made/enable
grep -c ' made: ' $T/trace
"""
    done = kpfs("run", "--kernel", harness.KERNEL, "--", "sh", "-c", script)
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_a_directory_that_was_left_unseen_is_left(kpfs, tmp_path):
    """A task enters the directory while a probe is on, and leaves it unseen."""
    script = f"""
T=/sys/kernel/tracing
mkdir {tmp_path}/there {tmp_path}/gone
echo 'r:gone do_rmdir $retval:s32' >$T/kprobe_events
echo 1 >$T/events/kprobes/gone/enable
cd {tmp_path}
test -d there
cd {tmp_path}/there
echo 0 >$T/events/kprobes/gone/enable
cd {tmp_path}
echo 1 >$T/events/kprobes/gone/enable
rmdir gone
echo 0 >$T/events/kprobes/gone/enable
grep -o 'arg1=.*' $T/trace
"""
    done = kpfs("run", "--kernel", harness.KERNEL, "--", "sh", "-c", script)
    assert (done.stdout, done.stderr) == ("arg1=0\n", "")
