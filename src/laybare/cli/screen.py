"""What the terminal shows: tables of units with the names of their inputs, the summary with its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

import laybare as lb
from laybare.cli.speech import console_of
from laybare.report import Pair, Unit
from laybare.source.columns import Columns

COLOURS = {"verified": "bold green", "doubtful": "bold yellow", "refuted": "bold red"}
LISTED = 40
"""Units that are printed; --verbose, the saved network and the report have them all."""

NAME = 9
"""Letters of a column's name that a table has room for."""


def print_summary(summary: str, verdict: str) -> None:
    """What `print(found)` says, wrapped to the terminal with its indentation kept."""
    console = console_of()
    for line in summary.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        further = indent + " " * 5 * line.strip().startswith(("ok ", "FAIL "))  # below the name of the claim
        text = Text(fill(line.strip(), console.width, initial_indent=indent, subsequent_indent=further))
        text.highlight_words([verdict], COLOURS[verdict])
        text.highlight_words(["FAIL"], "bold red")
        console.print(text)


def print_path(what: str, path: str) -> None:
    """Where something was written."""
    console_of().print(f"{what}: {path}", markup=False, soft_wrap=True)


def _pairs_table(pairs: list[Pair], dim: int, columns: int) -> Table:
    """True above recovered, in the order of the true network, with as many weights as fit."""
    title = "true and recovered units, rows scaled to length 1"
    table, shown = _table(title, dim, columns - 50, "unit", "", "difference", "readout", "bias")
    for pair in pairs:
        table.add_row(str(pair.number), "true", "", *_numbers(pair.true, shown), style="dim")
        table.add_row("", "recovered", f"{pair.difference:.1e}", *_numbers(pair.found, shown))
    return table


def _units_table(network: lb.Network, columns: int, named: Columns = Columns(), listed: int = LISTED) -> Table:
    """The recovered units, with as many weights as fit."""
    readout, _, _ = network.columns
    name = "readout" if network.outputs == 1 else "readout 0"
    table, shown = _table("recovered units", network.dim, columns - 28, "unit", name, "bias", inputs=named.inputs)
    for j, row in enumerate(network.layer.rows[:listed]):
        table.add_row(str(j), *_numbers(Unit(row[:-1], float(row[-1]), readout[j]), shown))
    return _with_rest(table, network.width - listed)


def layer_table(layer: lb.Layer, columns: int, named: Columns = Columns(), listed: int = LISTED) -> Table:
    """The recovered units with their thresholds, with as many weights as fit."""
    table, shown = _table("recovered units", layer.dim, columns - 18, "unit", "threshold", inputs=named.inputs)
    for j, row in enumerate(layer.rows[:listed]):
        table.add_row(str(j), *(_eight(float(value)) for value in (-row[-1], *row[:shown])))
    return _with_rest(table, layer.width - listed)


def _with_rest(table: Table, more: int) -> Table:
    if more > 0:
        table.caption = f"{more} more units are not listed"
    return table


def _table(title: str, dim: int, columns: int, *names: str, inputs: Sequence[str] = ()) -> tuple[Table, int]:
    """A table with the named columns and as many weights as fit into `columns`, ten for each; and the number of these."""
    shown = max(1, min(dim, columns // 10))
    note = f" (the first {shown} of {dim} weights)" if shown < dim else ""
    table = Table(title=title + note, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, title_style="", padding=(0, 1, 0, 0))
    weights = [short_name(name) for name in inputs[:shown]] or [f"w{i}" for i in range(shown)]
    for name in (*names, *weights):
        table.add_column(Text(name), justify="left" if name == "" else "right", no_wrap=True)
    return table, shown


def short_name(name: str) -> str:
    """A column's name in nine characters: long ones keep both ends, what does not print becomes a question mark."""
    seen = "".join(letter if letter.isprintable() else "?" for letter in name)
    return seen if len(seen) <= NAME else f"{seen[:4]}…{seen[-4:]}"


def _numbers(unit: Unit, shown: int) -> list[str]:
    """Readout (of the first output), bias and the first weights, eight characters each."""
    return [_eight(float(value)) for value in (unit.readout[0], unit.bias, *unit.weights[:shown])]


def _eight(value: float) -> str:
    if abs(value) < 1000.0:
        return f"{value:+.5f}" if abs(value) < 10.0 else f"{value:+.3f}"
    return f"{value:+.1e}"
