# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes the man pages: kpfs(1), and one for each command.

Document: man(7).
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby

from kpfs.manual.description import (
    CommandDescription,
    OptionDescription,
    ValueDescription,
)

WIDTH = 64  # columns of the source, whose lines escape() makes longer
STATUS = """\
0 if all was done, or as it is said above; 2 if something could not be done, and then
one line on standard error says why, and often what mends it.
"""
ENVIRONMENT = (
    ("XDG_CACHE_HOME", "where the log is: kpfs/kpfs.log in it (default ~/.cache)"),
    (
        "XDG_DATA_HOME",
        "where kernels are kept: kpfs/kernels in it (default ~/.local/share)",
    ),
    ("KPFS", "in a command of kpfs run: the directory of all files"),
    ("KPFS_KERNEL", "in a command of kpfs run: the release of its kernel"),
    ("NO_COLOR", "if it is not empty, nothing is coloured"),
)


def pages(top: CommandDescription, version: str, date: str) -> dict[str, str]:
    """Return the text of each page by the name of its file."""
    made = {}
    for command in (top, *top.commands):
        name = "-".join(command.path)
        made[f"{name}.1"] = "\n".join(_page(top, command, version, date)) + "\n"
    return made


def _page(
    top: CommandDescription, command: CommandDescription, version: str, date: str
) -> Iterator[str]:
    name = "-".join(command.path)
    yield r".\" SPDX-License-Identifier: GPL-2.0-or-later"
    yield f'.TH {name.upper()} 1 "{date}" "kpfs {version}" "User Commands"'
    yield ".SH NAME"
    yield rf"{escape(name)} \- {escape(command.help or command.description)}"
    yield ".SH SYNOPSIS"
    below = command.commands if command is not top else ()
    for usage in [one.usage for one in below] or [command.usage]:
        yield from (".nf", escape(usage), ".fi")
    yield ".SH DESCRIPTION"
    yield from _text(command.description)
    yield from _operands(command.operands)
    if command is top:
        yield ".SH COMMANDS"
        for one in command.commands:
            name = escape("-".join(one.path))
            yield from (".TP", rf"\fB{name}\fR(1)", *_wrap(one.help))
    for one in below:
        yield f'.SH "{one.path[-1].upper()}"'
        yield from _text(one.description or one.help)
        yield from _operands(one.operands)
        yield from _options(one.options)
    yield ".SH OPTIONS"
    yield from _options(command.options)
    if command.epilog:
        yield from (".SH NOTES", *_text(command.epilog))
    yield from (".SH EXIT STATUS", *_text(STATUS))
    if command is top:
        yield ".SH ENVIRONMENT"
        for variable, meaning in ENVIRONMENT:
            yield from (".TP", rf"\fB{variable}\fR", *_wrap(meaning))
    yield ".SH SEE ALSO"
    others = [one for one in (top, *top.commands) if one is not command]
    yield ",\n".join(rf"\fB{escape('-'.join(one.path))}\fR(1)" for one in others)


def _options(options: Iterable[OptionDescription]) -> Iterator[str]:
    for option in options:
        words = ", ".join(rf"\fB{escape(name)}\fR" for name in option.names)
        if option.value:
            words += rf" \fI{escape(option.value.metavar)}\fR"
        yield from (".TP", words, *_wrap(option.help))


def _operands(operands: Iterable[ValueDescription]) -> Iterator[str]:
    for operand in operands:
        if operand.help:
            name = rf"\fI{escape(operand.metavar)}\fR"
            yield from (".TP", name, *_wrap(operand.help))


def _text(text: str) -> Iterator[str]:
    """Yield paragraphs; indented lines stay as they are."""
    between: tuple[str, ...] = ()
    for verbatim, lines in groupby(text.strip("\n").splitlines(), _is_verbatim):
        if verbatim:
            yield from (*between, ".nf", *map(escape, lines), ".fi")
            between = (".PP",)
            continue
        for paragraph in "\n".join(lines).strip().split("\n\n"):
            yield from (*between, *_wrap(paragraph))
            between = (".PP",)


def _wrap(text: str) -> Iterator[str]:
    return map(escape, textwrap.wrap(text, WIDTH))


def _is_verbatim(line: str) -> bool:
    return line.startswith("  ")


def escape(text: str) -> str:
    """Return text that roff prints as it is."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{text}" if text[:1] in (".", "'") else text
