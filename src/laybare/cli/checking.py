"""Before a recovery: `laybare check DATA` (which assumptions hold, which methods fit) and `laybare plan` (what it would take)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table

import laybare as lb
from laybare.cli import planning
from laybare.cli.output import Output, examples, output_options
from laybare.cli.samples_commands import data_options, open_data
from laybare.cli.wording import METHODS, in_command_line_words
from laybare.methods.choosing import Choice
from laybare.numerics.shapes import report_progress
from laybare.source.problem import count_distinct_inputs

HOLDS = {True: "yes", False: "no", None: "open"}


@click.command("check", epilog=examples(
    "laybare check data.npz", "laybare check houses.csv.gz --target price --drop-columns id --drop-missing"))
@data_options
@click.option("--width", type=click.IntRange(1), help="Hidden units, if known.")
@click.option("--activation", help="For example relu, leaky_relu(0.1), tanh; if known.")
@output_options
def check(data: str, *, width: int | None, activation: str | None, output: Output, **reading: Any) -> None:
    """Look at the samples in DATA: which assumptions hold, and which methods `laybare recover` would try, in which order.

    DATA as for laybare recover. Nothing is fitted; it takes a second. "open" means that samples cannot tell.
    """
    units = None if activation is None else lb.activations.activation_named(activation)
    samples = open_data(data, reading, output)
    choice, copies = lb.choose(samples, width, units), samples.size - count_distinct_inputs(samples)
    output.emit_json(**_object(choice), dropped=samples.dropped, repeated_inputs=copies)
    _say(choice, copies, output)


def _say(choice: Choice, copies: int, output: Output) -> None:
    seen = choice.seen
    output.say(
        f"{seen.size:,} samples of {seen.dim} inputs and {seen.outputs} output{'s' * (seen.outputs > 1)}; "
        f"{seen.residual:.2g} of the variance of y is not linear in x",
        *([f"{copies:,} rows repeat the inputs of another row"] if copies else []), "\nlaybare recover would try, in this order:")
    for n, candidate in enumerate(choice.candidates, 1):
        output.say(f"{n}. {candidate.reason}", indent=3)
    output.say(in_command_line_words(choice.otherwise) + "\n")
    if output.verbose:
        output.say(_orders(choice))
    for row in choice.table:
        output.say(f"{row.method} ({METHODS[row.method]}) needs")
        output.say(*(f"  {HOLDS[one.holds]:5} {one.assumption}: {one.seen}" for one in row.conditions), indent=8)


def _orders(choice: Choice) -> Table:
    """What the moments of every order hold of y, beside what noise alone would show."""
    table = _table("order", "share of y", "noise alone", "seen")
    for one in choice.seen.orders:
        table.add_row(str(one.order), f"{one.share:.2g}", f"{one.noise:.2g}", HOLDS[one.seen])
    return table


def _table(*names: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in names:
        table.add_column(name, overflow="fold")
    return table


def _object(choice: Choice) -> dict[str, Any]:
    """What --json prints; the keys are documented and stay."""
    seen = choice.seen
    return {
        "samples": seen.size, "dim": seen.dim, "outputs": seen.outputs, "constant_labels": seen.constant,
        "not_linear": seen.residual,
        "orders": [{"order": one.order, "share": one.share, "noise": one.noise, "seen": one.seen} for one in seen.orders],
        "methods": [
            {"method": row.method, "fits": row.fits, "conditions": [
                {"assumption": one.assumption, "holds": one.holds, "seen": one.seen} for one in row.conditions]}
            for row in choice.table],
        "order": [{"method": type(one.method).__name__, "activation": str(one.method.activation), "reason": one.reason}
                  for one in choice.candidates],
        "otherwise": choice.otherwise}


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
@output_options
def plan(*, rows: int, dim: int, width: int, outputs: int, workers: int, output: Output) -> None:
    """Say what the recovery of a ReLU network from noisy samples would take: passes, operations, bytes, memory, time.

    Rates are measured on this machine first, which takes a few seconds. Times are good to a factor of two.
    With --quiet nothing but the predicted seconds.
    """
    with output.bar() as progress:
        report_progress(progress, "measuring", detail="rates of this machine, a few seconds")
        rates = planning.measured_rates(dim, width, outputs)
    found = planning.plan_recovery(rows, dim, width, outputs=outputs, workers=workers, rates=rates)
    output.emit_json(**asdict(found))
    output.say(str(found))
    if output.verbose:
        output.say("rates of one core here, operations a second", *(
            f"  {name:26}{rate:>12.2g}" for name, rate in (*rates.flops.items(), ("bytes read a second", rates.reading))))
    if output.quiet:
        click.echo(f"{found.seconds:.3g}")
