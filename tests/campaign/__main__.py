# SPDX-License-Identifier: GPL-2.0-or-later
"""A long hunt for what does not hold: ``scripts/campaign``.

Each part runs in a process of its own, one after the other.  All that it leaves running
or mounted is a finding as well, and is taken away.  The exit status is 1 if there were
findings, 2 if something is missing, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from kpfs.linux.errors import UnfitError
from kpfs.linux.store import store
from tests import harness
from tests.campaign import processes
from tests.campaign.hunt import Hunt, Part, Progress, progress_of

PARTS = (
    *("fuzz", "load", "kills", "hits", "modules", "elf", "hostile", "restrictions"),
    *("limits", "product", "signals", "users", "together"),
    *("board", "region", "files", "archives", "descriptors", "floats", "instructions"),
    "selftests",
    *("rewriting", "searches", "sequences", "sound", "steady", "verdicts"),
)
GRACE = 120  # s that a part may take beyond its share, as it ends what it is at
ROW = "{:13} {:>10} {:13} {:>8} {:>9}  {}"


def load(name: str) -> Part:
    part = importlib.import_module(f"tests.campaign.{name}").PART
    assert isinstance(part, Part)
    return part


def work(part: Part, hunt: Hunt) -> None:
    """Run a part in its own process; its failure is a finding."""
    try:
        hunt.save()
        part.run(hunt)
        hunt.save()
    except BaseException:
        hunt.finding("the part itself failed", traceback=traceback.format_exc())


def conduct(
    name: str, seconds: float, arguments: argparse.Namespace, folder: Path
) -> None:
    """Run a part in a process of its own, to its end and no further."""
    part = load(name)
    number = arguments.number or part.number
    hunt = Hunt(name, number, seconds, arguments.seed, folder, arguments.kernel)
    parent = os.getpid()
    child = os.fork()
    if not child:
        try:
            os.setsid()
            processes.die_with(parent)
            processes.adopt()
            os.environ["KPFS_WARM"] = processes.WARM
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            work(part, hunt)
            sys.stdout.flush()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    until = time.monotonic() + seconds + GRACE if seconds else float("inf")
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > until:
            _complain(hunt, f"{name} does not end", [child])
            os.kill(child, signal.SIGKILL)
        time.sleep(0.1)
    if ended[1]:
        _complain(hunt, f"{name} has died, wait status {ended[1]:#x}", [])
    if left := processes.linger(processes.SOON):
        _complain(hunt, f"{name} left processes behind", left)
    if targets := processes.unmount_below(folder):
        _complain(hunt, f"{name} left mounts behind: {' '.join(targets)}", [])


def _complain(hunt: Hunt, what: str, pids: list[int]) -> None:
    """Add a finding beside those of the part's own process."""
    hunt.resume(progress_of(hunt.scratch.parent))
    lines = [f"{pid} {harness.state(pid)} {processes.name(pid)}" for pid in pids]
    hunt.finding("\n".join((what, *lines)))


def row(name: str, what: str, progress: Progress, seconds: float) -> str:
    """Return a line of the table."""
    took = f"{seconds:.0f} s"
    count = len(progress.findings)
    return ROW.format(name, progress.done, what, took, count, progress.note).rstrip()


def campaign(arguments: argparse.Namespace, folder: Path) -> int:
    """Run the parts, print the table, return the number of findings."""
    names = [name for name in arguments.available if name in arguments.parts]
    lines, total = [ROW.format("part", "how many", "what", "time", "findings", "")], 0
    end = time.monotonic() + arguments.minutes * 60
    try:
        for at, name in enumerate(names):
            part, below = load(name), folder / name
            below.mkdir()
            seconds = 0.0
            if arguments.minutes:
                shares = sum(load(rest).share for rest in names[at:])
                seconds = max(end - time.monotonic(), 1) * part.share / shares
            print(f"{name} ...", flush=True)
            begin = time.monotonic()
            try:
                conduct(name, seconds, arguments, below)
            finally:
                processes.end_all(folder)
                progress = progress_of(below)
                took = time.monotonic() - begin
                lines.append(row(name, part.what, progress, took))
                total += len(progress.findings)
                shutil.rmtree(below / "scratch", ignore_errors=True)
    finally:
        print("\n" + "\n".join(lines), flush=True)
    return total


def interrupted(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser("scripts/campaign", description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=0, help="share so much time among the parts"
    )
    parser.add_argument(
        "--number", type=int, default=0, help="do so many, instead of a part's own"
    )
    parser.add_argument("--seed", type=int, default=0, help="of what is random")
    parser.add_argument(
        "--kernel", metavar="NAME", default="", help="over that real kernel"
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"of {' '.join(PARTS)}"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"no such part: {' '.join(sorted(unknown))} (see --help)")
    arguments.available = [
        name for name in PARTS if not arguments.kernel or load(name).kernels
    ]
    if unknown := set(arguments.parts) - set(arguments.available):
        parser.error(f"not over a real kernel: {' '.join(sorted(unknown))}")
    arguments.parts = arguments.parts or arguments.available
    if arguments.minutes < 0 or arguments.number < 0:
        parser.error("a number of minutes or of anything is above 0")
    arguments.seed = arguments.seed or int(time.time())
    return arguments


def main() -> int:
    arguments = parse()
    if missing := harness.missing_fuse():
        print(f"campaign: {missing}", file=sys.stderr)
        return 2
    try:
        if arguments.kernel:
            store.folder(arguments.kernel)
    except UnfitError as error:
        print(f"campaign: {error}", file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    processes.adopt()
    folder = Path(tempfile.mkdtemp(prefix="kpfs-campaign-"))
    print(f"seed {arguments.seed}; what is found is kept in {folder}", flush=True)
    try:
        total = campaign(arguments, folder)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        return 130
    finally:
        processes.end_all(folder)
        for name in PARTS:
            (folder / name / "progress").unlink(missing_ok=True)
            for empty in (folder / name / "findings", folder / name):
                with contextlib.suppress(OSError):
                    empty.rmdir()
        with contextlib.suppress(OSError):
            folder.rmdir()
    print(f"{total} findings" + (f", in {folder}" if total else ""))
    return int(total > 0)


if __name__ == "__main__":
    sys.exit(main())
