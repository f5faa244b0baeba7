# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs kernel``: makes, lists and removes Linux kernels, by name."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import textwrap
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kpfs.base import abi, limits
from kpfs.base.errors import SetupError, told_to_user
from kpfs.base.signals import raised
from kpfs.commands.arguments import FREE_TEXT, Subcommand, flag, number
from kpfs.host import jobs
from kpfs.host.progress import bar, draw

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from kpfs.linux.board.board import Board
    from kpfs.linux.distribution.offer import Access, Offer
    from kpfs.linux.package.packages import KernelFiles
    from kpfs.linux.store.cache import CachedKernel
    from kpfs.linux.store.image import Meta

DESCRIPTION = """\
Linux kernels of distributions.  A kernel is booted once, in the emulator, and its state
is kept below $XDG_DATA_HOME/kpfs/kernels; 'kpfs mount --kernel NAME' and 'kpfs run
--kernel NAME' continue from there in a moment.
"""
MAKE_HELP = """\
Boot a kernel and keep it as NAME; several names make several at once.  A name tells
whose kernel is downloaded, whatever this host is, and this needs no root:

  6.1  6.12-cloud  7.2-rt  latest  6.12-arm64  -riscv64  -s390x      of Debian
  6.12-ppc64el  6.12-armhf  6.1-i386  6.1-mips64el                   likewise
  debian:sid  debian:trixie-cloud                                    of one suite
  ubuntu:24.04  ubuntu:24.04-aws  fedora:43  opensuse:tumbleweed
  alma:9  amazon:2023  amazon:2023-6.12  arch:linux  arch:linux-lts  of others

'kpfs kernel list --available' has all of Debian's.  With another NAME, --package 6.1
means the same; for other kernels say where they are:

  kpfs kernel make usual --package 6.1

A name may end in boot parameters, which make a kernel beside the one without:

  kpfs kernel make 6.1+cpus=2 6.12+preempt=full
"""
LIST_HELP = """\
List the kernels that are there, or with --available those that can be made.
"""
FEATURES_HELP = """\
Print what kernels can do: files and abilities of tracefs, tracers, types of BPF
programs and maps (tried by bpf(2)), helpers, kfuncs, options of their configuration.
"""
PRUNE_HELP = """\
Remove kernels that have not been used for some time, or that take too much room.
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


UNKNOWN = "say --package, --deb, --rpm, --oci, --tree or --vmlinuz"
DAY = 24 * 60 * 60  # s
DEFAULT_MEMORY = 512  # MiB
MAKE_SECONDS, PACK_SECONDS = 60, 20  # s of CPU time; a small kernel takes less


def add_arguments(parser: ArgumentParser) -> None:
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
    from kpfs.emulator.libunicorn import EmulatorError

    try:
        with raised():  # half a kernel, or half of its file, goes away
            return COMMANDS[arguments.action].main(arguments)
    except EmulatorError as error:
        raise SetupError(str(error)) from None


# ---- make
def _make_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="+")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--package", metavar="P", help="the kernel of another name")
    for option, whose in (("--deb", "Debian or Ubuntu"), ("--rpm", "Fedora or others")):
        source.add_argument(
            option,
            action="append",
            metavar="FILE",
            help=f"a package of {whose}; several, if its modules are in another",
        )
    source.add_argument(
        "--oci",
        metavar="FILE",
        help="a container image: a folder or an archive of OCI, :TAG may follow, or a "
        "reference such as docker://..., which skopeo copies",
    )
    source.add_argument(
        "--tree", metavar="DIR", help="the tree that a kernel was built in"
    )
    source.add_argument("--vmlinuz", metavar="FILE", help="the kernel itself")
    parser.add_argument("--modules", metavar="DIR", help="its /lib/modules/RELEASE")
    parser.add_argument("--memory", type=memory, metavar="MIB", help="default 512")
    parser.add_argument(
        "--cpus",
        type=number(1, abi.MAX_CPUS),
        metavar="N",
        help="1 to 4 CPUs (default 1)",
    )
    parser.add_argument("--append", metavar=FREE_TEXT, help="more for its command line")
    cache_argument(parser)
    _access_arguments(parser)
    flag(parser, "--verbose", "show its console")


def memory(text: str) -> float:
    """Parse how many MiB of memory a Linux kernel has, as a type of add_argument()."""
    from kpfs.linux.board.board import MAX_RAM
    from kpfs.linux.make.make import MIN_MEMORY

    return number(MIN_MEMORY >> 20, MAX_RAM >> 20)(text)


def cache_argument(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--cache",
        default="",
        metavar="DIR",
        help="a folder, as of a CI, that has kernels which were made, and keeps these",
    )


def _access_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--mirror", default="", metavar="URL", help="in place of the distribution's own"
    )
    flag(
        parser,
        "--insecure-no-signature",
        "take what an archive says without a signature",
    )


def _access(arguments: Namespace) -> Access:
    from kpfs.linux.distribution.offer import Access

    return Access(arguments.mirror, not arguments.insecure_no_signature)


def make(arguments: Namespace) -> int:
    names = list(dict.fromkeys(arguments.name))
    if len(names) > 1 and (_has_files(arguments) or arguments.package):
        raise SetupError("files and --package are of one kernel, so give one NAME")
    if arguments.modules and not arguments.vmlinuz:
        raise SetupError("--modules is for --vmlinuz")
    if arguments.cache and _has_files(arguments):
        raise SetupError("--cache keeps kernels that a distribution offers")
    return _make_each(names, arguments, sys.stdout)


def _make_each(names: Sequence[str], arguments: Namespace, out: IO[str]) -> int:
    """Make kernels, those without parameters first; return the worst status."""
    from kpfs.linux.running.chosen import parts
    from kpfs.linux.store import store

    there, split = store.names(), {name: parts(name) for name in names}
    bases = [base for name, (base, _) in split.items() if name == base]
    bases += [base for base, _ in split.values() if base not in (*there, *bases)]
    if status := _make_some(list(dict.fromkeys(bases)), arguments, out):
        return status
    images = dict.fromkeys(_image_of(name) for name in names if split[name][1])
    return _make_some(list(images), arguments, out)


def _image_of(name: str) -> str:
    """Return the image's name for a kernel with parameters, none of them a sysctl."""
    from kpfs.linux.errors import UnfitError
    from kpfs.linux.running.chosen import kernel

    found = kernel(name)
    if found.sysctls:
        raise UnfitError(
            f"{name}: {found.sysctls[0][0]} is a sysctl, which is set when the kernel "
            f"is used: make {found.image}"
        )
    return found.image


def _make_some(names: Sequence[str], arguments: Namespace, out: IO[str]) -> int:
    """Make kernels, one for each processor at a time; return the worst status."""
    if len(names) == 1:
        return _make_one(names[0], arguments, Progress(out, arguments.verbose))

    def work(name: str) -> int:
        try:
            return _make_one(name, arguments, Progress(out, False, shown=False))
        except SetupError as error:
            print(f"kpfs: {name}: {error}", file=sys.stderr, flush=True)
            return 2

    out.flush()
    at_once = os.cpu_count() or 1
    return max((done.status for done in jobs.run(names, at_once, work)), default=0)


def make_missing(names: Sequence[str], cache: str = "") -> None:
    """Make those kernels that are not there; what is told goes to standard error.

    cache: the folder of --cache, if any.
    """
    from kpfs.linux.running import chosen
    from kpfs.linux.store import store

    def make(meant: Callable[[str], str]) -> None:
        there = store.names()
        needed = dict.fromkeys(meant(name) for name in names if name not in there)
        if missing := [name for name in needed if name not in there]:
            words = [*missing, f"--cache={cache}"]
            try:
                with raised():
                    status = _make_each(missing, parser.parse_args(words), sys.stderr)
            except SetupError as error:  # it is of the only one that is made
                if len(names) == 1:
                    raise
                raise SetupError(f"{missing[0]}: {error}") from None
            if status:
                raise SetupError("not all of these kernels could be made")

    parser = argparse.ArgumentParser()
    _make_arguments(parser)
    make(lambda name: chosen.parts(name)[0])
    make(lambda name: chosen.kernel(name).image)


def _make_one(name: str, arguments: Namespace, progress: Progress) -> int:
    from kpfs.linux.store import store
    from kpfs.linux.store.cache import CachedKernel

    store.check_name(name)
    arguments = _with_parameters(name, arguments)
    progress.say("asking the archive")
    offer = _offer(name, arguments)
    cached = None
    if offer and arguments.cache:
        cached = CachedKernel(arguments.cache, name, offer, *_how(arguments))
    if offer and (there := _made_of(name, offer, arguments)):
        progress.end(
            f"{name}: Linux {there.release} is there already; "
            f"'kpfs kernel rm {name}' makes room for it anew"
        )
    elif cached and (there := _of_cache(cached)):
        progress.end(f"{name}: Linux {there.release}, from {arguments.cache}")
    else:
        _boot(name, arguments, offer, progress)
    if cached and not os.path.exists(cached.path):
        limits.check(seconds=PACK_SECONDS)
        with told_to_user(arguments.cache):
            cached.keep()
    return 0


def _with_parameters(name: str, arguments: Namespace) -> Namespace:
    """Return arguments with what they leave open, and what the kernel's name says.

    A kernel with parameters is otherwise as the one without.
    """
    from kpfs.linux.errors import UnfitError
    from kpfs.linux.running import chosen
    from kpfs.linux.store import image, store

    given = vars(arguments)
    memory, cpus, append, kernel = DEFAULT_MEMORY, 1, "", None
    if chosen.parts(name)[1]:
        kernel = chosen.kernel(name)
        base = image.read_meta(store.folder(kernel.base))
        memory, cpus = base.memory >> 20, kernel.cpus or len(base.processors)
        append = " ".join(filter(None, (base.append, *kernel.append)))
        for option in ("cpus", "append"):
            if given[option]:
                raise UnfitError(f"--{option} is for a name without parameters")
        if not _has_files(arguments):
            given = {**given, "package": given["package"] or kernel.base}
    defaults = {"memory": memory, "cpus": cpus, "append": append}
    known = kernel.append if kernel else ()
    left = {key: given[key] or value for key, value in defaults.items()}
    return argparse.Namespace(**{**given, **left, "known": known})


def _of_cache(cached: CachedKernel) -> Meta | None:
    limits.check(seconds=PACK_SECONDS)
    with told_to_user(cached.path):
        return cached.load()


def _how(arguments: Namespace) -> tuple[int, int, str]:
    """Return by what kernels of the same files differ."""
    return arguments.memory, arguments.cpus, arguments.append


def _boot(
    name: str, arguments: Namespace, offer: Offer | None, progress: Progress
) -> None:
    from kpfs.linux.errors import UnfitError
    from kpfs.linux.inside import mounted
    from kpfs.linux.make.make import make as make_kernel
    from kpfs.linux.package.config import lacking
    from kpfs.linux.running import chosen
    from kpfs.linux.running.saved_kernel import SavedKernel
    from kpfs.linux.store import image, store

    limits.check(arguments.memory << 20, MAKE_SECONDS)
    begin = time.monotonic()
    with store.scratch() as folder:
        files = _find(name, arguments, offer, folder, progress)
        if arguments.tree and (lacks := lacking(files.config)):
            progress.end(f"{name}: this kernel was built without options for:")
            for option, purpose in lacks.items():
                progress.end(f"  {option:22} {purpose}")
        progress.say("booting")
        meta = make_kernel(
            name,
            files,
            memory=arguments.memory << 20,
            cpus=arguments.cpus,
            append=arguments.append,
            known=arguments.known,
            modules=_shared_modules(name, offer),
            verbose=arguments.verbose,
            progress=progress.show,
        )
    for other in chosen.made_with(name):
        folder = store.folder(other)
        made = image.read_meta(folder)
        if made.origin != meta.origin:  # not this kernel any more
            store.remove_folder(folder)
            progress.end(
                f"{other}: removed, as it was of the {name} before; "
                f"'kpfs kernel make {other}' makes it anew"
            )
    saved = SavedKernel(store.folder(name))
    # without fuse or overlay there is no --inside
    with contextlib.suppress(UnfitError, OSError):
        mounted.make(saved)
    _ = saved.structures["task_struct"]  # found now where the kernel has no BTF
    if not chosen.parts(name)[1]:  # the functions are those without parameters
        progress.say("indexing its functions")
        _ = saved.functions  # are compared when one is missing elsewhere
    saved.close()
    seconds = time.monotonic() - begin
    progress.end(f"{name}: Linux {meta.release}, made in {seconds:.1f} s")
    base = chosen.parts(name)[0]
    if (older := image.read_meta(store.folder(base)).release) != meta.release:
        progress.end(f"{base}: Linux {older}; 'kpfs kernel make {base}' renews it")
    if offer and offer.missing:
        print(
            f"kpfs: {name}: the archive has no {offer.missing[-1]} any more: "
            "without modules there is no --inside",
            file=sys.stderr,
        )


def _shared_modules(name: str, offer: Offer | None) -> str:
    """Return the modules of the kernel without parameters, "" if they are others."""
    from kpfs.linux.running.chosen import parts
    from kpfs.linux.store import image, store

    base, words = parts(name)
    if not words or not offer:
        return ""
    folder = store.folder(base)
    same = image.read_meta(folder).origin == offer.origin
    return os.path.join(folder, image.MODULES) if same else ""


def _has_files(arguments: Namespace) -> bool:
    """Return True if the files of the kernel are given."""
    named = arguments.deb, arguments.rpm, arguments.oci, arguments.tree
    return any((*named, arguments.vmlinuz))


def _offer(name: str, arguments: Namespace) -> Offer | None:
    """Return what a distribution offers by a name, None if files are given."""
    from kpfs.linux.distribution import distributions, names
    from kpfs.linux.errors import UnfitError

    if _has_files(arguments):
        return None
    if not distributions.is_name(wanted := arguments.package or name):
        remedy = names.asked(names.meant(wanted)) or f"{UNKNOWN};"
        raise UnfitError(
            f"no kernel is known as {wanted}: {remedy} 'kpfs kernel list --available' "
            "has those that are"
        )
    return distributions.find(wanted, _access(arguments))


def _made_of(name: str, offer: Offer, arguments: Namespace) -> Meta | None:
    """Return the kernel that is there already, if it was made just so."""
    from kpfs.linux.errors import UnfitError
    from kpfs.linux.store import image, store

    try:
        meta = image.read_meta(store.folder(name))
    except UnfitError:  # none, or another version of kpfs made it
        return None
    made = meta.memory >> 20, len(meta.processors), meta.append
    same = meta.origin == offer.origin and made == _how(arguments)
    return meta if same else None


def _find(
    name: str,
    arguments: Namespace,
    offer: Offer | None,
    folder: str,
    progress: Progress,
) -> KernelFiles:
    """Read the files of the kernel that was offered, or that the arguments name."""
    from kpfs.linux.distribution import fetch
    from kpfs.linux.package import oci, packages, tree

    if arguments.tree:
        return tree.read_tree(arguments.tree)
    if arguments.oci:
        progress.say(f"unpacking {arguments.oci}")
        return oci.read_image(arguments.oci, name)
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
    if offer:
        paths = []
        for file in offer.files:
            progress.say(f"downloading {file.name}")
            part = partial(progress.part, file.size)
            paths.append(fetch.save(file, folder, part))
    progress.say(f"unpacking {' '.join(map(os.path.basename, paths))}")
    return packages.read_packages(paths)


class Progress:
    """The line of a terminal that shows what is being done, or the console."""

    def __init__(self, out: IO[str], verbose: bool, *, shown: bool = True) -> None:
        self._out = out
        self._verbose = verbose
        self._terminal = sys.stderr.isatty() and shown and not verbose
        self._seen = 0
        self._begin = time.monotonic()
        self._what = ""

    def say(self, what: str) -> None:
        """Begin a new step."""
        self._what = what
        self._write("")

    def part(self, whole: int, have: int) -> None:
        """Show how much is there of what is being done."""
        self._write(bar(have, whole))

    def show(self, board: Board) -> None:
        """Show the output of a kernel that is booting."""
        text, self._seen = board.console(self._seen)
        if self._verbose:
            self._out.write(text.replace(b"\r\n", b"\n").decode("latin-1"))
            self._out.flush()
        else:
            self._write(f"{time.monotonic() - self._begin:.0f} s")

    def end(self, told: str) -> None:
        """Show nothing more, and print what came of it."""
        if self._terminal:
            draw("")
        print(told, file=self._out, flush=True)

    def _write(self, more: str) -> None:
        if self._terminal:
            draw(self._what, more)


# ---- the others
def _name_argument(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="KERNEL")


def _names_argument(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="KERNEL", nargs="+")


def _list_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--available",
        nargs="?",
        const="debian",
        metavar="DISTRIBUTION",
        help="those that 'kpfs kernel make' finds (default: in Debian's archive)",
    )
    _access_arguments(parser)


def show_list(arguments: Namespace) -> int:
    from kpfs.linux.distribution import distributions
    from kpfs.linux.errors import UnfitError
    from kpfs.linux.store import store

    if arguments.available:
        for offer in distributions.available(arguments.available, _access(arguments)):
            lacks = " (the archive has no modules of it)" * bool(offer.missing)
            print(f"{offer.name:20} {offer.release:30} {offer.suite}{lacks}")
        return 0
    rows = store.metas()
    width = max((15, *(len(name) for name, _ in rows)))
    for name, meta in rows:
        if isinstance(meta, UnfitError):
            print(f"{name:{width}} {meta}")
        else:
            print(f"{name:{width}} {meta.release:30} {meta.memory >> 20} MiB")
    return 0


def show(arguments: Namespace) -> int:
    from kpfs.linux.package.config import options
    from kpfs.linux.running import chosen
    from kpfs.linux.store import image, store

    folder = chosen.folder(arguments.name)
    meta = image.read_meta(folder)
    config = image.read_config(folder)
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
    _show_abilities(arguments.name)
    return 0


def _show_abilities(name: str) -> None:
    """Print what a kernel can do, a paragraph for each group of features."""
    import re

    from kpfs.linux.running import features

    groups: dict[str, list[str]] = {}
    for row in features.features(name):
        if row.value == features.YES:
            groups.setdefault(row.group, []).append(row.name)
    for group, names in groups.items():
        short = [re.sub("^BPF_(PROG_TYPE_|MAP_TYPE_)?", "", one) for one in names]
        if group in features.LONG:
            short = [f"{len(names)}, see kpfs kernel features {name}"]
        text = f"{group:15} {', '.join(short)}"
        print(textwrap.fill(text, 100, subsequent_indent=" " * 16))


def _features_arguments(parser: ArgumentParser) -> None:
    _names_argument(parser)
    flag(parser, "--diff", "only those in which the kernels differ")
    flag(parser, "--json", "print them as JSON")


def show_features(arguments: Namespace) -> int:
    from kpfs.linux.running import features

    names = list(dict.fromkeys(arguments.name))
    made = jobs.gathered(names, features.features, "asking the kernels")
    found = {name: [*map(features.Feature._make, made[name])] for name in names}
    if arguments.json:
        import json

        rows = {name: [row._asdict() for row in found[name]] for name in names}
        print(json.dumps(rows, indent=1))
        return 0
    columns = [{row[:2]: row.value for row in found[name]} for name in names]
    keys = list(dict.fromkeys(key for column in columns for key in column))
    table = [
        (*key, *(column.get(key, features.NO) for column in columns)) for key in keys
    ]
    if arguments.diff:
        table = [row for row in table if len(set(row[2:])) > 1]
    head: tuple[str, ...] = ("", "", *names)
    if len(names) > 1:
        since = _since(names, table)
        head = (*head, "since")
        table = [(*row, word) for row, word in zip(table, since, strict=True)]
    table.insert(0, head)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = (f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
    return 0


def _since(names: Sequence[str], table: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield for each row the first of the kernels that has the feature.

    It is "" if all have it, or some of those of one version: it is no question of that.
    """
    from kpfs.linux.running import features
    from kpfs.linux.running.chosen import folder
    from kpfs.linux.store import image

    versions = defaultdict[tuple[int, ...], list[int]](list)
    for at, name in enumerate(names):
        release = image.read_meta(folder(name)).release
        versions[tuple(image.version(release)[:2])].append(at)
    order = [ats for _, ats in sorted(versions.items())]
    for row in table:
        there = [[features.is_there(row[2 + at]) for at in ats] for ats in order]
        lacking = [number for number, each in enumerate(there) if not all(each)]
        first = lacking[-1] + 1 if lacking else 0
        mixed = any(any(each) and not all(each) for each in there)
        yield names[order[first][0]] if 0 < first < len(order) and not mixed else ""


def remove(arguments: Namespace) -> int:
    from kpfs.linux.running.chosen import made_with
    from kpfs.linux.store import store

    names = dict.fromkeys(arguments.name)
    folders = [store.folder(name, to_use=False) for name in names]
    folders += [store.folder(each) for name in names for each in made_with(name)]
    for folder in folders:
        store.remove_folder(folder)
    return 0


def _prune_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--unused", type=number(0), metavar="DAYS", help="those that nobody used since"
    )
    parser.add_argument(
        "--size",
        type=number(0),
        metavar="MIB",
        help="those used least lately, until the others have no more than this",
    )


def prune(arguments: Namespace) -> int:
    from kpfs.linux.store import store

    if arguments.unused is None and arguments.size is None:
        raise SetupError("which ones? Say --unused DAYS or --size MIB")
    left, now = arguments.size, time.time()
    kept: set[int] = set()  # inodes, as kernels of one package share files
    for name, used in store.by_use():
        folder = store.folder(name)
        files = store.usage(folder)
        size = sum(files[inode] for inode in files.keys() - kept) >> 20
        old = arguments.unused is not None and now - used > arguments.unused * DAY
        if old or (left is not None and size > left):
            store.remove_folder(folder)
            print(f"{name}: {size} MiB")
            continue
        kept |= files.keys()
        if left is not None:
            left -= size
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
    "list": Subcommand("those that are there", LIST_HELP, _list_arguments, show_list),
    "show": Subcommand("what one is like", "", _name_argument, show),
    "features": Subcommand(
        "what some can do for tracing",
        FEATURES_HELP,
        _features_arguments,
        show_features,
    ),
    "rm": Subcommand("remove some", "", _names_argument, remove),
    "prune": Subcommand(
        "remove those that are not used", PRUNE_HELP, _prune_arguments, prune
    ),
    "export": Subcommand("write one to a file", EXPORT_HELP, _export_arguments, export),
    "import": Subcommand(
        "keep one of a file", IMPORT_HELP, _import_arguments, import_file
    ),
}
