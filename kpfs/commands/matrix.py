# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs matrix``: runs one command inside several kernels."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree

from kpfs.base.aside import append_whole, check_room
from kpfs.base.errors import SetupError, told_to_user
from kpfs.base.signals import SIGNALLED, SignalledError, held, raised
from kpfs.commands import kernel as kernel_command
from kpfs.commands.arguments import (
    add_command,
    flag,
    jobs_argument,
    report_arguments,
    several,
    shard,
    timeout_argument,
)
from kpfs.commands.likeness import alike, differences
from kpfs.commands.reports import for_xml, write_report
from kpfs.config import KernelChoice
from kpfs.host import jobs
from kpfs.inside.client import request_of
from kpfs.inside.start import check_memory, real_root, run_request
from kpfs.linux.inside.request import CO_RE, PERHAPS
from kpfs.linux.running import chosen
from kpfs.linux.store import image

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

FAILED = 1
_ROOM = 300_000  # bytes that a report may take
_ERROR = re.compile(
    r"\b(error|fail\w*|unknown|invalid|cannot|could not|no such|not (found|exist))\b",
    re.I,
)
_LACKED = re.compile(r"failed to resolve CO-RE relocation <\w+> \[\d+\] (.*) \(")
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
    reasons: list[str]  # what the kernel says of a failure, the best one first
    lost: Sequence[str] = ()  # what the kernel has lost, each with its cause

    @property
    def last_line(self) -> str:
        return (self._lines() or [""])[-1]

    def why(self) -> list[str]:
        """Return why it failed, the best reason first.

        What the command itself has said of an error comes after the kernel's words:
        often its first such line tells the reason, and the last one of all does not.
        """
        if not self.status:
            return self.reasons  # an oops or a warning of the kernel
        found = [why for why in self.reasons if not why.startswith(PERHAPS)]
        if lacked := _LACKED.search(self.output):  # libbpf knows its name
            found = [
                f"{why}: {lacked[1]}" if why.endswith(CO_RE) else why for why in found
            ]
        if SIGNALLED < self.status <= SIGNALLED + signal.SIGRTMAX:
            with contextlib.suppress(ValueError):  # a number without a name
                found.append(f"{signal.Signals(self.status - SIGNALLED).name} ended it")
        said = next(filter(_ERROR.search, self._lines()), self.last_line)
        found += [f"it said: {said}"] * (said != self.last_line)
        return found + [why for why in self.reasons if why.startswith(PERHAPS)]

    def _lines(self) -> list[str]:
        """Return the lines of the output that are not empty."""
        return [line.strip() for line in self.output.splitlines() if line.strip()]


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--kernels", required=True, metavar="NAME,...", help="see 'kpfs kernel list'"
    )
    flag(parser, "--make", "make those that are not there first")
    kernel_command.cache_argument(parser)
    jobs_argument(parser)
    parser.add_argument(
        "--shard", type=shard, metavar="I/N", help="only the I-th of N parts of them"
    )
    several(parser, "--rw", metavar="DIR", help="as of 'kpfs run'")
    several(
        parser,
        "--root",
        metavar="NAME=DIR",
        help="in this kernel CMD has the files of DIR, as by 'kpfs run --root'",
    )
    parser.add_argument(
        "--memory",
        type=kernel_command.memory,
        default=0,
        metavar="MIB",
        help="as of 'kpfs run'",
    )
    timeout_argument(parser)
    flag(parser, "--exact", "does nothing any more, and will go")
    report_arguments(parser)
    parser.add_argument(
        "--summary",
        default="",
        metavar="FILE",
        help="append a table in Markdown, as for $GITHUB_STEP_SUMMARY",
    )
    flag(parser, "--explain-failures", "all that the kernels say of failures")
    flag(
        parser,
        "--diff",
        "show where the output differs from that in the first kernel, but for times, "
        "addresses and pids",
    )
    add_command(parser)
    parser.description = DESCRIPTION
    parser.usage = "kpfs matrix --kernels NAME,... [OPTION...] [--] CMD [ARG...]"


def _roots(words: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Return the folders of NAME=DIR by kernels. Raises SetupError.

    names: of the kernels, which may have a = of their own.
    """
    roots = {}
    for word in words:
        name = max((n for n in names if word.startswith(f"{n}=")), key=len, default="")
        if not name:
            raise SetupError(f"--root {word}: not NAME=DIR with one of --kernels")
        roots[name] = word[len(name) + 1 :]
    return roots


def main(arguments: Namespace) -> int:
    """``kpfs matrix``. Raises SetupError."""
    if not arguments.argv:
        raise SetupError("which command? (see 'kpfs matrix --help')")
    names = chosen.chosen(arguments.kernels)
    folders = _roots(arguments.root, names)
    if arguments.shard:
        part, parts = arguments.shard
        names = names[part - 1 :: parts]
        if not names:
            raise SetupError(f"--shard {part}/{parts}: no kernel is left for it")
    roots = {name: real_root(folders.get(name, "")) for name in names}
    _check_files(arguments)
    if arguments.make:
        kernel_command.make_missing(names, arguments.cache)
    releases = {name: image.read_meta(chosen.folder(name)).release for name in names}
    for name in names:
        check_memory(name, arguments.memory)
    rows, signalled = run_in(arguments, roots, releases)
    if arguments.json:
        rows_of_json = [{**row._asdict(), "reasons": row.why()} for row in rows]
        print(json.dumps(rows_of_json, indent=1))
    else:
        _print_table(rows, explained=arguments.explain_failures)
    if arguments.diff:
        _print_differences(rows)
    with contextlib.ExitStack() as reports:  # each, though another one fails
        if arguments.html and rows:  # else what an earlier call has written stays
            reports.callback(_write_page, arguments, rows, whole=signalled is None)
        if arguments.junit and rows:
            reports.callback(_write_junit, arguments.junit, arguments.argv, rows)
        if arguments.summary:
            reports.callback(_append_summary, arguments.summary, arguments.argv, rows)
    if signalled:
        sys.stdout.flush()
        missing = ", ".join(
            name for name in names if name not in {r.kernel for r in rows}
        )
        print(f"kpfs: {signalled}: there is no row for {missing}", file=sys.stderr)
        raise signalled
    return FAILED if any(row.status for row in rows) else 0


def _check_files(arguments: Namespace) -> None:
    """Raise SetupError, before anything runs in vain, for what cannot be used."""
    if arguments.cache and not arguments.make:
        raise SetupError("--cache is for --make")
    request_of(arguments.argv, arguments.rw)
    grown = arguments.summary if os.path.exists(arguments.summary) else ""
    for path in {arguments.junit, arguments.html, arguments.summary} - {grown, ""}:
        with told_to_user(path):
            check_room(path, _ROOM)
    if grown:
        with told_to_user(grown), open(grown, "a"):
            pass


def run_in(
    arguments: Namespace, roots: Mapping[str, str], releases: Mapping[str, str]
) -> tuple[list[Row], SignalledError | None]:
    """Run the command in some kernels, several at once; return the rows in order.

    roots: the folders with the command's files, by kernels. A signal that is to end
    this process ends the commands, and is returned, too.
    """
    names = list(roots)
    with held():  # the first use of tempfile tries a place with a file of some name
        outputs = {name: tempfile.TemporaryFile() for name in names}
        told = {name: tempfile.TemporaryFile() for name in names}
    rows: dict[str, Row] = {}
    signalled: SignalledError | None = None
    with contextlib.ExitStack() as stack:
        for file in (*outputs.values(), *told.values()):
            stack.enter_context(file)

        def become(name: str) -> int:
            return _become(
                KernelChoice(name, quiet=False, root=roots[name]),
                arguments,
                outputs[name],
                told[name],
            )

        try:
            with raised():
                # nothing is lost with them: they write to files of this process
                ran = jobs.run(names, arguments.jobs, become, signal.SIGKILL)
                for done in ran:
                    rows[done.name] = _row(
                        done, releases[done.name], outputs[done.name], told[done.name]
                    )
        except SignalledError as error:
            signalled = error
    return [rows[name] for name in names if name in rows], signalled


def _row(done: jobs.Done, release: str, output: IO[bytes], reasons: IO[bytes]) -> Row:
    """Return the row of a command that has ended."""
    output.seek(0)
    reasons.seek(0)
    said = json.loads(reasons.read() or "{}")
    return Row(
        kernel=done.name,
        release=release,
        status=done.status,
        seconds=round(done.seconds, 2),
        output=output.read().decode("utf-8", "replace"),
        reasons=said.get("reasons", []),
        lost=said.get("lost", []),
    )


def _become(
    choice: KernelChoice, arguments: Namespace, output: IO[bytes], told: IO[bytes]
) -> int:
    """Be the command in one kernel, and return its status.

    told: gets the reasons of a failure and what was lost, as JSON.
    """
    stderr = os.dup(2)
    null = os.open(os.devnull, os.O_RDONLY)
    for fd, into in ((null, 0), (output.fileno(), 1), (output.fileno(), 2)):
        os.dup2(fd, into)
    try:
        request = request_of(arguments.argv, arguments.rw, arguments.timeout)
        request = request._replace(explained=True)
        ended = run_request(choice, request, arguments.memory, tells=False)
        said = {"reasons": ended.reasons, "lost": ended.lost}
        told.write(json.dumps(said).encode())
        told.flush()
        return ended.status
    except SetupError as error:
        print(f"kpfs: {error}", file=sys.stderr)
        return 2
    except OSError as error:  # the disk is full, and what the row would tell with it
        os.write(stderr, f"kpfs: {choice.kernel}: {error.strerror}\n".encode())
        return 2
    finally:
        sys.stderr.flush()


# ---- reports
def _print_table(rows: Sequence[Row], *, explained: bool) -> None:
    width = max((len(row.kernel) for row in rows), default=0)
    for row in rows:
        told = f"{row.kernel:{width}} {row.status:4} {row.seconds:7.2f} s"
        print(f"{told}  {row.last_line}".rstrip())
        for reason in row.why()[: None if explained else 1]:
            if not row.last_line.endswith(reason):
                print(f"{'':{width}} because: {reason}")
        for line in row.lost:
            print(f"{'':{width}} lost: {line}")


def _print_differences(rows: Sequence[Row]) -> None:
    groups = alike({row.kernel: row.output for row in rows})
    for other in groups[1:]:
        for line in differences(groups[0], other):
            print(line)


def _append_summary(path: str, argv: Sequence[str], rows: Sequence[Row]) -> None:
    """Append a table in Markdown to a file. Raises SetupError."""
    lines = [f"### `{' '.join(argv)}`", "", "| kernel | status | s | told |"]
    lines.append("|---|---|---|---|")
    for row in rows:
        told = [row.last_line, *row.why()[:1], *(f"lost: {line}" for line in row.lost)]
        cell = "<br>".join(f"`{line}`" for line in told if line).replace("|", "\\|")
        status = f"**{row.status}**" if row.status else "0"
        lines.append(f"| {row.kernel} | {status} | {row.seconds:.2f} | {cell} |")
    with told_to_user(path), open(path, "ab") as file:
        append_whole(file.fileno(), ("\n".join(lines) + "\n\n").encode())


def _write_page(arguments: Namespace, rows: Sequence[Row], *, whole: bool) -> None:
    """Write the page for people.  Raises SetupError.  whole: no row is missing."""
    from kpfs.commands.matrix_page import matrix_page
    from kpfs.linux.running.features import Feature, features

    found, told = {}, "It was ended before it had run in all kernels."
    if whole:
        try:
            names = dict.fromkeys(chosen.kernel(row.kernel).image for row in rows)
            found, told = jobs.gathered([*names], features, "asking the kernels"), ""
        except SetupError as error:  # one was removed meanwhile: the rows are there
            told = f"What the kernels can do is not here: {error}."
    each = {name: [*map(Feature._make, table)] for name, table in found.items()}
    write_report(arguments.html, matrix_page(arguments.argv, rows, each, told))


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
            why.text = for_xml("\n".join([row.last_line, *row.why()]))
        ElementTree.SubElement(case, "system-out").text = for_xml(row.output)
        if row.lost:
            lost = "\n".join(f"lost: {line}" for line in row.lost)
            ElementTree.SubElement(case, "system-err").text = for_xml(lost)
    write_report(path, ElementTree.tostring(suite, "utf-8", xml_declaration=True))
