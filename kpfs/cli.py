# SPDX-License-Identifier: GPL-2.0-or-later
"""The command kpfs: its arguments and its exit status.

0: done; 2: it could not be, and one line on stderr says why; of ``run``: CMD's own.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from kpfs import config
from kpfs.daemon import Settings, check_fuse, serve, start
from kpfs.host import guard, mounts
from kpfs.host.mounts import SetupError, served_by

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

VERSION = "0.1.0"
EXIT_TROUBLE = 2
EXIT_INTERRUPTED = 130
OTHERS_PATIENCE = 1_000  # ms
ANSWER_PATIENCE = 2.0  # s
END_PATIENCE = 1_500  # ms; before the daemon's guard (kpfs.host.guard) loses its own
UMOUNT_PATIENCE = 3_000  # ms
MAX_CPUS = 16

DESCRIPTION = "The Linux kernel's kprobes knobs as files, over a live emulated kernel."
EPILOG = """\
start here:
  kpfs run -- sh            a shell that finds the files at the kernel's real paths
  mkdir m; kpfs mount m     the same files below m/, for example:
    echo 'p:e vfs_read' > m/tracing/kprobe_events
    echo 1 > m/tracing/events/kprobes/e/enable
    cat m/kprobes/list m/tracing/kprobe_profile m/tracing/trace
  kpfs umount m
"""
MOUNT_HELP = """\
Mount a new kernel's files at DIR, an empty directory, and return when they answer.
What a killed daemon left mounted at DIR is taken away first. 'kpfs umount DIR',
umount(8) and SIGTERM, SIGINT or SIGHUP to the daemon end it.

  DIR/kprobes/{list,enabled,blacklist}     /sys/kernel/debug/kprobes/
  DIR/sys/debug/kprobes-optimization       /proc/sys/debug/
  DIR/tracing/                             /sys/kernel/tracing/
  DIR/kallsyms, DIR/modules, DIR/kmsg      /proc/kallsyms, /proc/modules, /dev/kmsg
  DIR/machine/                             the emulated machine itself
"""
UMOUNT_HELP = "Unmount the files at DIR and return when their daemon has ended."
RUN_HELP = """\
Run CMD (without it: a shell) where a new kernel's files lie at the real paths, such as
/sys/kernel/tracing and /sys/kernel/debug/kprobes, and exit with its status (128 plus
the number of the signal that ended it). $KPFS is the directory of all files. This needs
no root: CMD sees itself as root of a user namespace. Nothing is left afterwards; to a
process that CMD leaves behind the files answer ENOTCONN.
"""
KERNEL_HELP = "make, list and remove real kernels that can be guests"
EXPLAIN_HELP = "say whether a probe is accepted and optimised, and why"


class Command(NamedTuple):
    """One row of the table of commands."""

    help: str
    description: str
    add_arguments: Callable[[ArgumentParser], None]
    main: Callable[[Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; argv is without the program's name."""
    try:
        arguments = parse(sys.argv[1:] if argv is None else argv)
        return COMMANDS[arguments.command].main(arguments)
    except SetupError as error:
        print(f"kpfs: {error}", file=sys.stderr)
        return EXIT_TROUBLE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return EXIT_TROUBLE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except OSError as error:
        print(f"kpfs: {_why_not(error)}", file=sys.stderr)
        return EXIT_TROUBLE


def _why_not(error: OSError) -> str:
    """Cause and remedy for a system call that nobody expected to fail."""
    frame = error.__traceback__
    while frame and frame.tb_next:
        frame = frame.tb_next
    where = frame.tb_frame.f_code.co_name if frame else "kpfs"
    words = f"{where}(): {error.filename or ''} {error.strerror}".replace("  ", " ")
    if error.errno in (errno.EPERM, errno.ENOSYS):
        words += "; a sandbox or a container's seccomp profile has to allow it"
    return words


# ---- arguments
def parse(argv: Sequence[str]) -> Namespace:
    """The arguments; SetupError where they are wrong."""
    import argparse

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise SetupError(f"{message} (see '{self.prog} --help')")

    options, command = split_command(argv)
    raw = argparse.RawDescriptionHelpFormatter
    parser = Parser("kpfs", description=DESCRIPTION, epilog=EPILOG, formatter_class=raw)
    parser.add_argument("--version", action="version", version=f"kpfs {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, row in COMMANDS.items():
        sub = commands.add_parser(
            name, help=row.help, description=row.description, formatter_class=raw
        )
        if name in options[:1]:
            row.add_arguments(sub)
    parser.set_defaults(argv=command)
    return parser.parse_args(options)


def split_command(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part ``run [OPTION...] [--] [CMD...]`` into kpfs' own words and CMD's."""
    words = list(argv)
    if words[:1] != ["run"]:
        return words, []
    i = 1
    while i < len(words) and words[i].startswith("-"):
        if words[i] == "--":
            return words[:i], words[i + 1 :]
        i += 2 if words[i] in ("--cpus", "--log", "--config", "--kernel") else 1
    return words[:i], words[i:]


def _guest_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--cpus", type=_cpus, default=2, metavar="N", help="1 to 16 CPUs (default 2)"
    )
    parser.add_argument(
        "--quiet-guest",
        action="store_true",
        help="no background tasks: the same operations give the same trace",
    )
    parser.add_argument(
        "--config",
        type=_option,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="configure the kernel; may be given several times",
    )
    parser.epilog = f"configurations, and their defaults:\n{config.help_text()}"
    parser.add_argument(
        "--kernel", default="", metavar="NAME", help="a real one: see 'kpfs kernel'"
    )
    parser.add_argument(
        "--exact",
        action="store_true",
        help="with --kernel: programs that change their own code run right, but slowly",
    )
    parser.add_argument(
        "--log", default="", metavar="FILE", help="default: ~/.cache/kpfs/kpfs.log"
    )
    parser.add_argument(
        "--verbose", action="store_true", help="log every refused operation too"
    )


def _cpus(text: str) -> int:
    import argparse

    if not (text.isdecimal() and 1 <= int(text) <= MAX_CPUS):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number from 1 to {MAX_CPUS}"
        )
    return int(text)


def _option(text: str) -> tuple[str, bool]:
    import argparse

    try:
        return config.parse_one(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _settings(arguments: Namespace) -> Settings:
    _check_kernel(arguments)
    log = _from_here(os.path.abspath, arguments.log) if arguments.log else ""
    return Settings(
        cpus=arguments.cpus,
        quiet_guest=arguments.quiet_guest,
        verbose=arguments.verbose,
        log=log,
        config=config.make(arguments.config),
        kernel=arguments.kernel,
        exact=arguments.exact,
    )


def _check_kernel(arguments: Namespace) -> None:
    """SetupError where there is no such kernel, or it cannot be configured so."""
    if not arguments.kernel:
        return
    from kpfs.linux import image, store
    from kpfs.linux.bzimage import KernelError

    if arguments.config:
        raise SetupError("--config is for our own kernel; --kernel names a real one")
    try:
        image.read_meta(store.folder(arguments.kernel))
    except KernelError as error:
        raise SetupError(str(error)) from None


def _from_here(resolve: Callable[[str], str], name: str) -> str:
    """The absolute path of a name; SetupError in a directory that was removed."""
    try:
        return resolve(name)
    except OSError as error:
        raise SetupError(f"{name}: {error.strerror}") from None


def _mount_arguments(parser: ArgumentParser) -> None:
    _guest_arguments(parser)
    parser.add_argument(
        "--foreground", action="store_true", help="stay until it is unmounted"
    )
    parser.add_argument("dir", metavar="DIR")


def _umount_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("dir", metavar="DIR")


def _run_arguments(parser: ArgumentParser) -> None:
    _guest_arguments(parser)
    parser.add_argument(
        "--no-mirror",
        action="store_true",
        help="do not make CMD's system calls in the guest too",
    )
    parser.add_argument(
        "--host-uname",
        action="store_true",
        help="tell CMD the host's release and version, not the guest's",
    )
    parser.usage = "kpfs run [OPTION...] [--] [CMD [ARG...]]"


def _explain_arguments(parser: ArgumentParser) -> None:
    from kpfs.explain import command

    command.add_arguments(parser)


# ---- mount
def mount(arguments: Namespace) -> int:
    """``kpfs mount``."""
    target = _from_here(os.path.realpath, arguments.dir)
    check_fuse()
    take_away_dead(target)
    _check_mount_point(target, arguments.dir)
    if arguments.foreground:
        guard.start(log=2)
        serve(_settings(arguments), target, lambda: None)
    else:
        start(_settings(arguments), target, die_with_parent=False).wait_ready()
    return 0


def take_away_dead(target: str) -> None:
    """Unmount what daemons that were killed have left at target."""
    while mounts.is_dead(target):
        if mounts.mount_at(target) is None:
            return
        _unmount(target, lazy=True)


def _check_mount_point(target: str, name: str) -> None:
    entry = mounts.mount_at(target)
    if entry is not None and served_by(entry.source):
        raise SetupError(f"{name}: mounted already (kpfs umount {name})")
    try:
        if os.listdir(target):
            raise SetupError(f"{name}: the directory is not empty")
    except OSError as error:
        raise SetupError(f"{name}: {error.strerror}") from None
    import shutil

    if os.geteuid() != 0 and not shutil.which("fusermount"):
        raise SetupError(
            "mounting needs fusermount (Debian: apt install fuse3); "
            "'kpfs run' does without"
        )


def _unmount(target: str, *, lazy: bool) -> None:
    """Unmount target; as an ordinary user through fusermount."""
    try:
        mounts.umount(target, mounts.MNT_DETACH if lazy else 0)
        return
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise SetupError(f"{target}: in use; leave it first") from None
        if error.errno == errno.EINVAL and mounts.mount_at(target) is None:
            return  # its daemon has ended meanwhile
        if error.errno != errno.EPERM:
            raise SetupError(f"{target}: {error.strerror}") from None
    import subprocess

    flags = "-uz" if lazy else "-u"
    try:
        done = subprocess.run(
            ["fusermount", flags, target], stderr=subprocess.PIPE, text=True
        )
    except FileNotFoundError:
        raise SetupError("fusermount is missing (Debian: apt install fuse3)") from None
    if done.returncode != 0:
        raise SetupError(done.stderr.strip() or f"{target}: cannot be unmounted")


def umount(arguments: Namespace) -> int:
    """``kpfs umount``."""
    target = _place(arguments.dir)
    entry = mounts.mount_at(target)
    pid = served_by(entry.source) if entry else 0
    if not entry or not pid:
        raise SetupError(f"{arguments.dir}: no mount of kpfs")
    daemon = None
    with contextlib.suppress(OSError):
        daemon = os.pidfd_open(pid)
    if daemon is None or _has_ended(daemon, 0):
        _unmount(target, lazy=True)
        return 0
    stuck = not _answers(target)
    if not stuck:
        _unmount(target, lazy=mounts.is_dead(target))
        # it goes on if a mount namespace made since then has the mount too
        stuck = not _has_ended(daemon, OTHERS_PATIENCE) and not _end(daemon)
    if stuck:
        mounts.abort(target)
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(daemon, signal.SIGKILL)
        if not _has_ended(daemon, UMOUNT_PATIENCE):
            raise SetupError(f"its daemon (pid {pid}) goes on, although it was killed")
        _take_away(target, entry)
        print(
            f"kpfs: {arguments.dir}: its daemon (pid {pid}) was stuck: killed",
            file=sys.stderr,
        )
    return 0


def _place(name: str) -> str:
    """The real path of a directory; unlike stat() it asks no daemon that serves it."""
    try:
        place = os.open(name, os.O_PATH | os.O_DIRECTORY)
    except OSError as error:
        raise SetupError(f"{name}: {error.strerror}") from None
    try:
        return os.readlink(f"/proc/self/fd/{place}")
    finally:
        os.close(place)


def _has_ended(daemon: int, patience: int) -> bool:
    """Whether the process of a pidfd ends within so many ms."""
    waiting = select.poll()
    waiting.register(daemon, select.POLLIN)
    return bool(waiting.poll(patience))


def _end(daemon: int) -> bool:
    """Tell the process of a pidfd to end; returns whether it does in time."""
    with contextlib.suppress(OSError):
        signal.pidfd_send_signal(daemon, signal.SIGTERM)
    return _has_ended(daemon, END_PATIENCE)


def _answers(target: str) -> bool:
    """Whether the daemon that serves target answers in time, if only by an error.

    A thread asks, as it waits for as long as the daemon does not answer.
    """
    import threading

    def ask() -> None:
        with contextlib.suppress(OSError), open(f"{target}/kprobes/enabled") as file:
            file.read()

    question = threading.Thread(target=ask, daemon=True)
    question.start()
    question.join(ANSWER_PATIENCE)
    return not question.is_alive()


def _take_away(target: str, entry: mounts.MountEntry) -> None:
    """Unmount what is still there of a mount whose daemon has ended."""
    if any(other.ident == entry.ident for other in mounts.table()):
        mounts.detach(target)


# ---- the others
def run(arguments: Namespace) -> int:
    """``kpfs run``."""
    from kpfs.run import run as run_command

    settings = _settings(arguments)._replace(
        mirror=not arguments.no_mirror, host_uname=arguments.host_uname
    )
    return run_command(settings, arguments.argv)


def explain(arguments: Namespace) -> int:
    """``kpfs explain``."""
    from kpfs.explain import command

    return int(command.main(arguments))


def kernel(arguments: Namespace) -> int:
    """``kpfs kernel``."""
    from kpfs import kernels

    return kernels.main(arguments)


def _kernel_arguments(parser: ArgumentParser) -> None:
    from kpfs import kernels

    kernels.add_arguments(parser)


COMMANDS = {
    "mount": Command("mount the files at DIR", MOUNT_HELP, _mount_arguments, mount),
    "umount": Command("unmount DIR", UMOUNT_HELP, _umount_arguments, umount),
    "run": Command(
        "run a command over files at the real paths", RUN_HELP, _run_arguments, run
    ),
    "kernel": Command(KERNEL_HELP, KERNEL_HELP, _kernel_arguments, kernel),
    "explain": Command(EXPLAIN_HELP, EXPLAIN_HELP, _explain_arguments, explain),
}
