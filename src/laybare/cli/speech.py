"""How a command speaks: in tables, at length, in one JSON object, or not at all. Every command has these three options."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click
from rich.console import Console, RenderableType

from laybare.bars import bar
from laybare.shapes import Progress


@dataclass(frozen=True)
class Speech:
    """The form of what a command says, and the command itself as it was typed. At most one of the three is set."""

    command: str
    as_json: bool = False
    quiet: bool = False
    verbose: bool = False

    @property
    def in_text(self) -> bool:
        """Whether tables and sentences are wanted."""
        return not self.as_json and not self.quiet

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        return console_of().width

    def say(self, *parts: RenderableType) -> None:
        """Print, if text is wanted. Text is text: brackets are no markup, and long lines are left to the terminal."""
        if self.in_text:
            for part in parts:
                console_of().print(part, markup=False, soft_wrap=isinstance(part, str))

    def tell(self, **facts: Any) -> None:
        """One object with these keys after the name of the command and the version, if an object is wanted."""
        if self.as_json:
            import laybare

            click.echo(json.dumps({"command": self.command.split()[0], "version": laybare.__version__, **facts}))

    @contextmanager
    def bar(self) -> Iterator[Progress]:
        """A bar on stderr; where that is no terminal nothing, or a line for every stage if it is to be at length."""
        if self.quiet:
            yield lambda event: None
        else:
            with bar(lines=self.verbose) as show:
                yield show


class Screen(Console):
    """Standard output; a pipe that the reader has closed is told to `main`, which ends the program without a word."""

    def on_broken_pipe(self) -> None:
        """Rich would exit with status 1 here."""
        raise BrokenPipeError


def console_of() -> Console:
    """Standard output."""
    return Screen(highlight=False)


def speaking(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the three options; the command gets them as `speech`."""

    @click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
    @click.option("--quiet", "-q", is_flag=True, help="Nothing but errors: the exit status is the answer.")
    @click.option("--verbose", "-v", is_flag=True, help="Every unit, every stage, and what it takes to run it again.")
    @wraps(command)
    def with_options(*, as_json: bool, quiet: bool, verbose: bool, **options: Any) -> Any:
        if as_json + quiet + verbose > 1:
            raise click.UsageError("--json, --quiet and --verbose exclude each other.")
        return command(**options, speech=Speech(_typed(), as_json=as_json, quiet=quiet, verbose=verbose))

    return with_options


def _typed() -> str:
    """The command with its arguments, without the program's name."""
    import shlex

    return shlex.join(click.get_current_context().find_root().obj or [click.get_current_context().info_name or ""])


def examples(*commands: str) -> str:
    """The last lines of a help text; tests execute them."""
    return "\b\nExamples:\n" + "\n".join(f"  {command}" for command in commands)
