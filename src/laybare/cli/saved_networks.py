"""`laybare compare A B`."""

from __future__ import annotations

import click

import laybare as lb
from laybare.networks import load


@click.command("compare")
@click.argument("found", type=click.Path())
@click.argument("truth", type=click.Path())
@click.option("--tol", type=click.FloatRange(0.0), help="Exit with status 1 if the largest error exceeds this.")
def compare(found: str, truth: str, tol: float | None) -> None:
    """Compare two saved networks modulo every symmetry of their activation."""
    match = lb.compare(load(found), load(truth))
    click.echo(str(match))
    if tol is not None and not match.max_error <= tol:
        click.get_current_context().exit(1)
