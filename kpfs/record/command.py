# SPDX-License-Identifier: GPL-2.0-or-later
"""The command ``kpfs trace``: record events while a command runs."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kpfs.api.records import without_task
from kpfs.arguments import add_command, several
from kpfs.backends import raw
from kpfs.base.errors import SetupError, told_to_user
from kpfs.record.writers import WRITERS, Recording, write_text

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

DEFAULT_EVENTS = ("syscalls:",)
MARK = "kpfs-trace-ended"  # the file that says that the command was run
FILES = (
    "saved_cmdlines",
    "printk_formats",
    "events/header_page",
    "events/header_event",
)
DEFINITION = re.compile(r"[pr][0-9]*(:|\s)")
# In a fresh kernel: define and switch on events, run CMD, and keep what was recorded.
# The records of this shell are left out later.
SCRIPT = """\
out=$1 definitions=$2 events=$3 files=$4
shift 4
t=$KPFS/tracing
refuse() {
	printf '%s\\n' "$1" >"$out/refused"
	cat "$t/error_log" >>"$out/refused"
	exit 2
}
try() {
	{ printf '%s\\n' "$1" >>"$t/$2"; } 2>/dev/null || refuse "$1"
}
while IFS= read -r line; do
	[ -z "$line" ] || try "$line" kprobe_events
done <<.
$definitions
.
cut -d ' ' -f 1 "$t/kprobe_events" >"$out/own"
while IFS=:/ read -r _ group event; do try "$group:$event" set_event; done <"$out/own"
set -f # "sched:*" names no files
for line in $events; do try "$line" set_event; done
set +f
(exec "$@")
status=$?
echo 0 >"$t/tracing_on"
echo $$ >"$out/pid"
cat "$t/trace" >"$out/trace"
cat "$t/set_event" >"$out/set_event"
for file in $files; do cat "$t/$file" >"$out/${file##*/}"; done
cat "$KPFS/kallsyms" >"$out/kallsyms"
for group in ftrace $(cut -d : -f 1 "$out/set_event" | sort -u); do
	mkdir "$out/format-$group"
	for event in "$t/events/$group"/*/format; do
		event=${event%/format}
		cat "$event/format" >"$out/format-$group/${event##*/}"
	done
done
for cpu in "$t"/per_cpu/cpu*; do
	raw=$out/raw-${cpu##*/cpu}
	dd if="$cpu/trace_pipe_raw" of="$raw" bs=4096 iflag=nonblock 2>/dev/null
done
: >"$out/kpfs-trace-ended"
exit $status
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kpfs trace``."""
    several(
        parser,
        "-e",
        "--event",
        metavar="EVENT",
        help="as in set_event (sched:sched_switch, syscalls:), or a definition as in "
        "kprobe_events ('p:e vfs_read'); several times, if wanted (default syscalls:)",
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


def main(run: Callable[[Sequence[str]], int], arguments: Namespace) -> int:
    """Trace a command and write what was recorded; return the command's exit status.

    The file is opened first, because the command may not be run in vain.  It keeps what
    it had until there is a recording.  run: runs a command as ``kpfs run`` does.
    Raises SetupError if an event is refused, or if the file cannot be written.
    """
    output = arguments.output
    if not arguments.argv:
        raise SetupError("trace: no command (see 'kpfs trace --help')")
    form = arguments.format or output.rpartition(".")[2]
    write = WRITERS.get(form, write_text)
    if not output:
        status, recording = record(run, arguments.event, arguments.argv)
        write(recording, sys.stdout.buffer)
        sys.stdout.flush()
        return status
    with contextlib.ExitStack() as opened:
        with told_to_user(output):
            file = opened.enter_context(open(output, "wb", opener=_not_truncated))
        status, recording = record(run, arguments.event, arguments.argv)
        with told_to_user(output), file:  # closing it writes the rest, too
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                file.truncate()
            write(recording, file)
    return status


def _not_truncated(path: str, flags: int) -> int:
    return os.open(path, flags & ~os.O_TRUNC, 0o666)


def record(
    run: Callable[[Sequence[str]], int], events: Sequence[str], argv: Sequence[str]
) -> tuple[int, Recording]:
    """Run a command with events on; return its exit status and what was recorded.

    Raises SetupError if an event is refused.
    """
    definitions = [e for e in events if DEFINITION.match(e)]
    others = [e for e in events if not DEFINITION.match(e)]
    if not events:
        others = list(DEFAULT_EVENTS)
    with tempfile.TemporaryDirectory(prefix="kpfs-trace-") as name:
        words = "\n".join(definitions), " ".join(others), " ".join(FILES)
        status = run(["sh", "-c", SCRIPT, "sh", name, *words, *argv])
        folder = Path(name)
        refused = folder / "refused"
        if refused.exists():
            event, _, why = refused.read_text(errors="replace").partition("\n")
            raise SetupError(f"trace: {event}: refused {_reason(why)}".rstrip())
        if not (folder / MARK).exists():
            raise SetupError("trace: nothing was recorded; see the log")
        return status, _collect(folder)


def _reason(error_log: str) -> str:
    found = re.findall(r"error: (.*)", error_log)
    return f"({found[-1]})" if found else ""


def _collect(folder: Path) -> Recording:
    """Return what the script has kept, without the records of its own shell."""
    pid = (folder / "pid").read_text().strip()
    recording = Recording()
    text = (folder / "trace").read_bytes().decode("utf-8", "surrogateescape")
    recording.text = without_task(text, pid)
    for path in (*map(Path, FILES), Path("kallsyms")):
        recording.files[path.name] = (folder / path.name).read_bytes()
    formats = {}
    for group in sorted(folder.glob("format-*")):
        name = group.name.removeprefix("format-")
        texts = [path.read_text() for path in sorted(group.iterdir())]
        recording.formats[name] = texts
        for one in texts:
            form = raw.parse_format(name, one)
            formats[form.number] = form
    cpus = {int(p.name.removeprefix("raw-")): p for p in folder.glob("raw-*")}
    recording.cpus = {cpu: cpus[cpu].read_bytes() for cpu in sorted(cpus)}
    found = [
        (ts, cpu, data)
        for cpu, pages in recording.cpus.items()
        for ts, data in raw.entries(pages)
    ]
    comms = raw.parse_cmdlines(os.fsdecode(recording.files["saved_cmdlines"]))
    made = raw.records(found, formats, comms)
    recording.records = [record for record in made if record.pid != int(pid)]
    return recording
