# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds the programs in this folder: some run inside Linux kernels."""

import os
import shutil
from pathlib import Path

import pytest

from tests import harness

HERE = Path(__file__).parent


def static_program(name: str, folder: Path, prefix: str = "") -> Path:
    """Build NAME.c as a static program. prefix: of a compiler for another machine."""
    return program(name, folder, prefix, "-static")


def program(name: str, folder: Path, prefix: str = "", *options: str) -> Path:
    """Build NAME.c as a program."""
    compiler = shutil.which(f"{prefix}gcc" if prefix else os.environ.get("CC", "gcc"))
    if not compiler:
        pytest.skip(f"no C compiler {prefix}")
    source, made = HERE / f"{name}.c", folder / name
    words = *options, "-O1", "-Wall", "-Werror", "-o"
    done = harness.run(compiler, *words, made, source)
    if done.returncode:
        pytest.skip(f"{source.name}: {done.stderr.splitlines()[0]}")
    return made
