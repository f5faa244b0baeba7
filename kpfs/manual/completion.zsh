#compdef kpfs
# SPDX-License-Identifier: GPL-2.0-or-later
# kpfs completion for zsh, as the file _kpfs of a directory of fpath.
_kpfs() {
    local -a answer
    answer=("${(@f)$(${(Q)words[1]} completion zsh "${(@Q)words[1,CURRENT]}" 2>/dev/null)}")
    [[ $PREFIX != --*=* ]] || compset -P 1 '*='
    case $answer[1] in
    WORDS) shift answer; _describe -o -t words word answer ;;
    FILE) _files ;;
    DIRECTORY) _files -/ ;;
    COMMAND*)
        local before=${answer[1]#* }
        shift $before words
        (( CURRENT -= before ))
        _normal
        ;;
    esac
}

# as a file of fpath it is called; as a script it is to be remembered
case $funcstack[1] in
_kpfs) _kpfs "$@" ;;
*) compdef _kpfs kpfs ;;
esac
