# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands and their arguments as plain records, read off the parsers of kpfs.cli.

Man pages and completions are made of these, so that no argument is described twice.
What a value may be is told by its metavar: see VALUES.
"""

from __future__ import annotations

import argparse
import enum
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kpfs import config


class Kind(enum.Enum):
    """What a shell may offer for a value."""

    NOTHING = enum.auto()
    WORDS = enum.auto()
    FILE = enum.auto()
    DIRECTORY = enum.auto()
    KERNEL = enum.auto()  # the name of one that was made
    COMMAND = enum.auto()  # and its arguments behind it


class Value(NamedTuple):
    """The value of an option, or an operand."""

    metavar: str
    kind: Kind = Kind.NOTHING
    words: tuple[str, ...] = ()  # of Kind.WORDS
    help: str = ""


class Option(NamedTuple):
    """One option."""

    names: tuple[str, ...]
    help: str
    value: Value | None  # None: it takes none
    repeated: bool = False


class Command(NamedTuple):
    """kpfs, or one of its commands."""

    path: tuple[str, ...]  # "kpfs", "kernel", "make"
    help: str
    description: str
    epilog: str
    usage: str
    options: tuple[Option, ...]
    operands: tuple[Value, ...]
    commands: tuple[Command, ...]  # the next word is one of them

    @property
    def name(self) -> str:
        """As one types it."""
        return " ".join(self.path)


VALUES = {
    "FILE": Kind.FILE,
    "DIR": Kind.DIRECTORY,
    "KERNEL": Kind.KERNEL,
    "CMD": Kind.COMMAND,
}
CONFIGURATIONS = tuple(
    f"{option.name}={value}" for option in config.OPTIONS for value in "yn"
)


def describe(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ("kpfs",), help: str = ""
) -> Command:
    """Describe what a parser takes, with all parsers below it."""
    options, operands, commands = [], [], []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            commands = [
                describe(choice, (*path, name), _help_of(action, name))
                for name, choice in _choices(action).items()
            ]
        elif action.option_strings:
            value = None if action.nargs == 0 else _value(action)
            repeated = isinstance(action, argparse._AppendAction)
            names = tuple(action.option_strings)
            options.append(Option(names, action.help or "", value, repeated))
        else:
            operands.append(_value(action))
    return Command(
        path,
        help,
        parser.description or "",
        parser.epilog or "",
        " ".join(parser.format_usage().removeprefix("usage: ").split()),
        tuple(options),
        tuple(operands),
        tuple(commands),
    )


def _choices(action: argparse.Action) -> Mapping[str, argparse.ArgumentParser]:
    assert isinstance(action.choices, Mapping)
    return action.choices


def _help_of(action: argparse.Action, name: str) -> str:
    """What the list of commands says of one."""
    rows: Iterable[argparse.Action] = getattr(action, "_choices_actions", ())
    return next((row.help or "" for row in rows if row.dest == name), "")


def _value(action: argparse.Action) -> Value:
    metavar = str(action.metavar or action.dest.upper())
    help = "" if action.help == argparse.SUPPRESS else action.help or ""
    if action.choices:
        return Value(metavar, Kind.WORDS, tuple(map(str, action.choices)), help)
    if metavar == "NAME=VALUE":
        return Value(metavar, Kind.WORDS, CONFIGURATIONS, help)
    return Value(metavar, VALUES.get(metavar, Kind.NOTHING), (), help)
