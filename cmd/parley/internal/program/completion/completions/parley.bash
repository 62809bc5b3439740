# Completion of parley for bash. Nothing that parley offers is evaluated: it returns words as bash has to read them.
_parley()
{
    local line program=$1
    type -P -- "$program" >/dev/null || program=parley
    COMPREPLY=()
    {
        IFS= read -r line
        case $line in *nospace*) compopt -o nospace;; esac
        case $line in *nofiles*) compopt +o default;; esac
        case $line in *dirs*) compopt +o default -o dirnames;; esac
        while IFS= read -r line; do COMPREPLY+=("$line"); done
    } < <("$program" __offer bash "${COMP_LINE:0:COMP_POINT}" "$2" "${COMP_TYPE:-9}") 2>/dev/null
}
complete -o default -F _parley parley
