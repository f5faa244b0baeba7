# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel in a process of its own: it may die, hang or leak, and only that is lost."""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import select
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.harness import WrongError
from tests.modbox import Box

LINUX_TASKS = "kpfs.linux.running.tasks"  # says of what a Linux kernel has died


class Answer(NamedTuple):
    """The result of a call in a child."""

    value: Any  # what the function returned, if it did
    wrong: str  # what went wrong, "" if nothing did


def in_child(function: Callable[[], Any], seconds: float) -> Answer:
    """Call function in a process of its own, which is killed if it takes too long.

    What it returns must be fit for JSON.  A log at WARNING or above is wrong too.
    """
    readable, writable = os.pipe()
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if not child:
            try:
                os.close(readable)
                os.dup2(said.fileno(), 2)
                os.write(writable, json.dumps(_call(function)).encode())
            finally:
                os._exit(0)
        os.close(writable)
        raw, late = _read(readable, time.monotonic() + seconds)
        if late:
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        said.seek(0)
        words = said.read().decode(errors="replace")[:5000]
    if late:
        return Answer(None, f"no end within {seconds:g} s\n{words}")
    if not raw:
        return Answer(None, f"the process has died, wait status {status:#x}\n{words}")
    return Answer(*json.loads(raw))


def _call(function: Callable[[], Any]) -> Answer:
    faulthandler.enable(file=2)
    grave = Grave()
    try:
        return Answer(function(), "\n".join(grave.lines))
    except WrongError as error:
        return Answer(None, "\n".join((str(error), *grave.lines)))
    except BaseException:
        return Answer(None, "\n".join((traceback.format_exc(), *grave.lines)))


class Grave(logging.Handler):
    """Keeps what is logged, but for the one line about a guest that has died."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []
        logging.getLogger().addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        text = logging.Formatter("%(levelname)s %(name)s: %(message)s").format(record)
        said = record.getMessage()
        dies = "kernel panic: " in said or (
            record.name == LINUX_TASKS and said.startswith("the guest is dead: ")
        )
        if not dies or record.exc_info:
            self.lines.append(text)


def _read(fd: int, until: float) -> tuple[bytes, bool]:
    """Read until the other end is closed; return the bytes, and if it took too long."""
    raw = b""
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    with os.fdopen(fd, "rb", buffering=0) as pipe:
        while (left := until - time.monotonic()) > 0:
            if waiting.poll(left * 1000):
                piece = pipe.read(1 << 16)
                if not piece:
                    return raw, False
                raw += piece
    return raw, True


def resident() -> int:
    """Return the bytes of memory that this process has touched."""
    words = Path("/proc/self/statm").read_text().split()
    return int(words[1]) * os.sysconf("SC_PAGESIZE")


def tail(box: Box, lines: int = 30) -> str:
    """Return the last lines of the guest's log."""
    records = box.kernel.guest.log.records()[-lines:]
    return "\n".join(record.text.decode("latin-1") for record in records)


def where() -> str:
    """Return the innermost calls of the exception that is being handled."""
    return traceback.format_exc()[-1500:].partition("\n")[2]
