# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs top on a mount: what it prints, and its screen with keys and mouse."""

import asyncio
import json
import re

import pytest
from textual.widgets import DataTable, Static

from kpfs.linux.store.image import read_meta
from kpfs.top.screen import Screen
from tests import harness

pytestmark = [pytest.mark.fuse, pytest.mark.guest]


@pytest.fixture
def probed(mount):
    """A mount with two probes that each read hits."""
    events = mount / "tracing/kprobe_events"
    events.write_text("p:entry vfs_read\np:inside vfs_read+5\n")
    (mount / "tracing/events/kprobes/enable").write_text("1")
    return mount


def test_once(kpfs, probed):
    done = kpfs("top", "--once", "--interval", "0.1", probed)
    assert (done.returncode, done.stderr) == (0, "")
    head, *rows = done.stdout.splitlines()
    assert head.split()[:3] == ["place", "type", "kind"]
    found = {row.split()[0]: row.split()[2] for row in rows}
    assert found["vfs_read+0x0"] == "ftrace"
    assert found["vfs_read+0x5"] in ("breakpoint", "jump")
    assert all(re.search(r"  ≈\d+\.\d\d us  kprobes/", row) for row in rows)


def test_without_a_terminal_it_is_a_table(kpfs, probed):
    done = kpfs("top", "--interval", "0.1", probed)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("place ")
    assert "\x1b" not in done.stdout


def test_json(kpfs, probed):
    done = kpfs("top", "--json", "--interval", "0.1", probed)
    rows = json.loads(done.stdout)
    assert {row["owner"] for row in rows} == {"kprobes/entry", "kprobes/inside"}
    assert all(row["hits"] > 0 and row["hits_per_s"] > 0 for row in rows)
    assert all(row["cost_us"] > 0 for row in rows)


def test_no_cost_of_what_is_not_hit(kpfs, probed):
    (probed / "kprobes/enabled").write_text("0")
    done = kpfs("top", "--json", "--interval", "0.1", probed)
    assert [row["cost_us"] for row in json.loads(done.stdout)] == [None, None]


def test_the_screen(probed):
    """The screen takes keys and the mouse, and bears a tree that goes away."""
    asyncio.run(use(probed))


async def use(tree):
    app = Screen(tree, interval=60)
    async with app.run_test(size=(120, 30)) as pilot:
        table = app.query_one("#table", DataTable)
        words = app.query_one("#words", Static)

        def below():
            shown = app.query_one("#below").has_class("shown")
            return str(words.content) if shown else ""

        assert table.row_count == 2
        await app.workers.wait_for_complete()  # which measure
        assert all(cell.plain.startswith("≈") for cell in table.get_column_at(8))
        rows = [probe.probe.place for probe in app.shown]
        await pilot.press("d")
        assert below().startswith("vfs_read:\n")
        assert "was:" in below()
        await pilot.press("escape")
        assert below() == ""
        await pilot.press("down", "e")
        assert below().startswith(f"{rows[1]}: vfs_read")
        assert "accepted" in below()
        await pilot.press("space")
        assert (tree / "kprobes/enabled").read_text() == "0\n"
        assert "all disarmed" in app.sub_title
        assert {rate.probe.kind for rate in app.rates} == {"disarmed"}
        await pilot.press("space")
        assert (tree / "kprobes/enabled").read_text() == "1\n"
        await pilot.press("escape", "s")
        assert app.by_rate
        await pilot.click("#table", offset=(5, 0))  # the head
        assert not app.by_rate
        await pilot.click("#table", offset=(5, 1))  # the first row
        assert app.chosen().place == rows[0]
        await pilot.press("q")
    assert app.return_code == 0


@pytest.mark.kernel
@pytest.mark.parametrize("made", [True, False])
def test_a_probe_of_a_linux_kernel_is_explained_by_that(tmp_path, monkeypatch, made):
    """The kernel is found by its release, if it was made here."""
    home = harness.kernels() if made else tmp_path
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    release = read_meta(
        str(harness.kernels() / "kpfs/kernels" / harness.KERNEL)
    ).release
    for name, text in {
        "sys/kernel/osrelease": f"{release}\n",
        "kprobes/list": "ffffffff81446920  k  vfs_read+0x0    [FTRACE]\n",
        "kprobes/enabled": "1\n",
        "tracing/kprobe_profile": "  e  3  0\n",
        "tracing/kprobe_events": "p:kprobes/e vfs_read\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    async def look():
        app = Screen(tmp_path, interval=60)
        async with app.run_test() as pilot:
            await pilot.press("e")
            return str(app.query_one("#words", Static).content)

    words = asyncio.run(look())
    if made:
        assert "also by kretprobe" in words
    else:
        assert words == f"explain: no kernel that was made is Linux {release}"


def test_a_tree_that_goes(kpfs, probed):
    async def look():
        app = Screen(probed, interval=60)
        async with app.run_test() as pilot:
            assert kpfs("umount", probed).returncode == 0
            app.sample()
            await pilot.pause()
        return app.return_code

    assert asyncio.run(look()) == 2
