# SPDX-License-Identifier: GPL-2.0-or-later
"""Completions: what each shell offers, asked of the shells themselves."""

import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import time

import pytest

from kpfs import cli
from kpfs.manual import completion
from kpfs.share import description

SHELLS = list(completion.SHELLS)
# what is typed, and what must be among that which is offered for its last word
OFFERED = [
    ("kpfs mo", {"mount"}),
    ("kpfs mount --fore", {"--foreground"}),
    ("kpfs kernel sh", {"show"}),
    ("kpfs kernel make --rp", {"--rpm"}),
    ("kpfs mount --config PREEM", {"PREEMPT=y", "PREEMPT=n"}),
    ("kpfs run --kernel 6.", {"6.1-mine", "6.12"}),
    ("kpfs completion fi", {"fish"}),
    ("kpfs run --cpus 4 --log /et", {"/etc/"}),
    ("kpfs umount /us", {"/usr/"}),
]
PATIENCE = 20  # s


@pytest.fixture
def home(tmp_path):
    """Has two kernels."""
    for name in ("6.1-mine", "6.12"):
        (tmp_path / "kpfs/kernels" / name).mkdir(parents=True)
    return tmp_path


def run(words, home, **settings):
    environment = {**os.environ, "XDG_DATA_HOME": str(home), "HOME": str(home)}
    done = subprocess.run(
        words, env={**environment, **settings}, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return set(done.stdout.splitlines())


def in_bash(line, home):
    script = f"""{completion.bash(description())}
    COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)}
    _kpfs 2>/dev/null
    printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    return run(["bash", "-c", script], home)


def in_fish(line, home):
    script = f"{completion.fish(description())}\ncomplete -C {shlex.quote(line)}"
    return {row.split("\t")[0] for row in run(["fish", "-N", "-c", script], home)}


def in_zsh(line, home):
    """What zsh lists at a terminal when one presses the key for that."""
    folder = home / "functions"
    folder.mkdir()
    (folder / "_kpfs").write_text(completion.zsh(description()))
    (home / ".zshrc").write_text(
        f"PS1='> '; LISTMAX=1000; fpath=({folder} $fpath)\n"
        "autoload -U compinit; compinit -u -D; bindkey '^L' list-choices\n"
        "setopt no_list_types; zstyle ':completion:*' verbose no\n"
    )
    return set(at_terminal(["zsh", "-i"], f"{line}\x0c", home).split())


def at_terminal(words, typed, home):
    """What a program shows at a terminal after what is typed."""
    pid, terminal = pty.fork()
    if not pid:
        settings = {"HOME": str(home), "XDG_DATA_HOME": str(home), "TERM": "dumb"}
        os.execvpe(words[0], words, {**os.environ, **settings})
    try:
        read_until(terminal, "> ")
        os.write(terminal, typed.encode())
        shown = read_until(terminal, "")
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|[\r\x07]", " ", shown.partition("\n")[2])


def read_until(terminal, end):
    """All that comes until the last is end, or ("") until nothing more comes."""
    text = ""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        quiet = PATIENCE if end or "\n" not in text else 0.5
        if not select.select([terminal], [], [], quiet)[0]:
            break
        text += os.read(terminal, 65536).decode(errors="replace")
        if end and text.endswith(end):
            break
    return text


ASK = {"bash": in_bash, "zsh": in_zsh, "fish": in_fish}


@pytest.mark.parametrize(("line", "wanted"), OFFERED)
@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_offered(shell, line, wanted, home):
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell}")
    # of a path, zsh lists the last part
    offered = {word.rstrip("/").rpartition("/")[2] for word in ASK[shell](line, home)}
    assert {word.strip("/") for word in wanted} <= offered


@pytest.mark.parametrize("shell", SHELLS)
def test_the_command_of_run(shell, home):
    """It is completed as if kpfs were not there."""
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell}")
    assert "mkfifo" in ASK[shell]("kpfs run --cpus 2 mkfif", home)


def test_in_bash_the_words_behind_a_command_are_files(home):
    assert "/etc" in in_bash("kpfs run ls /et", home)


def test_in_bash_an_option_with_its_value_in_one_word(home):
    assert "/etc" in in_bash("kpfs run --log=/et", home)
    assert "y" in in_bash("kpfs run --config=OPTPROBES=", home)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_command(shell, capsys):
    assert cli.main(["completion", shell]) == 0
    made = completion.SHELLS[shell](description())
    assert capsys.readouterr().out == made
