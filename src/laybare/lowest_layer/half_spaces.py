"""A union of half-spaces, learnt from labels (Theorem 12): step units under 1 - Π(1 - X_i).

Labels tell the active set directly, so that the half-spaces are all there is to learn. Far from the origin and at constant
angles they are learnt in polynomial time; the fit itself needs neither, and the certificate says whether it succeeded.
Source: Goel and Panigrahy (2019), appendix B.6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from laybare.activations import step
from laybare.certificate import Certificate
from laybare.errors import InvalidInput
from laybare.lowest_layer.loop import recover_layer
from laybare.lowest_layer.method import HighThreshold
from laybare.lowest_layer.union_fit import HalfSpaces
from laybare.shapes import Array
from laybare.source import Samples

OF_LABELS = HighThreshold(activation=step, baseline=0.0, top=None)


@dataclass(frozen=True, eq=False)
class HalfSpaceUnion:
    """x is positive if w_i·x > t_i for some i: `weights` (k, d) of length 1, `thresholds` (k,), and the certificate."""

    weights: Array
    thresholds: Array
    certificate: Certificate

    def decision(self, x: Array) -> Array:
        """max_i (w_i·x - t_i), (n,): the distance to the nearest boundary from inside one half-space, negative outside all."""
        return np.asarray(HalfSpaces(self.weights, self.thresholds).margins(np.asarray(x, dtype=float)).max(axis=1))

    def predict(self, x: Array) -> Array:
        """Labels 0 and 1, (n,)."""
        return (self.decision(x) > 0).astype(int)

    def score(self, x: Array, labels: Array) -> float:
        """Share of rows with the right label."""
        return float(np.mean(self.predict(x) == np.asarray(labels)))


def learn_union(
    x: Array, labels: Array, width: int | None = None, *, method: HighThreshold | None = None, rng: Generator | int = 0,
) -> HalfSpaceUnion:
    """Half-spaces whose union holds the rows of x (n, dim) with the label 1 and none with the label 0.

    Parameters
    ----------
    x : array (n, dim), standard normal up to an affine map
    labels : array (n,) of zeros and ones (or bools); the theory, and the start, have fewer than half of them ones
    width : int, optional
        Number of half-spaces; counted if not given.
    method : HighThreshold, optional
        By default HighThreshold(activation=step, baseline=0.0, top=None): the label 0 is outside.
    rng : Generator or int

    `lb.UnionOfHalfSpaces` is the same as a classifier of scikit-learn.
    """
    y = np.asarray(labels)
    if y.ndim != 1 or not np.isin(y, (0, 1)).all():
        raise InvalidInput(
            f"The labels have shape {y.shape} and {len(np.unique(y))} different values.", "A row is inside the union or outside.",
            "Give one label for each row, 0 or 1.")
    found = recover_layer(Samples(x, y.astype(float)), method or OF_LABELS, width, rng=rng)
    return HalfSpaceUnion(found.layer.weights, found.thresholds, found.certificate)
