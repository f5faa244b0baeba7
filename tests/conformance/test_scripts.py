# SPDX-License-Identifier: GPL-2.0-or-later
"""Scripts at the real paths that know nothing of kpfs, as a real Linux ran them."""

import subprocess

import pytest

from tests import harness

HERE = harness.CONFORMANCE
SCRIPTS = sorted(path.stem for path in (HERE / "scripts").glob("*.sh"))
# as tests/conformance/record does it
RUN = '. "$1/lib.sh"; sh "$1/scripts/$2.sh" 2>&1 | norm'
ENVIRONMENT = {
    "TRACING": "/sys/kernel/tracing",
    "KPROBES": "/sys/kernel/debug/kprobes",
    "HITSYM": "__x64_sys_getppid",
}


@pytest.mark.fuse
@pytest.mark.guest
@pytest.mark.parametrize("script", SCRIPTS)
def test_script(kpfs, applets, script):
    path = f"PATH={applets}:/usr/sbin:/usr/bin:/sbin:/bin"
    variables = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
    done = kpfs(
        *("run", "--", "env", path, *variables),
        *("sh", "-c", RUN, "sh", HERE, script),
    )
    assert done.stdout.splitlines() == (
        (HERE / "scripts" / f"{script}.out").read_text().splitlines()
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.oracle
def test_linux_still_says_so():
    scripts = [HERE / "scripts" / f"{name}.sh" for name in SCRIPTS]
    done = subprocess.run(
        [HERE / "record", "--check", *scripts], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_their_length():
    for name in SCRIPTS:
        text = (HERE / "scripts" / f"{name}.sh").read_text()
        assert 20 <= len(text.splitlines()) <= 40, name
