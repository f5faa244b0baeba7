# SPDX-License-Identifier: GPL-2.0-or-later
"""tracing/README: what is here, with the words that scripts look for."""

from __future__ import annotations

import os
import re

from kpfs.backends.guest.files.guest_file import GuestFile
from kpfs.fs.seqfile import ValueFile

TEXT = os.path.join(os.path.dirname(__file__), "readme.txt")
_PART = re.compile(r"^\[(\w*)\]\n", re.MULTILINE)  # with the option that it is about


def fetch_types() -> str:
    """Return the types of a fetch argument, as many to a line as there is room for."""
    import textwrap

    from kpfs.engine.trace.probe.fetch import type_names

    text = f"type: {', '.join(type_names())}"
    return textwrap.fill(
        text,
        width=76,
        initial_indent=" " * 13,
        subsequent_indent=" " * 19,
        break_on_hyphens=False,
    )


class Readme(GuestFile, ValueFile):
    """Kernel: tracing_readme_fops"""

    def show(self) -> str:
        config = self.kernel.config
        with open(TEXT, encoding="ascii") as file:
            _, *found = _PART.split(file.read())
        parts = zip(found[::2], found[1::2], strict=True)
        text = "".join(text for name, text in parts if not name or config.on(name))
        return text.replace("{fetch_types}", fetch_types())
