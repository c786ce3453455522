"""`laybare plan`: what a recovery would take."""

from __future__ import annotations

import click

from laybare.cli.speech import examples
from laybare.pipeline.planning import plan_recovery


def _count(context: click.Context, parameter: click.Parameter, given: str) -> int:
    """A whole number, also as 1e9 or 1_000_000."""
    try:
        number = float(given)
    except ValueError:
        number = 0.0
    if not 1 <= number < 1e18 or number != int(number):
        raise click.BadParameter(f"{given!r} is no whole number of at least 1; write 1000000 or 1e6.")
    return int(number)


@click.command("plan", epilog=examples("laybare plan --rows 1e6 --dim 20 --width 10 --workers 4"))
@click.option("--rows", required=True, callback=_count, help="Samples, such as 1e9.")
@click.option("--dim", required=True, callback=_count, help="Inputs.")
@click.option("--width", required=True, callback=_count, help="Hidden units.")
@click.option("--outputs", default="1", show_default=True, callback=_count, help="Outputs.")
@click.option("--workers", default="1", show_default=True, callback=_count, help="Workers of one core each.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of the table.")
@click.option("--quiet", is_flag=True, help="Only the predicted seconds.")
def plan(rows: int, dim: int, width: int, outputs: int, workers: int, as_json: bool, quiet: bool) -> None:
    """Say what the recovery of a ReLU network from noisy samples would take: passes, operations, bytes, memory, time.

    Rates are measured on this machine first, which takes a few seconds. Times are good to a factor of two.
    """
    found = plan_recovery(rows, dim, width, outputs=outputs, workers=workers)
    click.echo(f"{found.seconds:.3g}" if quiet else found.json() if as_json else str(found))
