# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.page.page."""

from kpfs.page.page import LONGEST, lines, page, text


def test_a_page_is_one_file():
    made = page("<&>", "<p>body</p>").decode()
    assert "<title>&lt;&amp;&gt;</title>" in made
    assert "default-src 'none'" in made
    assert "prefers-color-scheme:dark" in made.replace(" ", "")
    for elsewhere in ("<script", "<link", "<img", "url(", "http:", "https:", "/*"):
        assert elsewhere not in made


def test_what_a_browser_or_a_reader_would_obey_is_text():
    assert text("<b>&\"'") == "&lt;b&gt;&amp;&quot;&#x27;"
    assert text("\x1b[31mred\x1b[0m \x1b]0;title\a \u202e") == (
        "red \\x1b]0;title\\x07 \\u202e"
    )


def test_of_many_lines_the_first_and_the_last_ones_are_shown():
    numbers = [str(number) for number in range(1000)]
    assert lines(numbers, 10_000) == "\n".join(numbers)
    assert lines([], 10) == ""
    shown = lines(numbers, 60).splitlines()
    assert shown[:2] + shown[-2:] == ["0", "1", "998", "999"]
    (gap,) = (line for line in shown if line.startswith("<i>"))
    assert gap == f"<i>… {1000 - len(shown) + 1} lines are left out …</i>"
    assert lines(["a", "b" * 100, "c"], 40) == "a\n<i>… 1 lines are left out …</i>\nc"
    assert len(lines(["<" * (LONGEST + 5)], 1 << 20)) == 4 * LONGEST + 1
