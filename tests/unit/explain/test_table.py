# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of points over kernels, of verdicts that are made here."""

from kpfs.explain.explainer import Fate
from kpfs.explain.table import table
from kpfs.explain.verdicts import Verdict


def fate(point, verdict, *, addr=1, by=(), ways=(), hints=()):
    return Fate(point, addr, verdict, dict(by), 1, dict(ways), [*hints]).for_json()


FTRACE, GONE = Verdict(0, "", ftrace=True), Verdict(2, "no symbol g")


def test_equal_kernels_share_a_column_and_equal_notes_a_line():
    """Addresses do not make kernels differ; what a whole kernel lacks is told once."""
    lacking = {
        "kprobe_multi": "the kernel lacks CONFIG_FPROBE",
        "fmod_ret": "not in it",
    }
    old = [fate("f", FTRACE, addr=1, ways=lacking), fate("g", FTRACE)]
    same = [fate("f", FTRACE, addr=2, ways=lacking), fate("g", FTRACE)]
    shared = Verdict(99, "2 symbols have this name")
    by = {"0x1": "accepted", "0x2": "accepted"}
    new = [fate("f", shared, by=by), fate("g", GONE, hints=["h now"])]
    last = [fate("f", FTRACE), fate("g", GONE, hints=["h now"])]
    assert table({"5": old, "6": same, "7": new, "8": last}).splitlines() == [
        "   5,6     7                    8",
        "f  FTRACE  EADDRNOTAVAIL [1,2]  FTRACE",
        "g  FTRACE  ENOENT [3]           ENOENT [3]",
        "",
        "[1] f: 2 symbols have this name",
        "[2] f: 2 by their addresses: accepted",
        "[3] g: h now",
        "no kprobe_multi where the kernel lacks CONFIG_FPROBE: 5, 6",
    ]
