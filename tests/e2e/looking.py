# SPDX-License-Identifier: GPL-2.0-or-later
"""Scripts in whose middle a watcher begins to look, and the hits that it then finds.

Leaving out calls that nobody sees must make no difference to the watcher.
"""

import sys
from collections import Counter
from collections.abc import Callable, Hashable
from pathlib import Path

# What a script does before anybody looks, and then.  No parent opens or closes anything
# while its child begins: the guest forks at the first call of the child, so it would
# depend on the faster one what that inherits.  Nor does it close anything while its
# child ends, as in x=$(...): where SIGCHLD comes before the close is received, the host
# itself gives it up with EINTR.  (From Python 3.12 on, os.fork() opens /proc/self/stat
# in the parent then.)
SCRIPTS = {
    "a program": ("", "cat /etc/passwd >/dev/null"),
    "subshells": ("(:); (:)", "(:); (exit 3)"),
    "descriptors of before": (
        "exec 3</etc/passwd 4>/dev/null 5>&4",
        "read x <&3; echo hi >&4; echo ho >&5; exec 3<&- 4>&-; exec 5>&-",
    ),
    "the working directory": ("cd /usr/lib", "ls . >/dev/null; cd ..; pwd; ls lib"),
    "a child of before": ("(:)", 'sh -c "exec 8</etc/group; true; exec 8<&-"'),
    "files": (
        "mkdir $tmp/d; touch $tmp/d/a",
        "ln -s a $tmp/d/l; mv $tmp/d/a $tmp/d/b; chmod 600 $tmp/d/b; rm -r $tmp/d",
    ),
    "python": (
        "",
        f"{sys.executable} -ISc \"import os; r, w = os.pipe(); os.write(w, b'x');"
        " os.read(r, 1); os.dup2(r, 9); os.close(9);"
        " os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)\"",
    ),
}
BEGIN = "T=/sys/kernel/tracing tmp={tmp}; export T tmp\n"
Found = dict[str, Counter[Hashable]]


def found(
    run: Callable[[str, str], str],
    mode: str,
    folder: Path,
    form: str,
    scripts: dict[str, tuple[str, str]],
    hits: Callable[[str], Counter[Hashable]],
) -> Found:
    """Return how often each script came to what is looked at.

    run: runs shell in a mode of --mirror.  form: the shell of one script; it prints
    "=== {name}", then what there is to see.  hits: what that says.
    """
    (tmp := folder / mode).mkdir(parents=True)
    words = [BEGIN.format(tmp=tmp)]
    for name, texts in scripts.items():
        before, then = (text.replace("'", "'\\''") for text in texts)
        words.append(form.format(name=name, before=before, then=then))
    parts = run(mode, "\n".join(words)).split("=== ")[1:]
    shown = (part.partition("\n") for part in parts)
    counted = {name: hits(text) for name, _, text in shown}
    assert list(counted) == list(scripts)
    return counted


def differences(always: Found, watched: Found) -> dict[str, dict[Hashable, object]]:
    """Return the hits that differ between both ways, by script."""
    both = {name: (always[name], watched[name]) for name in always}
    return {
        name: {hit: (one[hit], two[hit]) for hit in one | two if one[hit] != two[hit]}
        for name, (one, two) in both.items()
        if one != two
    }
