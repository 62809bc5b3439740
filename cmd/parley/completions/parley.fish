# Completion of parley for fish. Nothing is evaluated: fish divides the line into words, and quotes those that it inserts.
function __parley_offer
    set -l words (commandline -opc)
    set -l token (commandline -ct)
    set -l word $token
    for quote in '' "'" '"'
        if set -l text (string unescape -- $token$quote)
            set word $text
            break
        end
    end
    set -l program parley
    command -q -- $words[1]; and set program $words[1]
    set -g __parley_offered (command $program __offer fish $words[2..-1] "$word" 2>/dev/null)
    set -l line $__parley_offered[1]
    set -e __parley_offered[1]
    set -q __parley_offered[1]; or string match -q '*nofiles*' -- $line
end
complete -c parley -e
complete -c parley -n __parley_offer -f -a '$__parley_offered'
