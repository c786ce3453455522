"""`laybare recover DATA` and `laybare recover-layer DATA`, and the options about DATA that they share with `laybare check`.

`FORMS` and `LAYER_FORMS` are what `--literal --form NAME` stands for, method by method: the algorithms of the papers by their
names. The first of each is the default. docs/papers.md has the command for every algorithm and theorem.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import click
import numpy as np

import laybare as lb
from laybare.cli.interrupts import keep_on_interrupt, results_saved
from laybare.cli.output import LISTED_UNITS, NumberRange, Output, examples, layer_table, print_path, print_summary
from laybare.cli.results import (
    WRITERS,
    ResultOptions,
    finish,
    print_provenance,
    result_options,
    shared_json_facts,
    status_of,
    with_typed_command,
)
from laybare.cli.wording import in_command_line_words
from laybare.errors import InvalidInput
from laybare.lowest_layer import PrintedRoute
from laybare.methods import GeneralReLU, LandscapeDesign, Method, PrintedReLU, SymmetricInputs, TensorInit
from laybare.methods.choosing import name_labels
from laybare.networks.network_files import write_atomically
from laybare.pipeline.arguments import METHOD_NAMES
from laybare.source import as_law
from laybare.source.losses import LOSSES

SECTION_7 = lb.landscape.Descent(step=0.02, max_steps=6000)
"""Steps of the experiments of Zhong et al. (2017); their number is not stated."""

RESAMPLED = lb.landscape.Descent(max_steps=30, resample=True)
"""T = 30 steps of Algorithm 2, each on its own part of the samples; the paper's T is a polynomial that is not stated."""

Form = Callable[[lb.Activation], Any]

FORMS: dict[str, dict[str, Form]] = {
    "general-relu": {
        "algorithm-6": lambda units: GeneralReLU(activation=units, route=PrintedReLU(order=1), search=None),
        "algorithm-5": lambda units: GeneralReLU(activation=units, route=PrintedReLU(order=2), search=None),
        "algorithm-5-order-1": lambda units: GeneralReLU(activation=units, route=PrintedReLU(regression=True), search=None),
        "algorithm-5-order-3": lambda units: GeneralReLU(activation=units, route=PrintedReLU(order=3), search=None)},
    "landscape-design": {
        "F": LandscapeDesign.literal, "G": lambda units: LandscapeDesign.literal(units, orthogonal=True),
        "f-prime": LandscapeDesign.literal_risk},
    "symmetric-inputs": {
        "algorithm-3": lambda units: _with(SymmetricInputs.literal(), units),
        "algorithm-1": lambda units: _with(SymmetricInputs.literal_single(), units),
        "algorithm-2": lambda units: _with(SymmetricInputs.literal(noise=False, halves=False), units),
        "section-4": lambda units: _with(SymmetricInputs.practical(), units)},
    "tensor-init": {
        "algorithm-1": TensorInit.literal,
        "algorithm-1-all-samples": lambda units: TensorInit.literal(units, partition=False),
        "algorithm-2": lambda units: TensorInit.literal(units, descent=RESAMPLED),
        "algorithm-2-all-samples": lambda units: TensorInit.literal(
            units, partition=False, descent=lb.landscape.Descent(max_steps=1000)),
        "section-7": lambda units: TensorInit.literal(units, partition=False, descent=SECTION_7, printed_step=False)},
}
"""Algorithm 4 of Ge et al. (2019) is what their others do where there are more outputs than units."""

LAYER_FORMS: dict[str, PrintedRoute] = {
    "one-by-one": PrintedRoute(), "simultaneous": PrintedRoute(simultaneous=True), "activity": PrintedRoute(activity=True),
    "retained": PrintedRoute(biased=True), "section-3": PrintedRoute(search=lb.lowest_layer.DeltaSearch()),
    "delta": PrintedRoute(search=lb.lowest_layer.DeltaAscent())}
"""Routes of `HighThreshold.literal`; exponential and even units have one algorithm only."""


def literal_method(name: str, form: str | None, units: lb.Activation) -> Method:
    """The method of that name as its paper prints it."""
    if name not in FORMS:
        raise InvalidInput(
            f"--literal was given for {name}.", "No paper prints it: it is the control.", f"Use one of {', '.join(FORMS)}.")
    made: Method = FORMS[name][_known(name, form, tuple(FORMS[name]))](units)
    return made


def literal_layer(
    form: str | None, units: lb.Activation, threshold: float | None, search: Mapping[str, Any] = {}
) -> lb.HighThreshold:
    """The same for the lowest layer; `search` has options of the search, None where they are not given."""
    name = _known("the lowest layer", form, tuple(LAYER_FORMS))
    return lb.HighThreshold.literal(units, threshold, _route(name, search))


def _route(form: str, given: Mapping[str, Any]) -> PrintedRoute:
    """The route of the form, its search with these options; refused where it has none of them."""
    route = LAYER_FORMS[form]
    chosen = {name: value for name, value in given.items() if value is not None}
    for name in chosen:
        if not hasattr(route.search, name):
            raise InvalidInput(
                f"--{name} was given for --form {form}.", "Its search has no such option.", "Leave it out, or use section-3.")
    made: Any = route.search
    return replace(route, search=replace(made, **chosen)) if chosen else route


def check_literal(literal: bool, **stated: object) -> None:
    """Refuse options of literal forms for other forms."""
    for name, value in stated.items():
        if value is not None and not literal:
            raise InvalidInput(
                f"--{name} {value} was given without --literal.", "Only literal forms take it.", "Leave it out.")


def _known(name: str, form: str | None, known: tuple[str, ...]) -> str:
    if form is not None and form not in known:
        raise InvalidInput(f"--form {form} of {name}.", "Its paper prints no such form.", f"Use one of {', '.join(known)}.")
    return form or known[0]


def _with(method: SymmetricInputs, units: lb.Activation) -> SymmetricInputs:
    return SymmetricInputs(activation=units, route=method.route, search=method.search)


METHODS = {name: made for name, made in METHOD_NAMES.items() if name != "lines"}
"""Those that start from samples."""

FORM = click.option("--form", metavar="NAME", help="Which of the paper's algorithms --literal runs; a wrong name lists them.")

LAYER_ENDINGS = (".npz", ".json")
"""Files of layers: weights, biases, thresholds."""


def data_options(command: Any) -> Any:
    """Add DATA and the options about it; the command gets them as `data` and `**reading`."""
    for option in reversed((
        click.argument("data", type=click.Path()),
        click.option("--target", default="y", show_default=True, help="Column or array with the outputs; several by commas."),
        click.option("--drop-columns", "drop", default="", metavar="NAMES", help="Columns that are no inputs, by commas."),
        click.option("--drop-missing", is_flag=True, help="Leave out rows in which a number is missing."),
        click.option("--law", type=click.Choice(["gaussian", "normal", "symmetric", "unknown"]), default="gaussian",
                     show_default=True, help="What is known about the inputs; normal is N(0, I), with nothing estimated."),
    )):
        command = option(command)
    return command


def open_data(data: str, reading: dict[str, Any], output: Output, loss: str = "squared") -> lb.Samples:
    """The file under those options; rows that were dropped, and labels for least squares, are named before anything is fitted."""
    return _remark_labels(_open(data, reading, output), loss, output)


def _open(data: str, reading: dict[str, Any], output: Output) -> lb.Samples:
    samples = lb.open_samples(data, **reading | {"law": as_law(reading["law"])})
    if samples.dropped:
        output.remark(f"{samples.dropped:,} of {samples.dropped + samples.size:,} rows miss a value and were left out.")
    return samples


def _remark_labels(samples: lb.Samples, loss: str, output: Output) -> lb.Samples:
    if loss == "squared" and (labels := name_labels(samples)):
        output.remark(in_command_line_words(labels))
    return samples


def open_with_columns(
    data: str, reading: dict[str, Any], beside: dict[str, str | None], output: Output, loss: str
) -> tuple[lb.Samples, dict[str, Any]]:
    """The file, and the columns that stand beside its outputs by their option; both of the same rows, also where values miss."""
    named = {option: column.strip() for option, column in beside.items() if column is not None}
    if not named:
        return open_data(data, reading, output, loss), {}
    targets, further = _names(reading["target"]), list(dict.fromkeys(named.values()))
    for typed, column in named.items():
        if not column or column in targets:
            problem = f"{column} is an output (--target)." if column else "the name of a column is missing."
            raise click.BadParameter(problem, param_hint=f"--{typed}")
    dropped = [name for name in _names(reading["drop"]) if name not in further]
    try:
        rows = _open(data, reading | {"target": [*targets, *further], "drop": dropped}, output)
    except lb.errors.InvalidInput as error:
        option = next((one for one, name in named.items() if name in error.values.get("missing", ())), None)
        if option is None:
            raise
        raise click.BadParameter(f"{data} has no column {named[option]}.", param_hint=f"--{option}") from None
    x, y = rows.read(0, rows.size)
    columns = rows.columns._replace(outputs=rows.columns.outputs[: len(targets)])
    outputs = y[:, : len(targets)] if len(targets) > 1 else y[:, 0]
    samples = _remark_labels(lb.Samples(x, outputs, rows.law, rows.schedule, columns, rows.dropped), loss, output)
    return samples, {option: y[:, len(targets) + further.index(name)] for option, name in named.items()}


@click.command("recover", epilog=examples(
    "laybare recover data.npz --width 3 --out network.safetensors --report page.html",
    "laybare recover houses.csv.gz --target price --drop-columns id --drop-missing"))
@data_options
@click.option("--width", type=click.IntRange(1), help="Hidden units; detected if not given.")
@click.option(
    "--method", type=click.Choice(sorted(METHODS)), metavar="NAME",
    help=f"How to start: {', '.join(sorted(METHODS))}; chosen from the data if not given (see `laybare check`).")
@click.option("--literal", is_flag=True, help="The method as its paper prints it, with nothing after it.")
@FORM
@click.option("--activation", help="For example relu, leaky_relu(0.1), tanh; found out if neither this nor --method is given.")
@click.option("--seconds", type=NumberRange(0.0, min_open=True),
              help="A search ends then with the best that it has; 3600, or 600 if no method is given.")
@click.option("--checkpoint", type=click.Path(file_okay=False), metavar="FOLDER",
              help="Long passes are kept there; after a crash the same command goes on from them.")
@click.option("--loss", type=click.Choice(LOSSES), default="squared", show_default=True,
              help="How outputs scatter: alike, with heavy tails, as counts, as labels 0 and 1.")
@click.option("--weights", metavar="NAME", help="Column with weights of rows, which scale their log-likelihood.")
@click.option("--groups", metavar="NAME", help="Column with numbers of groups whose rows may be dependent.")
@result_options(*WRITERS)
def recover(
    data: str, *, width: int | None, method: str | None, literal: bool, form: str | None, activation: str | None,
    seconds: float | None, checkpoint: str | None, loss: str, weights: str | None, groups: str | None, result: ResultOptions,
    **reading: Any,
) -> int:
    """Recover the network behind the samples in DATA.

    DATA is a file .npz, .csv, .tsv (also .csv.gz and the like), .parquet, .feather or .jsonl, or a directory of .npy blocks.
    The verdict is printed with its reasons. Ctrl-C keeps what was found, and writes it to --out and --report.
    Exit status: 0 verified, 3 doubtful, 4 refuted, 2 misuse, 130 interrupted.
    """
    check_literal(literal, form=form)
    units = None if activation is None else lb.activations.activation_named(activation)
    chosen = _method(method, form, units, literal=literal)
    with result.output.bar() as progress, keep_on_interrupt(progress) as interrupts:
        samples, beside = open_with_columns(data, reading, {"weights": weights, "groups": groups}, result.output, loss)
        found = lb.recover(
            samples, method=chosen, width=width, activation=units, rng=result.seed, progress=interrupts.progress, seconds=seconds,
            checkpoint=checkpoint, loss=loss, sample_weight=beside.get("weights"), groups=beside.get("groups"))
    return finish(found, result)


def _names(*given: str) -> list[str]:
    """Names of columns, each once."""
    return list(dict.fromkeys(name.strip() for text in given for name in text.split(",") if name.strip()))


@click.command("recover-layer", epilog=examples("laybare recover-layer rare.npz --width 3 --out layer.npz"))
@data_options
@click.option("--width", type=click.IntRange(1), help="Units of the layer; counted if not given.")
@click.option("--activation", default="relu", show_default=True, help="For example relu, step, sigmoid, exponential(0.5).")
@click.option("--literal", is_flag=True, help="The paper's own algorithm, with nothing after it.")
@FORM
@click.option("--threshold", type=NumberRange(0.0), help="For --literal; smooth units need it.")
@click.option("--starts", type=click.IntRange(1), help="Random starts of --literal --form section-3.")
@click.option("--epsilon", type=NumberRange(0.0, min_open=True),
              help="Width of the delta of --literal --form section-3 or delta; from the number of rows if not given.")
@result_options(*LAYER_ENDINGS)
def recover_layer(
    data: str, *, width: int | None, activation: str, literal: bool, form: str | None, threshold: float | None,
    starts: int | None, epsilon: float | None, result: ResultOptions, **reading: Any,
) -> int:
    """Recover the units u(w·x - t) of the lowest layer behind the samples in DATA, whatever lies above them.

    DATA as for laybare recover. For thresholds that are rarely crossed.
    Exit status: 0 verified, 3 doubtful, 4 refuted, 2 misuse, 130 interrupted.
    """
    units = lb.activations.activation_named(activation)
    check_literal(literal, threshold=threshold, form=form, starts=starts, epsilon=epsilon)
    search = {"starts": starts, "epsilon": epsilon}
    method = literal_layer(form, units, threshold, search) if literal else lb.HighThreshold(activation=units)
    with result.output.bar() as progress, keep_on_interrupt(progress) as interrupts:
        found = lb.recover_layer(
            open_data(data, reading, result.output), method, width, rng=result.seed, progress=interrupts.progress)
    return _finish_layer(with_typed_command(found, result), result)


def _finish_layer(found: lb.lowest_layer.LayerRecovery, result: ResultOptions) -> int:
    if result.out is not None:
        _save_layer(found, result.out)
    results_saved()
    if result.report is not None:
        found.report(result.report)
    layer, output, status = found.layer, result.output, status_of(found.certificate)
    output.emit_json(
        **shared_json_facts(found, result, status), inputs=list(found.columns.inputs), dim=layer.dim,
        width=layer.width, activation=layer.activation.name,
        weights=np.asarray(layer.weights).tolist(), thresholds=np.asarray(found.thresholds).tolist())
    if output.in_text:
        output.say(layer_table(layer, output.width, found.columns, layer.width if output.verbose else LISTED_UNITS))
        print_summary(in_command_line_words(found.explain()), found.certificate.verdict)
        if output.verbose:
            print_provenance(output, found.provenance)
        for what, path in result.files.items():
            print_path("layer" if what == "network" else what, path)
    return status


def _save_layer(found: lb.lowest_layer.LayerRecovery, out: str) -> None:
    parts = {"weights": np.asarray(found.layer.weights), "biases": -found.thresholds, "thresholds": found.thresholds}
    if Path(out).suffix == ".json":
        stated = {name: values.tolist() for name, values in parts.items()} | {"activation": found.layer.activation.name}
        write_atomically(Path(out), (json.dumps(stated) + "\n").encode())
        return
    contents = BytesIO()
    np.savez(contents, weights=parts["weights"], biases=parts["biases"], thresholds=parts["thresholds"])
    write_atomically(Path(out), contents.getvalue())


def _method(name: str | None, form: str | None, units: lb.Activation | None, *, literal: bool) -> Method | None:
    """The object that a name stands for; nothing if the data are to decide."""
    if literal:
        return literal_method(name or "random-start", form, units or lb.relu)
    return None if name is None else METHODS[name](activation=units or lb.relu)
