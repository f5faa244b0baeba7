# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of ``kpfs matrix --html``: kernels, each with what it has said."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from kpfs.commands.likeness import Alike, alike, differences
from kpfs.linux.running.chosen import parts
from kpfs.linux.running.features import NO, YES, Feature
from kpfs.linux.store.store import JOIN
from kpfs.page.page import lines, page, text

ROOM = 180 << 10  # bytes for what the commands have written, and for differences
MOST = 48 << 10  # bytes of one of these
COMPARED = 1_000  # lines; more would take long
_AS_IT_IS = "as it is"  # a kernel without parameters
_MARKS = {"+": "ins", "-": "del"}


class ShownRow(Protocol):
    """The result in one kernel."""

    @property
    def kernel(self) -> str: ...
    @property
    def release(self) -> str: ...
    @property
    def status(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def output(self) -> str: ...
    @property
    def last_line(self) -> str: ...
    @property
    def lost(self) -> Sequence[str]: ...
    def why(self) -> list[str]: ...


def matrix_page(
    argv: Sequence[str],
    rows: Sequence[ShownRow],
    features: Mapping[str, Sequence[Feature]],
    left_out: str = "",
) -> bytes:
    """Return the page.  left_out: why something is missing on it, "" if nothing is."""
    passed, command = sum(not row.status for row in rows), " ".join(argv)
    good = "good" if passed == len(rows) else "bad"
    now = time.gmtime()
    when = f'<time datetime="{time.strftime("%Y-%m-%dT%H:%M:%SZ", now)}">'
    when += f"{time.strftime('%Y-%m-%d %H:%M', now)} UTC</time>"
    groups = alike({row.kernel: row.output for row in rows})
    room = min(MOST, ROOM // max(1, 2 * len(rows)))
    body = [
        f"<h1><code>{text(command)}</code></h1>",
        f'<p><span class="chip {good}">{passed} of {len(rows)} kernels pass</span> ',
        f'<span class="dim">{when}, by kpfs</span></p>',
        *([f"<p><b>{text(left_out)}</b></p>"] if left_out else []),
        *_grid(rows),
        "<h2>Kernels</h2>",
        *(_kernel(number, row, groups, room) for number, row in enumerate(rows)),
        *_features(features),
    ]
    title = f"{passed} of {len(rows)}: {command}"
    return page(title, "\n".join(body))


def _chip(status: int) -> str:
    told = f"status {status}" if status else "ok"
    return f'<span class="chip {"bad" if status else "good"}">{told}</span>'


def _grid(rows: Sequence[ShownRow]) -> list[str]:
    """Return a table with a row for each kernel and a column for its parameters."""
    places = {}
    for number, row in enumerate(rows):
        base, words = parts(row.kernel)
        cell = f'<td><a href="#k{number}">{_chip(row.status)}</a></td>'
        places[base, JOIN.join(words) or _AS_IT_IS] = cell
    names = dict.fromkeys(base for base, _ in places)
    columns = dict.fromkeys(column for _, column in places)
    if len(columns) < 2 or len(names) == len(rows):
        return []
    heads = "".join(f'<th scope="col">{text(column)}</th>' for column in columns)
    body = [
        f'<tr><th scope="row">{text(name)}</th>'
        + "".join(places.get((name, column), "<td></td>") for column in columns)
        + "</tr>"
        for name in names
    ]
    head = f'<div class="wide"><table><tr><th scope="col">kernel</th>{heads}</tr>'
    return [head, *body, "</table></div>"]


def _kernel(number: int, row: ShownRow, groups: Sequence[Alike], room: int) -> str:
    """Return one kernel's result: a line with its reason, and the rest below it."""
    own = _group_of(row.kernel, groups)
    base = parts(row.kernel)[0]
    first = groups[0] if base == row.kernel else _group_of(base, groups)
    why = row.why()
    told = [
        f'<details id="k{number}"><summary>{_chip(row.status)} ',
        f'<b class="mono">{text(row.kernel)}</b> ',
        f'<span class="dim">{text(row.release)}, {row.seconds:.2f} s</span>',
        f'<code class="told">{text(row.last_line[:300])}</code>' * bool(row.last_line),
        f'<span class="told"><b>because:</b> {text(why[0][:600])}</span>'
        if why
        else "",
        *(f'<span class="told"><b>lost:</b> {text(each)}</span>' for each in row.lost),
        "</summary>",
    ]
    if why[1:]:
        more = lines(why[1:], room // 3, lambda each: f"<li>{text(each)}</li>")
        told.append(f"<h3>Further reasons</h3><ul>{more}</ul>")
    if row.kernel != own.kernels[0]:
        told.append(
            f"<p>It has written the same as in {text(own.kernels[0])}, but for times, "
            "addresses and process numbers.</p>"
        )
    elif own is not first:
        pair = (Alike(part.kernels, part.lines[:COMPARED]) for part in (first, own))
        diff = lines(differences(*pair)[2:], room, _marked)
        where = text(first.kernels[0])
        told.append(f"<h3>What differs from {where}</h3><pre>{diff}</pre>")
    said = row.output.splitlines()
    if said and row.kernel == own.kernels[0]:
        told.append(f"<h3>Output</h3><pre>{lines(said, room)}</pre>")
    return "".join([*told, "</details>"])


def _group_of(kernel: str, groups: Sequence[Alike]) -> Alike:
    """Return the group of a kernel, the first one if it is in none."""
    return next((group for group in groups if kernel in group.kernels), groups[0])


def _marked(line: str) -> str:
    tag = _MARKS.get(line[:1])
    return f"<{tag}>{text(line)}</{tag}>" if tag else text(line)


def _features(features: Mapping[str, Sequence[Feature]]) -> list[str]:
    """Return a table of what some of the kernels can do, and not all."""
    has = dict[tuple[str, str], list[str]]()
    for kernel, found in features.items():
        for row in found:
            if row.value != NO and row.group != "kernel":
                name = row.name if row.value == YES else f"{row.name}={row.value}"
                has.setdefault((row.group, name), []).append(kernel)
    same = dict[tuple[str, tuple[str, ...]], list[str]]()
    for (group, name), kernels in has.items():
        if len(kernels) < len(features):
            same.setdefault((group, tuple(kernels)), []).append(name)
    if not same:
        return []
    body = [
        f"<tr><td>{text(group)}</td><td>{text(', '.join(kernels))}</td>"
        f"<td class=mono>{text(', '.join(names))}</td></tr>"
        for (group, kernels), names in same.items()
    ]
    head = "<tr><th>what</th><th>in</th><th>which</th></tr>"
    return [
        "<h2>What the kernels can do</h2>",
        f"<details><summary>{sum(map(len, same.values()))} abilities and options that "
        f'only some of them have</summary><div class="wide"><table>{head}',
        *body,
        "</table></div></details>",
    ]
