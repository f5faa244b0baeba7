# SPDX-License-Identifier: GPL-2.0-or-later
"""Man pages: what is in them, and what the programs that read them say."""

import shutil
import subprocess

import pytest

from kpfs import cli
from kpfs.manual import man
from kpfs.share import description

PAGES = man.pages(description(), cli.VERSION, cli.RELEASED)


def shown(name, tmp_path):
    """A page as man(1) shows it."""
    path = tmp_path / name
    path.write_text(PAGES[name])
    settings = {"MANWIDTH": "80", "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    command = ["man", "--warnings", "-l", str(path)]
    done = subprocess.run(command, env=settings, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_one_for_each_command():
    assert set(PAGES) == {"kpfs.1", *(f"kpfs-{name}.1" for name in cli.COMMANDS)}


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.skipif(not shutil.which("mandoc"), reason="there is no mandoc")
def test_mandoc_complains_of_nothing(name):
    done = subprocess.run(
        ["mandoc", "-Tlint"], input=PAGES[name], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.skipif(not shutil.which("man"), reason="there is no man")
def test_what_man_shows(tmp_path):
    text = shown("kpfs-run.1", tmp_path)
    assert "kpfs run [OPTION...] [--] [CMD [ARG...]]" in text
    assert "--config NAME=VALUE" in text
    assert "  OPTPROBES=y " in text
    assert "--deb FILE" in shown("kpfs-kernel.1", tmp_path)
    top = shown("kpfs.1", tmp_path)
    assert "echo 'p:e vfs_read' > m/tracing/kprobe_events" in top
    assert "kpfs-explain(1)" in top


def test_text_is_no_request():
    assert man.escape(".SH") == r"\&.SH"
    assert man.escape("'a' -b \\") == r"\&'a' \-b \e"
