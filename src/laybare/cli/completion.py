"""`laybare completion SHELL`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from laybare.cli.output import Output, examples, output_options

LINES = {
    "bash": 'eval "$(laybare completion bash)"   in ~/.bashrc',
    "zsh": 'eval "$(laybare completion zsh)"   in ~/.zshrc',
    "fish": "laybare completion fish | source   in ~/.config/fish/config.fish",
}


@click.command("completion", epilog=examples("laybare completion bash"))
@click.argument("shell", type=click.Choice(sorted(LINES)))
@output_options
def completion(shell: str, output: Output) -> None:
    """Print what makes SHELL complete commands, options, methods and studies of laybare.

    Put one line into your shell's start-up file: eval "$(laybare completion bash)", the same with zsh, or
    laybare completion fish | source.
    """
    maker = get_completion_class(shell)
    assert maker is not None
    from laybare.cli import commands

    script = maker(commands, {}, "laybare", "_LAYBARE_COMPLETE").source()
    if output.in_text:
        click.echo(script.strip())
    output.emit_json(shell=shell, line=LINES[shell], script=script)
