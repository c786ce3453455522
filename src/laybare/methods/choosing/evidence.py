"""What the data show before any method has run: the law of the inputs, the outputs, which moments carry a signal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.certificate import Claim
from laybare.linear_algebra import inner
from laybare.methods.choosing.order_signals import OrderSignal, order_signals
from laybare.methods.symmetric_inputs.claims import symmetric_inputs
from laybare.moments import Normality, SecondMoment, measure_with_noise, normality
from laybare.shapes import Array, Sums
from laybare.source import Source

LOOKED_AT = 20_000
"""Rows that are looked at, at most: a look costs a second however many there are."""

FIRM = 3.0
"""Times the largest eigenvalue of its noise that an eigenvalue of the second moment must reach to have a sign."""


class Evidence(NamedTuple):
    """What was seen.

    `constant`: share of the rows with the most frequent label. `orders`: the signal in Hermite orders 1 to 4. `positive` and
    `negative`: eigenvalues of the second moment with either sign that stand above its noise (one output). `residual`: share of
    the variance of y that no linear function explains.
    """

    size: int
    dim: int
    outputs: int
    normal: Normality
    symmetric: Claim | None
    constant: float
    orders: tuple[OrderSignal, ...]
    positive: int
    negative: int
    residual: float

    @property
    def biased(self) -> bool:
        """Whether ReLU-like units must have biases: without, their third moment vanishes under every symmetric law."""
        return self.orders[2].seen


def gather_evidence(white: Source, given: Source, *, rng: Generator) -> Evidence:
    """Look at white rows, and at the same (or some more) as they were given; three passes, five for several outputs.

    Whether x and -x are equally likely is asked only of several outputs: with one no method needs it.
    """
    some = white if white.size <= LOOKED_AT else white.split(LOOKED_AT / white.size, rng=rng).first.kept()
    symmetric = symmetric_inputs(given.take(some.size).whitened(centred=False)) if given.outputs > 1 else None
    signs = _signs(some) if white.outputs == 1 and white.size > 2 else (0, 0)
    return Evidence(
        given.size, white.dim, white.outputs, normality(some, rng=rng), symmetric, _constant(some), order_signals(some), *signs,
        _residual(some))


def _constant(source: Source) -> float:
    y = source.read(0, min(source.size, LOOKED_AT)).y
    labels = y[:, 0] if y.shape[1] == 1 else y  # rows are compared as bytes, which takes ten times as long
    return float(np.unique(labels, axis=0, return_counts=True)[1].max()) / len(y)


def _signs(source: Source) -> tuple[int, int]:
    moment = measure_with_noise(source, SecondMoment(), stage="second moment")
    values = np.linalg.eigvalsh(moment.value[0])
    edge = FIRM * float(np.abs(np.linalg.eigvalsh(moment.noise[0])).max(initial=0.0))
    return int(np.sum(values > edge)), int(np.sum(values < -edge))


def _residual(source: Source) -> float:
    """The largest over outputs; y is centred by its first row, so that a large mean does no harm."""
    first = source.read(0, 1).y[0].copy()

    def products(x: Array, y: Array) -> Sums:
        columns = np.column_stack([np.ones(len(x)), x])
        return inner(columns, columns), inner(columns, y - first), np.sum((y - first) ** 2, axis=0)

    gram, moment, squares = source.sum(products, stage="linear fit")
    explained = np.sum(moment * np.linalg.lstsq(gram, moment, rcond=None)[0], axis=0)
    whole = squares - moment[0] ** 2 / source.size
    return float(np.clip((squares - explained) / np.maximum(whole, np.finfo(float).tiny), 0.0, 1.0).max())
