# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases, scripts and modules print what they printed when a Linux kernel 6.1 was asked.

run-cases runs them: most on a mount, by each transport, and those that name real paths
under ``kpfs run``.

This also tests kpfs.backends.guest.files.events.
"""

import re

import pytest

from kpfs.manual.differs import differences
from tests import harness, modbox

pytestmark = [pytest.mark.fuse, pytest.mark.guest]

HERE = harness.CONFORMANCE
MODULES = (
    "synth_calls",
    "watch_calls",
    "debugfs_calls",
    "kprobe_calls",
    "goods_calls",
    "visits_calls",
)
PADDED = re.compile(r" +N\b")  # a number that the case has put a letter for


def expected_failures(place):
    """Return recorded case -> why it fails at a place: a mount, or run."""
    return {
        case: row.here for row in differences() for case in row.cases.get(place, ())
    }


def recorded(folder):
    return sorted(path.stem for path in (HERE / folder).glob("*.sh"))


# these look at a jump within the 22 ms that it stays after its probe was disabled
TIMED = frozenset(("029", "030", "141"))
ON_MOUNT, UNDER_RUN = expected_failures("mount"), expected_failures("run")
BY_LIBFUSE = {**ON_MOUNT, **expected_failures("libfuse")}
CASES, SCRIPTS = recorded("cases"), recorded("scripts")
# kernel -> its mark, the function that cases hit, and cases
OVER = {
    # each but the last failed as the first of a run when descriptors were mixed up, and
    # the last when a writer's position was asked for
    harness.KERNEL: ("kernel", "__x64_sys_getppid", "014 033 056 341"),
    # what they print names neither registers nor jumps
    harness.ARM64: (
        "arm64_kernel",
        "__arm64_sys_getppid",
        "014 033 056 093 118 134 144 180",
    ),
    # These probe no function's entry, which 6.12 for riscv64 refuses. In the last one
    # an exit takes long, which closes a file that is opened again.
    harness.RISCV64: (
        "riscv64_kernel",
        "__riscv_sys_getppid",
        "014 047 069 112 160 162",
    ),
}
OVER_CASES = [
    pytest.param(kernel, hit, case, marks=getattr(pytest.mark, mark))
    for kernel, (mark, hit, numbers) in OVER.items()
    for case in CASES
    if case[:3] in numbers.split()
]
# these are about operations on files, others about what a line means
ABOUT_FILES = re.compile(
    "stat|read|open|offset|-fd|write|mutations|trunc|busy|long|pipe|instances|binary|"
    "marker|position|limits|dir|files"
)
# cases that either of the two settings fails; under kpfs run all others are slow
CHOSEN = [case for case in CASES if case[:3] in {**UNDER_RUN, **ON_MOUNT}]


def parameters(cases, table):
    """The cases, those of the table marked as expected failures."""

    def marks(number):
        reason = table.get(number)
        xfail = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
        return xfail + [pytest.mark.alone] * (number in TIMED)

    return [pytest.param(case, marks=marks(case[:3])) for case in cases]


def check(runner, folder, name, normalise=lambda text: text):
    path = HERE / folder / f"{name}.sh"
    expected = path.with_suffix(".out").read_text(errors="backslashreplace")
    got = normalise(runner.printed(path))
    assert got.splitlines() == normalise(expected).splitlines()


def unpadded(text):
    """The text without the padding of numbers that are not told."""
    return PADDED.sub(" N", text)


@pytest.mark.parametrize("case", parameters(CASES, ON_MOUNT))
def test_case(case, on_mount):
    check(on_mount, "cases", case, unpadded)


@pytest.mark.libfuse
@pytest.mark.long
@pytest.mark.parametrize(
    "case", parameters(filter(ABOUT_FILES.search, CASES), BY_LIBFUSE)
)
def test_case_by_libfuse(case, by_libfuse):
    check(by_libfuse, "cases", case, unpadded)


@pytest.mark.libfuse
@pytest.mark.slow
@pytest.mark.parametrize(
    "case", parameters([c for c in CASES if not ABOUT_FILES.search(c)], BY_LIBFUSE)
)
def test_other_cases_by_libfuse(case, by_libfuse):
    check(by_libfuse, "cases", case, unpadded)


@pytest.mark.parametrize("case", parameters(CHOSEN, UNDER_RUN))
def test_what_differs_on_a_mount(case, at_real_paths):
    check(at_real_paths, "cases", case, unpadded)


@pytest.mark.parametrize(("kernel", "hit", "case"), OVER_CASES)
def test_over_a_linux_kernel(kernel, hit, case, over_kernel):
    check(over_kernel(kernel, hit), "cases", case, unpadded)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if case not in CHOSEN])
def test_all_others(case, at_real_paths):
    check(at_real_paths, "cases", case, unpadded)


@pytest.mark.parametrize("script", SCRIPTS)
def test_script(script, at_real_paths):
    check(at_real_paths, "scripts", script)


@pytest.mark.parametrize("script", recorded("modules"))
def test_module(script, kpfs, new_runner, tmp_path, monkeypatch):
    for name in MODULES:
        (tmp_path / f"{name}.ko").symlink_to(modbox.build(name))
    monkeypatch.setenv("KMODULES", str(tmp_path))
    runner = new_runner("--mount", kpfs.mount("--quiet-guest"))
    check(runner, "modules", script)


@pytest.mark.long
@pytest.mark.oracle
def test_linux_still_says_so():
    scripts = [HERE / "scripts" / f"{name}.sh" for name in SCRIPTS]
    done = harness.run(HERE / "record", "--check", *scripts)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_the_length_of_scripts():
    for name in SCRIPTS:
        text = (HERE / "scripts" / f"{name}.sh").read_text()
        assert 20 <= len(text.splitlines()) <= 40, name


def test_the_table_names_cases():
    numbers = {case[:3] for case in CASES}
    assert {*BY_LIBFUSE, *UNDER_RUN} <= numbers


@pytest.mark.parametrize("folder", ["cases", "scripts", "modules"])
def test_each_says_what_it_is_about(folder):
    for path in sorted((HERE / folder).glob("*.sh")):
        first = path.read_text().partition("\n")[0]
        assert first.startswith("# "), path.name
        assert "shellcheck" not in first, path.name
