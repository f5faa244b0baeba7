# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs mount`` and ``kpfs run`` as functions."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kpfs.base.errors import EXIT_TROUBLE, SetupError
from kpfs.session.records import without_task

ROOT = str(Path(__file__).resolve().parents[2])  # the folder of the package kpfs
START = """\
import sys
sys.path[0] = sys.argv.pop(1)
from kpfs.cli import main
sys.exit(main())
"""
LIST, ERROR_LOG, TRACE = "kprobes/list", "tracing/error_log", "tracing/trace"
KEPT = (LIST, ERROR_LOG, TRACE)
# Runs a command, then keeps what the files say; the trace ends with the command.
SCRIPT = """\
out=$1 files=$2; shift 2
(exec "$@")
status=$?
{ echo 0 >"$KPFS/tracing/tracing_on"; } 2>/dev/null
echo $$ >"$out/pid"
n=0
for file in $files; do
	cat "$KPFS/$file" >"$out/$n" 2>/dev/null
	n=$((n + 1))
done
dd if="$KPFS/kmsg" of="$out/kmsg" bs=8192 count=4096 iflag=nonblock 2>/dev/null
exit $status
"""
MAX_RECORDS = 4096  # a probe on the way may make each read log one more
_KMSG = re.compile(r"^[0-9]+,[0-9]+,([0-9]+),[^;]*;(.*)$", re.MULTILINE)


class Mount:
    """A mounted kernel.  As a context manager it is unmounted at the end."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Mount:
        return self

    def __exit__(self, *_: object) -> None:
        self.unmount()

    def __fspath__(self) -> str:
        return str(self.path)

    def unmount(self) -> None:
        """Unmount it, and end its kernel; SetupError: it is not mounted."""
        _kpfs("umount", str(self.path))


@dataclass(frozen=True)
class Finished:
    """The result of a command, and the state of the kernel that it ran in.

    trace and files are as they were when the command had ended; trace has the records
    of the command alone, and dmesg is the kernel's log as dmesg prints it.
    """

    argv: Sequence[str]
    returncode: int  # 128 plus the number of a signal that ended it
    stdout: str
    stderr: str
    dmesg: str
    files: Mapping[str, str]  # kept texts, by their paths below a mount

    @property
    def kprobes(self) -> str:
        """kprobes/list."""
        return self.files[LIST]

    @property
    def error_log(self) -> str:
        """tracing/error_log."""
        return self.files[ERROR_LOG]

    @property
    def trace(self) -> str:
        """tracing/trace."""
        return self.files[TRACE]


def mount(
    path: str | os.PathLike[str],
    *,
    cpus: int = 0,
    config: Mapping[str, bool | str] | None = None,
    kernel: str = "",
    quiet: bool = False,
) -> Mount:
    """Mount a new kernel's files at a directory that is empty.

    The arguments are those of ``kpfs mount``; cpus: 0 is as many as it has without
    being told.  SetupError: it cannot be.
    """
    _kpfs("mount", *_options(cpus, config, kernel, quiet), os.fspath(path))
    return Mount(Path(path))


def run(
    argv: Sequence[str] | str,
    *,
    cpus: int = 0,
    config: Mapping[str, bool | str] | None = None,
    kernel: str = "",
    quiet: bool = False,
    mirror: bool = True,
    keep: Sequence[str] = (),
    input: str = "",
    timeout: float | None = None,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> Finished:
    """Run a command where a new kernel's files lie at the kernel's own paths.

    argv: the command, or the text of a shell script.  cpus: 0 is as many as the kernel
    has without being told.  mirror: its system calls are made in the kernel too.  keep:
    files that are to be read when it has ended, by their paths below a mount, such as
    ``tracing/kprobe_profile``.  timeout: seconds; then it is killed, and
    subprocess.TimeoutExpired raised.  SetupError: kpfs cannot run here.
    """
    command = ["sh", "-c", argv] if isinstance(argv, str) else list(argv)
    options = _options(cpus, config, kernel, quiet)
    if not mirror:
        options.append("--no-mirror")
    files = list(dict.fromkeys([*KEPT, *keep]))
    with tempfile.TemporaryDirectory(prefix="kpfs-run-") as out:
        wrapper = ["sh", "-c", SCRIPT, "sh", out, " ".join(files), *command]
        words = ["run", *options, "--", *wrapper]
        done = _communicate(words, input, timeout, cwd, env)
        pid = _text(out, "pid").strip()
        if done.returncode == EXIT_TROUBLE and not pid:
            raise SetupError(done.stderr.strip().removeprefix("kpfs: "))
        kept = {name: _text(out, str(n)) for n, name in enumerate(files)}
        log = _text(out, "kmsg")
    kept[TRACE] = without_task(kept[TRACE], pid)
    return Finished(
        command, done.returncode, done.stdout, done.stderr, as_dmesg(log), kept
    )


def run_inside(
    argv: Sequence[str] | str,
    *,
    kernel: str,
    rw: Sequence[str | os.PathLike[str]] = (),
    root: str | os.PathLike[str] | None = None,
    memory: int = 0,
    exact: bool = False,
    quiet: bool = False,
    input: str = "",
    timeout: float | None = None,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command as a program of a Linux kernel, with this host's files.

    The arguments are those of ``kpfs run --kernel NAME --inside``; argv, input and
    timeout are as of run(). root: a directory with the files of the command, as for a
    kernel of another architecture. memory: MiB. exact does nothing any more.
    SetupError: there is no such kernel.
    """
    from kpfs.linux.running import chosen
    from kpfs.linux.store import image

    image.read_meta(chosen.folder(kernel))  # raises where there is none
    command = ["sh", "-c", argv] if isinstance(argv, str) else list(argv)
    options = ["--kernel", kernel, "--inside"]
    for folder in rw:
        options += ["--rw", os.fspath(folder)]
    options += ["--root", os.fspath(root)] if root is not None else []
    options += ["--memory", str(memory)] * bool(memory) + ["--exact"] * exact
    options += ["--quiet-guest"] * quiet
    words = ["run", *options, "--", *command]
    return _communicate(words, input, timeout, cwd, env)


@dataclass(frozen=True)
class Found:
    """Something that a search has found."""

    kind: str  # race, schedule, fault, memory, lock or ibt
    title: str
    lines: Sequence[str]
    seed: str  # for run_inside() and ``kpfs run --seed``
    how: str  # what was done to the run that shows it
    replay: str  # the command that makes this run again
    after: int  # runs until it was found
    times: int

    def __str__(self) -> str:
        return "\n    ".join([self.title, *self.lines, self.replay])


def search(
    argv: Sequence[str] | str,
    *,
    kernel: str,
    seconds: float = 60.0,
    runs: int = 0,
    kinds: Sequence[str] = (),
    of: Sequence[str] = (),
    jobs: int = 0,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> list[Found]:
    """Search a command for what is wrong with the modules that it loads.

    The arguments are those of ``kpfs search``; argv is as of run().  SetupError: the
    command cannot be searched.
    """
    command = ["sh", "-c", argv] if isinstance(argv, str) else list(argv)
    options = ["--kernel", kernel, "--json", "--for", f"{seconds:g}"]
    options += ["--runs", str(runs)] * bool(runs) + ["--jobs", str(jobs)] * bool(jobs)
    options += ["--kinds", ",".join(kinds)] if kinds else []
    for name in of:
        options += ["--of", name]
    done = _communicate(["search", *options, "--", *command], "", None, cwd, env)
    if done.returncode not in (0, 1):
        raise SetupError(done.stderr.strip().removeprefix("kpfs: "))
    return [Found(**row) for row in json.loads(done.stdout)["findings"]]


def mark() -> None:
    """Say where the runs of a search begin: here, in a command of ``kpfs search``.

    Context: inside a kernel, as root; OSError elsewhere.
    """
    with open("/dev/kmsg", "w") as log:
        log.write("kpfs:mark\n")


def _communicate(
    words: Sequence[str],
    input: str,
    timeout: float | None,
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
) -> subprocess.CompletedProcess[str]:
    """Run the command kpfs; it is killed when the time is over."""
    argv = [*program(), *words]
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        cwd=cwd,
        env=env,
    )
    try:
        stdout, stderr = process.communicate(os.fsencode(input), timeout)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    said = os.fsdecode(stdout), os.fsdecode(stderr)
    return subprocess.CompletedProcess(argv, process.returncode, *said)


def _options(
    cpus: int, config: Mapping[str, bool | str] | None, kernel: str, quiet: bool
) -> list[str]:
    words = ["--cpus", str(cpus)] if cpus else []
    for name, value in (config or {}).items():
        letter = ("y" if value else "n") if isinstance(value, bool) else value
        words += ["--config", f"{name}={letter}"]
    return words + ["--kernel", kernel] * bool(kernel) + ["--quiet-guest"] * quiet


def program() -> list[str]:
    """Return the command of this very package, be it installed or not."""
    return [sys.executable, "-c", START, ROOT]


def _kpfs(*words: str) -> None:
    done = subprocess.run(
        [*program(), *words], stdin=subprocess.DEVNULL, capture_output=True
    )
    if done.returncode:
        raise SetupError(os.fsdecode(done.stderr).strip().removeprefix("kpfs: "))


def _text(folder: str, name: str) -> str:
    try:
        return os.fsdecode(Path(folder, name).read_bytes())
    except FileNotFoundError:  # the command was killed together with its shell
        return ""


def read_kmsg(path: Path) -> str:
    """Return the log of a mounted kernel, from its file kmsg, as dmesg prints it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        return str(error)
    records: list[bytes] = []
    try:
        while len(records) < MAX_RECORDS:
            records.append(os.read(fd, 8192))
    except OSError:  # EAGAIN: that was the last one
        pass
    finally:
        os.close(fd)
    return as_dmesg(os.fsdecode(b"".join(records)))


def as_dmesg(kmsg: str) -> str:
    """Return the records of kmsg as dmesg prints them."""
    return "".join(
        f"[{int(us) // 10**6:5d}.{int(us) % 10**6:06d}] {text}\n"
        for us, text in _KMSG.findall(kmsg)
    )
