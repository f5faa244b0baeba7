# SPDX-License-Identifier: GPL-2.0-or-later
"""A real kernel: calls that nobody sees are left out, and who looks finds the rest.

Tests kpfs.linux.kernel.watched, kpfs.linux.kernel.heads, kpfs.mirror.linux_tasks.
"""

import re
import sys
from collections import Counter

import pytest

from tests import harness

pytestmark = [pytest.mark.fuse, pytest.mark.kernel]

# what a script does before anybody looks, and then
SCRIPTS = {
    "a program": ("", "cat /etc/passwd >/dev/null"),
    "subshells": ("(:); (:)", "(:); (exit 3)"),
    "descriptors of before": (
        "exec 3</etc/passwd 4>/dev/null 5>&4",
        "read x <&3; echo hi >&4; echo ho >&5; exec 3<&- 4>&-; exec 5>&-",
    ),
    "descriptors that are gone": (
        "cat $T/trace; exec 7</etc/group; exec 7<&-; exec 7>/dev/null",
        "echo x >&7; (exec cat /etc/passwd 7<&- >/dev/null)",
    ),
    "the working directory": ("cd /usr/lib", "ls . >/dev/null; cd ..; ls lib"),
    "a child of before": ("(:)", 'sh -c "exec 8</etc/group; true; exec 8<&-"'),
    "files": (
        "mkdir $tmp/d; echo a >$tmp/d/a",
        "mv $tmp/d/a $tmp/d/b; cat $tmp/d/b; rm -r $tmp/d",
    ),
    "python": (
        "",
        f'{sys.executable} -ISc "import os; os.dup2(0, 9); os.close(9);'
        ' os.fork() or os._exit(0); os.wait()"',
    ),
}
ONE = """
sh -c '{before}
echo 1 >$T/events/raw_syscalls/sys_enter/enable
{then}
echo 0 >$T/events/raw_syscalls/sys_enter/enable' >/dev/null 2>&1
echo "=== {name}"
cat $T/trace
echo >$T/trace
"""
HIT = re.compile(r".*-(\d+) +\[\d+\] .* sys_enter: NR (\d+) ")
# By what the agent and its tasks wait, and how descriptors and directories are brought
# to where they are on the host; how often names are asked for is the host's affair.
OURS = frozenset(("3", "24", "72", "80", "202", "292", "332"))


@pytest.fixture(autouse=True)
def data(monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(harness.kernels()))


def run(kpfs, mode, script):
    options = "--quiet-guest", f"--mirror={mode}"
    done = kpfs("run", "--kernel", harness.KERNEL, *options, "--", "sh", "-c", script)
    assert done.stderr == ""
    return done.stdout


def calls(kpfs, tmp_path, mode, scripts):
    """How often each call was made, but by init, by script."""
    words = [f"T=/sys/kernel/tracing tmp={tmp_path}; export T tmp"]
    for name, texts in scripts.items():
        before, then = (text.replace("'", "'\\''") for text in texts)
        words.append(ONE.format(name=name, before=before, then=then))
    found: dict[str, Counter[str]] = {}
    counter: Counter[str] = Counter()
    for line in run(kpfs, mode, "\n".join(words)).splitlines():
        if line.startswith("=== "):
            found[line[4:]] = counter = Counter()
        elif (hit := HIT.match(line)) and hit[1] != "1" and hit[2] not in OURS:
            counter[hit[2]] += 1
    assert list(found) == list(scripts)
    return found


def test_who_looks_finds_what_he_would_have_found(kpfs, tmp_path):
    """What differs by what is left out does so each time.

    The mount may close a file so late, on a busy machine, that it stands in the way of
    the next one.
    """
    different, scripts = {}, SCRIPTS
    for attempt in ("1", "2", "3"):
        found = []
        for mode in ("always", "watched"):
            (folder := tmp_path / (mode + attempt)).mkdir()
            found.append(calls(kpfs, folder, mode, scripts))
        always, watched = found
        different = {
            name: (always[name], watched[name])
            for name in scripts
            if always[name] != watched[name] or sum(watched[name].values()) < 5
        }
        scripts = {name: SCRIPTS[name] for name in different}
        if not scripts:
            break
    assert different == {}
