# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls that nobody sees are left out, and a watcher finds all hits all the same.

This tests kpfs.backends.guest.task_book.
"""

import itertools
import re
from collections import Counter

import pytest

from tests.e2e import looking

pytestmark = [pytest.mark.fuse, pytest.mark.guest, pytest.mark.long]

OF_THE_MOUNT = "the files of the mount", "a file of the mount that was read before"
SCRIPTS = looking.SCRIPTS | {
    "a descriptor that is shared": (
        "exec 3</etc/passwd 4<&3",
        "(read x <&3); (read x <&4; exec 4<&-); exec 3<&-; exec 4<&-",
    ),
    "a descriptor that exec closes": (
        "exec 7</etc/passwd",
        "exec 8<&7; (exec cat /etc/group 7<&- >/dev/null); exec 7<&- 8<&-",
    ),
    "a directory that is open": ("exec 7</usr", "stat /proc/self/fd/7/lib; exec 7<&-"),
    "a file that is gone": (
        "echo x >$tmp/gone; exec 7<$tmp/gone; rm $tmp/gone",
        "cat <&7; exec 7<&-",
    ),
    "a high number": ("exec 9</etc/passwd", "cat <&9 >/dev/null; exec 9<&-"),
    "a loop": ("for i in 1 2 3; do true; /bin/true; done", "for i in 1 2; do ls; done"),
    "a link": ("ln -s /etc $tmp/l", "readlink $tmp/l; ls $tmp/l/passwd; rm $tmp/l"),
    "what is not there": ("cat /none", "cat /none; ls /none"),
    "a word of before": ("read x </etc/passwd", "uname -s; echo $x"),
    "a here document": ("cat <<E\nx\nE", "cat <<E\ny\nE"),
    "a write": ("echo a >$tmp/w", "echo b >>$tmp/w; cat $tmp/w; rm $tmp/w"),
    "a copy": (
        "cp /etc/passwd $tmp/c",
        "cp $tmp/c $tmp/e; cmp $tmp/c $tmp/e; rm $tmp/e",
    ),
    OF_THE_MOUNT[0]: ("cat $T/kprobe_events", "cat $T/available_tracers"),
    "a descriptor of the mount": ("exec 6<$T/README", "head -c 9 <&6; exec 6<&-"),
    OF_THE_MOUNT[1]: (
        "exec 6<$T/README; head -c 3 <&6; cat $T/README",
        "head -c 9 <&6; cat $T/current_tracer; exec 6<&-",
    ),
    "a pipe of before": (
        "mkfifo $tmp/f; exec 6<>$tmp/f",
        "echo x >&6; read x <&6; exec 6<&-",
    ),
}
TRACED = """
echo 8000 >$T/buffer_size_kb
{inner}
sh -c '{before}
echo function >$T/current_tracer
{then}
echo 0 >$T/tracing_on' >/dev/null 2>&1
echo "=== {name}"
cat $T/trace
echo nop >$T/current_tracer
echo >$T/trace
echo 1 >$T/tracing_on
"""
HIT = re.compile(r" *([^< ].*)-\d+ +\[\d+\] .*: (\w+)\S* <-")
# how full a cache is, and what the scheduler and an idle CPU do, is not the command's
INNER = """
mirror_syscall mirror_taken slab pages one_page init_once sched timer irq tick rcu clock
queue update_ wake ttwu switch preempt _task_ idle pick_ account cpu spin entity kpfs
native _rb_
""".split()

# Linux may tell the mount that a file is closed after the process with it has ended,
# so the guest closes it at the exit of its task, or a moment before, or init does.
CLOSING = ("__x64_sys_close", "close_fd", "__put_unused_fd", "fput", "mirror_places")
WAKING = ("deactivate_task",)  # another CPU may have the task by then
# Sets of probes of which each lets other calls be left out.
PROBES = {
    "one that few calls reach": ["vfs_mkdir"],
    "programs and reads": ["bprm_execve", "vfs_read", "fdget_pos"],
    "opens": ["do_sys_openat2"],
    "descriptors": ["do_dup2", "vfs_statx", "vfs_fchown"],
    "all of a path": ["link_path_walk", "vfs_unlink", "iterate_dir"],
}
SLOW = "opens", "descriptors"  # all that a path reaches has most of them
ARM = """
echo >$T/kprobe_events
for f in {points}; do echo "p:p/$f $f" >>$T/kprobe_events; done
for f in {points}; do echo "r:p/r$f $f" >>$T/kprobe_events; done
echo 1 >$T/options/stacktrace
echo 1 >$T/events/p/enable
"""
ARMED = """
sh -c '{before}
i=0; while test $i -lt 20; do test -e /etc/passwd; test -e /none; i=$((i + 1)); done
{then}' >/dev/null 2>&1
echo 0 >$T/events/enable
echo "=== {name}"
cat $T/trace
echo >$T/trace
"""
EVENTS = """
echo 1 >$T/options/stacktrace
echo 1 >$T/events/syscalls/sys_enter_openat/enable
echo 1 >$T/events/syscalls/sys_exit_openat/enable
echo 1 >$T/events/syscalls/sys_enter_execve/enable
"""
PROBE_HIT = re.compile(r" *([^< ].*)-\d+ +\[\d+\] .*?: (\w+)(?:: \(|\(| -> )")


def function_hits(text):
    """Return how often each command came to each function, as the tracer says."""
    found = (HIT.match(line) for line in text.splitlines())
    return Counter((hit[1], hit[2]) for hit in found if hit)


def probe_hits(text):
    """Count the hits of each probe, and of each function of a stack, by command."""
    counter: Counter[tuple[str, ...]] = Counter()
    comm = event = ""
    for line in text.splitlines():
        if hit := PROBE_HIT.match(line):
            comm, event = hit[1], hit[2]
            counter[comm, event] += 1
        elif line.startswith(" => "):
            counter[comm, event, line] += 1
    return counter


def differences(kpfs, tmp_path, form, hits, scripts, least=0):
    """Return the hits that differ between both ways, by script."""

    def run(mode, script):
        options = ("--quiet-guest", f"--mirror={mode}")
        done = kpfs("run", *options, "sh", "-c", script, timeout=300)
        assert done.stderr == ""
        return done.stdout

    always, watched = (
        looking.found(run, mode, tmp_path, form, scripts, hits)
        for mode in ("always", "watched")
    )
    assert any(watched.values())
    assert [name for name in scripts if watched[name].total() < least] == []
    for script in {*OF_THE_MOUNT} & {*scripts}:
        for name in CLOSING + WAKING:
            for comm in ("cat", "init"):
                del always[script][comm, name], watched[script][comm, name]
    return looking.differences(always, watched)


# one sees one half of the scripts, and the next one the other half
HALVES = [dict(itertools.islice(SCRIPTS.items(), at, None, 2)) for at in range(2)]


@pytest.mark.parametrize(
    "scripts", [HALVES[0], pytest.param(HALVES[1], marks=pytest.mark.slow)]
)
def test_leaving_calls_out_changes_no_hit(kpfs, tmp_path, scripts):
    globs = ("rb_*", *(f"*{word}*" for word in INNER))
    lines = "".join(f"echo '{glob}' >>$T/set_ftrace_notrace\n" for glob in globs)
    form = TRACED.replace(
        "{inner}", f"grep -q _ $T/set_ftrace_notrace || {{{{\n{lines}}}}} 2>&-"
    )
    found = differences(kpfs, tmp_path, form, function_hits, scripts, least=100)
    assert found == {}


@pytest.mark.parametrize(
    ("points", "scripts"),
    [
        pytest.param(
            *(points, HALVES[1 - number % 2]),
            id=name,
            marks=pytest.mark.slow if name in SLOW else (),
        )
        for number, (name, points) in enumerate(PROBES.items())
    ],
)
def test_a_probe_has_the_hits_of_all_calls_that_reach_it(
    kpfs, tmp_path, points, scripts
):
    form = ARM.replace("{points}", " ".join(points)) + ARMED
    assert differences(kpfs, tmp_path, form, probe_hits, scripts) == {}


def test_an_event_of_a_system_call_has_all_its_calls(kpfs, tmp_path):
    form = EVENTS + ARMED
    assert differences(kpfs, tmp_path, form, probe_hits, HALVES[1]) == {}


FORKS = """
cd /sys/kernel/tracing
echo $$ >set_event_pid
echo 1 >options/event-fork
in_list() {
    n=0; while read pid; do [ $pid != $1 ] || n=1; done <set_event_pid; echo $n
}
sleep 60 &
in_list $!
(sh -c 'sleep 60 & echo $! >$0; :' $TMP/pid)
read orphan <$TMP/pid
in_list $orphan
kill $! $orphan; wait
in_list $!
in_list $$
"""


def test_the_forks_that_a_list_follows(kpfs, tmp_path):
    """The sleepers make no call that is seen, and the parent of one has ended."""
    done = kpfs("run", "--", "env", f"TMP={tmp_path}", "sh", "-c", FORKS)
    assert (done.stdout.split(), done.stderr) == (["1", "1", "0", "1"], "")
