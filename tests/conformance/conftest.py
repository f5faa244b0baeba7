# SPDX-License-Identifier: GPL-2.0-or-later
"""What cases and scripts need to run as they were recorded."""

import subprocess

import pytest

from tests import harness


@pytest.fixture(scope="session")
def applets(tmp_path_factory):
    """A directory with the tools of busybox, as where the cases were recorded."""
    path = tmp_path_factory.mktemp("applets")
    try:
        subprocess.run(["busybox", "--install", "-s", path], check=True)
    except FileNotFoundError:
        pytest.skip("busybox is not installed")
    return path


@pytest.fixture(scope="session")
def tool(tmp_path_factory):
    """kio, the helper for single file operations; beside it hitn, for system calls."""
    path = tmp_path_factory.mktemp("tools")
    try:
        for name in ("kio", "hitn"):
            source = harness.CONFORMANCE / f"{name}.c"
            subprocess.run(["gcc", "-O2", "-w", "-o", path / name, source], check=True)
        subprocess.run(["busybox", "true"], check=True)
    except FileNotFoundError as error:
        pytest.skip(f"{error.filename} is not installed")
    return path / "kio"
