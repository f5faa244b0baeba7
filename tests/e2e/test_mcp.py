# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs mcp, asked by the client of the protocol's own SDK.

Tests kpfs.commands.mcp.
"""

import importlib.util
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time

import pytest

from kpfs.commands.mcp import Limits, Tools
from tests import harness

PATIENCE = 60  # s
pytestmark = pytest.mark.kernel
with_sdk = pytest.mark.skipif(
    not importlib.util.find_spec("mcp"), reason="missing: the package mcp"
)


def environment():
    return {**os.environ, "XDG_DATA_HOME": str(harness.kernels())}


def talk(conversation, *options):
    """Have a coroutine speak with a server that was started with these options."""
    import anyio
    from mcp import Client, StdioServerParameters

    async def connected():
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "kpfs", "mcp", *options],
            env=environment(),
            cwd=harness.ROOT,
        )
        with anyio.fail_after(PATIENCE):
            async with Client(server) as client:
                return await conversation(client)

    return anyio.run(connected)


EACH = ["kernel_list", "explain", "features", "run", "matrix"]
# points and kernels, and what is said of them
WRONG: list[tuple[list[str], list[str], str]] = [
    (["a b"], [harness.KERNEL], "'a b' is not SYMBOL"),
    (["f"], ["nope"], "no kernel nope"),
    (["f"], [""], "'' is no name of a kernel"),
    (["f"], ["-x"], "'-x' is no name of a kernel"),
    (["f"], [], "--kernels: it is empty"),
    (["f"], ["a"] * 13, "13 kernels: 12 at most"),
    (["\0"], [harness.KERNEL], "a byte of zero"),
]


@with_sdk
@pytest.mark.fuse
def test_each_tool():
    async def conversation(client):
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == [*EACH, "trace"]
        assert all(tool.description for tool in tools)
        (run,) = (tool for tool in tools if tool.name == "run")
        assert run.input_schema["required"] == ["kernel", "command"]
        for points, kernels, said in WRONG:
            words = {"points": points, "kernels": kernels}
            result = await client.call_tool("explain", words)
            assert result.is_error
            assert said in result.content[0].text

        async def ask(tool, **arguments):
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, result.content[0].text
            return result.content[0].text

        kernels = [harness.KERNEL]
        listed = json.loads(await ask("kernel_list"))
        assert harness.KERNEL in [row["name"] for row in listed]
        points = ["vfs_read", "no_such"]
        explained = json.loads(await ask("explain", points=points, kernels=kernels))
        errors = [fate["errno"] for fate in explained[harness.KERNEL]]
        assert errors == ["", "ENOENT"]
        features = await ask("features", kernels=kernels, only_differences=False)
        assert "BPF_PROG_TYPE_KPROBE" in features
        command = ["sh", "-c", "uname -r; echo two >&2; exit 3"]
        done = json.loads(await ask("run", kernel=harness.KERNEL, command=command))
        assert (done["status"], done["stderr"]) == (3, "two\n")
        assert done["stdout"].startswith("6.1.")
        (row,) = json.loads(await ask("matrix", kernels=kernels, command=["false"]))
        assert row["status"] == 1
        events = ["p:mine/e vfs_read"]
        traced = json.loads(await ask("trace", events=events, command=["true"]))
        assert traced["status"] == 0
        assert '"mine:e"' in traced["stdout"] or '"e"' in traced["stdout"]

    talk(conversation)


@with_sdk
def test_limits():
    async def conversation(client):
        for tool, words, said in (
            ("run", {"kernel": "6.12"}, f"6.12 is not one of {harness.KERNEL}"),
            ("matrix", {"kernels": [harness.KERNEL]}, "longer than the server allows"),
        ):
            result = await client.call_tool(tool, {**words, "command": ["seq", "9999"]})
            assert result.is_error
            assert said in result.content[0].text
        words = {"events": ["p:e vfs_read"], "command": ["sleep", "99"]}
        result = await client.call_tool("trace", words)
        assert '"ended": "after 5 s"' in result.content[0].text

    talk(
        conversation,
        *("--kernels", harness.KERNEL, "--output", "1000", "--timeout", "5"),
    )


@with_sdk
@pytest.mark.parametrize("name", ["a+x=1", "b", "b+y=2"])
@pytest.mark.parametrize("other", ["a", "a+x=2", "c", "c+x=1"])
def test_allowed_kernels_may_have_parameters(name, other):
    tools = Tools(Limits(1, 1, 1, frozenset(("a+x=1", "b")), inside=True))
    assert tools._names([name]) == name
    with pytest.raises(Exception, match=f"^{re.escape(other)} is not one of"):
        tools._names([other])


@with_sdk
def test_output_is_cut_and_time_is_up():
    async def conversation(client):
        assert [tool.name for tool in (await client.list_tools()).tools] == EACH
        command = ["sh", "-c", "seq 9999; sleep 99"]
        words = {"kernel": harness.KERNEL, "command": command, "seconds": 1}
        return (await client.call_tool("run", words)).content[0].text

    done = json.loads(talk(conversation, "--output", "1000", "--inside"))
    assert done["status"] == 124
    assert (done["stdout"][:4], len(done["stdout"])) == ("1\n2\n", 1000)
    assert done["bytes_left_out"]["stdout"] > 40_000
    assert "still runs after 1 s" in done["stderr"]


def children(pid):
    """The processes below one."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True)
    parents = [tuple(map(int, row.split())) for row in listed.stdout.splitlines()]
    below = [child for child, parent in parents if parent == pid]
    return below + [each for child in below for each in children(child)]


def there(pid):
    return os.path.exists(f"/proc/{pid}") and harness.state(pid) != "Z"


@with_sdk
def test_a_call_that_is_given_up_ends_and_holds_nobody_up():
    import anyio

    async def conversation(client):
        before = {*children(os.getpid())}  # the server, and what other tests have begun
        with anyio.move_on_after(3):
            command = ["sleep", "98"]
            words = {"kernel": harness.KERNEL, "command": command}
            async with anyio.create_task_group() as calls:
                calls.start_soon(client.call_tool, "run", words)
                await anyio.sleep(1)
                begun = {*children(os.getpid())} - before
                assert not (await client.call_tool("kernel_list", {})).is_error
                await anyio.sleep(PATIENCE)
        while any(map(there, begun)):
            await anyio.sleep(0.05)
        return len(begun)

    assert talk(conversation) > 0


@with_sdk
@pytest.mark.parametrize("end", ["end of file", "SIGTERM", "SIGINT"])
def test_nothing_is_left_of_a_server(end):
    server = subprocess.Popen(
        [sys.executable, "-m", "kpfs", "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        cwd=harness.ROOT,
    )
    assert server.stdin is not None
    assert server.stderr is not None
    version = {"protocolVersion": "2025-06-18", "capabilities": {}}
    client = {**version, "clientInfo": {"name": "test", "version": "1"}}
    words = {"kernel": harness.KERNEL, "command": ["sleep", "97"]}
    for message in (
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {
            "id": 2,
            "method": "tools/call",
            "params": {"name": "run", "arguments": words},
        },
    ):
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    server.stdin.flush()
    until = time.monotonic() + PATIENCE
    while not (begun := children(server.pid)) and time.monotonic() < until:
        time.sleep(0.05)
    assert begun
    if end == "end of file":
        server.stdin.close()
    else:
        server.send_signal(getattr(signal, end))
    assert server.wait(PATIENCE) in (0, -signal.SIGTERM, -signal.SIGINT)
    while (left := [*filter(there, begun)]) and time.monotonic() < until:
        time.sleep(0.05)
    assert left == []
    assert b"Traceback" not in server.stderr.read()


def run(*words, **options):
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        env=environment(),
        cwd=harness.ROOT,
        timeout=PATIENCE,
        **options,
    )


def test_wrong_use():
    code = "import sys; sys.modules['mcp'] = None; from kpfs.cli import main; "
    lacking = run("-c", f"{code} sys.exit(main(['mcp']))", stdin=subprocess.DEVNULL)
    assert lacking.returncode == 2
    assert lacking.stderr == (
        "kpfs: mcp: the package mcp is missing: pip install 'kpfs[mcp]'\n"
    )
    wrong = run("-m", "kpfs", "mcp", "--kernels", "nope", stdin=subprocess.DEVNULL)
    assert (wrong.returncode, wrong.stderr[:23]) == (2, "kpfs: no kernel nope; t")
    main, terminal = pty.openpty()
    typed = run("-m", "kpfs", "mcp", stdin=terminal)
    assert typed.returncode == 2
    assert typed.stderr.startswith("kpfs: mcp: a program speaks to it, no terminal")
    os.close(main)
    os.close(terminal)
