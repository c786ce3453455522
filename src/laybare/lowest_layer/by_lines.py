"""The lowest layer of a ReLU network of any depth behind a black box, read along lines; what lies above is the black box itself.

These are the parts of `Lines(depth=None)`, which stop after the first layer: kinks that stay on their hyperplane far away are
units of the lowest layer, and the gradients show their active sides and whether one is missing. Needs answers without noise, and
a layer that is not wider than its input; no unit has to be rarely active.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from laybare.certificate import Certificate, Claim, ClaimName, StandardErrors
from laybare.certificate.repeatability import repeat_claims
from laybare.errors import InvalidInput
from laybare.lines.feature_space import RemainingBlackBox
from laybare.lines.layer import LayerEstimate
from laybare.lines.query import QueryCounter
from laybare.lines.read import DeepReadResult
from laybare.lowest_layer.acceptance import LayerClaimName
from laybare.lowest_layer.tops import Top
from laybare.methods.lines import MAX_ERROR_BAR, Lines, layer_claim
from laybare.networks import Layer
from laybare.numerics.shapes import Progress
from laybare.source import Oracle
from laybare.source.oracle.repeats import ask_earlier_queries_again

FRESH_INPUTS = 40
"""Inputs at which the answers must follow from the features alone. Checked by `pytest tests/lowest_layer/test_by_lines.py`."""

MAX_UNEXPLAINED = 1e-6
"""1 - R² of these answers at most. Checked by `pytest tests/lowest_layer/test_by_lines.py`."""


def layer_by_lines(
    oracle: Oracle, method: Lines, width: int | None, *, rng: Generator, progress: Progress | None = None
) -> tuple[Layer, Certificate, Top | None]:
    """The lowest layer, what is known about it, and the black box as a function of its features."""
    if method.depth is not None:
        raise InvalidInput(
            f"Lines(depth={method.depth}) was given.", "The lowest layer is read whatever lies above it.",
            "Use Lines(depth=None).")
    found = method.read_lowest(oracle, rng=rng, progress=progress)
    read = found.layers[0]
    layer = Layer(read.weights, read.biases)
    top = None if read.failure else _black_box_top(oracle, read, rng)
    repeated = repeat_claims(ask_earlier_queries_again(oracle), noise_allowed=False)
    claims = (layer_claim(read, 0), *_width_claim(read, width), *_feature_claim(top), _error_bar_claim(found, read), *repeated)
    errors = StandardErrors(
        np.repeat(read.sd[:, None], layer.dim, axis=1), read.sd * np.maximum(1.0, np.abs(read.biases)),
        np.full(layer.width, np.nan), np.asarray(np.nan))
    return layer, Certificate(claims, errors, 0.0), top


def _black_box_top(oracle: Oracle, read: LayerEstimate, rng: Generator) -> Top:
    """The black box on the features; R² at fresh inputs, of answers at other inputs with the same features."""
    above = RemainingBlackBox(((read.weights, read.biases),), QueryCounter(oracle.ask))
    x = rng.standard_normal((FRESH_INPUTS, read.weights.shape[1]))
    with oracle.purpose("check"):
        y, same = oracle.ask(x).reshape(FRESH_INPUTS, -1), above(np.maximum(x @ read.weights.T + read.biases, 0.0))
    return Top(above, 1.0 - float(np.sum((y - same) ** 2) / np.sum((y - y.mean(axis=0)) ** 2)))


def _width_claim(read: LayerEstimate, width: int | None) -> tuple[Claim, ...]:
    if width is None:
        return ()
    count = len(read.biases)
    text = f"{count} units were read, {width} were given."
    return (Claim(ClaimName.GIVEN_WIDTH, float(count), float(width), count == width, "tested", text),)


def _feature_claim(top: Top | None) -> tuple[Claim, ...]:
    if top is None:
        return ()
    rest = 1.0 - top.r2
    return (Claim(
        LayerClaimName.FEATURES, rest, MAX_UNEXPLAINED, rest <= MAX_UNEXPLAINED, "tested",
        f"1 - R² at {FRESH_INPUTS} fresh inputs, of the answers at other inputs that have the same features of this layer."),)


def _error_bar_claim(found: DeepReadResult, read: LayerEstimate) -> Claim:
    bar = float(read.sd.max(initial=0.0))
    return Claim(
        ClaimName.PARAMETER_ERROR_BAR, bar, MAX_ERROR_BAR, bar < MAX_ERROR_BAR, "tested",
        f"standard deviation of a weight or bias; the answers are resolved as {found.rounding.kind}.")
