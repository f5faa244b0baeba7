# SPDX-License-Identifier: GPL-2.0-or-later
"""The process that has the emulated kernel and serves its files."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable
from functools import partial

from kpfs.base import places
from kpfs.base.errors import SetupError, told_to_user
from kpfs.base.log import Log
from kpfs.base.signals import ENDING
from kpfs.base.typed import TYPE_CHECKING
from kpfs.config import LIBFUSE, Settings
from kpfs.host import guard, hints, instead, mounts, process
from kpfs.host.mounts import source_name

if TYPE_CHECKING:
    import mmap
    from typing import Any

    from kpfs.backends.backend import Backend
    from kpfs.gdb.server import Server
    from kpfs.host.channel import Socket
    from kpfs.host.outlet import Outlet

LOG_LIMIT = 1 << 20  # bytes
STUCK = signal.SIGALRM  # ends a daemon whose kernel stands still: kpfs.host.stuck
# s until a thread that works gives way to one that wants to: Python's own 5 ms are what
# a short request would wait again and again while a long text is made
SWITCH_INTERVAL = 0.0005
LOG_FORMAT = "%(asctime)s kpfs[%(process)d] %(levelname)s %(name)s: %(message)s"


class Daemon:
    """A daemon started by start()."""

    def __init__(
        self,
        pid: int,
        ready: int,
        log: str,
        mountpoint: str,
        channel: Socket | None = None,
    ) -> None:
        self.pid = pid
        self.channel = channel  # to the supervisor of a command's system calls
        self.ready = ready  # read end of the pipe that it reports through
        self.mountpoint = mountpoint
        self.log = log
        self.reaped = False
        self.was_stuck = False  # and has ended for that: see kpfs.host.stuck
        self._killed_by = 0  # a signal
        self._reaping = threading.Lock()

    def wait_ready(self) -> None:
        """Return when the tree answers; SetupError says why it does not."""
        from kpfs.host.progress import waiting_for

        with os.fdopen(self.ready, "rb") as pipe, waiting_for("starting the kernel"):
            answer = os.fsdecode(pipe.read()).strip()
        if answer != "ready":
            self._reap()
            raise SetupError(answer or self.death())

    def death(self) -> str:
        """Tell of what it has died. Nobody writes a log of SIGKILL."""
        if self._killed_by == signal.SIGKILL:
            return "the daemon was killed (SIGKILL), as where a limit on memory is met"
        return f"the daemon died; see {self.log}"

    def has_died(self) -> bool:
        """Return True, once, if it ended of itself."""
        return not self.reaped and self._reap(os.WNOHANG)

    def _reap(self, flags: int = 0) -> bool:
        """Wait for its end, which another thread may do too; True: it has ended."""
        with self._reaping:
            if not self.reaped:
                ended, status = os.waitpid(self.pid, flags)
                self.reaped = ended != 0
                self._killed_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
                self.was_stuck = self._killed_by == STUCK
            return self.reaped

    def stop(self) -> None:
        """End it at once: it has nothing to save.

        Its threads ask its own mount (kpfs.mirror.write).  One that waits for an answer
        while the others die would wait for ever, so the mount is aborted first.
        """
        if not self.reaped:
            mounts.abort(self.mountpoint)
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, signal.SIGKILL)
            self._reap()


def default_log() -> str:
    """Return the path to which a daemon without a terminal logs."""
    return os.path.join(places.cache(), "kpfs.log")


def check_fuse() -> None:
    """Raise SetupError where FUSE cannot work at all."""
    try:
        os.close(os.open(mounts.FUSE_DEVICE, os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        raise SetupError(
            f"{mounts.FUSE_DEVICE} is missing",
            "load the module (modprobe fuse); a container needs --device /dev/fuse; "
            + instead.of_both(),
        ) from None
    except OSError as error:
        raise SetupError(
            f"{mounts.FUSE_DEVICE}: {error.strerror}",
            f"have root allow it (chmod 666 /dev/fuse); {instead.of_both()}",
        ) from None


def start(settings: Settings, mountpoint: str, *, die_with_parent: bool) -> Daemon:
    """Fork a daemon that serves the tree at mountpoint."""
    ready, report = os.pipe()
    ours = theirs = None
    if settings.mirror:
        from kpfs.host.channel import pair

        ours, theirs = pair()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(report)
        if theirs:
            theirs.close()
        log = settings.log or default_log()
        return Daemon(pid, ready, log, mountpoint, ours)
    status = 1
    try:
        os.close(ready)
        if die_with_parent:
            process.die_with_parent(parent)
            # The terminal's signals are for the command.  Not a session of our own:
            # Linux schedules sessions against each other (sched_autogroup), and the
            # command would wait for us the longer the more it asks us.
            os.setpgid(0, 0)
        else:
            os.setsid()
        channel = theirs.detach() if theirs else -1
        status = _daemon(settings, mountpoint, report, channel)
    finally:
        os._exit(status)


class _Report:
    """The one message to the waiting parent: how the start went."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        # the last line on stderr goes into the command's one line
        self.stderr, stderr = os.pipe()
        for end in (self.stderr, stderr):
            os.set_blocking(end, False)
        os.dup2(stderr, 2)
        os.close(stderr)

    def send(self, answer: str) -> None:
        """Send the answer; from now on stderr goes to the log, as stdout does."""
        os.dup2(1, 2)
        os.close(self.stderr)
        with contextlib.suppress(BrokenPipeError):  # the parent was killed
            os.write(self.fd, os.fsencode(answer))
        os.close(self.fd)
        self.fd = -1

    def fail(self, error: Exception) -> None:
        """Say why there is no tree, if nothing was said yet."""
        if self.fd < 0:
            return
        said = b""
        with contextlib.suppress(BlockingIOError):  # it is empty
            said = os.read(self.stderr, 1 << 16)
        text = os.fsdecode(said)
        lines = [line for line in text.splitlines() if line.strip()]
        known = isinstance(error, SetupError)
        why = lines[-1] if lines and not known else str(error)
        self.send(why or type(error).__name__)


def _daemon(settings: Settings, mountpoint: str, pipe: int, channel: int) -> int:
    """Run in the child; return its exit status."""
    os.chdir("/")
    try:
        _take_stdio(settings)
    except SetupError as error:
        os.write(pipe, os.fsencode(str(error)))
        return 2
    process.close_all_but({0, 1, 2, pipe, channel, settings.console, settings.hints})
    guard.start(log=1)
    report = _Report(pipe)
    try:
        os.writev(pipe, (b"",))  # so libfuse answers; a caller would wait for ever
    except OSError as error:
        report.fail(
            SetupError(f"writev(): {error.strerror}; a sandbox has to allow it")
        )
        return 2

    try:
        serve(
            settings, mountpoint, lambda: report.send("ready"), channel, short_log=True
        )
    except SetupError as error:
        report.fail(error)
        return 2
    except Exception as error:
        report.fail(error)
        Log("kpfs").exception("the daemon failed")
        return 1
    return 0


def _take_stdio(settings: Settings) -> None:
    """Take standard input from nowhere, and put output and errors into the log."""
    log = _open_log(settings)
    for number, fd in ((0, os.open(os.devnull, os.O_RDWR)), (1, log)):
        os.dup2(fd, number)
    os.dup2(1, 2)


def _open_log(settings: Settings) -> int:
    """Open the log for writing; only the default one has its directory made.

    Of a pipe that nobody reads, lines are lost: the kernel must not wait for it.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK
    if settings.log:
        with told_to_user(settings.log):
            return os.open(settings.log, flags, 0o600)
    path = default_log()
    folder = os.path.dirname(path)
    with contextlib.suppress(OSError):
        # with another user's HOME, root must not write where that user leads it
        if _is_led_by_us(folder):
            places.make(folder)
            fd = os.open(path, flags | os.O_NOFOLLOW, 0o600)
            st = os.fstat(fd)
            ours = st.st_uid == os.geteuid() and st.st_nlink == 1
            if ours and stat.S_ISREG(st.st_mode):
                return fd
            os.close(fd)
    return os.open(os.devnull, os.O_WRONLY)


def _is_led_by_us(path: str) -> bool:
    """Return True if only this user and root decide where a path leads."""
    trusted = {os.geteuid(), os.stat("/").st_uid}  # root may be another number here
    while path != os.path.dirname(path):
        if os.path.lexists(path):
            st = os.lstat(path)
            shared = st.st_mode & stat.S_IWOTH and not st.st_mode & stat.S_ISVTX
            if st.st_uid not in trusted or (shared and not stat.S_ISLNK(st.st_mode)):
                return False
        path = os.path.dirname(path)
    return True


def keep_log_short(limit: int = LOG_LIMIT) -> None:
    """Empty a log that is a file, and say so in it, when it becomes too long.

    Other daemons may write to it; all of them append.
    """
    import logging

    def make_room(record: logging.LogRecord) -> bool:
        length = os.fstat(1).st_size + len(record.getMessage())
        if length > limit:
            os.ftruncate(1, 0)
            os.write(1, b"kpfs: the log was %d bytes long and begins anew\n" % length)
        return True

    if stat.S_ISREG(os.fstat(1).st_mode):
        for handler in logging.getLogger().handlers:
            handler.addFilter(make_room)


def serve(
    settings: Settings,
    mountpoint: str,
    ready: Callable[[], None],
    channel: int = -1,
    *,
    short_log: bool = False,
) -> None:
    """Build the kernel and serve its tree in this process until it is unmounted.

    channel: a socket through which the listener for a command's system calls will come.
    short_log: see keep_log_short().
    """
    gc.disable()  # 10 ms of a start; nothing is freed before the tree answers
    sys.setswitchinterval(SWITCH_INTERVAL)
    process.rename("kpfs")
    if settings.kernel and settings.debugfs:  # all of /proc/sys is the kernel's
        process.keep_one_heap()
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)  # whatever the caller had ignored
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)  # or had kept waiting
    begins = threading.Lock()
    log = partial(_begin_log, begins, verbose=settings.verbose, short=short_log)
    Log.debugs = settings.verbose
    if settings.verbose:
        log()
    from kpfs.backends.backend import maker

    transport: Any
    if settings.transport == LIBFUSE:
        from kpfs.fs.fuse import libfuse as transport
    else:
        from kpfs.fs.fuse import server as transport

    source = source_name(os.getpid())
    backend = maker(settings)(settings, mountpoint, source)

    gdb = _start_gdb(backend, settings) if settings.gdb else None
    mirrored: dict[str, Any] = {}
    if settings.transport != LIBFUSE:  # which is for mounts without a command
        mirrored = {"writers": backend.writers, "apart": bool(settings.debugfs)}

    from kpfs.host import stuck

    log_path = settings.log or default_log()
    end_stuck = partial(stuck.end, mountpoint, settings.hints, log_path)

    def answering() -> None:
        if gdb is not None and channel < 0:
            gdb.open()
        Log.begin = log  # not before: what fails until then is told otherwise
        _start_answering(ready, backend.preload)
        stuck.LockWatch(backend.tree.lock, end_stuck).start()
        if channel >= 0:
            begin = partial(_let_gdb_in, gdb, settings.gdb_wait)
            place = channel, source, mountpoint
            debugger = (lambda: gdb.client_pid) if gdb is not None else lambda: 0
            _start_mirror(backend, *place, settings, begin, debugger)

    try:
        why = transport.mount(
            backend.tree,
            mountpoint,
            answering,
            fsname=source,
            allow_other=bool(settings.debugfs),  # processes of CMD change users
            **mirrored,
        )
        Log(__name__).info("%s: %s", mountpoint, why)
    finally:
        if gdb is not None:
            gdb.close()
        backend.stop()


class _LogStream:
    """Standard error, as a stream of logging that never waits.

    It is the command's at first, and the log's when the daemon is ready.
    """

    def __init__(self) -> None:
        self._outlet: Outlet | None = None
        self._file = (0, 0)  # what the outlet leads to

    def write(self, text: str) -> None:
        from kpfs.host.outlet import Outlet

        st = os.fstat(2)
        if self._outlet is None or self._file != (st.st_dev, st.st_ino):
            if self._outlet is not None:
                self._outlet.close()
            self._outlet, self._file = Outlet(2), (st.st_dev, st.st_ino)
        self._outlet.write(text.encode(errors="backslashreplace"))

    def flush(self) -> None:
        pass


def _begin_log(begins: threading.Lock, *, verbose: bool, short: bool) -> None:
    """Log to stderr, unless a log is open already; short: see keep_log_short().

    begins: of one daemon.  Context: any thread.
    """
    import logging

    with begins:
        if logging.getLogger().handlers:
            return
        logging.raiseExceptions = False  # not even if the log has no room
        logging.basicConfig(
            level=logging.DEBUG if verbose else logging.INFO,
            format=LOG_FORMAT,
            stream=_LogStream(),
        )
        if short:
            keep_log_short()


def _start_answering(ready: Callable[[], None], preload: Callable[[], None]) -> None:
    """Report that the mount is ready, then finish starting in the background."""
    gc.enable()
    process.settle_heap()
    ready()
    try:
        threading.Thread(target=preload, name="rest", daemon=True).start()
    except RuntimeError:  # some limit
        preload()


def _start_gdb(backend: Backend, settings: Settings) -> Server:
    """Serve gdb in a thread; SetupError: there can be no socket."""
    from kpfs.gdb.server import start

    return start(backend.debugged(), settings.gdb, settings.gdb_at)


def _let_gdb_in(gdb: Server | None, wait: bool, state: mmap.mmap) -> None:
    """Let gdb attach, before the first call of a command; perhaps wait for it.

    state: what the supervisor of the calls shares with its keeper.
    """
    if gdb is not None:
        from kpfs.mirror.keeper import suspend

        gdb.open(wait, partial(suspend, state))


def _start_mirror(
    backend: Backend,
    channel: int,
    source: str,
    mountpoint: str,
    settings: Settings,
    begin: Callable[[mmap.mmap], None],
    debugger: Callable[[], int],
) -> None:
    """Have a thread make a command's system calls in the kernel.

    begin, debugger: see kpfs.mirror.replayer.serve().
    """

    def mirror() -> None:
        from kpfs.mirror import replayer

        replayer.serve(
            *(backend.mirror, channel, source, mountpoint, backend.writers),
            host_uname=settings.host_uname,
            lazy=settings.lazy,
            begin=begin,
            debugger=debugger,
            tell=partial(hints.add, settings.hints, if_failed=True),
        )

    threading.Thread(target=mirror, name="mirror", daemon=True).start()
