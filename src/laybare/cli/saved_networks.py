"""`laybare compare A B`."""

from __future__ import annotations

import click

import laybare as lb


@click.command("compare")
@click.argument("found", type=click.Path())
@click.argument("truth", type=click.Path())
@click.option("--tol", type=click.FloatRange(0.0), help="Exit with status 1 if the largest error exceeds this.")
def compare(found: str, truth: str, tol: float | None) -> None:
    """Compare two saved networks modulo every symmetry of their activation."""
    match = lb.compare(_network(found), _network(truth))
    click.echo(str(match))
    if tol is not None and not match.max_error <= tol:
        click.get_current_context().exit(1)


def _network(path: str) -> lb.Network:
    """A saved network, or that of a saved recovery."""
    loaded = lb.load(path)
    return loaded.network if isinstance(loaded, lb.Recovery) else loaded
