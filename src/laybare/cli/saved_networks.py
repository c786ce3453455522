"""`laybare compare A B`."""

from __future__ import annotations

import click

import laybare as lb
from laybare.cli.endings import finite
from laybare.cli.speech import Speech, examples, speaking

DIFFERENT = 1
"""Exit status where the largest error exceeds --tol."""


@click.command("compare", epilog=examples("laybare compare network.safetensors truth.safetensors --tol 1e-6"))
@click.argument("found", type=click.Path())
@click.argument("truth", type=click.Path())
@click.option("--tol", type=click.FloatRange(0.0), help="Exit with status 1 if the largest error exceeds this.")
@speaking
def compare(found: str, truth: str, tol: float | None, speech: Speech) -> None:
    """Compare two saved networks modulo every symmetry of their activation.

    FOUND and TRUTH are files .safetensors, .npz, .onnx or .json, as --out writes them.
    """
    match = lb.compare(_network(found), _network(truth))
    status = DIFFERENT if tol is not None and not match.max_error <= tol else 0
    speech.say(str(match))
    speech.tell(
        status=status, max_error=finite(match.max_error), weight_error=finite(match.weight_error),
        bias_error=finite(match.bias_error), readout_error=finite(match.readout_error), pairs=match.pairs.tolist(),
        missing=list(match.missing), spurious=list(match.spurious))
    click.get_current_context().exit(status)


READERS = {".npz": "from_npz", ".onnx": "from_onnx", ".json": "from_json"}
"""Functions of laybare, by the ending; anything else is taken for a safetensors file, and refused if it is none."""


def _network(path: str) -> lb.Network:
    """A saved network, or that of a saved recovery."""
    reader = READERS.get(path[path.rfind(".") :])
    loaded = lb.load(path) if reader is None else getattr(lb, reader)(path)
    return loaded.network if isinstance(loaded, lb.Recovery) else loaded
