# SPDX-License-Identifier: GPL-2.0-or-later
"""Describes the commands and their arguments by records, from their parsers.

Man pages and completions are made of these, so that no argument is described twice. The
metavar of a value tells what it may be: see VALUES.
"""

from __future__ import annotations

import argparse
import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kpfs import config


class ValueKind(enum.Enum):
    """The kinds of values, by what a shell may offer for them."""

    NOTHING = enum.auto()
    WORDS = enum.auto()
    FILE = enum.auto()
    DIRECTORY = enum.auto()
    KERNEL = enum.auto()  # a name of kpfs kernel list
    KERNELS = enum.auto()  # several, with commas between them
    SYMBOL = enum.auto()
    EVENT = enum.auto()
    COMMAND = enum.auto()  # with its arguments


class ValueDescription(NamedTuple):
    """The value of an option, or an operand."""

    metavar: str
    kind: ValueKind = ValueKind.NOTHING
    words: tuple[str, ...] = ()  # the words of Kind.WORDS
    help: str = ""


class OptionDescription(NamedTuple):
    """An option."""

    names: tuple[str, ...]
    help: str
    value: ValueDescription | None  # None: it takes none
    repeated: bool = False


class CommandDescription(NamedTuple):
    """kpfs, or one of its commands."""

    path: tuple[str, ...]  # "kpfs", "kernel", "make"
    help: str
    description: str
    epilog: str
    usage: str
    options: tuple[OptionDescription, ...]
    operands: tuple[ValueDescription, ...]
    commands: tuple[CommandDescription, ...]  # the next word is one of them

    @property
    def name(self) -> str:
        """The words that one types."""
        return " ".join(self.path)


def walk(command: CommandDescription) -> Iterator[CommandDescription]:
    """Yield a command and all below it."""
    yield command
    for below in command.commands:
        yield from walk(below)


VALUES = {
    "FILE": ValueKind.FILE,
    "DIR": ValueKind.DIRECTORY,
    "KERNEL": ValueKind.KERNEL,
    "NAME,...": ValueKind.KERNELS,
    "SYMBOL[+OFFSET]": ValueKind.SYMBOL,
    "EVENT": ValueKind.EVENT,
    "CMD": ValueKind.COMMAND,
}
CONFIGURATIONS = tuple(
    f"{option.name}={value}" for option in config.OPTIONS for value in "yn"
)


def describe(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ("kpfs",), help: str = ""
) -> CommandDescription:
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
            options.append(OptionDescription(names, action.help or "", value, repeated))
        else:
            operands.append(_value(action))
    return CommandDescription(
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
    """Return the help that the list of commands has for one."""
    rows: Iterable[argparse.Action] = getattr(action, "_choices_actions", ())
    return next((row.help or "" for row in rows if row.dest == name), "")


def _value(action: argparse.Action) -> ValueDescription:
    metavar = str(action.metavar or action.dest.upper())
    help = "" if action.help == argparse.SUPPRESS else action.help or ""
    if action.choices:
        return ValueDescription(
            metavar, ValueKind.WORDS, tuple(map(str, action.choices)), help
        )
    if metavar == "NAME=VALUE":
        return ValueDescription(metavar, ValueKind.WORDS, CONFIGURATIONS, help)
    return ValueDescription(metavar, VALUES.get(metavar, ValueKind.NOTHING), (), help)
