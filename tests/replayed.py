# SPDX-License-Identifier: GPL-2.0-or-later
"""Replays of seeds under gdb, which stops them, looks around and goes back."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kpfs.gdb.sockets import sockets
from tests import harness

_PATIENCE = 300  # s, on a machine that others use too
# stops where runs begin, at the plan's places, and behind each write to a place of the
# stack; goes back over some of that, and on again
_SCRIPT = """
set width 0
python
import re
told = gdb.execute("monitor search", to_string=True)
places = dict.fromkeys(re.findall(r"before (0x[0-9a-f]+)", told))
end
break do_init_module
break bpf_ksym_add
continue
monitor search
python
for at in [*places][:2]:
    gdb.execute(f"break *{at}")
end
break do_exit
continue
monitor search
python gdb.execute(f"watch *(long *){int(gdb.parse_and_eval('$sp')) - 8:#x}")
continue
continue
reverse-continue
monitor search
reverse-continue
continue
continue
delete
detach
"""


class GdbReplay(NamedTuple):
    """A replay that gdb has stopped."""

    status: int
    output: str
    errors: str
    said: str  # by gdb


def under_gdb(words: Sequence[str], folder: Path) -> GdbReplay:
    """Make a replay, by the words of a finding, that gdb stops again and again.

    folder: where the command has its files; AssertionError: gdb cannot attach.
    """
    runtime = folder / "gdb"
    runtime.mkdir(exist_ok=True)
    script = runtime / "script.gdb"
    script.write_text(_SCRIPT)
    at = list(words).index("--seed")
    options: dict[str, Any] = {
        "cwd": folder,
        "env": {**os.environ, "XDG_RUNTIME_DIR": str(runtime)},
        "text": True,
    }
    command = [f"{harness.KPFS}", *words[1:at], "--gdb-wait", *words[at:]]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, **options) as process:
        try:
            listens = runtime / f"kpfs-{os.getuid()}"
            harness.until(lambda: listens.exists() and sockets(str(listens)), "no gdb")
            gdb = [f"{harness.KPFS}", "gdb", "--", "-nx", "-batch", "-x", str(script)]
            done = subprocess.run(
                gdb, stdout=pipe, stderr=subprocess.STDOUT, timeout=_PATIENCE, **options
            )
            output, errors = process.communicate(timeout=_PATIENCE)
        finally:
            process.kill()
    return GdbReplay(process.returncode, output, errors, done.stdout)
