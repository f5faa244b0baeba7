# SPDX-License-Identifier: GPL-2.0-or-later
"""The man pages and completions of an installation, below share/.

python -m kpfs.share DIR writes them to DIR/share and prints their paths in DIR.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kpfs import cli
from kpfs.manual import completion, man
from kpfs.manual.description import CommandDescription, describe

# the folder of each shell, below a prefix
COMPLETIONS = {
    "bash": "share/bash-completion/completions/kpfs",
    "zsh": "share/zsh/site-functions/_kpfs",
    "fish": "share/fish/vendor_completions.d/kpfs.fish",
}


def description() -> CommandDescription:
    """Describe the whole command line."""
    return describe(cli.make_parser(cli.COMMANDS))


def shared() -> dict[str, str]:
    """Return the texts by their paths below a prefix."""
    top = description()
    pages = man.pages(top, cli.VERSION, cli.RELEASED)
    files = {f"share/man/man1/{name}": text for name, text in pages.items()}
    for shell, path in COMPLETIONS.items():
        files[path] = completion.script(shell)
    return files


def write(prefix: str) -> list[str]:
    """Write all files below a prefix, and return their paths below it."""
    files = shared()
    for name, text in files.items():
        path = Path(prefix, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(files)


if __name__ == "__main__":
    print(*write(sys.argv[1]), sep="\n")
