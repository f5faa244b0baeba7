# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts of bytes become counts of functions and lines."""

from kpfs.coverage.report import FunctionRange, Report
from kpfs.guest.loader.line_table import LineSpan

A, B = "/src/a.c", "/src/b.h"
FUNCTIONS = [
    FunctionRange(0x10, 0x20, "one"),
    FunctionRange(0x20, 0x30, "two.constprop.0"),
    FunctionRange(0x40, 0x44, "one.cold"),
]
SPANS = [
    LineSpan(0x10, 0x14, A, 1),
    LineSpan(0x14, 0x18, B, 7),
    LineSpan(0x18, 0x20, A, 2),
    LineSpan(0x20, 0x28, A, 5),
    LineSpan(0x28, 0x30, B, 7),
    LineSpan(0x40, 0x44, A, 2),
]


def report(runs, spans=SPANS):
    made = Report()
    made.add_text("mod", FUNCTIONS, spans, runs)
    return made


def test_a_line_counts_as_its_instruction_that_ran_most_often():
    made = report([(0x10, 0x18, 3), (0x18, 0x1C, 9), (0x1C, 0x20, 3), (0x40, 0x44, 1)])
    assert made.lines("a.c") == {1: 3, 2: 9, 5: 0}
    assert made.functions() == {"one": 3, "two": 0}


def test_lines_of_inlined_functions_add_up_over_functions():
    made = report([(0x10, 0x20, 3), (0x20, 0x30, 4)])
    assert made.lines("src/b.h") == {7: 7}
    assert made.lines("rc/b.h") == made.lines("c.c") == {}


def test_what_was_not_run_is_there_with_zero():
    assert report([]).functions() == {"one": 0, "two": 0}
    assert report([]).lines("a.c") == {1: 0, 2: 0, 5: 0}


def test_functions_without_lines_are_of_the_module():
    made = report([(0x20, 0x24, 2)], spans=[])
    assert list(made.sources) == ["mod"]
    assert made.functions() == {"one": 0, "two": 2}


def test_reports_add_up():
    made = report([(0x10, 0x20, 3)])
    made.add(report([(0x10, 0x30, 4)]))
    made.add(Report())
    assert made.functions() == {"one": 7, "two": 4}
    assert made.lines("a.c") == {1: 7, 2: 7, 5: 4}


def test_the_tracefile(tmp_path):
    made = report([(0x10, 0x20, 3)], SPANS[:1])
    made.write(tmp_path / "x.info")
    assert (tmp_path / "x.info").read_text() == made.tracefile()
    assert made.tracefile().splitlines() == [
        *("TN:", f"SF:{A}", "FN:1,one", "FNDA:3,one", "FNF:1", "FNH:1"),
        *("DA:1,3", "LF:1", "LH:1", "end_of_record"),
        *("TN:", "SF:mod", "FN:0,two", "FNDA:0,two", "FNF:1", "FNH:0"),
        *("LF:0", "LH:0", "end_of_record"),
    ]
