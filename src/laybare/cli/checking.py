"""`laybare check DATA`: which assumptions hold, what each method would need, which are tried and why."""

from __future__ import annotations

from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table

import laybare as lb
from laybare.cli.data_options import opened, reading_options
from laybare.cli.speech import Speech, examples, speaking
from laybare.cli.wording import in_options
from laybare.methods.choosing import Choice

HOLDS = {True: "yes", False: "no", None: "open"}


@click.command("check", epilog=examples(
    "laybare check data.npz", "laybare check houses.csv.gz --target price --drop-columns id --drop-missing"))
@reading_options
@click.option("--width", type=click.IntRange(1), help="Hidden units, if known.")
@click.option("--activation", help="For example relu, leaky_relu(0.1), tanh; if known.")
@speaking
def check(data: str, *, width: int | None, activation: str | None, speech: Speech, **reading: Any) -> None:
    """Look at the samples in DATA: which assumptions hold, and which methods `laybare recover` would try, in which order.

    DATA as for laybare recover. Nothing is fitted; it takes a second. "open" means that samples cannot tell.
    """
    units = None if activation is None else lb.activation_named(activation)
    choice = lb.choose(opened(data, reading), width, units)
    speech.tell(**_object(choice))
    _say(choice, speech)


def _say(choice: Choice, speech: Speech) -> None:
    seen = choice.seen
    speech.say(
        f"{seen.size:,} samples of {seen.dim} inputs and {seen.outputs} output{'s' * (seen.outputs > 1)}; "
        f"{seen.residual:.2g} of the variance of y is not linear in x", "\nlaybare recover would try, in this order:")
    for n, candidate in enumerate(choice.candidates, 1):
        speech.say(f"{n}. {candidate.reason}")
    speech.say(in_options(choice.otherwise) + "\n")
    if speech.verbose:
        speech.say(_orders(choice))
    table = _table("method", "needs", "holds", "seen")
    for row in choice.table:
        for n, one in enumerate(row.conditions):
            last = n == len(row.conditions) - 1
            table.add_row(row.method if n == 0 else "", one.assumption, HOLDS[one.holds], one.seen, end_section=last)
    speech.say(table)


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
        "order": [{"method": type(one.method).__name__, "activation": one.method.activation.name, "reason": one.reason}
                  for one in choice.candidates],
        "otherwise": choice.otherwise}
