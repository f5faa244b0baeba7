# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs gdb``: start the user's gdb, attached to a kernel that listens for it."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from kpfs.base import places
from kpfs.base.errors import SetupError, told_to_user
from kpfs.gdb.sockets import GdbSocket, is_taken, sockets
from kpfs.host import mounts

if TYPE_CHECKING:
    from argparse import Namespace

# debuggers by architecture, the best first
_NATIVE = {
    "x86": "x86_64", "arm64": "aarch64", "riscv64": "riscv64", "s390x": "s390x",
    "ppc64": "ppc64le", "armhf": "arm", "i386": "i686", "mips64": "mips64el",
}  # fmt: skip
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "commands.gdb")
_GDB, _MULTIARCH = "gdb", "gdb-multiarch"
_SETTINGS = (
    "set confirm off",
    "set backtrace limit 100",  # one without call frame information may have no end
    "set remotetimeout 60",  # s; on a busy machine gdb would ask again after 2
)


def main(arguments: Namespace) -> int:
    """Become gdb; SetupError: there is nothing to attach to, or no gdb."""
    name, words = split(arguments.words)
    target = find(name)
    program = _debugger(target.arch)
    if is_taken(target.path):
        raise SetupError(f"gdb: another gdb is attached to pid {target.pid}")
    options = [word for line in _SETTINGS for word in ("-ex", line)]
    attach = "-x", SCRIPT, "-ex", f"target remote {target.path}", "-ex", "kpfs-symbols"
    os.execv(program, [program, "-q", *options, *attach, *words])


def split(words: list[str]) -> tuple[str, list[str]]:
    """Return DIR or PID, "" if there is none, and the words for gdb; SetupError."""
    if words[:1] == [""]:
        raise SetupError("gdb: DIR is empty (see 'kpfs gdb --help')")
    name = words[0] if words and not words[0].startswith("-") else ""
    rest = words[1:] if name else words
    if rest[:1] not in ([], ["--"]):
        raise SetupError(f"gdb: {rest[0]}: words for gdb come behind --")
    return name, rest[1:]


def find(name: str) -> GdbSocket:
    """Return the socket for a mount or a pid, or the only one there is; SetupError."""
    with told_to_user():
        found = {each.pid: each for each in sockets(places.runtime())}
    if name.isdecimal() and not os.path.lexists(name):
        if int(name) in found:
            return found[int(name)]
        raise SetupError(f"gdb: no kernel listens as pid {name} ({_listed(found)})")
    if name or "KPFS" in os.environ:
        return _of_mount(name or os.environ["KPFS"], found)
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        raise SetupError(
            "gdb: no kernel listens for it",
            "start one by 'kpfs mount --gdb DIR' or 'kpfs run --gdb'",
        )
    raise SetupError(f"gdb: several kernels listen ({_listed(found)}): say which one")


def _listed(found: dict[int, GdbSocket]) -> str:
    return f"pids {', '.join(map(str, found))}" if found else "none does"


def _of_mount(name: str, found: dict[int, GdbSocket]) -> GdbSocket:
    with told_to_user(name):
        entry = mounts.mount_at(os.path.realpath(name))
    pid = mounts.served_by(entry.source) if entry else 0
    if not pid:
        raise SetupError(f"gdb: {name}: no mount of kpfs")
    if pid not in found:
        raise SetupError(f"gdb: {name} was mounted without --gdb")
    return found[pid]


def _debugger(arch: str) -> str:
    """Return the path of a gdb that knows an architecture."""
    native = _NATIVE[arch] == os.uname().machine
    for name in (_GDB, _MULTIARCH) if native else (_MULTIARCH,):
        if (path := shutil.which(name)) is not None:
            return path
    package = _GDB if native else _MULTIARCH
    raise SetupError(f"{package} is missing (Debian: apt install {package})")
