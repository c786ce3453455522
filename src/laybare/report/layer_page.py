"""One self-contained HTML page about a lowest layer, in the style of the page about a network."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from laybare.networks.storage import put
from laybare.report.figures import weights_figure
from laybare.report.page import INPUTS, UNITS, fill

if TYPE_CHECKING:
    from laybare.lowest_layer import LayerRecovery

LEAD = {
    "verified": "Every claim below holds: nothing in the data speaks against this layer, whatever lies above it.",
    "doubtful": "The layer is not contradicted, but not every claim below holds: some of its numbers may be other than shown.",
    "refuted": "The data contradict this layer: it is not the one behind the data.",
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
        "weights": weights_figure(np.asarray(layer.weights), certificate.standard_errors.weights, "standard error"),
    })
