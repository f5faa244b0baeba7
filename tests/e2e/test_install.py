# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/install: what it puts below a prefix works, and goes again."""

import subprocess

import pytest

from kpfs.share import shared
from tests import harness

pytestmark = pytest.mark.long

INSTALL = harness.ROOT / "scripts/install"


def install(*words):
    return harness.run(INSTALL, *map(str, words), cwd="/")


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("install") / "a prefix"
    done = install("--prefix", folder)
    if "needs the Python package index" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"kpfs is installed: {folder}/bin/kpfs\n"
    return folder


@pytest.mark.fuse
def test_it_works_and_goes(prefix):
    command = [prefix / "bin/kpfs", "run", "--", "cat", "/proc/sys/kernel/osrelease"]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("-kpfs\n")
    for name, text in shared().items():
        assert (prefix / name).read_text() == text
    assert install("--remove", f"--prefix={prefix}").returncode == 0
    assert not [path for path in prefix.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--frob"], "what is --frob?"),
        (["--prefix"], "--prefix wants a directory"),
        (["--prefix=/proc/none"], "/proc/none cannot be made"),
    ],
)
def test_wrong_use(words, says):
    done = install(*words)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"kpfs: {says}")


def test_remove_where_there_is_none(tmp_path):
    done = install("--remove", "--prefix", tmp_path)
    assert done.returncode == 2
    assert "not installed" in done.stderr


def test_remove_stays_below_the_prefix(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "prefix/lib/kpfs").mkdir(parents=True)
    (tmp_path / "prefix/lib/kpfs/installed").write_text("bin/../../file\n../file\n")
    assert install("--remove", "--prefix", tmp_path / "prefix").returncode == 0
    assert (tmp_path / "file").exists()
