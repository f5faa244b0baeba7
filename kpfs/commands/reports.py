# SPDX-License-Identifier: GPL-2.0-or-later
"""Reports of commands in files: written whole or not at all."""

from __future__ import annotations

import re

from kpfs.base.aside import replacing
from kpfs.base.errors import told_to_user


def write_report(path: str, report: bytes) -> None:
    """Write a report, whole or not at all.  Raises SetupError."""
    with told_to_user(path), replacing(path) as file:
        file.write(report)


def for_xml(text: str) -> str:
    """Replace what XML does not allow."""
    return re.sub(r"[^\t\n\r -\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]", "?", text)
