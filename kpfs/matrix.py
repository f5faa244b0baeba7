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
from argparse import ArgumentTypeError
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree

from kpfs.arguments import add_command, flag, number, several
from kpfs.base.errors import SetupError, told_to_user
from kpfs.config import KernelChoice
from kpfs.host.process import die_with_parent, exit_status
from kpfs.inside.start import real_root
from kpfs.inside.start import run as run_inside
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
        type=number(1),
        default=os.cpu_count() or 1,
        metavar="N",
        help="how many at the same time (default: one for each processor)",
    )
    parser.add_argument(
        "--shard", type=_shard, metavar="I/N", help="only the I-th of N parts of them"
    )
    several(parser, "--rw", metavar="DIR", help="as of 'kpfs run'")
    several(
        parser,
        "--root",
        metavar="NAME=DIR",
        help="in this kernel CMD has the files of DIR, as by 'kpfs run --root'",
    )
    parser.add_argument(
        "--memory", type=number(1), default=0, metavar="MIB", help="as of 'kpfs run'"
    )
    flag(parser, "--exact", "programs that change their own code")
    flag(parser, "--json", "print rows as JSON")
    parser.add_argument("--junit", default="", metavar="FILE", help="a report for CI")
    flag(
        parser, "--diff", "show where the output differs from that in the first kernel"
    )
    add_command(parser)
    parser.description = DESCRIPTION
    parser.usage = "kpfs matrix --kernels NAME,... [OPTION...] [--] CMD [ARG...]"


def _shard(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise ArgumentTypeError(f"{text!r} is not I/N with I from 1 to N")
    return int(found[1]), int(found[2])


def _roots(words: Sequence[str]) -> dict[str, str]:
    """Return the folders of NAME=DIR by kernels. Raises SetupError."""
    roots = {}
    for word in words:
        name, equals, folder = word.partition("=")
        if not (name and equals and folder):
            raise SetupError(f"--root {word}: not NAME=DIR")
        roots[name] = folder
    return roots


def main(arguments: Namespace) -> int:
    """``kpfs matrix``. Raises SetupError."""
    if not arguments.argv:
        raise SetupError("which command? (see 'kpfs matrix --help')")
    names = list(dict.fromkeys(filter(None, arguments.kernels.split(","))))
    for name in _roots(arguments.root).keys() - set(names):
        raise SetupError(f"--root {name}: not one of --kernels")
    kernels = {name: image.read_meta(store.folder(name)).release for name in names}
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


class Run(NamedTuple):
    """A command that is running."""

    kernel: str
    begin: float
    output: IO[bytes]


class Runs:
    """The runs of the command in some kernels, several at once."""

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
        return Row(
            kernel=run.kernel,
            release=self._releases[run.kernel],
            status=exit_status(status),
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
        root = real_root(_roots(arguments.root).get(kernel, ""))
        choice = KernelChoice(kernel, quiet=False, exact=arguments.exact, root=root)
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
    for row in rows[1:]:
        lines = difflib.unified_diff(
            rows[0].output.splitlines(),
            row.output.splitlines(),
            rows[0].kernel,
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
    with told_to_user(path):
        ElementTree.ElementTree(suite).write(path, "utf-8", xml_declaration=True)


def _printable(text: str) -> str:
    """Replace what XML does not allow."""
    return re.sub(r"[^\t\n\r -\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]", "?", text)
