# SPDX-License-Identifier: GPL-2.0-or-later
"""bench --smp: hits on many CPUs in virtual time, with RCU and with one lock."""

import json
import sys

import pytest

from bench import smp
from tests import harness
from tests.modbox import ROOT, build, need_compiler

HITS = 8


@pytest.fixture(scope="module")
def results():
    need_compiler()
    counts = (1, 2, 4, 8, 16)
    found = smp.curves(counts, HITS)
    return {
        name: dict(zip(counts, curve, strict=True)) for name, curve in found.items()
    }


@pytest.mark.parametrize("name", ["rcu", "none"])
def test_each_cpu_adds_its_own(results, name):
    curve = results[name]
    for cpus, result in curve.items():
        assert (result.cpus, result.hits, result.waited) == (cpus, cpus * HITS, 0)
        assert result.instructions == cpus * curve[1].instructions
        assert result.throughput > 0.98 * cpus * curve[1].throughput
    assert results["none"][1].throughput > 4 * results["rcu"][1].throughput


def test_with_one_lock_they_wait_for_one_another(results):
    rcu, lock = results["rcu"], results["lock"]
    assert lock[1].waited == 0
    flat = [lock[cpus].throughput for cpus in (4, 8, 16)]
    assert max(flat) < 1.05 * min(flat)
    assert flat[0] < 2.5 * lock[1].throughput
    assert lock[8].waited > lock[4].waited > lock[2].waited
    assert rcu[8].throughput > 3.5 * lock[8].throughput
    # the same code but for the lock
    assert 5 < (lock[1].instructions - rcu[1].instructions) / HITS < 30


def test_no_cpu_goes_on_before_the_lock_is_free(results):
    """No time is counted for two holders at once."""
    lock = results["lock"]
    held = (lock[16].time - lock[8].time) / (8 * HITS)  # what one more hit takes
    assert 0.3 < held * lock[1].hits / lock[1].instructions < 1
    assert lock[8].time >= 8 * HITS * held


def test_every_hit_is_one(tmp_path):
    box_hits = []
    run = smp.Clocks.run

    def counted(clocks, cpus, hits):
        result = run(clocks, cpus, hits)
        kernel = clocks._guest
        box_hits.append((cpus, kernel.read_u64(found[0])))
        return result

    # what the handler of the module counts
    found = []
    path = build(
        "hit_cost",
        (ROOT / "guest" / "modules" / "hit_cost.c")
        .read_text()
        .replace(
            "struct pt_regs *regs)\n{\n", "struct pt_regs *regs)\n{\n\tcalls++;\n", 1
        )
        .replace("static int pre", "u64 calls;\nstatic int pre", 1),
    )
    init = smp.Clocks.__init__

    def remember(clocks, box):
        found.append(box.address("calls"))
        init(clocks, box)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(smp.Clocks, "run", counted)
        patch.setattr(smp.Clocks, "__init__", remember)
        smp.measure(smp.build_locked(tmp_path), (1, 3), HITS, path)
    assert box_hits == [(1, HITS), (3, HITS + 3 * HITS)]


def test_the_product_has_no_such_lock():
    image = (ROOT / "guest" / "image" / "runtime.o").read_bytes()
    assert b"lock_kprobes" not in image


def test_the_curves_as_text(results):
    curves = {name: list(curve.values()) for name, curve in results.items()}
    lines = smp.plot(curves).splitlines()
    assert lines[-1].split() == ["1", "2", "4", "8", "16", "CPUs"]
    drawn = [line.partition("|")[2] for line in lines[1:-2]]
    assert "".join(drawn).count(".") == 5
    spans = {
        mark: [n for n, line in enumerate(drawn) if mark in line or "*" in line]
        for mark in "ox"
    }
    assert drawn[0].endswith(".")  # 16 CPUs without a probe are at the top
    assert spans["o"][-1] - spans["o"][0] in (7, 8, 9)  # as steep as that is
    assert spans["x"][-1] - spans["x"][0] <= 3


@pytest.mark.parametrize("words", ["--smp hits", "--smp --against-qemu"])
def test_it_is_measured_alone(words):
    done = harness.run(sys.executable, "-m", "bench", *words.split(), cwd=ROOT)
    assert done.returncode == 2
    assert "--smp measures nothing else" in done.stderr


def test_for_machines():
    need_compiler()
    done = harness.run(sys.executable, "-m", "bench", "--smp", "--json", cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    rows = {row["name"]: row["value"] for row in json.loads(done.stdout)["rows"]}
    for curve in ("rcu", "lock", "none"):
        values = [rows[f"smp.{curve}.{n}"] for n in range(1, 17)]
        assert values == sorted(values)
