# Completes the words of tierlog in bash: ~/.bashrc evaluates this text.
_tierlog() {
    local line=${COMP_LINE:0:COMP_POINT} kind name
    local word=${line##*[[:space:]]}
    # bash splits at = and : too, and replaces only what follows them.
    local kept=${word%"$2"}
    COMPREPLY=()
    {
        read -r kind
        while IFS=$'\t' read -r name _; do
            [[ $name == "$word"* ]] && COMPREPLY+=("$(printf %q "${name#"$kept"}")")
        done
    } < <(tierlog completion --candidates "$line" 2>/dev/null)
    case $kind in
        files) compopt -o default ;;
        directories) compopt -o dirnames -o nospace ;;
    esac
}
complete -F _tierlog tierlog
