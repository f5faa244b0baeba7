# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs matrix``.  Tests kpfs.matrix, kpfs.host.process."""

import json
import subprocess
from xml.etree import ElementTree

import pytest

from tests import harness

pytestmark = [pytest.mark.kernel]

KERNEL = harness.KERNEL
OTHER = "other"


@pytest.fixture(autouse=True)
def data(monkeypatch, tmp_path):
    """The kernel by two names."""
    kernels = tmp_path / "data" / "kpfs" / "kernels"
    kernels.mkdir(parents=True)
    for name in (KERNEL, OTHER):
        (kernels / name).symlink_to(harness.kernels() / "kpfs" / "kernels" / KERNEL)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("KPFS_WARM", "0")


def matrix(kpfs, *words, **options):
    return kpfs("matrix", "--kernels", f"{KERNEL},{OTHER}", *words, **options)


def test_a_row_for_each_kernel(kpfs, tmp_path):
    script = "echo one; uname -r; hostname >rw/$$; exit 3"
    (tmp_path / "rw").mkdir()
    report = tmp_path / "report.xml"
    options = ["--jobs", "2", "--junit", report, "--rw", "rw"]
    done = matrix(kpfs, *options, "--", "sh", "-c", script, cwd=tmp_path)
    rows = [line.split() for line in done.stdout.splitlines()]
    assert done.returncode == 1
    assert [row[:2] for row in rows] == [[KERNEL, "3"], [OTHER, "3"]]
    assert all(row[4].startswith("6.1.") for row in rows), done.stdout
    suite = ElementTree.parse(report).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "2")
    case = suite[1]
    assert case.get("name") == OTHER
    assert [failure.get("message") for failure in case.iter("failure")] == ["status 3"]
    assert str(case.findtext("system-out")).startswith("one\n6.1.")


def test_json_for_programs(kpfs):
    done = matrix(kpfs, "--shard", "2/2", "--json", "--", "echo", "text")
    assert done.returncode == 0
    (row,) = json.loads(done.stdout)
    assert (row["kernel"], row["status"], row["output"]) == (OTHER, 0, "text\n")


def test_differences_are_shown(kpfs):
    script = "echo same; cat /proc/sys/kernel/random/boot_id; date +%N"
    done = matrix(kpfs, "--diff", "--", "sh", "-c", script)
    lines = done.stdout.splitlines()[2:]
    assert lines[:2] == [f"--- {KERNEL}", f"+++ {OTHER}"]
    assert " same" in lines


def test_nothing_is_left_of_one_that_is_killed(kpfs):
    command = kpfs.command(
        "matrix", "--kernels", KERNEL, "--jobs", "1", "--", "sleep", "999"
    )
    harness.kill_with_child(subprocess.Popen(command), "a run goes on")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--kernels", "none", "--", "true"], "no kernel none"),
        (["--kernels", KERNEL], "which command?"),
        (
            ["--kernels", KERNEL, "--shard", "3/2", "true"],
            "'3/2' is not I/N with I from 1 to N",
        ),
        (["--kernels", KERNEL, "--jobs", "0", "true"], "'0' is not a number from 1 on"),
        (["--kernels", KERNEL, "--junit", "/none/x", "true"], "/none/x: No such file"),
    ],
)
def test_wrong_use_is_told_in_one_line(kpfs, words, why):
    done = kpfs("matrix", *words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert why in done.stderr
