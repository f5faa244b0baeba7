# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# kpfs completion for bash, which does without bash-completion.
_kpfs() {
    local line=${COMP_LINE:0:COMP_POINT} before='' quote=''
    local -a words answer
    _kpfs_split
    local cur=${words[-1]}
    mapfile -t answer < <("${words[0]/#\~/$HOME}" completion bash "${words[@]}" 2>/dev/null)
    [[ $cur != --*=* ]] || cur=${cur#*=}
    COMPREPLY=()
    case ${answer[0]} in
    WORDS)
        local word
        for word in "${answer[@]:1}"; do
            [[ $word != "$cur"* ]] || COMPREPLY+=("$word")
        done
        ;;
    FILE) _kpfs_paths -f ;;
    DIRECTORY) _kpfs_paths -d ;;
    COMMAND*) _kpfs_of_command "${answer[0]#* }" ;;
    esac
    # bash replaces only what is behind the last '=' or ':', where that breaks words
    [[ -z $quote ]] || return
    local break
    for break in = :; do
        if [[ $COMP_WORDBREAKS == *$break* && ${words[-1]} == *$break* ]]; then
            before=${cur%"${cur##*"$break"}"}
            COMPREPLY=("${COMPREPLY[@]#"$before"}")
        fi
    done
}

# splits line into words; quote gets the quotation mark that the last one is behind
_kpfs_split() {
    local at char
    words=('')
    for ((at = 0; at < ${#line}; at++)); do
        char=${line:at:1}
        if [[ -n $quote ]]; then
            if [[ $char == "$quote" ]]; then quote=''; else words[-1]+=$char; fi
        elif [[ $char == "\\" ]]; then
            words[-1]+=${line:$((++at)):1}
        elif [[ $char == '"' || $char == "'" ]]; then
            quote=$char
        elif [[ $char != [[:space:]] ]]; then
            words[-1]+=$char
        elif [[ -n ${words[-1]} ]]; then
            words+=('')
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
