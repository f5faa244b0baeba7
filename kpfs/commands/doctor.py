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
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from kpfs.base import limits, places
from kpfs.base.errors import SetupError
from kpfs.base.signals import SignalledError, fork, raised
from kpfs.commands.daemon import check_fuse, default_log
from kpfs.config import Settings
from kpfs.host import instead
from kpfs.host.instead import MTAB
from kpfs.host.process import die_with_parent

if TYPE_CHECKING:
    from argparse import Namespace

OK, LIMITED, BROKEN = "ok", "limited", "broken"
EXIT_BROKEN = 1
PATIENCE = 30.0  # s for one check
AGAIN = "install kpfs anew, by pip install --force-reinstall"
UNCONFINED = (
    "allow seccomp(2): --security-opt seccomp=unconfined; or do with --no-mirror"
)
TOOLS = ("trace-cmd", "perf", "bpftrace", "sysctl", "gdb")  # known to run


class Finding(NamedTuple):
    """The result of a check."""

    state: str  # BROKEN: without this 'kpfs run' does not work
    found: str
    mend: str = ""


class Check(NamedTuple):
    """A row of the table of checks."""

    name: str
    look: Callable[[], str | Finding]  # returns what it found, or raises any error
    state: str = BROKEN  # if it raises one
    mend: str = ""  # likewise, where the error does not say
    aside: bool = False  # in a child, whose namespaces, filters and mounts end with it


def main(arguments: Namespace) -> int:
    """Print all findings. Return 1 if something is broken, else 0."""
    rows = []
    works: bool | None = True
    signalled = None
    try:
        with raised():
            for check in CHECKS:
                finding = find(check)
                works = works and finding.state != BROKEN
                rows.append({"name": check.name, **finding._asdict()})
                if not arguments.json:  # as soon as it is known
                    print("\n".join(in_words(check.name, finding)), flush=True)
    except SignalledError as error:
        signalled, works = error, None  # nobody knows
    if arguments.json:
        print(json.dumps({"works": works, "checks": rows}, indent=2), flush=True)
    if signalled:
        raise signalled
    return 0 if works else EXIT_BROKEN


def in_words(name: str, finding: Finding) -> list[str]:
    """Return the lines of a finding that a user reads."""
    lines = [f"{finding.state:8} {name:11} {finding.found}"]
    if finding.mend:
        lines.append(f"{'':8} {'':11} mend: {finding.mend}")
    return lines


def find(check: Check) -> Finding:
    """Carry out a check."""
    if not check.aside:
        return _attempt(check)
    told, tell = os.pipe()
    parent = os.getpid()
    pid = fork()
    if not pid:
        os.close(told)
        die_with_parent(parent)
        _report(check, tell)
    os.close(tell)
    with os.fdopen(told, encoding="utf-8") as pipe:
        ready, _, _ = select.select([pipe], [], [], PATIENCE)
        if not ready:
            os.kill(pid, signal.SIGKILL)
        words = pipe.read() if ready else ""
    os.waitpid(pid, 0)
    if not words:
        why = "it was killed" if ready else "it hangs"
        return Finding(check.state, why, check.mend)
    return Finding(*json.loads(words))


def _attempt(check: Check) -> Finding:
    try:
        found = check.look()
    except SetupError as error:
        return Finding(check.state, error.cause, error.mend or check.mend)
    except Exception as error:  # any error at all is a finding
        return Finding(check.state, str(error) or type(error).__name__, check.mend)
    return Finding(OK, found) if isinstance(found, str) else found


def _report(check: Check, tell: int) -> NoReturn:
    try:
        os.write(tell, json.dumps(_attempt(check)).encode())
    finally:
        os._exit(0)


# ---- kpfs itself
def python() -> str:
    name, version = platform.python_implementation(), platform.python_version()
    return f"{name} {version}, {sys.executable}"


def host() -> str:
    uname = os.uname()
    return f"{uname.sysname} {uname.release}, {uname.machine}"


def lacks() -> str | Finding:
    """Look up what differs from Linux only because this host lacks something."""
    from kpfs.manual import differs

    rows = [row.here for row in differs.on_this_host()]
    return Finding(LIMITED, " ".join(rows)) if rows else "nothing"


def packages() -> str:
    """Load the emulator and the disassembler."""
    from importlib.metadata import PackageNotFoundError, version

    from kpfs.engine.arch import arches  # noqa: F401 it loads the disassembler
    from kpfs.guest.emu import cpu  # noqa: F401 and this the emulator

    words = []
    for name in ("unicorn", "capstone", "zstandard"):
        with contextlib.suppress(PackageNotFoundError):
            words.append(f"{name} {version(name)}")
    return ", ".join(words) or "unicorn and capstone"


def images() -> str:
    """Boot the guest kernel."""
    from kpfs.guest.machine import Guest

    begin = time.monotonic()
    Guest(1, quiet=True).close()
    return f"the kernel boots, in {1e3 * (time.monotonic() - begin):.0f} ms"


def counting() -> str | Finding:
    """Find out how blocks of code are counted, by a machine for a Linux kernel."""
    from mmap import mmap

    from kpfs.base import abi
    from kpfs.base.units import PAGE_SIZE
    from kpfs.emulator import libunicorn
    from kpfs.linux.board.board import Board

    board = Board(mmap(-1, PAGE_SIZE), mmap(-1, abi.REGION_SIZE))
    tracks, finds = board.tracks, libunicorn.finds(board.address)
    board.close()
    if not tracks:
        return Finding(
            LIMITED,
            "libunicorn checks each store for changes of code, as it is not the known "
            "one: what runs in Linux kernels takes up to four times as long",
        )
    if finds:
        return "libunicorn counts blocks of code, and kpfs finds the next one for it"
    return "libunicorn counts blocks of code"


# ---- the host
def fuse_device() -> str:
    check_fuse()
    return "may be opened"


def libfuse() -> str:
    """Load fusepy or its heir, and libfuse: for one of the mount's transports."""
    from kpfs.fs.fuse import libfuse

    return f"libfuse {libfuse.version()} by {libfuse.fuse.__name__}"


def fusermount() -> str | Finding:
    """Look for the program that mounts for an ordinary user outside a namespace.

    Root needs none, if mount(2) is not refused, as in a container.
    """
    from kpfs.host.mounts import fusermount
    from kpfs.host.namespaces import instead_of_mount

    found = fusermount()
    if os.geteuid() == 0:
        if not instead.may_mount():
            words = "mount(2) is refused, so 'kpfs mount' does not mount"
            mend = f"a container needs --cap-add SYS_ADMIN; {instead_of_mount()}"
            return Finding(LIMITED, words, mend)
        return found or "missing, and root needs none"
    if found and not os.path.exists(MTAB):
        return Finding(
            LIMITED,
            f"{found} does not unmount without {MTAB}, so 'kpfs mount' does not mount",
            f"ln -s /proc/self/mounts {MTAB}, as root",
        )
    return found or Finding(
        LIMITED, "missing: 'kpfs mount' needs it", "apt install fuse3"
    )


def namespaces() -> str:
    from kpfs.host.namespaces import enter_namespaces, lock_mounts

    enter_namespaces()
    lock_mounts()
    return "may be made"


def notification() -> str:
    """Install a filter that reports a command's system calls."""
    from kpfs.mirror import seccomp

    seccomp.install_listener(())
    return "may be installed"


def log() -> str:
    path = default_log()
    places.make(os.path.dirname(path))
    with open(path, "ab"):
        return path


# ---- what else is useful
def compilers() -> str | Finding:
    missing = [name for name in ("gcc", "ld", "make") if not shutil.which(name)]
    if not missing:
        return "gcc, ld and make"
    words = f"no {' and no '.join(missing)}, which building modules needs"
    return Finding(LIMITED, words, "apt install gcc make")


def kernels() -> str:
    """Return their names, and what surprises in some of them."""
    from kpfs.linux.store import store

    names = store.names()
    said = [", ".join(names) or "none was made yet (kpfs kernel make 6.12)"]
    said += [f"{name} {limits}" for name in names if (limits := _limits(name))]
    return "; ".join(said)


def _limits(name: str) -> str:
    """Return what a kernel cannot do as it was built; "" if nothing surprises."""
    from kpfs.linux.arch.arches import ARCHES
    from kpfs.linux.errors import UnfitError
    from kpfs.linux.store import image, store

    try:
        folder = store.folder(name)
        config = image.read_config(folder)
        return ARCHES[image.read_meta(folder).arch].limits(config)
    except (OSError, UnfitError):
        return ""  # 'kpfs kernel list' says what is wrong


def inside() -> str:
    """Run ``true`` inside a Linux kernel, which needs neither FUSE nor namespaces."""
    from kpfs.config import KernelChoice
    from kpfs.inside.start import run
    from kpfs.linux.store import store

    words = instead.inside().strip("'")
    name = words.split()[3]
    if name not in store.names():
        return f"needs a kernel, and no /dev/fuse, and no namespaces: {words} -- CMD"
    begin = time.monotonic()
    choice = KernelChoice(name, quiet=False)
    if status := run(choice, ["true"], []):
        raise SetupError(f"'true' ended with status {status} inside {name}")
    seconds = time.monotonic() - begin
    return f"works, in {1e3 * seconds:.0f} ms: {words} -- CMD"


def tools() -> str:
    return ", ".join(filter(shutil.which, TOOLS)) or "none; kpfs needs none"


def whole() -> str:
    """Run ``kpfs run -- true`` from beginning to end."""
    from kpfs.commands.run import run

    limits.check()
    begin = time.monotonic()
    if status := run(Settings(mirror=True), ["true"]):
        raise SetupError(f"'true' ended with status {status}", f"see {default_log()}")
    return f"works, in {1e3 * (time.monotonic() - begin):.0f} ms"


CHECKS: Sequence[Check] = (
    Check("python", python),
    Check("host", host),
    Check("lacks", lacks),
    Check("packages", packages, mend=AGAIN),
    Check("images", images, mend=AGAIN),
    Check("counting", counting, mend=AGAIN),
    Check("/dev/fuse", fuse_device),
    Check("fusermount", fusermount),
    Check("libfuse", libfuse, LIMITED, aside=True),
    Check("namespaces", namespaces, aside=True),
    Check("seccomp", notification, LIMITED, UNCONFINED, aside=True),
    Check("log", log, LIMITED, "name another directory in XDG_CACHE_HOME"),
    Check("compilers", compilers),
    Check("kernels", kernels),
    Check("tools", tools),
    Check("inside", inside, LIMITED, aside=True),
    Check("kpfs run", whole, aside=True),
)
