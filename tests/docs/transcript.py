# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the commands that a page shows, and compares or renews their output.

A page is read from top to bottom, in an empty directory.  A block ``console`` has
commands behind ``$``, and behind ``#`` those that are typed in the shell which the
command ``kpfs run`` before them has started, up to ``# exit``.  A block ``sh`` before a
block ``text`` is one command, with its output.  Any other block whose first line is a
comment with the name of a file alone is written to that file.

python -m tests.docs.transcript PAGE... writes the output anew.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests import harness

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.M | re.S)
FILE_NAME = re.compile(r"(?:#|//|/\*) (\S+\.\w+)(?: \*/)?\n")
MARK = "@@ the output of a command ends here @@"
TIMEOUT = 120  # s, for all commands of a page
RUN = "kpfs run"

# what differs from run to run, and from one build of the kernel to the next
VOLATILE = (
    (re.compile("\N{NO-BREAK SPACE}"), " "),  # in pictures
    (re.compile(r"\b(?:[0-9a-f]{2} ){2,}"), "BYTES "),
    (re.compile(r"\b0x[0-9a-f]{3,}\b|\b[0-9a-f]{8,}\b"), "ADDRESS"),
    (re.compile(r"\d+(\.\d+)?"), "N"),
    (re.compile(r"[ \t]+"), " "),
)


class Step(NamedTuple):
    """A command of a page, or a file that it shows."""

    prompt: str  # "$" or "#"; "": a file
    words: str  # the command, or the file's name
    text: str  # the output that is shown, or the file's contents


def steps(block: re.Match[str]) -> Iterator[Step]:
    """Return the steps of a block."""
    language, body = block[1], block[2]
    if language == "sh" and block[3] is not None:
        yield Step("$", body.rstrip("\n"), block[3])
    elif language == "console":
        for part in re.split(r"^(?=[$#] )", body, flags=re.M):
            if part:
                head, _, output = part.partition("\n")
                yield Step(head[0], head[2:], output)
    elif name := FILE_NAME.match(body):
        yield Step("", name[1], body)


def play(page: str, folder: Path) -> list[str]:
    """The real output of each step of a page, in a folder that is empty."""
    outer: list[str] = []
    shells: list[list[str]] = []
    for step in all_steps(page):
        if not step.prompt:
            (folder / step.words).write_text(step.text)
            outer.append(":")
        elif step.prompt == "#":
            shells[-1].append(step.words)
        elif step.words == RUN:
            outer.append(f"echo '{MARK}'; {RUN} --cpus 1 -- bash .shell{len(shells)}")
            shells.append([])
        else:
            outer.append(step.words)
    for number, commands in enumerate(shells):
        assert commands[-1] == "exit", "the shell of kpfs run is never left"
        (folder / f".shell{number}").write_text(_script(commands))
    (folder / ".page").write_text(_script(outer))
    ours = f"{harness.ROOT / 'scripts'}:{Path(sys.executable).parent}"
    done = subprocess.run(
        ["bash", ".page"],
        env={
            **{k: v for k, v in os.environ.items() if k != "CI"},  # pytest looks at it
            "PATH": f"{ours}:{os.environ['PATH']}",
            # as if kpfs were installed, and with it the plugin of pytest
            "PYTHONPATH": str(harness.ROOT),
            "PYTEST_ADDOPTS": "-p kpfs.api.pytest_plugin -p no:cacheprovider",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "LC_ALL": "C.UTF-8",
        },
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.stderr == "", done.stderr
    said = re.sub(r"^\.\w+: line \d+: ", "bash: ", done.stdout, flags=re.M)
    return said.split(f"{MARK}\n")[:-1]


def _script(commands: list[str]) -> str:
    return "".join(f"{{ {words}\n}} 2>&1; echo '{MARK}'\n" for words in commands)


def all_steps(page: str) -> list[Step]:
    """The steps in the order of play()'s outputs: a shell's own behind its start."""
    return [step for block in BLOCK.finditer(page) for step in steps(block)]


def plain(output: str) -> str:
    """An output without what is volatile in it."""
    for pattern, word in VOLATILE:
        output = pattern.sub(word, output)
    return "\n".join(line.strip() for line in output.splitlines())


def renew(path: Path) -> None:
    """Write the real outputs into a page."""
    page = path.read_text()
    with tempfile.TemporaryDirectory() as folder:
        outputs = iter(play(page, Path(folder)))

    def fill(block: re.Match[str]) -> str:
        lines = []
        for step in steps(block):
            output = next(outputs)
            if not step.prompt:
                return block[0]
            if block[3] is not None:
                return f"```sh\n{step.words}\n```\n\n```text\n{output}```"
            if step.words != RUN:
                lines.append(f"{step.prompt} {step.words}\n{output}")
            else:
                lines.append(f"{step.prompt} {step.words}\n{step.text}")
        return f"```{block[1]}\n{''.join(lines)}```" if lines else block[0]

    path.write_text(BLOCK.sub(fill, page))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        renew(Path(name))
