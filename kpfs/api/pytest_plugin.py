# SPDX-License-Identifier: GPL-2.0-or-later
"""The plugin for pytest: fixtures, a marker, and the state of kernels in reports.

Every run of pytest loads it where kpfs is installed. It therefore imports nothing of
kpfs before a test asks for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kpfs.api.commands import Finished
    from kpfs.api.kernel import Kernel
    from kpfs.coverage.report import Report

MARKER = (
    "kpfs(cpus=2, config={}, kernel='', quiet=...): the kernel that the fixtures kpfs, "
    "kpfs_mount and kpfs_run give the test"
)
KERNELS = (
    "kernels(NAME, ...): run the test once inside each of these kernels, which the "
    "fixture kpfs_inside runs commands in; those that were not made are skipped"
)
SEARCH = (
    "kpfs_search(seconds=20, kernel='', runs=0, kinds=()): run the test again and "
    "again inside a Linux kernel, as 'kpfs search' does, and fail with what was found; "
    "kernel: without it, the first one that was made with two processors"
)
_SEARCHED = "KPFS_SEARCHED"  # environment variable of the test's own runs
TAIL = 20  # lines of a trace
NEWEST = 50  # lines of a log

# Gives the state of a kernel: a title and a text for each part
State = Callable[[], Mapping[str, str]]
_STATES = pytest.StashKey[list[State]]()
_COVERAGE = pytest.StashKey["Report"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("kpfs").addoption(
        "--kpfs-coverage",
        default="",
        metavar="FILE",
        help="write which functions and lines of modules the kernels of the fixture "
        "kpfs have reached in all tests, for genhtml; a worker of xdist writes "
        "FILE.WORKER",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)
    config.addinivalue_line("markers", KERNELS)
    config.addinivalue_line("markers", SEARCH)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that wants a kernel for each that the closest marker names."""
    if "kpfs_kernel" not in metafunc.fixturenames:
        return
    mark = metafunc.definition.get_closest_marker("kernels")
    if mark is not None and mark.args:
        metafunc.parametrize("kpfs_kernel", mark.args, indirect=True)


def _options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the options of the markers; the closest marker wins."""
    options: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers("kpfs"))):
        if mark.args:
            raise pytest.UsageError("the marker kpfs takes keywords alone")
        options |= mark.kwargs
    return options


def _watch(request: pytest.FixtureRequest, state: State) -> None:
    """Show a state if the test fails."""
    request.node.stash.setdefault(_STATES, []).append(state)


@pytest.fixture
def kpfs(request: pytest.FixtureRequest) -> Iterator[Kernel]:
    """Boot a kernel in this process, a kpfs.Kernel; quiet unless the marker says no."""
    from kpfs.api.kernel import Kernel

    with Kernel(**_options(request)) as kernel:
        _watch(request, partial(_of_kernel, kernel))
        covers = bool(request.config.getoption("--kpfs-coverage"))
        if covers:
            kernel.cover()
        yield kernel
        if covers:
            _add_coverage(request.config, kernel.coverage())


@pytest.fixture
def kpfs_coverage(request: pytest.FixtureRequest, kpfs: Kernel) -> Callable[[], Report]:
    """Record what the test's kernel reaches; return a function that returns it.

    The kernel is that of the fixture kpfs.  See kpfs.Kernel.coverage().
    """
    if not request.config.getoption("--kpfs-coverage"):
        kpfs.cover()
    return kpfs.coverage


def _add_coverage(config: pytest.Config, report: Report) -> None:
    whole = config.stash.get(_COVERAGE, None)
    if whole is None:
        config.stash[_COVERAGE] = report
    else:
        whole.add(report)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what was reached in all tests."""
    config = session.config
    report = config.stash.get(_COVERAGE, None)
    if report is not None:
        # not by the environment, which a pytest that a test starts has, too
        worker = getattr(config, "workerinput", {}).get("workerid", "")
        path = config.getoption("--kpfs-coverage")
        report.write(f"{path}.{worker}" if worker else path)


@pytest.fixture
def kpfs_mount(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Mount a fresh kernel; return the directory."""
    from kpfs.api.commands import mount

    path = tmp_path / "kpfs"
    path.mkdir()
    with mount(path, **_options(request)):
        _watch(request, partial(_of_mount, path))
        yield path


@pytest.fixture
def kpfs_run(request: pytest.FixtureRequest) -> Callable[..., Finished]:
    """Return kpfs.run() with the marker's options; each run has a fresh kernel."""
    from kpfs.api.commands import run

    defaults = _options(request)

    def runner(*words: Any, **options: Any) -> Finished:
        finished = run(*words, **{**defaults, **options})
        _watch(request, partial(_of_finished, finished))
        return finished

    return runner


@pytest.fixture
def kpfs_kernel(request: pytest.FixtureRequest) -> str:
    """Return the name of the kernel for which the marker kernels runs the test."""
    from kpfs.linux.errors import UnfitError
    from kpfs.linux.running import chosen
    from kpfs.linux.store import image

    if not hasattr(request, "param"):
        raise pytest.UsageError('which kernels? @pytest.mark.kernels("6.12", ...)')
    name = str(request.param)
    try:
        image.read_meta(chosen.folder(name))
    except UnfitError as error:
        pytest.skip(str(error))
    return name


@pytest.fixture
def kpfs_inside(
    request: pytest.FixtureRequest, kpfs_kernel: str
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return kpfs.run_inside(), which runs a command inside the test's kernel."""
    from kpfs.api.commands import run_inside

    def runner(
        argv: Sequence[str] | str, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        done = run_inside(argv, kernel=kpfs_kernel, **options)
        _watch(request, partial(_output, done.stdout, done.stderr))
        return done

    return runner


# ---- reports
@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Search a test that has the marker kpfs_search, in place of calling it once."""
    marker = pyfuncitem.get_closest_marker("kpfs_search")
    if marker is None or os.environ.get(_SEARCHED):
        return None
    from kpfs import SetupError, search

    options = {"seconds": 20.0, **marker.kwargs}
    options["kernel"] = options.get("kernel") or _first_with_two_cpus()
    # pytest itself, without what would differ from run to run. Variables are words, as
    # the line that makes a run again is one for any shell
    words = "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly"
    config = pyfuncitem.config
    command = [
        "env",
        f"{_SEARCHED}=1",
        "PYTHONHASHSEED=0",
        sys.executable,
        "-m",
        "pytest",
        *words,
        "--rootdir",
        str(config.rootpath),
    ]
    node = f"{pyfuncitem.path}::{pyfuncitem.nodeid.partition('::')[2]}"
    try:
        found = search([*command, node], cwd=config.rootpath, **options)
        told = "\n".join(map(str, found))
    except SetupError as error:
        told = str(error)
    if told:
        pytest.fail(told, pytrace=False)
    return True


def _first_with_two_cpus() -> str:
    """Return the name of a kernel that was made with several processors, or skip."""
    from kpfs.linux.errors import UnfitError
    from kpfs.linux.store import image, store

    for name in store.names():
        with suppress(UnfitError):
            if len(image.read_meta(store.folder(name)).processors) > 1:
                return name
    pytest.skip("no kernel with two processors: kpfs kernel make 6.12+cpus=2")


def _shown(dmesg: str, read: Callable[[str], str]) -> dict[str, str]:
    """Return the state of a kernel.  read: reads one of its files; OSError."""

    def lines(path: str) -> list[str]:
        try:
            return read(path).splitlines()
        except OSError as error:  # it is dead, or configured without that file
            return [str(error)]

    trace = [line for line in lines("tracing/trace") if not line.startswith("#")]
    parts = {
        "dmesg": dmesg.splitlines()[-NEWEST:],
        "kprobes/list": lines("kprobes/list"),
        "error_log": lines("tracing/error_log"),
        "the end of trace": trace[-TAIL:],
    }
    return {title: "\n".join(rows) for title, rows in parts.items() if any(rows)}


def _of_kernel(kernel: Kernel) -> dict[str, str]:
    return _shown(kernel.dmesg(), kernel.read)


def _of_mount(path: Path) -> dict[str, str]:
    from kpfs.api.commands import read_kmsg

    def read(name: str) -> str:
        return (path / name).read_text(errors="surrogateescape")

    return _shown(read_kmsg(path / "kmsg"), read)


def _of_finished(finished: Finished) -> dict[str, str]:
    said = _shown(finished.dmesg, finished.files.__getitem__)
    return said | _output(finished.stdout, finished.stderr)


def _output(stdout: str, stderr: str) -> dict[str, str]:
    streams = {"stdout": stdout.rstrip(), "stderr": stderr.rstrip()}
    return {f"{name} of the command": text for name, text in streams.items() if text}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the states of the test's kernels where it has failed.

    Where no kernel can be had, by a fixture or in the test, the reason alone is shown.
    """
    report = yield
    errors = sys.modules.get("kpfs.base.errors")  # imported once a test wants kpfs
    if errors and call.excinfo and report.failed:
        if isinstance(call.excinfo.value, errors.SetupError):
            report.longrepr = f"kpfs: {call.excinfo.value}"
    if report.failed and report.when != "teardown":
        for state in item.stash.get(_STATES, []):
            report.sections += [(f"kpfs: {t}", text) for t, text in state().items()]
    return report
