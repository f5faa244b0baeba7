# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line as records: what completions and man pages are made of."""

from kpfs import cli
from kpfs.manual.description import ValueKind
from kpfs.share import description


def command(*path):
    at = description()
    for name in path:
        (at,) = (below for below in at.commands if below.path[-1] == name)
    return at


def option(name, *path):
    (found,) = (one for one in command(*path).options if name in one.names)
    return found


def test_all_commands_are_there():
    assert [below.path[-1] for below in command().commands] == list(cli.COMMANDS)
    assert command("kernel", "make").name == "kpfs kernel make"
    assert all(below.help for below in command().commands)


def test_what_values_are():
    assert option("--foreground", "mount").value is None
    assert option("--log", "run").value.kind == ValueKind.FILE
    assert option("--cpus", "run").value.kind == ValueKind.NOTHING
    assert option("--kernel", "run").value.kind == ValueKind.KERNEL
    configuration = option("--config", "mount")
    assert "OPTPROBES=n" in configuration.value.words
    assert configuration.repeated
    assert command("mount").operands[0].kind == ValueKind.DIRECTORY
    assert command("completion").operands[0].words == ("bash", "zsh", "fish")


def test_a_command_that_is_followed_by_one():
    assert [value.kind for value in command("run").operands] == [ValueKind.COMMAND]
    assert command("run").usage == "kpfs run [OPTION...] [--] [CMD [ARG...]]"
