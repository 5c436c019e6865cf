"""``odmtool completion bash|zsh|fish``: the script that completes options, choices and files.

It is written from the commands themselves; the shell then completes without starting Python.
Words that are neither options nor choices are completed as file names.
"""

from __future__ import annotations

from collections.abc import Iterator

import click

from odmtool.cli import options

SHELLS = ("bash", "zsh", "fish")

_BASH = """\
_odmtool() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}}
    local command=${{COMP_WORDS[0]##*/}} words=
    if [ "$command" = odmtool ]; then
        if [ "$COMP_CWORD" = 1 ]; then
            COMPREPLY=($(compgen -W "{names}" -- "$cur"))
            return
        fi
        command=odm-${{COMP_WORDS[1]}}
    fi
    case "$command $prev" in
{choices}
        *) case "$command $cur" in
{options}
        esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F _odmtool {programs}
"""
_ZSH = "autoload -Uz compinit bashcompinit && compinit -u && bashcompinit\n"


def scripts_of(group: click.Group) -> dict[str, click.Command]:
    """The commands by what completion calls them."""
    return {f"odm-{name}": command for name, command in group.commands.items()}


def described(command: click.Command) -> Iterator[tuple[list[str], list[str], bool, str]]:
    """Of every option its names, its choices, whether it takes a value, and its first sentence."""
    for param in command.get_params(click.Context(command)):
        if isinstance(param, click.Option) and not param.hidden:
            kind = getattr(param.type, "item", param.type)
            choices = list(kind.choices) if isinstance(kind, click.Choice) else []
            text = (param.help or "").split(". ")[0].rstrip(".")
            yield list(param.opts), choices, not (param.is_flag or param.count), text


def bash(group: click.Group) -> str:
    """The script of bash."""
    choices, names = [], []
    for program, command in scripts_of(group).items():
        flags = []
        for opts, values, _, _ in described(command):
            flags += opts
            if values:
                pattern = "|".join(f'"{program} {opt}"' for opt in opts)
                choices.append(f'        {pattern}) words="{" ".join(values)}" ;;')
        names.append(f'            "{program} -"*) words="{" ".join(flags)}" ;;')
    return _BASH.format(
        names=" ".join(group.commands), choices="\n".join(choices), options="\n".join(names),
        programs=" ".join([*scripts_of(group), "odmtool"]),
    )  # fmt: skip


def zsh(group: click.Group) -> str:
    """The script of zsh, which understands that of bash."""
    return _ZSH + bash(group)


def fish(group: click.Group) -> str:
    """The script of fish."""
    lines = []
    for name, command in group.commands.items():
        lines.append(f"complete -c odmtool -n __fish_use_subcommand -f -a {name}")
        inside = f"-c odmtool -n '__fish_seen_subcommand_from {name}'"
        for target in (f"-c odm-{name}", inside):
            for opts, values, takes_value, text in described(command):
                words = ["complete", target]
                words += [f"-l {o[2:]}" if o.startswith("--") else f"-s {o[1:]}" for o in opts]
                words += [f"-x -a '{' '.join(values)}'"] if values else ["-r"] * takes_value
                lines.append(" ".join([*words, "-d", _quoted(text)]))
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


@options.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx, shell: str):
    """Print the script that completes options, choices and file names in SHELL.

    \b
    bash  eval "$(odmtool completion bash)" in ~/.bashrc
    zsh   eval "$(odmtool completion zsh)" in ~/.zshrc
    fish  odmtool completion fish > ~/.config/fish/completions/odmtool.fish
    """
    with options.help_printed():
        click.echo({"bash": bash, "zsh": zsh, "fish": fish}[shell](ctx.parent.command), nl=False)
