# SPDX-License-Identifier: GPL-2.0-or-later
# kpfs completion for fish.
function __kpfs_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l answer ($words[1] completion fish $words 2>/dev/null)
    # what is before a value in the same word, as in --log=FILE
    set -l before (string match -r '^--[^=]*=' -- $words[-1]; or echo)
    set -l value (string replace -- "$before" '' $words[-1])
    switch "$answer[1]"
        case WORDS
            printf '%s\n' "$before"$answer[2..]
        case FILE
            printf '%s\n' "$before"(__fish_complete_path $value)
        case DIRECTORY
            printf '%s\n' "$before"(__fish_complete_directories $value)
        case 'COMMAND *'
            set -l place (string split ' ' $answer[1])[2]
            set -e words[1..$place]
            complete -C "$words"
    end
end

complete -c kpfs -f -a '(__kpfs_complete)'
