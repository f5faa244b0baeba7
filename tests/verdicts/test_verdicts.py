# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs's verdicts, held to those of the real kernel that a dump was taken of.

This also tests kpfs.engine.arch.arches, kpfs.engine.arch.x86.checks.verdicts,
kpfs.engine.judge and kpfs.engine.trace.probe.notrace.
"""

import csv
import os
from pathlib import Path

import pytest

from kpfs.base.errors import MemoryFault
from kpfs.explain.image import DumpedImage, read_functions
from kpfs.explain.verdicts import judge, judging_state
from tests.harness import ROOT
from tests.verdicts.__main__ import main
from tests.verdicts.supplement import OracleError, ask_oracle, needed_functions

SAMPLE = ROOT / "tests" / "data" / "optim"
FULL = Path(os.environ.get("KPFS_OPTIM", ROOT.parent / "shared" / "optim"))
MORE = ("--functions", SAMPLE / "more-functions.tsv", "--no-oracle")


def run(capsys, *argv):
    """(status, stdout, stderr) of python -m tests.verdicts."""
    status = main(list(map(str, argv)))
    return status, *capsys.readouterr()


def test_table_equals_the_kernels(capsys):
    status, out, err = run(capsys, SAMPLE, *MORE)
    assert out == (SAMPLE / "verdicts.tsv").read_text()
    assert (status, err) == (0, "")


def test_other_points():
    image = DumpedImage(SAMPLE)
    image.add(read_functions(SAMPLE / "more-functions.tsv"))
    st = judging_state(image, image.judge)
    wrong = []
    with (SAMPLE / "more-verdicts.tsv").open(newline="") as lines:
        points = list(csv.DictReader(lines, delimiter="\t"))
    for row in points:
        addr = int(row["addr"], 16) + int(row["offset"])
        verdict = judge(st, image.judge, addr)
        if (verdict.name, verdict.tag) != (row["verdict"], row["tags"]):
            wrong.append((row, verdict))
    assert not wrong
    assert len(points) > 200


@pytest.mark.slow
@pytest.mark.skipif(not FULL.is_dir(), reason=f"no {FULL}")
def test_full_table_equals_the_kernels(capsys):
    status, out, _ = run(capsys, FULL)
    assert out == (FULL / "verdicts.tsv").read_text()
    assert status == 0


def test_functions_missing_in_the_dump_are_not_guessed(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    status, out, err = run(capsys, SAMPLE, "--no-oracle")
    want = (SAMPLE / "verdicts.tsv").read_text().splitlines()
    differ = [
        (ours, real)
        for ours, real in zip(out.splitlines(), want, strict=True)
        if ours != real
    ]
    assert differ
    assert all(ours.endswith("\t?\t?") for ours, _ in differ)
    assert f"{len(differ)} rows not known" in err
    assert status == 1


# ---- what a dump lacks


def test_what_is_needed():
    image = DumpedImage(SAMPLE)
    lacking = read_functions(SAMPLE / "more-functions.tsv")[0]
    assert list(needed_functions(image, [lacking.addr + 1])) == [lacking.addr]
    image.add([lacking])
    assert not needed_functions(image, [lacking.addr + 1])


# ---- the oracle


def fake_oracle(tmp_path, functions, status=0):
    """A program that answers with the bytes of functions that it is asked for."""
    table = tmp_path / "table"
    table.write_text(
        "".join(
            f"{f.symbol}\t{f.addr:x}\t{f.size}\t{f.code.hex()}\n" for f in functions
        )
    )
    program = tmp_path / "run"
    program.write_text(
        "#!/bin/sh\n"
        f'sed -n "s/^show [^ ]* \\([0-9a-f]*\\) .*/\\1/p" "$1" | while read -r a; do\n'
        f'    grep "\t$a\t" {table}\ndone\nexit {status}\n'
    )
    program.chmod(0o755)
    return program


@pytest.fixture
def lacking(monkeypatch, tmp_path):
    """(image, functions it lacks), with an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    image = DumpedImage(SAMPLE)
    return image, read_functions(SAMPLE / "more-functions.tsv")[:3]


def test_oracle_fills_the_gaps_and_is_asked_once(capsys, lacking, tmp_path):
    image, _ = lacking
    everything = read_functions(SAMPLE / "more-functions.tsv")
    oracle = fake_oracle(tmp_path, [*image.functions, *everything])
    status, out, err = run(capsys, SAMPLE, "--oracle", oracle)
    assert str(oracle) in err
    assert out == (SAMPLE / "verdicts.tsv").read_text()
    oracle.write_text("#!/bin/sh\nexit 1\n")
    again = run(capsys, SAMPLE, "--oracle", oracle)
    assert again == (status, out, "")


def test_oracle_of_another_kernel_is_not_believed(lacking, tmp_path):
    image, more = lacking
    other = [fn._replace(code=b"\x90" * fn.size) for fn in [*image.functions, *more]]
    missing = needed_functions(image, [fn.addr for fn in more])
    with pytest.raises(OracleError, match="another kernel"):
        ask_oracle(image, missing, fake_oracle(tmp_path, other))
    with pytest.raises(MemoryFault):
        image.read(more[0].addr, 1)


def test_oracle_that_fails(capsys, lacking, tmp_path):
    image, more = lacking
    missing = needed_functions(image, [fn.addr for fn in more])
    with pytest.raises(OracleError, match="exit status 3"):
        ask_oracle(image, missing, fake_oracle(tmp_path, [], status=3))
    with pytest.raises(OracleError):
        ask_oracle(image, missing, tmp_path / "nonexistent")
    status, out, err = run(capsys, SAMPLE, "--oracle", tmp_path / "run")
    assert status == 1
    assert "\t?\t?\n" in out
    assert "exit status 3" in err
