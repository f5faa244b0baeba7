# SPDX-License-Identifier: GPL-2.0-or-later
"""Processes that run recorded cases, one after the other, for all tests of a worker."""

import functools
import shutil
import subprocess
from contextlib import ExitStack, nullcontext

import pytest

from tests import harness
from tests.there import there

RUN_CASES = harness.CONFORMANCE / "run-cases"


class Runner:
    """A process ``run-cases --serve``, which waits for the next case."""

    def __init__(self, folder, *command):
        self.folder = folder
        self.process = subprocess.Popen(
            [*map(str, command), "--serve", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ask, self.answers = there(self.process.stdin), there(self.process.stdout)

    def printed(self, path):
        """Run a case; return the text that it printed.

        Some use fixed names in /tmp: workers take turns at these.
        """
        fixed = "/tmp" in path.read_text()
        with harness.exclusive("recorded-cases") if fixed else nullcontext():
            return self._printed(path)

    def _printed(self, path):
        self.ask.write(f"{path}\n")
        self.ask.flush()
        assert self.answers.readline() == f"{path.stem}\n"
        return (self.folder / path.stem).read_text(errors="backslashreplace")

    def close(self):
        self.ask.close()
        assert self.process.wait(harness.TIMEOUT) == 0
        self.answers.close()


@pytest.fixture(scope="session")
def new_runner(tmp_path_factory):
    """A function that starts a Runner; it takes options of run-cases."""
    for name in ("busybox", "gcc"):
        if not shutil.which(name):
            pytest.skip(f"{name} is not installed")
    tools = tmp_path_factory.mktemp("tools")
    runners = []

    def new(*options, before=()):
        folder = tmp_path_factory.mktemp("printed")
        command = *before, RUN_CASES, "--tools", tools, *options
        runners.append(Runner(folder, *command))
        return runners[-1]

    yield new
    for runner in runners:
        runner.close()


@pytest.fixture(scope="session")
def on_mount(new_runner, session_mount):
    """A runner over the files of the session's mount."""
    return new_runner("--mount", session_mount)


@pytest.fixture(scope="session")
def by_libfuse(new_runner, tmp_path_factory):
    """A runner over the files of a mount by libfuse."""
    kpfs = harness.Kpfs(tmp_path_factory.mktemp("libfuse"))
    yield new_runner("--mount", kpfs.mount("--transport", "libfuse"))
    kpfs.finish()


@pytest.fixture(scope="session")
def at_real_paths(new_runner, tmp_path_factory):
    """A runner under ``kpfs run``."""
    kpfs = harness.Kpfs(tmp_path_factory.mktemp("run"))
    runner = new_runner(before=kpfs.command("run", "--"))
    yield runner
    runner.close()
    kpfs.finish()


@pytest.fixture(scope="session")
def over_kernel(new_runner, tmp_path_factory):
    """Make runners under ``kpfs run`` over Linux kernels, with the function to hit."""
    with ExitStack() as stack:

        @functools.cache
        def over(name, hit):
            kpfs = harness.Kpfs(tmp_path_factory.mktemp("linux"))
            stack.callback(kpfs.finish)
            command = kpfs.command("run", "--kernel", name, "--quiet-guest", "--")
            found = "env", f"XDG_DATA_HOME={harness.kernels()}", f"HITSYM={hit}"
            runner = new_runner(before=[*found, *command])
            stack.callback(runner.close)
            return runner

        yield over
