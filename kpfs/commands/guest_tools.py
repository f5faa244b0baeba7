# SPDX-License-Identifier: GPL-2.0-or-later
"""insmod, rmmod, lsmod, modprobe and dmesg for a command of ``kpfs run``.

They speak like kmod and util-linux, and act on the guest kernel by the files of the
mount.  Beside a Linux kernel the host's own programs are used; these ones are found if
the host has none, and then dmesg works, and the others say what is missing.
Run as a script by those in kpfs/bin, this module imports nothing of kpfs.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import re
import select
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import NoReturn

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # the package

RELEASE = "6.1.0-kpfs"  # the guest kernel's
NOT_FOUND = 127  # status, as of a shell
TREE = os.environ.get("KPFS", "/sys/kernel/debug/kpfs")
# the file in which dmesg --clear notes its position
CLEARED = os.path.join(os.path.dirname(TREE), ".dmesg-cleared")
LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
RECORD = re.compile(rb"([0-9]+),([0-9]+),([0-9]+),[^;]*;([^\n]*)\n")
ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")
CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f]")  # a terminal obeys these
MESSAGES = {
    errno.ENOEXEC: "Invalid module format",
    errno.ENOENT: "Unknown symbol in module, or unknown parameter (see dmesg)",
    errno.ESRCH: "Module has wrong symbol version",
    errno.EINVAL: "Invalid parameters",
}


class ToolError(Exception):
    """The message that a tool prints before it ends with status 1."""


def _write(name: str, words: Sequence[str]) -> None:
    """Write one line to machine/NAME.  OSError is the kernel's answer."""
    quoted = [f'"{w}"' if re.search(r"\s", w) and '"' not in w else w for w in words]
    fd = os.open(f"{TREE}/machine/{name}", os.O_WRONLY)
    try:
        os.write(fd, os.fsencode(" ".join(quoted) + "\n"))
    finally:
        os.close(fd)


def _loaded() -> dict[str, list[str]]:
    """Return the lines of /proc/modules, cut into words, by name."""
    try:
        with open(f"{TREE}/modules", encoding="ascii") as f:
            rows = [line.split() for line in f]
    except FileNotFoundError:  # a kernel without modules
        return {}
    return {row[0]: row for row in rows}


def _module_name(word: str) -> str:
    return re.sub(r"\.ko$", "", os.path.basename(word)).replace("-", "_")


def insmod(arguments: Sequence[str]) -> None:
    """insmod FILE [PARAM=VALUE...]"""
    if not arguments:
        raise ToolError("insmod: ERROR: missing filename.")
    path, *parameters = arguments
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        why = error.strerror
        raise ToolError(f"insmod: ERROR: could not load module {path}: {why}") from None
    _insert("insmod", path, os.path.abspath(path), parameters)


def _insert(tool: str, shown: str, path: str, parameters: Sequence[str]) -> None:
    try:
        _write("insmod", [path, *parameters])
    except OSError as error:
        why = MESSAGES.get(error.errno or 0, os.strerror(error.errno or 0))
        text = f"{tool}: ERROR: could not insert module {shown}: {why}"
        if tool == "modprobe":
            text = f"modprobe: ERROR: could not insert '{shown}': {why}"
        raise ToolError(text) from None


def rmmod(arguments: Sequence[str]) -> None:
    """rmmod NAME..."""
    if not arguments:
        raise ToolError("rmmod: ERROR: missing module name.")
    for word in arguments:
        _remove("rmmod", _module_name(word))


def _remove(tool: str, name: str) -> None:
    row = _loaded().get(name)
    if row is None:
        raise ToolError(f"{tool}: ERROR: Module {name} is not currently loaded")
    users = row[3].strip(",-").replace(",", " ")
    if users:
        raise ToolError(f"{tool}: ERROR: Module {name} is in use by: {users}")
    try:
        _write("rmmod", [name])
    except OSError as error:
        why = os.strerror(error.errno or 0)
        if error.errno == errno.EAGAIN:
            raise ToolError(f"{tool}: ERROR: Module {name} is in use") from None
        raise ToolError(
            f"{tool}: ERROR: could not remove '{name}': {why}\n"
            f"{tool}: ERROR: could not remove module {name}: {why}"
        ) from None


def lsmod(_arguments: Sequence[str]) -> None:
    """lsmod"""
    print("Module                  Size  Used by")
    for name, size, count, users, *_ in _loaded().values():
        users = users.strip(",-")
        print(f"{name:<19} {int(size):>8}  {count}{' ' if users else ''}{users}")


def modprobe(arguments: Sequence[str]) -> None:
    """modprobe [-r] NAME [PARAM=VALUE...], with the modules that kpfs ships"""
    remove = any(a in ("-r", "--remove") for a in arguments)
    words = [a for a in arguments if not a.startswith("-")]
    if not words:
        raise ToolError("modprobe: ERROR: missing parameters. See -h.")
    if remove:
        for word in words:
            name = _module_name(word)
            if name in _loaded():
                _remove("modprobe", name)
        return
    name = _module_name(words[0])
    if name in _loaded():
        return
    shipped = os.path.join(HERE, "guest/image/modules")
    if not os.path.exists(os.path.join(shipped, f"{name}.ko")):
        text = f"Module {words[0]} not found in directory /lib/modules/{RELEASE}"
        raise ToolError(f"modprobe: FATAL: {text}")
    _insert("modprobe", name, name, words[1:])


# ---- dmesg
def _records(follow: bool) -> Iterator[tuple[int, int, int, str]]:
    """Yield (priority, sequence number, us since boot, text) of the kernel's log."""
    fd = os.open(f"{TREE}/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    try:
        while True:
            try:
                data = os.read(fd, 8192)
            except BlockingIOError:
                if not follow:
                    return
                select.select([fd], [], [])
                continue
            except OSError as error:
                if error.errno == errno.EPIPE:  # overtaken
                    continue
                raise
            match = RECORD.match(data)
            if match:
                text = ESCAPE.sub(lambda m: bytes((int(m[1], 16),)), match[4])
                said = CONTROL.sub(_escape, text.decode("utf-8", "replace"))
                yield int(match[1]), int(match[2]), int(match[3]), said
    finally:
        os.close(fd)


def _escape(control: re.Match[str]) -> str:
    return f"\\x{ord(control[0]):02x}"


def _cleared() -> int:
    """Return the sequence number of the first record after what was cleared."""
    try:
        with open(CLEARED, encoding="ascii") as f:
            return int(f.read())
    except (OSError, ValueError):
        return 0


class _ToolParser(argparse.ArgumentParser):
    """An argument parser that raises its messages instead of printing them."""

    def error(self, message: str) -> NoReturn:
        raise ToolError(f"{self.prog}: {message}")


def _hosts(tool: str) -> str | None:
    """Return the path of the host's program: the next of that name in PATH."""
    ours = os.path.join(HERE, "bin")
    places = os.environ.get("PATH", os.defpath).split(os.pathsep)
    others = (place for place in places if os.path.realpath(place) != ours)
    return shutil.which(tool, path=os.pathsep.join(others))


def dmesg(arguments: Sequence[str]) -> None:
    """dmesg [-c|-C] [-r] [-t] [-w] [-l LEVELS]; the host's dmesg does all else."""
    parser = _ToolParser("dmesg", add_help=False, allow_abbrev=False)
    parser.add_argument("-c", "--read-clear", action="store_true")
    parser.add_argument("-C", "--clear", action="store_true")
    parser.add_argument("-r", "--raw", action="store_true")
    parser.add_argument("-t", "--notime", action="store_true")
    parser.add_argument("-w", "--follow", action="store_true")
    parser.add_argument("-l", "--level", default=",".join(LEVELS))
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        own = _hosts("dmesg")  # it reads /dev/kmsg, which is the kernel's
        if own is None:
            raise ToolError(f"dmesg: unrecognized option '{unknown[0]}'")
        os.execv(own, ["dmesg", *arguments])
    for level in options.level.split(","):
        if level not in LEVELS:
            raise ToolError(f"dmesg: unknown level '{level}'")
    levels = {LEVELS.index(x) for x in options.level.split(",")}
    first = following = _cleared()
    for priority, seq, us, text in _records(options.follow):
        following = seq + 1
        if options.clear or seq < first or priority & 7 not in levels:
            continue
        head = f"<{priority}>" if options.raw else ""
        if not options.notime:
            head += f"[{us // 1_000_000:5}.{us % 1_000_000:06}] "
        print(f"{head}{text}", flush=options.follow)
    if options.clear or options.read_clear:
        with contextlib.suppress(OSError), open(CLEARED, "w", encoding="ascii") as f:
            f.write(str(following))


TOOLS = {tool.__name__: tool for tool in (insmod, rmmod, lsmod, modprobe, dmesg)}


def main(name: str, arguments: Sequence[str]) -> int:
    """Run one of the tools and return its exit status."""
    with contextlib.suppress(OSError), open("/proc/self/comm", "w") as comm:
        comm.write(name)  # else an oops says that python loaded the module
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # dmesg | head is no error
    if name != "dmesg" and os.environ.get("KPFS_KERNEL", RELEASE) != RELEASE:
        print(f"{name}: kmod is missing (Debian: apt install kmod)", file=sys.stderr)
        return NOT_FOUND
    try:
        TOOLS[name](arguments)
        sys.stdout.flush()
    except ToolError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"{name}: ERROR: {where}{error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.reconfigure(errors="surrogateescape")
    sys.exit(main(sys.argv[1], sys.argv[2:]))
