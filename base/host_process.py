# SPDX-License-Identifier: GPL-2.0-or-later
"""Facts of /proc about processes of the host, any of which may be gone.  Context: any.

Document: proc_pid_stat(5), proc_pid_status(5).
"""

from __future__ import annotations

import os

STATE, PARENT, UTIME, STIME = 0, 1, 11, 12  # words of stat_words()
RUNNABLE = b"R"  # state of a thread that has a CPU or wants one


def exists(pid: int) -> bool:
    """Return True if there is such a process, or was a thread of it."""
    return os.path.exists(f"/proc/{pid}")


def uid(pid: int) -> int:
    """Return the effective uid; 0 if the process is gone."""
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return 0


def comm(pid: int) -> str:
    """Return the name; "" if the process is gone."""
    return _read(f"/proc/{pid}/comm").rstrip(b"\n").decode("latin-1")


def stat_words(task: int | str) -> list[bytes]:
    """Return the words of stat behind the name; [] if it is gone.

    task: a pid, or PID/task/TID.  It is the cheapest file that tells the state.
    """
    return _read(f"/proc/{task}/stat").rpartition(b")")[2].split()


def status(pid: int) -> dict[bytes, bytes]:
    """Return the lines of status; {} if the process is gone."""
    lines = _read(f"/proc/{pid}/status").splitlines()
    return {key: value.strip() for key, _, value in (x.partition(b":") for x in lines)}


def is_traced(pid: int) -> bool:
    """Return True if a debugger, or strace, has the process."""
    return status(pid).get(b"TracerPid", b"0") != b"0"


def relatives(pid: int) -> tuple[int, int]:
    """Return the process of a thread, and that process's parent; 0, 0: it is gone.

    It is asked for at each fork: only two of some 60 lines are looked for.
    """
    text = _read(f"/proc/{pid}/status")
    if not text:
        return 0, 0
    _, _, text = text.partition(b"\nTgid:")
    leader, _, text = text.partition(b"\n")
    _, _, text = text.partition(b"\nPPid:")
    return int(leader), int(text.partition(b"\n")[0])


def _read(path: str) -> bytes:
    """Return the beginning of a file; b"" if it is gone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, 1 << 14)
    except OSError:
        return b""
    finally:
        os.close(fd)
