# Completion of parley for fish. Nothing is evaluated: parley splits the line, and fish quotes the words that it inserts.
function __parley_offer
    set -l words (commandline -opc)
    set -l program parley
    command -q -- $words[1]; and set program $words[1]
    set -g __parley_offered (command $program __offer fish (commandline -pc | string collect) 2>/dev/null)
    set -l line $__parley_offered[1]
    set -e __parley_offered[1]
    set -q __parley_offered[1]; or string match -q '*nofiles*' -- $line
end
complete -c parley -e
complete -c parley -n __parley_offer -f -a '$__parley_offered'
