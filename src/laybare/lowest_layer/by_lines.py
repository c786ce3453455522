"""The lowest layer of a ReLU network of any depth behind a black box, read along lines; what lies above is the black box itself.

The parts are those of `Lines(depth=None)`, which stop here after the first floor: kinks that stay on their hyperplane far away
are units of the lowest layer, and the gradients tell their active sides and whether one is missing. Needs answers without noise,
and a layer that is not wider than its input; no unit has to be rarely active.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from laybare.certificate import Certificate, Claim, StandardErrors
from laybare.errors import InvalidInput
from laybare.lines.above import Above
from laybare.lines.asking import Purse
from laybare.lines.deep import DeepFound
from laybare.lines.layers import LayerRead
from laybare.lowest_layer.tops import Top
from laybare.methods import Lines
from laybare.methods.lines.claims import COARSE
from laybare.methods.lines.deep_claims import layer_claim
from laybare.networks import Layer
from laybare.shapes import Progress
from laybare.source import Oracle

CHECKED, SAME = 40, 1e-6
"""Fresh inputs at which the answers must follow from the features alone, and the relative difference that counts as the same."""


def layer_by_lines(
    oracle: Oracle, method: Lines, width: int | None, *, rng: Generator, progress: Progress | None = None
) -> tuple[Layer, Certificate, Top | None]:
    """The lowest layer, what is known about it, and the black box as a function of its features."""
    if method.depth is not None:
        raise InvalidInput(
            f"Lines(depth={method.depth}) was given.", "The lowest layer is read whatever lies above it.",
            "Use Lines(depth=None).")
    found = method.read_lowest(oracle, rng=rng, progress=progress)
    read = found.reads[0]
    layer = Layer(read.weights, read.biases)
    top = None if read.trouble else _top(oracle, read, rng)
    claims = (layer_claim(read, 0), *_told(read, width), *_follows(top), _bar(found, read))
    errors = StandardErrors(
        np.repeat(read.sd[:, None], layer.dim, axis=1), read.sd * np.maximum(1.0, np.abs(read.biases)),
        np.full(layer.width, np.nan), np.asarray(np.nan))
    return layer, Certificate(claims, errors, 0.0), top


def _top(oracle: Oracle, read: LayerRead, rng: Generator) -> Top:
    """The black box on the features; R² at fresh inputs, of answers at other inputs with the same features."""
    above = Above(((read.weights, read.biases),), Purse(oracle.ask))
    x = rng.standard_normal((CHECKED, read.weights.shape[1]))
    with oracle.purpose("check"):
        y, same = oracle.ask(x).reshape(CHECKED, -1), above(np.maximum(x @ read.weights.T + read.biases, 0.0))
    return Top(above, 1.0 - float(np.sum((y - same) ** 2) / np.sum((y - y.mean(axis=0)) ** 2)))


def _told(read: LayerRead, width: int | None) -> tuple[Claim, ...]:
    if width is None:
        return ()
    count = len(read.biases)
    text = f"{count} units were read, {width} were told."
    return (Claim("width that was told", float(count), float(width), count == width, "tested", text),)


def _follows(top: Top | None) -> tuple[Claim, ...]:
    if top is None:
        return ()
    rest = 1.0 - top.r2
    return (Claim(
        "answers that do not follow from the features", rest, SAME, rest <= SAME, "tested",
        f"1 - R² at {CHECKED} fresh inputs, of the answers at other inputs that have the same features of this layer."),)


def _bar(found: DeepFound, read: LayerRead) -> Claim:
    bar = float(read.sd.max(initial=0.0))
    return Claim(
        "largest error bar of a number", bar, COARSE, bar < COARSE, "tested",
        f"standard deviation of a weight or bias; the answers are resolved as {found.rounding.kind}.")
