# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/bench measures; it must do so where nothing but kpfs itself was installed."""

import json

import pytest

pytestmark = pytest.mark.long


@pytest.mark.user
def test_it_measures_in_a_checkout_where_only_kpfs_was_used(ordinary):
    """An ordinary user's virtual environment has no more than kpfs needs."""
    script = "exec ${kpfs%/kpfs}/bench"
    names = ordinary(f"{script} --help")
    assert "start" in names.stdout
    assert (names.returncode, names.stderr) == (0, "")
    done = ordinary(f"{script} --json --quick start overhead")
    assert (done.returncode, done.stderr) == (0, "")
    rows = {row["name"]: row["unit"] for row in json.loads(done.stdout)["rows"]}
    assert rows["cold_start"] == "s"
    columns = ("k", "j", "r", "kr", "jr", "b", "o", "rb", "ro", "ftrace.j")
    assert all(rows[f"overhead.{column}"] == "us" for column in columns)
    assert rows["overhead.j/k"] == rows["overhead.ftrace.kr/ftrace.r"] == "x"
