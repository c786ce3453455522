"""`laybare extract TARGET` and `laybare audit TARGET`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

import laybare as lb
from laybare.cli.interrupts import STATE, InterruptState, keep_on_interrupt, results_saved
from laybare.cli.output import Output, examples, output_options, print_path
from laybare.cli.results import NEW_FILE, WRITERS, ResultOptions, finish, result_options
from laybare.source import Target, as_target

BUDGET = 100_000
"""Queries granted by default. Convention: the same as `lb.Oracle`."""


def _box(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[float, float] | None:
    """'-1,1' -> (-1.0, 1.0)."""
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter("give LOW,HIGH, for example --box=-1,1.", context, parameter) from None
    return low, high


def _budgets(context: click.Context, parameter: click.Parameter, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter("give numbers of queries, for example 100,300,1000.", context, parameter) from None


def _oracle_options(command: Any) -> Any:
    """Add TARGET and the options about how it is asked; the command gets dim, log, link and box as `**asking`."""
    for option in reversed((
        click.argument("target"),
        click.option("--dim", type=click.IntRange(1), help="Number of inputs, where the target does not know it."),
        click.option("--log", type=click.Path(file_okay=False), help="Folder of answers: a later call repeats none of them."),
        click.option("--link", type=click.Choice(["identity", "logit", "softmax"]), help="What answers are; seen if left out."),
        click.option("--box", callback=_box, metavar="LOW,HIGH", help="No query leaves it, for example --box=-1,1."),
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
    target: str, *, activation: str | None, budget: int, depth: str, result: ResultOptions, **asking: Any,
) -> int:
    """Recover the network behind a black box, with no more queries than it takes.

    TARGET is a file .onnx or .safetensors, 'module:function', or an http(s) address. Ctrl-C keeps what was found.
    Exit status: 0 verified, 3 doubtful, 4 refuted, 2 misuse, 130 interrupted.
    """
    units = None if activation is None else lb.activations.activation_named(activation)
    with result.output.bar() as progress, keep_on_interrupt(progress) as interrupts:
        oracle = lb.Oracle(_guarded(target, interrupts), budget=budget, rng=result.seed, **asking)
        found = lb.recover(
            oracle, method=_lines_method(depth, units), activation=units, rng=result.seed, progress=interrupts.progress)
    return finish(found, result, remarks=oracle.remarks)


def _guarded(target: str, interrupts: InterruptState) -> Target:
    """The black box, which answers until somebody wants to stop."""
    named = as_target(target)
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
    **asking: Any,
) -> None:
    """How much of a black box can be read from how many queries: units, error bars, functional error, verdicts.

    TARGET is a file .onnx or .safetensors, 'module:function', or an http(s) address. Ctrl-C keeps the budgets that are done.
    """
    with output.bar() as progress, keep_on_interrupt(progress) as interrupts:
        found = lb.audit(
            _guarded(target, interrupts), budgets, activation=activation, rng=seed, progress=interrupts.progress, **asking)
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
