"""One self-contained HTML page about a lowest layer, in the style of the page about a network."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from laybare.networks.storage import put
from laybare.report.figures import weights_figure
from laybare.report.page import INPUTS, UNITS, fill, images_of, input_names
from laybare.report.svg import themed

if TYPE_CHECKING:
    from laybare.lowest_layer import LayerRecovery

LEAD = {
    "verified": "The lowest layer is recovered. Every check below was passed, whatever lies above the layer.",
    "doubtful": "The data do not contradict this layer, but do not rely on its numbers yet: not every check below was passed.",
    "refuted": "This is not the layer behind the data: do not use it.",
}


def write_layer_report(recovery: LayerRecovery, path: str | os.PathLike[str]) -> None:
    """Write the page to `path`, in one move."""
    put(path, render_layer(recovery).encode())


def render_layer(recovery: LayerRecovery) -> str:
    """The page as text."""
    layer, certificate = recovery.layer, recovery.certificate
    return fill("layer.html.j2", {
        "recovery": recovery,
        "layer": layer,
        "certificate": certificate,
        "lead": LEAD[certificate.verdict],
        "inputs": min(INPUTS, layer.dim),
        "units": min(UNITS, layer.width),
        "names": input_names(recovery, layer.dim),
        "origin": recovery.provenance,
        "images": images_of(np.asarray(layer.weights)),
        "weights": themed(weights_figure(
            np.asarray(layer.weights), certificate.standard_errors.weights, "standard error", names=recovery.columns.inputs)),
    })
