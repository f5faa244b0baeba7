# SPDX-License-Identifier: GPL-2.0-or-later
"""The command ``kpfs mcp``: kpfs as tools of the Model Context Protocol.

A program that drives kpfs, such as a coding agent, speaks the protocol over standard
input and output.  Each tool runs a command of kpfs in a process of its own, so that a
request waits for no other, and one that is given up ends with all that it has started.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kpfs.api.commands import program
from kpfs.base.errors import SetupError
from kpfs.base.signals import raised
from kpfs.commands.arguments import flag, number
from kpfs.linux.errors import UnfitError
from kpfs.linux.store import store

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from mcp.server.mcpserver import MCPServer

PACKAGE = "mcp"
SECONDS, OUTPUT, KERNELS = 60.0, 32 << 10, 12  # limits, if no others are asked for
GRACE = 5.0  # s for a command that is told to end
INSTRUCTIONS = """\
kpfs runs unmodified Linux kernels in an emulator, without root and KVM, and answers for
them what becomes of a kprobe.  Begin with kernel_list; explain says what becomes of a
probe at a function in several kernels and what to use instead; run and matrix run a
program inside, where the kernel's tracefs, bpf(2) and modules are its own and the
host's files can be read.
"""


class Limits(NamedTuple):
    """The most that a call may ask for."""

    seconds: float
    output: int  # bytes of each of its two streams
    kernels: int  # that one call names
    allowed: frozenset[str]  # with any parameters; empty: all that were made
    inside: bool  # no program becomes a process of the host


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--timeout",
        type=number(1, 86400, float),
        default=SECONDS,
        metavar="SECONDS",
        help=f"end a call that takes longer (default {SECONDS:.0f})",
    )
    parser.add_argument(
        "--output",
        type=number(1000),
        default=OUTPUT,
        metavar="BYTES",
        help=f"of what a command writes, show so much (default {OUTPUT})",
    )
    parser.add_argument(
        "--kernels", default="", metavar="NAME,...", help="no others may be used"
    )
    flag(parser, "--inside", "no program becomes a process of the host")


def main(arguments: Namespace) -> int:
    """Serve until standard input ends.  Raises SetupError."""
    from kpfs.linux.running.chosen import chosen, folder

    allowed = chosen(arguments.kernels) if arguments.kernels else []
    for name in allowed:
        folder(name)
    if sys.stdin.isatty():
        raise SetupError(
            "mcp: a program speaks to it, no terminal: name it as the command of a "
            "server (see 'kpfs mcp --help')"
        )
    limits = Limits(
        arguments.timeout,
        arguments.output,
        KERNELS,
        frozenset(allowed),
        arguments.inside,
    )
    try:
        server = server_of(limits)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != PACKAGE:
            raise
        raise SetupError(
            f"mcp: the package {PACKAGE} is missing", "pip install 'kpfs[mcp]'"
        ) from None
    with raised():
        server.run("stdio")
    return 0


def server_of(limits: Limits) -> MCPServer[None]:
    """Return a server of the tools."""
    from mcp.server.mcpserver import MCPServer

    server: MCPServer[None] = MCPServer(
        "kpfs", instructions=INSTRUCTIONS, log_level="WARNING"
    )
    tools = Tools(limits)
    names = ["kernel_list", "explain", "features", "run", "matrix"]
    for name in [*names, *["trace"] * (not limits.inside)]:
        server.tool(structured_output=False)(getattr(tools, name))
    return server


class Tools:
    """The tools; each of them returns JSON or the words of kpfs.

    A call that kpfs refuses raises ToolError with its line.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    async def kernel_list(self) -> str:
        """List the Linux kernels that can be named in the other tools.

        Others come by 'kpfs kernel make NAME' in a shell: '6.12', '6.1-cloud',
        'ubuntu:noble'.  A name may have parameters behind it: '6.12+preempt=full'.
        """
        rows = [
            {"name": name, "release": meta.release, "architecture": meta.arch}
            for name, meta in store.metas()
            if not self._limits.allowed or name in self._limits.allowed
            if not isinstance(meta, UnfitError)
        ]
        return json.dumps(rows, indent=1)

    async def explain(self, points: list[str], kernels: list[str]) -> str:
        """Say what becomes of kprobes at points in kernels, and what to use instead.

        points: SYMBOL, SYMBOL+OFFSET or MODULE:SYMBOL.  The result has by kernel for
        each point: errno ("" if it is accepted) and why, the ways besides kprobe_events
        (each with why it is closed, "" if it is open), and hints: what a function that
        is gone is called there, or who has it inlined.
        """
        done = await self._kpfs(
            "explain", "--json", "--kernels", self._names(kernels), "--", *points
        )
        return _output(done, fine=(0, 1))

    async def features(self, kernels: list[str], *, only_differences: bool) -> str:
        """Show what kernels can do for tracing: files, definitions of events, BPF."""
        names = self._names(kernels).split(",")
        words = ["--diff"] if only_differences else []
        return _output(await self._kpfs("kernel", "features", *words, *names))

    async def run(self, kernel: str, command: list[str], seconds: float = 0) -> str:
        """Run a program inside a Linux kernel, as its root; return status and output.

        It sees the host's files, and changes none of them.  tracefs, debugfs, bpf(2)
        and modules are those of the kernel.  ["sh", "-c", "..."] is a script.  seconds:
        end it after so many; 0: as late as the server allows.
        """
        words = "--kernel", self._names([kernel]), "--inside", *self._timeout(seconds)
        done = await self._kpfs("run", *words, "--", *command)
        return json.dumps(done, indent=1)

    async def matrix(
        self, kernels: list[str], command: list[str], seconds: float = 0
    ) -> str:
        """Run a program inside several kernels: a row for each, with why it failed.

        seconds: end it after so many; 0: as late as the server allows.
        """
        words = "--json", "--kernels", self._names(kernels), *self._timeout(seconds)
        done = await self._kpfs("matrix", *words, "--", *command)
        return _output(done, fine=(0, 1))

    async def trace(
        self, events: list[str], command: list[str], kernel: str = ""
    ) -> str:
        """Run a program as a process of the host with events on; return the records.

        events: 'sched:sched_switch', 'syscalls:', or a definition such as
        'p:opened do_sys_openat2 file=+0(%si):ustring'.  kernel: "" is kpfs's own.
        """
        words = [word for event in events for word in ("-e", event)]
        if kernel:
            words += ["--kernel", self._names([kernel])]
        done = await self._kpfs("trace", "--format", "jsonl", *words, "--", *command)
        return json.dumps(done, indent=1)

    # ---- limits
    def _names(self, kernels: Sequence[str]) -> str:
        """Return the kernels as an option has them, if they may be used."""
        from kpfs.linux.running.chosen import parts

        limits = self._limits
        if len(kernels) > limits.kernels:
            raise _refusal(f"{len(kernels)} kernels: {limits.kernels} at most")
        for name in kernels:
            if limits.allowed and not {name, parts(name)[0]} & limits.allowed:
                raise _refusal(f"{name} is not one of {', '.join(limits.allowed)}")
            if not name or "," in name or name.startswith("-"):
                raise _refusal(f"{name!r} is no name of a kernel: see kernel_list")
        return ",".join(kernels)

    def _timeout(self, seconds: float) -> tuple[str, str]:
        """Return the option that ends a command before its call is ended."""
        most = max(self._limits.seconds - GRACE, self._limits.seconds / 2)
        return "--timeout", f"{min(seconds or most, most):g}"

    async def _kpfs(self, *words: str) -> dict[str, Any]:
        """Run kpfs; return its status, and what it wrote."""
        import anyio

        if any("\0" in word for word in words):
            raise _refusal("a word has a byte of zero in it")
        said = {name: Said(self._limits.output) for name in ("stdout", "stderr")}
        async with await anyio.open_process(
            [*program(), *words], stdin=subprocess.DEVNULL, start_new_session=True
        ) as process:
            try:
                with anyio.move_on_after(self._limits.seconds) as time:
                    async with anyio.create_task_group() as readers:
                        readers.start_soon(said["stdout"].read, process.stdout)
                        readers.start_soon(said["stderr"].read, process.stderr)
                    await process.wait()
            finally:
                await _end(process)
        result = {"status": process.returncode}
        result |= {name: each.text for name, each in said.items()}
        left_out = {name: each.left_out for name, each in said.items() if each.left_out}
        if left_out:
            result["bytes_left_out"] = left_out
        if time.cancelled_caught:
            result["ended"] = f"after {self._limits.seconds:g} s"
        return result


class Said:
    """The begin of what a command writes to a stream."""

    def __init__(self, most: int) -> None:
        self._begin, self._most, self.left_out = bytearray(), most, 0

    async def read(self, stream: Any) -> None:
        async for some in stream:
            room = self._most - len(self._begin)
            self._begin += some[:room]
            self.left_out += len(some[room:])

    @property
    def text(self) -> str:
        return self._begin.decode("utf-8", "replace")


async def _end(process: Any) -> None:
    """End a command that still runs, and give it time to take away what it made."""
    import anyio

    with anyio.CancelScope(shield=True):
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process.returncode is None:
                os.killpg(process.pid, number)
                with anyio.move_on_after(GRACE):
                    await process.wait()


def _output(done: dict[str, Any], fine: Sequence[int] = (0,)) -> str:
    """Return what a command wrote.  Raises ToolError if it failed."""
    said = done["stderr"].strip().removeprefix("kpfs: ") or f"status {done['status']}"
    if "ended" in done:
        said = f"it was ended {done['ended']}: ask for less"
    elif done.get("bytes_left_out", {}).get("stdout"):
        said = "the result is longer than the server allows: ask for less"
    elif done["status"] in fine:
        return str(done["stdout"])
    raise _refusal(said)


def _refusal(words: str) -> Exception:
    from mcp.server.mcpserver.exceptions import ToolError

    error: Exception = ToolError(words)
    return error
