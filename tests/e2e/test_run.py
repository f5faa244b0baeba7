# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs run``, as ourselves and as an ordinary user.

This also tests kpfs.__main__.
"""

import fcntl
import os
import pty
import re
import shlex
import signal
import subprocess
import termios
from pathlib import Path

import pytest

from kpfs.base import programs
from kpfs.cli import VERSION
from kpfs.guest.images import RELEASE
from kpfs.host.mounts import fusermount
from tests import harness
from tests.terminal import Terminal
from tests.there import there

pytestmark = [pytest.mark.fuse, pytest.mark.guest]

KNOBS = """
cat /sys/kernel/debug/kprobes/enabled /proc/sys/debug/kprobes-optimization
grep -c ' vfs_read$' /proc/kallsyms
ls -d /sys/kernel/tracing/kprobe_events /sys/kernel/debug/tracing/kprobe_events
ls $KPFS/machine/stats
dd if=/dev/kmsg bs=8192 count=1 2>/dev/null | grep -c 'Linux version'
id -u
"""
# prints the pid of the daemon of the run that it is in
DAEMON = (
    r'sed -n "s,.* $(mountpoint -d $KPFS) / .* kpfs:\([0-9]*\) .*,\1,p" '
    "/proc/self/mountinfo"
)
SHOWN = """\
1
1
1
/sys/kernel/debug/tracing/kprobe_events
/sys/kernel/tracing/kprobe_events
/sys/kernel/debug/kpfs/machine/stats
1
0
"""


@pytest.mark.parametrize(
    ("script", "status"),
    [("true", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -SEGV $$", 139)],
)
def test_the_status_is_that_of_the_command(kpfs, script, status):
    assert kpfs.sh(script).returncode == status


def test_a_command_that_is_not_there(kpfs):
    done = kpfs("run", "no-such-command")
    assert (done.returncode, done.stdout) == (127, "")
    assert done.stderr == "kpfs: no-such-command: No such file or directory\n"


def test_kpfs_itself_is_found(kpfs):
    """A command finds kpfs whatever the PATH of the caller, as in a checkout."""
    script = "kpfs --version; kpfs top --json --interval 0.1; kpfs explain vfs_read"
    done = kpfs("run", "sh", "-c", script, env={**os.environ, "PATH": "/usr/bin:/bin"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"kpfs {VERSION}\n[]\nvfs_read: ")


def test_files_lie_at_the_real_paths(kpfs):
    done = kpfs.sh(KNOBS)
    assert (done.stdout, done.stderr) == (SHOWN, "")


def test_a_shell_without_a_command(kpfs):
    shell = {**os.environ, "SHELL": "/bin/sh"}
    done = kpfs("run", input="echo up; exit 3", env=shell)
    assert (done.returncode, done.stdout) == (3, "up\n")


def test_the_environment_is_the_callers(kpfs):
    ours = {"HOME": str(kpfs.scratch), "A": "b c"}
    path = programs.search_path()
    done = kpfs("run", "env", env={"PATH": path, **ours})
    words = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert ours.items() <= words.items()
    assert words["PATH"].endswith(f":{path}")  # behind our insmod and its kin
    leaked = ("PYTHON", "KPFS_HOME", "FUSE")
    assert not [name for name in words if name.startswith(leaked)]


def test_input_output_and_directory_are_the_callers(kpfs, tmp_path):
    done = kpfs("run", "sh", "-c", "cat; pwd >&2", input="in", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("in", f"{tmp_path}\n")


LINUX = "--kernel", harness.KERNEL, "--inside"


@pytest.mark.parametrize(
    ("kernel", "script"),
    [
        ((), "cat || echo >&1 || exit 3"),
        pytest.param(LINUX, "cat; exit 3", marks=pytest.mark.kernel),
    ],
    ids=["run", "inside"],
)
def test_without_standard_streams(kpfs, kernel, script):
    """Whoever uses them has EBADF: they are no other files."""
    command = kpfs.command("run", *kernel, "--", "sh", "-c", script)
    closed = "sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command
    assert harness.run(*closed).returncode == 3


def test_nothing_is_left(kpfs):
    """No mount is left but those of daemons that other tests started meanwhile."""
    table = Path("/proc/self/mountinfo")
    before = table.read_text().splitlines()
    done = kpfs.sh(f"{DAEMON}; grep -c kpfs: /proc/self/mountinfo")
    daemon, mounts = done.stdout.split()
    assert int(mounts) > 5
    assert not harness.alive(int(daemon))
    left = [line for line in table.read_text().splitlines() if line not in before]
    theirs = re.compile(rf" fuse\.kpfs kpfs:(?!{daemon} )\d+ ")
    assert not [line for line in left if not theirs.search(line)]


def test_within_another(kpfs):
    script = "echo 0 >/sys/kernel/debug/kprobes/enabled; cat $K/enabled"
    inner = f"{harness.KPFS} run --no-mirror -- cat $K/enabled"
    done = kpfs.sh(f"K=/sys/kernel/debug/kprobes; {script}; {inner}; cat $K/enabled")
    assert (done.stdout, done.stderr) == ("0\n1\n0\n", "")


def test_the_host_is_out_of_reach(kpfs):
    """No user can open a switch of the host's kernel for writing."""
    script = """
    for f in /proc/sys/kernel/panic /proc/sys/vm/swappiness /proc/sysrq-trigger; do
        (: >>$f) 2>/dev/null && echo writable $f
    done
    mount -t tracefs none /mnt 2>/dev/null && echo tracefs
    mount -t debugfs none /mnt 2>/dev/null && echo debugfs
    for d in kernel/tracing kernel/debug/tracing kernel/debug/kprobes; do
        umount /sys/$d 2>/dev/null && echo "umount $d"
    done
    mount -o remount,bind,rw /proc/sys 2>/dev/null && echo remount
    umount -l /sys/kernel/debug 2>/dev/null && echo umount -l
    umount /proc/sys/debug 2>/dev/null && echo umount sysctl
    """
    assert kpfs.sh(script).stdout == ""


def start(kpfs, script, **options):
    child = subprocess.Popen(
        kpfs.command("run", "--", "sh", "-c", script),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )
    assert there(child.stdout).readline() == "up\n"
    return child


def test_sigterm_reaches_the_command(kpfs):
    with start(kpfs, "trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done") as c:
        c.terminate()
        assert c.wait(10) == 9


def test_ctrl_c_ends_the_command_first(kpfs):
    """All of the terminal get it; the files must answer until CMD has ended."""
    master, terminal = pty.openpty()
    script = """
    trap 'cat /sys/kernel/debug/kprobes/enabled; exit 5' INT
    echo up; while :; do sleep 0.05; done"""
    child = subprocess.Popen(
        kpfs.command("run", "--", "sh", "-c", script),
        stdin=terminal,
        stdout=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    with child:
        assert there(child.stdout).readline() == b"up\n"
        os.write(master, b"\x03")
        assert child.wait(10) == 5
        assert there(child.stdout).read() == b"1\n"
    os.close(master)
    os.close(terminal)


@pytest.mark.parametrize("stopped", [False, True])
def test_daemon_and_command_go_with_a_killed_kpfs(kpfs, stopped):
    script = f"echo up; {DAEMON}; read line; cat $KPFS/version; exec sleep 60"
    with start(kpfs, script, stdin=subprocess.PIPE) as child:
        daemon = int(there(child.stdout).readline())
        both = harness.children(child.pid)
        assert daemon in both
        if stopped:  # and the command waits for its answer
            os.kill(daemon, signal.SIGSTOP)
            print(file=child.stdin, flush=True)
        child.kill()
        child.wait()
        harness.until(lambda: not any(map(harness.alive, both)), "it goes on")


def test_the_daemon_is_of_the_session_of_the_command(kpfs):
    """Another one's would wait for the CPU by itself; the terminal is not for it."""
    script = f"d=$({DAEMON}); cat /proc/$$/stat /proc/$d/stat"
    ours, daemons = (
        line.rpartition(")")[2].split()[2:4]
        for line in kpfs.sh(script).stdout.splitlines()
    )
    assert ours[1] == daemons[1]  # session
    assert ours[0] != daemons[0]  # process group


@pytest.mark.parametrize("number", [9, 11])
def test_a_daemon_that_dies_in_the_middle_of_a_write_is_gone(kpfs, number):
    """The last write asks a mount that nobody serves any more."""
    script = f"""
    daemon=$({DAEMON}); echo $daemon
    for i in 1 2 3; do
        while echo 1; do :; done 2>/dev/null >/sys/kernel/debug/kprobes/enabled &
    done
    sleep 0.2; kill -{number} $daemon; wait; exit 4"""
    for _ in range(2):
        done = kpfs.sh(script)
        assert done.returncode == 4
        assert not harness.alive(int(done.stdout))


def test_a_daemon_that_dies_is_said(kpfs):
    # there is such a process until our parent has waited for it
    gone = "while kill -0 $daemon 2>/dev/null; do sleep 0.02; done"
    done = kpfs.sh(f"daemon=$({DAEMON}); kill -9 $daemon; {gone}; exit 4")
    assert done.returncode == 4
    assert "the daemon was killed (SIGKILL)" in done.stderr


def test_the_tour(kpfs):
    done = kpfs("run", "--", harness.ROOT / "scripts/tour")
    assert (done.returncode, done.stderr) == (0, "")
    seen = ("[DISABLED]", "[FTRACE]", "[OPTIMIZED]", "call 0x", "jmp 0x", "int3")
    assert [words for words in seen if words not in done.stdout] == []
    assert len(re.findall(r"^\S*echo: .", done.stdout, re.M)) == 2  # refused
    assert re.search(
        r"^ *\S+-\d+ +\[00\d\] .{5} .*: inside: \(vfs_read\+0x5/", done.stdout, re.M
    )


@pytest.mark.user
def test_as_an_ordinary_user(ordinary):
    done = ordinary(f"$kpfs run -- sh -c {shlex.quote(KNOBS)}")
    assert (done.stdout, done.stderr, done.returncode) == (SHOWN, "", 0)


@pytest.mark.user
@pytest.mark.skipif(not fusermount(), reason="fusermount (Debian: fuse3)")
def test_an_ordinary_user_mounts(ordinary):
    done = ordinary(
        "mkdir m; $kpfs mount m && cat m/kprobes/enabled && stat -c %U m/kprobes/list; "
        "$kpfs umount m && rmdir m && id -un"
    )
    user = done.stdout.splitlines()[-1]
    assert (done.stdout, done.stderr) == (f"1\n{user}\n{user}\n", "")


def test_a_write_to_kmsg_is_one_record_of_the_user(kpfs):
    done = kpfs.sh("""
        echo hello > /dev/kmsg
        dd if=/dev/kmsg bs=8192 iflag=nonblock 2> /dev/null | grep hello
    """)
    (record,) = done.stdout.splitlines()
    assert re.fullmatch(r"12,\d+,\d+,-;hello", record)


CHROOT = """
mount --make-rprivate /
mount -t tmpfs none "$1"
cd "$1"; shift
for d in /*; do
    if [ -L "$d" ]; then cp -a "$d" .; continue; fi
    [ -d "$d" ] || continue
    mkdir ".$d"; mount --rbind "$d" ".$d"
done
exec chroot . "$@"
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may chroot")
def test_in_a_chroot(kpfs, tmp_path):
    """Tools that build packages use one; Linux makes no user namespace there."""
    words = ["unshare", "-m", "sh", "-ec", CHROOT, "sh", tmp_path]
    script = "cat /sys/kernel/debug/kprobes/enabled; id -u; ls -d /*"
    done = harness.run(*words, *kpfs.command("run", "sh", "-c", script))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("1\n0\n/")
    assert "/tmp\n" in done.stdout
    assert not harness.is_mounted(tmp_path)


def test_a_shell_at_a_terminal_is_greeted_in_one_line(kpfs):
    with Terminal(kpfs.command("run"), SHELL="/bin/sh") as terminal:
        greeting = terminal.until("leaves\n")
        assert f"kpfs: Linux {RELEASE}: its files are in /sys/kernel/tr" in greeting
        assert greeting.count("\n") == 1
        terminal.type("echo is $KPFS_KERNEL; exit 3\n")
        terminal.until(f"is {RELEASE}")
        assert terminal.ended() == 3


def test_a_command_is_not_greeted(kpfs):
    with Terminal(kpfs.command("run", "--", "sh", "-c", "echo $KPFS_KERNEL")) as it:
        assert "its files are" not in it.until(RELEASE)
    assert kpfs.sh("true").stderr == ""


@pytest.mark.parametrize(
    "words", [("run", "--", "true"), ("doctor",), ("kernel", "list")]
)
def test_no_home_is_made(tmp_path, words):
    """/nonexistent of nobody, to which root could write."""
    home = tmp_path / "none"
    gone = {"HOME": str(home), "XDG_RUNTIME_DIR": str(tmp_path)}
    kept = {k: v for k, v in os.environ.items() if not k.startswith("XDG_")}
    done = harness.run(harness.KPFS, *words, env={**kept, **gone})
    assert done.returncode == 0, done
    assert not home.exists()
