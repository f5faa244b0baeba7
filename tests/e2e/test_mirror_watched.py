# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls that nobody sees are left out: who looks finds what he would have found.

This tests kpfs.mirror.tasks.
"""

import re
import sys
from collections import Counter

import pytest

pytestmark = [pytest.mark.fuse, pytest.mark.guest]

# What a script does before anybody looks, and then.  No parent opens or closes anything
# while its child begins: the guest forks at the first call of the child, so it would
# depend on who is faster what that inherits.
SCRIPTS = {
    "a program": ("", "cat /etc/passwd >/dev/null"),
    "subshells": ("(:); (:)", "(:); (exit 3)"),
    "descriptors of before": (
        "exec 3</etc/passwd 4>/dev/null 5>&4",
        "read x <&3; echo hi >&4; echo ho >&5; exec 3<&- 4>&-; exec 5>&-",
    ),
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
    "the working directory": ("cd /usr/lib", "ls . >/dev/null; cd ..; pwd; ls lib"),
    "a loop": ("for i in 1 2 3; do true; /bin/true; done", "for i in 1 2; do ls; done"),
    "files": (
        "mkdir $tmp/d; touch $tmp/d/a",
        "ln -s a $tmp/d/l; mv $tmp/d/a $tmp/d/b; chmod 600 $tmp/d/b; rm -r $tmp/d",
    ),
    "a link": ("ln -s /etc $tmp/l", "readlink $tmp/l; ls $tmp/l/passwd; rm $tmp/l"),
    "what is not there": ("cat /none", "cat /none; ls /none"),
    "a child of before": ("", 'sh -c "exec 8</etc/group; true; exec 8<&-"'),
    "a command of words": ("x=$(echo hi)", "uname -s; echo $x"),
    "a here document": ("cat <<E\nx\nE", "cat <<E\ny\nE"),
    "a write": ("echo a >$tmp/w", "echo b >>$tmp/w; cat $tmp/w; rm $tmp/w"),
    "a copy": (
        "cp /etc/passwd $tmp/c",
        "cp $tmp/c $tmp/e; cmp $tmp/c $tmp/e; rm $tmp/e",
    ),
    "the files of the mount": ("cat $T/kprobe_events", "cat $T/available_tracers"),
    "a descriptor of the mount": ("exec 6<$T/README", "head -c 9 <&6; exec 6<&-"),
    "a file of the mount that was read before": (
        "exec 6<$T/README; head -c 3 <&6; cat $T/README",
        "head -c 9 <&6; cat $T/current_tracer; exec 6<&-",
    ),
    "a pipe of before": (
        "mkfifo $tmp/f; exec 6<>$tmp/f",
        "echo x >&6; read x <&6; exec 6<&-",
    ),
    "python": (
        "",
        f"{sys.executable} -ISc \"import os; r, w = os.pipe(); os.write(w, b'x');"
        " os.read(r, 1); os.dup2(r, 9); os.close(9);"
        ' os.fork() or os._exit(0); os.wait()"',
    ),
}
ALL = """
T=/sys/kernel/tracing tmp={tmp}; export T tmp
echo 8000 >$T/buffer_size_kb
"""
ONE = """
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
INNER = re.compile(
    "mirror_syscall|mirror_taken|slab|pages|one_page|init_once|(^|_)rb_|sched|timer|irq|tick|rcu|clock|queue|"
    "update_|wake|ttwu|switch|preempt|_task_|idle|pick_|account|cpu|spin|entity|kpfs|native"
)


# Sets of probes of which each lets other calls be left out.
PROBES = {
    "one that few calls reach": ["vfs_mkdir"],
    "programs and reads": ["bprm_execve", "vfs_read", "fdget_pos"],
    "opens": ["do_sys_openat2"],
    "descriptors": ["do_dup2", "vfs_statx", "vfs_fchown"],
    "all of a path": ["link_path_walk", "vfs_unlink", "iterate_dir"],
}
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


def output(kpfs, tmp_path, mode, form, scripts):
    """What a command prints that runs all scripts, each in that form."""
    words = [ALL.format(tmp=tmp_path)]
    for name, (before, then) in scripts.items():
        quoted = (text.replace("'", "'\\''") for text in (before, then))
        before, then = quoted
        words.append(form.format(name=name, before=before, then=then))
    options = ("--quiet-guest", f"--mirror={mode}")
    done = kpfs("run", *options, "sh", "-c", "\n".join(words), timeout=300)
    assert done.stderr == ""
    parts = done.stdout.split("=== ")[1:]
    return {name: text for name, _, text in (part.partition("\n") for part in parts)}


def function_hits(text):
    """How often each command came to each function, as the tracer says."""
    found = (HIT.match(line) for line in text.splitlines())
    return Counter(
        (hit[1], hit[2]) for hit in found if hit and not INNER.search(hit[2])
    )


def probe_hits(text):
    """How often each command came to each probe, and to each function of its stack."""
    counter: Counter[tuple[str, ...]] = Counter()
    comm = event = ""
    for line in text.splitlines():
        if hit := PROBE_HIT.match(line):
            comm, event = hit[1], hit[2]
            counter[comm, event] += 1
        elif line.startswith(" => "):
            counter[comm, event, line] += 1
    return counter


def differences(kpfs, tmp_path, scripts, form=ONE, hits=function_hits, least=100):
    """What was not the same both ways, by script."""
    found = {}
    for mode in ("always", "watched"):
        (folder := tmp_path / mode).mkdir(parents=True)
        texts = output(kpfs, folder, mode, form, scripts)
        found[mode] = {name: hits(text) for name, text in texts.items()}
    always, watched = found["always"], found["watched"]
    assert list(always) == list(watched) == list(scripts)
    assert any(watched.values())
    few = {n: sum(f.values()) for n, f in watched.items() if sum(f.values()) < least}
    assert few == {}
    return {
        name: {
            hit: (always[name][hit], watched[name][hit])
            for hit in always[name] | watched[name]
            if always[name][hit] != watched[name][hit]
        }
        for name in scripts
        if always[name] != watched[name]
    }


def last_differences(kpfs, tmp_path, scripts, **how):
    """What differs by what is left out does so each time.

    That is not so where the mount closes a file so late, on a busy machine, that it
    stands in the way of the next one.
    """
    different = {}
    for attempt in ("first", "second", "third"):
        different = differences(kpfs, tmp_path / attempt, scripts, **how)
        scripts = {name: scripts[name] for name in different}
        if not scripts:
            break
    return different


def test_who_looks_finds_what_he_would_have_found(kpfs, tmp_path):
    assert last_differences(kpfs, tmp_path, SCRIPTS) == {}


@pytest.mark.parametrize("points", PROBES.values(), ids=PROBES)
def test_a_probe_has_the_hits_of_all_calls_that_reach_it(kpfs, tmp_path, points):
    form = ARM.replace("{points}", " ".join(points)) + ARMED
    how = {"form": form, "hits": probe_hits, "least": 0}
    assert last_differences(kpfs, tmp_path, SCRIPTS, **how) == {}


def test_an_event_of_a_system_call_has_all_its_calls(kpfs, tmp_path):
    how = {"form": EVENTS + ARMED, "hits": probe_hits, "least": 0}
    assert last_differences(kpfs, tmp_path, SCRIPTS, **how) == {}
