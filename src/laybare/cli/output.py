"""What a command prints: tables and sentences, one JSON object (--json) or nothing (--quiet), for every command."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from shutil import get_terminal_size
from typing import Any, NamedTuple

import click
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

import laybare as lb
from laybare.certificate import StandardErrors
from laybare.certificate.certificate import break_lines
from laybare.cli.wording import for_standard_error, wrapped
from laybare.numerics.progress import progress_bar
from laybare.numerics.redaction import redact
from laybare.numerics.shapes import Array, Progress
from laybare.report import Pair, Unit
from laybare.source.samples import ColumnNames


@dataclass(frozen=True)
class Output:
    """How a command prints, and the command as it was typed. At most one of the three flags is set."""

    command: str
    as_json: bool = False
    quiet: bool = False
    verbose: bool = False

    @property
    def in_text(self) -> bool:
        """Whether tables and sentences are wanted."""
        return not self.as_json and not self.quiet

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        return make_console().width

    def say(self, *parts: RenderableType, indent: int = 0) -> None:
        """Print in text mode, without rich markup; sentences are wrapped to the terminal, further lines by this indentation."""
        if self.in_text:
            for part in parts:
                text = wrapped(part, self.width, indent) if isinstance(part, str) else part
                make_console().print(text, markup=False, soft_wrap=isinstance(part, str))

    def summary(self, found: lb.Recovery) -> str:
        """What `print(found)` says; with --verbose every claim."""
        if self.verbose:
            return found.explain()
        return found.explain(failed_only=True).replace("certificate.explain() lists", "--verbose lists")

    def remark(self, sentence: str) -> None:
        """A line on standard error, unless --quiet: what was done to the data, or is odd about them."""
        if not self.quiet:
            click.echo(for_standard_error(f"laybare: {sentence}"), err=True)

    def emit_json(self, **facts: Any) -> None:
        """With --json: print one object with the command, the version and these keys."""
        if self.as_json:
            import laybare

            click.echo(json.dumps({"command": self.command.split()[0], "version": laybare.__version__, **facts}))

    @contextmanager
    def bar(self) -> Iterator[Progress]:
        """A progress bar on stderr. Without a terminal: nothing, or one line per stage with --verbose."""
        if self.quiet:
            yield lambda event: None
        else:
            with progress_bar(lines=self.verbose) as show:
                yield show


class ClosingConsole(Console):
    """Standard output. A closed pipe raises BrokenPipeError, which `main` turns into a silent exit."""

    def on_broken_pipe(self) -> None:
        """Rich would exit with status 1 here."""
        raise BrokenPipeError


def make_console() -> Console:
    """Standard output; a name between colons, such as "a:100:", is no picture."""
    console = ClosingConsole(highlight=False, emoji=False)
    if console.width < 1:  # COLUMNS=0 says nothing
        console.width = get_terminal_size().columns
    return console


class NumberRange(click.FloatRange):
    """Numbers in a range; NaN, which no comparison finds outside of one, is none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        number = super().convert(value, param, ctx)
        return self.fail("nan is not a number.", param, ctx) if math.isnan(number) else number


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the three options; the command gets them as `output`."""

    @click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
    @click.option("--quiet", "-q", is_flag=True, help="Nothing but errors: the exit status is the answer.")
    @click.option("--verbose", "-v", is_flag=True, help="Every unit, every stage, and what it takes to run it again.")
    @wraps(command)
    def with_options(*, as_json: bool, quiet: bool, verbose: bool, **options: Any) -> Any:
        if as_json + quiet + verbose > 1:
            raise click.UsageError("--json, --quiet and --verbose exclude each other.")
        check_files_written(options)
        return command(**options, output=Output(_typed_command(), as_json=as_json, quiet=quiet, verbose=verbose))

    return with_options


WRITTEN = ("out", "report")
"""Options that name what a command writes; all others that name a file or a folder are read, or go on from it."""


def check_files_written(options: Mapping[str, Any]) -> None:
    """Refuse to write over what the same command reads, or two things into one file."""
    written = {name: options[name] for name in WRITTEN if options.get(name)}
    if len({os.path.realpath(path) for path in written.values()}) < len(written):
        raise click.UsageError(f"--out and --report are both {written['out']}. Give each a file of its own.")
    given = [value for name, value in options.items() if name not in WRITTEN]
    texts = [text for value in given for text in (value if isinstance(value, tuple) else (value,)) if isinstance(text, str)]
    read = {part for text in texts for part in (text, *re.split("[,=@]", text))} - {""}
    for name, path in written.items():
        lost = next((part for part in sorted(read) if os.path.isfile(path) and _holds(part, path)), None)
        if lost is not None:
            raise click.BadParameter(
                f"{lost} is read by this command, and would be lost. Give another file.", param_hint=f"--{name}")


def _holds(read: str, path: str) -> bool:
    """Whether that is this file, or a folder with it."""
    try:
        return os.path.samefile(read, path) or (os.path.isdir(read) and os.path.samefile(read, os.path.dirname(path) or "."))
    except (OSError, ValueError):
        return False


def _typed_command() -> str:
    """The command with its arguments, without the program's name and without secrets."""
    import shlex

    words = click.get_current_context().find_root().obj or [click.get_current_context().info_name or ""]
    return shlex.join(_without_secret(word, before) for word, before in zip(words, ["", *words], strict=False))


def _without_secret(word: str, before: str) -> str:
    """A word of the command line; of a header only its name, unless its value stands elsewhere (@file, $VARIABLE)."""
    option, _, held = word.partition("=") if word.startswith("--header=") else ("", "", word)
    name, equals, value = held.partition("=")
    if (option or before == "--header") and equals and not value.startswith(("@", "$")):
        return f"{option}{'=' * bool(option)}{name}=***"
    return redact(word)


def examples(*commands: str) -> str:
    """The last lines of a help text; tests execute them."""
    return "\b\nExamples:\n" + "\n".join(f"  {command}" for command in commands)


COLOURS = {"verified": "bold green", "doubtful": "bold yellow", "refuted": "bold red"}
LISTED_UNITS = 40
"""Units that a table lists; --verbose lists all. Convention: two screens."""

NAME_LENGTH = 9
"""Characters of a column name in a table. Convention: the width of a number beside it."""


def print_summary(summary: str, verdict: str) -> None:
    """What `print(found)` says, wrapped to the terminal with its indentation kept."""
    console = make_console()
    for line in break_lines(summary, console.width).splitlines():
        text = Text(line)
        text.highlight_words([verdict], COLOURS[verdict])
        text.highlight_words(["FAIL"], "bold red")
        console.print(text)


def print_path(what: str, path: str) -> None:
    """Where something was written."""
    make_console().print(f"{what}: {path}", markup=False, soft_wrap=True)


def _pairs_table(pairs: list[Pair], dim: int, columns: int) -> Table:
    """True above recovered, in the order of the true network, with as many weights as fit."""
    title = "true and recovered units, rows scaled to length 1"
    table, shown = _table(title, dim, columns - 50, "unit", "", "difference", "readout", "bias")
    for pair in pairs:
        table.add_row(str(pair.number + 1), "true", "", *_numbers(pair.true, shown), style="dim")
        table.add_row("", "recovered", f"{pair.difference:.1e}", *_numbers(pair.found, shown))
    return table


def network_tables(
    network: lb.Network, columns: int, errors: StandardErrors, named: ColumnNames = ColumnNames(), listed: int = LISTED_UNITS
) -> Iterator[Table]:
    """The recovered units, rounded by their errors, with as many weights as fit; of a deep network a table for every layer."""
    if network.depth == 1 and network.top is None:
        yield _units_table(network, columns, errors, named, listed)
        return
    error, space = _relative_error(network, errors), _TableSpace(columns, listed)
    for level, layer in enumerate(network.layers):
        title, inputs = f"layer {level + 1} of {network.depth}: {layer.width} units", named.inputs if level == 0 else ()
        yield _rows_table(title, layer.rows, error, space, inputs)
    if network.top is None and np.any(network.readout):  # zero where only the lower layers were read
        rows = np.column_stack([network.readout.reshape(network.widths[-1], -1).T, np.ravel(network.offset)])
        yield _rows_table("readout", rows, error, space, names=("output", "offset"))


def _relative_error(network: lb.Network, errors: StandardErrors) -> float:
    """The largest error of a weight of the lowest layer in units of its row; NaN where none was measured."""
    rows = np.linalg.norm(network.layer.weights, axis=1, keepdims=True)
    return float(np.max(np.asarray(errors.weights) / np.where(rows > 0.0, rows, np.nan), initial=0.0))


class _TableSpace(NamedTuple):
    """How many characters wide a table may be, and how many rows are listed."""

    columns: int
    listed: int


def _rows_table(
    title: str, rows: Array, error: float, space: _TableSpace, inputs: Sequence[str] = (),
    names: tuple[str, str] = ("unit", "bias"),
) -> Table:
    """Rows of weights with a constant at their end, rounded by an error relative to the row; `names` of row and constant."""
    table, shown = _table(title, rows.shape[1] - 1, space.columns - 18, *names, inputs=inputs)
    for j, row in enumerate(rows[: space.listed]):
        size = error * float(np.linalg.norm(row[:-1]))
        table.add_row(str(j + 1), *(_rounded(float(value), size) for value in (row[-1], *row[:shown])))
    return _with_rest(table, len(rows) - space.listed)


def _units_table(network: lb.Network, columns: int, errors: StandardErrors, named: ColumnNames, listed: int) -> Table:
    """The units of a single layer, with their readouts."""
    readout, _, _ = network.columns
    name = "readout" if network.outputs == 1 else "readout 0"
    table, shown = _table("recovered units", network.dim, columns - 28, "unit", name, "bias", inputs=named.inputs)
    sizes = np.column_stack([np.reshape(errors.readout, readout.shape)[:, 0], errors.biases, errors.weights])
    values = np.column_stack([readout[:, 0], network.layer.rows[:, -1], network.layer.weights])
    for j, (row, size) in enumerate(zip(values[:listed], sizes, strict=False)):
        table.add_row(str(j + 1), *(_rounded(float(v), float(e)) for v, e in zip(row[: shown + 2], size, strict=False)))
    return _with_rest(table, network.width - listed)


def layer_table(layer: lb.Layer, columns: int, named: ColumnNames = ColumnNames(), listed: int = LISTED_UNITS) -> Table:
    """The recovered units with their thresholds, with as many weights as fit."""
    table, shown = _table("recovered units", layer.dim, columns - 18, "unit", "threshold", inputs=named.inputs)
    for j, row in enumerate(layer.rows[:listed]):
        table.add_row(str(j + 1), *(_in_eight_characters(float(value)) for value in (-row[-1], *row[:shown])))
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
    weights = [short_name(name) for name in inputs[:shown]] or [f"x{i}" for i in range(shown)]
    for name in (*names, *weights):
        table.add_column(Text(name), justify="left" if name == "" else "right", no_wrap=True)
    return table, shown


def short_name(name: str) -> str:
    """A column's name in nine characters: long ones keep both ends, what does not print becomes a question mark."""
    seen = "".join(letter if letter.isprintable() else "?" for letter in name)
    return seen if len(seen) <= NAME_LENGTH else f"{seen[:4]}…{seen[-4:]}"


def _numbers(unit: Unit, shown: int) -> list[str]:
    """Readout (of the first output), bias and the first weights, eight characters each."""
    return [_in_eight_characters(float(value)) for value in (unit.readout[0], unit.bias, *unit.weights[:shown])]


def _rounded(value: float, error: float) -> str:
    """A number without digits that its error does not support, and with five decimals at most."""
    if not (1e-5 < error < 1.0 and abs(value) < 1000.0):
        return _in_eight_characters(value)
    return f"{value:+.{min(int(np.ceil(-np.log10(error))), 5 if abs(value) < 10.0 else 3)}f}"


def _in_eight_characters(value: float) -> str:
    if abs(value) < 1000.0:
        return f"{value:+.5f}" if abs(value) < 10.0 else f"{value:+.3f}"
    return f"{value:+.1e}"
