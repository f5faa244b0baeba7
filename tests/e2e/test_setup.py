# SPDX-License-Identifier: GPL-2.0-or-later
"""The first use of a checkout: what scripts/setup.sh runs, what it refuses to run."""

import os

import pytest

from kpfs.cli import VERSION
from tests import harness

pytestmark = pytest.mark.long

PLANTED = ("ast", "ctypes", "json", "os", "pip", "re", "site", "subprocess", "venv")
PREPARES = "completion", "bash"  # a command that needs the packages as all do
PRINTED = (harness.ROOT / "kpfs/manual/completion.bash").read_text()
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


@pytest.fixture
def checkout(tmp_path):
    """A checkout that nothing was prepared in."""
    target = tmp_path / "checkout"
    target.mkdir()
    harness.copy_checkout(target)
    return target


def first_use(checkout, cwd, **environment):
    settings = {"PATH": PATH, **harness.pip_settings(), **environment}
    return harness.run(
        checkout / "scripts/kpfs",
        *PREPARES,
        cwd=cwd,
        env={name: value for name, value in settings.items() if value is not None},
        timeout=300,
    )


def shell(script, **environment):
    """Run a script that has sourced scripts/setup.sh."""
    return harness.run(
        "bash",
        "-euc",
        f"root={harness.ROOT}; . scripts/setup.sh; {script}",
        cwd=harness.ROOT,
        env={"PATH": PATH, **environment},
        timeout=60,
    )


def test_the_package_index_does_not_answer(checkout, tmp_path):
    done = first_use(
        checkout,
        tmp_path,
        HOME=str(tmp_path),
        PIP_CONFIG_FILE=os.devnull,
        PIP_INDEX_URL="http://127.0.0.1:9/simple",
        PIP_RETRIES="0",
        PIP_FIND_LINKS=None,
        PIP_NO_CACHE_DIR="1",
    )
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert "needs the Python package index" in last
    assert "pip download" in last


def test_only_files_with_known_hashes_are_installed(checkout, tmp_path):
    packages = checkout / "requirements" / "run.txt"
    packages.write_text(packages.read_text().replace("sha256:", "sha256:0000"))
    done = first_use(checkout, tmp_path, HOME=str(tmp_path))
    assert done.returncode == 2
    assert "pip failed" in done.stderr


def test_without_home_the_password_database_is_asked():
    done = shell('echo "$cache"')
    home = os.path.expanduser(f"~{harness.user_name()}")
    assert done.stdout == f"{home}/.cache/kpfs\n"


def test_a_cache_without_a_root_does_not_count():
    done = shell('echo "$cache"', XDG_CACHE_HOME="cache", HOME="/home/me")
    assert done.stdout == "/home/me/.cache/kpfs\n"
    done = shell('only_ours "cache"', HOME="/home/me")
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("flaw", ["writable", "owner", "link"])
def test_the_cache_of_somebody_else_is_refused(tmp_path, flaw):
    folder = tmp_path / "kpfs" / "venv"
    folder.mkdir(parents=True)
    asked = f'only_ours "{folder}"; echo trusted'
    assert shell(asked).stdout == "trusted\n"
    if flaw == "writable":
        folder.parent.chmod(0o777)
    elif os.geteuid() == 0 and flaw == "link":
        folder.parent.rename(tmp_path / "there")
        folder.parent.symlink_to(tmp_path / "there")
        os.lchown(folder.parent, harness.NOBODY, harness.NOBODY)
    elif os.geteuid() == 0:
        os.chown(folder, harness.NOBODY, harness.NOBODY)
    else:
        pytest.skip("only root can give a directory away")
    done = shell(asked)
    assert (done.returncode, done.stdout) == (2, "")
    assert "belongs to somebody else" in done.stderr
    assert done.stderr.count("\n") == 2  # an empty line, and the one that says it


def test_what_others_planted_is_not_run(checkout, tmp_path):
    """Neither modules nor, as after ``sudo scripts/kpfs``, an environment of others."""
    planted, traces = tmp_path / "planted", tmp_path / "traces"
    planted.mkdir()
    for name in PLANTED:
        code = f"open({str(traces)!r}, 'a').write({name!r})\n"
        (planted / f"{name}.py").write_text(code)
    theirs = checkout / ".venv"
    if os.geteuid() == 0:  # only root can give a directory away
        theirs.mkdir()
        os.chown(theirs, harness.NOBODY, harness.NOBODY)
    said, home = [], str(tmp_path)
    for _ in range(2):
        done = first_use(checkout, planted, HOME=home, PYTHONPATH=str(planted))
        assert (done.returncode, done.stdout) == (0, PRINTED)
        said += done.stderr.splitlines()
    assert not traces.exists()
    if os.geteuid() == 0:
        assert said[0] == f"kpfs: {theirs} belongs to nobody, and is left alone"
        assert said[1].startswith(f"kpfs: preparing {tmp_path}/.cache/kpfs/venv-")
        assert len([s for s in said if "belongs" in s or "prepar" in s]) == 2
        assert list(theirs.iterdir()) == []


def test_apt_does_not_trust_its_mirror(tmp_path):
    """The line says that it is apt, and what gives it a certificate."""
    (tmp_path / "apt-get").write_text(
        "#!/bin/sh\necho 'Certificate verification failed: ...' >&2; exit 100\n"
    )
    (tmp_path / "apt-get").chmod(0o755)
    script = f"home={tmp_path}; PATH={tmp_path}:$PATH; apt lz4 || echo failed"
    done = shell(script)
    assert done.stdout == "failed\n"
    assert "kpfs: apt: the server shows a certificate" in done.stderr
    assert "update-ca-certificates" in done.stderr


def test_apt_can_be_forbidden():
    assert shell("may_apt && echo yes || echo no", KPFS_NO_APT="1").stdout == "no\n"


@pytest.mark.parametrize(
    ("name", "key"),
    [
        *(("run", "dependencies"), ("top", "top"), ("docs", "docs")),
        *(("dev", "dependencies"), ("dev", "dev")),
    ],
)
def test_the_lists_have_all_packages_of_pyproject(name, key):
    packages = shell(f"home={harness.ROOT}/.venv; requirements {key}").stdout.split()
    listed = (harness.ROOT / "requirements" / f"{name}.txt").read_text()
    assert packages
    assert [p for p in packages if f"\n{p} \\\n" not in listed] == []


def test_input_that_is_a_directory(checkout):
    """Python itself would end with a fatal error of several lines."""
    command = '"$1" version </'
    done = harness.run("sh", "-c", command, "sh", checkout / "scripts/kpfs")
    told = "kpfs: standard input is a directory\n"
    assert (done.returncode, done.stderr) == (2, told)


def test_help_prepares_nothing(checkout, tmp_path):
    environment = {"PATH": PATH, "HOME": str(tmp_path / "none"), "KPFS_NO_APT": "1"}
    printed = {
        **dict.fromkeys(("--help", "top --help", "help run"), "usage: kpfs"),
        "kernel rm -h": "usage: kpfs",
        **dict.fromkeys(("-V", "version", "--version"), f"kpfs {VERSION}\n"),
    }
    for words, begin in printed.items():
        command = checkout / "scripts/kpfs", *words.split()
        done = harness.run(*command, env=environment)
        assert (done.returncode, done.stderr) == (0, ""), words
        assert done.stdout.startswith(begin), words
    assert not (checkout / ".venv").exists()
    assert not (tmp_path / "none").exists()
