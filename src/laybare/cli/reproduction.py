"""`laybare reproduce STUDY`."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from laybare.cli.screen import print_path
from laybare.cli.speech import Speech, examples, speaking
from laybare.report.tables import text_table


def _known(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from laybare.studies import STUDIES

    return [CompletionItem(name, help=study.title) for name, study in STUDIES.items() if name.startswith(incomplete)]


def _seeds(context: click.Context, parameter: click.Parameter, text: str) -> range:
    """'3-7' -> range(3, 8)."""
    first, _, last = text.partition("-")
    if not first.isdigit() or (last and not last.isdigit()) or int(last or first) < int(first):
        raise click.BadParameter("give FIRST-LAST, for example 0-19.", context, parameter)
    return range(int(first), int(last or first) + 1)


@click.command("reproduce", epilog=examples(
    "laybare reproduce --list", "laybare reproduce lines --seeds 0-4 --out studies"))
@click.argument("study", required=False, shell_complete=_known)
@click.option("--list", "listing", is_flag=True, help="List the studies and what each measures.")
@click.option("--seeds", default="0-19", show_default=True, callback=_seeds, help="Seeds to run, as FIRST-LAST.")
@click.option("--full", is_flag=True, help="The whole grid, which may take hours, instead of minutes.")
@click.option("--out", default="studies", show_default=True, type=click.Path(file_okay=False), help="Folder for the table.")
@speaking
def reproduce(study: str | None, *, listing: bool, seeds: range, full: bool, out: str, speech: Speech) -> None:
    """Run STUDY: print its table, say what it shows, write table and figure (SVG, and its points as CSV)."""
    from laybare.studies import STUDIES

    if listing or study is None:
        for one in STUDIES.values():
            speech.say(f"{one.name}: {one.title}.")
        speech.tell(studies={one.name: one.title for one in STUDIES.values()})
        return
    if study not in STUDIES:
        raise click.BadParameter(f"there is no study {study!r}; known are {', '.join(STUDIES)}.", param_hint="STUDY")
    chosen = STUDIES[study]
    with speech.bar() as progress:
        outcome = chosen.run(chosen.settings(seeds, full=full, progress=progress))
    files = outcome.write(Path(out), chosen.name)
    speech.tell(
        study=study, title=chosen.title, claim=chosen.claim, sentence=outcome.sentence, columns=list(outcome.columns),
        rows=[[_plain(cell) for cell in row] for row in outcome.rows], files=[str(path) for path in files])
    if speech.in_text:
        speech.say(f"{chosen.title}\n\n{text_table(outcome.columns, outcome.rows, speech.width)}\n")
        speech.say(f"Stated before: {chosen.claim}\nMeasured: {outcome.sentence}")
        for path in files:
            print_path(path.suffix[1:], str(path))


def _plain(cell: str | int | float) -> str | int | float | None:
    """JSON has no infinity, and does not know NumPy's numbers."""
    if isinstance(cell, str):
        return cell
    number = float(cell)
    return None if abs(number) == float("inf") or number != number else int(cell) if number == int(number) else number
