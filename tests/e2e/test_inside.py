# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands that are programs of a distribution's kernel: ``kpfs run --inside``.

Tests kpfs.inside.client, kpfs.linux.inside.waiting, kpfs.linux.inside.waker,
kpfs.inside.server, kpfs.inside.start, kpfs.inside.warm, kpfs.linux.inside.command,
kpfs.linux.inside.read_ahead, kpfs.linux.inside.loop, kpfs.linux.inside.inherited,
kpfs.linux.inside.request, kpfs.linux.inside.stdio, kpfs.linux.inside.tree.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kpfs.config import KernelChoice
from kpfs.inside import warm as guests
from kpfs.linux.arch.arches import ARCHES
from kpfs.linux.board.board import read_agent
from kpfs.linux.inside.request import GREETING
from kpfs.linux.store import image
from kpfs.linux.store.modules import ModuleArchive
from tests import harness
from tests.docs.transcript import BLOCK, FILE_NAME
from tests.programs import instructions, static_program
from tests.terminal import Terminal

pytestmark = [pytest.mark.kernel]

KERNEL = harness.KERNEL
INSIDE = "run", "--kernel", KERNEL, "--inside", "--"
PATIENCE = 30  # s
CLIENTS_PATIENCE = "kpfs.linux.inside.request.PATIENCE"
PROMPT = "@ready@ "
SBIN = "/usr/sbin:/sbin"


def inside(kpfs, *command, **options):
    return kpfs("run", "--kernel", KERNEL, "--inside", *command, **options)


def sh(kpfs, script, *options, **more):
    return inside(kpfs, *options, "--", "sh", "-c", script, **more)


@pytest.mark.two_cpus
def test_a_command_runs_on_the_cpus_that_it_may(kpfs):
    """taskset, and a probe that both of them hit."""
    script = """
    nproc
    cd /sys/kernel/tracing
    echo 'p:x vfs_read' >kprobe_events
    echo 1 >events/kprobes/x/enable
    for cpu in 0 1; do taskset -c $cpu cat /proc/version >/dev/null & done
    wait
    echo 0 >events/kprobes/x/enable
    grep -o ' cat-.* .00[01]. ' trace | cut -d[ -f2 | sort -u | tr -d '\n'
    taskset -c 2 true 2>/dev/null || echo none
    """
    words = "--kernel", harness.TWO_CPUS, "--inside", "--cpus", "2"
    done = kpfs("run", *words, "--", "sh", "-c", script)
    assert done.stderr == ""
    assert done.stdout.split() == ["2", "000]", "001]", "none"]


def test_tasks_that_wait_do_not_preempt_others_for_long(kpfs):
    """The agent, which can always run, leaves the scheduler's measure as it is."""
    script = """
    dd if=/dev/zero bs=64 count=20000 2>/dev/null | tee /tmp/copy | cat >/dev/null &
    sleep .05
    echo 1 >/sys/kernel/tracing/events/sched/sched_stat_runtime/enable
    sleep .2
    echo 0 >/sys/kernel/tracing/tracing_on
    kill %1
    cat /sys/kernel/tracing/trace
    """
    done = sh(kpfs, script, "--quiet-guest")
    pattern = r" comm=(dd|tee|cat) .* vruntime=(\d+)"
    ran, behind = {}, []
    for name, vruntime in re.findall(pattern, done.stdout):
        ran[name] = int(vruntime)
        behind.append(max(ran.values()) - min(ran.values()))
    assert len(ran) == 3
    assert statistics.mean(behind) < 10e6  # ns


def test_timers_have_high_resolution(kpfs):
    """Sleeps of 0.1 ms, by the kernel's clock; without, each takes a tick of 4 ms."""
    script = """
    now() { cut -d' ' -f1 /proc/uptime | tr -d .; }
    begin=$(now)
    perl -e 'select(undef, undef, undef, 1e-4) for 1 .. 200'
    echo $(($(now) - begin))
    grep -m1 -o 'hres_active.*' /proc/timer_list
    """
    hundredths, active = sh(kpfs, script, "--quiet-guest").stdout.splitlines()
    assert int(hundredths) < 40
    assert active.split() == ["hres_active", ":", "1"]


def test_programs_have_the_same_addresses_unless_they_are_to_differ(kpfs):
    script = """
    two() { for _ in 1 2; do grep -m 1 libc /proc/self/maps; done | uniq | wc -l; }
    two
    echo 2 >/proc/sys/kernel/randomize_va_space
    two
    """
    assert sh(kpfs, script).stdout.split() == ["1", "2"]


# ---- the command
@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -KILL $$", 137)]
)
def test_its_status_is_ours(kpfs, script, status):
    done = sh(kpfs, f"echo out; echo err >&2; {script}")
    assert (done.returncode, done.stdout, done.stderr) == (status, "out\n", "err\n")


@pytest.mark.parametrize(
    ("command", "status", "why"),
    [
        ("no-such-command", 127, "No such file or directory"),
        ("/etc/passwd", 126, "Permission denied"),
        ("/etc", 126, "Permission denied"),
    ],
)
def test_a_command_that_cannot_begin(kpfs, command, status, why):
    done = inside(kpfs, "--", command)
    assert (done.returncode, done.stderr) == (status, f"kpfs: {command}: {why}\n")


@pytest.mark.parametrize(
    ("text", "status", "why"),
    [
        (b"#!/none -x\n", 127, "./it needs /none, which is not there"),
        (
            b"#!/bin/sh\r\n",
            127,
            "./it has lines that end in CR LF; sed -i 's/\\r$//' ./it mends it",
        ),
        (
            read_agent(ARCHES["arm64"])[:4096],
            126,
            "./it is a program for arm64, and this kernel runs those for x86-64",
        ),
    ],
)
def test_why_a_command_cannot_begin(kpfs, tmp_path, text, status, why):
    it = tmp_path / "it"
    it.write_bytes(text)
    it.chmod(0o755)
    done = inside(kpfs, "--", "./it", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", f"kpfs: {why}\n")


def test_a_script_without_interpreter_is_the_shells(kpfs, tmp_path):
    script = tmp_path / "script"
    script.write_text("echo $0 $1\n")
    script.chmod(0o755)
    assert inside(kpfs, "--", "./script", "a", cwd=tmp_path).stdout == "./script a\n"


def test_user_directory_and_environment_are_the_callers(kpfs, tmp_path):
    script = "uname -r; hostname; pwd; umask; ulimit -n; echo $WORD; id -G"
    words = {**os.environ, "WORD": "a b"}
    done = sh(kpfs, f"umask 027; {script}", cwd="/usr", env=words)
    release, *rest = done.stdout.splitlines()
    host = harness.run(
        "sh",
        "-c",
        "umask 027; hostname; pwd; umask; ulimit -n; echo $WORD; id -G",
        cwd="/usr",
        env=words,
    ).stdout.splitlines()
    assert release.startswith("6.1.")
    assert rest == host


ATTRIBUTES = r"""
/bin/pwd; umask; nice; ulimit -a | grep -Ev '^(locked|process|pending|max user)'
grep -E '^(SigIgn|NoNewPrivs):' /proc/self/status; cat /proc/self/oom_score_adj
"""
UNUSUAL = r"""
cd "$1"; rmdir "$1"; shift; umask 027; trap '' HUP USR1 QUIT
ulimit -S -c 1000 -s 4000 -t 500 -n 500; ulimit -f 100000
echo 300 >/proc/self/oom_score_adj; exec nice -n 5 setpriv --no-new-privs "$@"
"""


def test_programs_inherit_what_they_would_on_the_host(kpfs, tmp_path):
    """In a directory that is gone, with other limits, signals and niceness."""
    told = []
    for words in ((), kpfs.command("run", "--kernel", KERNEL, "--inside", "--")):
        gone = tmp_path / "gone"
        gone.mkdir()
        command = *words, "sh", "-c", f"exec 2>&1; {ATTRIBUTES}"
        done = harness.run("bash", "-c", UNUSUAL, "bash", gone, *command)
        told.append(done.stdout)
    assert told[0] == told[1]
    assert {"5", "300", "NoNewPrivs:\t1"} <= {*told[0].splitlines()}


def test_what_a_dead_kernel_has_read_is_taken(kpfs, tmp_path):
    lines = tmp_path / "lines"
    lines.write_text("one\ntwo\n")
    program = "sh", "-c", "read line; echo $line; echo c >/proc/sysrq-trigger"
    words = kpfs.command("run", "--kernel", KERNEL, "--inside", "--", *program)
    script = 'in=$1; shift; { "$@"; cat; } <"$in"'
    done = harness.run("sh", "-c", script, "sh", lines, *words)
    assert done.stdout == "one\ntwo\n"
    assert "sysrq triggered crash" in done.stderr


def test_input_that_cannot_be_read_is_an_error(kpfs):
    with open(f"/proc/{os.getpid()}/mem") as memory:  # where nothing is mapped
        done = inside(kpfs, "--", "cat", stdin=memory)
    why = "kpfs: CMD's input could not be read: Input/output error\n"
    assert (done.returncode, done.stderr) == (2, why)


@pytest.mark.parametrize("kept", [False, True])
def test_end_of_input_that_was_typed_ahead(kpfs, warm, monkeypatch, kept):
    """script(1) types it before the terminal is ours, where it would become a zero."""
    if kept:
        assert sh(kpfs, "exit 4").returncode == 4
    else:
        monkeypatch.setenv("KPFS_WARM", "0")
    words = kpfs.command("run", "--kernel", KERNEL, "--inside", "--", "cat")
    typing = "script", "-qec", shlex.join(map(str, words)), "/dev/null"
    for _ in range(3 if kept else 1):  # the request and it may come together
        done = harness.run(*typing, stdin=subprocess.DEVNULL, timeout=60)
        assert (done.returncode, done.stdout) == (0, "")


def test_what_is_below_tmp_can_be_read_and_is_not_changed(kpfs, tmp_path):
    """The host's files are there, also from elsewhere; changes stay in the kernel."""
    tool = tmp_path / "tool"
    tool.write_text(
        "#!/bin/sh\necho a tool; echo more >>$0; touch $0.new; tail -1 $0\n"
    )
    tool.chmod(0o755)
    before = tool.read_text()
    script = f"{tool}; ls {tmp_path}; mktemp -d; mktemp; stat -c %a /tmp"
    done = sh(kpfs, script, cwd="/")
    said, last, *names, folder, file, mode = done.stdout.splitlines()
    assert (done.returncode, said, last) == (0, "a tool", "more")
    assert {"tool", "tool.new"} <= set(names)
    assert folder.startswith("/tmp/tmp.")
    assert file.startswith("/tmp/tmp.")
    assert mode == "1777"
    assert tool.read_text() == before
    assert not {Path(folder).name, Path(file).name} & set(os.listdir("/tmp"))


def test_sys_proc_and_the_network_are_the_guests(kpfs):
    done = sh(
        kpfs,
        "cd /sys; ls -d fs/bpf kernel/debug/kprobes kernel/tracing/kprobe_events;"
        "cat fs/cgroup/cgroup.controllers >/dev/null; echo x >/dev/null;"
        "cat /proc/sys/kernel/osrelease; cat class/net/lo/operstate; tty;"
        "grep -vc ' shared:[0-9]* - ' /proc/self/mountinfo",
        input="",
    )
    *files, release, loopback, terminal, private = done.stdout.splitlines()
    assert files == ["fs/bpf", "kernel/debug/kprobes", "kernel/tracing/kprobe_events"]
    assert release.startswith("6.1.")
    assert (loopback, terminal) == ("unknown", "not a tty")
    assert private == "0"  # mounts are those of a system of systemd


def test_arguments_and_environment_may_be_long(kpfs, tmp_path):
    """A script without a first line gets them too, and is executed twice."""
    script = tmp_path / "script"
    script.write_text("echo $# ${20000} ${#LONG}\n")
    script.chmod(0o755)
    words = map(str, range(20000))
    environment = {**os.environ, "LONG": "x" * 120_000}
    done = kpfs(*INSIDE, script, *words, env=environment)
    assert (done.stdout, done.stderr) == ("20000 19999 120000\n", "")


def test_a_return_that_sleeps_has_all_its_instances(kpfs):
    """None is taken, and no hit made, by processes of kpfs that sleep meanwhile."""
    script = """
        cd /sys/kernel/tracing
        echo 'r:n do_nanosleep' >kprobe_events; echo 1 >events/kprobes/n/enable
        for i in $(seq 15); do sleep 2 & done; wait
        cat kprobe_profile"""
    assert sh(kpfs, script).stdout.split() == ["n", "10", "5"]


def test_a_probe_sees_the_command_itself(kpfs):
    done = sh(
        kpfs,
        "cd /sys/kernel/tracing;"
        "echo 'p:e do_sys_openat2 file=+0(%si):ustring' >kprobe_events;"
        "echo 1 >events/kprobes/e/enable; cat /etc/hostname >/dev/null;"
        "echo 0 >events/kprobes/e/enable; grep hostname trace",
    )
    assert re.search(r' cat-\d+ +\[000\] .* file="/etc/hostname"', done.stdout)


def test_a_missing_instruction_set_is_told(kpfs, tmp_path):
    compiler = shutil.which(os.environ.get("CC", "gcc"))
    if not compiler:
        pytest.skip("no C compiler")
    source = tmp_path / "avx.c"
    source.write_text(
        'int main(void) { asm volatile("vaddps %ymm0,%ymm0,%ymm0"); return 0; }'
    )
    subprocess.run([compiler, "-o", tmp_path / "avx", source], check=True)
    done = inside(kpfs, "--", "./avx", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (132, 1)
    assert "x86-64-v2" in done.stderr
    done = sh(kpfs, "./avx; true", cwd=tmp_path)  # its status tells nothing
    assert done.returncode == 0
    assert "x86-64-v2" in done.stderr


@pytest.mark.long
def test_too_little_memory_is_told(kpfs):
    # what is in files takes memory faster than what a pipe brings
    script = """
    for file in /tmp/x /dev/shm/x; do fallocate -l 200M $file; done
    head -c 300M /dev/zero | tail -c 300M
    """
    done = sh(kpfs, script, timeout=120)
    assert done.returncode != 0
    assert re.search("512 MiB .* for tail: .* --memory [0-9]+\n", done.stderr)


# ---- its streams
def test_pipes_of_any_length(kpfs):
    text = "".join(f"{number}\n" for number in range(60_000))
    assert inside(kpfs, "--", "cat", input=text).stdout == text


LINES = "".join(f"line {number}\n" for number in range(20))
READ_TWO = "read one; read two; echo $one, $two"
# what a command leaves for whoever reads next
LEAVES = {
    "all": ("true", "", LINES),
    "two-lines": (READ_TWO, "line 0, line 1\n", LINES.partition("line 1\n")[2]),
    "nothing": ("cat >/dev/null", "", ""),
    "closed": ("exec </dev/null; sleep .1", "", LINES),
    "held": (
        f"{READ_TWO}; exec 3<&0; sleep 99 <&3 &",
        "line 0, line 1\n",
        LINES.partition("line 1\n")[2],
    ),
}


@pytest.mark.parametrize("what", LEAVES)
@pytest.mark.parametrize("kind", ["file", "pipe", "socket"])
def test_input_that_is_not_read_is_left(kpfs, tmp_path, kind, what):
    """A loop of a shell over lines gives all its commands their rest as input."""
    script, said, left = LEAVES[what]
    with contextlib.ExitStack() as stack:
        if kind == "file":
            (tmp_path / "lines").write_text(LINES)
            fd = stack.enter_context(open(tmp_path / "lines")).fileno()
        elif kind == "pipe":
            fd, end = os.pipe()
            stack.callback(os.close, fd)
            os.write(end, LINES.encode())
            os.close(end)
        else:
            ours, theirs = socket.socketpair()
            stack.enter_context(ours)
            fd = stack.enter_context(theirs).fileno()
            ours.sendall(LINES.encode())
            ours.shutdown(socket.SHUT_WR)
        assert sh(kpfs, script, stdin=fd).stdout == said
        assert os.read(fd, 1 << 16).decode() == left


# of each kind: read, written, shared with a standard stream, read in part
DESCRIPTORS = r"""
cd "$1"; shift; set -o pipefail
printf 'one\ntwo\nthree\n' >in
"$@" sh -c 'cat <&3' 3<in
"$@" diff <(seq 3) <(seq 4); echo $?
"$@" sh -c 'echo to 5 >&5; echo to 4 >&4' 4>four 5>five; cat four five
while read -u 3 line; do
    echo "host $line"; "$@" sh -c 'read line <&3; echo "inside $line"' 3<&3
done 3<in
"$@" sh -c 'echo 3 >&3; echo 1' 3>&1 >log; cat log
for from in '<&0' '<in'; do
    eval '"$@" sh -c "read a; read b <&3; read c; echo \$a \$b \$c" <in 3'"$from"
done
seq 9999 | "$@" tee /dev/fd/63 63> >(tail -n 1 >&2) | tail -n 1
"$@" sh -c 'cat <&3 && echo null >&3' 3<>/dev/null; echo $?
"$@" sh -c 'echo >&9'; echo $?
"""


@pytest.mark.parametrize("seconds", ["0", "60"])
def test_further_descriptors_are_as_on_the_host(kpfs, tmp_path, monkeypatch, seconds):
    monkeypatch.setenv("KPFS_WARM", seconds)
    told = []
    for words in ((), kpfs.command("run", "--kernel", KERNEL, "--inside", "--")):
        done = harness.run("bash", "-c", DESCRIPTORS, "bash", tmp_path, *words)
        told.append((done.stdout, sorted(done.stderr.splitlines())))
    assert told[0] == told[1]
    assert "inside two\n" in told[0][0]


def test_pipe_of_the_wrong_direction_is_an_error(kpfs):
    """A pipe is never ready for what its end is not open for."""
    ours, theirs = os.pipe()
    with os.fdopen(ours), os.fdopen(theirs):
        done = sh(kpfs, "cat || echo $?", stdin=theirs)
        assert done.stdout == "1\n"
        assert "Bad file descriptor" in done.stderr
        command = kpfs.command(*INSIDE, "/bin/echo", "lost")
        done = subprocess.run(command, stdout=ours, stderr=subprocess.PIPE, text=True)
        assert "Bad file descriptor" in done.stderr
        assert done.returncode == 1


@pytest.mark.parametrize("fd", [0, 1, 2])
def test_descriptor_that_is_closed_is_an_error(kpfs, fd):
    """A command that writes to it notices, and succeeds if it does not mind."""
    script = ["read a", "echo a", "echo a >&2"][fd] + " && exit 9; exit 0"
    command = kpfs.command(*INSIDE, "bash", "-c", script)
    closed = "sh", "-c", f'exec "$@" {fd}>&-', "sh", *command
    assert subprocess.run(closed, timeout=60).returncode == 0


def test_dev_null_is_the_kernels_own(kpfs):
    """A program that waits for its input to end would see that of a pipe."""
    done = sh(kpfs, "readlink /proc/self/fd/0", stdin=subprocess.DEVNULL)
    assert done.stdout == "/dev/null\n"


def test_one_pipe_for_both_keeps_the_order(kpfs):
    script = "for i in 1 2 3; do echo o$i; echo e$i >&2; done"
    with kpfs.started(*INSIDE, "sh", "-c", script, stderr=subprocess.STDOUT) as process:
        assert process.stdout.read() == b"o1\ne1\no2\ne2\no3\ne3\n"


def test_a_reader_that_leaves_ends_the_writer(kpfs):
    with kpfs.started(*INSIDE, "yes") as process:
        assert process.stdout.read(4) == b"y\ny\n"
        process.stdout.close()
        assert process.wait(PATIENCE) == 128 + signal.SIGPIPE


def test_background_processes_hold_nothing_up(kpfs):
    done = sh(kpfs, "sleep 1000 & echo done")
    assert (done.returncode, done.stdout) == (0, "done\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_are_passed_on(kpfs, number):
    script = "trap 'echo caught; exit 7' TERM INT USR1; echo go; while :; do :; done"
    with kpfs.started(*INSIDE, "sh", "-c", script) as process:
        assert process.stdout.readline() == b"go\n"
        process.send_signal(number)
        assert process.stdout.read() == b"caught\n"
        assert process.wait(PATIENCE) == 7


@pytest.mark.two_cpus
def test_signals_and_input_come_while_all_processors_are_busy(kpfs):
    """The agent is SCHED_IDLE, and so gets none of them."""
    busy = "while :; do :; done"
    script = f"trap 'echo caught; exit 7' TERM; {busy} & {busy} & echo go; read line"
    words = "run", "--kernel", harness.TWO_CPUS, "--inside", "--", "sh", "-c"
    with kpfs.started(
        *words, f"{script}; echo $line; {busy}", stdin=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"go\n"
        process.stdin.write(b"told\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"told\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == b"caught\n"
        assert process.wait(PATIENCE) == 7


@contextlib.contextmanager
def ended_unread(kpfs, folder, *options):
    """A command that has ended, and whose output nobody has read yet."""
    words = *INSIDE[:-1], *options, "--rw", folder, "--", "sh", "-c"
    script = "head -c 60000 /dev/zero; echo >ended"  # the kernel's pipe takes it all
    with kpfs.started(*words, script, cwd=folder, pipesize=4096) as process:
        harness.until((folder / "ended").exists, "the command does not end")
        yield process


LATE = {  # commands that take their time, and what is told of one of their tasks
    "computes": ("while :; do :; done", r"sh \(pid \d+, state R\)"),
    "is in the kernel": ("cat </dev/zero >/dev/null", r"cat \(pid \d+, state [RS]\)"),
    "waits": (
        "trap '' TERM INT; sleep 1000 | cat >/dev/null & wait",
        r"cat \(pid \d+, state S\) in __schedule\+\w+ < schedule\+\w+ < "
        r"pipe_read\+\w+ < vfs_read\+\w+ < ksys_read\+\w+ < do_syscall_64\+\w+$",
    ),
}


@pytest.mark.parametrize("kind", LATE)
def test_a_command_whose_time_is_over_is_ended_with_all_stacks(kpfs, kind):
    """Nothing is lost of what it has written before."""
    script, told = LATE[kind]
    words = "--timeout", "4", "--", "sh", "-c", f"seq 2000; {script}"
    done = kpfs("run", "--kernel", KERNEL, "--inside", *words)
    assert done.returncode == 124, done.stderr
    assert done.stdout.split("\n")[-2] == "2000"
    first, *stacks = done.stderr.splitlines()
    assert first == "kpfs: CMD still runs after 4 s"
    assert any(re.search(told, line) for line in stacks), done.stderr
    assert not any("kpfs" in line for line in stacks), done.stderr


@pytest.mark.parametrize("words", [(), ("--quiet-guest",)], ids=["warm", "own"])
def test_a_signal_ends_a_command_whose_output_nobody_reads(kpfs, tmp_path, words):
    """The output of the command waits for a reader, as in a pipe."""
    with ended_unread(kpfs, tmp_path, *words) as process:
        process.send_signal(signal.SIGTERM)
        # the shell may not have ended by then
        assert process.wait(PATIENCE) in (0, 128 + signal.SIGTERM)
        assert process.stdout.read() == bytes(60000)


def test_output_that_is_read_late_is_complete(kpfs, tmp_path):
    with ended_unread(kpfs, tmp_path) as process:
        assert process.stdout.read() == bytes(60000)
        assert process.wait(PATIENCE) == 0


def test_nothing_is_left_of_one_that_is_killed(kpfs):
    process = subprocess.Popen(kpfs.command(*INSIDE, "sleep", "999"))
    harness.kill_with_child(process, "the guest goes on")


# ---- what tools are made of
@pytest.fixture(scope="module")
def bpf(tmp_path_factory):
    """tests/programs/bpf.c as a program; it is to be run in its folder."""
    return static_program("bpf", tmp_path_factory.mktemp("bpf"))


def test_code_that_is_written_anew(kpfs, tmp_path):
    """On x86-64 no instruction says that code has changed."""
    program = static_program("rewrite", tmp_path)
    done = inside(kpfs, "--", f"./{program.name}", cwd=tmp_path)
    ways = "files", "mappings", "pages", "processes", "debugger"
    assert done.stdout.splitlines() == [f"{way} 59" for way in ways]


def test_instructions_that_uprobes_step(kpfs, tmp_path):
    program = static_program("stepped", tmp_path)
    done = inside(kpfs, "--", f"./{program.name}", cwd=tmp_path)
    assert done.stdout.splitlines() == ["right 236", "hits 236"]


@pytest.mark.parametrize("kernel", [KERNEL, harness.on(harness.TWO_CPUS)])
def test_hardware_watchpoints_of_data(kpfs, tmp_path, kernel):
    program = static_program("watched", tmp_path)
    words = "--kernel", kernel, "--inside", "--", f"./{program.name}"
    done = kpfs("run", *words, cwd=tmp_path)
    assert done.stdout.splitlines() == ["100 200 100", "1 1"]


def test_bpf_programs_count_exactly(kpfs, bpf):
    done = inside(kpfs, "--", "./bpf", cwd=bpf.parent, timeout=120)
    rows = done.stdout.splitlines()
    assert [row for row in rows if row.startswith("FAILED")] == []
    assert done.returncode == 0
    # without fprobe, as this kernel was built
    skipped = {row.split(":")[0] for row in rows if row.startswith("skip")}
    assert skipped <= {"skip kprobe.multi"}
    assert rows[0] == "jit on"
    assert rows.index("jit off") == len(rows) // 2


@pytest.fixture(scope="module")
def libbpf(tmp_path_factory):
    """The program of docs/howto/bpf.md, built where fields are not as in any kernel."""
    folder = tmp_path_factory.mktemp("libbpf")
    for _, text, _ in BLOCK.findall((harness.ROOT / "docs/howto/bpf.md").read_text()):
        if found := FILE_NAME.match(text):
            (folder / found[1]).write_text(text)
    shutil.copy(harness.ROOT / "tests/programs/vmlinux.h", folder)
    commands = (
        "clang -O2 -g -target bpf -D__TARGET_ARCH_x86"
        " -c my_prog.bpf.c -o my_prog.bpf.o",
        "bpftool gen skeleton my_prog.bpf.o >my_prog.skel.h",
        "cc -O2 -o loader loader.c -lbpf -lelf -lz",
    )
    path = f"{os.environ['PATH']}:/usr/sbin"
    for command in commands:
        done = harness.run(
            "sh", "-c", command, cwd=folder, env={**os.environ, "PATH": path}
        )
        if done.returncode:  # no clang, bpftool or libbpf
            pytest.skip(f"{command.split()[0]}: {done.stderr.splitlines()[0]}")
    return folder / "loader"


def test_a_program_of_libbpf_finds_the_kernels_fields(kpfs, libbpf):
    done = inside(kpfs, "--", "./loader", cwd=libbpf.parent, timeout=120)
    assert re.fullmatch(r"my_prog: \d+ hits, parent right\n", done.stdout), done.stderr
    assert done.returncode == 0


GO = "/usr/share/gocode"  # where packages of Debian put libraries of Go


def test_a_program_of_go_counts_exactly(kpfs, tmp_path):
    """cilium/ebpf: a kprobe, an array and a ring buffer."""
    if not shutil.which("go") or not Path(f"{GO}/src/github.com/cilium/ebpf").is_dir():
        pytest.skip("no go with cilium/ebpf (golang-github-cilium-ebpf-dev)")
    words = {"GO111MODULE": "off", "GOPATH": GO, "CGO_ENABLED": "0"}
    source = harness.ROOT / "tests/programs/counter.go"
    subprocess.run(
        ["go", "build", "-o", tmp_path / "counter", source],
        env={**os.environ, **words, "GOCACHE": str(tmp_path / "cache")},
        check=True,
    )
    done = inside(kpfs, "--", "./counter", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("100 hits, 100 records\n", "")
    assert done.returncode == 0


# ---- modules
@pytest.mark.long
@pytest.mark.parametrize(
    ("target", "firsts"),
    [  # the later ones make a far call with a stack that they may not write
        (instructions.X86_64, [(1, 400), (0x1EB89D14, 2)]),
        (instructions.I386, [(1, 400), (0x1EB8BA8D, 2)]),
    ],
)
def test_programs_end_as_on_this_processor(kpfs, tmp_path, target, firsts):
    if os.uname().machine != "x86_64":
        pytest.skip("another processor")
    program = instructions.build(target, tmp_path)
    script = "; ".join(f"{program} {first} {count}" for first, count in firsts)
    right = harness.run("setarch", "-R", "sh", "-c", script).stdout
    found = kpfs(*INSIDE, "sh", "-c", script).stdout
    assert found.count("\n") == right.count("\n") == 402
    assert instructions.differences(right, found) == []


@pytest.mark.skipif(not shutil.which("modprobe", path=SBIN), reason="no kmod")
def test_modules_of_the_package_are_found_by_the_hosts_tools(kpfs):
    """The host has no modules of that kernel, and no user's PATH has modprobe."""
    script = """
    modprobe dummy && modprobe -v -n fs-btrfs | tail -n 1
    modinfo -F depends dm-mirror
    lsmod | grep -c '^dummy '
    rmmod dummy
    modules=/lib/modules/$(uname -r)
    insmod $modules/kernel/drivers/net/dummy.ko* && grep -c ^dummy /proc/modules
    modprobe no-such-module; echo $?
    touch $modules/mine; ls $modules | grep -x mine
    grep CONFIG_KPROBES= /boot/config-$(uname -r)
    """
    done = sh(kpfs, script, env={**os.environ, "PATH": "/usr/bin:/bin"})
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"insmod /lib/modules/.*/btrfs\.ko(\.xz)? *", lines[0])
    assert set(lines[1].split(",")) == {"dm-mod", "dm-log", "dm-region-hash"}
    assert lines[2:] == ["1", "1", "1", "mine", "CONFIG_KPROBES=y"]
    assert done.stderr.count("\n") == 1
    assert "no-such-module not found" in done.stderr


@pytest.mark.skipif(not shutil.which("modprobe", path=SBIN), reason="no kmod")
def test_the_kernel_loads_a_module_that_a_user_needs(kpfs):
    python = "import os, socket; os.setuid(1); socket.socket(socket.AF_VSOCK)"
    done = sh(
        kpfs, f"{sys.executable} -ISc '{python}' && grep -o '^vsock ' /proc/modules"
    )
    assert (done.stdout, done.stderr) == ("vsock \n", "")


# ---- guests that are kept ready
@pytest.fixture
def warm(monkeypatch, tmp_path_factory):
    """The folder of the sockets of warm guests, which end with the test."""
    runtime = tmp_path_factory.mktemp("run")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.setenv("KPFS_WARM", "30")
    yield runtime / f"kpfs-{os.getuid()}"
    for pid in servers(runtime):
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            harness.kill(pid, signal.SIGKILL)


def servers(runtime):
    """Return the servers of warm guests that have this runtime folder."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            comm = Path(f"/proc/{name}/comm").read_text()
            environment = Path(f"/proc/{name}/environ").read_bytes()
            if comm == "kpfs-warm\n" and f"={runtime}\0".encode() in environment:
                found.append(int(name))
    return found


def test_the_second_command_is_served_by_the_same_guest(kpfs, warm, tmp_path):
    (tmp_path / "file").write_text("one\n")
    first = sh(kpfs, "cat file; echo $PPID; exit 4", cwd=tmp_path)
    assert (first.returncode, first.stdout[:4]) == (4, "one\n")
    server = servers(warm.parent)
    assert len(server) == 1
    (tmp_path / "file").write_text("another\n")
    assert sh(kpfs, "cat file", cwd=tmp_path).stdout == "another\n"
    assert sh(kpfs, "echo $PWD", cwd="/").stdout == "/\n"
    assert servers(warm.parent) == server


def test_a_file_that_changes_between_commands(kpfs, warm, tmp_path):
    """The kernel that waits for commands has read ahead what an earlier one read."""
    for word in ("one", "two", "six", "ten"):
        (tmp_path / "script").write_text(f"echo {word}\n")
        done = inside(kpfs, "--", "sh", "script", cwd=tmp_path)
        assert done.stdout == f"{word}\n"


def test_a_file_that_is_replaced_between_commands(kpfs, warm, tmp_path):
    """Editors and compilers replace a file by another of the same name."""
    for number in range(3):
        (tmp_path / "new").write_text(f"echo {number * '1'}\n")
        (tmp_path / "new").rename(tmp_path / "script")
        done = inside(kpfs, "sh", "./script", cwd=tmp_path)
        assert (done.stdout, done.stderr) == (f"{number * '1'}\n", "")
        (tmp_path / "script").unlink()
        assert inside(kpfs, "test", "-e", "script", cwd=tmp_path).returncode == 1


@pytest.mark.parametrize("way", ["rewritten", "replaced"])
def test_a_module_of_another_size(kpfs, warm, tmp_path, way):
    """The kernel reads as many bytes of a module as the overlay has kept of its size.

    Between commands, and while one runs.
    """
    archive = harness.kernels() / "kpfs/kernels" / KERNEL / image.MODULES
    with ModuleArchive(str(archive)) as modules:
        sizes = [modules.read("loop"), modules.read("crc7")]
    assert len(sizes[0]) > len(sizes[1])
    file = tmp_path / "m.ko"

    def change(data):
        if way == "replaced":
            file.unlink(missing_ok=True)
        file.write_bytes(data)

    for data in (*sizes, sizes[0]):
        change(data)
        done = inside(kpfs, "insmod", "m.ko", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
    script = """
    insmod m.ko; echo; read line
    insmod m.ko; grep -c -e ^loop -e ^crc7 /proc/modules"""
    pipe, command = subprocess.PIPE, kpfs.command(*INSIDE, "sh", "-c", script)
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, text=True, cwd=tmp_path
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdout.readline()
        change(sizes[1])
        time.sleep(4)  # s for which an old name may be kept, and more
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "2\n"


SAME = """import os, sys
before = os.stat("f")
name = "new" if sys.argv[1] == "replace" else "f"
with open(name, "w") as file:
    file.write(sys.argv[2])
os.utime(name, ns=(before.st_atime_ns, before.st_mtime_ns))
os.replace(name, "f")
"""


@pytest.mark.parametrize("how", ["rewrite", "replace"])
def test_a_file_that_changes_and_keeps_size_and_time(kpfs, warm, tmp_path, how):
    """Between commands, and while one runs, which has the file open."""
    change = [sys.executable, "-c", SAME, how]
    script = """
    exec 3<f
    cat <&3; echo
    while test "$(cat f)" != "$1"; do sleep .1; done
    """
    subprocess.run(["sh", "-c", ": >f"], cwd=tmp_path, check=True)
    for number in range(2):
        subprocess.run([*change, f"old{number}"], cwd=tmp_path, check=True)
        words = "sh", "-c", script, "sh", f"new{number}"
        pipe, command = subprocess.PIPE, kpfs.command(*INSIDE, *words)
        with subprocess.Popen(command, stdout=pipe, text=True, cwd=tmp_path) as process:
            assert process.stdout
            assert process.stdout.readline() == f"old{number}\n"
            subprocess.run([*change, f"new{number}"], cwd=tmp_path, check=True)
            try:
                assert process.wait(PATIENCE) == 0
            finally:
                process.kill()


OF_TODAY = """
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
	for (int n = 0; n < 50; n++) {
		if (!fork()) {
			write(1, DAY "\\n", 2);
			_exit(0);
		}
		wait(0);
	}
}
"""


@pytest.mark.skipif(not shutil.which("gcc"), reason="no C compiler")
def test_a_program_that_is_built_anew(kpfs, warm, tmp_path):
    """The new code lies where the code of the old program has run."""
    (tmp_path / "p.c").write_text(OF_TODAY)
    for day in "12121":
        words = "-static", "-O1", f'-DDAY="{day}"', "-o", "p", "p.c"
        subprocess.run(["gcc", *words], cwd=tmp_path, check=True)
        assert inside(kpfs, "--", "./p", cwd=tmp_path).stdout == f"{day}\n" * 50


def test_files_that_come_and_go_while_a_command_runs(kpfs, tmp_path):
    """The overlay would take one for absent and the other for stale, for good."""
    script = """
    test -e new || cat old
    until test -e new; do sleep .05; done
    while cat old 2>/tmp/why >/dev/null || grep -q Stale /tmp/why; do sleep .05; done
    cat new /tmp/why
    """
    (tmp_path / "old").write_text("old\n")
    pipe, command = subprocess.PIPE, kpfs.command(*INSIDE, "sh", "-c", script)
    with subprocess.Popen(command, stdout=pipe, text=True, cwd=tmp_path) as process:
        assert process.stdout
        assert process.stdout.readline() == "old\n"
        (tmp_path / "old").rename(tmp_path / "new")
        told, _ = process.communicate(timeout=PATIENCE)
    assert told == "old\ncat: old: No such file or directory\n"


def deep(folder, names):
    """Make directories in each other; return the path of the last one."""
    here = os.open(folder, os.O_RDONLY)
    for name in names:
        os.mkdir(name, dir_fd=here)
        here, above = os.open(name, os.O_RDONLY, dir_fd=here), here
        os.close(above)
    return here


READS_ALL = """import os
while os.path.isdir(name := os.listdir(b".")[0]):
    os.chdir(name)
print(sum(open(name).read().count("\\n") for name in os.listdir(b".")))
"""
NAMES = {  # names of directories, and how many files
    "long": ([b"d" * 200] * 4, 300),
    "longer than a path may be": ([b"d" * 250] * 20, 100),
    "of no encoding": ([b"\xff\n\x1b[31m\xe9", b'"\\'], 100),
}


@pytest.mark.parametrize("kind", NAMES)
def test_a_guest_learns_from_a_command_with_many_names(kpfs, warm, tmp_path, kind):
    assert sh(kpfs, "exit 4").returncode == 4
    server = servers(warm.parent)
    names, count = NAMES[kind]
    here = deep(tmp_path, names)
    for number in range(count):
        name = b"\xff%d" % number
        with open(name, "wb", opener=lambda p, f: os.open(p, f, dir_fd=here)) as file:
            file.write(b"%d\n" % number)
    os.close(here)
    for _ in range(2):
        done = inside(kpfs, sys.executable, "-ISc", READS_ALL, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, f"{count}\n"), done.stderr
    assert sh(kpfs, "exit 5").returncode == 5
    assert servers(warm.parent) == server
    shutil.rmtree(tmp_path / os.fsdecode(names[0]))


@pytest.mark.parametrize("count", [9, 300])
def test_a_command_with_many_arguments(kpfs, warm, count):
    """Six bytes of JSON stand for one of these."""
    assert sh(kpfs, "exit 4").returncode == 4
    server = servers(warm.parent)
    done = inside(kpfs, "sh", "-c", "echo $#", "sh", *["\x01" * 5000] * count)
    assert (done.stdout, done.stderr) == (f"{count}\n", "")
    assert servers(warm.parent) == server


def test_clients_that_end_at_any_byte(kpfs, warm, place):
    """The process that has a kernel ready waits for the next one."""
    assert sh(kpfs, "exit 4").returncode == 4
    server = servers(warm.parent)
    request = json.dumps({"argv": ["true"], "environment": {}, "cwd": "/"}).encode()
    said = [request[:size] for size in range(0, len(request), 7)]
    said += [
        b"{}\n",
        b"[" * 100_000 + b"\n",
        b"\xff\n",
        b"\n",
        b"null\n",
        b"\0" * 70000,
    ]
    null = os.open(os.devnull, os.O_RDWR)
    for data in said:
        for fds in ([], [null], [null] * 3, [null] * 60):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(place))
                with contextlib.suppress(ConnectionError):
                    if data and fds:
                        socket.send_fds(client, [data[:1]], fds)
                        client.sendall(data[1:])
                    else:
                        client.sendall(data)
    os.close(null)
    assert sh(kpfs, "exit 5").returncode == 5
    assert servers(warm.parent) == server


def test_a_killed_guest_is_replaced(kpfs, warm):
    assert sh(kpfs, "exit 4").returncode == 4
    (old,) = servers(warm.parent)
    harness.kill(old, signal.SIGKILL)
    assert sh(kpfs, "exit 5").returncode == 5
    (new,) = servers(warm.parent)
    assert new != old


def test_a_stopped_guest_is_replaced(kpfs, warm, tmp_path):
    """The command runs once, elsewhere, even if the process goes on later."""
    assert sh(kpfs, "exit 4").returncode == 4
    (old,) = servers(warm.parent)
    os.kill(old, signal.SIGSTOP)
    kpfs.constants[CLIENTS_PATIENCE] = 1
    done = append_once(kpfs, tmp_path)
    assert (done.returncode, done.stderr) == (5, "")
    os.kill(old, signal.SIGCONT)
    assert sh(kpfs, "exit 6").returncode == 6
    assert (tmp_path / "count").read_text() == "\n"


def append_once(kpfs, folder):
    """Run a command that appends a line to folder/count."""
    words = "--rw", folder, "--", "sh", "-c", "echo >>count; exit 5"
    return kpfs(*INSIDE[:-1], *words, cwd=folder)


@contextlib.contextmanager
def false_guest(path, *steps):
    """Take the place of a ready guest for one client, and do these steps.

    They are bytes to send, or TAKE for the request; at the end all is closed.
    """

    def serve():
        client, _ = listener.accept()
        listener.close()
        with client:
            for step in steps:
                if step is TAKE:
                    data, fds, _, _ = socket.recv_fds(client, 1 << 20, 3)
                    for fd in fds:
                        os.close(fd)
                    while not data.endswith(b"\n"):  # else the client fails to send
                        data += client.recv(1 << 20)
                elif step is STAY:
                    assert client.recv(1) == b""
                else:
                    client.sendall(step)

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    thread = threading.Thread(target=serve)
    thread.start()
    yield
    thread.join()


TAKE, STAY = object(), object()
BEGUN = b'{"begun": true}\n'


@pytest.fixture
def place(warm):
    """An empty folder in which clients look for a ready guest."""
    place = guests.ready_at(KernelChoice(KERNEL, quiet=False))
    assert place.startswith(f"{warm}/")
    return Path(place)


@pytest.mark.parametrize(
    "steps", [(), (GREETING,), (GREETING, TAKE), (GREETING, TAKE, STAY)]
)
def test_a_command_that_a_guest_has_not_begun_runs_elsewhere(
    kpfs, place, tmp_path, steps
):
    """The guest was killed, or stopped, in the middle of the handover."""
    kpfs.constants[CLIENTS_PATIENCE] = 1
    with false_guest(place, *steps):
        done = append_once(kpfs, tmp_path)
    assert (done.returncode, done.stderr) == (5, "")
    assert (tmp_path / "count").read_text() == "\n"
    assert not place.exists()


def test_a_command_that_a_guest_has_begun_is_lost_with_it(kpfs, place, tmp_path):
    with false_guest(place, GREETING, TAKE, BEGUN):
        done = append_once(kpfs, tmp_path)
    words = "kpfs: the process that runs the kernel was killed\n"
    assert (done.returncode, done.stderr) == (2, words)
    assert not (tmp_path / "count").exists()


@pytest.mark.parametrize("kind", ["a socket", "a file", "a folder", "a link"])
def test_what_lies_in_the_place_of_a_guest_holds_nothing_up(kpfs, place, kind):
    if kind == "a socket":  # the socket of a process that has ended
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(place))
    elif kind == "a file":
        place.touch()
    elif kind == "a folder":
        place.mkdir()
    else:
        place.symlink_to("nowhere")
    done = sh(kpfs, "exit 4")
    assert (done.returncode, done.stderr) == (4, "")


def test_a_command_outlives_the_guest_that_it_was_forked_from(kpfs, warm):
    with kpfs.started(*INSIDE, "cat", stdin=subprocess.PIPE) as process:
        process.stdin.write(b"one\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"one\n"
        (server,) = [pid for pid in servers(warm.parent) if harness.children(pid)]
        harness.kill(server, signal.SIGKILL)
        process.stdin.write(b"two\n")
        process.stdin.close()
        assert process.stdout.read() == b"two\n"
        assert process.wait(PATIENCE) == 0


def test_many_at_once_share_a_guest(kpfs, warm):
    command = kpfs.command(*INSIDE, "cat")
    pipe = subprocess.PIPE
    processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe) for _ in range(6)]
    for number, process in enumerate(processes):
        out, _ = process.communicate(f"{number}".encode(), timeout=PATIENCE)
        assert (process.returncode, out) == (0, f"{number}".encode())
    assert len(servers(warm.parent)) == 1


def test_a_command_ends_with_its_client(kpfs, warm):
    with kpfs.started(*INSIDE, "yes") as process:
        assert process.stdout.read(2) == b"y\n"
        process.kill()
        # the guest has the other end of the pipe for as long as it runs
        while process.stdout.read(1 << 16):
            pass


def test_it_ends_when_nobody_needs_it(kpfs, warm, monkeypatch):
    monkeypatch.setenv("KPFS_WARM", "1")
    assert sh(kpfs, "exit 4").returncode == 4
    deadline = time.monotonic() + PATIENCE
    while servers(warm.parent) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [name for name in os.listdir(warm) if not name.endswith(".lock")] == []


# ---- files
def test_the_hosts_files_are_as_they_are(kpfs, tmp_path):
    (tmp_path / "file").write_bytes(os.urandom(300_000))
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    os.utime(tmp_path / "file", ns=(1_500_000_000_123_456_789, 10**18 + 1))
    for number in range(300):
        (tmp_path / "folder" / f"{number:0100}").touch()
    script = (
        "stat -c '%n %F %a %h %s %u %g %Y %y %i' f* link; readlink link;"
        "cat file|md5sum; ls folder"
    )
    here = harness.run("sh", "-c", script, cwd=tmp_path).stdout
    there = sh(kpfs, script, cwd=tmp_path).stdout
    # the overlay numbers directories itself
    drop = re.compile(r"^(folder directory .*) \d+$", re.M)
    assert drop.sub(r"\1", there) == drop.sub(r"\1", here)


def test_changes_stay_in_the_guest(kpfs, tmp_path):
    (tmp_path / "old").write_text("old")
    script = "echo new >old; echo x >more; cat old more; rm old; ls"
    done = sh(kpfs, script, cwd=tmp_path)
    assert done.stdout == "new\nx\nmore\n"
    assert (tmp_path / "old").read_text() == "old"
    assert os.listdir(tmp_path) == ["old"]


def test_changes_below_rw_are_the_hosts(kpfs, tmp_path):
    folder = tmp_path / "rw"
    folder.mkdir()
    (tmp_path / "not").touch()
    script = """
    mkdir rw/d; echo a >rw/d/a; echo b >>rw/d/a; mv rw/d rw/e; ln -s e/a rw/l
    ln rw/e/a rw/h; chmod 640 rw/h; truncate -s 3 rw/h; touch -d @1000000000 rw/h
    exec 3<>rw/gone; rm rw/gone; echo kept >&3; cat /proc/self/fd/3
    head -c 300000 /dev/zero >rw/big; rm -r rw/big; echo x >not
    """
    done = sh(kpfs, script, "--rw", "rw", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "kept\n", "")
    assert sorted(os.listdir(folder)) == ["e", "h", "l"]
    assert (folder / "l").read_text() == "a\nb"
    st = (folder / "h").stat()
    assert (st.st_mode, st.st_nlink, st.st_mtime) == (0o100640, 2, 10**9)
    assert (tmp_path / "not").read_text() == ""


RIGHTS = """
import os
os.chdir("rw")
def attempt(what, *args):
    try:
        return what(*args)
    except OSError as error:
        return os.strerror(error.errno)
print(
    attempt(os.setxattr, "f", "user.x", b"1"),
    attempt(os.setxattr, "f", "security.capability", bytes((1, 0, 0, 2, *[0] * 16))),
    attempt(os.setxattr, "f", "trusted.x", bytes(65536)),
    attempt(os.listxattr, "f"),
    attempt(os.chmod, "f", 0o4755),
    attempt(os.chmod, "f", 0o2755),
    attempt(os.mknod, "d", 0o20666, os.makedev(1, 3)),
    attempt(os.mknod, "b", 0o60666, os.makedev(8, 0)),
    attempt(os.mknod, "p", 0o10600),
    attempt(os.link, "../outside", "hard"),
    attempt(os.rename, "../outside", "moved"),
    attempt(os.symlink, "../outside", "soft"),
    sep="\\n",
)
open("soft", "w").write("in the kernel alone")
os.chmod("soft", 0o777)
attempt(os.chown, "../outside", 1000, 1000)
attempt(os.setxattr, "../outside", "trusted.x", b"1")
"""
ALLOWED = """\
Operation not supported
Operation not supported
Operation not supported
Operation not supported
Operation not permitted
Operation not permitted
Operation not permitted
Operation not permitted
None
Invalid cross-device link
Invalid cross-device link
None
"""


def test_rights_of_the_host_cannot_be_given(kpfs, tmp_path):
    """Neither by attributes, modes and devices, nor to what lies beside --rw."""
    folder, outside = tmp_path / "rw", tmp_path / "outside"
    folder.mkdir()
    (folder / "f").touch(0o700)
    outside.write_text("as it was")
    before = outside.stat()
    python = sys.executable, "-I", "-S", "-c", RIGHTS
    done = kpfs(*INSIDE[:-1], "--rw", folder, "--", *python, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ALLOWED
    assert sorted(os.listdir(folder)) == ["f", "p", "soft"]
    assert (folder / "f").stat().st_mode == 0o100700
    assert outside.stat() == before
    assert outside.read_text() == "as it was"
    assert os.listxattr(outside) == os.listxattr(folder / "f") == []


@pytest.mark.parametrize("root", [[], ["--root", "/"]])
def test_the_kernel_has_current_directories_of_its_own(kpfs, root):
    """In the place of the caller's, if there is one of that name."""
    words = "run", "--kernel", KERNEL, "--inside", *root
    for folder in ("/sys/kernel", "/proc/sys/kernel", "/dev"):
        done = kpfs(*words, "--", "sh", "-c", "pwd; ls", cwd=folder)
        assert done.stdout.startswith(f"{folder}\n")
        assert done.stdout.count("\n") > 5
    done = kpfs(*words, "--", "true", cwd=f"/proc/{os.getpid()}/task")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "task: No such file or directory (the kernel has a /proc of" in done.stderr


def test_a_fifo_of_the_host_cannot_be_reached(kpfs, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    script = "(echo in >fifo &); cat fifo"
    assert sh(kpfs, script, cwd=tmp_path).stdout == "in\n"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--inside"], "--inside wants a kernel"),
        (["--kernel", "none", "--inside"], "no kernel none"),
        (["--kernel", KERNEL, "--rw", "/"], "--rw is for --inside"),
        (["--kernel", KERNEL, "--inside", "--rw", "/none"], "/none: not a directory"),
        (["--kernel", KERNEL, "--inside", "--rw", "/sys"], "a /sys of its own"),
        (["--kernel", KERNEL, "--memory", "128"], "--memory is for --inside"),
        (["--kernel", KERNEL, "--inside", "--memory", "0"], "a number from 128 to"),
        (
            ["--kernel", KERNEL, "--inside", "--memory", "1024"],
            f"made with 512 MiB of memory; for 1024 make it again: kpfs kernel make "
            f"{KERNEL} --memory 1024",
        ),
    ],
)
def test_wrong_use_is_told_in_one_line(kpfs, options, why):
    done = kpfs("run", *options, "--", "true")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert why in done.stderr


# ---- a terminal
@pytest.fixture
def terminal():
    made = []

    def make(*command):
        made.append(Terminal(command, PS1=PROMPT))
        return made[-1]

    yield make
    for one in made:
        if one.fd >= 0:
            os.kill(one.pid, signal.SIGKILL)
            one.__exit__(None, None, None)


def test_a_shell_with_job_control(kpfs, terminal):
    shell = terminal(*kpfs.command("run", "--kernel", KERNEL, "--inside", "--", "sh"))
    shell.expect("[#$] ")
    shell.type(f"PS1='{PROMPT}'\n")
    shell.expect(f"\n{PROMPT}")
    shell.type("tty; stty size\n")
    shell.expect(r"/dev/pts/0\n\d+ \d+\n")
    shell.resize(33, 99)
    shell.type("until stty size | grep '33 99'; do sleep 0.1; done\n")
    shell.expect("33 99\n")
    shell.expect(PROMPT)
    # says when it has begun, and when it goes on
    # no sleep: dash waits in vfork() for a child that is stopped before it is one
    loop = "while :; do :; done"
    shell.type(f"sh -c 'trap \"echo goes\" CONT; echo begun; {loop}'\n")
    shell.expect("\nbegun\n")
    shell.type("\x1a")
    shell.expect("Stopped")
    shell.type("fg\n")
    shell.expect("\ngoes\n")
    shell.type("\x03")
    shell.expect(PROMPT)
    shell.type("echo $?\n")
    shell.expect("130\n")
    shell.type("exit 5\n")
    assert shell.ended() == 5


def test_control_z_stops_us_with_a_command(kpfs, terminal):
    shell = terminal("sh")
    shell.expect(PROMPT)
    command = kpfs.command(*INSIDE, "cat")
    shell.type(" ".join(command) + "\n")
    shell.type("one\n")
    shell.expect("one\n(.|\n)*one\n")
    shell.type("\x1a")
    shell.expect("Stopped")
    shell.type("fg\n")
    shell.expect("run")
    shell.type("two\n")
    shell.expect("two\n(.|\n)*two\n")
    shell.type("\x04")
    shell.expect(PROMPT)
    shell.type("echo status $?\n")
    shell.expect("status 0")
