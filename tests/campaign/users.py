# SPDX-License-Identifier: GPL-2.0-or-later
"""Another user sets traps in the places where kpfs keeps its files.

The variables of the environment that name such places lead to directories in which
that user has made links, pipes, sockets and files with the names that kpfs uses. It
works, or one line says why not; it ends in time; a directory that only the victim may
write to stays as it was.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests import harness
from tests.campaign import processes
from tests.campaign.hunt import Hunt, Part
from tests.campaign.limits import Uses
from tests.harness import WrongError

VARIABLES = ("HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "TMPDIR")
# paths below such a directory that kpfs would make or use
NAMES = (
    *("kpfs", "kpfs/kpfs.log", "kpfs/venv", "kpfs/pyc"),
    *(".cache", ".cache/kpfs", ".cache/kpfs/kpfs.log"),
    *(f"kpfs-{os.getuid()}", f"kpfs-{os.getuid()}/x.lock"),
)


class Traps:
    """Makes directories full of traps as another user."""

    def __init__(self, hunt: Hunt) -> None:
        self.rng = hunt.rng
        self.scratch = hunt.scratch
        self.number = 0
        self.said: list[str] = []
        self.victim = hunt.scratch / "victim"
        self.victim.mkdir(mode=0o755)
        (self.victim / "kpfs.log").write_text("as it was\n")
        (self.victim / "file").write_text("as it was\n")
        self.kinds: dict[str, Callable[[Path], None]] = {
            "a directory": partial(os.mkdir, mode=0o777),
            "a private directory": partial(os.mkdir, mode=0o700),
            "a link to a directory": lambda path: path.symlink_to(self.victim),
            "a link to a file": lambda path: path.symlink_to(self.victim / "file"),
            "a link to nothing": lambda path: path.symlink_to(self.victim / "new"),
            "a link to itself": lambda path: path.symlink_to(path.name),
            "a pipe": lambda path: os.mkfifo(path, 0o666),
            "a file": Path.touch,
            "a second name": lambda path: path.hardlink_to(self.victim / "file"),
            "a socket": self.socket,
        }

    def socket(self, path: Path) -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            folder = os.open(path.parent, os.O_PATH)
            listener.bind(f"/proc/self/fd/{folder}/{path.name}")
            os.close(folder)

    def place(self) -> Path:
        """Return a directory with some traps, which the other user owns."""
        self.number += 1
        folder = self.scratch / f"trap{self.number}"
        folder.mkdir()
        mode = self.rng.choice((0o777, 0o1777, 0o755, 0o700))
        for name in self.rng.sample(NAMES, self.rng.randrange(1, 5)):
            kind = self.rng.choice(list(self.kinds))
            path = folder / name
            above = list(path.parents)[: name.count("/")]
            if any(os.path.lexists(each) for each in (path, *above)):
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            self.give(*above)
            self.kinds[kind](path)
            self.said.append(f"{path}: {kind}")
            if kind != "a second name":
                self.give(path)
        self.give(folder)
        folder.chmod(mode)
        self.said.append(f"{folder}: {mode:o}")
        return folder

    def give(self, *paths: Path) -> None:
        """Give files to the other user."""
        for path in paths:
            os.chown(path, harness.NOBODY, harness.NOBODY, follow_symlinks=False)

    def environment(self) -> dict[str, str]:
        """Return variables that lead there, or to nothing."""
        self.said.clear()
        found = {}
        for name in self.rng.sample(VARIABLES, self.rng.randrange(1, 4)):
            places = self.place, lambda: self.scratch / "none", lambda: Path("here")
            found[name] = str(self.rng.choices(places, (8, 1, 1))[0]())
        self.said += [f"{name}={value}" for name, value in found.items()]
        return found

    def check(self) -> None:
        """Raise WrongError if the victim's directory is not as it was."""
        there = {
            path.name: path.read_text() if stat.S_ISREG(path.lstat().st_mode) else "?"
            for path in self.victim.iterdir()
        }
        if there != {"kpfs.log": "as it was\n", "file": "as it was\n"}:
            raise WrongError(f"the victim's directory has changed: {there}")


def run(hunt: Hunt) -> None:
    if os.geteuid() != 0:
        hunt.did(hunt.number, "only root can be another user")
        return
    hunt.scratch.parent.parent.chmod(0o755)
    hunt.scratch.parent.chmod(0o755)
    traps, uses = Traps(hunt), Uses(hunt)
    before = {**uses.tries.environment, "KPFS_WARM": processes.WARM}
    names = [name for name in uses.table if name not in ("pytest", "kernel import")]

    def one() -> str:
        name = hunt.rng.choice(names)
        uses.tries.log = []  # the default, which is among the traps
        uses.tries.environment = {**before, **traps.environment()}
        traps.said.append(name)
        how = uses.table[name]([])
        traps.check()
        return how

    hunt.each(one, lambda: "\n".join(traps.said))


PART = Part("traps", 300, 1, run)
