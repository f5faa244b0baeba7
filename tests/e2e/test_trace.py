# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs trace``, by kpfs.record.command: its forms, read by other programs."""

import json
import os
import re
import shutil
import signal
import subprocess

import pytest

from tests import harness

pytestmark = pytest.mark.fuse
OPENED = "p:opened do_sys_openat2 file=+0(%si):ustring"
COMMAND = ("sh", "-c", "cat /etc/passwd >/dev/null; exit 3")


def trace(kpfs, *words):
    return kpfs("trace", "--quiet-guest", *words)


def test_text_and_status(kpfs):
    done = trace(kpfs, "-e", OPENED, "--", *COMMAND)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.startswith("# tracer: nop\n")
    lines = [x for x in done.stdout.splitlines() if "/etc/passwd" in x]
    assert len(lines) == 1
    assert lines[0].lstrip().startswith("cat-")
    assert "tracing_on" not in done.stdout  # that was not the command


def test_events_of_the_kernels_own(kpfs):
    done = trace(
        kpfs, "-e", "sched:sched_process_fork", "--", "sh", "-c", "true; (true)"
    )
    assert "sched_process_fork: comm=sh pid=" in done.stdout
    assert (
        "sys_exit_group(" in trace(kpfs, "cat", "/dev/null").stdout
    )  # where none is named


def test_a_pattern_is_not_one_of_files(kpfs, tmp_path):
    (tmp_path / "sched:nothing").touch()
    done = kpfs("trace", "-e", "sched:*", "--", "true", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "status", "why"),
    [
        (("--", "no-such"), 127, "no-such: No such file or directory"),
        (("--", "/etc"), 126, "/etc: Permission denied"),
        (("-e", "sched:no", "--", "true"), 2, r"sched:no: refused \(no such event; .*"),
        (("-e", "p:x", "--", "true"), 2, r"p:x: refused \(a definition is p\[.*"),
        (("-e", "e:x a.b", "--", "true"), 2, r".* \(.* no event probes; kpfs run .*\)"),
        (("-e", "t:x a", "--", "true"), 2, r".* \(.* or tracepoint probes; kpfs .*\)"),
        (("-e", "p:x no", "--", "true"), 2, r".* \(Invalid probed address or symbol\)"),
        (("-e", "p:\udcff no", "--", "true"), 2, r"p:\\xff no: .* or symbol\)"),
    ],
)
def test_what_cannot_be_traced_is_one_line(kpfs, words, status, why):
    done = trace(kpfs, *words)
    assert (done.returncode, done.stdout) == (status, "")
    assert re.fullmatch(f"kpfs: (trace: )?{why}\n", done.stderr), done.stderr


def test_a_limit_of_files_is_no_refusal_of_an_event(kpfs):
    words = kpfs.command("trace", "-e", "p:x vfs_read", "--", "true")
    done = harness.run("sh", "-c", 'ulimit -f 8; exec "$@"', "sh", *words)
    why = "kpfs: trace: kprobe_events: File too large: see ulimit -f\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", why)


def test_records_as_json(kpfs, tmp_path):
    out = tmp_path / "out.jsonl"
    assert trace(kpfs, "-e", OPENED, "-o", out, *COMMAND).returncode == 3
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    (row,) = [row for row in rows if row["file"] == "/etc/passwd"]
    assert (row["comm"], row["group"], row["event"]) == ("cat", "kprobes", "opened")
    whole = json.loads(trace(kpfs, "-e", OPENED, "--format", "json", *COMMAND).stdout)
    found = [e for e in whole["traceEvents"] if e["args"].get("file") == "/etc/passwd"]
    assert [e["ph"] for e in found] == ["i"]


@pytest.mark.skipif(not shutil.which("trace-cmd"), reason="there is no trace-cmd")
def test_the_file_of_trace_cmd(kpfs, tmp_path):
    out = tmp_path / "out.dat"
    back = "r:back vfs_read $retval"
    trace(kpfs, "-e", OPENED, "-e", back, "-e", "sched:", "-o", out, "--", *COMMAND)
    report = subprocess.run(
        ["trace-cmd", "report", str(out)], capture_output=True, text=True, check=True
    ).stdout
    assert "cpus=2" in report
    assert 'file="/etc/passwd"' in report
    assert "<- " in report
    assert "sched_switch:" in report


def test_wrong_events_and_options_are_refused(kpfs):
    done = trace(kpfs, "-e", "p:bad no_such_function", "--", "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "kpfs: trace: p:bad no_such_function: refused "
        "(Invalid probed address or symbol)\n"
    )
    assert "no:such: refused" in trace(kpfs, "-e", "no:such", "--", "true").stderr
    assert "no command" in trace(kpfs, "-e", OPENED).stderr
    assert "invalid choice" in trace(kpfs, "--format", "xml", "--", "true").stderr


def test_the_file_is_opened_before_the_command_runs(kpfs, tmp_path):
    run = tmp_path / "run"
    done = trace(kpfs, "-o", "/no/such/file", "-e", OPENED, "--", "touch", run)
    assert done.stderr == "kpfs: /no/such/file: No such file or directory\n"
    assert (done.returncode, done.stdout, run.exists()) == (2, "", False)
    done = trace(kpfs, "-o", "/dev/full", "-e", OPENED, "--", "touch", run)
    assert done.stderr == "kpfs: /dev/full: No space left on device\n"
    assert (done.returncode, run.exists()) == (2, True)
    done = trace(kpfs, "-o", "/dev/full", "--", "ls", "/")  # more than a buffer
    assert done.stderr == "kpfs: /dev/full: No space left on device\n"


def test_output_that_is_closed_is_named(kpfs):
    command = kpfs.command("trace", "--", "true")
    done = harness.run("sh", "-c", 'exec "$@" >&-', "sh", *command)
    said = "kpfs: standard output: Bad file descriptor\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_a_file_is_replaced_by_a_recording_alone(kpfs, tmp_path):
    out = tmp_path / "out.jsonl"
    out.write_text("x" * 100_000)
    trace(kpfs, "-e", "p:bad no_such_function", "-o", out, "--", "true")
    assert out.read_text() == "x" * 100_000
    files = "-o", tmp_path / "recording", "--coverage", tmp_path / "reached"
    trace(kpfs, "-e", "p:bad no_such_function", *files, "--", "true")
    assert os.listdir(tmp_path) == [out.name]
    trace(kpfs, "-e", OPENED, "-o", out, "--", *COMMAND)
    assert [json.loads(line) for line in out.read_text().splitlines()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("to_group", [True, False], ids=["group", "kpfs"])
def test_what_was_recorded_is_kept_after_a_signal(kpfs, tmp_path, number, to_group):
    out, seen = tmp_path / "out.jsonl", tmp_path / "seen"
    script = "cat /etc/passwd >/dev/null; touch $0; exec sleep 999"
    words = kpfs.command(
        "trace", "-e", OPENED, "-o", out, "--", "sh", "-c", script, seen
    )
    with subprocess.Popen(words, stderr=-1, text=True, start_new_session=True) as child:
        harness.until(seen.exists, "the command does not begin")
        if to_group:  # as a terminal does
            os.killpg(child.pid, number)
        else:
            child.send_signal(number)
        _, said = child.communicate(timeout=60)
    assert (child.returncode, said) == (128 + number, "")
    files = [json.loads(line)["file"] for line in out.read_text().splitlines()]
    assert "/etc/passwd" in files


def test_a_command_may_go_on_after_a_signal(kpfs, tmp_path):
    seen = tmp_path / "seen"
    script = (
        "trap 'cat /etc/hostname; exit 5' TERM; touch $0; while :; do sleep 0.01; done"
    )
    words = kpfs.command("trace", "-e", OPENED, "--", "sh", "-c", script, seen)
    with subprocess.Popen(words, stdout=-1, text=True) as child:
        harness.until(seen.exists, "the command does not begin")
        child.terminate()
        text, _ = child.communicate(timeout=60)
    assert (child.returncode, 'file="/etc/hostname"' in text) == (5, True)


def test_a_second_signal_loses_nothing(kpfs, tmp_path):
    """timeout(1) sends two signals: one arrives while the recording is kept."""
    out, seen = tmp_path / "out.jsonl", tmp_path / "seen"
    words = kpfs.command(
        "trace", "-o", out, "--", "sh", "-c", "touch $0; exec sleep 999", seen
    )
    with subprocess.Popen(words) as child:
        harness.until(seen.exists, "the command does not begin")
        (sleep,) = [
            pid
            for pid in harness.children(child.pid)
            if harness.run("ps", "-o", "comm=", "-p", str(pid)).stdout == "sleep\n"
        ]
        child.terminate()
        harness.until(lambda: harness.state(sleep) in ("", "Z"), "it goes on")
        child.terminate()
        assert child.wait(60) in (128 + signal.SIGTERM, -signal.SIGTERM)
    assert out.stat().st_size
