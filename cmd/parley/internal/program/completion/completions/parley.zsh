#compdef parley
# Completion of parley for zsh. Nothing is evaluated: parley splits the line, and zsh quotes the words that it inserts.
_parley()
{
    local line name text program=${(Q)words[1]}
    local -a names shown options
    whence -p -- "$program" >/dev/null || program=parley
    {
        IFS= read -r line
        while IFS= read -r name && IFS= read -r text; do
            names+=("$name")
            shown+=("$text")
        done
    } < <("$program" __offer zsh "${(j: :)words[1,CURRENT-1]} $QIPREFIX$PREFIX" 2>/dev/null)
    [[ $line == *nospace* ]] && options+=(-S '')
    [[ $line == *described* ]] && options+=(-l)
    if (( $#names )); then
        compadd "${options[@]}" -d shown -a names
    elif [[ $line == *dirs* ]]; then
        _files -/
    elif [[ $line != *nofiles* ]]; then
        _files
    fi
}
if [[ $funcstack[1] == _parley ]]; then
    _parley "$@"
else
    compdef _parley parley
fi
