# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of system calls, calls.tsv, and the page that is made from it.

The table says of every call of x86-64 whether ``kpfs run`` makes it again in the
emulated kernel.  The page is docs/reference/calls.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).with_name("calls.tsv")
WATCHED, ALWAYS, OTHER, NEVER = "watched", "always", "other", "never"
MADE = {
    WATCHED: "while watched",
    ALWAYS: "`--mirror=always`",
    OTHER: "otherwise",
    NEVER: "never",
}
PAGE = """\
# Look up which system calls are made again

On this page you find which system calls of a command `kpfs run` makes again in the
emulated kernel, where probes and events see them. The *guest* kernel is kpfs's own; a
*Linux* kernel is one that `--kernel` puts behind the files. With `--inside` the command
is a program of the Linux kernel, and each of its calls is a call there.

- *while watched*: the call is made while something can notice it, and otherwise left
  out. With `--mirror=always` it is made in any case.
- *`--mirror=always`*: the call is made with that option alone.
- *otherwise*: the call itself is not made. The last column says what happens instead.
- *never*: nothing can notice the call.

The host answers the call in any case. So a result that a probe sees may be another one,
above all of calls that wait.

| calls | guest | Linux | why |
|---|---|---|---|
"""


class CallRow(NamedTuple):
    """A row of the table."""

    guest: str  # a key of MADE
    linux: str  # a key of MADE
    calls: Mapping[int, str]  # number -> name
    why: str


def rows() -> Iterator[CallRow]:
    """Read the table."""
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        guest, linux, calls, why = line.split("\t")
        pairs = (call.split(":") for call in calls.split())
        yield CallRow(guest, linux, {int(nr): name for nr, name in pairs}, why)


def page() -> str:
    """Return the text of docs/reference/calls.md."""
    lines = [PAGE]
    for row in rows():
        names = ", ".join(row.calls.values())
        guest, linux = MADE[row.guest], MADE[row.linux]
        lines.append(f"| {names} | {guest} | {linux} | {row.why} |\n")
    return "".join(lines)
