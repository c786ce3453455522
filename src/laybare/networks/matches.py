"""What `compare` returns: the errors of every kind after pairing, and who has no partner."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np

from laybare.shapes import Array

SHOWN = 12
"""Units named in print; the attributes hold all."""


class LayerMatch(NamedTuple):
    """One layer of a found network against the same layer of the true one, units numbered from 0 in each layer.

    `weight_error`, `bias_error`: as in `Match`, inputs being the true units below. `linear_error`: the largest linear function
    of the layer's inputs that would have to be added because a unit that is not symmetric has the wrong sign.
    """

    weight_error: float
    bias_error: float
    linear_error: float
    pairs: Array
    missing: tuple[int, ...]
    spurious: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Match:
    """Found against true units, and the largest errors of each kind after pairing.

    With several hidden layers, errors are the largest over all of them, and units are numbered through, from the lowest layer
    up: unit 0 of layer 2 follows the last one of layer 1. `layers` has the same layer by layer.

    Attributes
    ----------
    weight_error : largest |w - w*| over pairs; both have norm 1 if the activation is homogeneous, else divided by max(1, |w*|)
    bias_error : largest |b - b*| / max(1, |b*|), for the rows so normalised
    readout_error : largest |a - a*|, divided by the largest |a*| of all units and outputs
    offset_error, linear_error : the same of offset and linear part, divided by the largest |a*| or their own largest true
        entry, whichever is larger
    pairs : array (pairs, 2) of (found unit, true unit), numbered as in the networks given. Units that are copies of each other
        are paired as one if that fits better; each then occurs in a pair
    missing, spurious : true (found) units without a partner, constants and zero readouts aside
    layers : a LayerMatch for every layer, from the lowest up
    """

    weight_error: float
    bias_error: float
    readout_error: float
    offset_error: float
    linear_error: float
    pairs: Array
    missing: tuple[int, ...]
    spurious: tuple[int, ...]
    layers: tuple[LayerMatch, ...]

    @property
    def max_error(self) -> float:
        """The largest of the five; infinite if a unit of either network has no partner."""
        if self.missing or self.spurious:
            return inf
        return max(self.weight_error, self.bias_error, self.readout_error, self.offset_error, self.linear_error)

    def __str__(self) -> str:
        matched = len(np.unique(self.pairs[:, 1]))
        lines = [f"{matched} of {matched + len(self.missing)} units matched, largest error {self.max_error:.1e}"]
        for part in ("weight", "bias", "readout", "offset", "linear"):
            lines.append(f"  {part:<9}{getattr(self, part + '_error'):.1e}")
        if len(self.layers) == 1:
            return "\n".join([*lines, *_without_partner(self.layers[0], "")])
        for number, layer in enumerate(self.layers, 1):
            paired = len(np.unique(layer.pairs[:, 1]))
            errors = f"weight {layer.weight_error:.1e}, bias {layer.bias_error:.1e}, linear {layer.linear_error:.1e}"
            lines.append(f"  layer {number}: {paired} of {paired + len(layer.missing)} units, {errors}")
            lines += _without_partner(layer, "  ")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from laybare.report.notebook import match_html

        return match_html(self)


def _without_partner(layer: LayerMatch, indent: str) -> list[str]:
    lines = []
    for kind, units, whose in (("missing", layer.missing, "true"), ("spurious", layer.spurious, "found")):
        if units:
            more = f" and {len(units) - SHOWN} more" if len(units) > SHOWN else ""
            lines.append(f"{indent}  {kind:<9}{whose} units {', '.join(map(str, units[:SHOWN]))}{more}")
    return lines
