# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/campaign selftests: how it reads a console, and what it calls a finding."""

from pathlib import Path

from tests.campaign import selftests
from tests.campaign.selftests import HANGS, LOST, Compared, Ftracetest, Runs

TESTS = {
    "a/one.tc": "# description: one\n# flags: instance\n",
    "a/two.tc": "# description: two\n",
    "a/three.tc": "# description: three\n# flags: instance\n",
}
SAID = (
    "=== Ftrace unit tests ===\r\n[1] one\t[PASS]\r\n"
    "[2] two[    3.803013] a kernel's\r\n[   12.5] word\t[XFAIL]\r\n"
    "[3] three\t[UNRESOLVED]\r\n[4] (instance)  one\t[PASS]\r\n"
    "[5] (instance)  three"
)


def test_verdicts_are_those_of_files():
    found = selftests.read_verdicts(TESTS, SAID, late=False)
    assert found == {
        "a/one.tc": "PASS",
        "a/two.tc": "XFAIL",
        "a/three.tc": "UNRESOLVED",
        "a/one.tc (instance)": "PASS",
        "a/three.tc (instance)": LOST,
    }
    late = selftests.read_verdicts(TESTS, SAID, late=True)
    assert late["a/three.tc (instance)"] == HANGS


def test_a_difference_is_one_where_qemu_has_a_verdict():
    inside = Runs({"x": "PASS", "y": "FAIL", "z": "PASS", "w": LOST}, 1.0)
    qemu = Runs({"x": "PASS", "y": "PASS", "z": LOST, "w": "PASS"}, 2.0)
    compared = Compared("a", inside, qemu)
    assert compared.only_inside() == ["z"]
    assert compared.equal() == ["x"]
    lines = ["y: FAIL, in QEMU PASS", f"w: {LOST}, in QEMU PASS"]
    assert compared.differences() == lines


def test_what_is_not_reached_inside_is_a_difference():
    compared = Compared(
        "a", Runs({"x": HANGS}, 1.0), Runs(dict.fromkeys("xy", "PASS"), 1)
    )
    assert compared.differences() == [
        f"x: {HANGS}, in QEMU PASS",
        f"y: {selftests.MISSING}, in QEMU PASS",
    ]


def test_what_kills_the_kernel_in_qemu_is_left_out_there(monkeypatch, tmp_path):
    suite = object.__new__(Ftracetest)
    suite.scratch, suite.entries, suite.stopped = tmp_path, [], False
    suite.qemu = type("Qemu", (), {"command": lambda *_: []})()
    runs = [
        Runs({"a/one.tc": "PASS", "a/two.tc": LOST}, 1.0),
        Runs({"a/one.tc": "PASS", "a/three.tc": "PASS"}, 2.0),
    ]
    asked = []

    def run(_self, _words, tests):
        asked.append(list(tests))
        return runs[len(asked) - 1]

    monkeypatch.setattr(Ftracetest, "_run", run)
    found = suite.run_in_qemu(TESTS)
    assert asked == [list(TESTS), ["a/one.tc", "a/three.tc"]]
    assert found.seconds == 3.0
    assert found.verdicts["a/two.tc"] == LOST
    assert Path(tmp_path, "initrd").exists()
