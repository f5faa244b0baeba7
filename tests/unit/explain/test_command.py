# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs explain on a dump: its words, and its command line.

What it says of every function is held to the real kernel's own words in tests/verdicts.
"""

import csv
import errno
import re
import sys
from functools import partial
from pathlib import Path

import pytest

from kpfs import cli
from kpfs.base.errors import SetupError
from kpfs.explain import command
from kpfs.explain.explainer import CYAN, Explainer, parse_point
from kpfs.explain.image import DumpedImage, read_functions
from kpfs.explain.verdicts import judging_state

SAMPLE = Path(__file__).parents[2] / "data" / "optim"


def rows(path):
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


@pytest.fixture(scope="module")
def image():
    return DumpedImage(SAMPLE)


@pytest.fixture
def explainer(image):
    return Explainer(judging_state(image, image.judge), image.judge)


def run(capsys, *argv):
    """(status, stdout, stderr) of kpfs explain."""
    status = command.main(cli.parse(["explain", *map(str, argv)]))
    return status, *capsys.readouterr()


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
    assert parse_point("vfs_read") == ("vfs_read", 0, 0)
    assert parse_point("vfs_read+5") == ("vfs_read", 0, 5)
    assert parse_point("vfs_read+0x10") == ("vfs_read", 0, 16)
    assert parse_point("0xffffffff81000000+2") == (None, 0xFFFFFFFF81000002, 0)
    assert parse_point("vfs_read+010") == ("vfs_read", 0, 8)
    for bad in (
        *("vfs_read+", "f+x", "12z", "f-5", "f+-5", "+5", "", "f+0x100000000", "f+08"),
        *("f+1+1", "0x10000000000000000"),
    ):
        with pytest.raises(SetupError, match="with an offset from 0 to 4294967295"):
            parse_point(bad)


@pytest.mark.parametrize("option", [[], ["--all"]])
def test_an_offset_past_the_function(capsys, image, option):
    """Nothing is said of other points, either."""
    known = image.lookup_name(rows(SAMPLE / "functions.tsv")[0]["symbol"])[0]
    behind = image.symbol_at(known.addr + known.size)
    point = f"{known.name}+{known.size:#x}"
    with pytest.raises(SetupError) as refused:
        run(capsys, "--image", SAMPLE, *option, known.name, point)
    said = f"explain: {point}: past the end of {known.name}, at {behind.name}"
    assert (str(refused.value), *capsys.readouterr()) == (said, "", "")


def test_a_name_of_several_symbols(image):
    """Older kernels took the first one."""
    name = next(n for n, at in image._names.items() if len(at) > 1 and "$" not in n)
    state = judging_state(image, image.judge)
    words = []
    for takes in (False, True):
        explainer = Explainer(state, image.judge, partial(bool, takes))
        words.append(explainer.explain(name)[1])
    assert f"{name}: refused, EADDRNOTAVAIL: " in words[0]
    assert "EADDRNOTAVAIL" not in words[1]


@pytest.mark.parametrize("folder", ["/nonexistent", SAMPLE.parent])
def test_no_image(capsys, folder):
    with pytest.raises(SetupError, match=r"no image in .*: No such file"):
        run(capsys, "--image", folder, "vfs_read")


def test_no_point(capsys):
    with pytest.raises(SetupError, match="required: SYMBOL"):
        run(capsys, "--image", SAMPLE)


def test_points_on_the_command_line(capsys):
    known = rows(SAMPLE / "functions.tsv")[0]["symbol"]
    status, out, _ = run(capsys, "--image", SAMPLE, known, "no_such_function")
    assert out.startswith(f"{known}: ")
    assert "no_such_function: refused, ENOENT" in out
    assert status == command.EXIT_REFUSED


def test_a_point_whose_bytes_the_dump_lacks(capsys):
    lacking = read_functions(SAMPLE / "more-functions.tsv")[0]
    status, out, err = run(capsys, "--image", SAMPLE, hex(lacking.addr))
    assert f"the image lacks the bytes of {lacking.symbol}" in out
    assert (status, err) == (command.EXIT_REFUSED, "")


def test_all_of_a_function(explainer):
    """One line for each instruction's start, with the verdict of a Linux kernel."""
    function = rows(SAMPLE / "verdicts.tsv")[0]["symbol"]
    said = {
        int(row["offset"]): row["tags"] if row["verdict"] == "ok" else row["verdict"]
        for row in rows(SAMPLE / "verdicts.tsv")
        if row["symbol"] == function and row["verdict"] != "EILSEQ"
    }
    number, words = explainer.explain_all(f"{function}+1", coloured=False)
    found = {}
    for line in words.splitlines()[1:]:
        tag, offset = line.split()[:2]
        found[int(offset, 16)] = tag
    assert number == 0
    assert words.startswith(f"{function}: ")
    assert found.items() >= said.items()


def test_all_of_what_is_not_there(capsys):
    status, out, err = run(capsys, "--image", SAMPLE, "--all", "no_such_function")
    assert out == "no_such_function: refused, ENOENT: no symbol no_such_function\n"
    assert (status, err) == (command.EXIT_REFUSED, "")


def test_colours_are_for_a_terminal(capsys, explainer, monkeypatch):
    known = rows(SAMPLE / "functions.tsv")[0]["symbol"]
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\033[" not in run(capsys, "--image", SAMPLE, "--all", known)[1]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert command.wants_colours(sys.stdout)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not command.wants_colours(sys.stdout)
    _, words = explainer.explain_all(known, coloured=True)
    assert f"\033[{CYAN}mFTRACE" in words
    assert "\033[" not in explainer.explain_all(known, coloured=False)[1]
