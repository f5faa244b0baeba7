# SPDX-License-Identifier: GPL-2.0-or-later
"""On which options of a kernel's configuration its features hang.

options.tsv is made by scripts/kernel-options of the kernel's own sources.
"""

from __future__ import annotations

import os
from functools import cache

from kpfs.linux.package.config import is_on

TABLE = os.path.join(os.path.dirname(__file__), "options.tsv")
# kinds of features
FILE, TRACER, TRIGGER, DEFINITION = "file", "tracer", "trigger", "definition"
PROGRAM, MAP, HELPER, ATTACHMENT = "program", "map", "helper", "attachment"


@cache
def needed() -> dict[tuple[str, str], list[str]]:
    """Return the options that features need, by kind and name.

    A file has the last part of its path, and an event's definition its first letter.
    """
    # neither csv nor pathlib: a start has no time for them
    with open(TABLE, encoding="utf-8") as lines:
        _, *rows = (line.rstrip("\n").split("\t") for line in lines)
    return {(row[0], row[1]): row[2].split() for row in rows}


def lacking_for(config: str, kind: str, name: str) -> str:
    """Return the first option that a feature needs and a kernel lacks, else "".

    config: "" if the kernel does not say.
    """
    options = needed().get((kind, name), ()) if config else ()
    return next((f"CONFIG_{each}" for each in options if not is_on(config, each)), "")
