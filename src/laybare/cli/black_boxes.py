"""`laybare extract TARGET` and `laybare audit TARGET`."""

from __future__ import annotations

from typing import Any

import click

import laybare as lb
from laybare.cli.endings import NEW_FILE, WRITERS, Wishes, finish, with_wishes
from laybare.cli.interrupts import keeping
from laybare.cli.screen import print_path
from laybare.cli.speech import Speech, examples, speaking
from laybare.source import Target, as_target

BUDGET = 100_000


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


def _asking(command: Any) -> Any:
    """Options about how a black box is asked."""
    for option in reversed((
        click.argument("target"),
        click.option("--dim", type=click.IntRange(1), help="Number of inputs, where the target does not know it."),
        click.option("--log", type=click.Path(file_okay=False), help="Folder of answers: nothing is asked twice."),
        click.option("--link", type=click.Choice(["identity", "logit", "softmax"]), help="What answers are; seen if left out."),
        click.option("--box", callback=_box, metavar="LOW,HIGH", help="No query leaves it, for example --box=-1,1."),
        click.option("--activation", help="Units, for example tanh; found out if not given."),
    )):
        command = option(command)
    return command


@click.command("extract", epilog=examples(
    "laybare extract network.safetensors --budget 2000 --out copy.json --report page.html",
    "laybare extract sklearn_model:predict --dim 4 --log answers"))
@_asking
@click.option("--budget", default=BUDGET, show_default=True, type=click.IntRange(2), help="Queries granted; rarely all spent.")
@click.option("--depth", default="1", show_default=True, help="Hidden layers; 'all': as many as there are.")
@with_wishes(*WRITERS)
def extract(
    target: str, *, dim: int | None, log: str | None, link: str | None, box: tuple[float, float] | None, activation: str | None,
    budget: int, depth: str, wishes: Wishes,
) -> int:
    """Recover the network behind a black box, with no more queries than it takes.

    TARGET is a file .onnx or .safetensors, 'module:function', or an http(s) address. Ctrl-C keeps what was found.
    Exit status: 0 verified, 3 doubtful, 4 refuted, 2 misuse, 130 interrupted.
    """
    units = None if activation is None else lb.activation_named(activation)
    with wishes.speech.bar() as progress, keeping(progress) as interrupts:
        named = as_target(target)
        guarded = Target(interrupts.guarded(named.ask), named.name, named.dim, named.batch)
        oracle = lb.Oracle(guarded, dim, budget=budget, log=log, link=link, box=box, rng=wishes.seed)
        found = lb.recover(
            oracle, method=_deep(depth, units), activation=units, rng=wishes.seed, progress=interrupts.progress)
    return finish(found, wishes, interrupted=interrupts.wanted, remarks=oracle.remarks)


@click.command("audit", epilog=examples("laybare audit network.safetensors --budgets 50,200 --report audit.html"))
@_asking
@click.option(
    "--budgets", default="100,300,1000,3000", show_default=True, callback=_budgets, help="Numbers of queries, by commas.")
@click.option("--report", help="Write an HTML page here.", **NEW_FILE)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Same seed, same result.")
@speaking
def audit(
    target: str, *, dim: int | None, log: str | None, link: str | None, box: tuple[float, float] | None, activation: str | None,
    budgets: tuple[int, ...], report: str | None, seed: int, speech: Speech,
) -> None:
    """How much of a black box can be read from how many queries: units, error bars, functional error, verdicts.

    TARGET is a file .onnx or .safetensors, 'module:function', or an http(s) address.
    """
    with speech.bar() as progress:
        found = lb.audit(
            target, budgets, dim=dim, log=log, link=link, box=box, activation=activation, rng=seed, progress=progress)
    if report is not None:
        found.report(report)
    speech.say(str(found))
    speech.tell(**found.to_dict(), seed=seed, report=report)
    if report is not None and speech.in_text:
        print_path("report", report)


def _deep(depth: str, units: lb.Activation | None) -> lb.Lines | None:
    """Nothing for one layer: the method is chosen, and goes deeper where it must; else Lines for so many."""
    if depth == "1":
        return None
    if depth != "all" and not (depth.isdigit() and int(depth) > 0):
        raise click.BadParameter("give a number of hidden layers, or 'all'.", param_hint="--depth")
    return lb.Lines(activation=units, depth=None if depth == "all" else int(depth))
