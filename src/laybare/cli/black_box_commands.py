"""`laybare extract TARGET` and `laybare audit TARGET`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import click

import laybare as lb
from laybare.cli.interrupts import STATE, InterruptState, keep_on_interrupt, results_saved
from laybare.cli.output import Output, examples, output_options, print_path
from laybare.cli.results import NEW_FILE, WRITERS, ResultOptions, finish, open_network, result_options
from laybare.source import Target, as_target
from laybare.source.oracle.regions import read_rows

BUDGET = 100_000
"""Queries granted by default. Convention: the same as `lb.Oracle`."""


class RegionOptions(NamedTuple):
    """Where to ask, as it was typed; `keywords` has the arguments of an Oracle."""

    inputs: str | None
    box: tuple[str, ...]
    law: str | None

    def keywords(self) -> dict[str, Any]:
        """inputs, box and law, where they were given."""
        given = {"inputs": self.inputs, "box": self._box(), "law": None if self.law is None else _law(self.law)}
        return {name: value for name, value in given.items() if value is not None}

    def _box(self) -> tuple[Any, Any] | None:
        if not self.box:
            return None
        if any("=" in part for part in self.box):
            return self._named_box()
        parts = self.box[0].split(",")
        try:
            if len(self.box) != 1 or len(parts) != 2:
                raise ValueError
            low, high = ((_row_of(part) if part.endswith(TABLES) else float(part)) for part in parts)
        except ValueError:
            raise click.BadParameter(BOX_FORMS, param_hint="--box") from None
        return low, high

    def _named_box(self) -> tuple[Any, Any]:
        """Ranges of single inputs, by name or number; all others have the range of the rows of --inputs."""
        if self.inputs is None:
            raise click.BadParameter("the other inputs need a range: give --inputs as well.", param_hint="--box")
        rows = read_rows(self.inputs, None)
        low, high = rows.x.min(axis=0), rows.x.max(axis=0)
        for part in self.box:
            name, _, ends = part.partition("=")
            at = rows.names.index(name) if name in rows.names else int(name) if name.isdigit() and int(name) < len(low) else None
            try:
                if at is None:
                    raise ValueError
                low[at], high[at] = (float(end) for end in ends.split(":"))
            except ValueError:
                raise click.BadParameter(f"{part!r} names no input of {self.inputs}. {BOX_FORMS}", param_hint="--box") from None
        return low, high


TABLES = (".csv", ".tsv", ".npy", ".npz", ".parquet")
BOX_FORMS = "Give LOW,HIGH as two numbers or two files of one row each, or NAME=LOW:HIGH, as often as needed."


def _row_of(path: str) -> Any:
    """The only row of a file. read_rows asks for two, so that a scale can be seen; a limit needs none."""
    return read_rows(path, None, least=1).x[0]


def _law(text: str) -> lb.Gaussian:
    """'normal:5,2' -> Gaussian(mean 5, standard deviation 2); 'normal' -> the standard one."""
    name, _, ends = text.partition(":")
    try:
        mean, deviation = (float(part) for part in ends.split(",")) if ends else (0.0, 1.0)
        if name not in ("normal", "gaussian") or not deviation > 0.0:
            raise ValueError
    except ValueError:
        raise click.BadParameter("give normal:MEAN,SD, for example normal:5,2.", param_hint="--law") from None
    return lb.Gaussian(mean, deviation**2)


def _budgets(context: click.Context, parameter: click.Parameter, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter("give numbers of queries, for example 100,300,1000.", context, parameter) from None


def _oracle_options(command: Any) -> Any:
    """Add TARGET and the options about how it is asked; the command gets dim, log and link as `**asking`, and where to ask."""
    for option in reversed((
        click.argument("target"),
        click.option("--dim", type=click.IntRange(1), help="Number of inputs, where the target does not know it."),
        click.option("--log", type=click.Path(file_okay=False), help="Folder of answers: a later call repeats none of them."),
        click.option("--link", type=click.Choice(["identity", "logit", "softmax"]), help="What answers are; seen if left out."),
        click.option("--inputs", type=click.Path(dir_okay=False), metavar="FILE",
                     help="Rows of inputs (.csv, .parquet, .npy): their location, scale and range say where to ask."),
        click.option("--box", multiple=True, metavar="LOW,HIGH",
                     help="No query leaves it: two numbers (--box=-1,1), two files, or NAME=LOW:HIGH, as often as needed."),
        click.option("--law", metavar="normal:MEAN,SD", help="Law of the inputs, where no rows of them are given."),
        click.option("--activation", help="Units, for example tanh; found out if not given."),
    )):
        command = option(command)
    return command


@click.command("extract", epilog=examples(
    "laybare extract network.safetensors --budget 2000 --out copy.json --report page.html",
    "laybare extract sklearn_model:predict --dim 4 --log answers"))
@_oracle_options
@click.option("--budget", default=BUDGET, show_default=True, type=click.IntRange(2), help="Queries granted; rarely all spent.")
@click.option("--depth", default="all", show_default=True, help="Hidden layers; 'all': as many as there are.")
@result_options(*WRITERS)
def extract(
    target: str, *, activation: str | None, budget: int, depth: str, result: ResultOptions, inputs: str | None,
    box: tuple[str, ...], law: str | None, **asking: Any,
) -> int:
    """Recover the network behind a black box, with no more queries than it takes.

    TARGET is a file .onnx, .safetensors, .json or .npz, 'module:function', or an http(s) address. Ctrl-C keeps what was found.
    Exit status: 0 verified, 3 doubtful, 4 refuted, 2 misuse, 130 interrupted.
    """
    units = None if activation is None else lb.activations.activation_named(activation)
    with result.output.bar() as progress, keep_on_interrupt(progress) as interrupts:
        where = RegionOptions(inputs, box, law).keywords()
        oracle = lb.Oracle(_guarded(target, interrupts), budget=budget, rng=result.seed, **where, **asking)
        found = lb.recover(
            oracle, method=_lines_method(depth, units), activation=units, rng=result.seed, progress=interrupts.progress)
    return finish(found, result, remarks=oracle.remarks)


def _guarded(target: str, interrupts: InterruptState) -> Target:
    """The black box, which answers until somebody wants to stop."""
    named = as_target(open_network(target) if target.endswith((".json", ".npz")) and "://" not in target else target)
    return replace(named, ask=interrupts.guarded(named.ask))


@click.command("audit", epilog=examples("laybare audit network.safetensors --budgets 50,200 --report audit.html"))
@_oracle_options
@click.option(
    "--budgets", default="100,300,1000,3000", show_default=True, callback=_budgets, help="Numbers of queries, by commas.")
@click.option("--report", help="Write an HTML page here.", **NEW_FILE)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Same seed, same result.")
@output_options
def audit(
    target: str, *, activation: str | None, budgets: tuple[int, ...], report: str | None, seed: int, output: Output,
    inputs: str | None, box: tuple[str, ...], law: str | None, **asking: Any,
) -> None:
    """How much of a black box can be read from how many queries: units, error bars, functional error, verdicts.

    TARGET is a file .onnx, .safetensors, .json or .npz, 'module:function', or an http(s) address.
    Ctrl-C keeps the budgets that are done.
    """
    with output.bar() as progress, keep_on_interrupt(progress) as interrupts:
        where = RegionOptions(inputs, box, law).keywords()
        found = lb.audit(
            _guarded(target, interrupts), budgets, activation=activation, rng=seed, progress=interrupts.progress, **where,
            **asking)
    if report is not None:
        found.report(report)
    results_saved()
    output.say(str(found))
    output.emit_json(**found.to_dict(), seed=seed, report=report, interrupted=interrupts.wanted)
    if report is not None and output.in_text:
        print_path("report", report)
    if interrupts.wanted:
        click.echo("laybare: interrupted; the budgets before that are above", err=True)
        click.get_current_context().exit(STATE.status)


def _lines_method(depth: str, units: lb.Activation | None) -> lb.Lines | None:
    """Lines of that depth; None for all layers, of which `recover` finds out whether lines apply and how many there are."""
    if depth == "all":
        return None
    if not (depth.isdigit() and int(depth) > 0):
        raise click.BadParameter("give a number of hidden layers, or 'all'.", param_hint="--depth")
    return lb.Lines(activation=units, depth=int(depth))
