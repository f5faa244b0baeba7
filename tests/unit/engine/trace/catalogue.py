# SPDX-License-Identifier: GPL-2.0-or-later
"""Wrong definitions of events and filters, with the answers of Linux 6.1."""

import re
from collections.abc import Iterator

from tests.harness import ROOT


def _recorded(case: str) -> Iterator[tuple[str, str, str | None, int | None]]:
    """Yield the commands of a recorded case, with what the kernel answered."""
    path = ROOT / "tests/conformance/cases" / case
    commands = path.with_suffix(".sh").read_text().split("<<'X'\n")[1].splitlines()
    answers = re.split("^write .* = ", path.with_suffix(".out").read_text(), flags=re.M)
    for command, answer in zip(commands[:-1], answers[1:], strict=True):
        result, *log = answer.splitlines()
        text = column = None
        if log:
            text, column = (
                log[0].split(" error: ")[1],
                len(log[-1]) - len("  Command: ^"),
            )
        yield command, result.partition(" ")[2], text, column


# wrong commands: command, errno ("" for none), text of the entry in error_log and the
# column of its caret (None: no entry)
CATALOGUE = [
    *_recorded("154-error-log-catalogue-1"),
    *_recorded("155-error-log-catalogue-2"),
]

# the event that FILTERS are of, on a function
FILTERED = r'p:e {} a=\5:s8 b=\"hello" c=$comm d=\-3:s32 e=\7:u64'


def _filters() -> Iterator[tuple[str, str, bool, str | None]]:
    yield "!(" * 1301 + "e == 7" + ")" * 1301, "", False, None
    for line in (ROOT / "tests/data/filters-6.1.tsv").read_text().splitlines()[1:]:
        text, error, recorded, shown = line.split("\t")
        yield text, error, recorded == "yes", shown.replace("\\n", "\n") or None


# filters of it, called by hitn on CPU 0: text, errno, whether a record was written, and
# what the file showed then (None: the text)
FILTERS = list(_filters())
