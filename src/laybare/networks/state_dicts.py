"""A torch `state_dict` in a safetensors file: the weights of an MLP, in the order of their names.

Such a file has arrays NAME.weight (out, in) and NAME.bias (out,), and no word about activations: ReLU is taken between the maps,
and that is said. Anything but a chain of matrices is refused by the name of its array.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import numpy as np

from laybare.activations import relu
from laybare.errors import InvalidInput
from laybare.networks.network import Layer, Network
from laybare.numerics.checks import check_path
from laybare.numerics.file_borders import check_whole_file_fits, reading
from laybare.numerics.shapes import Array

STATE_DICT_REMARK = "A state_dict names no activations: ReLU was taken between its linear maps, and linear outputs."

NOT_LINEAR = {"running_mean": "a batch normalisation", "in_proj_weight": "attention", "weight_ih": "a recurrent layer"}
"""Endings of names that belong to other parts than linear maps."""


def is_state_dict(path: str | os.PathLike[str]) -> bool:
    """Whether a safetensors file has arrays called NAME.weight; False for what cannot be opened."""
    from safetensors import safe_open

    try:
        check_whole_file_fits(path)
        with safe_open(os.fspath(path), framework="np") as file:
            return not file.metadata() and any(name.endswith("weight") for name in file.keys())  # noqa: SIM118
    except Exception:  # its exceptions have no common public base; whoever reads the file says what is wrong
        return False


def load_state_dict(path: str | os.PathLike[str]) -> Network:
    """The ReLU network of a state_dict that safetensors.torch.save_file wrote."""
    from safetensors import safe_open

    place = check_path("path", path)
    check_whole_file_fits(place)
    with reading(place, "safetensors file of a state_dict", "Write it again with safetensors.torch.save_file."), safe_open(
        place, framework="np"
    ) as file:
        arrays = {name: np.asarray(file.get_tensor(name), dtype=np.float64) for name in file.keys()}  # noqa: SIM118
    return network_of_state_dict(arrays, str(place))


def network_of_state_dict(arrays: Mapping[str, Array], where: str) -> Network:
    """The network of arrays NAME.weight and NAME.bias."""
    for ending, part in NOT_LINEAR.items():
        named = next((name for name in arrays if ending in name), None)
        if named is not None:
            raise _refused(where, f"{named}, which belongs to {part}")
    weights = sorted((name for name in arrays if name.endswith("weight")), key=_natural)
    maps = [(arrays[name], arrays.get(name.removesuffix("weight") + "bias")) for name in weights]
    bent = next((name for name in weights if arrays[name].ndim != 2), None)
    if bent is not None:
        raise _refused(where, f"{bent} of shape {arrays[bent].shape}, which is no linear map")
    if len(maps) < 2:
        raise _refused(where, f"{len(maps)} linear maps")
    for name, (lower, _), (upper, _) in zip(weights[1:], maps, maps[1:], strict=False):
        if upper.shape[1] != len(lower):
            raise _refused(where, f"{name} with {upper.shape[1]} inputs above a map with {len(lower)} outputs")
    *hidden, (last, offset) = maps
    layers = [Layer(w, np.zeros(len(w)) if b is None else b, relu) for w, b in hidden]
    shift = np.zeros(len(last)) if offset is None else offset
    return Network(layers, last[0], float(shift[0])) if len(last) == 1 else Network(layers, last.T, shift)


def _natural(name: str) -> list[tuple[int, str]]:
    """Numbers in a name count as numbers: layers.10 follows layers.9."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _refused(where: str, seen: str) -> InvalidInput:
    return InvalidInput(
        f"{where} has {seen}.", "A state_dict is read as a chain of linear maps with ReLU between them.",
        "Export the model to ONNX (torch.onnx.export), or name a function that loads and calls it: module:function.", part=seen)
