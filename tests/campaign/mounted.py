# SPDX-License-Identifier: GPL-2.0-or-later
"""Mounts for the parts of the campaign, each with a log that is looked at."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests import harness
from tests.harness import WrongError


class Mounts:
    """The command, with mounts and logs below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.number = 0

    @contextlib.contextmanager
    def new(self, *options: str) -> Iterator[Path]:
        """Yield a mount. Raises WrongError if its daemon complains or does not end."""
        self.number += 1
        scratch = self.folder / f"mount{self.number}"
        scratch.mkdir()
        command = harness.Kpfs(scratch)
        target = command.mount(*options)
        daemon = harness.daemon_of(target)
        try:
            yield target
        finally:
            alive = harness.alive(daemon)
            done = command("umount", target)
        if not alive:
            raise WrongError(f"the daemon has died; {log_of(target)}")
        if (done.returncode, done.stderr) != (0, ""):
            raise WrongError(f"kpfs umount: {done.returncode} {done.stderr}")
        if harness.alive(daemon) or harness.is_mounted(target):
            raise WrongError("the daemon or the mount outlives kpfs umount")
        if lines := command.grave_lines():
            raise WrongError("the log complains: " + "\n".join(lines))


def log_of(target: Path) -> Path:
    """Return the path of the log of a mount's daemon."""
    return target.parent / "kpfs.log"
