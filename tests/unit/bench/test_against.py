# SPDX-License-Identifier: GPL-2.0-or-later
"""The comparison with another commit, in a repository with benches of the test."""

import json
import shutil
import subprocess

import pytest

from bench.against import FEWEST, AgainstError, Pair, compare
from bench.row import Row

BENCH = """#!/bin/sh
root=$(cd "$(dirname "$0")/.." && pwd)
echo "$@, $(cat "$root/.venv/whose")" >>'{log}'
echo '{rows}'
exit {status}
"""


@pytest.mark.parametrize(
    ("before", "now", "less", "more"),
    [
        ([3.0, 4.0], [1.0, 2.0], "better", "worse"),
        ([1.0, 2.0], [3.0, 4.0], "worse", "better"),
        ([1.0, 3.0], [2.0, 4.0], "", ""),
        ([1.0, 2.0], [2.0, 3.0], "", ""),
        ([0.0, 0.0], [0.0, 0.0], "", ""),
    ],
)
def test_only_runs_that_are_all_beyond_the_others_differ(before, now, less, more):
    assert Pair(Row("x", 1, "us"), before, now).verdict == less
    assert Pair(Row("x", 1, "op/s"), before, now, more=True).verdict == more


def test_line_has_medians_and_their_ratio():
    pair = Pair(Row("x", 1, "us"), [4.0, 5.0, 9.0], [1.0, 2.0, 3.0])
    assert pair.show().split() == ["x", "5.000", "2.000", "us", "0.40", "better"]
    nothing = Pair(Row("x", 1, "us"), [0.0], [0.0])
    assert nothing.show().split() == ["x", "0.000", "0.000", "us"]


@pytest.fixture
def repository(tmp_path):
    """Make a repository of two commits, whose bench prints other rows."""
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    root, log = tmp_path / "root", tmp_path / "log"
    for name in ("scripts", "requirements", ".venv"):
        (root / name).mkdir(parents=True)

    def git(*words):
        name = ("-c", "user.name=x", "-c", "user.email=x@y")
        subprocess.run(["git", "-C", root, *name, *words], check=True)

    def commit(rows, status=0):
        script = root / "scripts" / "bench"
        rows = json.dumps({"rows": [{"unit": "us", **row} for row in rows]})
        script.write_text(BENCH.format(log=log, rows=rows, status=status))
        script.chmod(0o755)
        git("add", "-A")
        git("commit", "-q", "-m", "x")

    git("init", "-q")
    (root / "requirements" / "run.txt").write_text("x\n")
    (root / ".gitignore").write_text(".venv\n")
    (root / ".venv" / "whose").write_text("ours")
    commit([{"name": "a", "value": 4, "later": 1}, {"name": "b", "value": None}])
    commit([{"name": name, "value": 2} for name in "abc"])
    return root, log, commit


def worktrees(root):
    git = ["git", "-C", root, "worktree", "list"]
    return len(subprocess.check_output(git).splitlines())


def test_rows_of_both_commits_are_compared_in_turn(repository):
    root, log, _ = repository
    [pair] = compare("HEAD~", ["group"], 1, root)
    assert (pair.row.name, pair.before, pair.now) == ("a", [4] * FEWEST, [2] * FEWEST)
    assert pair.as_dict()["verdict"] == "better"
    words = ["--json --repeats 1 group, ours"] * (2 * FEWEST + 1)
    assert log.read_text().splitlines() == words
    assert worktrees(root) == 1


def test_commit_that_there_is_not(repository):
    root, log, _ = repository
    with pytest.raises(AgainstError, match="no such commit: nothing"):
        compare("nothing", [], 1, root)
    assert not log.exists()


def test_bench_that_fails_leaves_no_worktree(repository):
    root, _, commit = repository
    commit([], status=2)
    with pytest.raises(AgainstError, match="ended with 2"):
        compare("HEAD", [], 1, root)
    assert worktrees(root) == 1
