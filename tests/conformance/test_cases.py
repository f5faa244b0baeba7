# SPDX-License-Identifier: GPL-2.0-or-later
"""The cases recorded from a real Linux 6.1, each against the same mount."""

import re
import subprocess

import pytest

from tests import harness

HERE = harness.CONFORMANCE
CASE_TIMEOUT = 60
PADDED = re.compile(r" +N\b")  # a number that the case has put a letter for


def read_table(where):
    """differs.tsv: case -> why it is not expected to pass on a mount, or under run."""
    lines = (HERE / "differs.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    assert {place for _, place, _ in rows} <= {"mount", "run", "both"}
    return {case: why for case, place, why in rows if place in (where, "both")}


DIFFERS = read_table("mount")
CASES = sorted(path.stem for path in (HERE / "cases").glob("*.sh"))


def parameter(case, table, *marks):
    reason = table.get(case[:3])
    strict = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
    return pytest.param(case, marks=[*strict, *marks])


def normalised(text):
    """The lines, without the padding of numbers that are not told."""
    return [PADDED.sub(" N", line) for line in text.splitlines()]


@pytest.fixture(scope="session")
def shell(session_mount, tool, applets):
    """Runs a script as the recording did, and returns what it printed."""
    environment = {
        "PATH": f"{applets}:/usr/sbin:/usr/bin:/sbin:/bin",
        "KPROBES": str(session_mount / "kprobes"),
        "SYSCTL": str(session_mount / "sys/debug/kprobes-optimization"),
        "TRACING": str(session_mount / "tracing"),
        "HIT": f"{HERE / 'hit-by-file'} {session_mount / 'machine/syscall'}",
        "HITSYM": "__x64_sys_getppid",
        "KIO": str(tool),
    }

    def run(script, *arguments):
        done = subprocess.run(
            ["busybox", "sh", "-c", script, *map(str, arguments)],
            env=environment,
            cwd=tool.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            timeout=CASE_TIMEOUT,
        )
        text = done.stdout.decode(errors="backslashreplace")
        return text.replace(f"{session_mount}/tracing", "/sys/kernel/tracing")

    return run


@pytest.mark.fuse
@pytest.mark.guest
@pytest.mark.parametrize("case", [parameter(case, DIFFERS) for case in CASES])
def test_case(case, shell):
    shell('. "$0"', HERE / "reset.sh")
    path = HERE / "cases" / case
    got = shell('. "$0"; . "$1"', HERE / "lib.sh", path.with_suffix(".sh"))
    expected = path.with_suffix(".out").read_bytes()
    assert normalised(got) == normalised(expected.decode(errors="backslashreplace"))


def test_the_table_names_cases():
    numbers = {case[:3] for case in CASES}
    for table in (DIFFERS, read_table("run")):
        assert set(table) <= numbers
        assert all(reason.strip() for reason in table.values())


@pytest.mark.parametrize("folder", ["cases", "scripts", "modules"])
def test_each_says_what_it_is_about(folder):
    for path in sorted((HERE / folder).glob("*.sh")):
        first = path.read_text().partition("\n")[0]
        assert first.startswith("# "), path.name
        assert "shellcheck" not in first, path.name
