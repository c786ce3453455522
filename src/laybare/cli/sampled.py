"""`laybare recover DATA` and `laybare recover-layer DATA`."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import click
import numpy as np

import laybare as lb
from laybare.cli.endings import INTERRUPTED, NEW_FILE, STATUS, Wishes, claims_of, finish, with_wishes
from laybare.cli.interrupts import keeping
from laybare.cli.literal_forms import check_literal, literal_layer, literal_method
from laybare.cli.screen import _bar, console_of, layer_table, print_path, print_summary
from laybare.methods import GeneralReLU, LandscapeDesign, Method, RandomStart, SymmetricInputs, TensorInit
from laybare.networks.storage import put

METHODS: dict[str, Callable[..., Method]] = {
    "general-relu": GeneralReLU,
    "landscape-design": LandscapeDesign,
    "random-start": RandomStart,
    "symmetric-inputs": SymmetricInputs,
    "tensor-init": TensorInit,
    "tensor-init-literal": TensorInit.literal,
}
"""Names of methods on the command line; the only place where a name stands for an object."""

FORM = click.option("--form", metavar="NAME", help="Which of the paper's algorithms --literal runs; a wrong name lists them.")


@click.command("recover")
@click.argument("data", type=click.Path())
@click.option("--target", default="y", show_default=True, help="Column or array with the outputs; several separated by commas.")
@click.option("--width", type=click.IntRange(1), help="Hidden units; detected if not given.")
@click.option(
    "--method", type=click.Choice(sorted(METHODS)), metavar="NAME",
    help=f"How to start: {', '.join(sorted(METHODS))}; chosen from the data if not given (see `laybare check`).")
@click.option("--literal", is_flag=True, help="The method as its paper prints it, with nothing after it.")
@FORM
@click.option("--activation", help="For example relu, leaky_relu(0.1), tanh; found out if neither this nor --method is given.")
@click.option("--seconds", type=click.FloatRange(0.0, min_open=True),
              help="A search ends then with the best that it has; 3600, or 600 if no method is given.")
@with_wishes
def recover(
    data: str, target: str, width: int | None, method: str | None, *, literal: bool, form: str | None, activation: str | None,
    seconds: float | None, wishes: Wishes,
) -> int:
    """Recover the network behind the samples in DATA (.npz, .csv, .parquet, or a directory of .npy blocks).

    The verdict is printed with its reasons. Ctrl-C keeps what was found.
    Exit status: 0 verified, 3 doubtful, 4 refuted, 2 misuse, 130 interrupted.
    """
    check_literal(literal, form=form)
    units = None if activation is None else lb.activation_named(activation)
    chosen = _method(method, form, units, literal=literal)
    source = lb.open_samples(data, target=target)
    with _bar() as progress, keeping(progress) as interrupts:
        found = lb.recover(
            source, method=chosen, width=width, activation=units, rng=wishes.seed, progress=interrupts.progress,
            seconds=seconds)
    return finish(found, wishes, interrupted=interrupts.wanted)


@click.command("recover-layer")
@click.argument("data", type=click.Path())
@click.option("--target", default="y", show_default=True, help="Column or array with the outputs; several separated by commas.")
@click.option("--width", type=click.IntRange(1), help="Units of the layer; counted if not given.")
@click.option("--activation", default="relu", show_default=True, help="For example relu, step, sigmoid, exponential(0.5).")
@click.option("--literal", is_flag=True, help="The paper's own algorithm, with nothing after it.")
@FORM
@click.option("--threshold", type=click.FloatRange(0.0), help="Told to --literal; smooth units need it.")
@click.option("--out", help="Save weights, biases and thresholds here (.npz).", **NEW_FILE)
@click.option("--report", help="Write an HTML page here.", **NEW_FILE)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Same seed, same result.")
def recover_layer(
    data: str, target: str, width: int | None, activation: str, *, literal: bool, form: str | None, threshold: float | None,
    out: str | None, report: str | None, as_json: bool, seed: int,
) -> None:
    """Recover the units u(w·x - t) of the lowest layer behind the samples in DATA, whatever lies above them.

    For thresholds that are rarely crossed. Exit status: 0 verified, 3 doubtful, 4 refuted, 2 misuse, 130 interrupted.
    """
    units = lb.activation_named(activation)
    check_literal(literal, threshold=threshold, form=form)
    method = literal_layer(form, units, threshold) if literal else lb.HighThreshold(activation=units)
    with _bar() as progress, keeping(progress) as interrupts:
        found = lb.recover_layer(
            lb.open_samples(data, target=target), method, width, rng=seed, progress=interrupts.progress)
    if out is not None:
        contents = BytesIO()
        np.savez(contents, weights=found.layer.weights, biases=-found.thresholds, thresholds=found.thresholds)
        put(Path(out), contents.getvalue())
    if report is not None:
        found.report(report)
    if as_json:
        click.echo(json.dumps(_layer_object(found)))
    else:
        _print_layer(found, out, report)
    click.get_current_context().exit(INTERRUPTED if interrupts.wanted else STATUS[found.certificate.verdict])


def _print_layer(found: lb.LayerRecovery, out: str | None, report: str | None) -> None:
    console = console_of()
    console.print(layer_table(found.layer, console.width))
    print_summary(console, str(found), found.certificate.verdict)
    for what, path in (("layer", out), ("report", report)):
        if path is not None:
            print_path(what, path)


def _layer_object(found: lb.LayerRecovery) -> dict[str, Any]:
    layer = found.layer
    return {
        "verdict": found.certificate.verdict, "dim": layer.dim, "width": layer.width, "activation": layer.activation.name,
        "weights": np.asarray(layer.weights).tolist(), "thresholds": np.asarray(found.thresholds).tolist(),
        "seconds": found.seconds, "claims": claims_of(found.certificate)}


def _method(name: str | None, form: str | None, units: lb.Activation | None, *, literal: bool) -> Method | None:
    """The object that a name stands for; nothing if the data are to decide."""
    if literal:
        return literal_method(name or "random-start", form, units or lb.relu)
    return None if name is None else METHODS[name](activation=units or lb.relu)
