# SPDX-License-Identifier: GPL-2.0-or-later
"""The command kpfs of this checkout, as measurements and tests run it."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
KPFS = ROOT / "scripts" / "kpfs"
TIMEOUT = 60  # s, for any one command
# switches an event on, on a function
EVENT = """
import os
tracing = os.environ["KPFS"] + "/tracing/"
def write(name, text):
    with open(tracing + name, "w") as file:
        file.write(text)
write("kprobe_events", "p:bench {}")
write("events/kprobes/enable", "1")
"""


@functools.cache
def prepare() -> None:
    """Run the command once, because its first use says on stderr what it prepares."""
    subprocess.run([str(KPFS), "completion", "bash"], capture_output=True, timeout=600)


class NotHereError(Exception):
    """Something that a measurement needs is missing; the text says what."""


class Command:
    """Runs the command, with a log of its own below the folder scratch."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.log = scratch / "kpfs.log"
        self.mounted: list[Path] = []
        prepare()

    def command(self, *words: str | Path) -> list[str]:
        """The command line: words, with our log added."""
        name, *rest = map(str, words)
        log = ["--log", str(self.log)] if name in ("mount", "run") else []
        return [str(KPFS), name, *log, *rest]

    def __call__(
        self, *words: str | Path, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end; stdout and stderr are kept."""
        options = {"capture_output": True, "text": True, "timeout": TIMEOUT, **options}
        return subprocess.run(self.command(*words), **options)

    def mount(self, *options: str) -> Path:
        """A new mount."""
        target = self.scratch / f"m{len(self.mounted)}"
        target.mkdir()
        done = self("mount", *options, target)
        assert (done.returncode, done.stderr) == (0, "")
        self.mounted.append(target)
        return target

    def finish(self) -> None:
        """Unmount all."""
        for target in self.mounted:
            self("umount", target)


def with_event(function: str) -> str:
    """The beginning of a program under ``kpfs run``: it has an event on."""
    return EVENT.format(function)
