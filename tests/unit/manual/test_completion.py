# SPDX-License-Identifier: GPL-2.0-or-later
"""Completions: what each shell offers, asked of the shells themselves."""

import os
import shlex
import shutil

import pytest

from kpfs import cli
from kpfs.manual.completion import ROWS, answer, script
from kpfs.manual.description import describe
from kpfs.manual.kernel_names import symbols
from tests import harness
from tests.terminal import Terminal

SHELLS = list(ROWS)
PATH = f"{harness.ROOT}/scripts:{os.environ['PATH']}"
# what is typed, and what must be among that which is offered for its last word
OFFERED = [
    ("kpfs mo", {"mount"}),
    ("kpfs he", {"help"}),
    ("kpfs help ma", {"matrix"}),
    ("kpfs mount --fore", {"--foreground"}),
    ("kpfs kernel sh", {"show"}),
    ("kpfs kernel make --rp", {"--rpm"}),
    ("kpfs mount --config PREEM", {"PREEMPT=y", "PREEMPT=n"}),
    ("kpfs run --kernel 6.", {"6.1-mine", "6.12"}),
    ("kpfs completion fi", {"fish"}),
    ("kpfs run --cpus 4 --log /et", {"/etc/"}),
    ("kpfs matrix --kernels 6.", {"6.1-mine", "6.12"}),
    ("kpfs matrix --kernels 6.12,", {"6.12,6.1-mine"}),
    ("kpfs explain vfs_rea", {"vfs_read"}),
    ("kpfs umount /us", {"/usr/"}),
]


@pytest.fixture
def home(tmp_path):
    """Has two kernels."""
    for name in ("6.1-mine", "6.12"):
        (tmp_path / "kpfs/kernels" / name).mkdir(parents=True)
    return tmp_path


def run(words, home, **settings):
    environment = {**os.environ, "XDG_DATA_HOME": str(home), "PATH": PATH}
    done = harness.run(*words, env={**environment, **settings})
    assert (done.returncode, done.stderr) == (0, "")
    return set(done.stdout.splitlines())


def in_bash(line, home, _wanted=()):
    asked = f"""{script("bash")}
    COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)}
    _kpfs 2>/dev/null
    printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    return run(["bash", "-c", asked], home)


def in_fish(line, home, _wanted):
    asked = f"{script('fish')}\ncomplete -C {shlex.quote(line)}"
    return {row.split("\t")[0] for row in run(["fish", "-N", "-c", asked], home)}


def in_zsh(line, home, wanted):
    """Return what zsh lists at a terminal when its completion key is pressed."""
    folder = home / "functions"
    folder.mkdir()
    (folder / "_kpfs").write_text(script("zsh"))
    (home / ".zshrc").write_text(
        f"PS1='> '; LISTMAX=1000; fpath=({folder} $fpath)\n"
        "autoload -U compinit; compinit -u -D; bindkey '^L' list-choices\n"
        "setopt no_list_types; zstyle ':completion:*' verbose no\n"
    )
    settings = {"XDG_DATA_HOME": str(home), "ZDOTDIR": str(home), "PATH": PATH}
    with Terminal(["zsh", "-i"], TERM="dumb", **settings) as terminal:
        terminal.until("> ")
        terminal.type(f"{line}\x0c")
        terminal.until(line)
        # it lists them sorted, of a path the last part
        return {word for word in sorted(wanted) if terminal.until(word.strip("/"))}


ASK = {"bash": in_bash, "zsh": in_zsh, "fish": in_fish}


@pytest.mark.parametrize(("line", "wanted"), OFFERED)
@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_offered(shell, line, wanted, home):
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell}")
    offered = {word.rstrip("/") for word in ASK[shell](line, home, wanted)}
    assert {word.rstrip("/") for word in wanted} <= offered


@pytest.mark.parametrize("shell", SHELLS)
def test_the_command_of_run(shell, home):
    """The command's own words are completed as without kpfs."""
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell}")
    assert "mkfifo" in ASK[shell]("kpfs run --cpus 2 mkfif", home, {"mkfifo"})


def test_in_bash_the_words_behind_a_command_are_files(home):
    assert "/etc" in in_bash("kpfs run ls /et", home)


@pytest.mark.parametrize("shell", SHELLS)
def test_an_option_with_its_value_in_one_word(shell, home):
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell}")
    offered = ASK[shell]("kpfs run --log=/et", home, {"etc"})
    assert any(word.rstrip("/").endswith("etc") for word in offered)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("'p:x vfs_rea", "p:x vfs_read"),
        ('"r2:g/x  vfs_rea', "r2:g/x  vfs_read"),
        ("f\\ vfs_rea", "f vfs_read"),
        ("sched: -e 'sched:sched_swi", "sched:sched_switch"),
    ],
)
def test_in_bash_words_may_be_quoted(home, typed, offered):
    assert offered in in_bash(f"kpfs trace -e {typed}", home)


def test_in_zsh_a_colon_is_part_of_a_word(home, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    top = describe(cli.make_parser(["trace"]))
    rows = answer("zsh", top, ["kpfs", "trace", "-e", "p:x vfs_rea"])
    assert r"p\:x vfs_read:" in rows


def test_in_bash_events_are_completed_behind_the_colon(home):
    offered = in_bash("kpfs trace -e sched:sched_swi", home)
    assert offered == {"sched_switch"}
    assert "getppid" in str(in_bash("kpfs trace -e syscalls:sys_enter_getpp", home))


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["kpfs", "trace", "-e", "sched:sched_sw"], ["sched:sched_switch"]),
        (["kpfs", "trace", "-e", "raw"], ["raw_syscalls:", "raw_syscalls:sys_enter"]),
        (["kpfs", "trace", "-e", "block:block_rq_iss"], []),
        (
            ["kpfs", "trace", "--kernel", "6.12", "-e", "block:block_rq_iss"],
            ["block:block_rq_issue"],
        ),
        (["kpfs", "matrix", "--kernels=6.12,6"], ["6.12,6.1-mine"]),
        (["kpfs", "explain", "--kernel", "6.12", "vfs_re"], []),
        (["kpfs", "explain", ""], []),
    ],
)
def test_names_of_kernels(words, wanted, home, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    top = describe(cli.make_parser(words[1:2]))
    kind, *rows = answer("bash", top, words)
    assert kind == "WORDS"
    assert rows[: len(wanted)] == wanted
    assert wanted or not rows


@pytest.mark.kernel
def test_symbols_of_a_linux_kernel(monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(harness.kernels()))
    assert "vfs_read" in symbols(harness.KERNEL, "vfs_re")


def test_in_bash_an_option_of_two_equals_signs(home):
    assert "y" in in_bash("kpfs run --config=OPTPROBES=", home)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_command(shell, capsys):
    assert cli.main(["completion", shell]) == 0
    assert capsys.readouterr().out == script(shell)
