"""What makes a shell complete gpulend's words, made of the parser of the command line itself."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from typing import Any

from gpulend import adapters
from gpulend._native import ERROR_CODES

# Options and arguments whose value is a file.
FILES = ("--html", "--report")


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """Return the script for bash, zsh or fish."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](_commands(parser))


Commands = dict[str, tuple[str, argparse.ArgumentParser]]


def _commands(parser: argparse.ArgumentParser) -> Commands:
    """Return the commands: help and parser of each, by name."""
    (action,) = (item for item in parser._actions if isinstance(item, argparse._SubParsersAction))
    helps = {item.dest: str(item.help) for item in action._choices_actions}
    return {name: (helps[name], found) for name, found in action.choices.items()}


def _options(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.Action]]:
    for action in parser._actions:
        for option in action.option_strings:
            if option.startswith("--"):
                yield option, action


def _words(command: str, parser: argparse.ArgumentParser) -> list[str]:
    """Return the words that may follow a command, besides its options."""
    if command == "explain":
        return [str(code) for code, *_ in ERROR_CODES]
    choices: list[Any] = []
    for action in parser._actions:
        if not action.option_strings and action.choices is not None:
            choices += action.choices
    return [str(choice) for choice in choices]


def _values(option: str) -> list[str]:
    """Return the values that an option may have, where there are few."""
    values = {"--only": list(adapters.FRAMEWORKS), "--check": ["off", "memory", "races"]}
    return values.get(option, [])


def _bash(commands: Commands, name: str = "_gpulend") -> str:
    cases = []
    values = []
    for command, (_, parser) in commands.items():
        words = [option for option, _ in _options(parser)] + _words(command, parser)
        cases.append(f"        {command}) words={shlex.quote(' '.join(words))} ;;")
    for option in ("--only", "--check"):
        values.append(f"        {option}) words={shlex.quote(' '.join(_values(option)))} ;;")
    first = shlex.quote(" ".join([*commands, "--help", "--version"]))
    newline = "\n"
    return f"""# eval "$(gpulend completion bash)"
{name}() {{
    local words="" current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" word
    COMPREPLY=()
    if [[ $COMP_CWORD -eq 1 ]]; then
        COMPREPLY=($(compgen -W {first} -- "$current"))
        return
    fi
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        # What follows is the program's.
        if [[ $word == -- ]]; then COMPREPLY=($(compgen -f -- "$current")); return; fi
    done
    case "$before" in
        {"|".join(FILES)}) COMPREPLY=($(compgen -f -- "$current")); return ;;
    esac
    case "$before" in
{newline.join(values)}
    esac
    if [[ -n $words ]]; then COMPREPLY=($(compgen -W "$words" -- "$current")); return; fi
    case "${{COMP_WORDS[1]}}" in
{newline.join(cases)}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F {name} gpulend
"""


def _zsh(commands: Commands) -> str:
    # zsh runs bash's functions.
    body = _bash(commands).partition("\n")[2]
    return f"""# eval "$(gpulend completion zsh)"
autoload -Uz compinit bashcompinit
(( $+functions[compdef] )) || compinit
bashcompinit
{body}"""


def _fish(commands: Commands) -> str:
    lines = ["# gpulend completion fish | source", "complete -c gpulend -f"]
    none = f"not __fish_seen_subcommand_from {' '.join(commands)}"
    for command, (words, parser) in commands.items():
        lines.append(f"complete -c gpulend -n {_q(none)} -a {command} -d {_q(words)}")
        seen = f"__fish_seen_subcommand_from {command}"
        for option, action in _options(parser):
            line = f"complete -c gpulend -n {_q(seen)} -l {option[2:]}"
            if option in FILES:
                line += " -r -F"
            elif action.nargs != 0:
                line += f" -x -a {_q(' '.join(_values(option)))}"
            lines.append(f"{line} -d {_q(action.help or '')}")
        for word in _words(command, parser):
            lines.append(f"complete -c gpulend -n {_q(seen)} -a {word}")
        if command == "run":
            lines.append(f"complete -c gpulend -n {_q(seen)} -F")
    return "\n".join(lines) + "\n"


def _q(text: str) -> str:
    """Quote a text as fish reads it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
