# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs matrix``: runs one command inside several kernels."""

from __future__ import annotations

import difflib
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree

from kpfs.host.errors import SetupError
from kpfs.host.process import die_with_parent
from kpfs.inside.kernel_choice import KernelChoice
from kpfs.inside.start import run as run_inside
from kpfs.linux.errors import UnfitError
from kpfs.linux.store import image, store

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

FAILED = 1
DESCRIPTION = """\
Run CMD inside each of several kernels, as 'kpfs run --kernel NAME --inside' does, and
print a row for each: the kernel, CMD's status there, the seconds that it took, and the
last line that it wrote.  The status is 0 if it is 0 in all of them, else 1.
"""


class Row(NamedTuple):
    """The result in one kernel."""

    kernel: str
    release: str
    status: int
    seconds: float
    output: str

    @property
    def last_line(self) -> str:
        lines = [line for line in self.output.splitlines() if line.strip()]
        return lines[-1].strip() if lines else ""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--kernels", required=True, metavar="NAME,...", help="see 'kpfs kernel list'"
    )
    parser.add_argument(
        "--jobs",
        type=_jobs,
        default=os.cpu_count() or 1,
        metavar="N",
        help="how many at the same time (default: one for each processor)",
    )
    parser.add_argument(
        "--shard", type=_shard, metavar="I/N", help="only the I-th of N parts of them"
    )
    parser.add_argument(
        "--rw", action="append", default=[], metavar="DIR", help="as of 'kpfs run'"
    )
    parser.add_argument(
        "--memory", type=_jobs, default=0, metavar="MIB", help="as of 'kpfs run'"
    )
    parser.add_argument(
        "--exact", action="store_true", help="programs that change their own code"
    )
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    parser.add_argument("--junit", default="", metavar="FILE", help="a report for CI")
    parser.add_argument(
        "--diff",
        action="store_true",
        help="show where the output differs from that in the first kernel",
    )
    parser.usage = "kpfs matrix --kernels NAME,... [OPTION...] [--] CMD [ARG...]"


def _jobs(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ValueError
    return int(text)


def _shard(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise ValueError
    return int(found[1]), int(found[2])


_jobs.__name__, _shard.__name__ = "number", "part"  # as errors name them


def main(arguments: Namespace) -> int:
    """``kpfs matrix``. Raises SetupError."""
    if not arguments.argv:
        raise SetupError("which command? (see 'kpfs matrix --help')")
    names = list(dict.fromkeys(filter(None, arguments.kernels.split(","))))
    kernels = {name: _release(name) for name in names}
    if arguments.shard:
        part, parts = arguments.shard
        names = names[part - 1 :: parts]
    rows = Runs(arguments, kernels).run(names)
    if arguments.json:
        print(json.dumps([row._asdict() for row in rows], indent=1))
    else:
        _print_table(rows)
    if arguments.diff:
        _print_differences(rows)
    if arguments.junit:
        _write_junit(arguments.junit, arguments.argv, rows)
    return FAILED if any(row.status for row in rows) else 0


def _release(name: str) -> str:
    try:
        return image.read_meta(store.folder(name)).release
    except UnfitError as error:
        raise SetupError(str(error)) from None


class Run(NamedTuple):
    """A command that is running."""

    kernel: str
    begin: float
    output: IO[bytes]


class Runs:
    """Runs the command in some kernels at the same time."""

    def __init__(self, arguments: Namespace, releases: dict[str, str]) -> None:
        self._arguments = arguments
        self._releases = releases
        self._running: dict[int, Run] = {}

    def run(self, names: Sequence[str]) -> list[Row]:
        """Return the rows, in the order of the names."""
        waiting, rows = list(names), {}
        try:
            while waiting or self._running:
                while waiting and len(self._running) < self._arguments.jobs:
                    self._start(waiting.pop(0))
                row = self._wait()
                rows[row.kernel] = row
        finally:
            for pid in self._running:
                os.kill(pid, signal.SIGTERM)
        return [rows[name] for name in names]

    def _start(self, kernel: str) -> None:
        output = tempfile.TemporaryFile()
        begin = time.monotonic()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            die_with_parent(parent)
            _become(kernel, self._arguments, output)
        self._running[pid] = Run(kernel, begin, output)

    def _wait(self) -> Row:
        pid, status = os.wait()
        run = self._running.pop(pid)
        run.output.seek(0)
        with run.output:
            text = run.output.read().decode("utf-8", "replace")
        code = os.waitstatus_to_exitcode(status)
        return Row(
            kernel=run.kernel,
            release=self._releases[run.kernel],
            status=code if code >= 0 else 128 - code,
            seconds=round(time.monotonic() - run.begin, 2),
            output=text,
        )


def _become(kernel: str, arguments: Namespace, output: IO[bytes]) -> None:
    """Be the command in one kernel. Never returns."""
    status = 2
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        for fd, number in ((null, 0), (output.fileno(), 1), (output.fileno(), 2)):
            os.dup2(fd, number)
        choice = KernelChoice(kernel, quiet=False, exact=arguments.exact)
        status = run_inside(choice, arguments.argv, arguments.rw, arguments.memory)
    except SetupError as error:
        print(f"kpfs: {error}", file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(status)


# ---- reports
def _print_table(rows: Sequence[Row]) -> None:
    width = max((len(row.kernel) for row in rows), default=0)
    for row in rows:
        told = f"{row.kernel:{width}} {row.status:4} {row.seconds:7.2f} s"
        print(f"{told}  {row.last_line}".rstrip())


def _print_differences(rows: Sequence[Row]) -> None:
    if not rows:
        return
    first = rows[0]
    for row in rows[1:]:
        lines = difflib.unified_diff(
            first.output.splitlines(),
            row.output.splitlines(),
            first.kernel,
            row.kernel,
            lineterm="",
        )
        for line in lines:
            print(line)


def _write_junit(path: str, argv: Sequence[str], rows: Sequence[Row]) -> None:
    """Write a report in the format that CI systems read. Raises SetupError."""
    failed = sum(1 for row in rows if row.status)
    suite = ElementTree.Element(
        "testsuite",
        name=" ".join(argv),
        tests=str(len(rows)),
        failures=str(failed),
        time=f"{sum(row.seconds for row in rows):.2f}",
    )
    for row in rows:
        case = ElementTree.SubElement(
            suite, "testcase", name=row.kernel, time=f"{row.seconds:.2f}"
        )
        case.set("classname", row.release)
        if row.status:
            why = ElementTree.SubElement(
                case, "failure", message=f"status {row.status}"
            )
            why.text = _printable(row.last_line)
        ElementTree.SubElement(case, "system-out").text = _printable(row.output)
    try:
        ElementTree.ElementTree(suite).write(path, "utf-8", xml_declaration=True)
    except OSError as error:
        raise SetupError(f"{path}: {error.strerror}") from None


def _printable(text: str) -> str:
    """Replace what XML does not allow."""
    return re.sub(r"[^\t\n\r -\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]", "?", text)
