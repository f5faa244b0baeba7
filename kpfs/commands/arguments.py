# SPDX-License-Identifier: GPL-2.0-or-later
"""Kinds of arguments that several commands have.

Nothing is imported before a parser is made: each start of kpfs loads this module.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from kpfs.base.typed import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


FREE_TEXT = "TEXT"  # metavar of an argument that may be empty


class Subcommand(NamedTuple):
    """A row of a table of commands."""

    help: str
    description: str
    add_arguments: Callable[[ArgumentParser], None]
    main: Callable[[Namespace], int]


def flag(parser: ArgumentParser, name: str, help: str) -> None:
    """Add an option without a value."""
    parser.add_argument(name, action="store_true", help=help)


def several(parser: ArgumentParser, *names: str, metavar: str, help: str) -> None:
    """Add an option that may be given several times."""
    parser.add_argument(*names, action="append", default=[], metavar=metavar, help=help)


def jobs_argument(parser: ArgumentParser) -> None:
    """Add --jobs."""
    parser.add_argument(
        "--jobs",
        type=number(1),
        default=os.cpu_count() or 1,
        metavar="N",
        help="how many at the same time (default: one for each processor)",
    )


def report_arguments(parser: ArgumentParser) -> None:
    """Add --json, and the files of reports."""
    flag(parser, "--json", "print the result as JSON")
    parser.add_argument("--junit", default="", metavar="FILE", help="a report for CI")
    parser.add_argument(
        "--html",
        default="",
        metavar="FILE",
        help="a page for people, which is one file",
    )


def timeout_argument(parser: ArgumentParser, where: str = "") -> None:
    """Add --timeout; where: begins its help."""
    parser.add_argument(
        "--timeout",
        type=number(0.1, kind=float),
        default=0,
        metavar="S",
        help=f"{where}end CMD after so many seconds, with status 124 and all stacks",
    )


def add_command(parser: ArgumentParser) -> None:
    """Add the user's command: from the first word that is no option, all is its own."""
    import argparse

    parser.add_argument(
        "argv", nargs=argparse.REMAINDER, metavar="CMD", help=argparse.SUPPRESS
    )


def number(
    low: float, high: float | None = None, kind: type[int | float] = int
) -> Callable[[str], float]:
    """Return a parser of numbers in a range, as add_argument() takes it for a type."""

    def parse(text: str) -> float:
        import argparse

        with contextlib.suppress(ValueError):
            value = kind(text)
            if low <= value <= (value if high is None else high):
                return value
        span = f"from {low} on" if high is None else f"from {low} to {high}"
        raise argparse.ArgumentTypeError(f"{text!r} is not a number {span}")

    return parse


def shard(text: str) -> tuple[int, int]:
    """Parse I/N: the I-th of N parts."""
    import argparse
    import re

    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N with I from 1 to N")
    return int(found[1]), int(found[2])
