# SPDX-License-Identifier: GPL-2.0-or-later
"""Floating-point instructions inside a Linux kernel do what processors do.

This tests emulator/sse.c, emulator/strings.c, emulator/x87.c and
emulator/riscv_float.c.
"""

import hashlib
import os
import shutil

import pytest

from tests import harness
from tests.campaign import floats
from tests.programs import static_program


@pytest.mark.kernel
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="another processor")
@pytest.mark.parametrize(
    ("seed", "first", "count"),
    [(1, 0, 3000), (2, 0, 3000), (988186711, 220509, 1)],
    ids=["1", "2", "unsupported"],
)
def test_random_instructions(kpfs, tmp_path, seed, first, count):
    """Results, MXCSR, the x87's words, flags, and the code of a SIGFPE."""
    static_program("floats", tmp_path)
    found = floats.compare(kpfs, harness.KERNEL, tmp_path, seed, first, count)
    assert found == [], "\n".join(found[:10])


COUNT = 5000
# the SHA-256 of what floats_elsewhere.c prints for the seed 1 in QEMU 7.2
PRINTED = {
    "aarch64": "5f42b7fa4a5309f7695978089fbb861e4c076a47d7646301b4f88f9d72b151be",
    "riscv64": "19e2c89970cff3446a996635d3070e433ab976f529c16db52a4009228400223a",
}


def emulated(arch, program):
    """Return what QEMU prints, or nothing if it is not there."""
    qemu = shutil.which(f"qemu-{arch}-static") or shutil.which(f"qemu-{arch}")
    return harness.run(qemu, program, "1", str(COUNT)).stdout if qemu else ""


@pytest.mark.parametrize(
    ("arch", "kernel", "root"),
    [
        pytest.param(
            "aarch64",
            harness.ARM64,
            harness.arm64_root,
            marks=pytest.mark.arm64_kernel,
        ),
        pytest.param(
            "riscv64",
            harness.RISCV64,
            harness.riscv64_root,
            marks=pytest.mark.riscv64_kernel,
        ),
    ],
)
def test_random_instructions_elsewhere(kpfs, tmp_path, arch, kernel, root):
    """Results and flags in each mode of rounding, and of arm64's other modes."""
    program = static_program("floats_elsewhere", tmp_path, f"{arch}-linux-gnu-")
    options = "--inside", "--kernel", kernel, "--root", root(), "--rw", tmp_path
    done = kpfs("run", *options, "--", program, "1", str(COUNT))
    assert done.returncode == 0, done.stderr
    if hashlib.sha256(done.stdout.encode()).hexdigest() != PRINTED[arch]:
        assert done.stdout.splitlines() == emulated(arch, program).splitlines()
