"""The command line: `laybare recover DATA`, `extract TARGET`, `audit TARGET`, `compare A B` and others; one file for each kind.

Commands are imported when they are called, so that `laybare --help` is quick. Exit status: 0 verified (or nothing to judge),
3 doubtful, 4 refuted, 2 misuse, 130 interrupted, 141 closed pipe; `compare --tol` has 1 for different.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from types import FrameType
from typing import NoReturn, cast

import click
from click.shell_completion import CompletionItem

from laybare.errors import LaybareError
from laybare.lazy import homes_of, on_demand

__all__ = ["commands", "main"]

__getattr__ = on_demand(__name__, homes_of({"laybare.cli.screen": "_pairs_table _units_table"}))

MISUSE, INTERRUPTED, CLOSED_PIPE = 2, 130, 141

HOMES = {
    "audit": ("black_boxes", "How much of a black box can be read from how many queries."),
    "check": ("checking", "Which assumptions the samples in a file hold, and which methods would be tried."),
    "completion": ("completion", "Print what makes your shell complete these commands."),
    "compare": ("saved_networks", "Compare two saved networks."),
    "demo": ("demonstration", "Recover a network trained on real data, as a demonstration."),
    "extract": ("black_boxes", "Recover the network behind a black box."),
    "plan": ("planning", "Say what a recovery would take: passes, bytes, memory, time."),
    "recover": ("sampled", "Recover the network behind samples in a file."),
    "recover-layer": ("sampled", "Recover the lowest layer of a deeper network behind samples in a file."),
    "reproduce": ("reproduction", "Run a study and write its table."),
}
"""Commands, the files they stand in, and what the list of commands says about them."""


def nearest(typed: str, known: Iterable[str]) -> str:
    """A question that names what was meant, if anything is near."""
    near = get_close_matches(typed, list(known), 1)
    return f" (did you mean {near[0]}?)" if near else ""


class CommandsOnDemand(click.Group):
    """Knows its commands by name, and imports one when it is called."""

    def list_commands(self, context: click.Context) -> list[str]:
        """All of them."""
        return sorted(HOMES)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """The command of that name."""
        if name not in HOMES:
            return None
        return cast(click.Command, getattr(import_module(f"laybare.cli.{HOMES[name][0]}"), name.replace("-", "_")))

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that was typed; what is none is answered with the one that is nearest."""
        if args[0] not in HOMES and not args[0].startswith("-"):
            context.fail(f"there is no command {args[0]!r}{nearest(args[0], HOMES)}; laybare --help lists them all.")
        return super().resolve_command(context, args)

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of commands, without importing them."""
        own = [CompletionItem(name, help=HOMES[name][1]) for name in self.list_commands(context) if name.startswith(incomplete)]
        return own + click.Command.shell_complete(self, context, incomplete)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, HOMES[name][1]) for name in self.list_commands(context)])


def _version(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if asked:
        import laybare

        click.echo(f"laybare {laybare.__version__}")
        context.exit()


@click.group(cls=CommandsOnDemand, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version and exit.")
def commands() -> None:
    """Lay bare the hidden layer: recover neural networks from data or queries.

    Exit status: 0 verified, 3 doubtful, 4 refuted, 2 misuse, 130 interrupted.
    Every command knows --help (with examples), --json, --quiet and --verbose.
    """


def main() -> None:
    """Run the command line; a finding becomes a message and exit status 2, an interrupt 130, a closed pipe 141."""
    signal.signal(signal.SIGINT, _stop)
    try:
        status = commands(prog_name="laybare", standalone_mode=False, obj=sys.argv[1:])
        sys.stdout.flush()
    except LaybareError as error:
        status = _refused(str(error))
    except (click.Abort, KeyboardInterrupt) as interrupt:
        click.echo(": ".join(filter(None, ["laybare: interrupted", str(interrupt)])), err=True)
        status = INTERRUPTED
    except click.ClickException as error:
        error.show()
        status = _told(error.format_message(), error.exit_code)
    except BrokenPipeError:
        status = _nobody_reads()
    except OSError as error:
        status = _refused(f"{error.filename or 'standard output'} was not written or read: {error.strerror or error}.")
    sys.exit(status)


def _refused(message: str) -> int:
    """A finding in the words of the command line."""
    from laybare.cli.wording import in_options

    message = in_options(message)
    click.echo(f"laybare: {message}", err=True)
    return _told(message, MISUSE)


def _told(message: str, status: int) -> int:
    """Whoever asked for an object gets one, and nothing if there is no room for it."""
    if "--json" in sys.argv:
        with suppress(OSError):
            print(json.dumps({"error": message, "status": status}), flush=True)
    return status


def _nobody_reads() -> int:
    """The reader has gone, as `head` does: no message, and nothing more into the closed pipe when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return CLOSED_PIPE


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    """Leave at once. Commands that have something to keep take the first interrupt themselves (see `laybare.cli.interrupts`)."""
    raise click.Abort


if __name__ == "__main__":
    main()
