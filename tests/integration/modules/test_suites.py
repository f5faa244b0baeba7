# SPDX-License-Identifier: GPL-2.0-or-later
"""The kprobes API as modules see it: the suites in tests/modules, one test each.

This also tests kpfs.engine.guest_api.
"""

import re

import pytest

from tests.modbox import SOURCES, Box, build

SUITES = sorted(path.stem for path in SOURCES.glob("*_suite.c"))
RESULT = re.compile(r"    (not ok|ok) \d+ (\w+)")


def run(name: str, nr_cpus: int) -> tuple[dict[str, str], list[str]]:
    """The result of each case, and all that was said."""
    box = Box(nr_cpus)
    try:
        text = {a: bytes(box.kernel.guest.read(a, n)) for a, n in [_text(box)]}
        box.insmod(build(name))
        box.rmmod(name)
        for addr, before in text.items():
            assert box.kernel.guest.read(addr, len(before)) == before
        assert box.list() == []
        assert box.modules() == []
        log = box.log()
    finally:
        box.close()
    found = (RESULT.fullmatch(line) for line in log)
    return {m[2]: m[1] for m in found if m}, log


def _text(box: Box) -> tuple[int, int]:
    start, end = box.address("_stext"), box.address("_etext")
    return start, end - start


def cases() -> list[tuple[str, str]]:
    return [
        (suite, case)
        for suite in SUITES
        for case in re.findall(
            r"KUNIT_CASE\((\w+)\)", (SOURCES / f"{suite}.c").read_text()
        )
    ]


@pytest.fixture(scope="module")
def results():
    """The results of each suite, which runs when they are first asked for."""
    known: dict[str, tuple[dict[str, str], list[str]]] = {}

    def of(suite: str) -> tuple[dict[str, str], list[str]]:
        if suite not in known:
            known[suite] = run(suite, 2)
        return known[suite]

    return of


@pytest.mark.parametrize(("suite", "case"), cases())
def test_case(results, suite, case):
    found, log = results(suite)
    assert found.get(case) == "ok", "\n".join(log)


@pytest.mark.parametrize("suite", SUITES)
def test_on_four_cpus(suite):
    found, log = run(suite, 4)
    assert set(found.values()) == {"ok"}, "\n".join(log)
