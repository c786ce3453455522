"""`laybare reproduce STUDY`."""

from __future__ import annotations

from pathlib import Path

import click

from laybare.cli.screen import _bar, console_of, print_path
from laybare.report.tables import text_table


def _seeds(context: click.Context, parameter: click.Parameter, text: str) -> range:
    """'3-7' -> range(3, 8)."""
    first, _, last = text.partition("-")
    if not first.isdigit() or (last and not last.isdigit()) or int(last or first) < int(first):
        raise click.BadParameter("give FIRST-LAST, for example 0-19.", context, parameter)
    return range(int(first), int(last or first) + 1)


@click.command("reproduce")
@click.argument("study", required=False)
@click.option("--list", "listing", is_flag=True, help="List the studies and what each measures.")
@click.option("--seeds", default="0-19", show_default=True, callback=_seeds, help="Seeds to run, as FIRST-LAST.")
@click.option("--full", is_flag=True, help="The whole grid, which may take hours, instead of minutes.")
@click.option("--out", default="studies", show_default=True, type=click.Path(file_okay=False), help="Folder for the table.")
def reproduce(study: str | None, listing: bool, seeds: range, full: bool, out: str) -> None:
    """Run STUDY: print its table, say what it shows, write table and figure (SVG, and its points as CSV)."""
    from laybare.studies import STUDIES

    console = console_of()
    if listing or study is None:
        for one in STUDIES.values():
            console.print(f"{one.name}: {one.title}.", markup=False, soft_wrap=True)
        return
    if study not in STUDIES:
        raise click.BadParameter(f"there is no study {study!r}; known are {', '.join(STUDIES)}.", param_hint="STUDY")
    chosen = STUDIES[study]
    with _bar() as progress:
        outcome = chosen.run(chosen.settings(seeds, full=full, progress=progress))
    table = text_table(outcome.columns, outcome.rows, console.width)
    console.print(f"{chosen.title}\n\n{table}\n", markup=False, soft_wrap=True)
    console.print(f"Stated before: {chosen.claim}\nMeasured: {outcome.sentence}", markup=False, soft_wrap=True)
    for path in outcome.write(Path(out), chosen.name):
        print_path(path.suffix[1:], str(path))
