# SPDX-License-Identifier: GPL-2.0-or-later
"""What cases and scripts need to run as they were recorded."""

import subprocess

import pytest


@pytest.fixture(scope="session")
def applets(tmp_path_factory):
    """A directory with the tools of busybox, as where the cases were recorded."""
    path = tmp_path_factory.mktemp("applets")
    try:
        subprocess.run(["busybox", "--install", "-s", path], check=True)
    except FileNotFoundError:
        pytest.skip("busybox is not installed")
    return path
