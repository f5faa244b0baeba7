# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds the programs in this folder: some run inside Linux kernels."""

import os
import re
import shutil
from pathlib import Path

import pytest

from tests import harness

HERE = Path(__file__).parent
MISSING = re.compile("cannot find|No such file or directory")  # a library, its headers


def static_program(name: str, folder: Path, prefix: str = "") -> Path:
    """Build NAME.c as a static program. prefix: of a compiler for another machine."""
    return program(name, folder, prefix, "-static")


def program(name: str, folder: Path, prefix: str = "", *options: str) -> Path:
    """Build NAME.c as a program."""
    compiler = shutil.which(f"{prefix}gcc" if prefix else os.environ.get("CC", "gcc"))
    if not compiler:
        pytest.skip(f"no C compiler {prefix}")
    if prefix.startswith("arm-"):  # no probes in Thumb code
        options = *options, "-marm"
    source, words = HERE / f"{name}.c", (*options, "-O1", "-Wall", "-Werror", "-o")

    def make(made: Path) -> None:
        done = harness.run(compiler, *words, made / name, source)
        if MISSING.search(done.stderr):
            pytest.skip(f"{source.name}: {done.stderr.splitlines()[0]}")
        assert not done.returncode, done.stderr

    texts = [path.read_bytes() for path in (source, *sorted(HERE.glob("*.h")))]
    stat = os.stat(compiler)
    what = compiler, stat.st_size, stat.st_mtime_ns, words, name, texts
    return Path(shutil.copy(harness.kept(what, make) / name, folder))
