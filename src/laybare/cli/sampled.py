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
from laybare.cli.data_options import opened, reading_options
from laybare.cli.endings import (
    WRITERS,
    Wishes,
    as_typed,
    facts_of,
    finish,
    say_origin,
    status_of,
    with_wishes,
)
from laybare.cli.interrupts import keeping
from laybare.cli.literal_forms import check_literal, literal_layer, literal_method
from laybare.cli.screen import LISTED, layer_table, print_path, print_summary
from laybare.cli.speech import examples
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


LAYER_ENDINGS = (".npz", ".json")
"""Files of layers: weights, biases, thresholds."""


@click.command("recover", epilog=examples(
    "laybare recover data.npz --width 3 --out network.safetensors --report page.html",
    "laybare recover houses.csv.gz --target price --drop-columns id --drop-missing"))
@reading_options
@click.option("--width", type=click.IntRange(1), help="Hidden units; detected if not given.")
@click.option(
    "--method", type=click.Choice(sorted(METHODS)), metavar="NAME",
    help=f"How to start: {', '.join(sorted(METHODS))}; chosen from the data if not given (see `laybare check`).")
@click.option("--literal", is_flag=True, help="The method as its paper prints it, with nothing after it.")
@FORM
@click.option("--activation", help="For example relu, leaky_relu(0.1), tanh; found out if neither this nor --method is given.")
@click.option("--seconds", type=click.FloatRange(0.0, min_open=True),
              help="A search ends then with the best that it has; 3600, or 600 if no method is given.")
@with_wishes(*WRITERS)
def recover(
    data: str, *, width: int | None, method: str | None, literal: bool, form: str | None, activation: str | None,
    seconds: float | None, wishes: Wishes, **reading: Any,
) -> int:
    """Recover the network behind the samples in DATA.

    DATA is a file .npz, .csv, .tsv (also .csv.gz and the like) or .parquet, or a directory of .npy blocks.
    The verdict is printed with its reasons. Ctrl-C keeps what was found, and writes it to --out and --report.
    Exit status: 0 verified, 3 doubtful, 4 refuted, 2 misuse, 130 interrupted.
    """
    check_literal(literal, form=form)
    units = None if activation is None else lb.activation_named(activation)
    chosen = _method(method, form, units, literal=literal)
    with wishes.speech.bar() as progress, keeping(progress) as interrupts:
        found = lb.recover(
            opened(data, reading), method=chosen, width=width, activation=units, rng=wishes.seed,
            progress=interrupts.progress, seconds=seconds)
    return finish(found, wishes, interrupted=interrupts.wanted)


@click.command("recover-layer", epilog=examples("laybare recover-layer rare.npz --width 3 --out layer.npz"))
@reading_options
@click.option("--width", type=click.IntRange(1), help="Units of the layer; counted if not given.")
@click.option("--activation", default="relu", show_default=True, help="For example relu, step, sigmoid, exponential(0.5).")
@click.option("--literal", is_flag=True, help="The paper's own algorithm, with nothing after it.")
@FORM
@click.option("--threshold", type=click.FloatRange(0.0), help="Told to --literal; smooth units need it.")
@with_wishes(*LAYER_ENDINGS)
def recover_layer(
    data: str, *, width: int | None, activation: str, literal: bool, form: str | None, threshold: float | None, wishes: Wishes,
    **reading: Any,
) -> int:
    """Recover the units u(w·x - t) of the lowest layer behind the samples in DATA, whatever lies above them.

    DATA as for laybare recover. For thresholds that are rarely crossed.
    Exit status: 0 verified, 3 doubtful, 4 refuted, 2 misuse, 130 interrupted.
    """
    units = lb.activation_named(activation)
    check_literal(literal, threshold=threshold, form=form)
    method = literal_layer(form, units, threshold) if literal else lb.HighThreshold(activation=units)
    with wishes.speech.bar() as progress, keeping(progress) as interrupts:
        found = lb.recover_layer(opened(data, reading), method, width, rng=wishes.seed, progress=interrupts.progress)
    return _finish_layer(as_typed(found, wishes), wishes, status_of(found.certificate, interrupted=interrupts.wanted))


def _finish_layer(found: lb.LayerRecovery, wishes: Wishes, status: int) -> int:
    if wishes.out is not None:
        _save_layer(found, wishes.out)
    if wishes.report is not None:
        found.report(wishes.report)
    layer, speech = found.layer, wishes.speech
    speech.tell(
        **facts_of(found, wishes, status), dim=layer.dim, width=layer.width, activation=layer.activation.name,
        weights=np.asarray(layer.weights).tolist(), thresholds=np.asarray(found.thresholds).tolist())
    if speech.in_text:
        speech.say(layer_table(layer, speech.width, found.columns, layer.width if speech.verbose else LISTED))
        print_summary(str(found), found.certificate.verdict)
        if speech.verbose:
            say_origin(speech, found.provenance)
        for what, path in wishes.files.items():
            print_path("layer" if what == "network" else what, path)
    return status


def _save_layer(found: lb.LayerRecovery, out: str) -> None:
    parts = {"weights": np.asarray(found.layer.weights), "biases": -found.thresholds, "thresholds": found.thresholds}
    if Path(out).suffix == ".json":
        told = {name: values.tolist() for name, values in parts.items()} | {"activation": found.layer.activation.name}
        put(Path(out), (json.dumps(told) + "\n").encode())
        return
    contents = BytesIO()
    np.savez(contents, weights=parts["weights"], biases=parts["biases"], thresholds=parts["thresholds"])
    put(Path(out), contents.getvalue())


def _method(name: str | None, form: str | None, units: lb.Activation | None, *, literal: bool) -> Method | None:
    """The object that a name stands for; nothing if the data are to decide."""
    if literal:
        return literal_method(name or "random-start", form, units or lb.relu)
    return None if name is None else METHODS[name](activation=units or lb.relu)
