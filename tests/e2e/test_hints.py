# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs run`` says at its end which features of Linux the command has missed.

This also tests kpfs.backends.guest.hinter.
"""

import sys

import pytest

from kpfs.base import syscall_numbers as nr
from tests import harness

pytestmark = [pytest.mark.fuse, pytest.mark.guest]

MEET = """
cd /sys/kernel/tracing
exec 2>/dev/null
echo hist:keys=pid >events/sched/sched_switch/trigger
echo hist:keys=prio >events/sched/sched_wakeup/trigger
echo function_graph >current_tracer
echo 'p:a /bin/true:0x40' >uprobe_events
echo 'e:a sched/sched_switch' >dynamic_events
echo 'f:a vfs_read' >dynamic_events
echo block:block_rq_issue >set_event
echo nosuch >current_tracer
"""
MET = """\
kpfs: the guest kernel has no hist triggers; kpfs run --kernel 6.12 has
kpfs: the guest kernel has no tracer function_graph; kpfs run --kernel 6.12 has
kpfs: the guest kernel has no uprobes; kpfs run --kernel 6.12 --inside has
kpfs: the guest kernel has no event probes; kpfs run --kernel 6.12 has
kpfs: the guest kernel has no function or tracepoint probes; kpfs run --kernel 6.12 has
kpfs: the guest kernel has no event block:block_rq_issue; kpfs run --kernel 6.12 has
"""
LOOK = "test -e /sys/kernel/tracing/"
LOOKED = MET.splitlines(keepends=True)[1]


@pytest.mark.parametrize("mirror", [(), ("--mirror=always",), ("--no-mirror",)])
def test_refused_writes_are_told_at_the_end(kpfs, mirror):
    done = kpfs("run", *mirror, "sh", "-c", f"{MEET}exit 0")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", MET)


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (f"{LOOK}max_graph_depth", LOOKED),
        (f"{LOOK}max_graph_depth; true", ""),
        (f"{LOOK}nosuch", ""),
        (f"{LOOK}current_tracer; false", ""),
    ],
)
def test_a_look_is_told_if_the_command_fails(kpfs, script, told):
    assert kpfs.sh(script).stderr == told


HOSTS = [
    pytest.param((), id="guest"),
    pytest.param(("--mirror=always",), id="always"),
    pytest.param(("--kernel", harness.KERNEL), id="linux", marks=pytest.mark.kernel),
]


@pytest.mark.parametrize("status", [0, 1])
@pytest.mark.parametrize(
    ("number", "name"),
    [(nr.BPF, "bpf(2)"), (nr.PERF_EVENT_OPEN, "perf_event_open(2)")],
)
@pytest.mark.parametrize("options", HOSTS)
def test_calls_that_reach_the_hosts_kernel(kpfs, options, number, name, status):
    """Such calls attach to probes of the emulated kernel only with --inside."""
    call = f"ctypes.CDLL(None).syscall({number}, -1, 0, 0, 0, 0)"
    script = f"import ctypes; {call}; {call}; raise SystemExit({status})"
    done = kpfs("run", *options, "--", sys.executable, "-ISc", script)
    said = (
        f"kpfs: {name} reaches this host's kernel: "
        "with kpfs run --kernel NAME --inside it reaches the emulated one\n"
    )
    assert (done.returncode, done.stderr) == (status, said if status else "")


def test_a_trace_of_an_event_that_is_not_there(kpfs):
    done = kpfs("trace", "-e", "block:block_rq_issue", "--", "true")
    why = MET.splitlines()[-1].removeprefix("kpfs: ")
    told = f"kpfs: trace: block:block_rq_issue: refused ({why})\n"
    assert (done.returncode, done.stderr) == (2, told)
