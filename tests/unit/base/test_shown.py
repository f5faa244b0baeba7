# SPDX-License-Identifier: GPL-2.0-or-later

import errno
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
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    guard_streams()
    guarded = sys.stdout, sys.stderr
    guard_streams()
    assert (sys.stdout, sys.stderr) == guarded
    assert isinstance(guarded[0], module.ShownStream)


# writes what it has to say to its argument
CLOSED = """
import os, sys
from kpfs.base.shown import guard_streams
guard_streams()
said = open(sys.argv[1], "w")
print("to nowhere", file=sys.stderr, flush=True)
for fd, use in (0, lambda: os.read(0, 1)), (1, lambda: print("x", flush=True)):
    try:
        use()
    except OSError as error:
        print(fd, error.strerror, file=said)
print(min(said.fileno(), 3), sys.stdin.isatty(), sys.stdout.isatty(), file=said)
said.flush()
os._exit(5)
"""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_is_no_other_file(tmp_path, closed):
    said = tmp_path / "said"
    words = sys.executable, "-c", CLOSED, str(said)
    shell = "sh", "-c", f'exec "$@" {closed}', "sh"
    done = subprocess.run(
        (*shell, *words), stdin=subprocess.DEVNULL, capture_output=True, check=False,
        cwd=harness.ROOT, env={**os.environ, "PYTHONPATH": str(harness.ROOT)},
    )  # fmt: skip
    lost = {"<": "0 Bad file descriptor\n", " >": "1 Bad file descriptor\n"}
    told = "".join(lost[mark] for mark in lost if mark in f" {closed}")
    assert said.read_text() == f"{told}3 False False\n"
    assert done.returncode == 5


class Full(io.StringIO):
    def write(self, text):
        raise OSError(errno.ENOSPC, "")

    def flush(self):
        raise OSError(errno.ENOSPC, "")


def test_what_cannot_be_written_to_standard_error_is_no_error():
    print("lost", file=module.ErrorStream(Full()), flush=True)
    with pytest.raises(OSError, match="28"):
        print("lost", file=ShownStream(Full()))


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
