"""The command line: `laybare demo`, `recover DATA`, `recover-layer DATA`, `compare A B`, `reproduce STUDY`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from textwrap import fill
from types import FrameType
from typing import Any, NoReturn

import click
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

import laybare as lb
from laybare import shapes
from laybare.errors import LaybareError
from laybare.methods import GeneralReLU, LandscapeDesign, Method, RandomStart, SymmetricInputs, TensorInit
from laybare.networks import load
from laybare.networks.storage import put
from laybare.report import Pair, Unit, side_by_side, write_report
from laybare.report.tables import text_table

METHODS: dict[str, Callable[..., Method]] = {
    "general-relu": GeneralReLU,
    "landscape-design": LandscapeDesign,
    "random-start": RandomStart,
    "symmetric-inputs": SymmetricInputs,
    "tensor-init": TensorInit,
    "tensor-init-literal": TensorInit.literal,
}
"""Names of methods on the command line; the only place where a name stands for an object."""

COLOURS = {"verified": "bold green", "doubtful": "bold yellow", "refuted": "bold red"}
LISTED = 40
"""Units that `laybare recover` prints; the saved network and the report have them all."""


def _checked_path(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    """Refuse a file in a directory that is not there before the work begins, not after it."""
    if path is not None and not Path(path).absolute().parent.is_dir():
        raise click.BadParameter(f"the directory {Path(path).absolute().parent} does not exist.", context, parameter)
    return path


NEW_FILE: dict[str, Any] = {"type": click.Path(dir_okay=False), "callback": _checked_path, "metavar": "FILE"}


def _seeds(context: click.Context, parameter: click.Parameter, text: str) -> range:
    """'3-7' -> range(3, 8)."""
    first, _, last = text.partition("-")
    if not first.isdigit() or (last and not last.isdigit()) or int(last or first) < int(first):
        raise click.BadParameter("give FIRST-LAST, for example 0-19.", context, parameter)
    return range(int(first), int(last or first) + 1)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(lb.__version__, message="laybare %(version)s")
def commands() -> None:
    """Lay bare the hidden layer: recover neural networks from data or queries."""


@commands.command(short_help="Recover a network trained on real data, as a demonstration.")
@click.option("--report", default="laybare-demo.html", show_default=True, help="Where the HTML page goes.", **NEW_FILE)
@click.option("--width", default=16, show_default=True, type=click.IntRange(1, 64), help="Hidden units of the trained network.")
@click.option("--queries", default=3000, show_default=True, type=click.IntRange(100), help="Queries granted to the recovery.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of training, queries and search.")
def demo(report: str, width: int, queries: int, seed: int) -> None:
    """Train a network on real data, hide it behind a callable, recover its weights from queries."""
    from laybare.studies import trained_mlp

    console = Console(highlight=False)
    console.print(f"Training scikit-learn's MLPRegressor (10-{width}-1, ReLU) on the diabetes data ...")
    truth = trained_mlp.train(width, seed)
    console.print(f"Hidden behind a callable. Recovering it from at most {queries:,} queries; the width is not told.\n")
    with _bar() as progress:
        case = trained_mlp.extract(truth, queries, seed, progress)
    console.print(_pairs_table(side_by_side(case.found.network, truth), truth.dim, console.width))
    console.print(f"hidden units recovered: {width - len(case.match.missing)} of {width}")
    console.print(f"largest difference of any weight, bias or readout: {case.match.max_error:.1e}\n")
    _print_summary(console, str(case.found), case.found.certificate.verdict)
    write_report(case.found, report, truth)
    _print_path(console, "report", report)


@commands.command(short_help="Recover the network behind samples in a file.")
@click.argument("data", type=click.Path())
@click.option("--target", default="y", show_default=True, help="Column or array with the outputs; several separated by commas.")
@click.option("--width", type=click.IntRange(1), help="Hidden units; detected if not given.")
@click.option(
    "--method", type=click.Choice(sorted(METHODS)), default="random-start", show_default=True, metavar="NAME",
    help=f"How to start: {', '.join(sorted(METHODS))}.")
@click.option("--activation", default="relu", show_default=True, help="For example relu, leaky_relu(0.1), tanh.")
@click.option("--out", help="Save the network here (.safetensors).", **NEW_FILE)
@click.option("--report", help="Write an HTML page here.", **NEW_FILE)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Same seed, same result.")
def recover(
    data: str, target: str, width: int | None, method: str, activation: str, out: str | None, report: str | None, seed: int
) -> None:
    """Recover the network behind the samples in DATA (.npz, .csv, .parquet, or a directory of .npy blocks).

    The verdict (verified, doubtful or refuted) is printed with its reasons; the exit status is 0 for each of them.
    """
    console = Console(highlight=False)
    chosen = METHODS[method](activation=lb.activation_named(activation))
    source = lb.open_samples(data, target=target)
    with _bar() as progress:
        found = lb.recover(source, chosen, width, rng=seed, progress=progress)
    console.print(_units_table(found.network, console.width))
    _print_summary(console, str(found), found.certificate.verdict)
    if out is not None:
        found.network.save(out)
        _print_path(console, "network", out)
    if report is not None:
        write_report(found, report)
        _print_path(console, "report", report)


@commands.command("recover-layer", short_help="Recover the lowest layer of a deeper network behind samples in a file.")
@click.argument("data", type=click.Path())
@click.option("--target", default="y", show_default=True, help="Column or array with the outputs; several separated by commas.")
@click.option("--width", type=click.IntRange(1), help="Units of the layer; counted if not given.")
@click.option("--activation", default="relu", show_default=True, help="For example relu, step, sigmoid, exponential(0.5).")
@click.option("--literal", is_flag=True, help="The paper's own algorithm, with nothing after it.")
@click.option("--threshold", type=click.FloatRange(0.0), help="Told to --literal; smooth units need it.")
@click.option("--out", help="Save weights, biases and thresholds here (.npz).", **NEW_FILE)
@click.option("--report", help="Write an HTML page here.", **NEW_FILE)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Same seed, same result.")
def recover_layer(
    data: str, target: str, width: int | None, activation: str, *, literal: bool, threshold: float | None, out: str | None,
    report: str | None, seed: int,
) -> None:
    """Recover the units u(w·x - t) of the lowest layer behind the samples in DATA, whatever lies above them.

    For thresholds that are rarely crossed. The verdict is printed with its reasons; the exit status is 0 for each verdict.
    """
    console = Console(highlight=False)
    units = lb.activation_named(activation)
    if threshold is not None and not literal:
        raise lb.InvalidInput(
            f"--threshold {threshold:g} was given without --literal.", "Only the literal form is told it.", "Leave it out.")
    method = lb.HighThreshold.literal(units, threshold) if literal else lb.HighThreshold(activation=units)
    with _bar() as progress:
        found = lb.recover_layer(lb.open_samples(data, target=target), method, width, rng=seed, progress=progress)
    console.print(_layer_table(found.layer, console.width))
    _print_summary(console, str(found), found.certificate.verdict)
    if out is not None:
        contents = BytesIO()
        np.savez(contents, weights=found.layer.weights, biases=-found.thresholds, thresholds=found.thresholds)
        put(Path(out), contents.getvalue())
        _print_path(console, "layer", out)
    if report is not None:
        found.report(report)
        _print_path(console, "report", report)


@commands.command(short_help="Compare two saved networks.")
@click.argument("found", type=click.Path())
@click.argument("truth", type=click.Path())
@click.option("--tol", type=click.FloatRange(0.0), help="Exit with status 1 if the largest error exceeds this.")
def compare(found: str, truth: str, tol: float | None) -> None:
    """Compare two saved networks modulo every symmetry of their activation."""
    match = lb.compare(load(found), load(truth))
    Console(highlight=False).print(str(match), markup=False)
    if tol is not None and not match.max_error <= tol:
        sys.exit(1)


@commands.command(short_help="Run a study and write its table.")
@click.argument("study", required=False)
@click.option("--list", "listing", is_flag=True, help="List the studies and what each measures.")
@click.option("--seeds", default="0-19", show_default=True, callback=_seeds, help="Seeds to run, as FIRST-LAST.")
@click.option("--full", is_flag=True, help="The whole grid, which may take hours, instead of minutes.")
@click.option("--out", default="studies", show_default=True, type=click.Path(file_okay=False), help="Folder for the table.")
def reproduce(study: str | None, listing: bool, seeds: range, full: bool, out: str) -> None:
    """Run STUDY: print its table, say what it shows, write table and figure (SVG, and its points as CSV)."""
    from laybare.studies import STUDIES

    console = Console(highlight=False)
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
        _print_path(console, path.suffix[1:], str(path))


def main() -> None:
    """Run the command line; a finding becomes a message and exit status 2, an interrupt 130."""
    signal.signal(signal.SIGINT, _stop)
    try:
        commands(prog_name="laybare", standalone_mode=False)
    except LaybareError as error:
        Console(stderr=True).print(f"laybare: {error}", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
    except click.Abort:
        Console(stderr=True).print("laybare: interrupted")
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    """Leave at once: a KeyboardInterrupt would make the solver hand over what it has, and the work would go on from there."""
    raise click.Abort


@contextmanager
def _bar() -> Iterator[shapes.Progress]:
    """A live bar on stderr that shows the stage under way; stages without a known end pulse. Nothing if that is no terminal."""
    console = Console(stderr=True)
    stage, detail = TextColumn("{task.description:<11}"), TextColumn("{task.fields[detail]}")
    columns = (SpinnerColumn(), stage, BarColumn(24), detail, TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=None, detail="")

        def show(event: shapes.Event) -> None:
            bar.update(task, description=event.stage, completed=event.done, total=event.total or None, detail=event.detail)

        yield show


def _print_summary(console: Console, summary: str, verdict: str) -> None:
    """What `print(found)` says, wrapped to the terminal with its indentation kept."""
    for line in summary.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        text = Text(fill(line.strip(), console.width, initial_indent=indent, subsequent_indent=indent))
        text.highlight_words([verdict], COLOURS[verdict])
        text.highlight_words(["FAIL"], "bold red")
        console.print(text)


def _print_path(console: Console, what: str, path: str) -> None:
    console.print(f"{what}: {path}", markup=False, soft_wrap=True)


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


def _layer_table(layer: lb.Layer, columns: int) -> Table:
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


if __name__ == "__main__":
    main()
