# SPDX-License-Identifier: GPL-2.0-or-later
"""Each promise is held by something that exists, and pages say what the table says."""

import ast
import functools
import inspect
import json
import re

from bench import linux, promises, raw
from bench.__main__ import GROUPS
from bench.row import Row
from tests import harness
from tests.campaign.__main__ import PARTS

DOCS = harness.ROOT / "docs"
PROMISES = promises.promises()
BOUNDS = promises.bounds()
FIGURES = promises.figures()
MODULES = {
    **{name: inspect.getmodule(group) for name, group in GROUPS.items()},
    "kernel": linux,
    "raw": raw,
}
SAID = [
    (figure, *words.partition(": ")[::2])
    for figure in FIGURES.values()
    for words in figure.said
]
# numbers in design.md that are chosen, not measured
CHOSEN = re.compile(
    r"\(0\.05 s\)|within 20 ms|for 20 s its owner|for 5 s|each 10 ms|last 20 ms|"
    r"for 50 us"
)
AMOUNT = re.compile(r"\d (?:[mnu]?s|[MK]B)\b")


@functools.cache
def words_of(module):
    """Return the constants of a module, and its f-strings as regular expressions."""
    constants, patterns = set(), []
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Constant):
            constants.add(str(node.value))
        elif isinstance(node, ast.JoinedStr):
            parts = [
                re.escape(str(part.value))
                if isinstance(part, ast.Constant)
                else r"([\w.]+)"
                for part in node.values
            ]
            patterns.append(re.compile("".join(parts)))
    return constants, patterns


def makes(module, row):
    """Return True if a row of this name comes from a module of the bench."""
    constants, patterns = words_of(module)
    found = (pattern.fullmatch(row) for pattern in patterns)
    return row in constants or any(m and set(m.groups()) <= constants for m in found)


def test_numbers_go_up_and_stay_unique():
    numbers = [[int(part) for part in each.number.split(".")] for each in PROMISES]
    assert numbers == sorted(numbers)
    assert len({each.number for each in PROMISES}) == len(PROMISES)


def test_a_promise_is_held_or_pending():
    for promise in PROMISES:
        held = promise.bounds or promise.tests or promise.parts
        assert held or promise.pending, promise
        assert promise.sentence.endswith("."), promise
        assert not promise.pending or promise.pending.endswith("."), promise
        for test in promise.tests:
            path, _, name = test.partition("::")
            text = (harness.ROOT / "tests" / path).read_text()
            assert re.search(rf"^def {name}\(", text, re.M), test
        assert set(promise.parts) <= set(PARTS), promise


def test_a_bound_is_of_a_row_of_the_bench():
    bounds = BOUNDS.values()
    assert [b for b in bounds if not makes(MODULES[b.group], b.row)] == []


def test_what_an_idle_machine_has_measured_keeps_its_bound():
    idle = [figure for figure in FIGURES.values() if "idle" in figure.machine]
    measured = [figure for figure in idle if figure.name in BOUNDS]
    assert measured
    assert [f for f in measured if not BOUNDS[f.name].keeps(float(f.value))] == []


def test_a_row_that_there_is_not():
    assert not makes(MODULES["hits"], "hit_nosuch_event")
    assert not makes(MODULES["hits"], "cold_start")


def test_each_part_of_the_campaign_holds_something():
    assert {part for each in PROMISES for part in each.parts} == set(PARTS)


def test_the_page():
    assert (DOCS / "promises.md").read_text() == promises.page()


def test_each_figure_stands_once():
    names = [figure.name for _, found in promises.topics() for figure in found]
    assert len(names) == len(set(names))
    for figure in FIGURES.values():
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", figure.date)
        assert re.fullmatch(r"[0-9a-f]{7,8}", figure.commit)
        assert figure.machine


def test_a_sentence_has_the_figure_of_the_table():
    for figure, path, words in SAID:
        assert words in " ".join((harness.ROOT / path).read_text().split())
        value = re.escape(str(figure.value))
        assert re.search(rf"(?<![\d.]){value}(?![\d.]*\d)", words), figure


def test_the_design_has_no_other_figures():
    text = " ".join((DOCS / "design.md").read_text().split())
    for _, path, words in SAID:
        if path == "docs/design.md":
            text = text.replace(words, "")
    assert AMOUNT.findall(CHOSEN.sub("", text)) == []


def test_what_is_measured_now_stands_beside_what_is_promised():
    rows = {
        "cold_start": Row("cold_start", 9.0, "s"),
        "idle_cpu": Row("idle_cpu", 0, "%"),
    }
    lines = {line.split()[0]: line for line in promises.report(rows)}
    assert re.search(r"at most 0.35 s +now 9 s +MISSED", lines["cold_start"])
    assert "MISSED" not in lines["idle_cpu"]
    assert "now - " in lines["trace_1mb"]


def test_what_is_kept_takes_the_place_of_the_last_figure(monkeypatch, tmp_path):
    saved = tmp_path / "docs" / "results" / "bench.json"
    saved.parent.mkdir(parents=True)
    old = {"name": "cold_start", "value": 1, "unit": "s"}
    saved.write_text(json.dumps({"about": "x", "rows": [old]}))
    monkeypatch.setattr(promises, "SAVED", saved)
    monkeypatch.setattr(promises, "RESULTS", saved.parent)
    monkeypatch.setattr(promises, "PAGE_FILE", tmp_path / "docs" / "promises.md")
    promises.save(
        [
            Row("cold_start", 0.12345, "s"),
            Row("guest_calls", 5.0, "M/s"),
            Row("ftracetest", 3.0, "s", wrong=True),
            Row("idle_cpu", None, "%"),
        ]
    )
    [row] = json.loads(saved.read_text())["rows"]
    assert (row["name"], row["value"]) == ("cold_start", 0.123)
    assert "at most 0.35 s | 0.123 s |" in (tmp_path / "docs/promises.md").read_text()
