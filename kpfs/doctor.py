# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs doctor``: says what works on this host, and what mends the rest.

Each check does the thing itself instead of looking for signs that it might work, in a
process of its own where it would change this one.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import NamedTuple, NoReturn

from kpfs.config import Settings
from kpfs.daemon import check_fuse, default_log
from kpfs.host.errors import SetupError

OK, LIMITED, BROKEN = "ok", "limited", "broken"
EXIT_BROKEN = 1
PATIENCE = 30.0  # s for one check
AGAIN = "install kpfs anew, by pip install --force-reinstall"
MTAB = "/etc/mtab"
TOOLS = ("trace-cmd", "perf", "bpftrace", "sysctl", "gdb")  # known to run


class Finding(NamedTuple):
    """The result of a check."""

    state: str  # BROKEN: without this 'kpfs run' does not work
    found: str
    mend: str = ""


class Check(NamedTuple):
    """A row of the table of checks."""

    name: str
    look: Callable[[], Finding]


def main(*, as_json: bool) -> int:
    """Print all findings. Return 1 if something is broken, else 0."""
    rows = []
    works = True
    for check in CHECKS:
        finding = check.look()
        works = works and finding.state != BROKEN
        rows.append({"name": check.name, **finding._asdict()})
        if not as_json:  # as soon as it is known
            print("\n".join(in_words(check.name, finding)), flush=True)
    if as_json:
        print(json.dumps({"works": works, "checks": rows}, indent=2))
    return 0 if works else EXIT_BROKEN


def in_words(name: str, finding: Finding) -> list[str]:
    """Return the lines of a finding that a user reads."""
    lines = [f"{finding.state:8} {name:11} {finding.found}"]
    if finding.mend:
        lines.append(f"{'':8} {'':11} mend: {finding.mend}")
    return lines


def attempt(action: Callable[[], object], state: str = BROKEN) -> Finding | None:
    """Return None if action succeeds, else a Finding of that state."""
    try:
        action()
    except SetupError as error:
        return Finding(state, error.cause, error.mend)
    except Exception as error:  # any error at all is a finding
        return Finding(state, str(error) or type(error).__name__)
    return None


def aside(action: Callable[[], object], state: str = BROKEN) -> Finding | None:
    """attempt() in a child, whose namespaces, filters and mounts end with it."""
    told, tell = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(told)
        _report(action, state, tell)
    os.close(tell)
    with os.fdopen(told, encoding="utf-8") as pipe:
        ready, _, _ = select.select([pipe], [], [], PATIENCE)
        if not ready:
            os.kill(pid, signal.SIGKILL)
        words = pipe.read() if ready else ""
    os.waitpid(pid, 0)
    if not words:
        return Finding(state, "it was killed" if ready else "it hangs")
    return None if words == "null" else Finding(*json.loads(words))


def _report(action: Callable[[], object], state: str, tell: int) -> NoReturn:
    try:
        finding = attempt(action, state)
        os.write(tell, json.dumps(finding).encode())
    finally:
        os._exit(0)


# ---- kpfs itself
def python() -> Finding:
    name, version = platform.python_implementation(), platform.python_version()
    words = f"{name} {version}, {sys.executable}"
    if find_spec("_lzma"):
        return Finding(OK, words)
    return Finding(
        LIMITED,
        f"{words}: built without lzma, which Linux kernels need",
        "a Python that was built where liblzma-dev was",
    )


def host() -> Finding:
    uname = os.uname()
    words = f"{uname.sysname} {uname.release}, {uname.machine}"
    if uname.machine == "x86_64":
        return Finding(OK, words)
    return Finding(
        LIMITED, f"{words}: system calls are mirrored on x86_64 alone", "kpfs mount"
    )


def packages() -> Finding:
    """Load the emulator and the disassembler."""

    def load() -> None:
        from kpfs.engine.arch import arches  # noqa: F401 it loads the disassembler
        from kpfs.guest.emu import cpu  # noqa: F401 and this the emulator

    wrong = attempt(load)
    if wrong:
        return wrong._replace(mend=wrong.mend or AGAIN)
    from importlib.metadata import PackageNotFoundError, version

    words = []
    for name in ("unicorn", "capstone", "zstandard"):
        with contextlib.suppress(PackageNotFoundError):
            words.append(f"{name} {version(name)}")
    return Finding(OK, ", ".join(words) or "unicorn and capstone")


def images() -> Finding:
    """Boot the guest kernel."""
    begin = time.monotonic()

    def boot() -> None:
        from kpfs.guest.machine import Guest

        Guest(1, quiet=True).close()

    wrong = attempt(boot)
    if wrong:
        return wrong._replace(mend=wrong.mend or AGAIN)
    return Finding(
        OK, f"the kernel boots, in {1e3 * (time.monotonic() - begin):.0f} ms"
    )


# ---- the host
def fuse_device() -> Finding:
    return attempt(check_fuse) or Finding(OK, "may be opened")


def fusermount() -> Finding:
    """Look for the program that mounts for an ordinary user outside a namespace."""
    from kpfs.host.fusemount import HELPERS

    found = next(filter(None, map(shutil.which, HELPERS)), None)
    if os.geteuid() == 0:
        return Finding(OK, found or "missing, and root needs none")
    if found and not os.path.exists(MTAB):
        return Finding(
            LIMITED,
            f"{found} mounts, but does not unmount where {MTAB} is missing",
            f"ln -s /proc/self/mounts {MTAB}, as root",
        )
    if found:
        return Finding(OK, found)
    return Finding(
        LIMITED, "missing: 'kpfs mount' needs it, 'kpfs run' not", "apt install fuse3"
    )


def namespaces() -> Finding:
    def enter() -> None:
        from kpfs.host.namespaces import enter_namespaces, lock_mounts

        enter_namespaces()
        lock_mounts()

    return aside(enter) or Finding(OK, "may be made")


def notification() -> Finding:
    """Install a filter that reports a command's system calls."""

    def install() -> None:
        from kpfs.mirror import seccomp

        seccomp.install_listener(())

    wrong = aside(install, LIMITED)
    if wrong is None:
        return Finding(OK, "may be installed")
    remedy = (
        "allow seccomp(2): --security-opt seccomp=unconfined; or do with --no-mirror"
    )
    return wrong._replace(mend=remedy)


def log() -> Finding:
    path = default_log()

    def write() -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "ab"):
            pass

    wrong = attempt(write, LIMITED)
    if wrong:
        return wrong._replace(mend="name another directory in XDG_CACHE_HOME")
    return Finding(OK, path)


# ---- what else is useful
def compilers() -> Finding:
    missing = [name for name in ("gcc", "ld", "make") if not shutil.which(name)]
    if not missing:
        return Finding(OK, "gcc, ld and make")
    words = f"no {' and no '.join(missing)}, which building modules needs"
    return Finding(LIMITED, words, "apt install gcc make")


def kernels() -> Finding:
    from kpfs.linux.store import store

    names = ", ".join(store.names())
    return Finding(OK, names or "none was made yet (kpfs kernel make 6.12)")


def tools() -> Finding:
    found = [name for name in TOOLS if shutil.which(name)]
    return Finding(OK, ", ".join(found) or "none; kpfs needs none")


def whole() -> Finding:
    """Run ``kpfs run -- true`` from beginning to end."""
    begin = time.monotonic()

    def run_true() -> None:
        from kpfs.run_command import run

        status = run(Settings(mirror=True), ["true"])
        if status:
            raise SetupError(
                f"'true' ended with status {status}", f"see {default_log()}"
            )

    wrong = aside(run_true)
    return wrong or Finding(OK, f"works, in {1e3 * (time.monotonic() - begin):.0f} ms")


CHECKS: Sequence[Check] = (
    Check("python", python),
    Check("host", host),
    Check("packages", packages),
    Check("images", images),
    Check("/dev/fuse", fuse_device),
    Check("fusermount", fusermount),
    Check("namespaces", namespaces),
    Check("seccomp", notification),
    Check("log", log),
    Check("compilers", compilers),
    Check("kernels", kernels),
    Check("tools", tools),
    Check("kpfs run", whole),
)
