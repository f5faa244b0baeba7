# SPDX-License-Identifier: GPL-2.0-or-later
"""The pages show what the commands print, and no link is dead."""

import re
import shutil

import pytest

from kpfs.cli import PITCH
from tests import harness
from tests.docs import pictures, transcript

DOCS = harness.ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
READ = [harness.ROOT / name for name in ("README.md", "AGENTS.md", "CONTRIBUTING.md")]
ROOMS = sorted(harness.ROOT.glob("*/README.md"))
WIDTH = 100  # width of lines of prose
SHOWN = [page for page in (*READ, *PAGES) if transcript.all_steps(page.read_text())]
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def name(page):
    return str(page.relative_to(DOCS if DOCS in page.parents else harness.ROOT))


@pytest.mark.fuse
@pytest.mark.guest
@pytest.mark.parametrize("path", SHOWN, ids=name)
def test_output_of_a_page(path, tmp_path):
    page = path.read_text()
    if "kpfs gdb" in page and shutil.which("gdb") is None:
        pytest.skip("there is no gdb")
    steps, outputs = transcript.all_steps(page), transcript.play(page, tmp_path)
    assert len(steps) == len(outputs)
    for step, output in zip(steps, outputs, strict=True):
        if step.prompt and step.words != transcript.RUN:
            shown = transcript.plain(step.text)
            assert (step.words, shown) == (step.words, transcript.plain(output))


def test_plain():
    line = "ffffffff81009385  e9 76 bc 08 3f   jmp 0xffffffffc0095000   # jump, was: x"
    assert transcript.plain(line) == "ADDRESS BYTES jmp ADDRESS # jump, was: x"
    assert transcript.plain(" cat-6279  [001] 0.15: e: (f+0x5/0xb0)\n") == (
        "cat-N [N] N: e: (f+NxN/NxbN)"
    )


def test_the_readme_shows_what_the_how_to_shows():
    """The output for which kernels of Debian are needed."""
    shown = re.search(
        r"^    kpfs explain --kernels(?:\n|    .*\n| .*\n)+", READ[0].read_text(), re.M
    )
    assert shown is not None
    page = (DOCS / "howto/refused.md").read_text()
    assert [line for line in shown[0].splitlines() if line not in page] == []


def test_the_readme_begins_with_what_the_help_says():
    for page in (READ[0], DOCS / "index.md"):
        assert page.read_text().split("\n\n")[1] == PITCH


def prose(page):
    """Return the lines of a page that are neither code nor rows of tables."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    return [line for line in text.splitlines() if not line.startswith(("|", "    "))]


@pytest.mark.parametrize("path", [*READ, *ROOMS, *PAGES], ids=name)
def test_lines_are_wrapped(path):
    long = [line for line in prose(path) if len(line) > WIDTH and " " in line]
    assert long == []


@pytest.mark.parametrize("path", [*READ, *PAGES], ids=name)
def test_links(path):
    for link in LINK.findall(path.read_text()):
        assert (path.parent / link).exists(), link


def test_each_page_is_in_the_table_of_contents():
    index = (DOCS / "index.md").read_text()
    listed = {f"{line}.md" for line in re.findall(r"^[\w/-]+$", index, re.M)}
    assert {name(page) for page in PAGES} == listed | {"index.md"}


@pytest.mark.fuse
@pytest.mark.guest
def test_pictures_show_what_is():
    """Apart from addresses and the like they are as scripts/docs draws them now."""
    for name, draw in pictures.pictures().items():
        drawn = transcript.plain((DOCS / name).read_text())
        assert transcript.plain(draw()) == drawn, name
