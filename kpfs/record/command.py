# SPDX-License-Identifier: GPL-2.0-or-later
"""The command ``kpfs trace``: record events while a command runs."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kpfs.backends import raw
from kpfs.base.aside import LaterFile
from kpfs.base.errors import SetupError, told_to_user
from kpfs.base.signals import SignalledError
from kpfs.base.units import PAGE_SIZE
from kpfs.commands.arguments import add_command, several
from kpfs.record.writers import WRITERS, Recording, write_text
from kpfs.session.records import without_task

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

DEFAULT_EVENTS = ("syscalls:",)
FILES = (
    "saved_cmdlines",
    "printk_formats",
    "events/header_page",
    "events/header_event",
)
AVAILABLE_EVENTS = "cat /sys/kernel/tracing/available_events"
# what definitions define, the file that takes them, and what follows the event's name
DEFINITIONS = {
    "p": ("probes", "kprobe_events", "FUNCTION[+OFFSET]"),
    "r": ("probes", "kprobe_events", "FUNCTION[+OFFSET]"),
    "e": ("event probes", "dynamic_events", "GROUP.EVENT"),
    "f": ("function probes", "dynamic_events", "FUNCTION[%return]"),
    "t": ("tracepoint probes", "dynamic_events", "TRACEPOINT"),
}
DEFINITION = re.compile(rf"[{''.join(DEFINITIONS)}][0-9]*(:|\s)")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kpfs trace``."""
    several(
        parser,
        "-e",
        "--event",
        metavar="EVENT",
        help="as in set_event (sched:sched_switch, syscalls:), or a definition as in "
        "dynamic_events ('p:e vfs_read'); several times, if wanted (default syscalls:)",
    )
    parser.add_argument(
        "-o", "--output", default="", metavar="FILE", help="default: standard output"
    )
    parser.add_argument(
        "--format",
        choices=sorted(WRITERS),
        default="",
        help="text; jsonl: a JSON object a record; json: for ui.perfetto.dev; dat: for "
        "trace-cmd (default: as the name of FILE ends, else text)",
    )
    add_command(parser)
    parser.usage = "kpfs trace [-e EVENT] [-o FILE] [OPTION...] [--] CMD [ARG...]"


def main(run: Callable[[Recorder], int], arguments: Namespace) -> int:
    """Trace a command and write what was recorded; return the command's exit status.

    The file is opened first, because the command may not be run in vain.  It keeps what
    it had until there is a recording.  run: runs the command as ``kpfs run`` does.
    Raises SetupError if an event is refused, or if the file cannot be written.
    """
    output = arguments.output
    if not arguments.argv:
        raise SetupError("trace: no command (see 'kpfs trace --help')")
    form = arguments.format or output.rpartition(".")[2]
    write = WRITERS.get(form, write_text)
    recorder = Recorder(arguments.event, _kernel_options(arguments))
    with contextlib.ExitStack() as opened:
        if output:
            with told_to_user(output):
                file = opened.enter_context(LaterFile(output))
        signalled = None
        try:
            status = run(recorder)
        except SignalledError as error:
            signalled = error
        if recorder.recording and output:
            written = io.BytesIO()
            write(recorder.recording, written)
            with told_to_user(output):
                file.write(written.getvalue())
        elif recorder.recording:
            write(recorder.recording, sys.stdout.buffer)
            sys.stdout.flush()
    if signalled:
        raise signalled
    return status


def _kernel_options(arguments: Namespace) -> list[str]:
    """Return the options that choose which events the kernel has."""
    options = ["--kernel", arguments.kernel] if arguments.kernel else []
    words = (f"--config={name}={'y' if on else 'n'}" for name, on in arguments.config)
    return [*options, *words]


class Recorder:
    """The events that a command sets off.  This process's own are left out."""

    def __init__(self, events: Sequence[str], options: Sequence[str] = ()) -> None:
        """events: definitions of probes, or events as in set_event.

        options: of ``kpfs run``, with which it has the same kernel.
        """
        self._options = options
        self._definitions = [e for e in events if DEFINITION.match(e)]
        others = [e for e in events if not DEFINITION.match(e)]
        self._others = others if events else DEFAULT_EVENTS
        self.recording: Recording | None = None  # when the command has ended

    def prepare(self, tree: str) -> None:
        pass

    def begin(self, tree: str) -> None:
        """Switch the events on; SetupError: one is refused."""
        tracing = Path(tree, "tracing")
        for definition in self._definitions:
            self._add(tracing, _file(definition), definition)
        for file in dict.fromkeys(map(_file, self._definitions)):
            for line in (tracing / file).read_text().splitlines():
                event = line.split()[0].partition(":")[2]
                self._add(tracing, "set_event", event.replace("/", ":"))
        for word in " ".join(self._others).split():
            self._add(tracing, "set_event", word)

    def _add(self, tracing: Path, file: str, line: str) -> None:
        """Append a line to a file of tracefs; SetupError."""
        try:
            fd = os.open(tracing / file, os.O_WRONLY | os.O_APPEND)
            try:
                os.write(fd, os.fsencode(f"{line}\n"))
            finally:
                os.close(fd)
        except OSError as error:
            if error.errno == errno.EFBIG:  # by Linux, as a file seems to be long
                why = f"{error.strerror}: see ulimit -f"
                raise SetupError(f"trace: {file}: {why}") from None
            why = self._reason(tracing, line)
            raise SetupError(f"trace: {line}: refused ({why})") from None

    def _reason(self, tracing: Path, event: str) -> str:
        """Return why an event was refused: as the kernel says, if it does."""
        told = (tracing / "error_log").read_text(errors="replace")
        if errors := re.findall(r"error: (.*)", told):
            return str(errors[-1])
        if not DEFINITION.match(event):
            words = ["kpfs run", *map(shlex.quote, self._options), "--"]
            return f"no such event; {' '.join(words)} {AVAILABLE_EVENTS}"
        kind = event[0]
        what, _, place = DEFINITIONS[kind]
        if f"{kind}[:[" not in (tracing / "README").read_text() and kind not in "pr":
            return f"this kernel has no {what}"
        return f"a definition is {kind}[:[GROUP/]EVENT] {place} [ARGUMENT...]"

    def end(self, tree: str) -> None:
        """Keep what was recorded; SetupError."""
        try:
            self.recording = _collect(Path(tree), os.getpid())
        except OSError as error:  # the kernel died with it
            why = f"{error.filename or 'its files'}: {error.strerror}"
            raise SetupError(f"trace: {why}; see the log") from None


def _file(definition: str) -> str:
    """Return the file of tracefs that takes a definition."""
    return DEFINITIONS[definition[0]][1]


def _collect(tree: Path, pid: int) -> Recording:
    """Return what the kernel has recorded, but of one process, and record no more."""
    tracing = tree / "tracing"
    (tracing / "tracing_on").write_text("0")
    recording = Recording()
    text = (tracing / "trace").read_bytes().decode("utf-8", "surrogateescape")
    recording.text = without_task(text, str(pid))
    for path in (*(tracing / name for name in FILES), tree / "kallsyms"):
        recording.files[path.name] = path.read_bytes()
    events = (tracing / "set_event").read_text().splitlines()
    formats = {}
    for group in ("ftrace", *sorted({event.partition(":")[0] for event in events})):
        paths = sorted((tracing / "events" / group).glob("*/format"))
        texts = [path.read_text() for path in paths]
        recording.formats[group] = texts
        for one in texts:
            form = raw.parse_format(group, one)
            formats[form.number] = form
    for path in (tracing / "per_cpu").iterdir():
        number = int(path.name.removeprefix("cpu"))
        recording.cpus[number] = _drained(path / "trace_pipe_raw")
    recording.cpus = dict(sorted(recording.cpus.items()))
    recording.model = raw.model_of(
        recording.files["header_page"].decode(), *recording.cpus.values()
    )
    found = [
        (ts, cpu, data)
        for cpu, pages in recording.cpus.items()
        for ts, data in raw.entries(pages, recording.model)
    ]
    comms = raw.parse_cmdlines(os.fsdecode(recording.files["saved_cmdlines"]))
    made = raw.records(found, formats, comms, recording.model)
    recording.records = [record for record in made if record.pid != pid]
    return recording


def _drained(path: Path) -> bytes:
    """Return the pages of a CPU's buffer, which are taken out of it."""
    pages = []
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with contextlib.suppress(BlockingIOError):
            while page := os.read(fd, PAGE_SIZE):
                pages.append(page)
    finally:
        os.close(fd)
    return b"".join(pages)
