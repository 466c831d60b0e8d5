"""``toolcrib completion``: the script that makes a shell complete toolcrib's commands."""

from toolcrib.cli.console import Console
from toolcrib.cli.invoke import Options, arg, command

# bash ends words at ":" and "=", too, and puts in only what comes behind them.
BASH = """\
_toolcrib() {
    local line=${COMP_LINE:0:COMP_POINT} IFS=$' \\t\\n'
    local -a words
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    local last=${words[${#words[@]}-1]} IFS=$'\\n'
    COMPREPLY=($(toolcrib __complete -- "${words[@]:1}" 2>/dev/null | cut -f1))
    COMPREPLY=("${COMPREPLY[@]#"${last%"${last##*[:=]}"}"}")
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
complete -o default -F _toolcrib toolcrib
"""

ZSH = """\
#compdef toolcrib
_toolcrib() {
    local -a found
    found=("${(@f)$(toolcrib __complete -- "${(@)words[2,$CURRENT]}" 2>/dev/null | sed 's/:/\\\\:/g; s/\\t/:/')}")
    if [[ -n "$found" ]]; then _describe toolcrib found; else _files; fi
}
compdef _toolcrib toolcrib
"""

FISH = """\
function __toolcrib_complete
    set -l words (commandline -opc) (commandline -ct)
    toolcrib __complete -- $words[2..-1] 2>/dev/null
end
complete -c toolcrib -f -a '(__toolcrib_complete)'
complete -c toolcrib -l config -r -F
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


@command(
    arg("shell", choices=SCRIPTS, help="the shell to complete in"),
    takes_common=False,
    examples="""\
examples:
  source <(toolcrib completion bash)      put this line into ~/.bashrc
  source <(toolcrib completion zsh)       put this line into ~/.zshrc
  toolcrib completion fish > ~/.config/fish/completions/toolcrib.fish""",
)
def run_completion(options: Options, console: Console) -> None:
    """Print the script."""
    console.print(SCRIPTS[options.shell].rstrip())
