# SPDX-License-Identifier: GPL-2.0-or-later
"""``python -m bench``: run groups of measurements and print them."""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import sys
from collections.abc import Iterator

from bench import (
    against,
    commands,
    engine,
    growth,
    linux,
    mirror,
    mount,
    overhead,
    promises,
    qemu,
    raw,
    smp,
    watch,
)
from bench.command import NotHereError
from bench.row import Group, Row
from kpfs.linux.errors import UnfitError

GROUPS = {
    **mount.GROUPS,
    **engine.GROUPS,
    **overhead.GROUPS,
    **mirror.GROUPS,
    **commands.GROUPS,
    **watch.GROUPS,
    **growth.GROUPS,
}
RAW = "raw"  # a group of kernels alone
# groups for --quick, each measured once, in half a minute
QUICK = ("start", "mount", "idle", "many", "jumps", "mirror", "commands")


def show(row: Row, bound: promises.Bound | None = None) -> str:
    """A line of the table; bound: what is promised of it."""
    value = "-" if row.value is None else f"{row.value:.3f}"
    limit = ""
    if bound:
        limit = str(bound)
        if row.value is not None and not bound.keeps(row.value):
            limit += "  MISSED"
    if row.wrong:
        limit += "  WRONG"
    return f"{row.name:28} {value:>10} {row.unit:3}  {limit:22} {row.note}".rstrip()


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser("bench", description=__doc__)
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument(
        "--repeats", type=int, default=7, help="medians or least of so many"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"half a minute: {', '.join(QUICK)}, each once",
    )
    parser.add_argument(
        "--against",
        metavar="COMMIT",
        help="measure that commit, in a worktree, and this checkout in turn, once for "
        "each of the repeats, and say what differs",
    )
    parser.add_argument(
        "--against-qemu",
        action="store_true",
        help="measure hits in Debian's Linux 6.1 under QEMU too; with --kernel, that "
        "kernel",
    )
    parser.add_argument(
        "--smp",
        action="store_true",
        help="only the throughput of probes on 1 to 16 CPUs, in virtual time",
    )
    parser.add_argument(
        "--kernel",
        metavar="NAME",
        help="only that kernel of a distribution; with the group raw, only what a "
        "program in it takes",
    )
    parser.add_argument(
        "--promises",
        action="store_true",
        help="print bench/promises.tsv, with what it measures now of the groups named "
        "there; with --kernel, of that kernel",
    )
    parser.add_argument(
        "--save",
        action="store_true",
        help="keep what --promises measures in docs/results, and write "
        "docs/promises.md anew",
    )
    parser.add_argument(
        "groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}"
    )
    arguments = parser.parse_args()
    if arguments.kernel and arguments.groups == [RAW]:
        return arguments
    unknown = set(arguments.groups) - set(GROUPS)
    if unknown:
        parser.error(f"no such group: {', '.join(sorted(unknown))}")
    if arguments.smp and (arguments.groups or arguments.against_qemu):
        parser.error("--smp measures nothing else: give it without groups")
    if arguments.against and (arguments.smp or arguments.against_qemu):
        parser.error("--against compares groups alone")
    if arguments.kernel and (arguments.groups or arguments.smp):
        parser.error("--kernel measures nothing else: give it without groups")
    if arguments.save and not arguments.promises:
        parser.error("--save keeps what --promises measures: give both")
    if arguments.promises and (
        arguments.smp or arguments.against or arguments.against_qemu or arguments.json
    ):
        parser.error("--promises goes with groups, --kernel, --repeats and --save only")
    return arguments


def compare(arguments: argparse.Namespace) -> int:
    """Print what differs from another commit."""
    options = list(arguments.groups or (QUICK if arguments.quick else GROUPS))
    if arguments.kernel:
        options = [*arguments.groups, "--kernel", arguments.kernel]
    try:
        found = against.compare(arguments.against, options, arguments.repeats)
    except against.AgainstError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps({"rows": [pair.as_dict() for pair in found]}))
    else:
        print(against.HEADING, *(pair.show() for pair in found), sep="\n")
    return 0


def promised(arguments: argparse.Namespace) -> Iterator[Group]:
    """Yield the groups that --promises measures."""
    if arguments.kernel:
        yield linux.group(arguments.kernel)
        yield raw.group(arguments.kernel, against_qemu=True)
        return
    named = {bound.group for bound in promises.bounds().values()}
    for name, group in GROUPS.items():
        if name in (arguments.groups or named):
            yield group


def keep(arguments: argparse.Namespace) -> int:
    """Print the promises, with what is measured now."""
    rows: list[Row] = []
    try:
        for group in promised(arguments):
            with contextlib.suppress(NotHereError):
                for row in group(arguments.repeats):
                    print(f"bench: {row.name}", file=sys.stderr)
                    rows.append(row)
    except UnfitError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    print(*promises.report({row.name: row for row in rows}), sep="\n")
    if arguments.save:
        promises.save(rows, arguments.kernel)
    return int(any(row.wrong for row in rows))


def main() -> int:
    arguments = parse()
    if arguments.against or arguments.promises:
        return (compare if arguments.against else keep)(arguments)
    if arguments.quick:
        arguments.repeats = 1
    chosen = arguments.groups or (QUICK if arguments.quick else GROUPS)
    groups = [GROUPS[name] for name in chosen if name != RAW]
    rows = []
    figure = ""
    bounds = promises.bounds()
    try:
        if arguments.smp:
            found = smp.curves()
            groups = [lambda _repeats: smp.rows(found)]  # measured once
            figure = smp.plot(found)
        if arguments.kernel:
            beside = arguments.against_qemu
            of = raw.group if arguments.groups else linux.group
            groups = [of(arguments.kernel, against_qemu=beside)]
        elif arguments.against_qemu:
            groups.append(qemu.against)
        for group in groups:
            for row in group(arguments.repeats):
                rows.append(row)
                if not arguments.json:
                    print(show(row, bounds.get(row.name)), flush=True)
        if figure and not arguments.json:
            print(figure)
    except (NotHereError, UnfitError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    if arguments.json:
        machine = {"python": platform.python_version(), "machine": platform.machine()}
        print(json.dumps({**machine, "rows": [row._asdict() for row in rows]}))
    return int(any(row.wrong for row in rows))


if __name__ == "__main__":
    sys.exit(main())
