"""The command line: `laybare recover DATA`, `extract TARGET`, `audit TARGET`, `compare A B` and others; one file for each kind.

Commands are imported when they are called, so that `laybare --help` is quick. Exit status: 0 verified (or nothing to judge),
3 doubtful, 4 refuted, 2 misuse, 130 interrupted.
"""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from types import FrameType
from typing import NoReturn, cast

import click

from laybare.errors import LaybareError
from laybare.lazy import homes_of, on_demand

__all__ = ["commands", "main"]

__getattr__ = on_demand(__name__, homes_of({"laybare.cli.screen": "_bar _pairs_table _units_table"}))

HOMES = {
    "audit": ("black_boxes", "How much of a black box can be read from how many queries."),
    "check": ("checking", "Which assumptions the samples in a file hold, and which methods would be tried."),
    "compare": ("saved_networks", "Compare two saved networks."),
    "demo": ("demonstration", "Recover a network trained on real data, as a demonstration."),
    "extract": ("black_boxes", "Recover the network behind a black box."),
    "plan": ("planning", "Say what a recovery would take: passes, bytes, memory, time."),
    "recover": ("sampled", "Recover the network behind samples in a file."),
    "recover-layer": ("sampled", "Recover the lowest layer of a deeper network behind samples in a file."),
    "reproduce": ("reproduction", "Run a study and write its table."),
}
"""Commands, the files they stand in, and what the list of commands says about them."""


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
    """


def main() -> None:
    """Run the command line; a finding becomes a message and exit status 2, an interrupt 130."""
    signal.signal(signal.SIGINT, _stop)
    try:
        sys.exit(commands(prog_name="laybare", standalone_mode=False))
    except LaybareError as error:
        click.echo(f"laybare: {error}", err=True)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt) as interrupt:
        click.echo(": ".join(filter(None, ["laybare: interrupted", str(interrupt)])), err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    """Leave at once. Commands that have something to keep take the first interrupt themselves (see `laybare.cli.interrupts`)."""
    raise click.Abort


if __name__ == "__main__":
    main()
