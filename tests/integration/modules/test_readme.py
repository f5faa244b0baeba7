# SPDX-License-Identifier: GPL-2.0-or-later
"""The steps of guest/README.md: write, build and load a module."""

import os
import re

import pytest

from tests import harness
from tests.modbox import ROOT, build, need_compiler

README = (ROOT / "guest" / "README.md").read_text()


def test_its_example(box):
    text = re.split(r"(?m)^(?=\S)", README.partition("    // hello.c\n")[2])[0]
    source = re.sub(r"(?m)^    ", "", text) + "\n"
    path = build("hello", source)
    box.insmod(path)
    assert box.list() == ["k vfs_read+0x0 [FTRACE]"]
    box.rmmod("hello")
    box.insmod(path, "symbol=vfs_write")
    assert box.list() == ["k vfs_write+0x0 [FTRACE]"]
    box.log()
    fd = box.syscall("openat", -100, "/a", 0o101, 0o644)
    buffer = box.kernel.guest.host_tasks.of_process(777_000, 0, "caller", 1).buffer
    assert box.syscall("write", fd, buffer, 1) == 1
    assert [re.sub(r"\(f+.*\)", "(x)", line) for line in box.log()] == [
        "caller[777000]: vfs_write(x)"
    ]
    box.rmmod("hello")


def test_it_names_what_is_shipped():
    shipped = {path.stem for path in (ROOT / "guest/image/modules").glob("*.ko")}
    named = set(re.findall(r"`(\w+)`", README)) & shipped
    assert shipped - named <= {"trace_printk"}
    assert len(named) >= 5


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("", 2, "build-module [-o FILE.ko] FILE.c"),
        ("-x hello.c", 2, "build-module: what is -x?"),
        ("nothing.c", 1, "nothing.c: No such file or directory"),
    ],
)
def test_wrong_use_of_build_module(tmp_path, words, status, said):
    need_compiler()
    tool = [ROOT / "scripts" / "build-module", *words.split()]
    done = harness.run(*tool, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (status, "")
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_no_compiler(tmp_path):
    (tmp_path / "m.c").touch()
    environment = {**os.environ, "CC": "no-such-cc"}
    tool = ROOT / "scripts" / "build-module"
    done = harness.run(tool, "m.c", cwd=tmp_path, env=environment)
    line = "build-module: no-such-cc is missing (Debian: apt install gcc)\n"
    assert (done.returncode, done.stderr) == (2, line)
