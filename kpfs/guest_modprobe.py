# SPDX-License-Identifier: GPL-2.0-or-later
"""modprobe for a real kernel: what its package has is loaded as kmod does it.

Document: modprobe(8), modprobe.d(5).
"""

from __future__ import annotations

import argparse
import errno
import os
import shlex
import subprocess
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

from kpfs.linux.errors import UnfitError
from kpfs.linux.store.modprobe_conf import FOLDERS, parameters, read_conf
from kpfs.linux.store.modules import Modules
from kpfs.linux.store.probing import Found, Prober


class ModprobeError(Exception):
    """What it says before it ends with status 1, behind ``modprobe: ``."""


class Target(NamedTuple):
    """The kernel that it acts on."""

    release: str
    package: str  # the archive of its modules
    cmdline: str
    loaded: Callable[[], dict[str, list[str]]]  # lines of /proc/modules, by name
    insert: Callable[[bytes, str], None]  # a file, with parameters; OSError
    remove: Callable[[str], None]  # OSError
    reason: Callable[[int], str]  # of an errno of an insertion


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ModprobeError(f"ERROR: {message}")


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _Parser("modprobe", allow_abbrev=False)
    add = parser.add_argument
    for letters, name in (
        ("-a", "all"),
        ("-r", "remove"),
        ("-R", "resolve-alias"),
        ("-D", "show-depends"),
        ("-n", "dry-run"),
        ("-v", "verbose"),
        ("-q", "quiet"),
        ("-b", "use-blacklist"),
        ("-i", "ignore-install"),
    ):
        add(letters, f"--{name}", action="store_true")
    add("--ignore-remove", action="store_true", dest="ignore_install")
    add("--show", action="store_true", dest="dry_run")
    add("--first-time", action="store_true")
    add("-C", "--config", action="append")
    add("words", nargs="*", metavar="WORD")
    preset = shlex.split(os.environ.get("MODPROBE_OPTIONS", ""))
    return parser.parse_intermixed_args([*preset, *arguments])


def modprobe(arguments: Sequence[str], guest: Target) -> None:
    """Load or unload modules by their names; ModprobeError."""
    options = _options(arguments)
    if not options.words:
        raise ModprobeError("ERROR: missing parameters. See -h.")
    several = options.all or options.remove
    names = options.words if several else options.words[:1]
    words = parameters([] if several else options.words[1:])
    try:
        with Modules(guest.package) as package:
            run = _Run(guest, package, options)
            wrong = [error for name in names if (error := run.one(name, words))]
    except UnfitError as error:
        raise ModprobeError(f"ERROR: {error}") from None
    if wrong:
        raise ModprobeError("\nmodprobe: ".join(wrong) if not options.quiet else "")


class _Run:
    """One call of the tool."""

    def __init__(
        self, guest: Target, package: Modules, options: argparse.Namespace
    ) -> None:
        self.guest, self.package, self.options = guest, package, options
        conf = read_conf(options.config or FOLDERS, guest.cmdline)
        self.prober = Prober(package, conf)

    def one(self, word: str, words: str) -> str:
        """Do what is wanted with one name: what went wrong, "" for nothing."""
        options = self.options
        try:
            found = self.prober.lookup(word)
            if not found:
                where = f" in directory /lib/modules/{self.guest.release}"
                where = "" if options.remove else where
                raise ModprobeError(f"FATAL: Module {word} not found{where}")
            for each in found:
                if options.resolve_alias:
                    print(each.name)
                elif options.remove:
                    self.remove(each.name)
                elif not self.is_left_out(each):
                    self.probe(each.name, words)
        except ModprobeError as error:
            return str(error)
        except KeyError as missing:
            name = missing.args[0]
            return f"FATAL: Module {name} not found in directory /lib/modules/" + (
                self.guest.release
            )
        return ""

    def is_left_out(self, found: Found) -> bool:
        """Whether a blacklist forbids it."""
        counts = found.by_alias or self.options.use_blacklist
        return counts and self.prober.conf.is_blacklisted(found.name)

    # ---- loading
    def probe(self, name: str, words: str) -> None:
        options, conf = self.options, self.prober.conf
        loaded = {} if options.show_depends else self.guest.loaded()
        if name in loaded and options.first_time:
            raise ModprobeError(
                f"ERROR: could not insert '{name}': Module already in kernel"
            )
        for step in self.prober.steps(name, ignore_command=options.ignore_install):
            if step.name in loaded:
                continue
            extra = words if step.name == name else ""
            given = " ".join(filter(None, (*conf.options(step.name), extra)))
            alone = step.name == name and options.ignore_install
            command = "" if alone else conf.command("install", step.name)
            try:
                self.insert(step.name, given, command)
            except BrokenPipeError:
                raise  # nobody reads what is said
            except OSError as error:
                if error.errno == errno.EEXIST or not step.required:
                    continue
                why = self.guest.reason(error.errno or 0)
                raise ModprobeError(
                    f"ERROR: could not insert '{name}': {why}"
                ) from None

    def insert(self, name: str, given: str, command: str) -> None:
        """Load one, or what is to be run instead; OSError."""
        options = self.options
        if command:
            self.say(f"install {command} {given}")
            if not self.only_shows:
                self.run(command.replace("$CMDLINE_OPTS", given), name, "install")
        elif self.package.is_builtin(name):
            if options.show_depends:
                print(f"builtin {name}")
        elif name in self.package:
            path = f"/lib/modules/{self.guest.release}/{self.package.path(name)}"
            self.say(f"insmod {path} {given}")
            if not self.only_shows:
                self.guest.insert(self.package.read(name), given)
        else:
            raise OSError(errno.ENOENT, "no such module")

    @property
    def only_shows(self) -> bool:
        return bool(self.options.dry_run or self.options.show_depends)

    def say(self, line: str) -> None:
        if self.options.verbose or self.options.show_depends:
            print(line, flush=True)

    def run(self, command: str, name: str, kind: str) -> None:
        """Run what modprobe.d names; OSError: EINVAL."""
        environment = {**os.environ, "MODPROBE_MODULE": name}
        if status := subprocess.run(command, shell=True, env=environment).returncode:
            raise ModprobeError(
                f"ERROR: Error running {kind} command '{command}' for module {name}: "
                f"retcode {status}"
            )

    # ---- unloading
    def remove(self, name: str) -> None:
        """Unload a module, and what only it has needed."""
        command = self.prober.conf.command("remove", name)
        if self.options.ignore_install:
            command = ""
        if not command and name not in self.guest.loaded():
            if self.package.is_builtin(name):
                raise ModprobeError(f"FATAL: Module {name} is builtin.")
            if self.options.first_time:
                raise ModprobeError(f"FATAL: Module {name} is not in kernel.")
            return
        before, after = self.prober.softdeps(name)
        self.remove_unused(after[::-1])
        if command:
            self.say(f"remove {command}")
            if not self.options.dry_run:
                self.run(command, name, "remove")
        else:
            if int(self.guest.loaded()[name][2]):
                raise ModprobeError(f"FATAL: Module {name} is in use.")
            self.take_out(name)
        self.remove_unused(self.prober.needed(name)[::-1])
        self.remove_unused(before[::-1])

    def take_out(self, name: str) -> None:
        if self.options.verbose:
            print(f"rmmod {name}", flush=True)
        if self.options.dry_run:
            return
        try:
            self.guest.remove(name)
        except OSError as error:
            why = os.strerror(error.errno or 0)
            if error.errno == errno.EAGAIN:
                raise ModprobeError(f"FATAL: Module {name} is in use.") from None
            raise ModprobeError(f"ERROR: could not remove '{name}': {why}") from None

    def remove_unused(self, names: Sequence[str]) -> None:
        """Unload those that nobody uses; others stay, and so do those that fail."""
        for name in names:
            row = self.guest.loaded().get(name)
            if row is not None and not int(row[2]):
                try:
                    self.take_out(name)
                except ModprobeError:
                    continue
