# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs search``, and ``kpfs run --seed``.

Tests kpfs.commands.search, kpfs.commands.search_page, kpfs.hunt.search,
kpfs.hunt.runs, kpfs.hunt.task, kpfs.hunt.cluster, kpfs.hunt.standing,
kpfs.coverage.module_lines, kpfs.coverage.told_races, kpfs.linux.search.hold,
kpfs.linux.search.searched, and kpfs.linux.search.replay.
"""

import contextlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import find, settings
from hypothesis import strategies as st

import kpfs as api
from tests import checked, harness
from tests.replayed import under_gdb

pytestmark = [pytest.mark.kernel, pytest.mark.parameters]

KERNEL = harness.WITH_PARAMETERS
SOURCE = harness.ROOT / "tests/programs/counted.c"


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """A program whose two threads count in a map."""
    program = tmp_path_factory.mktemp("counted") / "counted"
    command = ["gcc", "-O1", "-pthread", "-o", program, SOURCE]
    subprocess.run(command, check=True)
    return program


@pytest.fixture(autouse=True)
def data(monkeypatch, tmp_path):
    """A place for seeds of this test, with the kernels of all tests."""
    (tmp_path / "data/kpfs").mkdir(parents=True)
    kernels = harness.kernels() / "kpfs" / "kernels"
    (tmp_path / "data/kpfs/kernels").symlink_to(kernels)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def search(kpfs, *words, **options):
    return kpfs("search", "--kernel", KERNEL, "--jobs", "2", *words, **options)


def test_a_lost_update_is_found_and_seen_again(kpfs, counted, tmp_path):
    report, page = tmp_path / "report.xml", tmp_path / "page.html"
    options = ["--json", "--junit", report, "--html", page, "--runs", "14"]
    done = search(kpfs, *options, "--", counted, "lost", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    found = {each["kind"]: each for each in json.loads(done.stdout)["findings"]}
    assert set(found) == {"race", "schedule"}
    assert found["schedule"]["title"] == "wrong result: status 3, 1 of 2"
    assert "writes what" in found["race"]["title"]
    assert "(counted) on CPU" in "".join(found["race"]["lines"])
    suite = ElementTree.parse(report).getroot()
    assert suite.get("failures") == "2"
    assert "wrong result: status 3" in page.read_text()
    # again, in another process, and without a search
    words = shlex.split(found["schedule"]["replay"])
    again = kpfs(*words[1:], cwd=tmp_path)
    assert (again.returncode, again.stdout) == (3, "1 of 2\n")
    assert again.stderr.startswith("kpfs: data race: ")
    assert again.stderr.endswith("\nkpfs: wrong result: status 3, 1 of 2\n")
    if shutil.which("gdb"):  # which stops it, and goes back
        under = under_gdb(words, tmp_path)
        assert (under.status, under.output) == (3, "1 of 2\n")
        assert under.errors == again.stderr
        assert re.search(r"before bpf_prog_\S+ .*: reached\n", under.said)
        assert under.said.count("hit Breakpoint") > 1
        assert "Old value" in under.said
    # somewhere else it would be another run
    other = kpfs(*words[1:-1], "atomic", cwd=tmp_path)
    assert other.returncode == 2
    assert other.stderr == (
        f"kpfs: the seed would show another run: its command is {counted} lost\n"
    )


def races(tmp_path, *, mended):
    """Return a command that uses tests/checked/races.c in one of its ways."""
    program = tmp_path / "races"
    source = harness.ROOT / "tests/programs/races.c"
    subprocess.run(["gcc", "-O1", "-pthread", "-o", program, source], check=True)
    module = checked.build(tmp_path, KERNEL, "races", mended=mended)
    return f"insmod -f {module} && {program} %s && rmmod {module.stem}"


def test_what_a_call_writes_races_with_the_module(kpfs, tmp_path):
    command = races(tmp_path, mended=False) % "elsewhere"
    options = "--runs", "12", "--kinds", "race", "--json"
    done = search(kpfs, *options, "--", "sh", "-c", command)
    found = [each["title"] for each in json.loads(done.stdout)["findings"]]
    assert any("data race: elsewhere" in title for title in found)


def test_a_module_without_races_is_not_reported(kpfs, tmp_path):
    command = races(tmp_path, mended=True) % "all"
    done = search(kpfs, "--runs", "10", "--", "sh", "-c", command)
    assert (done.returncode, done.stderr) == (0, "")


def test_one_run_is_checked_for_races(kpfs, tmp_path):
    # quiet, as one run of any course may miss a race
    quiet = "--inside", "--quiet-guest", "--check", "race,memory"
    words = "run", "--kernel", KERNEL, *quiet, "--"
    command = races(tmp_path, mended=False) % "lost"
    done = kpfs(*words, "sh", "-c", command)
    assert done.returncode == 1
    told = r"^kpfs: data race: lost\+\S+ \[races\] \(\S+races.c:\d+\) \w+ what lost\+"
    assert re.search(told, done.stderr, re.M)
    assert "\n    task " in done.stderr
    command = races(tmp_path, mended=False)
    for error in "torn", "elsewhere":
        done = kpfs(*words, "sh", "-c", command % error)
        assert re.search(rf"^kpfs: data race: {error}\+", done.stderr, re.M)
    command = races(tmp_path, mended=True) % "all"
    done = kpfs(*words, "sh", "-c", command)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_helper_of_a_program_fails(kpfs, counted):
    words = "--kinds", "fault", "--runs", "4", "--json", "--", counted
    done = search(kpfs, *words, "stored")
    assert done.returncode == 1, done.stderr
    (found,) = json.loads(done.stdout)["findings"]
    assert found["title"] == "CMD still runs after 30 s"
    assert re.search(r"htab_map_update_elem\(\) fails, called at ", str(found["lines"]))
    done = search(kpfs, *words, "told")
    assert done.returncode == 0, done.stdout


def test_a_seed_says_which_file_has_changed(kpfs, counted, tmp_path):
    program = tmp_path / "counted"
    program.write_bytes(counted.read_bytes())
    program.chmod(0o755)
    words = [str(program), "lost"]
    (found,) = api.search(words, kernel=KERNEL, runs=8, kinds=["schedule"])
    assert str(found).startswith("wrong result: status 3, 1 of 2\n    kpfs run")
    program.write_bytes(counted.read_bytes() + b"\n")
    again = kpfs(*shlex.split(found.replay)[1:])
    assert again.returncode == 2
    assert again.stderr.endswith(f"another run: {program} has changed\n")


@contextlib.contextmanager
def cluster(folder):
    """Yield the address of a scheduler, and its two workers."""
    python, at = [sys.executable, "-m"], ["--no-dashboard", "--host", "127.0.0.1"]
    options: dict[str, Any] = {"cwd": harness.ROOT, "stderr": subprocess.DEVNULL}
    file = folder / "scheduler.json"
    words = ["--port", "0", "--no-show", "--scheduler-file", file]
    module = "distributed.cli.dask_scheduler"
    with contextlib.ExitStack() as end:

        def started(*command):
            process = end.enter_context(subprocess.Popen(command, **options))
            end.callback(process.kill)
            return process

        started(*python, module, *at, *words)
        module = "distributed.cli.dask_worker"
        words = ["--no-nanny", "--nthreads", "1", "--local-directory", folder]
        words += ["--scheduler-file", file]
        workers = [started(*python, module, *at, *words) for _ in range(2)]
        harness.until(file.exists, "no scheduler")
        address = json.loads(file.read_text())["address"]
        from distributed import Client

        with Client(address) as client:
            client.wait_for_workers(2)
        yield address, workers


@pytest.mark.skipif(
    not importlib.util.find_spec("distributed"),
    reason="missing: the packages of kpfs[cluster]",
)
def test_a_cluster_makes_runs_and_one_of_its_workers_dies(kpfs, counted, tmp_path):
    words = "search", "--kernel", KERNEL, "--runs", "40", "--kinds", "schedule"
    with cluster(tmp_path) as (address, workers):
        command = [*words, "--json", "--scheduler", address, "--", counted, "lost"]
        with kpfs.started(*command, stderr=-1, cwd=tmp_path) as process:
            pid = workers[0].pid

            def works():
                threads = Path(f"/proc/{pid}/task").glob("*/children")
                return any(path.read_text() for path in threads)

            harness.until(works, "no worker makes runs")
            workers[0].kill()
            out, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (1, b"")
    (found,) = json.loads(out)["findings"]
    assert found["title"] == "wrong result: status 3, 1 of 2"
    assert sum(json.loads(out)["summary"]["runs"].values()) >= 40


def test_one_processor_does_nothing_at_once(kpfs, counted):
    words = "search", "--kernel", harness.KERNEL, "--runs", "2", "--", counted, "lost"
    told = kpfs(*words).stdout.splitlines()[-1]
    alone = f"{harness.KERNEL} has one processor: what two do at once was not tried "
    assert told == f"{alone}(--kernel {harness.KERNEL}+cpus=2)"


def test_a_correct_program_is_not_reported(kpfs, counted):
    done = search(kpfs, "--runs", "16", "--", counted, "atomic")
    assert (done.returncode, done.stderr) == (0, "")
    assert "race: nothing found" in done.stdout


@pytest.mark.slow
def test_hypothesis_chooses_an_input_and_the_search_a_schedule(kpfs, counted):
    def goes_wrong(number):
        words = [str(counted), str(number)]
        return bool(api.search(words, kernel=KERNEL, runs=8, kinds=["schedule"]))

    assert not goes_wrong(7)  # a search alone
    alone = kpfs("run", "--kernel", KERNEL, "--inside", "--", counted, "255")
    assert alone.returncode == 0  # an input alone
    how = settings(max_examples=10, derandomize=True, database=None, deadline=None)
    assert find(st.integers(0, 255), goes_wrong, settings=how) == 201


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo no", "says where runs begin (echo kpfs:mark >/dev/kmsg); it said: no\n"),
        ("echo kpfs:mark >/dev/kmsg; echo no; exit 5", "by itself (status 5): no;"),
    ],
)
def test_commands_that_cannot_be_searched(kpfs, script, why):
    done = search(kpfs, "--", "sh", "-c", script)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert why in done.stderr


def test_only_the_text_of_a_name_is_searched(kpfs, counted):
    options = "--kinds", "race", "--runs", "4", "--json"
    done = search(
        kpfs, *options, "--of", "array_map_lookup_elem", "--", counted, "lost"
    )
    assert (done.returncode, done.stderr) == (0, "")
    done = search(kpfs, "--of", "none", "--", counted, "lost")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("kpfs: --of none: CMD loads no module")


def test_a_file_that_changes_meanwhile_is_named(kpfs, tmp_path):
    file, over = tmp_path / "file", threading.Event()
    file.write_text("0")

    def change():
        for number in count():
            (tmp_path / "new").write_text(f"{number}\n")
            (tmp_path / "new").rename(file)
            if over.wait(0.01):
                return

    script = f"echo kpfs:mark >/dev/kmsg; cat {file}"
    with ThreadPoolExecutor() as pool:
        pool.submit(change)
        done = search(kpfs, "--", "sh", "-c", script)
        over.set()
    assert done.returncode == 2
    assert done.stderr == (
        f"kpfs: CMD does not do the same twice: {file} changes meanwhile\n"
    )


def test_a_search_that_is_interrupted_at_its_beginning(kpfs, counted):
    """Ctrl-C may come before there are runs."""
    words = "search", "--kernel", KERNEL, "--", counted, "lost"
    with kpfs.started(*words, text=True, stderr=subprocess.PIPE) as process:
        time.sleep(0.4)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == -signal.SIGINT
    assert "Traceback" not in said


def test_an_interrupted_search_keeps_what_it_has_found(kpfs, counted):
    words = "search", "--kernel", KERNEL, "--kinds", "schedule", "--", counted, "lost"
    with kpfs.started(*words, text=True, stderr=subprocess.PIPE) as process:
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        told, said = process.stdout.read(), process.stderr.read()
    assert process.returncode == -signal.SIGINT
    assert first == "wrong result: status 3, 1 of 2\n"
    assert "schedule: 1 found" in told
    assert said.endswith("the search was not over\n")
    (name,) = re.findall(r"seed (\w+):", told)
    seeds = os.path.join(os.environ["XDG_DATA_HOME"], "kpfs/seeds")
    assert os.listdir(seeds) == [f"{name}.json"]


def test_python_says_where_runs_begin(kpfs):
    path = str(harness.ROOT)
    script = f"import sys; sys.path.insert(0, {path!r}); import kpfs; kpfs.mark()"
    words = "--runs", "4", "--kinds", "schedule", "--", sys.executable, "-ISc", script
    done = search(kpfs, *words)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_kernel_with_one_processor(kpfs):
    words = "--kinds", "race,schedule", "--", "true"
    done = kpfs("search", "--kernel", harness.KERNEL, *words)
    assert done.returncode == 2
    assert f"say --kernel {harness.KERNEL}+cpus=2" in done.stderr
