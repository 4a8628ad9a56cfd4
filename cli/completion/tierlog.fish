# Completes the words of tierlog in fish: a file of ~/.config/fish/completions.
function __tierlog_candidates
    set -l answer (tierlog completion --candidates (commandline -cp | string collect) 2>/dev/null)
    switch "$answer[1]"
        case files
            __fish_complete_path (string replace -r '^--[^=]*=' '' -- (commandline -ct))
        case directories
            __fish_complete_directories (string replace -r '^--[^=]*=' '' -- (commandline -ct)) ''
        case '*'
            printf '%s\n' $answer[2..-1]
    end
end
complete -c tierlog -f -a '(__tierlog_candidates)'
