# SPDX-License-Identifier: GPL-2.0-or-later
"""What is made aside: it is there whole or not at all, and nothing is left of it."""

import os
import signal
import subprocess
import sys

import pytest

from kpfs.base import aside
from tests import harness

# makes a folder and a file aside, and never comes to their ends
MAKER = """
import signal, sys
from kpfs.base import aside
with aside.folder(sys.argv[1], ".new-") as made, aside.replacing(sys.argv[2]) as file:
    file.write(b"half")
    file.flush()
    print("made", flush=True)
    signal.pause()
"""


def test_a_folder_goes_with_what_is_in_it(tmp_path):
    with aside.folder(str(tmp_path), ".new-") as made:
        open(f"{made}/file", "w").close()
        os.rename(f"{made}/file", tmp_path / "kept")
        os.mkdir(f"{made}/rest")
    assert os.listdir(tmp_path) == ["kept"]


def test_a_file_is_replaced_when_it_is_whole(tmp_path):
    path = tmp_path / "file"
    for text in (b"one", b"two"):
        with aside.replacing(str(path)) as file:
            file.write(text)
        assert path.read_bytes() == text
    with pytest.raises(TypeError), aside.replacing(str(path)) as file:
        file.writelines([b"three", None])  # type: ignore[list-item]
    assert (os.listdir(tmp_path), path.read_bytes()) == (["file"], b"two")
    umask = os.umask(0o022)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_link_leads_to_the_file_and_a_device_is_written_itself(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with aside.replacing(str(tmp_path / "link")) as file:
        file.write(b"text")
    assert (tmp_path / "file").read_bytes() == b"text"
    with aside.replacing("/dev/null") as file:
        file.write(b"text")
    assert not os.path.isfile("/dev/null")
    with pytest.raises(OSError, match="No space"), aside.replacing("/dev/full") as file:
        file.write(b"text")


def test_the_next_one_takes_away_what_a_killed_process_has_left(tmp_path):
    words = [sys.executable, "-c", MAKER, tmp_path, tmp_path / "file"]
    makers = [
        subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=harness.ROOT)
        for _ in range(2)
    ]
    for maker in makers:
        assert maker.stdout
        assert maker.stdout.readline() == "made\n"
    makers[0].kill()
    makers[0].wait()
    assert len(os.listdir(tmp_path)) == 4
    with aside.folder(str(tmp_path), ".new-"), aside.replacing(str(tmp_path / "x")):
        pass
    left = sorted(os.listdir(tmp_path))
    assert [name[:5] for name in left] == [".kpfs", ".new-", "x"]  # of the other
    makers[1].send_signal(signal.SIGKILL)
    makers[1].communicate()


def test_a_folder_of_somebody_else_stays(tmp_path):
    outside = tmp_path / "outside"
    (outside / "kept").mkdir(parents=True)
    place = tmp_path / "place"
    place.mkdir()
    (place / ".new-link").symlink_to(outside)
    if os.geteuid() == 0:
        (place / ".new-other").mkdir()
        os.chown(place / ".new-other", harness.NOBODY, harness.NOBODY)
    before = sorted(os.listdir(place))
    with aside.folder(str(place), ".new-"):
        pass
    assert sorted(os.listdir(place)) == before
    assert (outside / "kept").exists()
