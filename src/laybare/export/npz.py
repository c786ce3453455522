"""NumPy archives: the arrays of a saved network under their names, and its description as text."""

from __future__ import annotations

import io
import json
import os
import zipfile
from typing import Any

import numpy as np

from laybare.errors import InvalidInput
from laybare.networks import Network
from laybare.networks.files import contents_of, network_in
from laybare.networks.storage import KEY, Contents, put


def to_npz(network: Network, path: str | os.PathLike[str]) -> None:
    """Write weights, biases, readout, offset (and linear) as an .npz file that `numpy.load` opens; float64 bit for bit.

    Several layers are weights.0, weights.1, … from the lowest up.
    """
    arrays, description = contents_of(network)
    memory = io.BytesIO()
    text: dict[str, Any] = {KEY: np.array(json.dumps(description, sort_keys=True))}
    np.savez(memory, allow_pickle=False, **arrays, **text)
    put(path, memory.getvalue())


def from_npz(path: str | os.PathLike[str]) -> Network:
    """The network that `to_npz` wrote. Anything else is refused with the reason; no pickle is ever loaded."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, EOFError, ValueError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise InvalidInput(
            f"{path} is no complete .npz file of numbers ({error}).", "It was cut short, damaged, or is another kind of file.",
            "Write it again with to_npz, or open it with load.") from None
    try:
        description = json.loads(str(arrays.pop(KEY)))
        if not isinstance(description, dict):
            raise ValueError
    except (KeyError, ValueError, RecursionError):
        raise InvalidInput(
            f"{path} has no description of a network (its arrays: {', '.join(sorted(arrays)) or 'none'}).",
            "Which array would be which part of a network is not known.",
            "Build Layer(weights, biases, activation) and Network(layers, readout) from its arrays.") from None
    return network_in(Contents(arrays, description), os.fspath(path))
