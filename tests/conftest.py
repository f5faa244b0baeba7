# SPDX-License-Identifier: GPL-2.0-or-later
"""Fixtures, markers and the rule that no log goes unannounced; see tests/README.md."""

import faulthandler
import functools
import gc
import logging
import os
import re
import shutil
import signal
from collections.abc import Callable

import pytest

from tests import browser, harness

PATIENCE = 180  # s for a test that is not marked slow

# marker: why its tests cannot run here, "" if they can; in the order they are asked,
# as what a test needs is made then
REQUIREMENTS: dict[str, Callable[[], str]] = {
    "slow": lambda: "" if os.environ.get("KPFS_SLOW") else "KPFS_SLOW=1 runs it",
    "fuse": harness.missing_fuse,
    "libfuse": harness.missing_libfuse,
    "user": harness.missing_user,
    "oracle": harness.missing_oracle,
    "browser": browser.missing,
    **{
        marker: functools.partial(harness.missing_kernels, *names)
        for marker, names in harness.KERNELS.items()
    },
}


def pytest_addoption(parser):
    parser.addoption(
        "--require",
        action="append",
        default=[],
        choices=sorted(REQUIREMENTS),
        metavar="MARKER",
        help="fail, instead of skip, tests of MARKER that cannot run here",
    )
    parser.addoption(
        "--quick", action="store_true", help="run the unit tests and the layers alone"
    )
    parser.addoption(
        "--all", action="store_true", help="run the tests that are marked long, too"
    )


def pytest_configure():
    """Have no child ignore SIGINT or SIGHUP, as one of a job or of nohup does."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    harness.run_folder()  # its number is for the workers, too


def pytest_unconfigure():
    browser.end()
    if harness.run_folder().name.endswith(f"-{os.getpid()}"):
        shutil.rmtree(harness.run_folder(), ignore_errors=True)


def pytest_ignore_collect(collection_path, config):
    """Read no file that --quick does not need, or without the word for ``-m alone``."""
    options = config.option
    if options.quick and not options.file_or_dir:
        below = collection_path.relative_to(harness.ROOT / "tests").parts
        if below and below[0] not in ("unit", "test_layers.py"):
            return True
    if options.markexpr == "alone" and collection_path.suffix == ".py":
        return True if b"mark.alone" not in collection_path.read_bytes() else None
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect the tests while nothing is collected as garbage, and keep them frozen.

    The collector would go through them, some million objects, again and again. What
    unfreezes all objects for a test freezes them again.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config, items):
    """Leave out long tests without --all, but those that are named by their files."""
    if config.option.file_or_dir or config.option.all:
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if not item.get_closest_marker("long")]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """End a test that hangs; fail one that changes the umask of those behind it."""

    def hangs(_number, _frame):
        raise TimeoutError(f"{item.nodeid} took more than {PATIENCE} s")

    previous = signal.signal(signal.SIGALRM, hangs)
    if item.get_closest_marker("slow") is None:
        # again and again: what C has called loses it
        signal.setitimer(signal.ITIMER_REAL, PATIENCE, 1)
        # C that never comes back to Python takes the process with it
        faulthandler.dump_traceback_later(2 * PATIENCE, exit=True)
    umask = os.umask(0o022)
    os.umask(umask)
    try:
        done = yield
        left = os.umask(umask)
        assert left == umask, f"{item.nodeid} leaves a umask of {left:o}"
        return done
    finally:
        os.umask(umask)
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def pytest_runtest_setup(item):
    for name, why_not in REQUIREMENTS.items():
        if item.get_closest_marker(name) is None:
            continue
        reason = why_not()
        if reason and name in item.config.getoption("--require"):
            pytest.fail(f"{name}: {reason}", pytrace=False)
        if reason:
            pytest.skip(f"{name}: {reason}")


@pytest.fixture(autouse=True)
def no_unannounced_log(request, caplog):
    """Fail a test that logs at WARNING or above; the marker logs(pattern) allows it."""
    yield
    allowed = [p for mark in request.node.iter_markers("logs") for p in mark.args]
    records = [
        record.getMessage()
        for when in ("setup", "call")
        for record in caplog.get_records(when)
        if record.levelno >= logging.WARNING
    ]
    grave = [r for r in records if not any(re.search(p, r) for p in allowed)]
    assert grave == [], "unannounced log"


@pytest.fixture(autouse=True)
def made_kernels(request):
    """Have tests of a Linux kernel find the made ones; no guest is kept ready."""
    if any(map(request.node.get_closest_marker, harness.KERNELS)):
        monkeypatch = request.getfixturevalue("monkeypatch")
        monkeypatch.setenv("XDG_DATA_HOME", str(harness.kernels()))
        monkeypatch.setenv("KPFS_WARM", "0")


@pytest.fixture
def machine():
    """A machine without a guest."""
    from tests.fake import FakeMachine

    return FakeMachine()


@pytest.fixture
def kernel():
    """A kernel with its guest, not mounted; no background tasks."""
    from kpfs.backends.guest.root.guest_kernel import GuestKernel

    kernel = GuestKernel(nr_cpus=2, quiet=True)
    yield kernel
    kernel.stop()


@pytest.fixture
def kpfs(tmp_path):
    """The command; its mounts go when the test ends."""
    command = harness.Kpfs(tmp_path)
    yield command
    command.finish()


@pytest.fixture
def mount(kpfs):
    """The directory of a new mount."""
    return kpfs.mount()


@pytest.fixture(scope="session")
def session_mount(tmp_path_factory):
    """One mount for all tests that put its state back themselves."""
    command = harness.Kpfs(tmp_path_factory.mktemp("session"))
    yield command.mount()
    command.finish()
