# SPDX-License-Identifier: GPL-2.0-or-later
"""``python -m kpfs``, and what scripts/kpfs starts with ``python -I -S``.

There KPFS_HOME names the virtual environment; its packages are put on the path by
hand, which saves the 25 ms that ``site`` takes.
"""

from __future__ import annotations

# alone at first: each import takes a millisecond, in which Ctrl-C is a traceback
import _signal  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_FIRST = 1  # pid of a container's first process


def let_signals_end_us() -> None:
    """Have signals end this process at once, until a command is ready for them.

    Python would raise KeyboardInterrupt, in the middle of an import, say. Linux keeps
    signals from a container's first process that has no handler.
    """
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    # scripts/kpfs has it blocked from before Python has its own handler
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGINT])
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)  # else no child has a status
    import os

    if os.getpid() == _FIRST:
        for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
            if _signal.getsignal(number) == _signal.SIG_DFL:
                _signal.signal(number, _end)


def write_bytecode_whole() -> None:
    """Have Python keep no half of a compiled module, which each later start would read.

    Python 3.11 does, where a disk is full or a file may not be so long.
    """
    import _frozen_importlib_external as importing

    importing._write_atomic = _write_whole  # type: ignore[attr-defined]


def _write_whole(path: str, data: bytes, mode: int = 0o666) -> None:
    """Replace a file by one with these data.  OSError: it is as it was."""
    import os

    new = f"{path}.{os.getpid()}"
    flags = os.O_EXCL | os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC
    fd = os.open(new, flags, mode & 0o666)
    try:
        if os.write(fd, data) < len(data):
            raise OSError(f"no room for {path}")
        os.replace(new, path)
    except OSError:
        os.unlink(new)
        raise
    finally:
        os.close(fd)


def _end(number: int, _frame: object) -> NoReturn:
    import os

    os._exit(128 + number)


def _find_packages() -> None:
    """Put the checkout and the packages of KPFS_HOME on the import path."""
    import os
    import sys

    home = os.environ.pop("KPFS_HOME", "")
    if not home:
        return
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    here = os.path.dirname(os.path.abspath(__file__))
    if not sys.flags.isolated:
        del sys.path[0]
    sys.path.insert(0, os.path.dirname(here))
    sys.path.append(f"{home}/lib/{version}/site-packages")


def script() -> NoReturn:
    """Run the command line of this process, and end it."""
    try:
        let_signals_end_us()
    except OSError:  # a sandbox denies it, which whoever needs it will tell
        pass
    write_bytecode_whole()
    _find_packages()
    from kpfs.base.loading import load

    load("kpfs.cli").script()
    raise AssertionError  # it does not return


if __name__ == "__main__":
    script()
