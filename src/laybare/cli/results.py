"""The end of a command: files that are written, what is printed, the exit status; and `laybare compare A B`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

import click
import numpy as np

import laybare as lb
from laybare.cli.interrupts import STATE, results_saved
from laybare.cli.output import (
    LISTED_UNITS,
    NumberRange,
    Output,
    examples,
    network_tables,
    output_options,
    print_path,
    print_summary,
)
from laybare.cli.wording import in_command_line_words
from laybare.networks import network_files
from laybare.networks.network_files import write_atomically
from laybare.report import write_report
from laybare.report.drawings import check_matplotlib
from laybare.source.sample_files import holds_samples

STATUS = {"verified": 0, "doubtful": 3, "refuted": 4}


def _torch_file(network: lb.Network, path: str) -> None:
    import torch

    contents = BytesIO()
    torch.save(lb.to_torch(network).state_dict(), contents)
    write_atomically(path, contents.getvalue())


WRITERS: dict[str, Callable[[lb.Network, str], Any]] = {
    ".safetensors": lambda network, path: network.save(path),
    ".npz": lambda network, path: lb.export.to_npz(network, path),
    ".onnx": lambda network, path: lb.to_onnx(network, path),
    ".pt": _torch_file,
    ".json": lambda network, path: lb.export.to_json(network, path),
    ".csv": lambda network, path: None,
}
"""How a network is written, by the ending of the file; a table needs the recovery (`_write_out`)."""


def _write_out(found: lb.Recovery, path: str) -> None:
    """The network; with names, standard errors, verdict and summary where the format has room for them."""
    ending = Path(path).suffix
    if ending == ".csv":
        write_atomically(path, found.summary().to_csv().encode())
        return
    WRITERS[ending](_storable(found.network), path)
    if ending == ".json":
        held = json.loads(Path(path).read_text(encoding="utf-8"))
        write_atomically(path, (json.dumps(
            held | {"recovery": {"verdict": found.certificate.verdict, **parameters_as_json(found)}}) + "\n").encode())


def parameters_as_json(found: lb.Recovery) -> dict[str, Any]:
    """Names, and parameters with their standard errors: the summary of a single layer, every parameter of several layers."""
    errors = {name: finite_list(part) for name, part in found.certificate.standard_errors._asdict().items()}
    network = found.network
    return {
        "inputs": list(found.columns.inputs), "output_names": list(found.columns.outputs),
        "loss": found.loss.name, "weights": finite_list(network.layer.weights), "biases": finite_list(network.layer.biases),
        "readout": finite_list(network.readout), "offset": finite_list(network.offset), "standard_errors": errors,
        **({"summary": found.summary().to_dict()} if network.depth == 1 and network.top is None else {"layers": [
            {"weights": finite_list(layer.weights), "biases": finite_list(layer.biases)} for layer in network.layers]})}


def finite_list(values: Any) -> Any:
    """Nested lists, None for what is not finite."""
    array = np.asarray(values, dtype=float)
    held = array.astype(object)
    held[~np.isfinite(array)] = None
    return held.tolist()

NEEDED = {".onnx": "onnx", ".pt": "torch"}
"""Packages that must be there for an ending, each an extra of the same name."""


def check_folder_exists(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    """Refuse what cannot become a file, such as one in a directory that is not there, before the work begins, not after it."""
    if path is None:
        return None
    place = Path(path).absolute()
    if not path or (place.exists() and not place.is_file()):
        raise click.BadParameter(f"{path!r} is not the name of a file.", context, parameter)
    if not place.parent.is_dir():
        raise click.BadParameter(f"the directory {place.parent} does not exist.", context, parameter)
    return path


def check_ending(*known: str) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """The same, and the ending must be known: never other bytes under a name than it says."""

    def check(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
        ending = "" if path is None else Path(path).suffix
        if path is not None and ending not in known:
            raise click.BadParameter(f"the ending of {path} is none of {', '.join(known)}.", context, parameter)
        package = NEEDED.get(ending)
        if package is not None and find_spec(package) is None:
            raise click.BadParameter(
                f"{ending} needs {package}, which is not installed: pip install 'laybare[{package}]'.", context, parameter)
        return check_folder_exists(context, parameter, path)

    return check


def check_page_ending(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    """The same for an HTML page: no ending that promises another format."""
    try:
        if path is not None and check_folder_exists(context, parameter, path):
            network_files.check_ending(path, ".html")
            check_matplotlib()
    except lb.errors.InvalidInput as error:
        raise click.BadParameter(str(error), context, parameter) from None
    return path


NEW_FILE: dict[str, Any] = {"type": click.Path(dir_okay=False), "callback": check_folder_exists, "metavar": "FILE"}
NEW_PAGE: dict[str, Any] = NEW_FILE | {"callback": check_page_ending}


@dataclass(frozen=True, kw_only=True)
class ResultOptions:
    """Options of commands that recover something: files to write, the seed, how to print."""

    out: str | None
    report: str | None
    seed: int
    output: Output

    @property
    def files(self) -> dict[str, str]:
        """What was written, and where."""
        return {what: path for what, path in (("network", self.out), ("report", self.report)) if path is not None}


def result_options(*endings: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add the options of ResultOptions. --out accepts these endings; the command returns the exit status."""

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @click.option("--out", type=click.Path(dir_okay=False), callback=check_ending(*endings), metavar="FILE",
                      help=f"Save what was found here ({', '.join(endings)}).")
        @click.option("--report", help="Write an HTML page here.", **NEW_PAGE)
        @click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Same seed, same result.")
        @output_options
        @wraps(command)
        def with_options(*, out: str | None, report: str | None, seed: int, output: Output, **options: Any) -> None:
            result = ResultOptions(out=out, report=report, seed=seed, output=output)
            click.get_current_context().exit(command(**options, result=result))

        return with_options

    return decorate


def finish(found: lb.Recovery, result: ResultOptions, *, remarks: tuple[str, ...] = ()) -> int:
    """Write what is wanted, print the rest, give the exit status."""
    found = with_typed_command(found, result)
    if result.out is not None:
        _write_out(found, result.out)
        remarks = (*remarks, *((UNREAD,) if found.network.top is not None else ()))
    results_saved()
    if result.report is not None:
        write_report(found, result.report)
    status, interrupted = status_of(found.certificate), STATE.number != 0
    network = found.network
    if result.output.as_json:
        result.output.emit_json(
            **shared_json_facts(found, result, status), interrupted=interrupted, dim=network.dim, width=network.width,
            outputs=network.outputs, depth=network.depth, widths=list(network.widths), activation=network.activations,
            method=None if found.method is None else type(found.method).__name__, **parameters_as_json(found))
    _print(found, result, remarks)
    if interrupted:
        click.echo("laybare: interrupted; this is what was found until then", err=True)
    return status


UNREAD = "the layers that were read are saved with a readout of zeros: those above them were not read"


def _storable(network: lb.Network) -> lb.Network:
    """The layers that were read, where others lie above them: a file holds numbers, and no black box."""
    if network.top is None:
        return network
    return lb.Network(network.layers, np.zeros((network.layers[-1].width, network.outputs)))


def with_typed_command(found: Any, result: ResultOptions) -> Any:
    """The same with the command as it was typed in place of the call that it made."""
    if found.provenance is None:
        return found
    return replace(found, provenance=replace(found.provenance, call=f"laybare {result.output.command}"))


def status_of(certificate: lb.Certificate) -> int:
    """The exit status: of the interrupt, if there was one, else of the verdict."""
    return STATE.status if STATE.number else STATUS[certificate.verdict]


def shared_json_facts(found: Any, result: ResultOptions, status: int) -> dict[str, Any]:
    """Keys of --json that recoveries of networks and of layers share; docs/command-line.md has them all."""
    origin = found.provenance
    return {
        "verdict": found.certificate.verdict, "status": status, "seed": result.seed, "samples": found.samples_used,
        "queries": found.queries, "seconds": found.seconds, "noise": finite(found.certificate.noise),
        "claims": claims_as_json(found.certificate),
        "fingerprint": None if origin is None else origin.fingerprint or None, "out": result.out, "report": result.report}


def claims_as_json(certificate: lb.Certificate) -> list[dict[str, Any]]:
    """The single checks as plain objects, each with the statement that it is a part of."""
    return [
        {"name": check.name, "value": finite(check.value), "threshold": finite(check.threshold), "direction": check.direction,
         "passed": bool(check.passed), "kind": check.kind, "explanation": check.explanation,
         "statement": claim.name if claim.explanations else None}
        for claim in certificate.claims for check in (claim.explanations or (claim,))]


def _print(found: lb.Recovery, result: ResultOptions, remarks: tuple[str, ...]) -> None:
    output = result.output
    if not output.in_text:
        return
    listed = max(found.network.widths) if output.verbose else LISTED_UNITS
    bends = found.summary().sentences[:listed] if found.profile is not None else ()
    tables = network_tables(found.network, output.width, found.certificate.standard_errors, found.columns, listed)
    output.say(*tables, *bends, *remarks)
    print_summary(in_command_line_words(output.summary(found)), found.certificate.verdict)
    if output.verbose:
        print_provenance(output, found.provenance)
    for what, path in result.files.items():
        print_path(what, path)


def print_provenance(output: Output, origin: Any) -> None:
    """What it takes to run it again."""
    if origin is not None:
        data = f"{origin.data}{', fingerprint ' * bool(origin.fingerprint)}{origin.fingerprint}"
        print_path("call", origin.call)
        output.say(f"version: laybare {origin.version}", f"data: {data}")


def finite(value: float) -> float | None:
    """JSON has no infinity."""
    return float(value) if abs(value) < float("inf") else None


DIFFERENT = 1
"""Exit status of `compare --tol` where the largest error exceeds it. Convention: as `diff` does."""


@click.command("compare", epilog=examples("laybare compare network.safetensors truth.safetensors --tol 1e-6"))
@click.argument("found", type=click.Path())
@click.argument("truth", type=click.Path())
@click.option("--tol", type=NumberRange(0.0), help="Exit with status 1 if the largest error exceeds this.")
@output_options
def compare(found: str, truth: str, tol: float | None, output: Output) -> None:
    """Compare two saved networks modulo every symmetry of their activation.

    FOUND and TRUTH are files .safetensors, .npz, .onnx or .json, as --out writes them.
    """
    match = lb.compare(open_network(found), open_network(truth))
    status = DIFFERENT if tol is not None and not match.max_error <= tol else 0
    output.say(str(match))
    output.emit_json(
        status=status, max_error=finite(match.max_error), weight_error=finite(match.weight_error),
        bias_error=finite(match.bias_error), readout_error=finite(match.readout_error), pairs=match.pairs.tolist(),
        missing=list(match.missing), spurious=list(match.spurious))
    click.get_current_context().exit(status)


READERS = {".npz": "from_npz", ".onnx": "from_onnx", ".json": "from_json"}
"""Functions of laybare, by the ending; anything else is taken for a safetensors file, and refused if it is none."""


def open_network(path: str) -> lb.Network:
    """A saved network, or that of a saved recovery."""
    if path.endswith((".pt", ".pth", ".pkl")):
        raise lb.errors.InvalidInput(
            f"{path} is a pickle.", "Whoever opens one runs the program inside of it, so laybare does not.",
            "Export the model to ONNX (torch.onnx.export), or save it with lb.from_torch(module).save(path).", path=path)
    reader = READERS.get(path[path.rfind(".") :])
    if reader is None and Path(path).is_file() and holds_samples(path):
        raise lb.errors.InvalidInput(
            f"{path} holds samples.", "A saved network is wanted here.",
            f"Recover it first: laybare recover {path} --out network.safetensors.", path=path)
    loaded = lb.load(path) if reader is None else getattr(lb.export, reader)(path)
    return loaded.network if isinstance(loaded, lb.Recovery) else loaded
