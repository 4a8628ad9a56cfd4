#compdef tierlog
# Completes the words of tierlog in zsh: a file _tierlog in fpath, or a text for eval.
_tierlog() {
    local -a answer words_with_help
    answer=("${(@f)$(tierlog completion --candidates \
        "${(j: :)words[1,CURRENT-1]} $PREFIX" 2>/dev/null)}")
    case $answer[1] in
        files) compset -P '--*='; _files ;;
        directories) compset -P '--*='; _files -/ ;;
        *)
            words_with_help=("${(@)${(@)answer[2,-1]//:/\\:}/$'\t'/:}")
            _describe -V word words_with_help ;;
    esac
}
if [[ $zsh_eval_context[-1] == eval ]]; then
    compdef _tierlog tierlog
else
    _tierlog "$@"
fi
