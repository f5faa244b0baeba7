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


# wrong commands: command, errno ("" for none), text of the entry in error_log and column
# of its caret (None: no entry)
CATALOGUE = [
    *_recorded("154-error-log-catalogue-1"),
    *_recorded("155-error-log-catalogue-2"),
]

# fmt: off
# ruff: noqa: E501
# the event that FILTERS are of, on a function
FILTERED = r'p:e {} a=\5:s8 b=\"hello" c=$comm d=\-3:s32 e=\7:u64'
# filters of it, called by hitn on CPU 0: text,
# errno, whether a record was written, what the file showed then (None: the text)
FILTERS = [
    ('!(' * 1301 + 'e == 7' + ')' * 1301, '', False, None),
    ('b ~ "*lo"', '', True, None),
    ('b ~ "*lo*"', '', True, None),
    ('b ~ "*hell"', '', False, None),
    ('b ~ "hel[!o]o[!x]"', '', True, None),
    ('c ~ "*tn"', '', True, None),
    ('comm ~ "*tn"', '', False, None),
    ('comm ~ "!*tn"', '', True, None),
    ('comm ~ "*tn*"', '', True, None),
    ('comm ~ "*"', '', True, None),
    ('b ~ "**"', '', True, None),
    ('a == 5', '', True, None),
    ('a == 261', '', True, None),
    ('d < 0', '', True, None),
    ('d == -3', '', True, None),
    ('d == 0xfffffffd', '', True, None),
    ('e & 2', '', True, None),
    ('e & 8', '', False, None),
    ('b == hello', 'EINVAL', True, 'b == hello\n      ^\nparse_error: Invalid value (did you forget quotes)?\n'),
    ('b == "hello"', '', True, None),
    ('b == "hell"', '', False, None),
    ('b != "hello"', '', False, None),
    ('b ~ "h*"', '', True, None),
    ('b ~ "*ll*"', '', True, None),
    ('b ~ "*o"', '', True, None),
    ('b ~ "h?llo"', '', True, None),
    ('b ~ "[a-h]ello"', '', True, None),
    ('b ~ "!h*"', '', False, None),
    ('b ~ "hello"', '', True, None),
    ('b ~ "h*o"', '', True, None),
    ('a == 5 && d == 0', '', False, None),
    ('a == 5 || d == 0', '', True, None),
    ('!(a == 5)', '', False, None),
    ('a == 5 && !(d == 0 || e == 7)', '', False, None),
    ('a==5&&e>6', '', True, None),
    ('a ==5', '', True, None),
    ('c == "hitn"', '', True, None),
    ('comm == "hitn"', '', True, None),
    ('COMM ~ "hit*"', '', True, None),
    ('cpu == 0', '', True, None),
    ('CPU > 0', '', False, None),
    ('common_pid != 0', '', True, None),
    ('common_type == 0', '', False, None),
    ("c == 'hitn'", '', True, None),
    ('b == "a"b', 'EPERM', True, 'b == "a"b\n        ^\nparse_error: Too many terms in predicate expression\n'),
    ('', 'EINVAL', True, '\nError: (0)\n'),
    (' ', 'EINVAL', True, '\nError: (0)\n'),
    ('&& a == 1', 'EPERM', True, '&& a == 1\nError: (0)\n'),
    ('a == 1 &&', 'EINVAL', True, 'a == 1 &&\n         ^\nparse_error: Meaningless filter expression\n'),
    ('a == 1 ||', 'EINVAL', True, 'a == 1 ||\n         ^\nparse_error: Meaningless filter expression\n'),
    ('a == 1 b == 2', 'EPERM', True, 'a == 1 b == 2\n       ^\nparse_error: Too many terms in predicate expression\n'),
    ('a', 'EINVAL', True, 'a\n ^\nparse_error: Invalid operator\n'),
    ('a ==', 'EINVAL', True, 'a ==\n    ^\nparse_error: Invalid value (did you forget quotes)?\n'),
    ('a == ', 'EINVAL', True, 'a ==\n    ^\nparse_error: Invalid value (did you forget quotes)?\n'),
    ('a === 1', 'EINVAL', True, 'a === 1\n     ^\nparse_error: Invalid value (did you forget quotes)?\n'),
    ('a < "x"', 'EINVAL', True, 'a < "x"\n     ^\nparse_error: Illegal operation for field type\n'),
    ('b < "x"', 'EINVAL', True, 'b < "x"\n     ^\nparse_error: Illegal operation for field type\n'),
    ('b & 1', 'EINVAL', True, 'b & 1\n     ^\nparse_error: Expecting string field\n'),
    ('a ~ "5"', 'EINVAL', True, 'a ~ "5"\n     ^\nparse_error: Expecting numeric field\n'),
    ('a == 1)', 'EPERM', True, "a == 1)\n      ^\nparse_error: Too few '('\n"),
    ('(a == 1', 'ENOENT', True, "(a == 1\n^\nparse_error: Too many '('\n"),
    ('((a == 1)', 'ENOENT', True, "((a == 1)\n^\nparse_error: Too many '('\n"),
    ('!a == 1', '', True, None),
    ('!(a == 1', 'ENOENT', True, "!(a == 1\n ^\nparse_error: Too many '('\n"),
    ('a == x', 'EINVAL', True, 'a == x\n      ^\nparse_error: Invalid value (did you forget quotes)?\n'),
    ('a == 1x', 'EINVAL', True, 'a == 1x\n      ^\nparse_error: Illegal integer value\n'),
    ('a == -', 'EINVAL', True, 'a == -\n      ^\nparse_error: Illegal integer value\n'),
    ('a == 99999999999999999999999', 'EINVAL', True, 'a == 99999999999999999999999\n      ^\nparse_error: Illegal integer value\n'),
    ('a == 0x', 'EINVAL', True, 'a == 0x\n      ^\nparse_error: Illegal integer value\n'),
    ('nosuch', 'EINVAL', True, 'nosuch\n      ^\nparse_error: Field not found\n'),
    ('a == 1 & d == 2', 'EPERM', True, 'a == 1 & d == 2\n       ^\nparse_error: Too many terms in predicate expression\n'),
    ('a == 1 | d == 2', 'EPERM', True, 'a == 1 | d == 2\n       ^\nparse_error: Too many terms in predicate expression\n'),
    ('(a == 1))', 'EPERM', True, "(a == 1))\n        ^\nparse_error: Too few '('\n"),
    ('()', 'EINVAL', True, '()\nError: (0)\n'),
    ('( )', 'EINVAL', True, '( )\nError: (0)\n'),
    ('!', 'EINVAL', True, '!\n ^\nparse_error: No filter found\n'),
    ('!!(a == 1)', '', False, None),
    ('!(!(a == 5))', '', True, None),
    ('b == "', 'ESRCH', True, 'b == "\n     ^\nparse_error: Missing matching quote\n'),
    ('b == "x', 'ESRCH', True, 'b == "x\n     ^\nparse_error: Missing matching quote\n'),
    ('b == \'x"', 'ESRCH', True, 'b == \'x"\n     ^\nparse_error: Missing matching quote\n'),
    ('a != 5', '', False, None),
    ('a >= 5', '', True, None),
    ('a <= 4', '', False, None),
    ('a = 5', 'EINVAL', True, 'a = 5\n   ^\nparse_error: Invalid operator\n'),
    ('a ! 5', 'EINVAL', True, 'a ! 5\n   ^\nparse_error: Invalid operator\n'),
    ('a => 5', 'EINVAL', True, 'a => 5\n   ^\nparse_error: Invalid operator\n'),
    ('b ~ x', 'EINVAL', True, 'b ~ x\n     ^\nparse_error: Invalid value (did you forget quotes)?\n'),
    ('stacktrace == 1', 'EINVAL', True, 'stacktrace == 1\n           ^\nparse_error: Field not found\n'),
    ('common_pid == 1 junk', 'EPERM', True, 'common_pid == 1 junk\n                ^\nparse_error: Too many terms in predicate expression\n'),
    ('0', '', True, None),
    ('00', 'EINVAL', True, '00\n  ^\nparse_error: Field not found\n'),
    ('0 ', '', True, None),
    ('none', 'EINVAL', True, 'none\n    ^\nparse_error: Field not found\n'),
    ('1', 'EINVAL', True, '1\n ^\nparse_error: Field not found\n'),
    ('a == 5 # c', 'EPERM', True, 'a == 5 # c\n       ^\nparse_error: Too many terms in predicate expression\n'),
    ('e == 7 &&(d == -3)', '', True, None),
    ('a==5 && (b == "hello" || e==1) && c ~ "h*"', '', True, None),
    ('a == 5 && && d == 1', 'EPERM', True, 'a == 5 && && d == 1\nError: (0)\n'),
    ('a.b == 1', 'EINVAL', True, 'a.b == 1\n  ^\nparse_error: Invalid operator\n'),
    ('b == ""', '', False, None),
    ('common_flags & 1', '', False, None),
    ('e == 0x7', '', True, None),
    ('e == 07', '', True, None),
    ('e == +7', 'EINVAL', True, 'e == +7\n      ^\nparse_error: Invalid value (did you forget quotes)?\n'),
]
