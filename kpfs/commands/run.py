# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs run``: a command finds the tree at the kernel's real paths.

The tree lies in a user namespace and a mount namespace, which vanish with the last
process in them. Root gets a user namespace, too: no real tracefs or module can get in
the way there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Callable, Sequence

from kpfs.base import programs
from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import SetupError, told_to_user
from kpfs.base.programs import NOT_EXECUTABLE, NOT_FOUND
from kpfs.base.signals import held, raised
from kpfs.base.typed import TYPE_CHECKING, Protocol
from kpfs.commands.daemon import Daemon, check_fuse, start
from kpfs.config import Config, Settings
from kpfs.guest.images import RELEASE
from kpfs.host import hints, mounts
from kpfs.host.ending import ended_by_signals
from kpfs.host.namespaces import enter_namespaces, lock_mounts
from kpfs.host.process import die_with_parent, exit_status
from kpfs.host.progress import waiting_for
from kpfs.host.terminal import STOPPING, Job

if TYPE_CHECKING:
    from typing import NoReturn

    from kpfs.mirror.keeper import Filter

DEBUGFS = "/sys/kernel/debug"
TREE = f"{DEBUGFS}/kpfs"  # the whole tree; KPFS in the environment of the command
# environment of the command; perf takes the last two before it looks itself
PLACES = {"KPFS": TREE, "DEBUGFS_PATH": DEBUGFS, "TRACEFS_PATH": "/sys/kernel/tracing"}
SYSLOG = "/var/log/messages"  # with LEGACY_SYMBOLS
CONFIG_GZ = "/proc/config.gz"
MODULES = "/lib/modules"  # make builds modules in RELEASE/build
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OWN_BUILD = f"{HERE}/kbuild"
BINDS = (
    ("tracing", "/sys/kernel/tracing"),
    ("tracing", f"{DEBUGFS}/tracing"),
    ("kprobes", f"{DEBUGFS}/kprobes"),
    ("sys/debug", "/proc/sys/debug"),
    ("sys/kernel/ftrace_enabled", "/proc/sys/kernel/ftrace_enabled"),
    ("sys/kernel/kptr_restrict", "/proc/sys/kernel/kptr_restrict"),
    ("sys/kernel/printk", "/proc/sys/kernel/printk"),
    ("kallsyms", "/proc/kallsyms"),
    ("version", "/proc/version"),
    ("cmdline", "/proc/cmdline"),
    ("config.gz", CONFIG_GZ),
    ("module", "/sys/module"),
    ("modules", "/proc/modules"),
    ("kmsg", "/dev/kmsg"),
    ("messages", SYSLOG),
    ("machine/mounts", "/proc/mounts"),
)
LINUX_BINDS = (
    ("tracing", "/sys/kernel/tracing"),
    ("tracing", f"{DEBUGFS}/tracing"),
    ("kprobes", f"{DEBUGFS}/kprobes"),
    ("sys", "/proc/sys"),
    ("sysfs/module", "/sys/module"),
    ("sysfs/devices/system/cpu", "/sys/devices/system/cpu"),
    *(
        (f"proc/{name}", f"/proc/{name}")
        for name in (
            *("kallsyms", "modules", "version", "cmdline", "interrupts"),
            "sysrq-trigger",
        )
    ),
    ("kmsg", "/dev/kmsg"),
    ("machine/mounts", "/proc/mounts"),
)
# of the host; the list of what containers have read-only, and what old drivers have
SWITCHES = (
    "/sys",
    *(
        f"/proc/{name}"
        for name in (
            *("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", "mtrr"),
            "dynamic_debug",
        )
    ),
)
# directories that the host's kernel may lack
DIRECTORIES = ("/proc/sys/debug", "/sys/module", "/sys/kernel/tracing", DEBUGFS)
# signals to pass on; those of the terminal reach the command by themselves
FORWARDED = (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    *STOPPING,
)
# files that tell the names that uname(2) returns
UNAME_BINDS = (
    ("sys/kernel/osrelease", "/proc/sys/kernel/osrelease"),
    ("sys/kernel/version", "/proc/sys/kernel/version"),
)
SI_KERNEL = 0x80
GRACE = 5.0  # s for watchers to finish after a signal
SHELLS = frozenset({"sh", "ash", "bash", "csh", "dash", "fish", "ksh", "tcsh", "zsh"})
GREETING = (
    "Linux {release}: its files are in /sys/kernel/tracing, /sys/kernel/debug/kprobes "
    "and $KPFS; 'exit' leaves"
)


class Watcher(Protocol):
    """Something that follows a command by the files of its kernel."""

    def prepare(self, tree: str) -> None:
        """Do what need not wait for the kernel, whose files are not there yet."""

    def begin(self, tree: str) -> None:
        """Do what comes before the command; SetupError: it is not to run."""

    def end(self, tree: str) -> None:
        """Do what comes when the command has ended; SetupError."""


class CoverageFile:
    """The file to which what was reached is written."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        """write: writes the whole file.  SetupError."""
        self._write = write

    def prepare(self, tree: str) -> None:
        pass

    begin = prepare

    def end(self, tree: str) -> None:
        with open(f"{tree}/machine/coverage", "rb") as file:
            text = file.read()
        self._write(text)


def _say(text: str) -> None:
    print(f"kpfs: {text}", file=sys.stderr, flush=True)


def check_proc() -> None:
    """Raise SetupError if /proc does not show this process and those that it starts.

    That of another PID namespace has other processes by their numbers.
    """
    try:
        shown = os.readlink("/proc/self")
    except OSError:
        shown = ""
    if shown != str(os.getpid()):
        why = "shows another PID namespace" if shown else "is not there"
        raise SetupError(f"/proc {why}: mount -t proc proc /proc")


def run(
    settings: Settings,
    command: Sequence[str],
    watchers: Sequence[Watcher] = (),
    hint: Callable[[str], None] = _say,
) -> int:
    """Run a command, or a shell, over a new tree. Return its status.

    hint: is told, once the command has ended, what it has missed in the kernel.
    A signal that would end us ends the command, and watchers do their work. Then
    SignalledError is raised if another has come meanwhile.
    """
    check_proc()
    check_fuse()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with raised():
        settings, release = _prepare(settings)
    with held() as mask:
        daemon = start(settings, TREE, die_with_parent=True)
        calls = _filter(daemon, settings)  # while the daemon starts
        try:
            with ended_by_signals(daemon.stop):
                for watcher in watchers:
                    watcher.prepare(TREE)
                daemon.wait_ready()
                _bind(settings)
                for watcher in watchers:
                    watcher.begin(TREE)
            os.environ["KPFS_KERNEL"] = release
            command = command or [programs.shell()]
            if is_interactive(command):
                _say(GREETING.format(release=release))
            status = supervise(command, daemon, calls, lock_mounts, mask)
            for missed in hints.read(settings.hints, failed=status != 0):
                hint(missed)
            for line in _lost():
                hint(f"lost: {line}")
            with ended_by_signals(daemon.stop, GRACE), contextlib.ExitStack() as all_of:
                for watcher in reversed(watchers):  # each, though another one fails
                    all_of.callback(watcher.end, TREE)
            return status
        finally:
            daemon.stop()
            if settings.gdb:
                from kpfs.gdb.sockets import forget_dead

                forget_dead(settings.gdb, settings.gdb_at)


def _lost() -> list[str]:
    """Return what the kernel has lost, each with its cause."""
    from kpfs.base.losses import NOT_COUNTED

    with contextlib.suppress(OSError), open(f"{TREE}/machine/lost") as file:
        rows = file.read().splitlines()
        return [row for row in rows if not row.startswith(NOT_COUNTED)]
    return []


def _prepare(settings: Settings) -> tuple[Settings, str]:
    """Enter namespaces and make the places of files; return settings and release."""
    privileged = os.geteuid() == 0
    enter_namespaces()
    prepare_mount_points(privileged)
    if settings.kernel:
        release = provide_modules(settings.kernel)
    else:
        release = RELEASE
        if settings.config != Config():  # else the headers have it
            os.environ["KPFS_CONFIG"] = f"{TREE}/config.gz"  # for build-module
        vmlinux = f"{TREE}/machine/vmlinux" if settings.config.on("DEBUG_INFO") else ""
        provide_builds((release, os.uname().release), vmlinux=vmlinux)
    if settings.config.on("LEGACY_SYMBOLS"):
        with told_to_user():
            mounts.provide_in_root(SYSLOG, mounts.make_file)
        os.environ.setdefault("KPFS_API", "2.6")  # for build-module
    return settings._replace(debugfs=DEBUGFS, hints=hints.new()), release


def _bind(settings: Settings) -> None:
    """Show the tree where the kernel has its files."""
    if settings.kernel:
        bind_linux(settings.host_uname)
        bind_debugfs()
    else:
        bind_tree(BINDS if settings.host_uname else BINDS + UNAME_BINDS)


def is_interactive(command: Sequence[str]) -> bool:
    """Return True for an interactive shell."""
    name = os.path.basename(command[0])
    return len(command) == 1 and name in SHELLS and sys.stdin.isatty()


def prepare_mount_points(privileged: bool) -> None:
    """Mount an empty debugfs with room for the tree, and make directories to cover."""
    try:
        if privileged:
            # the real root could still write the host's switches
            for path in SWITCHES:
                if os.path.exists(path):
                    mounts.make_read_only(path)
        for path in DIRECTORIES:
            mounts.provide_directory(path)
        flags = nr.MS_NOSUID | nr.MS_NODEV | nr.MS_NOEXEC
        mounts.mount("debugfs", DEBUGFS, "tmpfs", flags, "mode=700")
        for name in ("kpfs", "kprobes", "tracing"):
            os.mkdir(f"{DEBUGFS}/{name}", 0o700)
    except OSError as error:
        raise SetupError(
            f"{error.filename}: {error.strerror}: /proc and /sys must be mounted"
        ) from None


def provide_builds(
    releases: Sequence[str], folder: str = OWN_BUILD, vmlinux: str = ""
) -> None:
    """Make an empty /lib/modules, with a link `build` for make.

    The first release has a directory, in which `build` leads to a folder; the others
    are links to it. A vmlinux with debug information is in `build` too, for perf.
    """
    flags = nr.MS_NOSUID | nr.MS_NODEV
    first, *others = dict.fromkeys(releases)
    with told_to_user():
        if os.path.isdir(folder):  # it is of the host
            mounts.make_read_only(folder)
        mounts.provide_in_root(MODULES, os.mkdir)
        if os.path.isdir(MODULES):  # a chroot may have no /lib
            mounts.mount("tmpfs", MODULES, "tmpfs", flags, "mode=755")
            os.mkdir(f"{MODULES}/{first}")
            build = f"{MODULES}/{first}/build"
            if vmlinux:
                os.mkdir(build)
                for name in os.listdir(folder):
                    os.symlink(f"{folder}/{name}", f"{build}/{name}")
                os.symlink(vmlinux, f"{build}/vmlinux")
            else:
                os.symlink(folder, build)
            for release in others:
                os.symlink(first, f"{MODULES}/{release}")


def provide_modules(name: str) -> str:
    """Show a Linux kernel's modules where kmod looks for them; return its release.

    The directory itself is new, so that modules and tables can be added.
    """
    from kpfs.linux.running import chosen
    from kpfs.linux.store import image, kmod

    with told_to_user():
        folder = chosen.folder(name)
        release = image.read_meta(folder).release
        provide_config(folder, image.config_place(folder, release))
        headers = os.path.realpath(f"{MODULES}/{release}/build")
        if not os.path.isdir(headers):
            headers = f"/usr/src/linux-headers-{release}"
        provide_builds((release, os.uname().release), headers)
        if not os.path.isdir(f"{MODULES}/{release}"):
            return release
        with waiting_for("unpacking the kernel's modules"):
            place = kmod.install(folder, release)
        mounts.make_read_only(place)  # it is of all runs
        for entry in os.scandir(place):
            target = f"{MODULES}/{release}/{entry.name}"
            if entry.is_dir():  # depmod does not follow links to directories
                os.mkdir(target)
                mounts.bind(entry.path, target)
            else:
                os.symlink(entry.path, target)
        return release


def provide_config(folder: str, place: str) -> None:
    """Show a Linux kernel's configuration at its place in /boot, unless that is "".

    A host that has /proc/config.gz cannot be without it, and programs look there first.
    So it is then the same text.
    """
    from kpfs.linux.store import image

    if place:
        mounts.provide_in_root(place, mounts.make_file)
        if os.path.isfile(place):  # a chroot may have no /boot
            mounts.bind(os.path.join(folder, image.CONFIG), place)
            mounts.make_read_only(place)
    if os.path.isfile(CONFIG_GZ):
        import gzip

        packed = f"{DEBUGFS}/config.gz"
        with open(packed, "wb") as file:
            file.write(gzip.compress(image.read_config(folder).encode(), 1))
        os.chmod(packed, 0o444)
        mounts.bind(packed, CONFIG_GZ)
        os.unlink(packed)


def bind_linux(host_uname: bool) -> None:
    """Show the parts of a Linux kernel's tree where it has them.

    The host's name stays; with host_uname, so do the files that tell uname(2)'s names.
    """
    names = ["/proc/sys/kernel/hostname"]
    names += [name for _, name in UNAME_BINDS] if host_uname else []
    kept = [(os.open(name, os.O_PATH), name) for name in names]
    bind_tree(LINUX_BINDS)
    for fd, name in kept:
        mounts.bind(f"/proc/self/fd/{fd}", name)
        os.close(fd)


def bind_debugfs() -> None:
    """Show everything else that a Linux kernel has in debugfs."""
    for name in os.listdir(f"{TREE}/debug"):
        source, target = f"{TREE}/debug/{name}", f"{DEBUGFS}/{name}"
        if os.path.lexists(target):
            continue
        if os.path.isdir(source):
            os.mkdir(target, 0o700)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
        mounts.bind(source, target)


def bind_tree(parts: Sequence[tuple[str, str]] = BINDS) -> None:
    """Show the parts of the tree where the kernel has them."""
    binds = [(f"{TREE}/{name}", target) for name, target in parts]
    empty = [mounts.NOTES]
    if not os.path.exists(f"{TREE}/modules"):
        empty.append("/proc/modules")  # it cannot be taken away
    for source, target in [*binds, *((os.devnull, target) for target in empty)]:
        # without a source, the configuration has no such file; without a target
        # kpfs.mirror.host_overrides gives the file
        with told_to_user(target), contextlib.suppress(FileNotFoundError):
            _provide(source, target)
            mounts.bind(source, target)


def _provide(source: str, target: str) -> None:
    """Make a file to cover where this host has none, as containers have no /dev/kmsg.

    Whoever wrote to it would make it on the host. Nothing can cover /proc itself, which
    shows all processes; it lets nobody make a file.
    """
    if not os.path.lexists(target) and os.path.isfile(source):
        if os.path.dirname(target) != "/proc":
            mounts.provide_in_root(target, mounts.make_file)


def _filter(daemon: Daemon, settings: Settings) -> Filter | None:
    """Return the filter that reports the command's calls, if that is wanted."""
    if daemon.channel is None:
        return None
    from kpfs.base import syscall_numbers as nr
    from kpfs.mirror import host_overrides
    from kpfs.mirror.calls import ANSWERED, NOTED, reported
    from kpfs.mirror.keeper import Filter
    from kpfs.mirror.splice import SPLICES

    # a Linux kernel answers more of them
    answered = ANSWERED if settings.kernel else (nr.SYSLOG,)
    made, meanings = reported(linux=bool(settings.kernel), lazy=settings.lazy)
    calls = {*made, *NOTED, *SPLICES, *host_overrides.reported(), *answered}
    place = daemon.channel, daemon.pid, daemon.mountpoint
    return Filter(*place, calls, settings.hints, meanings)


def supervise(
    command: Sequence[str],
    daemon: Daemon,
    calls: Filter | None = None,
    prepare: Callable[[], None] = lambda: None,
    found: set[int | signal.Signals] | None = None,
) -> int:
    """Run a command, pass signals on to it, and return its status.

    The status is as a shell gives it. prepare is called in the process that becomes the
    command. found: the mask of signals that it gets, if not the present one.
    """
    watched = {*FORWARDED, signal.SIGCHLD, signal.SIGCONT}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    job = Job()
    runner = os.getpid()
    pid = os.fork()
    if pid == 0:
        _exec(command, runner, mask if found is None else found, calls, prepare)
    try:
        if calls:
            calls.hand_over()
        return _await(pid, watched, daemon, job)
    except OSError:  # the command would run without its supervisor
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    finally:
        job.ended(pid)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _await(pid: int, watched: set[signal.Signals], daemon: Daemon, job: Job) -> int:
    while True:
        info = signal.sigwaitinfo(watched)
        if info.si_signo == signal.SIGCONT:
            job.resume(pid)
        elif info.si_signo != signal.SIGCHLD:
            hung_up = info.si_signo == signal.SIGHUP and not job.hangs_up_with_us(pid)
            if info.si_code != SI_KERNEL or hung_up:
                os.kill(pid, info.si_signo)
        else:
            changed, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
            if changed and os.WIFSTOPPED(status):
                job.stopped(pid, os.WSTOPSIG(status))
            elif changed:
                return exit_status(status)
            if daemon.has_died():
                if daemon.was_stuck:  # a hint says of what; CMD would wait, too
                    os.kill(pid, signal.SIGKILL)
                else:
                    _say(daemon.death())


def _exec(
    command: Sequence[str],
    runner: int,
    mask: set[int | signal.Signals],
    calls: Filter | None,
    prepare: Callable[[], None],
) -> None:
    """Become the command, with the signals as we found them."""
    status = NOT_FOUND
    environment = {**os.environ, **PLACES, **_module_tools()}
    try:
        prepare()
        die_with_parent(runner)  # other namespaces would undo it
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
            signal.signal(number, signal.SIG_DFL)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if calls:
            calls.install()
        _execute(command, environment)
    except OSError as error:
        if error.errno != errno.ENOENT:
            status = NOT_EXECUTABLE
        _say(_why_not(command[0], error, environment["PATH"]))
    finally:
        os._exit(status)


def _execute(command: Sequence[str], environment: dict[str, str]) -> NoReturn:
    """Become the command, as execvpe(3) does: a text without #! is a shell script."""
    try:
        os.execvpe(command[0], list(command), environment)
    except OSError as error:
        path = _path_of(command[0], environment["PATH"])
        if error.errno != errno.ENOEXEC or _needs(path):
            raise
        os.execve("/bin/sh", ["sh", path, *command[1:]], environment)


def _why_not(command: str, error: OSError, search_path: str) -> str:
    """Return what to tell of a command that cannot be run."""
    why = ""
    if error.errno in (errno.ENOENT, errno.ENOEXEC):
        why = _needs(_path_of(command, search_path))
    return why or f"{command}: {error.strerror}"


def cannot_start(command: str) -> tuple[int, str]:
    """Return the status and the reason if a command cannot be run, else (0, "")."""
    path = _path_of(command, _module_tools()["PATH"])
    error = 0
    if not os.path.lexists(path):
        error = errno.ENOENT
    elif os.path.isdir(path) or not os.access(path, os.X_OK):
        error = errno.EACCES if os.path.exists(path) else errno.ENOENT
    why = f"{command}: {os.strerror(error)}" if error else _needs(path)
    if not why:
        return 0, ""
    return NOT_EXECUTABLE if error == errno.EACCES else NOT_FOUND, why


def _path_of(command: str, search_path: str) -> str:
    import shutil

    return shutil.which(command, path=search_path) or command


def _needs(path: str) -> str:
    from kpfs.linux.inside.programs import why_not_here

    return why_not_here(path)


def _module_tools() -> dict[str, str]:
    """Return the environment in which insmod and its kin are found.

    For the guest kernel they are those of kpfs/bin; for a Linux kernel they are kmod's,
    and those of kpfs/bin say that kmod is missing.
    """
    ours, path = os.path.join(HERE, "bin"), programs.search_path()
    is_guest = os.environ.get("KPFS_KERNEL", RELEASE) == RELEASE
    path = f"{ours}:{path}" if is_guest else f"{path}:{ours}"
    return {"PATH": path, "KPFS_PYTHON": sys.executable}
