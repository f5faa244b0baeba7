# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs where something is missing: it works, or one line names the fault and a remedy.

The rows: each system call that we use is denied, one at a time; no /dev/fuse; HOME and
/tmp that cannot be written to; a full disk; other Pythons; programs of other kinds.
"""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bench.command import KPFS
from tests import harness
from tests.campaign.hunt import Hunt, Part
from tests.harness import WrongError

PATIENCE = 30.0  # s for one command
PREPARING = 300.0  # s for the first one of a Python
DENY = Path(__file__).with_name("deny.py")
LIST = "/sys/kernel/debug/kprobes/list"
SCRIPT = (
    f"echo p:e vfs_read >/sys/kernel/tracing/kprobe_events && cat {LIST} && echo fine"
)
FINE = "fine\n"
# what scripts/kpfs, its Python, the daemon and the supervisor call, as strace tells,
# but for what cannot fail
WORDS = """
read 0  write 1  close 3  fstat 5  poll 7  lseek 8  mmap 9  mprotect 10  munmap 11
rt_sigaction 13  rt_sigprocmask 14  ioctl 16  pread64 17  pwrite64 18  writev 20
access 21  sched_yield 24  mremap 25  madvise 28  dup2 33  sendmsg 46  recvmsg 47
getsockname 51  socketpair 53  getsockopt 55  clone 56  vfork 58  execve 59  wait4 61
kill 62  uname 63  fcntl 72  ftruncate 77  chdir 80  rename 82  mkdir 83  readlink 89
sysinfo 99  setpgid 109  setsid 112  rt_sigtimedwait 128  statfs 137  pivot_root 155
prctl 157  arch_prctl 158  chroot 161  mount 165  umount2 166  futex 202
getdents64 217  fadvise64 221  timer_create 222  timer_settime 223  timer_delete 226
clock_gettime 228  waitid 247  openat 257  newfstatat 262  ppoll 271  unshare 272
set_robust_list 273  signalfd4 289  epoll_create1 291  dup3 292  pipe2 293
prlimit64 302  setns 308  process_vm_readv 310  process_vm_writev 311  seccomp 317
getrandom 318  memfd_create 319  copy_file_range 326  statx 332  rseq 334
pidfd_send_signal 424  pidfd_open 434  clone3 435  close_range 436  pidfd_getfd 438
faccessat2 439
""".split()
CALLS = dict(zip(WORDS[::2], map(int, WORDS[1::2]), strict=True))
ERRNOS = (errno.EPERM, errno.ENOSYS)
# what a shell and a Python need to do the like
BASE = (
    "import ctypes, json, logging, os, socket, threading\n"
    "t = threading.Thread(target=print, args=('fine',)); t.start(); t.join()\n"
    "pid = os.fork()\n"
    "if not pid: os._exit(0)\n"
    "os.waitpid(pid, 0)\n"
    "said = os.popen('cat /proc/self/comm >/dev/null; echo fine').read()\n"
    "os.write(1, said.encode())\n"
)
MOUNT = """
"$0" mount "$@" || exit
shift $(($# - 1)); cat "$1/kprobes/list" || exit; "$0" umount "$1"
"""
NEW_DEV = """
mount --make-rprivate /
mkdir -p "$1/dev"; for name in null zero tty urandom; do
  touch "$1/dev/$name"; mount --bind /dev/$name "$1/dev/$name"
done
mount --rbind "$1/dev" /dev; shift; exec "$@"
"""
NO_DEVICE = (
    'mount --make-rprivate /; mount --bind /dev/null /dev/fuse; shift; exec "$@"'
)
READ_ONLY = """
mount --make-rprivate /
mkdir -p "$1/ro"; mount -t tmpfs none "$1/ro"; mount -o remount,ro "$1/ro"
export HOME=$1/ro TMPDIR=$1/ro; mount --bind "$1" "$1"; mount --bind /tmp /tmp
mount -o remount,bind,ro /tmp; unset XDG_CACHE_HOME; shift; exec "$@"
"""
FULL = """
mount --make-rprivate /
mkdir -p "$1/full"; mount -t tmpfs -o size=16k none "$1/full"; export HOME=$1/full
export TMPDIR=$HOME XDG_CACHE_HOME=$HOME
mkdir -p $HOME/kpfs; echo >$HOME/kpfs/kpfs.log
cat /dev/zero >$HOME/filling 2>/dev/null || :; shift; exec "$@"
"""
STATIC = (
    ".globl _start\n_start: mov $1,%eax; mov $1,%edi; lea msg(%rip),%rsi; mov $5,%edx\n"
    'syscall; mov $60,%eax; xor %edi,%edi; syscall\nmsg: .ascii "fine\\n"\n'
)
STATIC_32 = (
    ".globl _start\n_start: mov $4,%eax; mov $1,%ebx; mov $msg,%ecx; mov $5,%edx\n"
    'int $0x80; mov $1,%eax; xor %ebx,%ebx; int $0x80\nmsg: .ascii "fine\\n"\n'
)


class Tries:
    """Makes the tries in new folders."""

    def __init__(self, hunt: Hunt) -> None:
        self.hunt = hunt
        self.number = 0
        cache = str(hunt.scratch / "cache")
        self.environment = {**os.environ, "XDG_CACHE_HOME": cache}
        self.base = hunt.scratch / "base.py"
        self.base.write_text(BASE)
        self.log: list[str] = ["--log", str(hunt.scratch / "log")]

    def call(
        self, words: list[str], patience: float = PATIENCE
    ) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                words, capture_output=True, text=True, errors="replace",
                timeout=patience, env=self.environment, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired as late:
            said = f"{late.stdout!r} {late.stderr!r}"
            raise WrongError(f"{' '.join(words)} hangs: {said}") from None

    def judge(self, done: subprocess.CompletedProcess[str], works: bool) -> str:
        """Return "works" or "refused". Raises WrongError if it is neither."""
        said = done.stderr.splitlines()  # the first use prepares what it needs
        lines = [line for line in said if not line.startswith("kpfs: preparing ")]
        ours = all(line.startswith("kpfs: ") for line in lines) and len(lines) <= 1
        if done.returncode == 0 and works and ours:
            return "works"
        if done.returncode == 2 and ours and lines:
            return "refused"
        raise WrongError(
            f"{done.args}: status {done.returncode}\n"
            f"stdout: {done.stdout[-1000:]}\nstderr: {done.stderr[-3000:]}"
        )

    def run(self, prefix: list[str], *command: str) -> str:
        """``kpfs run``, by default of a script that uses the files."""
        words = command or ("sh", "-c", SCRIPT)
        done = self.call([*prefix, str(KPFS), "run", *self.log, "--", *words])
        return self.judge(done, done.stdout.endswith(FINE))

    def mount(self, prefix: list[str]) -> str:
        """``kpfs mount``; the files must answer."""
        self.number += 1
        target = self.hunt.scratch / f"m{self.number}"
        target.mkdir()
        words = [*prefix, "sh", "-c", MOUNT, str(KPFS), *self.log, str(target)]
        done = self.call(words)
        how = self.judge(done, True)
        if not harness.is_mounted(target):
            return how
        # it was kpfs umount that could not do its work, and has said so
        answers = self.answers(target)
        self.judge(self.call([str(KPFS), "umount", str(target)]), True)
        if not answers:
            raise WrongError(f"a dead mount was left: {done.stderr}")
        if how == "works" or harness.is_mounted(target):
            raise WrongError(f"a mount is left: {done.stderr}")
        return "works, umount refused"

    def answers(self, target: Path) -> bool:
        """Return True if a daemon serves a mount to which nothing is denied."""
        return not self.call(["cat", f"{target}/kprobes/list"]).returncode

    def both(self, prefix: list[str]) -> str:
        return f"run {self.run(prefix)}, mount {self.mount(prefix)}"

    # ---- rows
    def denied(self, name: str, error: int) -> str:
        words = [sys.executable, "-I", "-S", str(DENY), str(CALLS[name]), str(error)]
        return self.both(words) if self.runs_python(words) else "no Python runs there"

    def runs_python(self, prefix: list[str]) -> bool:
        """Return True if another program in Python works there."""
        try:
            done = self.call([*prefix, sys.executable, "-I", "-S", str(self.base)])
        except WrongError:
            return False
        return (done.returncode, done.stdout, done.stderr) == (0, 2 * FINE, "")

    def elsewhere(self, script: str) -> str:
        """Try it in a mount namespace that the script prepares."""
        self.number += 1
        folder = self.hunt.scratch / f"place{self.number}"
        folder.mkdir()
        prefix = ["unshare", "-m", "sh", "-ec", script, "sh", str(folder)]
        if self.call([*prefix, "true"]).returncode:
            return "no mount namespace here"
        log, self.log = self.log, []
        try:
            return self.both(prefix)
        finally:
            self.log = log

    def program(self, source: str, *options: str) -> str:
        """Run a program of another kind under ``kpfs run``."""
        self.number += 1
        path = self.hunt.scratch / f"program{self.number}"
        path.with_suffix(".S").write_text(source)
        words = ["gcc", *options, "-nostdlib", "-static", "-o", str(path)]
        try:
            built = self.call([*words, f"{path}.S"])
        except FileNotFoundError:
            return "no gcc here"
        if built.returncode or self.call([str(path)]).stdout != FINE:
            return "this machine does not run it"
        return f"run {self.run([], str(path))}"

    def python(self, path: str) -> str:
        """Another Python, in a checkout that is prepared with it."""
        self.number += 1
        folder = self.hunt.scratch / f"python{self.number}"
        (folder / "bin").mkdir(parents=True)
        harness.copy_checkout(folder / "kpfs")
        (folder / "bin" / "python3").symlink_to(path)
        self.environment["PATH"] = f"{folder}/bin:{os.environ['PATH']}"
        kpfs = str(folder / "kpfs" / "scripts" / "kpfs")
        try:
            first = self.call([kpfs, "--version"], PREPARING)
            if "package index" in first.stderr:
                return "no package index here"
            if first.returncode:
                raise WrongError(f"{path}: {first.stderr}")
            done = self.call([kpfs, "run", *self.log, "--", "sh", "-c", SCRIPT])
            return f"run {self.judge(done, done.stdout.endswith(FINE))}"
        finally:
            self.environment["PATH"] = os.environ["PATH"]


def pythons() -> dict[str, str]:
    """Return the Pythons of this machine by version."""
    found = {}
    script = (
        "import os, sys; print(os.path.realpath(sys.executable), sys.version_info[1])"
    )
    for minor in range(10, 20):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            environment = {**os.environ, "PYENV_VERSION": _pyenv(minor)}
            out = subprocess.run(
                [f"python3.{minor}", "-I", "-c", script],
                capture_output=True, text=True, check=True, env=environment,
            ).stdout  # fmt: skip
            path, version = out.split()
            found[f"3.{version}"] = path
    return found


def _pyenv(minor: int) -> str:
    """Return the name that pyenv has for a version, if there is pyenv."""
    top = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return next((p.name for p in top.glob(f"3.{minor}.*")), "system")


def rows(tries: Tries) -> dict[str, Callable[[], str]]:
    """Return all restrictions by their names in reports."""
    found: dict[str, Callable[[], str]] = {
        "no /dev/fuse": lambda: tries.elsewhere(NEW_DEV),
        "another device as /dev/fuse": lambda: tries.elsewhere(NO_DEVICE),
        "HOME and /tmp read-only": lambda: tries.elsewhere(READ_ONLY),
        "a full disk": lambda: tries.elsewhere(FULL),
        "a static program": lambda: tries.program(STATIC),
        "a 32-bit program": lambda: tries.program(STATIC_32, "-m32"),
    }
    # to prepare a checkout for another Python takes as long as the package index does
    others = {} if tries.hunt.short else pythons()
    for version, path in others.items():
        found[f"Python {version}"] = lambda path=path: tries.python(path)  # type: ignore[misc]
    for name in CALLS:
        for error in ERRNOS:
            found[f"{name}: {errno.errorcode[error]}"] = (
                lambda name=name, error=error: tries.denied(name, error)  # type: ignore[misc]
            )
    return found


def run(hunt: Hunt) -> None:
    hunt.each_of(rows(Tries(hunt)))


PART = Part("restrictions", 1000, 1.5, run)
