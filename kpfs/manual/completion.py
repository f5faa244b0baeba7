# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes completions of ``kpfs`` for bash, zsh and fish.

Documents: bash(1) "Programmable Completion", zshcompsys(1), fish's complete(1).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from kpfs.manual.description import (
    CommandDescription,
    OptionDescription,
    ValueDescription,
    ValueKind,
)

KERNELS = '"${XDG_DATA_HOME:-$HOME/.local/share}/kpfs/kernels"'
FISH_KERNELS = (
    "(set -q XDG_DATA_HOME; or set -l XDG_DATA_HOME ~/.local/share; "
    'ls "$XDG_DATA_HOME/kpfs/kernels" 2>/dev/null)'
)
HEAD = "# kpfs completion for {}; made by 'kpfs completion {}'.\n"


def walk(command: CommandDescription) -> Iterator[CommandDescription]:
    """Yield a command and all below it."""
    yield command
    for below in command.commands:
        yield from walk(below)


# ---- bash
BASH = r"""
_kpfs() {
    local line=${COMP_LINE:0:COMP_POINT} at=kpfs value='' operands=0 i word
    local -a words
    read -ra words <<<"$line"
    [[ $line != *[[:space:]] ]] || words+=('')
    local last=$((${#words[@]} - 1)) cur=${words[-1]}
    for ((i = 1; i < last; i++)); do
        word=${words[i]}
        if [[ -n $value ]]; then
            value=''
        elif [[ $word == -- ]]; then
            :
        elif [[ $word == -* ]]; then
            value=$(_kpfs_value "$at" "$word")
        elif [[ " $(_kpfs_commands "$at") " == *" $word "* ]]; then
            at="$at $word"
        elif [[ $(_kpfs_operand "$at") == COMMAND ]]; then
            _kpfs_of_command "$i"
            return
        else
            operands=1
        fi
    done
    COMPREPLY=()
    local offer
    if [[ -n $value ]]; then
        offer=$value
    elif [[ $cur == --*=* ]]; then
        offer=$(_kpfs_value "$at" "${cur%%=*}")
    elif [[ $cur == -* ]]; then
        offer="WORDS $(_kpfs_options "$at")"
    elif [[ -n $(_kpfs_commands "$at") ]]; then
        offer="WORDS $(_kpfs_commands "$at")"
    else
        offer=$(_kpfs_operand "$at")
    fi
    [[ $cur != --*=* ]] || cur=${cur#*=}
    case ${offer%% *} in
    WORDS) mapfile -t COMPREPLY < <(compgen -W "${offer#WORDS }" -- "$cur") ;;
    FILE) _kpfs_paths -f ;;
    DIRECTORY) _kpfs_paths -d ;;
    KERNEL)
        offer=$(ls KERNELS 2>/dev/null)
        mapfile -t COMPREPLY < <(compgen -W "$offer" -- "$cur")
        ;;
    COMMAND) mapfile -t COMPREPLY < <(compgen -c -- "$cur") ;;
    esac
    # bash replaces only what is behind the last '=', where that breaks words
    if [[ $COMP_WORDBREAKS == *=* && ${words[-1]} == *=* ]]; then
        local before=${cur%"${cur##*=}"}
        COMPREPLY=("${COMPREPLY[@]#"$before"}")
    fi
}

# the words from number $1 on are a command of its own
_kpfs_of_command() {
    if declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    else
        _kpfs_paths -f
    fi
}

_kpfs_paths() {
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen "$1" -- "$cur")
}

complete -F _kpfs kpfs
"""


def bash(top: CommandDescription) -> str:
    """Return the completion for bash, which does without bash-completion."""
    commands, options, operand, values = [], [], [], []
    for at in walk(top):
        name = shlex.quote(at.name)
        if at.commands:
            words = " ".join(below.path[-1] for below in at.commands)
            commands.append(f"{name}) echo {shlex.quote(words)} ;;")
        words = " ".join(word for option in at.options for word in option.names)
        options.append(f"{name}) echo {shlex.quote(words)} ;;")
        if at.operands:
            operand.append(f"{name}) echo {shlex.quote(_offer(at.operands[0]))} ;;")
        for option in at.options:
            if option.value:
                cases = "|".join(f"{name}:{word}" for word in option.names)
                offer = shlex.quote(_offer(option.value))
                values.append(f"{cases}) echo {offer} ;;")
    return HEAD.format("bash", "bash") + "".join(
        (
            _case("_kpfs_commands", "$1", commands),
            _case("_kpfs_options", "$1", options),
            _case("_kpfs_operand", "$1", operand),
            _case("_kpfs_value", "$1:$2", values),
            BASH.replace("KERNELS", KERNELS),
        )
    )


def _offer(value: ValueDescription) -> str:
    """Return what to offer: a kind, and the words."""
    return " ".join((value.kind.name, *value.words))


def _case(name: str, subject: str, rows: list[str]) -> str:
    lines = "\n".join(f"    {row}" for row in rows)
    return f'{name}() {{\n    case "{subject}" in\n{lines}\n    esac\n}}\n'


# ---- zsh
def zsh(top: CommandDescription) -> str:
    """Return the completion for zsh, as the file _kpfs of a directory of fpath."""
    functions = [_zsh_function(at) for at in walk(top)]
    return "\n".join(
        (
            "#compdef kpfs",
            HEAD.format("zsh", "zsh"),
            "_kpfs_kernels() {",
            f"    local -a names=({KERNELS}/*(N:t))",
            "    _describe -t kernels kernel names",
            "}",
            "",
            *functions,
            "# as a file of fpath it is called; as a script it is to be remembered",
            "case $funcstack[1] in",
            '_kpfs) _kpfs "$@" ;;',
            "*) compdef _kpfs kpfs ;;",
            "esac",
            "",
        )
    )


def _zsh_function(at: CommandDescription) -> str:
    name = "_" + "_".join(at.path)
    rows = [_zsh_option(option) for option in at.options]
    if not at.commands:
        rows += [row for value in at.operands for row in _zsh_operand(value)]
        lines = " \\\n        ".join(("_arguments -s", *rows))
        return f"{name}() {{\n    {lines}\n}}\n"
    rows += [shlex.quote("1:command:->command"), shlex.quote("*::argument:->argument")]
    lines = " \\\n        ".join(("_arguments -C -s", *rows))
    names = " ".join(
        shlex.quote(f"{below.path[-1]}:{below.help}") for below in at.commands
    )
    cases = "".join(
        f"        {below.path[-1]}) {name}_{below.path[-1]} ;;\n"
        for below in at.commands
    )
    return f"""\
{name}() {{
    local curcontext=$curcontext state line
    {lines}
    case $state in
    command)
        local -a commands=({names})
        _describe -t commands command commands
        ;;
    argument)
        case $line[1] in
{cases}        esac
        ;;
    esac
}}
"""


def _zsh_option(option: OptionDescription) -> str:
    """Return a specification for _arguments, with the option's names in braces."""
    text = re.sub(r"([][:])", r"\\\1", option.help)
    value = ""
    if option.value:
        value = f":{_zsh_escape(option.value.metavar)}:{_zsh_action(option.value)}"
    before = "*" if option.repeated else f"({' '.join(option.names)})"
    rows = []
    for name in option.names:
        assign = "=" if option.value and name.startswith("--") else ""
        rows.append(shlex.quote(f"{before}{name}{assign}[{text}]{value}"))
    return " ".join(rows)


def _zsh_operand(value: ValueDescription) -> list[str]:
    if value.kind == ValueKind.COMMAND:
        return [
            shlex.quote("(-)1:command: _command_names -e"),
            shlex.quote("*::argument: _normal"),
        ]
    return [shlex.quote(f"*:{_zsh_escape(value.metavar)}:{_zsh_action(value)}")]


def _zsh_escape(text: str) -> str:
    return text.replace(":", r"\:")


def _zsh_action(value: ValueDescription) -> str:
    if value.kind == ValueKind.WORDS:
        return f"({' '.join(value.words)})"
    return {
        ValueKind.NOTHING: " ",
        ValueKind.FILE: "_files",
        ValueKind.DIRECTORY: "_files -/",
        ValueKind.KERNEL: "_kpfs_kernels",
    }[value.kind]


# ---- fish
def fish(top: CommandDescription) -> str:
    """Return the completion for fish."""
    rows = [HEAD.format("fish", "fish"), "complete -c kpfs -f"]
    for at in walk(top):
        here = _fish_condition(at)
        for below in at.commands:
            words = f"-a {below.path[-1]} -d {_fish_quote(below.help)}"
            rows.append(f"complete -c kpfs -n {here} {words}")
        for option in at.options:
            rows.append(f"complete -c kpfs -n {here} {_fish_option(option)}")
        if offer := _fish_operand(at):
            rows.append(f"complete -c kpfs -n {here} {offer}")
    return "\n".join(rows) + "\n"


def _fish_condition(at: CommandDescription) -> str:
    """Return the test that the words so far name a command but no subcommand."""
    seen = [f"__fish_seen_subcommand_from {word}" for word in at.path[1:]]
    if at.commands:
        below = " ".join(command.path[-1] for command in at.commands)
        seen.append(f"not __fish_seen_subcommand_from {below}")
    return _fish_quote("; and ".join(seen))


def _fish_option(option: OptionDescription) -> str:
    words = []
    for name in option.names:
        words.append(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}")
    if option.value:
        words.append(_fish_value(option.value))
    return " ".join((*words, "-d", _fish_quote(option.help)))


def _fish_value(value: ValueDescription) -> str:
    """Return the words for an option with a value, and for what to offer."""
    if value.kind == ValueKind.WORDS:
        return f"-x -a {_fish_quote(' '.join(value.words))}"
    return {
        ValueKind.NOTHING: "-x",
        ValueKind.FILE: "-r -F",
        ValueKind.DIRECTORY: "-x -a '(__fish_complete_directories)'",
        ValueKind.KERNEL: f"-x -a {_fish_quote(FISH_KERNELS)}",
    }[value.kind]


def _fish_operand(at: CommandDescription) -> str:
    if not at.operands or at.operands[0].kind == ValueKind.NOTHING:
        return ""
    if at.operands[0].kind != ValueKind.COMMAND:
        return _fish_value(at.operands[0])
    valued = [name for option in at.options if option.value for name in option.names]
    # the first of the options may not begin with "--", or fish takes it for its own
    skipped = f"--fcs-skip={len(at.path)} - {' '.join(valued)}"
    return f"-x -a '(__fish_complete_subcommand {skipped})'"


def _fish_quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}
