# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs kernel``: makes, lists and removes Linux kernels, by name."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kpfs.arguments import Subcommand, flag
from kpfs.base import limits
from kpfs.base.errors import SetupError, told_to_user

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from kpfs.linux.board.board import Board
    from kpfs.linux.package.packages import KernelFiles
    from kpfs.linux.store.image import Meta

DESCRIPTION = """\
Linux kernels of distributions.  A kernel is booted once, in the emulator, and its state
is kept below $XDG_DATA_HOME/kpfs/kernels; 'kpfs mount --kernel NAME' and 'kpfs run
--kernel NAME' continue from there in a moment.
"""
MAKE_HELP = """\
Boot a kernel and keep it as NAME.  6.1, 6.12, 6.1-cloud and 6.1-rt stand for the newest
such package of Debian, which apt downloads (this needs no root), and 6.12-cloud-arm64
for one of arm64; for others say where the kernel is.  With another NAME, --package 6.1
means the same:

  kpfs kernel make 6.1-smp --package 6.1 --cpus 2
"""
EXPORT_HELP = """\
Write a kernel, with its modules, to one compressed file, which 'kpfs kernel import'
reads: for hosts without the package, or the cache of a CI.
"""
IMPORT_HELP = """\
Keep a kernel that was exported, as NAME.  A file that is damaged, cut short, or of
another version of kpfs is refused.  Whoever made the file chose the code that runs in
this kernel; the emulator alone keeps that code from this host.
"""
WHOSE = (
    "It runs code of whoever made the file, and is as safe as the emulator; "
    "see kpfs kernel show"
)


MAKE_SECONDS, PACK_SECONDS = 60, 20  # of CPU time; a small kernel takes less


def add_arguments(parser: ArgumentParser) -> None:
    import argparse

    raw = argparse.RawDescriptionHelpFormatter
    parser.description = DESCRIPTION
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, row in COMMANDS.items():
        sub = commands.add_parser(
            name, help=row.help, description=row.description, formatter_class=raw
        )
        row.add_arguments(sub)


def main(arguments: Namespace) -> int:
    """``kpfs kernel ACTION``. Raises SetupError."""
    from kpfs.guest.emu.libunicorn import EmulatorError

    try:
        return COMMANDS[arguments.action].main(arguments)
    except EmulatorError as error:
        raise SetupError(str(error)) from None


# ---- make
def _make_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--package", metavar="P", help="a package that apt downloads")
    for option, whose in (("--deb", "Debian or Ubuntu"), ("--rpm", "Fedora or others")):
        source.add_argument(
            option,
            action="append",
            metavar="FILE",
            help=f"a package of {whose}; several, if its modules are in another",
        )
    source.add_argument("--vmlinuz", metavar="FILE", help="the kernel itself")
    parser.add_argument("--modules", metavar="DIR", help="its /lib/modules/RELEASE")
    parser.add_argument(
        "--memory", type=int, default=512, metavar="MIB", help="default 512"
    )
    parser.add_argument(
        "--cpus", type=int, default=1, metavar="N", help="1 to 4 CPUs (default 1)"
    )
    parser.add_argument(
        "--append", default="", metavar="TEXT", help="more for its command line"
    )
    flag(parser, "--verbose", "show its console")


def make(arguments: Namespace) -> int:
    from kpfs.linux.errors import UnfitError
    from kpfs.linux.inside import mounted
    from kpfs.linux.make.make import make as make_kernel
    from kpfs.linux.store import store

    store.check_name(arguments.name)
    package = _package(arguments)
    if package and (there := _made_of(package, arguments)):
        print(
            f"{arguments.name}: Linux {there.release} is there already; "
            f"'kpfs kernel rm {arguments.name}' makes room for it anew"
        )
        return 0
    limits.check(arguments.memory << 20, MAKE_SECONDS)
    begin = time.monotonic()
    progress = Progress(verbose=arguments.verbose)
    with tempfile.TemporaryDirectory(prefix="kpfs-kernel-") as folder:
        files = _find(arguments, package, folder, progress.say)
    progress.say("booting")
    meta = make_kernel(
        arguments.name,
        files,
        memory=arguments.memory << 20,
        cpus=arguments.cpus,
        append=arguments.append,
        verbose=arguments.verbose,
        progress=progress.show,
    )
    # without fuse or overlay there is no --inside
    with contextlib.suppress(UnfitError, OSError):
        mounted.make(store.folder(arguments.name), meta)
    progress.end()
    seconds = time.monotonic() - begin
    print(f"{arguments.name}: Linux {meta.release}, made in {seconds:.1f} s")
    return 0


def _package(arguments: Namespace) -> str:
    """Return the package that apt is to download, "" if files are given."""
    from kpfs.linux.errors import UnfitError
    from kpfs.linux.package import packages

    if arguments.deb or arguments.rpm or arguments.vmlinuz:
        return ""
    package: str = arguments.package or arguments.name
    short = packages.short_name(package)
    if not arguments.package and not short:
        raise UnfitError(
            f"where is {package}? Say --package, --deb, --rpm or --vmlinuz"
        )
    return packages.find_package(package) if short else package


def _made_of(package: str, arguments: Namespace) -> Meta | None:
    """Return the kernel that is there already, if it was made just so."""
    from kpfs.linux.errors import UnfitError
    from kpfs.linux.store import image, store

    try:
        meta = image.read_meta(store.folder(arguments.name))
    except UnfitError:  # none, or another version of kpfs made it
        return None
    made = meta.memory >> 20, len(meta.processors), meta.append
    asked = arguments.memory, arguments.cpus, arguments.append
    return meta if meta.origin.startswith(f"{package}_") and made == asked else None


def _find(
    arguments: Namespace, package: str, folder: str, say: Callable[[str], None]
) -> KernelFiles:
    """Read the files of the kernel that the arguments name."""
    from kpfs.linux.package import packages

    paths = arguments.deb or arguments.rpm
    if arguments.vmlinuz:
        with told_to_user(arguments.vmlinuz):
            vmlinuz = Path(arguments.vmlinuz).read_bytes()
        config = ""
        beside = arguments.vmlinuz.replace("vmlinuz", "config")
        if beside != arguments.vmlinuz and os.path.isfile(beside):
            config = Path(beside).read_text(encoding="utf-8", errors="replace")
        modules = packages.read_folder(arguments.modules) if arguments.modules else {}
        origin = os.path.basename(arguments.vmlinuz)
        return packages.KernelFiles(vmlinuz, config, modules, origin)
    if not paths:
        say(f"downloading {package}")
        paths = [packages.download(package, folder)]
    say(f"unpacking {' '.join(map(os.path.basename, paths))}")
    return packages.read_packages(paths)


class Progress:
    """The line of a terminal that shows what is being done, or the console."""

    def __init__(self, *, verbose: bool) -> None:
        self._verbose = verbose
        self._terminal = sys.stderr.isatty() and not verbose
        self._seen = 0
        self._begin = time.monotonic()
        self._what = ""

    def say(self, what: str) -> None:
        """Begin a new step."""
        self._what = what
        self._write("")

    def show(self, board: Board) -> None:
        """Show the output of a kernel that is booting."""
        text, self._seen = board.console(self._seen)
        if self._verbose:
            sys.stdout.write(text.decode("latin-1"))
            sys.stdout.flush()
        else:
            self._write(f" {time.monotonic() - self._begin:.0f} s")

    def end(self) -> None:
        if self._terminal:
            sys.stderr.write("\r\033[K")

    def _write(self, more: str) -> None:
        if self._terminal:
            sys.stderr.write(f"\r\033[K{self._what}{more}")
            sys.stderr.flush()


# ---- the others
def _name_argument(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="KERNEL")


def show_list(_arguments: Namespace) -> int:
    from kpfs.linux.errors import UnfitError
    from kpfs.linux.store import store

    for name, meta in store.metas():
        if isinstance(meta, UnfitError):
            print(f"{name:15} {meta}")
        else:
            print(f"{name:15} {meta.release:30} {meta.memory >> 20} MiB")
    return 0


def show(arguments: Namespace) -> int:
    from kpfs.linux.make.make import options
    from kpfs.linux.store import image, store

    folder = store.folder(arguments.name)
    meta = image.read_meta(folder)
    config = Path(folder, image.CONFIG).read_text(encoding="utf-8")
    rows = {
        "release": meta.release,
        "arch": meta.arch,
        "origin": meta.origin or "-",
        "memory": f"{meta.memory >> 20} MiB",
        "cpus": len(meta.processors),
        "append": meta.append or "-",
        "size": f"{store.size(folder) >> 20} MiB",
        "digest": meta.digest,
    }
    for name, value in rows.items():
        print(f"{name:10} {value}")
    if config:
        for name, value in options(config).items():
            print(f"CONFIG_{name}={value}")
    return 0


def remove(arguments: Namespace) -> int:
    from kpfs.linux.store import store

    store.remove_folder(store.folder(arguments.name))
    return 0


# ---- export, import
def _export_arguments(parser: ArgumentParser) -> None:
    _name_argument(parser)
    parser.add_argument("file", metavar="FILE")


def _import_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("name", metavar="NAME", nargs="?", help="default: FILE's")


def export(arguments: Namespace) -> int:
    from kpfs.linux.store import archive

    limits.check(seconds=PACK_SECONDS)
    with told_to_user(arguments.file):
        size = archive.export(arguments.name, arguments.file)
    print(f"{arguments.file}: {size >> 20} MiB")
    return 0


def import_file(arguments: Namespace) -> int:
    from kpfs.linux.store import archive

    limits.check(seconds=PACK_SECONDS)
    name = arguments.name
    if name is None:
        name = os.path.basename(arguments.file).removesuffix(archive.SUFFIX)
    with told_to_user(arguments.file):
        meta = archive.import_file(arguments.file, name)
    print(f"{name}: Linux {meta.release}, made of {meta.origin or 'an unnamed file'}")
    print(WHOSE)
    return 0


COMMANDS = {
    "make": Subcommand("boot a kernel and keep it", MAKE_HELP, _make_arguments, make),
    "list": Subcommand("those that are there", "", lambda _parser: None, show_list),
    "show": Subcommand("what one is like", "", _name_argument, show),
    "rm": Subcommand("remove one", "", _name_argument, remove),
    "export": Subcommand("write one to a file", EXPORT_HELP, _export_arguments, export),
    "import": Subcommand(
        "keep one of a file", IMPORT_HELP, _import_arguments, import_file
    ),
}
