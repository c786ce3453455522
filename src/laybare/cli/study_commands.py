"""`laybare reproduce STUDY`, or `papers` for all of the five papers; and `laybare demo`: training and recovery, live."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from click.shell_completion import CompletionItem
from rich.table import Table
from rich.text import Text

from laybare.cli.output import Output, _pairs_table, examples, output_options, print_path, print_summary
from laybare.cli.program import import_from_here, suggest
from laybare.cli.results import NEW_PAGE, finite, status_of
from laybare.numerics.checks import check_memory
from laybare.numerics.redaction import describe_error
from laybare.report import pair_units, write_report
from laybare.report.tables import text_table

if TYPE_CHECKING:
    from laybare.studies import Study


def _known(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from laybare.studies import STUDIES

    return [CompletionItem(name, help=study.title) for name, study in STUDIES.items() if name.startswith(incomplete)]


def _seeds(context: click.Context, parameter: click.Parameter, text: str | None) -> range | None:
    """'3-7' -> range(3, 8)."""
    if text is None:
        return None
    ends = re.fullmatch(r"([0-9]{1,18})(?:-([0-9]{1,18})?)?", text)
    first, last = (int(ends[1]), int(ends[2] or ends[1])) if ends else (1, 0)
    if last < first:
        raise click.BadParameter("give FIRST-LAST, for example 0-19.", context, parameter)
    count = last - first + 1
    check_memory(f"A list of {count:,} seeds", count * sys.getsizeof(last) / np.dtype(float).itemsize, "Give fewer of them.")
    return range(first, last + 1)


@click.command("reproduce", epilog=examples(
    "laybare reproduce --list", "laybare reproduce lines --seeds 0-4 --out studies"))
@click.argument("study", required=False, shell_complete=_known)
@click.option("--list", "listing", is_flag=True, help="List the studies and what each measures.")
@click.option("--seeds", callback=_seeds, help="Seeds to run, as FIRST-LAST; each study has its own number of them.")
@click.option("--full", is_flag=True, help="The whole grid, which may take hours, instead of minutes.")
@click.option("--arm", metavar="MODULE:NAME", help="A method of your own (mine:AlongAxes) beside those of STUDY.")
@click.option("--out", default="studies", show_default=True, type=click.Path(file_okay=False), help="Folder for page and tables.")
@output_options
def reproduce(
    study: str | None, *, listing: bool, seeds: range | None, full: bool, arm: str | None, out: str, output: Output
) -> None:
    """Run STUDY, or `papers` for all of the five papers: print its table, say what it shows, and write a page with it.

    The page says how to get it again; beside it are the table as CSV, and the figure as SVG with its points as CSV.
    """
    from laybare.studies import PAPERS, STUDIES

    if listing or study is None:
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
        for one in STUDIES.values():
            table.add_row(Text(one.name), Text(f"{one.title}."))
        output.say(table)
        output.emit_json(studies={one.name: one.title for one in STUDIES.values()})
        return
    if study not in STUDIES and study != "papers":
        raise click.BadParameter(
            f"there is no study {study!r}{suggest(study, ('papers', *STUDIES))}; laybare reproduce --list has them all.",
            param_hint="STUDY")
    names = PAPERS if study == "papers" else (study,)
    chosen = [STUDIES[name] if arm is None else _with_arm(STUDIES[name], arm) for name in names]
    Path(out).mkdir(parents=True, exist_ok=True)  # before the work that is to be written there
    output.emit_json(results=[_run(one, seeds, Path(out), full=full, arm=arm, output=output) for one in chosen])


def _with_arm(study: Study[Any], text: str) -> Study[Any]:
    """The study with the method "module:name", or what that makes when it is called, beside its arms."""
    from laybare.source.oracle.targets import named_object
    from laybare.studies import STUDIES

    if study.with_method is None:
        those = ", ".join(name for name, one in STUDIES.items() if one.with_method is not None)
        raise click.BadParameter(f"the arms of {study.name} are no methods; {those} take one.", param_hint="--arm")
    if not all(text.partition(":")):
        raise click.BadParameter(f"{text} has no colon: give MODULE:NAME, such as mine:AlongAxes.", param_hint="--arm")
    import_from_here()
    found = named_object(text)
    try:
        method = found() if callable(found) else found
    except Exception as error:  # what is called without arguments may want some, and may raise anything
        raise click.BadParameter(f"{text}() raised {describe_error(error)}.", param_hint="--arm") from error
    if not hasattr(method, "activation"):
        raise click.BadParameter(f"{text} is no method; docs/adding.md has an example of one.", param_hint="--arm")
    return study.with_method(text, method)


def _run(
    study: Study[Any], seeds: range | None, out: Path, *, full: bool, arm: str | None, output: Output
) -> dict[str, Any]:
    """Measure, print, write."""
    from laybare.studies.study import StudyReading

    begun, chosen = time.process_time(), range(study.seeds) if seeds is None else seeds
    with output.bar() as progress:
        result = study.run(study.settings(chosen, full=full, progress=progress))
    files = StudyReading(study, chosen, full, result, time.process_time() - begun, arm).write(out)
    if output.in_text:
        output.say(f"{study.title}\n\n{text_table(result.columns, result.rows, output.width)}\n")
        output.say(f"Stated before: {study.claim}\nMeasured: {result.sentence}")
        for path in files:
            print_path(path.suffix[1:], str(path))
    return {
        "study": study.name, "title": study.title, "claim": study.claim, "sentence": result.sentence,
        "columns": list(result.columns), "rows": [[_plain(cell) for cell in row] for row in result.rows],
        "files": [str(path) for path in files]}


def _plain(cell: str | int | float) -> str | int | float | None:
    """JSON has no infinity, and does not know NumPy's numbers."""
    if isinstance(cell, str):
        return cell
    number = float(cell)
    return None if abs(number) == float("inf") or number != number else int(cell) if number == int(number) else number


@click.command("demo", epilog=examples("laybare demo --width 4 --queries 600 --report demo.html"))
@click.option("--report", default="laybare-demo.html", show_default=True, help="Where the HTML page goes.", **NEW_PAGE)
@click.option("--width", default=16, show_default=True, type=click.IntRange(1, 64), help="Hidden units of the trained network.")
@click.option("--queries", default=3000, show_default=True, type=click.IntRange(100), help="Queries granted to the recovery.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of training, queries and search.")
@output_options
def demo(*, report: str, width: int, queries: int, seed: int, output: Output) -> None:
    """Train a network on real data, hide it behind a callable, recover its weights from queries.

    Beside it, live: what scikit-learn's own training finds from as many samples of the same black box, and from more.
    """
    from laybare.studies import real_data

    output.say(
        f"1. The hidden network: scikit-learn trains an MLPRegressor (10-{width}-1, ReLU) on the diabetes data.",
        "   From here on it is a black box, a function that answers queries; nobody is given its weights.",
        f"2. The queries: laybare asks at most {queries:,}, and is not given the width.\n", indent=3)
    truth = real_data.train(width, seed)
    with output.bar() as progress:
        case = real_data.extract(truth, queries, seed, progress)
    found, match, status = case.found, case.match, status_of(case.found.certificate)
    if found.network.depth == 1 and found.network.top is None:
        output.say(_pairs_table(pair_units(found.network, truth), truth.dim, output.width))
    output.say(f"hidden units recovered: {width - len(match.missing)} of {width}")
    output.say(f"largest difference of any weight, bias or readout: {match.max_error:.1e}\n")
    if output.in_text:
        print_summary(output.summary(found), found.certificate.verdict)
    output.say(
        "\n3. Training: random samples of the same black box, the width given, best of ten starts of L-BFGS.", indent=3)
    with output.bar() as progress:
        students = [real_data.retrain(truth, rows, seed, progress) for rows in (found.samples_used, queries)]
    for student in students:
        output.say(
            f"   {student.samples:,} samples: {student.right} of {width} units right to 1 %; error on fresh inputs "
            f"{student.test_error:.0e} of sd(y)", indent=3)
    output.say("   Nothing in training says which of its units are right.\n")
    write_report(found, report, truth)
    output.emit_json(
        status=status, verdict=found.certificate.verdict, width=width, recovered=width - len(match.missing),
        max_error=finite(match.max_error), queries=found.queries, seconds=found.seconds, report=report,
        training=[{"samples": one.samples, "recovered": one.right, "test_error": one.test_error} for one in students])
    if output.in_text:
        print_path("report", report)
    click.get_current_context().exit(status)
