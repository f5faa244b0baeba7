# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of differences is whole, and says what this host lacks."""

import os
from pathlib import Path

import pytest

from kpfs.manual import differs

ROOT = Path(__file__).parents[3]
ROWS = list(differs.differences())


def test_each_row():
    for row in ROWS:
        assert row.section, row
        assert row.kernel in differs.KERNELS, row
        assert row.places, row
        assert set(row.places) <= {*differs.PLACES}, row
        assert set(row.cases) <= {"mount", "run"}, row
        assert row.host.partition(":")[0] in {"", *differs.LACKS}, row
        assert row.linux.endswith("."), row
        assert row.here.endswith("."), row


def test_each_case_stands_once():
    for place in ("mount", "run"):
        cases = [case for row in ROWS for case in row.cases.get(place, ())]
        assert len(cases) == len(set(cases))


def test_rows_for_every_host_lack_nothing(monkeypatch):
    monkeypatch.setattr(differs, "LACKS", dict.fromkeys(differs.LACKS, lambda _: False))
    assert not list(differs.on_this_host())


@pytest.mark.parametrize(
    ("host", "lacks"),
    [
        ("program:sh", False),
        ("program:nosuch", True),
        ("module:json", False),
        ("module:nosuch", True),
        ("machine:x86_64", False),
        ("machine:arm", True),
        ("release:6.9", True),
        ("release:6.1", False),
        ("release:5.10", False),
    ],
)
def test_what_a_host_lacks(monkeypatch, host, lacks):
    uname = os.uname_result(("Linux", "host", "6.1.0-56-amd64", "#1", "x86_64"))
    monkeypatch.setattr(os, "uname", lambda: uname)
    kind, _, name = host.partition(":")
    assert differs.LACKS[kind](name) == lacks


def test_the_page():
    page = ROOT / "docs/reference/differs.md"
    assert page.read_text(encoding="utf-8") == differs.page()


def test_what_the_guest_lacks_has_a_way_out():
    lacking = [row for row in ROWS if row.kernel == "guest" and row.files]
    assert lacking
    assert all(row.out and row.lacked for row in lacking)
