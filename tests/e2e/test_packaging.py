# SPDX-License-Identifier: GPL-2.0-or-later
"""The recipes of packaging/ and debian/, as far as they can be tried here."""

import re
import shutil
import subprocess

import pytest

from kpfs.cli import COMMANDS
from tests import harness

PACKAGING = harness.ROOT / "packaging"


@pytest.fixture
def project(tmp_path):
    """One with a script that uses kprobes, and the Makefile."""
    shutil.copy(PACKAGING / "Makefile", tmp_path)
    (tmp_path / "test").mkdir()
    script = tmp_path / "test/probe.sh"
    script.write_text("echo p:e vfs_read >/sys/kernel/tracing/kprobe_events\n")
    return tmp_path


def make(project):
    return harness.run(
        "make", "-C", project, "check", f"KPFS={harness.KPFS}", timeout=harness.TIMEOUT
    )


@pytest.mark.fuse
@pytest.mark.skipif(not shutil.which("make"), reason="there is no make")
def test_the_makefile(project):
    done = make(project)
    assert (done.returncode, done.stderr) == (0, "")
    (project / "test/wrong.sh").write_text("false\n")
    assert make(project).returncode == 2


def test_recipes_name_commands_that_exist():
    """No option is left behind when the command line changes."""
    texts = [
        harness.ROOT / "action.yml",
        *(path for path in PACKAGING.iterdir() if path.is_file()),
    ]
    used = {
        word
        for path in texts
        for word in re.findall(r"\bkpfs ([a-z]+) (?:--|\S*$)", path.read_text(), re.M)
    }
    assert used <= set(COMMANDS)
    assert "run" in used


def run(words, cwd):
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("lintian"), reason="there is no lintian")
def test_the_debian_package(tmp_path):
    """Build the package: lintian finds nothing, and its contents work."""
    source = tmp_path / "kpfs-0"
    skip = shutil.ignore_patterns(".git", ".venv", "_build", "__pycache__", ".*_cache")
    shutil.copytree(harness.ROOT, source, symlinks=True, ignore=skip)
    run(["dpkg-buildpackage", "-us", "-uc"], source)
    # the project has no address at which mail is read
    quiet = "bogus-mail-host,bogus-mail-host-in-debian-changelog"
    changes = [str(path) for path in tmp_path.glob("*.changes")]
    options = ["--allow-root", "--fail-on=error,warning", f"--suppress-tags={quiet}"]
    run(["lintian", *options, *changes], tmp_path)
    (package,) = tmp_path.glob("*.deb")
    run(["dpkg-deb", "-x", str(package), "root"], tmp_path)
    program = (
        "import sys; sys.path.insert(0, 'usr/lib/kpfs'); import kpfs.cli as c; "
        "sys.exit(c.main(['run', '--', 'true']))"
    )
    run(["/usr/bin/python3", "-IS", "-c", program], tmp_path / "root")
