# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs search``: finds what is wrong with the modules that a command uses."""

from __future__ import annotations

import json
import re
import shlex
import sys
from argparse import ArgumentTypeError
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from kpfs.base.aside import check_room
from kpfs.base.errors import SetupError, told_to_user
from kpfs.base.kinds import FAULT, KINDS
from kpfs.base.signals import SignalledError, raised
from kpfs.commands import kernel as kernel_command
from kpfs.commands.arguments import (
    add_command,
    flag,
    jobs_argument,
    number,
    report_arguments,
    several,
    shard,
)
from kpfs.commands.reports import for_xml, write_report
from kpfs.commands.search_page import Shown, search_page
from kpfs.host import progress
from kpfs.inside.machine import FOUND
from kpfs.inside.start import real_root

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from kpfs.hunt.hunt import SearchFinding, Tried
    from kpfs.hunt.task import SearchTask

_ROOM = 300_000  # bytes that a report may take
_DEFAULT_SECONDS = 60.0
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_MISSED = 8  # functions that are named
_SHOWN = 3  # findings of one title that are told in full
DESCRIPTION = """\
Run CMD inside a Linux kernel again and again, each time with other waits of processors
before accesses of the modules and BPF programs that it loads, or with a call of theirs
that fails, and print what goes wrong, each with the command that shows it again.
Nothing is built anew.  The status is 1 if anything was found.
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--kernel", required=True, metavar="NAME", help="see 'kpfs kernel list'"
    )
    flag(parser, "--make", "make the kernel first if it is not there")
    several(
        parser,
        "--of",
        metavar="NAME",
        help="search only this module, BPF program or function of the kernel "
        "(may be given again)",
    )
    parser.add_argument(
        "--for",
        dest="seconds",
        type=_seconds,
        default=_DEFAULT_SECONDS,
        metavar="S",
        help="how long, in seconds or with a unit as in 10m (default 60)",
    )
    parser.add_argument(
        "--runs", type=number(1), default=0, metavar="N", help="end after so many runs"
    )
    parser.add_argument(
        "--kinds",
        type=_kinds,
        default=frozenset(KINDS),
        metavar="KIND,...",
        help=f"look only for some of {', '.join(KINDS)}",
    )
    jobs_argument(parser)
    parser.add_argument(
        "--shard",
        type=shard,
        default=(1, 1),
        metavar="I/N",
        help="only the I-th of N parts",
    )
    parser.add_argument(
        "--scheduler",
        default="",
        metavar="ADDRESS",
        help="have workers of this scheduler of Dask make runs, too",
    )
    parser.add_argument(
        "--root", default="", metavar="DIR", help="as of 'kpfs run --inside'"
    )
    report_arguments(parser)
    add_command(parser)
    parser.description = DESCRIPTION
    parser.usage = "kpfs search --kernel NAME [OPTION...] [--] CMD [ARG...]"


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not seconds:
        raise ArgumentTypeError(f"{text!r} is no time such as 30, 30s, 10m or 2h")
    return seconds


def _kinds(text: str) -> frozenset[str]:
    kinds = frozenset(text.split(","))
    if wrong := sorted(kinds - {*KINDS}):
        raise ArgumentTypeError(f"{wrong[0]!r} is none of {', '.join(KINDS)}")
    return kinds


def main(arguments: Namespace) -> int:
    """``kpfs search``.  Raises SetupError."""
    if not arguments.argv:
        raise SetupError("which command? (see 'kpfs search --help')")
    for path in {arguments.junit, arguments.html} - {""}:
        with told_to_user(path):
            check_room(path, _ROOM)
    if arguments.make:
        kernel_command.make_missing([arguments.kernel])
    from kpfs.hunt.hunt import SearchLimits
    from kpfs.hunt.search import Search, check
    from kpfs.hunt.task import SearchTask

    task = SearchTask(
        arguments.kernel,
        tuple(arguments.argv),
        real_root(arguments.root),
        tuple(arguments.of),
    )
    check(task, arguments.kinds)
    limits = SearchLimits(
        arguments.kinds,
        arguments.seconds,
        arguments.runs,
        arguments.jobs,
        arguments.shard,
    )
    teller = _Teller(task, quiet=arguments.json)
    cluster = None
    if arguments.scheduler:
        from kpfs.hunt.cluster import Cluster

        cluster = Cluster(arguments.scheduler)
    search = Search(task, limits, teller.tell, teller.progress, cluster)
    signalled: SignalledError | None = None
    try:
        with raised():
            tried = search.run()
    except SignalledError as error:
        signalled = error
        if (done := search.tried()) is None:
            raise
        tried = done
    teller.erase()
    _report(arguments, tried, teller.shown)
    if signalled:
        sys.stdout.flush()
        print(f"kpfs: {signalled}: the search was not over", file=sys.stderr)
        raise signalled
    return FOUND if tried.found else 0


class _Teller:
    """Prints findings as they come."""

    def __init__(self, task: SearchTask, *, quiet: bool) -> None:
        self._task, self._quiet = task, quiet
        self._bar = sys.stderr.isatty()
        self._said = dict[str, int]()
        self.shown: dict[tuple[str, ...], Shown] = {}

    def tell(self, finding: SearchFinding, seed: str, runs: int) -> None:
        """seed: its name; "": it could not be kept."""
        task = self._task
        words = ["kpfs", "run", "--kernel", task.kernel, "--inside", "--seed", seed]
        words += ["--root", task.root] if task.root != "/" else []
        replay = shlex.join([*words, "--", *task.argv]) if seed else ""
        lines, how = list(finding.lines), finding.plan.how
        shown = Shown(finding.kind, finding.title, lines, seed, how, replay, runs)
        self.shown[finding.key] = shown
        if self._quiet:
            return
        self.erase()
        said = self._said[finding.title] = self._said.get(finding.title, 0) + 1
        print(f"{finding.title}")
        if said <= _SHOWN:
            for line in lines:
                print(f"    {line}")
        print(f"    {f'seed {seed}: ' * bool(seed)}{how}, after {runs} runs")
        print(f"    {replay}\n" * bool(seed), end="", flush=True)

    def progress(self, runs: int, share: float) -> None:
        if self._bar:
            have = int(1000 * share)
            progress.draw(f"kpfs: {runs} runs", progress.bar(have, 1000))

    def erase(self) -> None:
        if self._bar:
            progress.draw("")


# ---- reports
def _report(
    arguments: Namespace, tried: Tried, shown: dict[tuple[str, ...], Shown]
) -> None:
    """Print the summary, and write what was asked for.  Raises SetupError."""
    rows = []
    for each in tried.found:
        untold = Shown(each.kind, each.title, [*each.lines], "", each.plan.how, "")
        told = shown.get(each.key, untold)
        rows.append(told._replace(times=tried.times[each.key]))
    lines = summary(tried, arguments.kinds) + _of_one_processor(arguments.kernel)
    if arguments.json:
        findings = [row._asdict() for row in rows]
        row = {"findings": findings, "summary": _summary_row(tried)}
        print(json.dumps(row, indent=1))
    else:
        for line in lines:
            print(line)
    if arguments.junit:
        write_report(arguments.junit, _junit(arguments, tried, rows, lines))
    if arguments.html:
        number = len(rows) + sum(tried.more.values())
        write_report(arguments.html, search_page(arguments.argv, rows, lines, number))


def _summary_row(tried: Tried) -> dict[str, Any]:
    base = tried.base
    return {
        "runs": tried.runs,
        "seconds": round(tried.seconds, 2),
        "accesses": base.accesses,
        "calls": base.calls,
        "found": {kind: number for kind in KINDS if (number := _number(tried, kind))},
        "more": _places(tried.more),
        "unknown": tried.unknown,
        "counted": _places(tried.counted),
        "lost": tried.lost,
        "untracked": tried.untracked,
        "changed": [*tried.changed],
        "whole": tried.whole,
        "left_out": dict(tried.left_out),
    }


def _places(counts: Mapping[tuple[str, str], int]) -> list[dict[str, Any]]:
    return [
        {"kind": kind, "place": place, "number": number}
        for (kind, place), number in counts.items()
    ]


def _number(tried: Tried, kind: str) -> int:
    """Return the number of findings of a kind, with those that are counted alone."""
    more = sum(number for (one, _), number in tried.more.items() if one == kind)
    return more + sum(finding.kind == kind for finding in tried.found)


def _of_one_processor(name: str) -> list[str]:
    """Return a line about what a kernel cannot show that has one processor."""
    from kpfs.linux.running import chosen
    from kpfs.linux.store import image

    if len(image.read_meta(chosen.folder(name)).processors) > 1:
        return []
    return [
        f"{name} has one processor: what two do at once was not tried "
        f"(--kernel {name}+cpus=2)"
    ]


def summary(tried: Tried, kinds: frozenset[str]) -> list[str]:
    """Return what was tried and what was not, a line each."""
    from kpfs.linux.search.reports import UNTRACKED, counted_words

    base, runs = tried.base, sum(tried.runs.values())
    ways = ", ".join(f"{number} {way}" for way, number in tried.runs.items())
    lines = [f"{runs} runs ({ways}) in {tried.seconds:.1f} s"]
    lines.append(
        f"one run takes {base.ns / 1e6:.0f} ms of the kernel's time, with "
        f"{base.accesses} accesses and {base.calls} calls that can fail"
    )
    for line in base.complaints[:_SHOWN]:
        lines.append(f"the kernel complains in the unchanged run, too: {line}")
    if tried.missed:
        shown = ", ".join(tried.missed[:_MISSED])
        more = f" and {len(tried.missed) - _MISSED} more" * (
            len(tried.missed) > _MISSED
        )
        lines.append(
            f"{len(tried.missed)} of {tried.functions} functions were never reached: "
            f"{shown}{more}"
        )
    for kind in KINDS:
        if why := tried.left_out.get(kind):
            lines.append(f"{kind}: not looked for: {why}")
        elif kind in kinds:
            number = _number(tried, kind)
            done = tried.runs.get("fault", 0)
            some = f", in {done} of {base.calls} calls" * (done < base.calls)
            lines.append(
                f"{kind}: {number or 'nothing'} found{some if kind == FAULT else ''}"
                f"{_counted_alone(tried, kind)}"
            )
        else:
            lines.append(f"{kind}: not looked for")
    if tried.unknown:
        lines.append(
            f"{tried.unknown} pairs of accesses that race lie in code without debug "
            "information (build it with -g), so READ_ONCE() cannot be seen there"
        )
    lines += counted_words(tried.counted, tried.lost)
    if tried.untracked:
        lines.append(UNTRACKED.format(tried.untracked))
    lines += [
        f"{path} has changed meanwhile: later runs, and seeds, are of the new one"
        for path in tried.changed[:_SHOWN]
    ]
    if not tried.whole:
        lines.append("it ended before all systematic runs were made")
    return lines


def _counted_alone(tried: Tried, kind: str) -> str:
    """Return words for the findings of a kind that are not told one by one."""
    from kpfs.linux.search.reports import counts_by_place

    more = {place: n for (one, place), n in tried.more.items() if one == kind}
    if not more:
        return ""
    return f", of which these are only counted: {counts_by_place(more)}"


def _junit(
    arguments: Namespace, tried: Tried, rows: Sequence[Shown], told: Sequence[str]
) -> bytes:
    """Return a report in the format that CI systems read: a case for each kind.

    told: what was tried, a line each.
    """
    kinds = [kind for kind in KINDS if kind in arguments.kinds]
    suite = ElementTree.Element(
        "testsuite",
        name=for_xml(shlex.join(arguments.argv)),
        tests=str(len(kinds)),
        failures=str(len({row.kind for row in rows})),
        skipped=str(len(tried.left_out)),
        time=f"{tried.seconds:.2f}",
    )
    for kind in kinds:
        case = ElementTree.SubElement(
            suite, "testcase", classname=arguments.kernel, name=kind
        )
        if why := tried.left_out.get(kind):
            ElementTree.SubElement(case, "skipped", message=for_xml(why))
        for row in rows:
            if row.kind == kind:
                failure = ElementTree.SubElement(
                    case, "failure", message=for_xml(row.title)
                )
                failure.text = for_xml("\n".join([*row.lines, row.replay]))
    ElementTree.SubElement(suite, "system-out").text = for_xml("\n".join(told))
    report: bytes = ElementTree.tostring(suite, "utf-8", xml_declaration=True)
    return report
