"""What the terminal shows: a bar while something runs, tables of units, the summary with its verdict."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import fill

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

import laybare as lb
from laybare.report import Pair, Unit
from laybare.shapes import Event
from laybare.shapes import Progress as Told

COLOURS = {"verified": "bold green", "doubtful": "bold yellow", "refuted": "bold red"}
LISTED = 40
"""Units that are printed; the saved network and the report have them all."""


def console_of() -> Console:
    """Standard output."""
    return Console(highlight=False)


@contextmanager
def _bar() -> Iterator[Told]:
    """A live bar on stderr that shows the stage under way; stages without a known end pulse. Nothing if that is no terminal."""
    console = Console(stderr=True)
    stage, detail = TextColumn("{task.description:<11}"), TextColumn("{task.fields[detail]}")
    columns = (SpinnerColumn(), stage, BarColumn(24), detail, TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=None, detail="")

        def show(event: Event) -> None:
            bar.update(task, description=event.stage, completed=event.done, total=event.total or None, detail=event.detail)

        yield show


def print_summary(console: Console, summary: str, verdict: str) -> None:
    """What `print(found)` says, wrapped to the terminal with its indentation kept."""
    for line in summary.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        text = Text(fill(line.strip(), console.width, initial_indent=indent, subsequent_indent=indent))
        text.highlight_words([verdict], COLOURS[verdict])
        text.highlight_words(["FAIL"], "bold red")
        console.print(text)


def print_path(what: str, path: str) -> None:
    """Where something was written."""
    console_of().print(f"{what}: {path}", markup=False, soft_wrap=True)


def _pairs_table(pairs: list[Pair], dim: int, columns: int) -> Table:
    """True above recovered, in the order of the true network, with as many weights as fit."""
    title = "true and recovered units, rows scaled to length 1"
    table, shown = _table(title, dim, columns - 50, "unit", "", "difference", "readout")
    for pair in pairs:
        table.add_row(str(pair.number), "true", "", *_numbers(pair.true, shown), style="dim")
        table.add_row("", "recovered", f"{pair.difference:.1e}", *_numbers(pair.found, shown))
    return table


def _units_table(network: lb.Network, columns: int) -> Table:
    """The recovered units, with as many weights as fit."""
    readout, _, _ = network.columns
    name = "readout" if network.outputs == 1 else "readout 0"
    table, shown = _table("recovered units", network.dim, columns - 28, "unit", name)
    for j, row in enumerate(network.layer.rows[:LISTED]):
        table.add_row(str(j), *_numbers(Unit(row[:-1], float(row[-1]), readout[j]), shown))
    if network.width > LISTED:
        table.caption = f"{network.width - LISTED} more units are not listed"
    return table


def layer_table(layer: lb.Layer, columns: int) -> Table:
    """The recovered units with their thresholds, with as many weights as fit."""
    shown = max(1, min(layer.dim, (columns - 18) // 10))
    note = f" (the first {shown} of {layer.dim} weights)" if shown < layer.dim else ""
    table = Table(title="recovered units" + note, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, title_style="",
                  padding=(0, 1, 0, 0))
    for name in ("unit", "threshold", *(f"w{i}" for i in range(shown))):
        table.add_column(name, justify="right", no_wrap=True)
    for j, row in enumerate(layer.rows[:LISTED]):
        table.add_row(str(j), *(_eight(float(value)) for value in (-row[-1], *row[:shown])))
    if layer.width > LISTED:
        table.caption = f"{layer.width - LISTED} more units are not listed"
    return table


def _table(title: str, dim: int, columns: int, *names: str) -> tuple[Table, int]:
    """A table with the named columns, a bias and as many weights as fit into `columns`, ten for each; and their number."""
    shown = max(1, min(dim, columns // 10))
    note = f" (the first {shown} of {dim} weights)" if shown < dim else ""
    table = Table(title=title + note, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, title_style="", padding=(0, 1, 0, 0))
    for name in (*names, "bias", *(f"w{i}" for i in range(shown))):
        table.add_column(name, justify="left" if name == "" else "right", no_wrap=True)
    return table, shown


def _numbers(unit: Unit, shown: int) -> list[str]:
    """Readout (of the first output), bias and the first weights, eight characters each."""
    return [_eight(float(value)) for value in (unit.readout[0], unit.bias, *unit.weights[:shown])]


def _eight(value: float) -> str:
    if abs(value) < 1000.0:
        return f"{value:+.5f}" if abs(value) < 10.0 else f"{value:+.3f}"
    return f"{value:+.1e}"
