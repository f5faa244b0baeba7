# SPDX-License-Identifier: GPL-2.0-or-later
"""Seeds: kept, found, and compared with what there is now."""

import os

import pytest

from kpfs.base.errors import SetupError
from kpfs.linux.inside.request import RunRequest
from kpfs.linux.search import seed as seeds
from kpfs.linux.search.plan import Order, RunPlan

REQUEST = RunRequest(("./test", "1"), {"A": "1", "SHLVL": "3"}, "/tmp")
PLAN = RunPlan("walk", ("memory",), 5, (Order(1, 2, 3, 4, True),), (7,))


@pytest.fixture(autouse=True)
def data(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def found(files=None):
    request = seeds.searched(REQUEST)
    seed = seeds.without_run("6.1", "image", request)
    return seed._replace(plan=PLAN, digest="d", files=files or {})


def test_a_seed_is_found_by_its_name_and_by_its_file(tmp_path):
    name = seeds.keep(found())
    assert len(name) == 5
    assert seeds.find(name) == found()
    assert seeds.keep(found()) == name
    assert seeds.find(str(tmp_path / "kpfs/seeds" / f"{name}.json")) == found()


def test_two_seeds_that_begin_alike_get_longer_names(tmp_path):
    name = seeds.keep(found())
    (tmp_path / "kpfs/seeds" / f"{name}.json").write_text("{}")
    assert seeds.keep(found()) == found().whole_name[:6]


@pytest.mark.parametrize(
    ("text", "why"), [(None, "no such file"), ("{}", "is not a seed")]
)
def test_wrong_names(tmp_path, text, why):
    if text is not None:
        (tmp_path / "x.json").write_text(text)
    with pytest.raises(SetupError, match=why):
        seeds.find(str(tmp_path / "x.json"))
    with pytest.raises(SetupError, match=rf"there is no such seed in {tmp_path}"):
        seeds.find("s0000")


def test_variables_of_a_shell_do_not_count():
    request = seeds.replayed(
        REQUEST._replace(environment={"A": "1", "B": "2"}), found()
    )
    assert request.environment == {"A": "1"}
    now = seeds.without_run("6.1", "image", request)
    assert seeds.changes(found(), now) == []


def test_variables_of_a_shell_and_of_a_job_are_left_out():
    variables = {"SHLVL": "2", "GITHUB_RUN_ID": "7", "CI_JOB_ID": "8", "CI": "true"}
    request = seeds.searched(REQUEST._replace(environment=variables))
    assert request.environment == {"CI": "true"}


def test_what_has_changed_is_named(tmp_path):
    file = tmp_path / "file"
    file.write_text("1")
    gone = str(tmp_path / "gone")
    files = {**seeds.digests_of_files([str(file)]), gone: "0"}
    file.write_text("2")
    request = seeds.searched(REQUEST)._replace(
        argv=("./test", "2"), cwd="/", environment={"A": "2"}
    )
    now = seeds.without_run("6.1", "other", request)._replace(kpfs="0")
    assert seeds.changes(found(files), now) == [
        "the kernel 6.1 was made anew, and is another one",
        "it is of another version of kpfs",
        "its command is ./test 1",
        "it ran in /tmp",
        "the variable A has another value",
        f"{file} has changed",
        f"{gone} is missing",
    ]


def test_files_that_changed_since_a_moment(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    for path in (old, new):
        path.write_text("")
    os.utime(old, (50, 50))
    os.utime(new, (150, 150))
    paths = [str(old), str(new), str(tmp_path / "none"), "/dev/null"]
    assert seeds.changed_since(paths, 100) == [str(new)]


def test_no_room_for_a_seed_is_said_before_a_search(monkeypatch):
    monkeypatch.setattr(seeds, "_ROOM", 1 << 50)
    with pytest.raises(OSError, match=r"No space left|File too large"):
        seeds.check_room()


def test_a_directory_with_other_files_is_told_and_not_refused(tmp_path):
    folder = f"{tmp_path}/"
    digests = seeds.digests_of_files([folder])
    seed = found()._replace(files=digests)
    assert seeds.changed_directories(seed) == []
    (tmp_path / "new").touch()
    assert seeds.changed_directories(seed) == [folder]
    assert seeds.changes(seed, found()) == []
    assert seeds.changed_since([folder, str(tmp_path)], 0.0) == [folder]
