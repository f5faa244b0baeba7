# SPDX-License-Identifier: GPL-2.0-or-later
"""The campaign itself: it ends with all that it has started, and sees what is wrong."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial

import pytest

from kpfs.base.errors import KernelError
from kpfs.guest.loader import modelf
from tests import harness
from tests.campaign import __main__ as campaign
from tests.campaign import elf, hits, restrictions, seeds
from tests.campaign.child import in_child
from tests.campaign.fuzz import Writes
from tests.campaign.guard import GuardedMmap, guard
from tests.campaign.hunt import Hunt, progress_of
from tests.campaign.processes import SOON
from tests.harness import WrongError
from tests.modbox import build, module
from tests.programs import sequences

pytestmark = pytest.mark.long


def start(folder, *words, **options):
    """Start the command, whose parts are the fakes of this file."""
    code = f"import sys; sys.argv[1:] = {words!r}; {options.pop('code', '')}"
    code += "\nfrom tests.campaign.__main__ import main; sys.exit(main())"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=harness.ROOT,
        env={**os.environ, "TMPDIR": str(folder)},
    )


FAKE = """
import subprocess, time
from tests.campaign import __main__ as campaign
from tests.campaign.hunt import Part

def body(hunt):
    {}
campaign.PARTS = ("fake",)
campaign.processes.SOON = 1  # s until what is left behind is a finding
campaign.load = lambda name: Part("things", 5, 1, body)
"""


def fake(body):
    return FAKE.format(body.replace("\n", "\n    "))


def test_wrong_words():
    done = start("/tmp", "nosuch").communicate(timeout=60)
    assert "no such part: nosuch" in done[1]


def test_it_counts_and_is_content(tmp_path):
    child = start(tmp_path, "--seed", "3", code=fake("hunt.did(5, 'done')"))
    out, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (0, "")
    assert "fake                   5 things" in out
    assert "0 findings" in out
    assert list(tmp_path.iterdir()) == []


def test_no_kernel_is_kept_ready_for_longer_than_is_waited_for_the_end(tmp_path):
    body = "import os; hunt.did(1, 'warm for ' + os.environ['KPFS_WARM'])"
    child = start(tmp_path, code=fake(body))
    out, _ = child.communicate(timeout=60)
    assert float(out.partition("warm for ")[2].split()[0]) < SOON / 2


def test_a_finding_is_kept(tmp_path):
    child = start(tmp_path, code=fake("hunt.finding('bad', log='a text')"))
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 1
    assert "FINDING fake-1: bad" in out
    (folder,) = tmp_path.iterdir()
    assert f"1 findings, in {folder}" in out
    kept = (folder / "fake/findings/fake-1/what").read_text()
    assert kept.startswith("bad\n\nscripts/campaign --seed ")
    assert "a text" in kept


SECONDS = str(10_000_000 + os.getpid())  # that nobody else sleeps
LEAVES = f"subprocess.Popen(['sleep', '{SECONDS}'], start_new_session=True)"


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("1 / 0", "the part itself failed"),
        ("import os; os.kill(os.getpid(), 9)", "fake has died, wait status 0x9"),
        (LEAVES, "fake left processes behind"),
    ],
    ids=["fails", "is killed", "leaves a process"],
)
def test_a_part_that_does_not_end_well_is_a_finding(tmp_path, body, what):
    child = start(tmp_path, code=fake(body))
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 1
    assert f"FINDING fake-1: {what}" in out
    assert SECONDS not in processes()


def test_a_finding_about_any_bytes_is_kept(tmp_path):
    child = start(tmp_path, code=fake("hunt.finding('e\\udc80', x='\\udcff')"))
    child.communicate(timeout=60)
    assert child.returncode == 1
    (folder,) = tmp_path.iterdir()
    kept = (folder / "fake/findings/fake-1/what").read_bytes()
    assert kept.startswith(b"e\x80\n")
    assert b"\xff" in kept


@pytest.mark.parametrize(
    ("words", "said"),
    [(["hits"], "not over a real kernel: hits"), (["kills"], "no kernel none")],
)
def test_a_wrong_choice_of_kernel_is_refused(words, said):
    command = sys.executable, "-m", "tests.campaign", "--kernel", "none"
    done = harness.run(*command, *words, cwd=harness.ROOT)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_all_ends_when_it_is_interrupted(tmp_path, number):
    child = start(tmp_path, code=fake(f"{LEAVES}\nhunt.did(2)\ntime.sleep(600)"))
    harness.until(lambda: SECONDS in processes(), "it does not sleep")
    child.send_signal(number)
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "things" in out
    assert SECONDS not in processes()


def processes():
    return harness.run("ps", "-eo", "args").stdout


def test_time_is_shared(tmp_path):
    body = "while hunt.more():\n    time.sleep(0.1)"
    begin = time.monotonic()
    child = start(tmp_path, "--minutes", "0.02", code=fake(body))
    child.communicate(timeout=60)
    assert child.returncode == 0
    assert time.monotonic() - begin < 30


def test_progress_outlives_its_process(tmp_path):
    hunt = Hunt("x", 10, 0, 1, tmp_path)
    hunt.did(3, "good")
    hunt.finding("something")
    progress = progress_of(tmp_path)
    assert progress == (3, "1 good", ("x-1: something",))


def test_a_child_that_dies_hangs_or_complains():
    assert in_child(lambda: [1, 2], 10) == ([1, 2], "")
    assert "wait status 0x9" in in_child(lambda: os.kill(os.getpid(), 9), 10).wrong
    assert "no end within 0.2 s" in in_child(lambda: time.sleep(60), 0.2).wrong
    assert "ZeroDivisionError" in in_child(lambda: 1 / 0, 10).wrong

    def complains():
        import logging

        logging.getLogger("kpfs").warning("hm")

    assert "WARNING kpfs: hm" in in_child(complains, 10).wrong


def test_leaving_guarded_memory_is_a_fault():
    import ctypes

    def read_at(before):
        ram = GuardedMmap().mmap(-1, 1 << 20, flags=0x22)
        start = ctypes.addressof(ctypes.c_char.from_buffer(ram))
        return ctypes.string_at(start + before, 1)[0]

    assert in_child(lambda: read_at(0), 10).value == 0
    assert in_child(lambda: read_at((1 << 20) - 1), 10).value == 0
    for outside in (-1, -4096, 1 << 20):
        wrong = in_child(partial(read_at, outside), 10).wrong
        assert "Segmentation fault" in wrong


@pytest.mark.guest
def test_guests_come_and_go_in_guarded_memory():
    def boot():
        from kpfs.guest.machine import Guest

        guard()
        for _ in range(5):
            Guest(1, quiet=True).close()

    assert in_child(boot, 60) == (None, "")


@pytest.mark.fuse
@pytest.mark.guest
def test_the_fuzzer_sees_a_refused_write_that_changes_files(kpfs, monkeypatch):
    mount = kpfs.mount("--quiet-guest")
    writes = Writes(mount, 1)
    writes.targets = [str(mount / "tracing/buffer_size_kb")]
    texts = iter(range(1000))
    monkeypatch.setattr(writes, "show", lambda _name: str(next(texts)))

    def some():
        for _ in range(50):
            writes.any()

    with pytest.raises(WrongError, match="->"):
        some()


@pytest.mark.fuse
@pytest.mark.guest
def test_the_fuzzer_forgets_files_that_it_emptied(kpfs):
    mount = kpfs.mount("--quiet-guest")
    writes = Writes(mount, 1)
    path = mount / "tracing/set_event"
    path.write_text("sched:sched_switch\n")
    writes.seen["tracing/set_event"] = writes.show("tracing/set_event")
    writes.targets = [str(path)]
    for _ in range(60):  # some truncate, most are refused
        writes.any()
        writes.compare(list(writes.seen))


@pytest.mark.fuse
@pytest.mark.guest
def test_the_fuzzer_forgets_a_filter_that_was_refused(kpfs):
    mount = kpfs.mount("--quiet-guest")
    (mount / "tracing/kprobe_events").write_text("p:kprobes/a vfs_read\n")
    writes = Writes(mount, 1)
    name = "tracing/events/kprobes/a/filter"
    writes.targets = [str(mount / name)]
    for _ in range(50):
        writes.seen[name] = writes.show(name)
        writes.any()
        writes.compare(list(writes.seen))


@pytest.mark.guest
def test_a_hit_that_is_not_counted_is_seen(monkeypatch):
    monkeypatch.setattr(hits, "COUNTERS", {"all_hits": 4})
    wrong = in_child(partial(hits.hammer, 2, 1, build("hammer")), 60).wrong
    assert wrong.startswith("all_hits: ")


@pytest.mark.guest
def test_a_module_that_is_not_looked_at_is_seen(monkeypatch, tmp_path):
    monkeypatch.setattr(modelf, "damage", lambda _image: "")
    modules = sorted(elf.SHIPPED.glob("*.ko"))
    with tempfile.TemporaryFile() as file:

        def work():
            elf.Loader(modules, tmp_path / "m.ko", file.fileno()).work(list(range(60)))

        assert "it is in kpfs's own log" in in_child(work, 60).wrong


SLEEPER = "#include <linux/delay.h>\nINIT(msleep(4000000); return 0;)\n"


@pytest.mark.guest
def test_a_module_that_sleeps_is_not_waited_for(monkeypatch, tmp_path):
    monkeypatch.setattr(seeds, "SLEEP_MAX", 1)
    path = module("sleeper", SLEEPER)

    class Sleepers(seeds.Seeds):
        def load(self, rng):
            with contextlib.suppress(KernelError):
                self.box.insmod(path)
            return "awake"

    def work():
        with tempfile.TemporaryFile() as file:
            return Sleepers(tmp_path / "m.ko", file.fileno()).work([1, 2])

    assert in_child(work, 60) == ({"asleep": 2}, "")


def answer(status, out="", err=""):
    return subprocess.CompletedProcess(["kpfs"], status, out, err)


@pytest.mark.parametrize(
    ("done", "how"),
    [
        (answer(0), "works"),
        (answer(0, err="kpfs: system calls are not mirrored\n"), "works"),
        (answer(2, err="kpfs: no /dev/fuse: load it\n"), "refused"),
        (answer(2), None),
        (answer(1, err="kpfs: no\n"), None),
        (answer(1, err="Traceback (most recent call last):\n..."), None),
        (answer(2, err="kpfs: this\nkpfs: that\n"), None),
        (answer(-6), None),
    ],
)
def test_a_refusal_is_one_line_of_kpfs(tmp_path, done, how):
    tries = restrictions.Tries(Hunt("x", 1, 0, 1, tmp_path))
    if how:
        assert tries.judge(done, works=True) == how
    else:
        with pytest.raises(harness.WrongError):
            tries.judge(done, works=True)


@pytest.mark.parametrize("answers", [True, False])
def test_a_refusal_leaves_no_dead_mount(tmp_path, monkeypatch, answers):
    """A mount that could not be removed must still answer; else it is a finding."""
    tries = restrictions.Tries(Hunt("x", 1, 0, 1, tmp_path))
    said = iter([2, 0 if answers else 1, 2])
    monkeypatch.setattr(
        tries, "call", lambda words: answer(next(said), err="kpfs: it may not be\n")
    )
    mounted = iter([True, False])
    monkeypatch.setattr(harness, "is_mounted", lambda target: next(mounted))
    if answers:
        assert tries.mount([]) == "works, umount refused"
    else:
        with pytest.raises(harness.WrongError, match="a dead mount"):
            tries.mount([])


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("g3 p8:e9 p9:43 p10:ff", "g3 p8:e9+"),
        ("g3 p4:cc p6:11 p8:ff", "g3 p4:cc+"),  # left of a jump
        ("g3 p4:cc p8:e9 p9:cc p10:22", "g3 p4:cc p8:e9+"),  # a neighbour's jump
        ("g3 p4:cc p8:cc o0:cc", "g3 p4:cc p8:cc o0:cc"),
    ],
)
def test_what_sequences_show_of_text(line, found):
    listed = ["k  plain3+0x4  sequence ", "k  plain3+0x8  sequence [OPTIMIZED]"]
    assert sequences.without_targets(line, listed) == found


@pytest.mark.fuse
@pytest.mark.guest
@pytest.mark.parametrize(
    ("part", "number"),
    [
        *(("hits", 1), ("hostile", 8), ("elf", 8), ("kills", 1), ("fuzz", 40)),
        *(("limits", 3), ("product", 2), ("signals", 2), ("users", 2)),
        *(("board", 8), ("files", 8), ("archives", 40), ("steady", 3)),
        *(("rewriting", 300), ("sequences", 20)),
    ],
)
def test_a_little_of_each(tmp_path, part, number):
    child = start(tmp_path, "--seed", "1", "--number", str(number), part)
    out, err = child.communicate(timeout=150)
    assert (child.returncode, err) == (0, ""), out


def test_the_table_of_parts():
    for name in campaign.PARTS:
        part = campaign.load(name)
        assert part.number > 0
        assert part.share > 0
