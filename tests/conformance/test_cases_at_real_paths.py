# SPDX-License-Identifier: GPL-2.0-or-later
"""The recorded cases under ``kpfs run``, with the files where the cases had them."""

import pytest

from tests import harness
from tests.conformance.test_cases import CASES, normalised, parameter, read_table

HERE = harness.CONFORMANCE
DIFFERS = read_table("run")
# those that one of the two settings fails; the others are slow
CHOSEN = [case for case in CASES if case[:3] in {**DIFFERS, **read_table("mount")}]
PLACES = {
    "KPROBES": "/sys/kernel/debug/kprobes",
    "SYSCTL": "/proc/sys/debug/kprobes-optimization",
    "TRACING": "/sys/kernel/tracing",
    "HITSYM": "__x64_sys_getppid",
}
RUN = """
here=$1 results=$2
shift 2
for case; do
    busybox sh -c '. "$0"' $here/reset.sh >/dev/null 2>&1
    timeout 60 busybox sh -c '. "$0"; . "$1"' $here/lib.sh $here/cases/$case.sh \\
        >$results/$case 2>&1 </dev/null
done
"""
TIMEOUT = 900  # s, for all of them


@pytest.fixture(scope="module")
def printed(tmp_path_factory, tool, applets):
    """What a case prints; it is run with all of its group, in one kernel."""
    results = tmp_path_factory.mktemp("printed")
    kpfs = harness.Kpfs(results)
    variables = {
        "PATH": f"{applets}:/usr/sbin:/usr/bin:/sbin:/bin",
        "HIT": tool.parent / "hitn",
        "KIO": tool,
        **PLACES,
    }

    def printed(case, group):
        path = results / case
        if not path.exists():
            done = kpfs(
                *("run", "--", "env", "-i"),
                *(f"{name}={value}" for name, value in variables.items()),
                *("busybox", "sh", "-c", RUN, "sh", HERE, results, *group),
                cwd=tool.parent,
                timeout=TIMEOUT,
            )
            assert (done.stdout, done.stderr) == ("", "")
        return path.read_bytes().decode(errors="backslashreplace")

    yield printed
    kpfs.finish()


def check(case, got):
    expected = (HERE / "cases" / case).with_suffix(".out").read_bytes()
    assert normalised(got) == normalised(expected.decode(errors="backslashreplace"))


@pytest.mark.fuse
@pytest.mark.guest
@pytest.mark.parametrize("case", [parameter(case, DIFFERS) for case in CHOSEN])
def test_what_differs_on_a_mount(case, printed):
    check(case, printed(case, CHOSEN))


@pytest.mark.fuse
@pytest.mark.guest
@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if case not in CHOSEN])
def test_all_others(case, printed):
    check(case, printed(case, [case for case in CASES if case not in CHOSEN]))
