# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of ``kpfs search --html``: what was found, and what was tried."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from kpfs.page.page import lines, page, text

_ALL_ROOM = 180 << 10  # bytes for all findings


class Shown(NamedTuple):
    """A finding as it is told."""

    kind: str
    title: str
    lines: list[str]
    seed: str
    how: str  # what was done to the run
    replay: str  # the command that shows it again
    after: int = 0  # number of runs before it was found
    times: int = 1  # that it was found


def search_page(
    argv: Sequence[str], rows: Sequence[Shown], told: Sequence[str], number: int
) -> bytes:
    """Return the page.

    told: what was tried, a line each.  number: of all findings, told in rows or not.
    """
    command = shlex.join(argv)
    good, found = "bad" if rows else "good", f"{number or 'nothing'} found"
    room = _ALL_ROOM // max(len(rows), 1)
    body = [
        f"<h1><code>{text(command)}</code></h1>",
        f'<p><span class="chip {good}">{found}</span></p>',
        *(_finding(row, room) for row in rows),
        "<h2>What was tried</h2>",
        f"<ul>{''.join(f'<li>{text(line)}</li>' for line in told)}</ul>",
    ]
    return page(f"{found}: {command}", "\n".join(body))


def _finding(row: Shown, room: int) -> str:
    return (
        f'<details open><summary><span class="chip bad">{text(row.kind)}</span> '
        f'<b class="mono">{text(row.title)}</b></summary>'
        f"<pre>{lines(row.lines, room)}</pre>"
        f'<p class="dim">{text(row.how)}, {row.times} times</p>'
        f"<pre>{text(row.replay)}</pre></details>"
    )
