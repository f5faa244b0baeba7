# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# kpfs completion for bash, which does without bash-completion.
_kpfs() {
    local line=${COMP_LINE:0:COMP_POINT} before=''
    local -a words answer
    read -ra words <<<"$line"
    [[ $line != *[[:space:]] ]] || words+=('')
    local cur=${words[-1]}
    mapfile -t answer < <("${words[0]/#\~/$HOME}" completion bash "${words[@]}" 2>/dev/null)
    [[ $cur != --*=* ]] || cur=${cur#*=}
    COMPREPLY=()
    case ${answer[0]} in
    WORDS) mapfile -t COMPREPLY < <(compgen -W "${answer[*]:1}" -- "$cur") ;;
    FILE) _kpfs_paths -f ;;
    DIRECTORY) _kpfs_paths -d ;;
    COMMAND*) _kpfs_of_command "${answer[0]#* }" ;;
    esac
    # bash replaces only what is behind the last '=' or ':', where that breaks words
    local break
    for break in = :; do
        if [[ $COMP_WORDBREAKS == *$break* && ${words[-1]} == *$break* ]]; then
            before=${cur%"${cur##*"$break"}"}
            COMPREPLY=("${COMPREPLY[@]#"$before"}")
        fi
    done
}

# the words from number $1 on are a command of its own
_kpfs_of_command() {
    if declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    elif (($1 == ${#words[@]} - 1)); then
        mapfile -t COMPREPLY < <(compgen -c -- "$cur")
    else
        _kpfs_paths -f
    fi
}

_kpfs_paths() {
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen "$1" -- "$cur")
}

complete -F _kpfs kpfs
