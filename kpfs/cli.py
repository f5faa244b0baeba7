# SPDX-License-Identifier: GPL-2.0-or-later
"""The command kpfs: its arguments and its exit status.

The status is 0 if all was done, and 2 if it could not be; then one line on stderr says
why. That of ``run`` is CMD's.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum

from kpfs import config
from kpfs.base import limits
from kpfs.base.errors import EXIT_TROUBLE, SetupError, of_file, told_to_user
from kpfs.base.kinds import RUN_CHECKS
from kpfs.base.loading import load
from kpfs.base.shown import guard_streams
from kpfs.base.signals import SignalledError, end_by
from kpfs.base.typed import TYPE_CHECKING
from kpfs.base.units import MAX_CPUS
from kpfs.commands.arguments import (
    FREE_TEXT,
    Subcommand,
    add_command,
    flag,
    number,
    several,
    timeout_argument,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any, NoReturn

    from kpfs.commands.run import Watcher
    from kpfs.config import Settings
    from kpfs.web.command import WebPage

VERSION = "0.2.0"
RELEASED = "2026-11-22"
EXIT_INTERRUPTED = 130
OWN_CPUS = 2
# why output is not written; a standard output that was closed cannot be
_OF_OUTPUT = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBADF}

PITCH = "A Linux kernel for each command, to trace and to break, without root or KVM."


class RunMode(Enum):
    """The place of CMD: on this host or inside, and the kind of its kernel."""

    GUEST = 0
    BEHIND = 1  # before a Linux kernel, a program of this host
    INSIDE = 2  # a program of a Linux kernel


LINUX = {RunMode.BEHIND, RunMode.INSIDE}
BELONGS = (  # options, the places that have them, what is said in the others
    ("inside", LINUX, "wants a kernel: --kernel NAME (see 'kpfs kernel')"),
    ("make exact", LINUX, "is for a Linux kernel: --kernel NAME"),
    ("console", {RunMode.GUEST}, "is for the guest kernel: run dmesg -w beside CMD"),
    (
        "config background",
        {RunMode.GUEST},
        "is for the guest kernel; --kernel names a Linux kernel",
    ),
    ("rw root memory timeout check of seed", {RunMode.INSIDE}, "is for --inside"),
    (
        "no-mirror mirror host-uname",
        {RunMode.GUEST, RunMode.BEHIND},
        "is not for --inside: CMD is in that kernel",
    ),
)

EPILOG = """\
start here:
  kpfs run                  a shell that finds the files at the kernel's real paths
  kpfs run --kernel NAME    the same with an unmodified Linux kernel (see 'kpfs kernel')
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
MATRIX_HELP = "run a command inside several kernels"
SEARCH_HELP = "find races, deadlocks and faults on error paths in a command's modules"
KERNEL_HELP = "make, list and remove Linux kernels"
DOCTOR_HELP = "say what works on this host, and how to mend what does not"
DOCTOR_DESCRIPTION = """\
Try everything that kpfs needs of this host, and say of each whether it works ('ok'),
whether some of kpfs does without ('limited') or not ('broken'), and what mends it.
The status is 0 if 'kpfs run' works, else 1.
"""
TOP_HELP = "show probes, how often they are hit, and what a hit costs"
TOP_DESCRIPTION = """\
Show the probes of a kernel, and hits and misses a second: of the mount at DIR, or,
within 'kpfs run', of the kernel there, or of the only mount there is.  The cost is what
a hit of that kind takes on this machine, with an event without arguments or a handler
that does nothing; it is measured in a kernel of its own, and not told of Linux kernels.
The screen needs the package textual (pip install 'kpfs[top]'); --once and --json need
nothing.
Keys: d disassembles the function of a probe, e explains it, the space bar disarms all
probes or arms them again, s sorts by hits, q leaves; the mouse does the same.
"""
WEB_HELP = "show a kernel in the browser"
WEB_DESCRIPTION = """\
Serve a page that shows a kernel while it runs: its probes, the text that they patch,
one hit step by step, and the trace.  The kernel is that of the mount at DIR, or, within
'kpfs run', the one there, or of the only mount there is; for single hits it must have
been started with --gdb.  The address has a secret in it, and can be reached from this
host alone.  The page can do what whoever has the kernel's files can, and nothing else;
while none is open, the kernel pays nothing.  SIGINT and SIGTERM end it.  This needs the
packages starlette and uvicorn (pip install 'kpfs[web]').
"""
MCP_HELP = "offer kpfs to programs by the Model Context Protocol"
MCP_DESCRIPTION = """\
Speak the Model Context Protocol over standard input and output, as the command of a
server in the configuration of a program that uses it.  Its tools: kernel_list, explain,
features, run, matrix and trace, which do what the commands of these names do.  Programs
run inside Linux kernels, those of trace on the host.  A call ends with all that it has
started when its time is over or it is given up.  This needs the package mcp (pip
install 'kpfs[mcp]').

  {"mcpServers": {"kpfs": {"command": "kpfs", "args": ["mcp", "--inside"]}}}
"""
DUMP_HELP = "write a dump of a kernel, for gdb, drgn and crash"
DUMP_DESCRIPTION = """\
Write a dump of a kernel as it is at this moment to FILE, an ELF core: registers,
memory, and what a Linux kernel says of itself for dumps.  The kernel is that of the
mount at DIR, or, within 'kpfs run', the one there, or of the only mount there is; it
may be dead.  Pages of zeros take no room.  DIR/machine/vmcore is the same file.

  kpfs dump core; cp $KPFS/machine/vmlinux .; gdb vmlinux core
"""
COMPLETION_HELP = "print what makes a shell complete the words of kpfs"
COMPLETION_DESCRIPTION = """\
Print the completion for a shell; where kpfs was installed with its share/, the shell
has found it already.  Otherwise:

  bash: eval "$(kpfs completion bash)"
  zsh:  kpfs completion zsh > DIR/_kpfs, where DIR is in $fpath
  fish: kpfs completion fish | source
"""
GDB_HELP = "stop a kernel and look into it with gdb"
GDB_DESCRIPTION = """\
Start gdb, attached to the kernel of the mount at DIR, or of the daemon PID, or, within
'kpfs run', of the kernel there, or of the only kernel that was started with --gdb.  It
stands still until gdb lets it go on.  'monitor help' in gdb lists what kpfs adds.

  kpfs mount --gdb m; kpfs gdb m
  kpfs run --gdb-wait -- cat /sys/kernel/tracing/README      and beside it: kpfs gdb
  kpfs gdb m -- -ex 'break vfs_read' -ex continue
"""
TRACE_HELP = "run a command and show the events that it sets off"
TRACE_DESCRIPTION = """\
Run CMD as 'kpfs run' does, with events on, and show what was recorded when it has
ended: as the file trace has it, or for other tools.  The status is CMD's.

  kpfs trace -e 'p:opened do_sys_openat2 file=+0(%si):ustring' -- cat /etc/hostname
  kpfs trace -e sched: -o trace.json -- make      opens at ui.perfetto.dev
  kpfs trace -o trace.dat -- ls; trace-cmd report trace.dat
"""
EXPLAIN_HELP = "say whether a probe is accepted and optimised, and why"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, given without the program's name, and return the status."""
    try:
        try:
            arguments = parse(sys.argv[1:] if argv is None else argv)
            return COMMANDS[arguments.command].main(arguments)
        finally:
            if sys.stdout:
                _flush()
    except SetupError as error:
        print(f"kpfs: {error}", file=sys.stderr)
        return EXIT_TROUBLE
    except BrokenPipeError:  # nobody reads on: end as other programs do
        end_by(signal.SIGPIPE)
    except SignalledError as signalled:  # all is written and taken away
        end_by(signalled.number)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except MemoryError:
        print("kpfs: out of memory: see ulimit -v", file=sys.stderr)
        return EXIT_TROUBLE
    except OSError as error:
        print(f"kpfs: {_why_not(error)}", file=sys.stderr)
        return EXIT_TROUBLE
    except ModuleNotFoundError as error:
        if error.name not in sys.stdlib_module_names:
            raise
        part = error.name.lstrip("_")
        print(
            f"kpfs: this Python was built without {part}: use another", file=sys.stderr
        )
        return EXIT_TROUBLE


def script() -> NoReturn:
    """Run the command line of this process, and end it.

    All is closed and written by then. So what Python does at its end is left out: it
    takes apart every module and object, for 6 ms.
    """
    guard_streams()
    status = main()
    if sys.stderr:
        sys.stderr.flush()
    os._exit(status)


def _flush() -> None:
    """Write what was printed; what cannot be makes no noise when Python ends."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(error, BrokenPipeError):
            raise
        raise of_file(error, "standard output") from None


def _why_not(error: OSError) -> str:
    """Return cause and remedy for a system call that nobody expected to fail."""
    if error.filename:
        words = str(of_file(error, str(error.filename)))
    elif error.errno in _OF_OUTPUT:  # files that were named are told of elsewhere
        words = f"standard output: {error.strerror}"
    else:
        frame = error.__traceback__
        while frame and frame.tb_next:
            frame = frame.tb_next
        where = frame.tb_frame.f_code.co_name if frame else "kpfs"
        words = f"{where}(): {error.strerror}"
    if error.errno == errno.EAGAIN:
        words += "; no further process: see ulimit -u, or pids.max of the control group"
    if error.errno in (errno.EPERM, errno.ENOSYS):
        words += "; a sandbox or a container's seccomp profile has to allow it"
    return words


# ---- arguments
def parse(argv: Sequence[str]) -> Namespace:
    """Parse the arguments.  Raises SetupError where they are wrong."""
    if argv[:1] == ["help"]:  # as many commands have it
        argv = [*argv[1:], "--help"]
    elif list(argv) == ["version"]:
        argv = ["--version"]
    arguments = make_parser(argv[:1]).parse_args(argv)
    if not arguments.command:
        raise SetupError("which COMMAND? (see 'kpfs --help')")
    argv = getattr(arguments, "argv", [])
    if argv[:1] == ["--"]:
        del argv[0]
    if argv[:1] == [""]:
        raise SetupError(f"CMD is empty (see 'kpfs {arguments.command} --help')")
    return arguments


def make_parser(wanted: Iterable[str]) -> ArgumentParser:
    """Make the parser of some commands, or one that only names all of them.

    Describing what nobody asks for costs time at each start.
    """
    import argparse

    # Python has no translations of its words, and to look for some takes 1.5 ms
    argparse._ = str  # type: ignore[attr-defined]

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise SetupError(f"{message} (see '{self.prog} --help')")

        def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
            """Refuse what is unknown here, where it is known whose help has more."""
            found, unknown = super().parse_known_args(args, namespace)
            if unknown:
                self.error(f"unrecognized arguments: {' '.join(unknown)}")
            return found, unknown

        def _get_values(self, action: Any, given: Any) -> Any:
            """Refuse an empty word, which an unset variable of a script leaves."""
            whole = action.nargs in (argparse.REMAINDER, argparse.PARSER)
            if "" in given and not whole and action.metavar != FREE_TEXT:
                raise argparse.ArgumentError(action, "it is empty")
            return super()._get_values(action, given)

    class raw(argparse.RawDescriptionHelpFormatter):  # noqa: N801 (as it is called)
        """A formatter that is given its width, as finding that imports shutil."""

        def __init__(self, prog: str) -> None:
            super().__init__(prog, width=_columns() - 2)

    parser = Parser("kpfs", description=PITCH, epilog=EPILOG, formatter_class=raw)
    version = f"kpfs {VERSION}"
    parser.add_argument("-V", "--version", action="version", version=version)
    # not required: --foo alone would be told as a COMMAND that is missing
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    chosen = [name for name in wanted if name in COMMANDS]
    for name in chosen or COMMANDS:
        row = COMMANDS[name]
        sub = commands.add_parser(
            name, help=row.help, description=row.description, formatter_class=raw
        )
        if chosen:
            row.add_arguments(sub)
    return parser


def _columns() -> int:
    """Return the width of the terminal, as shutil.get_terminal_size() does."""
    try:
        columns = int(os.environ.get("COLUMNS", ""))
    except ValueError:
        columns = 0
    if columns <= 0:
        with contextlib.suppress(OSError):
            columns = os.get_terminal_size().columns
    return columns if columns > 0 else 80


def _guest_arguments(parser: ArgumentParser) -> None:
    cpus = number(1, MAX_CPUS)
    parser.add_argument(
        "--cpus", type=cpus, default=0, metavar="N", help="1 to 16 CPUs (default 2)"
    )
    flag(
        parser,
        "--quiet-guest",
        "time passes by what is done: the same operations give the same trace",
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
        "--kernel",
        default="",
        metavar="KERNEL",
        help="a Linux kernel: see 'kpfs kernel'",
    )
    flag(parser, "--make", "with --kernel: make it first, if it is not there")
    flag(
        parser,
        "--exact",
        "with --kernel: does nothing any more, and will go",
    )
    parser.add_argument(
        "--log", default="", metavar="FILE", help="default: ~/.cache/kpfs/kpfs.log"
    )
    flag(parser, "--verbose", "log every refused operation too")


def _background_argument(parser: ArgumentParser) -> None:
    """Add --background, for commands whose kernel is idle without it."""
    flag(
        parser,
        "--background",
        "programs work in the guest kernel, as in that of 'kpfs mount'",
    )


def _has_workload(arguments: Namespace) -> bool:
    """Return True if programs are to work in the background; SetupError."""
    if arguments.background and arguments.quiet_guest:
        raise SetupError("--background and --quiet-guest exclude each other")
    return bool(arguments.background)


def _gdb_arguments(parser: ArgumentParser) -> None:
    flag(parser, "--gdb", "let 'kpfs gdb' stop the kernel and look into it")
    parser.add_argument(
        "--gdb-at",
        default="",
        metavar="ADDRESS",
        help="likewise, with gdb's protocol at 127.0.0.1:PORT or another socket, too",
    )


def _gdb_settings(arguments: Namespace) -> dict[str, Any]:
    """Return the Settings that concern gdb; SetupError."""
    wait = getattr(arguments, "gdb_wait", False)
    web = getattr(arguments, "web", False)  # it shows single hits
    if not (arguments.gdb or arguments.gdb_at or wait or web):
        return {}
    from kpfs.base import places

    at = arguments.gdb_at
    if at:
        from kpfs.gdb.sockets import parse_address

        path, _ = parse_address(at)
        at = path or at  # the daemon may be in another directory
    with told_to_user():
        return {"gdb": places.runtime(), "gdb_at": at, "gdb_wait": wait}


def _option(text: str) -> tuple[str, bool]:
    import argparse

    try:
        return config.parse_one(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _settings(arguments: Namespace) -> Settings:
    from kpfs.config import Settings

    _check_options(arguments)
    limits.check(_check_kernel(arguments))
    with told_to_user(arguments.log):  # in a directory that was removed
        log = arguments.log and os.path.abspath(arguments.log)
    return Settings(
        cpus=arguments.cpus or OWN_CPUS,
        quiet_guest=arguments.quiet_guest,
        verbose=arguments.verbose,
        log=log,
        config=config.make(arguments.config),
        kernel=arguments.kernel,
    )


def _check_kernel(arguments: Namespace) -> int:
    """Return the bytes of memory of a Linux kernel, 0 for the guest kernel.

    Raises SetupError if there is no such kernel, or not with so many CPUs.
    """
    if not arguments.kernel:
        return 0
    from kpfs.base import abi
    from kpfs.linux.running import chosen
    from kpfs.linux.store import image

    name, wanted = arguments.kernel, arguments.cpus
    if arguments.make:
        _later("kpfs.commands.kernel.make_missing")([name])
    meta = image.read_meta(chosen.folder(name))
    cpus = len(meta.processors)
    if wanted > abi.MAX_CPUS:
        raise SetupError(f"--cpus {wanted}: a Linux kernel has 1 to {abi.MAX_CPUS}")
    if wanted not in (0, cpus):
        base, words = chosen.parts(name)
        words = [word for word in words if not word.startswith(f"{chosen.CPUS}=")]
        other = "+".join((base, *words, f"{chosen.CPUS}={wanted}"))
        raise SetupError(
            f"{name} was made with --cpus {cpus}; for {wanted} say "
            f"--kernel {other} --make"
        )
    return meta.memory


def _check_options(arguments: Namespace) -> None:
    """Raise SetupError for an option that is not for this kernel, or for this place."""
    place = RunMode.GUEST
    if arguments.kernel:
        place = (
            RunMode.INSIDE if getattr(arguments, "inside", False) else RunMode.BEHIND
        )
    for options, places, reason in BELONGS:
        if place not in places:
            for option in options.split():
                if getattr(arguments, option.replace("-", "_"), None):
                    raise SetupError(f"--{option} {reason}")


def _mount_arguments(parser: ArgumentParser) -> None:
    _guest_arguments(parser)
    _gdb_arguments(parser)
    flag(
        parser,
        "--coverage",
        "count in DIR/machine/coverage which functions and lines of modules run",
    )
    flag(parser, "--coverage-kernel", "likewise, with those of the kernel")
    flag(parser, "--foreground", "stay until it is unmounted")
    parser.add_argument(
        "--transport",
        choices=config.TRANSPORTS,
        default=config.DEVICE,
        help="answer /dev/fuse itself (default), or by libfuse, through fusepy",
    )
    parser.add_argument("dir", metavar="DIR")


def _coverage_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--coverage",
        default="",
        metavar="FILE",
        help="write which functions and lines of modules were reached, for genhtml",
    )
    flag(parser, "--coverage-kernel", "with --coverage: those of the kernel, too")


def _umount_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("dir", metavar="DIR")


def _run_arguments(parser: ArgumentParser) -> None:
    _guest_arguments(parser)
    _background_argument(parser)
    _gdb_arguments(parser)
    flag(parser, "--gdb-wait", "likewise; CMD's calls wait until gdb goes on")
    flag(parser, "--web", "serve a page that shows the kernel: see 'kpfs web'")
    flag(parser, "--open", "with --web: open the page in your browser")
    flag(parser, "--no-mirror", "do not make CMD's system calls in the kernel too")
    parser.add_argument(
        "--mirror",
        choices=("always", "watched"),
        default="",
        help="make them always, or while something is watched (default): a probe, an"
        " event, a tracer",
    )
    flag(
        parser,
        "--host-uname",
        "tell CMD the host's release and version, not the kernel's",
    )
    flag(
        parser,
        "--console",
        "show the kernel's messages on standard error, as its console would",
    )
    _coverage_arguments(parser)
    flag(
        parser,
        "--inside",
        "with --kernel: CMD is a program of that kernel, with this host's files",
    )
    several(
        parser,
        "--rw",
        metavar="DIR",
        help="with --inside: what CMD changes in DIR is changed on this host",
    )
    parser.add_argument(
        "--root",
        default="",
        metavar="DIR",
        help="with --inside: CMD has the files of DIR, and the current directory",
    )
    parser.add_argument(
        "--memory",
        type=_later("kpfs.commands.kernel.memory"),
        default=0,
        metavar="MIB",
        help="with --inside: refuse a kernel that was made with less",
    )
    parser.add_argument(
        "--check",
        type=_checks,
        default=(),
        metavar="KINDS",
        help="with --inside: report errors of modules, of these kinds, separated by"
        f" commas: {', '.join(RUN_CHECKS)}",
    )
    several(
        parser,
        "--of",
        metavar="NAME",
        help="with --check: look only at this module, BPF program or function of the "
        "kernel (may be given again)",
    )
    timeout_argument(parser, "with --inside: ")
    parser.add_argument(
        "--seed",
        default="",
        metavar="SEED",
        help="with --inside: make a run of 'kpfs search' again, by its name or file",
    )
    add_command(parser)
    parser.usage = "kpfs run [OPTION...] [--] [CMD [ARG...]]"


def _checks(text: str) -> tuple[str, ...]:
    """Parse the kinds of --check."""
    import argparse

    kinds = tuple(dict.fromkeys(text.split(",")))
    for kind in kinds:
        if kind not in RUN_CHECKS:
            known = ", ".join(RUN_CHECKS)
            raise argparse.ArgumentTypeError(f"no kind {kind!r}; there are {known}")
    return kinds


def _doctor_arguments(parser: ArgumentParser) -> None:
    flag(parser, "--json", "for machines")


def _top_arguments(parser: ArgumentParser) -> None:
    flag(parser, "--once", "print a table, and end")
    flag(parser, "--json", "print the table as JSON, and end")
    parser.add_argument(
        "--interval",
        type=number(0.05, 3600, float),
        default=1.0,
        metavar="SECONDS",
        help="between two looks (default 1)",
    )
    parser.add_argument("dir", metavar="DIR", nargs="?", default="")


def _gdb_command_arguments(parser: ArgumentParser) -> None:
    import argparse

    # the first word may be DIR: behind -- argparse would take one of gdb's for it
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="DIR")
    parser.usage = "kpfs gdb [DIR | PID] [-- GDB-ARG...]"


def _dump_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("dir", metavar="DIR", nargs="?", default="")


def _completion_arguments(parser: ArgumentParser) -> None:
    import argparse

    parser.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"))
    parser.add_argument(
        "words",
        metavar="WORD",
        nargs=argparse.REMAINDER,
        help="of a command line: print what the shell may offer for the last of them",
    )


def _trace_arguments(parser: ArgumentParser) -> None:
    from kpfs.record import command

    _guest_arguments(parser)
    _background_argument(parser)
    command.add_arguments(parser)
    _coverage_arguments(parser)


def _explain_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "points",
        metavar="SYMBOL[+OFFSET]",
        nargs="+",
        help="a probe point; or 0xADDR, or with --kernel MODULE:SYMBOL[+OFFSET]",
    )
    flag(
        parser,
        "--all",
        "list the function, with the fate of a probe at each instruction",
    )
    parser.add_argument(
        "--kernel", metavar="NAME", help="judge a Linux kernel: see 'kpfs kernel'"
    )
    parser.add_argument(
        "--kernels",
        metavar="NAME,...",
        help="compare Linux kernels: a row for each point, a column for each kernel",
    )
    flag(parser, "--json", "with --kernels: all that is known of each point")
    several(
        parser,
        "--insmod",
        metavar="FILE",
        help="with --kernel: load a module first; or the name of one of its package",
    )
    parser.add_argument(
        "--image",
        metavar="DIR",
        help="judge a Linux kernel that was dumped into DIR, not the guest kernel: "
        "its functions.tsv, symbols.tsv.gz, blacklist.txt, ...",
    )


# ---- the commands
def mount(arguments: Namespace) -> int:
    """``kpfs mount``."""
    from kpfs.commands import mounting

    with told_to_user(arguments.dir):  # in a directory that was removed
        target = os.path.realpath(arguments.dir)
    settings = _settings(arguments)._replace(
        lazy=not arguments.coverage_kernel,
        transport=arguments.transport,
        coverage=_coverage(arguments),
        **_gdb_settings(arguments),
    )
    return mounting.mount(
        settings, arguments.dir, target, foreground=arguments.foreground
    )


def umount(arguments: Namespace) -> int:
    """``kpfs umount``."""
    from kpfs.commands import mounting

    return mounting.umount(arguments.dir)


def run(arguments: Namespace) -> int:
    """``kpfs run``."""
    if arguments.inside:
        return run_inside(arguments)
    from kpfs.commands.run import run as run_command

    settings = _settings(arguments)._replace(
        workload=_has_workload(arguments),
        mirror=not arguments.no_mirror,
        lazy=arguments.mirror != "always" and not arguments.coverage_kernel,
        host_uname=arguments.host_uname,
        console=os.dup(2) if arguments.console else -1,
        coverage=_coverage(arguments),
        **_gdb_settings(arguments),
    )
    if status := _cannot_start(arguments.argv):
        return status
    with _coverage_watchers(arguments) as watchers:
        if page := _web_page(arguments):
            watchers.append(page)
        return run_command(settings, arguments.argv, watchers)


def _cannot_start(argv: Sequence[str]) -> int:
    """Return 0, or the status of a command that cannot be run, and say why."""
    from kpfs.commands.run import cannot_start

    status, why = cannot_start(argv[0]) if argv else (0, "")
    if why:
        print(f"kpfs: {why}", file=sys.stderr)
    return status


def _web_page(arguments: Namespace) -> WebPage | None:
    """Return the page of --web, which listens; SetupError."""
    if not arguments.web:
        if arguments.open:
            raise SetupError("--open is for --web")
        return None
    from kpfs.web.command import WebPage

    return WebPage(opens=arguments.open)


def _coverage(arguments: Namespace) -> str:
    """Return what is to be covered, as in Settings; SetupError."""
    if not arguments.coverage:
        if arguments.coverage_kernel:
            raise SetupError("--coverage-kernel is for --coverage")
        return ""
    return config.OF_KERNEL if arguments.coverage_kernel else config.OF_MODULES


@contextlib.contextmanager
def _coverage_file(path: str) -> Iterator[Callable[[bytes], None]]:
    """Open the file that --coverage names, because the command may not be run in vain.

    Return what writes it.  SetupError.
    """
    from kpfs.base.aside import LaterFile

    with contextlib.ExitStack() as opened:
        with told_to_user(path):
            file = opened.enter_context(LaterFile(path))

        def write(data: bytes) -> None:
            with told_to_user(path):
                file.write(data)

        yield write


@contextlib.contextmanager
def _coverage_watchers(arguments: Namespace) -> Iterator[list[Watcher]]:
    """Return what writes the file that --coverage names, if it does; SetupError."""
    from kpfs.commands.run import CoverageFile

    if not arguments.coverage:
        yield []
        return
    with _coverage_file(arguments.coverage) as write:
        yield [CoverageFile(write)]


def completion(arguments: Namespace) -> int:
    """``kpfs completion``."""
    from kpfs.manual.completion import answer, script
    from kpfs.manual.description import describe

    shell, words = arguments.shell, arguments.words
    if words:
        top = describe(make_parser(words[1:2]))
        print(*answer(shell, top, words), sep="\n")
    else:
        print(script(shell), end="")
    return 0


def run_inside(arguments: Namespace) -> int:
    """``kpfs run --kernel NAME --inside``."""
    _check_options(arguments)
    if arguments.cpus or arguments.make:
        _check_kernel(arguments)
    from kpfs.config import CheckChoice, CoverageChoice, GdbChoice, KernelChoice
    from kpfs.inside.start import real_root
    from kpfs.inside.start import run as run_command

    choice = KernelChoice(
        arguments.kernel,
        arguments.quiet_guest,
        real_root(arguments.root),
    )
    served = tuple(_gdb_settings(arguments).values())
    gdb = GdbChoice(*served) if served else None
    seed = None
    if arguments.seed:
        from kpfs.linux.search.seed import find

        seed = find(arguments.seed)
    words = arguments.argv, arguments.rw, arguments.memory
    kinds, names = arguments.check, arguments.of
    if names and not kinds:
        raise SetupError("--of is for --check")
    checks = CheckChoice(kinds, names) if kinds else None
    more = arguments.timeout, checks, seed
    page = _web_page(arguments)
    with contextlib.ExitStack() as opened:
        coverage = None
        if of := _coverage(arguments):
            write = opened.enter_context(_coverage_file(arguments.coverage))
            coverage = CoverageChoice(of, write)
        return run_command(choice, *words, gdb, coverage, *more, watcher=page)


def trace(arguments: Namespace) -> int:
    """``kpfs trace``."""
    from kpfs.commands.run import run as run_command
    from kpfs.record import command

    settings = _settings(arguments)._replace(
        workload=_has_workload(arguments),
        mirror=True,
        coverage=_coverage(arguments),
    )
    if status := _cannot_start(arguments.argv):
        return status
    missed: list[str] = []

    def run(watcher: Watcher) -> int:
        with _coverage_watchers(arguments) as files:
            watchers = [watcher, *files]
            return run_command(settings, arguments.argv, watchers, missed.append)

    status = command.main(run, arguments)
    for hint in missed:  # one of a refused event stands in its error
        print(f"kpfs: {hint}", file=sys.stderr)
    return status


def _later(name: str) -> Callable[..., Any]:
    """Return a function of another module, which is imported when it is called."""
    module, _, function = name.rpartition(".")
    return lambda argument: getattr(load(module), function)(argument)


COMMANDS = {
    "mount": Subcommand("mount the files at DIR", MOUNT_HELP, _mount_arguments, mount),
    "umount": Subcommand("unmount DIR", UMOUNT_HELP, _umount_arguments, umount),
    "run": Subcommand(
        "run a command over files at the real paths", RUN_HELP, _run_arguments, run
    ),
    "trace": Subcommand(TRACE_HELP, TRACE_DESCRIPTION, _trace_arguments, trace),
    "matrix": Subcommand(
        MATRIX_HELP,
        MATRIX_HELP,
        _later("kpfs.commands.matrix.add_arguments"),
        _later("kpfs.commands.matrix.main"),
    ),
    "search": Subcommand(
        SEARCH_HELP,
        SEARCH_HELP,
        _later("kpfs.commands.search.add_arguments"),
        _later("kpfs.commands.search.main"),
    ),
    "kernel": Subcommand(
        KERNEL_HELP,
        KERNEL_HELP,
        _later("kpfs.commands.kernel.add_arguments"),
        _later("kpfs.commands.kernel.main"),
    ),
    "explain": Subcommand(
        EXPLAIN_HELP,
        EXPLAIN_HELP,
        _explain_arguments,
        _later("kpfs.explain.command.main"),
    ),
    "doctor": Subcommand(
        DOCTOR_HELP,
        DOCTOR_DESCRIPTION,
        _doctor_arguments,
        _later("kpfs.commands.doctor.main"),
    ),
    "gdb": Subcommand(
        GDB_HELP,
        GDB_DESCRIPTION,
        _gdb_command_arguments,
        _later("kpfs.gdb.command.main"),
    ),
    "top": Subcommand(
        TOP_HELP, TOP_DESCRIPTION, _top_arguments, _later("kpfs.top.command.main")
    ),
    "web": Subcommand(
        WEB_HELP,
        WEB_DESCRIPTION,
        _later("kpfs.web.command.add_arguments"),
        _later("kpfs.web.command.main"),
    ),
    "dump": Subcommand(
        DUMP_HELP, DUMP_DESCRIPTION, _dump_arguments, _later("kpfs.dump.command.main")
    ),
    "mcp": Subcommand(
        MCP_HELP,
        MCP_DESCRIPTION,
        _later("kpfs.commands.mcp.add_arguments"),
        _later("kpfs.commands.mcp.main"),
    ),
    "completion": Subcommand(
        COMPLETION_HELP, COMPLETION_DESCRIPTION, _completion_arguments, completion
    ),
}
