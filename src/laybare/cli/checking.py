"""`laybare check DATA`: which assumptions hold, what each method would need, which are tried and why."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table

import laybare as lb
from laybare.cli.speech import console_of, examples
from laybare.methods.choosing import Choice

HOLDS = {True: "yes", False: "no", None: "open"}


@click.command("check", epilog=examples("laybare check data.npz"))
@click.argument("data", type=click.Path())
@click.option("--target", default="y", show_default=True, help="Column or array with the outputs; several separated by commas.")
@click.option("--width", type=click.IntRange(1), help="Hidden units, if known.")
@click.option("--activation", help="For example relu, leaky_relu(0.1), tanh; if known.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables.")
def check(data: str, target: str, width: int | None, activation: str | None, *, as_json: bool) -> None:
    """Look at the samples in DATA: which assumptions hold, and which methods `laybare recover` would try, in which order.

    Nothing is fitted; it takes a second. "open" means that samples cannot tell.
    """
    units = None if activation is None else lb.activation_named(activation)
    choice = lb.choose(lb.open_samples(data, target=target), width, units)
    if as_json:
        click.echo(json.dumps(_object(choice)))
    else:
        _print(choice)


def _print(choice: Choice) -> None:
    seen, console = choice.seen, console_of()
    console.print(
        f"{seen.size:,} samples of {seen.dim} inputs and {seen.outputs} output{'s' * (seen.outputs > 1)}; no linear function "
        f"explains {seen.residual:.2g} of the variance of y", markup=False)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("method", "needs", "holds", "seen"):
        table.add_column(name, overflow="fold")
    for row in choice.table:
        for n, one in enumerate(row.conditions):
            last = n == len(row.conditions) - 1
            table.add_row(row.method if n == 0 else "", one.assumption, HOLDS[one.holds], one.seen, end_section=last)
    console.print(table)
    for n, candidate in enumerate(choice.candidates, 1):
        console.print(f"{n}. {candidate.reason}", markup=False)
    console.print(choice.otherwise, markup=False)


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
        "order": [{"method": type(one.method).__name__, "activation": one.method.activation.name, "reason": one.reason}
                  for one in choice.candidates],
        "otherwise": choice.otherwise}
