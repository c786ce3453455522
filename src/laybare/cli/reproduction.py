"""`laybare reproduce STUDY`, or all of the five papers: `laybare reproduce papers`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from laybare.cli.screen import _bar, console_of, print_path
from laybare.report.tables import text_table

if TYPE_CHECKING:
    from laybare.studies import Study


def _seeds(context: click.Context, parameter: click.Parameter, text: str | None) -> range | None:
    """'3-7' -> range(3, 8)."""
    if text is None:
        return None
    first, _, last = text.partition("-")
    if not first.isdigit() or (last and not last.isdigit()) or int(last or first) < int(first):
        raise click.BadParameter("give FIRST-LAST, for example 0-19.", context, parameter)
    return range(int(first), int(last or first) + 1)


@click.command("reproduce")
@click.argument("study", required=False)
@click.option("--list", "listing", is_flag=True, help="List the studies and what each measures.")
@click.option("--seeds", callback=_seeds, help="Seeds to run, as FIRST-LAST; each study has its own number of them.")
@click.option("--full", is_flag=True, help="The whole grid, which may take hours, instead of minutes.")
@click.option("--out", default="studies", show_default=True, type=click.Path(file_okay=False), help="Folder for page and tables.")
def reproduce(study: str | None, listing: bool, seeds: range | None, full: bool, out: str) -> None:
    """Run STUDY, or `papers` for all of the five papers: print its table, say what it shows, and write a page with it.

    The page says how to get it again; beside it are the table as CSV, and the figure as SVG with its points as CSV.
    """
    from laybare.studies import PAPERS, STUDIES

    console = console_of()
    if listing or study is None:
        for one in STUDIES.values():
            console.print(f"{one.name}: {one.title}.", markup=False, soft_wrap=True)
        return
    if study not in STUDIES and study != "papers":
        raise click.BadParameter(f"there is no study {study!r}; known are papers, {', '.join(STUDIES)}.", param_hint="STUDY")
    for name in PAPERS if study == "papers" else (study,):
        _run(STUDIES[name], seeds, Path(out), full=full)


def _run(study: Study[Any, Any], seeds: range | None, out: Path, *, full: bool) -> None:
    """Measure, print, write."""
    from laybare.studies.reading import StudyReading

    console, begun = console_of(), time.process_time()
    chosen = range(study.seeds) if seeds is None else seeds
    with _bar() as progress:
        result = study.run(study.settings(chosen, full=full, progress=progress))
    reading = StudyReading(study, chosen, full, result, time.process_time() - begun)
    console.print(
        f"{study.title}\n\n{text_table(result.columns, result.rows, console.width)}\n", markup=False, soft_wrap=True)
    console.print(f"Stated before: {study.claim}\nMeasured: {result.sentence}", markup=False, soft_wrap=True)
    for path in reading.write(out):
        print_path(path.suffix[1:], str(path))
