# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.commands.matrix_page, also as a browser shows it."""

import itertools

import pytest

from kpfs.commands.matrix import Row
from kpfs.commands.matrix_page import matrix_page
from kpfs.linux.running.features import Feature
from tests import browser

SAID = "a line\npid 1\n"
ROWS = (
    Row("6.1", "6.1.0-1", 0, 1.5, SAID, []),
    Row("6.1+preempt=full", "6.1.0-1", 0, 1.5, "a line\npid 22\n", []),
    Row(
        *("6.12", "6.12.1", 1, 2.5, "<script>fail()</script>\nlast\n"),
        *(["no <hist>", "x"], ["2 hits"]),
    ),
    Row("6.12+cpus=2", "6.12.1", 0, 1.0, SAID + "of two\n", []),
)
FEATURES = {
    name: [Feature("kernel", "release", name), Feature("file", "kprobe_events", "yes")]
    for name in ("6.1", "6.12")
}
FEATURES["6.12"].append(Feature("config", "CONFIG_X", "m"))


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))


def test_what_stands_on_the_page():
    page = matrix_page(["a", "<b>"], ROWS, FEATURES, "It was ended.").decode()
    for part in (
        "<code>a &lt;b&gt;</code>",
        "3 of 4 kernels pass",
        "It was ended.",
        '<th scope="col">preempt=full</th>',
        '<a href="#k2"><span class="chip bad">status 1</span></a>',
        "<b>because:</b> no &lt;hist&gt;",
        "<li>x</li>",
        "<b>lost:</b> 2 hits",
        "written the same as in 6.1, but",
        "&lt;script&gt;fail()",
        "<h3>What differs from 6.1</h3><pre>@@ -1,2 +1,2 @@\n<del>-a line</del>\n",
        "<td>6.12</td><td class=mono>CONFIG_X=m</td>",
    ):
        assert part in page, part
    assert "<script" not in page
    assert "kprobe_events" not in page  # all have it


def test_a_kernel_with_parameters_is_compared_with_the_one_without():
    rows = [*ROWS[:1], ROWS[2], ROWS[3]._replace(output="last\n")]
    page = matrix_page(["a"], rows, {}).decode()
    assert "<h3>What differs from 6.12</h3><pre>@@ -1,2 +1 @@\n<del>" in page


def test_kernels_without_parameters_need_no_second_table():
    assert "<table>" not in matrix_page(["a"], [ROWS[0], ROWS[2]], {}).decode()


@pytest.mark.parametrize("count", [1, 12, 40])
def test_a_page_stays_small(count):
    """Rows may differ in each of many lines, and these may be all escapes."""
    counter = itertools.count()
    rows = [
        Row(
            f"6.{number}",
            "6.1",
            1,
            1.0,
            "".join(f"{'<&>' * 99}{next(counter)}\n" for _ in range(2_400 // count)),
            ["<" * 999] * 20,
        )
        for number in range(count)
    ]
    size = len(matrix_page(["a"], rows, FEATURES))
    assert size < 300_000 + max(0, count - 12) * 25_000


@pytest.mark.browser
@pytest.mark.parametrize(
    ("width", "dark", "scripts"), [(1200, False, True), (360, True, False)]
)
def test_in_a_browser(tmp_path, width, dark, scripts):
    path = tmp_path / "page.html"
    long = ROWS[2]._replace(output="word" * 500, reasons=["n" * 400, "m" * 400])
    path.write_bytes(matrix_page(["x" * 300], [*ROWS[:2], long, ROWS[3]], FEATURES))
    look = {"width": width, "dark": dark, "scripts": scripts}
    with browser.opened(path, **look) as page:
        style = "getComputedStyle(document.documentElement)"
        colours = [page.value(f"{style}.{name}") for name in ("color", "background")]
        text, back = (sum(map(int, c[4:].split(")")[0].split(","))) for c in colours)
        assert (text > back) == dark, colours
        wide = "[document.documentElement.scrollWidth, innerWidth]"
        assert page.value(wide)[0] <= width
        failed = 'document.querySelector("#k2")'
        assert page.value(f"{failed}.open") is False
        assert page.value(f"{failed}.querySelector('pre').checkVisibility()") is False
        assert page.value(f"{failed}.querySelector('.told').checkVisibility()")
        page.click("#k2 summary")
        assert page.value(f"{failed}.open") is True
        assert page.value(f"{failed}.querySelector('pre').checkVisibility()")
        assert page.value(wide)[0] <= width  # long lines scroll by themselves
