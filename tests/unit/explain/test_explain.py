# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs explain, held to the verdicts of the real kernel whose dump it judges."""

import argparse
import csv
import errno
import os
import re
from pathlib import Path

import pytest

from kpfs.engine.errors import MemoryFault
from kpfs.explain import command
from kpfs.explain.image import DumpedImage, needed_functions, read_functions
from kpfs.explain.supplement import OracleError, ask_oracle
from kpfs.host.mounts import SetupError

SAMPLE = Path(__file__).parents[2] / "data" / "optim"
PROJECT = Path(__file__).parents[3]
FULL = Path(os.environ.get("KPFS_OPTIM", PROJECT.parent / "shared" / "optim"))


def rows(path):
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


@pytest.fixture(scope="module")
def image():
    """The sample, with the functions it leans on."""
    image = DumpedImage(SAMPLE)
    image.add(read_functions(SAMPLE / "more-functions.tsv"))
    return image


@pytest.fixture
def explainer(image):
    return command.Explainer(command.judging_state(image, image.judge), image.judge)


def run(capsys, *argv):
    """(status, stdout, stderr) of kpfs explain."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    status = command.main(parser.parse_args(list(map(str, argv))))
    return status, *capsys.readouterr()


MORE = ("--functions", SAMPLE / "more-functions.tsv", "--no-oracle")


def test_table_equals_the_kernels(capsys):
    status, out, err = run(capsys, "--image", SAMPLE, "--all", *MORE)
    assert out == (SAMPLE / "verdicts.tsv").read_text()
    assert (status, err) == (0, "")


def test_other_points(image):
    st = command.judging_state(image, image.judge)
    wrong = []
    points = rows(SAMPLE / "more-verdicts.tsv")
    for row in points:
        verdict = command.judge(
            st, image.judge, int(row["addr"], 16) + int(row["offset"])
        )
        if (verdict.name, verdict.tag) != (row["verdict"], row["tags"]):
            wrong.append((row, verdict))
    assert not wrong
    assert len(points) > 200


@pytest.mark.slow
@pytest.mark.skipif(not FULL.is_dir(), reason=f"no {FULL}")
def test_full_table_equals_the_kernels(capsys):
    status, out, _ = run(capsys, "--image", FULL, "--all")
    assert out == (FULL / "verdicts.tsv").read_text()
    assert status == 0


def test_what_the_dump_lacks_is_not_guessed(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    status, out, err = run(capsys, "--image", SAMPLE, "--all", "--no-oracle")
    want = (SAMPLE / "verdicts.tsv").read_text().splitlines()
    differ = [
        (ours, real)
        for ours, real in zip(out.splitlines(), want, strict=True)
        if ours != real
    ]
    assert differ
    assert all(ours.endswith("\t?\t?") for ours, _ in differ)
    assert f"{len(differ)} rows not known" in err
    assert status == command.EXIT_REFUSED


# ---- in words


def point(explainer, want):
    """A point of the sample with that verdict and tag at some offset, and its words."""
    for row in rows(SAMPLE / "verdicts.tsv"):
        if (row["verdict"], row["tags"]) == want and int(row["offset"]) < int(
            row["size"]
        ):
            name = f"{row['symbol']}+{row['offset']}"
            return row, *explainer.explain(name)
    raise AssertionError(want)


def test_words_for_an_optimised_probe(explainer):
    _, verdict, words = point(explainer, ("ok", "OPTIMIZED"))
    assert f"[OPTIMIZED]: a jump replaces {verdict.jump.size} bytes" in words
    listed = [line for line in words.splitlines() if line.startswith("    ffffffff8")]
    assert sum(len(re.findall(r" [0-9a-f]{2}\b", line[20:52])) for line in listed) == (
        verdict.jump.size
    )


def test_words_for_an_ftrace_probe(explainer):
    row, verdict, words = point(explainer, ("ok", "FTRACE"))
    assert verdict.ftrace
    assert "[FTRACE]" in words
    assert f"{row['addr']}  0f 1f 44 00 00" in words


def test_words_mark_the_culprit(explainer):
    _, verdict, words = point(explainer, ("ok", "none"))
    assert verdict.jump.why_not in words
    culprit = [line for line in words.splitlines() if line.startswith("  > ")]
    assert f"{verdict.jump.culprit:x}" in culprit[0]


def test_words_for_a_refusal(explainer):
    row, verdict, words = point(explainer, ("EILSEQ", "-"))
    assert verdict.errno == errno.EILSEQ
    assert "refused, EILSEQ: not the start of an instruction" in words
    # the instruction that the address is in the midst of
    assert f"  > {int(row['addr'], 16):x}" in words


def test_unknown_symbol(explainer):
    verdict, words = explainer.explain("no_such_function+3")
    assert verdict.errno == errno.ENOENT
    assert "ENOENT: no symbol no_such_function" in words


def test_address_and_offset_forms():
    assert command.parse_point("vfs_read") == ("vfs_read", None, 0)
    assert command.parse_point("vfs_read+5") == ("vfs_read", None, 5)
    assert command.parse_point("vfs_read+0x10") == ("vfs_read", None, 16)
    assert command.parse_point("0xffffffff81000000+2") == (None, 0xFFFFFFFF81000002, 0)
    for bad in ("vfs_read+", "f+x", "12z"):
        with pytest.raises(SetupError):
            command.parse_point(bad)


def test_names_of_errnos():
    assert command.errno_name(errno.EOPNOTSUPP) == "EOPNOTSUPP"
    assert command.errno_name(errno.EILSEQ) == "EILSEQ"


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("--all",),
        ("--image", "/nonexistent", "--all"),
        ("--image", SAMPLE.parent, "--all"),
        ("--image", SAMPLE, "--functions", "/nonexistent", "--all"),
    ],
)
def test_wrong_use(capsys, argv):
    with pytest.raises(SetupError):
        run(capsys, *argv)


def test_points_on_the_command_line(capsys):
    known = rows(SAMPLE / "functions.tsv")[0]["symbol"]
    status, out, _ = run(capsys, "--image", SAMPLE, *MORE, known, "no_such_function")
    assert out.startswith(f"{known}: ")
    assert "no_such_function: refused, ENOENT" in out
    assert status == command.EXIT_REFUSED


@pytest.mark.guest
def test_points_of_our_own_guest(capsys):
    status, out, _ = run(capsys, "kfree", "kfree+1", "kfree+5")
    first, second, third = re.split(r"^(?=kfree)", out, flags=re.M)[1:]
    assert "accepted, [FTRACE]" in first
    assert "0f 1f 44 00 00" in first
    assert "refused, EILSEQ" in second
    assert "kfree+0x5 at 0xffffffff8" in third
    assert "accepted" in third
    assert status == command.EXIT_REFUSED


# ---- the image


def test_a_function_without_bytes():
    image = DumpedImage(SAMPLE)
    lacking = read_functions(SAMPLE / "more-functions.tsv")[0]
    with pytest.raises(MemoryFault):
        image.read(lacking.addr, 1)
    with pytest.raises(MemoryFault):
        image.ftrace_location(lacking.addr, lacking.addr)
    assert list(needed_functions(image, [lacking.addr + 1])) == [lacking.addr]
    image.add([lacking])
    assert image.read(lacking.addr, 4) == lacking.code[:4]
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
    image, more = lacking
    everything = read_functions(SAMPLE / "more-functions.tsv")
    oracle = fake_oracle(tmp_path, [*image.functions, *everything])
    status, out, err = run(
        capsys, "--image", SAMPLE, "--oracle", oracle, hex(more[0].addr)
    )
    assert str(oracle) in err
    assert f"{more[0].addr:x}" in out
    oracle.write_text("#!/bin/sh\nexit 1\n")
    again = run(capsys, "--image", SAMPLE, "--oracle", oracle, hex(more[0].addr))
    assert again == (status, out, "")


def test_oracle_of_another_kernel_is_not_believed(lacking, tmp_path):
    image, more = lacking
    other = [fn._replace(code=b"\x90" * fn.size) for fn in [*image.functions, *more]]
    missing = needed_functions(image, [fn.addr for fn in more])
    with pytest.raises(OracleError, match="another kernel"):
        ask_oracle(image, missing, fake_oracle(tmp_path, other))
    assert not image.has_code(more[0].addr)


def test_oracle_that_fails(capsys, lacking, tmp_path):
    image, more = lacking
    missing = needed_functions(image, [fn.addr for fn in more])
    with pytest.raises(OracleError, match="exit status 3"):
        ask_oracle(image, missing, fake_oracle(tmp_path, [], status=3))
    with pytest.raises(OracleError):
        ask_oracle(image, missing, tmp_path / "nonexistent")
    status, out, err = run(
        capsys, "--image", SAMPLE, "--oracle", tmp_path / "run", hex(more[0].addr)
    )
    assert status == command.EXIT_REFUSED
    assert "lacks the bytes" in out
    assert "exit status 3" in err
