# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line: what it takes, says and refuses.

Tests kpfs.cli and kpfs.commands.arguments.
"""

import argparse
import errno
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from kpfs import cli
from kpfs.base.errors import SetupError
from kpfs.commands import daemon
from kpfs.commands import kernel as kernel_command
from kpfs.commands import run as run_command
from kpfs.commands.arguments import FREE_TEXT
from kpfs.config import Settings
from kpfs.host import mounts
from kpfs.linux.store import image, store
from tests import harness
from tests.harness import ROOT
from tests.there import there


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("run", ""),
        ("run ls -l", "ls -l"),
        ("run -- ls -l", "ls -l"),
        ("run --cpus 4 ls --cpus 5", "ls --cpus 5"),
        ("run --config OPTPROBES=n ls", "ls"),
        ("run --cpus=4 -- -x", "-x"),
        ("run --cpu 4 -- -- x", "-- x"),
        ("run --quiet-guest --log f sh -c x", "sh -c x"),
        ("run sh -- x", "sh -- x"),
        ("trace -e sched: -o f ls -o g", "ls -o g"),
        ("matrix --kernels a,b --jobs 2 -- ls --jobs", "ls --jobs"),
    ],
)
def test_the_users_command_is_left_alone(words, command):
    assert cli.parse(words.split()).argv == command.split()


def test_settings_of_the_command_line():
    arguments = cli.parse("mount --cpus 16 --quiet-guest --verbose --log l m".split())
    assert arguments.dir == "m"
    assert not arguments.foreground
    assert cli._settings(arguments) == Settings(16, True, True, os.path.abspath("l"))
    assert cli._settings(cli.parse(["mount", "m"])) == Settings()


@pytest.mark.parametrize("words", ["run", "run --background", "trace --background"])
def test_only_what_a_command_causes_runs_by_default(words, monkeypatch):
    chosen = []

    def run(settings, *_):
        chosen.append(settings)
        return 0

    monkeypatch.setattr(run_command, "run", run)
    cli.main([*words.split(), "true"])
    assert [settings.workload for settings in chosen] == ["--background" in words]


def test_configurations_of_the_command_line():
    words = "--config OPTPROBES=n --config KPROBE_EVENTS=n --config OPTPROBES=y"
    settings = cli._settings(cli.parse(["mount", *words.split(), "m"]))
    assert settings.config.on("OPTPROBES")
    assert not settings.config.on("KPROBE_EVENTS")
    assert settings.config.on("KPROBES_ON_FTRACE")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("", "COMMAND"),
        ("frob", "frob"),
        ("mount", "DIR"),
        ("umount", "DIR"),
        ("mount a b", "b"),
        ("mount --frob m", "--frob"),
        ("mount --cpus 0 m", "'0' is not a number from 1 to 16"),
        ("run --cpus 17 true", "'17' is not a number from 1 to 16"),
        ("run --cpus x true", "'x' is not a number from 1 to 16"),
        ("--frob", "--frob (see 'kpfs --help')"),
        ("run --frob -- true", "--frob (see 'kpfs run --help')"),
        ("kernel make --frob x", "--frob (see 'kpfs kernel make --help')"),
        ("matrix --kernels a --shard 3/2 true", "'3/2' is not I/N with I from 1 to N"),
        ("run --config FROB=y true", "there are OPTPROBES, KPROBES_ON_FTRACE, KPROBE"),
        ("mount --config OPTPROBES m", "OPTPROBES is y or n, not ''"),
        ("mount --config OPTPROBES=m m", "OPTPROBES is y or n, not 'm'"),
        ("run --kernel x --cpus 2 true", "x was made with --cpus 1; "),
        ("run --kernel x --inside --cpus 2 true", "x was made with --cpus 1; "),
        ("run --kernel x --cpus 1 --config OPTPROBES=n true", "--config is for the"),
        ("run --kernel x --background true", "--background is for the guest kernel"),
        ("trace --background --quiet-guest true", "exclude each other"),
        ("run --kernel x --cpus 9 true", "--cpus 9: a Linux kernel has 1 to 4"),
        ("kernel make x --cpus 5", "'5' is not a number from 1 to 4"),
        ("kernel make x --memory 127", "'127' is not a number from 128 to 2048"),
        ("matrix --kernels x --memory 2049 true", "'2049' is not a number from 128 to"),
        ("run --kernel x --inside --memory m true", "'m' is not a number from 128 to"),
        ("umount /", "/: no mount of kpfs"),
        ("run --make true", "--make is for a Linux kernel"),
        ("mount --exact m", "--exact is for a Linux kernel"),
        ("run --kernel x --inside --no-mirror true", "--no-mirror is not for --inside"),
        ("run --kernel x --inside --host-uname true", "--host-uname is not for"),
        ("run --kernel x --inside --mirror always true", "--mirror is not for"),
        ("run --inside true", "--inside wants a kernel"),
        ("run --rw d true", "--rw is for --inside"),
        ("matrix --kernels x --cache c true", "--cache is for --make"),
        ("kernel make x --modules m", "--modules is for --vmlinuz"),
        ("explain --image d --kernel x f", "--kernel and --image do not go together"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(words, says, capsys, monkeypatch):
    monkeypatch.setattr(store, "folder", lambda name: name)
    made = SimpleNamespace(processors=[None])
    monkeypatch.setattr(image, "read_meta", lambda _folder: made)
    assert cli.main(words.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("kpfs: ")
    assert says in err
    assert err.count("\n") == 1


def takes_a_value(action):
    return action.nargs not in (0, argparse.REMAINDER, argparse.PARSER)


def parsers(parser, name=""):
    """All parsers of commands, and of their actions."""
    yield name, parser
    for action in parser._actions:
        if action.nargs == argparse.PARSER:
            for word, below in action.choices.items():
                yield from parsers(below, f"{name} {word}".strip())


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_an_empty_word_is_refused_wherever_a_value_stands(command):
    """An unset variable of a script leaves an empty word."""
    for name, parser in parsers(cli.make_parser([command])):
        for action in filter(takes_a_value, parser._actions):
            if action.metavar == FREE_TEXT or action.dest == "help":
                continue
            with pytest.raises(argparse.ArgumentError) as info:
                parser._get_values(action, [""])
            assert "it is empty" in str(info.value), (name, action)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "--kernel", "", "--", "true"], "argument --kernel: it is empty"),
        (["run", "--kernel=", "--", "true"], "argument --kernel: it is empty"),
        (["matrix", "--kernels", "", "true"], "argument --kernels: it is empty"),
        (["matrix", "--kernels", ",", "true"], "--kernels ,: an empty name"),
        (["matrix", "--kernels", "6.1,,6.12", "true"], "--kernels 6.1,,6.12: an empty"),
        (["kernel", "rm", "a", ""], "argument KERNEL: it is empty"),
        (["mount", ""], "argument DIR: it is empty"),
    ],
)
def test_an_empty_word_is_status_2(words, says, capsys):
    assert cli.main(words) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("words", ["run", "run --inside", "mount"])
def test_a_kernel_that_is_not_there_is_made(words, capsys, monkeypatch):
    def make(names):
        raise SetupError(f"{names} would be made")

    monkeypatch.setattr(kernel_command, "make_missing", make)
    assert cli.main([*words.split(), "--kernel", "x", "--make", "m"]) == 2
    assert capsys.readouterr().err == "kpfs: ['x'] would be made\n"


@pytest.mark.parametrize("command", ["", *cli.COMMANDS])
def test_help(command, capsys):
    with pytest.raises(SystemExit) as info:
        cli.main([command, "--help"] if command else ["--help"])
    assert info.value.code == 0
    assert "usage: kpfs" in capsys.readouterr().out


def in_shell(script):
    words = f'kpfs() {{ {sys.executable} -m kpfs "$@"; }}; {script}'
    return harness.run("bash", "-c", words, cwd=ROOT)


def test_a_reader_that_reads_no_further():
    """A closed pipe is no error; the status is 128 and SIGPIPE, as usual."""
    done = in_shell("kpfs completion bash | true; echo ${PIPESTATUS[0]}")
    assert (done.stdout, done.stderr) == ("141\n", "")


def test_a_full_disk_is_told_by_the_name_of_the_file():
    done = in_shell("kpfs completion bash >/dev/full")
    said = "kpfs: standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_version(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"kpfs {cli.VERSION}\n"


@pytest.mark.parametrize("words", [["run", "--", ""], ["trace", ""], ["run", "", "x"]])
def test_a_command_without_a_name_is_refused(words):
    with pytest.raises(SetupError, match=r"CMD is empty \(see 'kpfs .* --help'\)"):
        cli.parse(words)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["help"], "usage: kpfs [-h]"),
        (["help", "run"], "usage: kpfs run "),
        (["help", "kernel", "rm"], "usage: kpfs kernel rm "),
        (["version"], f"kpfs {cli.VERSION}"),
        (["-V"], f"kpfs {cli.VERSION}"),
    ],
)
def test_other_ways_to_ask_for_help(words, says, capsys):
    with pytest.raises(SystemExit) as info:
        cli.main(words)
    assert info.value.code == 0
    assert capsys.readouterr().out.startswith(says)


def test_words_that_may_be_empty():
    assert cli.parse(["kernel", "make", "6.1", "--append", ""]).append == ""
    assert cli.parse(["run", "true", ""]).argv == ["true", ""]


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.ENOENT, "modprobe fuse"), (errno.EACCES, "chmod 666 /dev/fuse")],
)
def test_no_fuse_device(monkeypatch, number, remedy):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(SetupError, match=remedy):
        daemon.check_fuse()


def test_source_name():
    assert mounts.served_by(mounts.source_name(77)) == 77
    assert [mounts.served_by(s) for s in ("tmpfs", "kpfs", "kpfs:x", "")] == [0] * 4


def test_mount_table_escapes():
    assert mounts._unescape(r"/a\040b\134c\011d") == "/a b\\c\td"
    assert there(mounts.mount_at("/proc")).fstype == "proc"
    assert there(mounts.mount_at("/proc")).device == os.stat("/proc").st_dev
    assert mounts.mount_at("/proc/sys/kernel") is None


def test_help_loads_little():
    """Imports take most of the time of a help."""
    program = """
import sys
from kpfs import cli
try:
    cli.main(["--help"])
finally:
    heavy = {"ctypes", "kpfs.commands.daemon", "kpfs.engine", "locale", "logging"}
    heavy.add("subprocess")
    print(*heavy.intersection(sys.modules), file=sys.stderr)
"""
    command = [sys.executable, "-S", "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "\n")


def test_missing_module_of_python_is_one_line(tmp_path):
    script = (
        "import sys; sys.modules['_lzma'] = None\n"
        "from kpfs.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    words = "kernel", "make", "x", "--deb", str(tmp_path / "none")
    done = harness.run(sys.executable, "-c", script, *words, cwd=ROOT)
    said = "kpfs: this Python was built without lzma: use another\n"
    assert (done.stderr, done.returncode) == (said, 2)


def test_a_limit_on_processes_is_named(monkeypatch, capsys):
    def fail(_arguments):
        os.fork()

    def refuse():
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", refuse)
    monkeypatch.setitem(
        cli.COMMANDS, "doctor", cli.COMMANDS["doctor"]._replace(main=fail)
    )
    assert cli.main(["doctor"]) == 2
    told = capsys.readouterr().err
    assert "ulimit -u, or pids.max" in told
    assert told.count("\n") == 1
