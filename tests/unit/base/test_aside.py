# SPDX-License-Identifier: GPL-2.0-or-later
"""Files are made aside: they are there whole or not at all, and nothing is left."""

import errno
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


def test_room_is_looked_for_in_advance(monkeypatch, tmp_path):
    aside.check_room(str(tmp_path / "new"), 1 << 16)
    aside.check_room("/dev/full", 1 << 16)  # it tells nothing in advance
    with pytest.raises(IsADirectoryError):
        aside.check_room(str(tmp_path), 1)
    with pytest.raises(FileNotFoundError):
        aside.check_room(str(tmp_path / "none" / "new"), 1)

    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(OSError, match="No space"):
        aside.check_room(str(tmp_path / "new"), 1)
    assert os.listdir(tmp_path) == []


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
    assert [name[:5] for name in left] == [".kpfs", ".new-", "x"]  # the other's is left
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


@pytest.fixture(params=["limit", "disk"])
def narrow(request, tmp_path):
    """A folder, in which a file of 64 KiB has no room, and the command to be there."""
    if request.param == "limit":
        return tmp_path, ["sh", "-c", 'ulimit -f 64; exec "$@"', "sh"]
    mount = f"mount -t tmpfs -o size=64k none {tmp_path}"
    return tmp_path, ["unshare", "-rm", "sh", "-c", f'{mount} && exec "$@"', "sh"]


WRITER = """
import os, sys
from kpfs.base import aside
path, old = sys.argv[1], b"old" * 2000
for how, flags, then in (
    (aside.write_whole, 0, b"new"), (aside.append_whole, os.O_APPEND, old + b"new")
):
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | flags)
    for size in (1 << 17, 1 << 20):
        os.ftruncate(fd, 0)
        os.pwrite(fd, old, 0)
        try:
            how(fd, bytes(size))
        except OSError as error:
            print(error.strerror)
        assert os.pread(fd, 1 << 21, 0) == old
    how(fd, b"new")
    assert os.pread(fd, 1 << 21, 0) == then
"""


def test_a_file_is_as_it_was_where_there_is_no_room(narrow):
    folder, words = narrow
    done = harness.run(
        *words, sys.executable, "-c", WRITER, folder / "file", cwd=harness.ROOT
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert set(done.stdout.splitlines()) <= {
        "File too large",
        "No space left on device",
    }
    assert len(done.stdout.splitlines()) == 4


LATER = """
import os, sys
from kpfs.base.aside import LaterFile
new = b"new"
for before in (None, b"", b"old"):
    for data, then in ((None, before or b""), (new, new), (bytes(1 << 17), before)):
        for error in (None, ValueError):
            path = os.path.join(sys.argv[1], "file")
            if before is not None:
                with open(path, "wb") as file:
                    file.write(before)
            try:
                with LaterFile(path) as file:
                    if data:
                        file.write(data)
                    if error:
                        raise error
            except (OSError, ValueError):
                if data is None:
                    then = before
            have = open(path, "rb").read() if os.path.exists(path) else None
            assert have == then, (before, data and len(data), error, have)
            if have is not None:
                os.unlink(path)
"""


def test_a_file_that_is_written_later_is_as_it_was_if_it_is_not(narrow):
    folder, words = narrow
    done = harness.run(*words, sys.executable, "-c", LATER, folder, cwd=harness.ROOT)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_no_file_is_written_whole():
    end, begin = os.pipe()
    aside.write_whole(begin, b"text")
    aside.append_whole(begin, b"more")
    assert os.read(end, 100) == b"textmore"
    os.close(end)
    os.close(begin)
