# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/bench measures; it must do so where nothing but kpfs itself was installed."""

import ast
import json

import pytest

from tests.harness import ROOT

FOR_TESTS_ALONE = {"tests", "pytest", "hypothesis"}


def imported(path):
    """The top-level packages that a file imports, in whatever place."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").split(".")[0]


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("bench/**/*.py")), ids=lambda p: p.stem
)
def test_what_measures_does_not_import_what_tests(path):
    assert FOR_TESTS_ALONE.isdisjoint(imported(path))


@pytest.mark.user
def test_it_measures_in_a_checkout_where_only_kpfs_was_used(ordinary):
    """An ordinary user's virtual environment has no more than kpfs needs."""
    script = "exec ${kpfs%/kpfs}/bench"
    names = ordinary(f"{script} --help")
    assert "start" in names.stdout
    assert (names.returncode, names.stderr) == (0, "")
    done = ordinary(f"{script} --json --repeats 1 start modules")
    assert (done.returncode, done.stderr) == (0, "")
    rows = {row["name"]: row["unit"] for row in json.loads(done.stdout)["rows"]}
    assert rows["cold_start"] == "s"
    assert rows["module.k"] == "us"
