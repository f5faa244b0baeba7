# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls that a sandbox denies: it works, or one line says so; nothing hangs.

scripts/campaign tries all of them; these are those that went wrong once.
"""

import errno
import os
import re
import sys

import pytest

from tests import harness
from tests.campaign.limits import NO_PROC, PYTHON
from tests.campaign.restrictions import CALLS, DENY

pytestmark = [pytest.mark.fuse, pytest.mark.guest]

SCRIPT = "cat /sys/kernel/debug/kprobes/list; echo fine"


@pytest.fixture
def denied(kpfs):
    """Runs kpfs where a system call fails."""

    def run(call, error, *words):
        prefix = [sys.executable, "-I", "-S", str(DENY), str(CALLS[call]), str(error)]
        # env, which the script's first line names, may need the call itself
        prefix.append("bash")
        return harness.run(*prefix, *kpfs.command(*words), timeout=harness.TIMEOUT)

    return run


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS])
@pytest.mark.parametrize(
    "call", ["writev", "rt_sigaction", "recvmsg", "ftruncate", "rt_sigtimedwait"]
)
def test_run_ends_without_an_indispensable_system_call(kpfs, denied, call, error):
    kpfs.announce("supervisor")
    done = denied(call, error, "run", "--", "sh", "-c", SCRIPT)
    (line,) = done.stderr.splitlines()
    assert line.startswith("kpfs: ")
    assert "a sandbox" in line
    assert (done.returncode, done.stdout) == (2, "")


def test_without_sendmsg_nothing_is_mirrored(denied):
    done = denied("sendmsg", errno.EPERM, "run", "--", "sh", "-c", SCRIPT)
    said = "kpfs: system calls are not mirrored: Operation not permitted\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", said)


@pytest.mark.parametrize("inner", ["run", "trace", "--no-mirror"])
def test_a_run_within_another_tells_who_has_its_calls(kpfs, inner):
    words = ("run", inner) if inner.startswith("-") else (inner,)
    done = kpfs("run", "--", *kpfs.command(*words, "--", "true"))
    said = "another process has them, as of a 'kpfs run' around this one\n"
    told = f"kpfs: system calls are not mirrored: {said}"
    assert done.stderr == ("" if inner == "--no-mirror" else told)
    assert done.returncode == 0


def test_umount_without_poll(denied, mount):
    done = denied("poll", errno.ENOSYS, "umount", str(mount))
    (line,) = done.stderr.splitlines()
    assert line.startswith("kpfs: ")
    assert done.returncode == 2
    assert harness.is_mounted(mount)


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS])
def test_a_mount_without_poll(kpfs, denied, tmp_path, error):
    place = tmp_path / "place"
    place.mkdir()
    done = denied("poll", error, "mount", str(place))
    (line,) = done.stderr.splitlines()
    assert line.startswith("kpfs: poll(): ")
    assert done.returncode == 2
    assert not harness.is_mounted(place)


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("-n 18", "ulimit -n is 18: kpfs needs 128 or more here"),
        ("-v 1500000", "ulimit -v is 1500000: kpfs needs 2097152 or more here"),
        ("-s 256", "ulimit -s is 256: kpfs needs 512 or more here"),
        ("-f 0", "ulimit -f is 0: kpfs needs 4 or more here"),
    ],
)
def test_a_limit_that_is_too_low_for_a_kernel(kpfs, limit, said):
    """Once, with few descriptors, writes to files ended in EIO or never ended."""
    limited = ["bash", "-c", f'ulimit {limit} && exec "$@"', "bash"]
    words = kpfs.command("run", "--", "sh", "-c", SCRIPT)
    done = harness.run(*limited, *words, timeout=harness.TIMEOUT)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"kpfs: {said}\n")
    python = [sys.executable, "-c", PYTHON, str(harness.ROOT), ""]
    done = harness.run(*limited, *python, timeout=harness.TIMEOUT)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"kpfs: {said}\n")


@pytest.mark.kernel
@pytest.mark.parametrize("how", [(), ("--inside",)])
def test_a_limit_that_is_too_low_for_a_linux_kernel(kpfs, how):
    limited = ["bash", "-c", 'ulimit -v 2097152 && exec "$@"', "bash"]
    words = kpfs.command("run", "--kernel", harness.KERNEL, *how, "--", "true")
    done = harness.run(*limited, *words, timeout=harness.TIMEOUT)
    said = "kpfs: ulimit -v is 2097152: kpfs needs 2621440 or more here\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


@pytest.mark.kernel
def test_inside_without_proc(kpfs):
    words = kpfs.command("run", "--kernel", harness.KERNEL, "--inside", "--", "true")
    done = harness.run("unshare", "-m", "sh", "-ec", NO_PROC, "sh", "", *words)
    said = "kpfs: --inside needs /proc: mount -t proc proc /proc\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


@pytest.mark.parametrize(
    ("within", "why"),
    [
        (("unshare", "-m", "sh", "-ec", NO_PROC, "sh", ""), "is not there"),
        (("unshare", "--pid", "--fork"), "shows another PID namespace"),
    ],
    ids=["none", "foreign"],
)
def test_run_without_a_proc_of_its_own(kpfs, within, why):
    """Refuse a foreign one: maps of ids would be written for others' processes."""
    done = harness.run(*within, *kpfs.command("run", "--", "true"))
    said = f"kpfs: /proc {why}: mount -t proc proc /proc\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


NO_FUSE = (
    "mount --make-rprivate /; cd /dev; mount -t tmpfs none /mnt; "
    "mkdir /mnt/shm; mount -t tmpfs none /mnt/shm; "
    "for it in null zero urandom; do : >/mnt/$it; mount --bind $it /mnt/$it; done; "
    'mount --move /mnt /dev; cd "$1"; shift; exec "$@"'
)
NO_NAMESPACES = 'echo 0 >/proc/sys/user/max_user_namespaces; shift; exec "$@"'
HOSTS = {
    "no /dev/fuse": ("unshare", "-m", "sh", "-ec", NO_FUSE),
    "no namespaces": ("unshare", "-Ur", "sh", "-ec", NO_NAMESPACES),
    "no capabilities": (
        "setpriv",
        "--bounding-set=-all",
        "sh",
        "-ec",
        'shift; exec "$@"',
    ),
}


@pytest.mark.kernel
@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes such hosts")
@pytest.mark.parametrize("host", HOSTS)
def test_the_command_that_is_named_instead_works(kpfs, tmp_path, host):
    """Nobody is sent from run to mount, and from there back to run."""

    def on_host(*words):
        prefix = [*HOSTS[host], "sh", str(tmp_path)]
        return harness.run(*prefix, *kpfs.command(*words), cwd=tmp_path)

    (tmp_path / "m").mkdir()
    all_named = set()
    for command in ("run -- true", "mount m", "trace -- true"):
        done = on_host(*command.split())
        assert done.returncode == 2, done
        (line,) = done.stderr.splitlines()
        named = re.findall("'kpfs ([^']*)'", line)
        assert f"run --kernel {harness.KERNEL} --inside" in named
        all_named |= {*named}
    for words in all_named:
        if words == "matrix":
            words += f" --kernels {harness.KERNEL}"
        more = ["m"] if words == "mount" else ["--", "true"]
        done = on_host(*words.split(), *more)
        assert done.returncode == 0, (words, done)
