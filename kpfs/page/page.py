# SPDX-License-Identifier: GPL-2.0-or-later
"""A page of HTML that is one file: no script, and nothing from elsewhere."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from html import escape
from itertools import accumulate, takewhile

from kpfs.base.shown import shown

STYLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page.css")
LONGEST = 2000  # characters of a line
_SPACE = re.compile(r"\s*\n\s*|/\*.*?\*/")
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# whoever opens the page is safe from what a command has written, even if we err
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_HEAD = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def page(title: str, body: str) -> bytes:
    """Return a whole page.  title: plain text; body: HTML."""
    with open(STYLE, encoding="utf-8") as file:
        style = _SPACE.sub("", file.read())
    parts = {"policy": _POLICY, "title": text(title), "style": style, "body": body}
    return _HEAD.format(**parts).encode()


def text(plain: str) -> str:
    """Return plain text as HTML, without colours; control characters are escapes."""
    return escape(shown(_COLOURS.sub("", plain)))


def lines(plain: Sequence[str], room: int, mark: Callable[[str], str] = text) -> str:
    """Return lines as HTML; of those that take more room, the first and the last ones.

    room: bytes.  mark: makes HTML of a line.
    """
    short = [x if len(x) <= LONGEST else f"{x[:LONGEST]}…" for x in plain]
    marked = list(map(mark, short))
    first = _fitting(marked, room)
    if first == len(marked):
        return "\n".join(marked)
    first = _fitting(marked, room * 2 // 3)
    last = _fitting(marked[:first:-1], room // 3)
    left = f"<i>… {len(marked) - first - last} lines are left out …</i>"
    return "\n".join([*marked[:first], left, *marked[len(marked) - last :]])


def _fitting(marked: Sequence[str], room: int) -> int:
    """Return how many lines from the first one on have room."""
    ends = accumulate(len(line.encode()) + 1 for line in marked)
    return sum(1 for _ in takewhile(lambda end: end <= room, ends))
