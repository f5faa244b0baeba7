# SPDX-License-Identifier: GPL-2.0-or-later

import io
import os
import subprocess
import sys
import unicodedata

import pytest

from kpfs.base import shown as module
from kpfs.base.shown import ShownStream, guard_streams, raw, shown
from tests import harness


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plain \u00e9 \u4f60\tx\n", "plain \u00e9 \u4f60\tx\n"),
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("a\rb\x08\x7f\0", r"a\x0db\x08\x7f\x00"),
        ("\x9b31m\x90", r"\x9b31m\x90"),
        ("\u202eevil\u2066", r"\u202eevil\u2066"),
        (os.fsdecode(b"\xff.ko"), r"\xff.ko"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_a_terminal_would_obey_is_an_escape(text, said):
    assert shown(text) == said


def test_nothing_is_left_that_a_terminal_obeys():
    found = shown("".join(map(chr, range(0x11000))))
    left = {char for char in found if unicodedata.category(char) in ("Cc", "Cs")}
    assert left == {"\n", "\t"}
    assert "".join(map(chr, range(0x20, 0x7F))) in found
    found.encode()


def test_a_stream_writes_what_is_shown():
    below = io.StringIO()
    stream = ShownStream(below)
    print("a\x1b", "b\x07", sep="\n", file=stream)
    stream.writelines(["c\x9b", "\n"])
    stream.flush()
    assert below.getvalue() == "a\\x1b\nb\\x07\nc\\x9b\n"
    assert raw(stream) is below
    assert raw(below) is below


def test_both_streams_are_guarded_once(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys, "stderr", None)
    guard_streams()
    guarded = sys.stdout
    guard_streams()
    assert sys.stdout is guarded
    assert isinstance(guarded, module.ShownStream)
    assert sys.stderr is None


ESCAPE = "\x1b]0;x\x07"


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--kernel", ESCAPE, "--", "true"),
        ("run", "--gdb-at", f"/none/{ESCAPE}/x", "--", "true"),
        ("kernel", "show", ESCAPE),
        ("kernel", "rm", ESCAPE),
        ("kernel", "make", ESCAPE),
        ("kernel", "make", "x", "--deb", ESCAPE),
        ("kernel", "make", "x", "--oci", f"docker:{ESCAPE}"),
        ("kernel", "import", ESCAPE),
        ("matrix", "--kernels", ESCAPE, "--", "true"),
        ("explain", "--image", ESCAPE, "x"),
        ("explain", ESCAPE),
        ("umount", ESCAPE),
        ("mount", ESCAPE),
        ("gdb", ESCAPE),
        ("top", ESCAPE),
        (ESCAPE,),
        ("run", f"--{ESCAPE}"),
        ("kernel", "make", "6.1", "--mirror", f"http://127.0.0.1:9/{ESCAPE}"),
        ("kernel", "make", "6.1", "--mirror", ESCAPE),
    ],
)
def test_no_command_prints_an_escape_sequence(words, tmp_path):
    command = [sys.executable, "-c", "from kpfs.cli import script; script()", *words]
    done = subprocess.run(
        command,
        capture_output=True,
        cwd=tmp_path,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(harness.ROOT), "HOME": str(tmp_path)},
    )
    assert done.returncode
    said = done.stdout + done.stderr
    assert said
    assert b"\x1b" not in said
    assert b"Traceback" not in said
