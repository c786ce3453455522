"""`laybare plan`: what a recovery would take."""

from __future__ import annotations

from dataclasses import asdict

import click

from laybare.cli.speech import Speech, examples, speaking
from laybare.pipeline import planning
from laybare.shapes import tell


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
@speaking
def plan(*, rows: int, dim: int, width: int, outputs: int, workers: int, speech: Speech) -> None:
    """Say what the recovery of a ReLU network from noisy samples would take: passes, operations, bytes, memory, time.

    Rates are measured on this machine first, which takes a few seconds. Times are good to a factor of two.
    With --quiet nothing but the predicted seconds.
    """
    with speech.bar() as progress:
        tell(progress, "measuring", detail="rates of this machine, a few seconds")
        rates = planning.measured_rates(dim, width, outputs)
    found = planning.plan_recovery(rows, dim, width, outputs=outputs, workers=workers, rates=rates)
    speech.tell(**asdict(found))
    speech.say(str(found))
    if speech.verbose:
        speech.say("rates of one core here, operations a second", *(
            f"  {name:26}{rate:>12.2g}" for name, rate in (*rates.flops.items(), ("bytes read a second", rates.reading))))
    if speech.quiet:
        click.echo(f"{found.seconds:.3g}")
