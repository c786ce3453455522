"""Why a network was refuted, most likely: one sentence that says what to try."""

from __future__ import annotations

import numpy as np

from laybare.certificate.fitted import State
from laybare.refinement.problem import LOOKED_AT

FEW_VALUES = 20
"""Different labels among thousands of rows that are steps, not slopes."""

NOTHING = 0.05
"""Share of the variance explained, the unknowns counted, below which there is nothing to explain."""

MISSING = "units are missing: give a larger width, or none"

BY_FEATURES = {
    "squares of inputs": "the outputs have squares of inputs in them: a polynomial, or units of another kind",
    "products of inputs": "the outputs have products of inputs in them: a polynomial, or a network of several layers",
    "steps of inputs": "the outputs jump at values of single inputs: a tree, or units that are steps; try recover_layer with "
    "HighThreshold(activation=step)",
    "functions of the output": "the outputs are a function of such a network: a link (try the logit or the logarithm of y), "
    "clipped labels, or another layer",
    "bumps at the units": "the units bend in another way: try another activation, tanh or softplus for smooth functions, relu "
    "for kinks",
    "further units": MISSING}
"""By the features that explain most of the residual (`alternatives`)."""


def likely_reason(state: State, features: str, missing: bool) -> str:
    """The first of these that the labels, the fit, or the features that explain the residual show.

    `missing`: a further unit is worth it, which it also is where units only come near to what the function is.
    """
    y = state.view.read(0, min(state.view.size, LOOKED_AT)).y
    if len(np.unique(y)) <= FEW_VALUES < len(y):
        return "the labels have few values: classes or steps; ask for log-odds, or try recover_layer with step units."
    if state.explained < NOTHING:
        return "the inputs explain next to nothing of y: it is noise, or a function too wild for these samples."
    if float(y.min()) >= 0.0 and float(y.max()) <= 1.0 and float(y.max() - y.min()) > 0.5:
        return "the outputs lie between 0 and 1, as probabilities do: try the logit, log(y / (1 - y))."
    by_features = BY_FEATURES.get(features, "the search has not found the best fit: try more samples, a width or another rng")
    or_units = f"; or {MISSING}" if missing and MISSING not in by_features else ""
    return f"{by_features}{or_units}."
