"""Inputs for a black box that can be drawn again: at any time, in any order, by any worker, with the same bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator, Philox

from laybare.blas import single_blas_thread
from laybare.errors import InvalidInput
from laybare.shapes import Array
from laybare.source.arrays import floats, numeric
from laybare.source.bounds import Box, Uniform
from laybare.source.laws import Gaussian
from laybare.source.protocol import Law
from laybare.source.sums import GRAIN

Draw = Callable[[Generator, int], Array]


@dataclass(frozen=True, eq=False)
class Drawing:
    """Rows in grains of 1024; grain i comes from a counter-based generator with this `key` at counter i.

    `inputs` draws instead of the law, if it is given. No row lies outside of `box`.
    """

    dim: int
    law: Law
    box: Box | None
    inputs: Draw | None
    key: Array

    def __post_init__(self) -> None:
        if not np.array_equal(self.grain(0), self.grain(0)):
            raise InvalidInput(
                "inputs(rng, n) returned different rows for the same generator.", "Rows may be drawn again in every pass.",
                "Draw from the generator that is passed in, and from nothing else.")

    def rows(self, start: int, stop: int) -> Array:
        """Rows start..stop."""
        x = np.empty((stop - start, self.dim))
        for first in range(start - start % GRAIN, stop, GRAIN):
            low, high = max(start, first), min(stop, first + GRAIN)
            x[low - start : high - start] = self.grain(first // GRAIN)[low - first : high - first]
        return x

    def grain(self, number: int) -> Array:
        """One grain, (GRAIN, dim); drawn with one BLAS thread, since a product in a law could differ in its last bit."""
        rng = Generator(Philox(key=self.key, counter=[0, 0, 0, number]))
        with single_blas_thread():
            if self.inputs is None:
                return self.law.draw(GRAIN, self.dim, rng)
            x = floats(np.asarray(numeric("inputs(rng, n)", self.inputs(rng, GRAIN))))
        finite = bool(np.isfinite(x).all())
        if x.shape != (GRAIN, self.dim) or not finite:
            raise InvalidInput(
                f"inputs(rng, {GRAIN}) returned an array of shape {x.shape}{'' if finite else ' with NaN or infinity'}.",
                f"{GRAIN} finite rows of dimension {self.dim} were asked for.", "Return shape (n, dim).", shape=x.shape)
        if self.box is not None:
            self.box.check(x)
        return x


def drawn_law(law: Law, box: Box | None) -> Law:
    """The law that rows are drawn from: in a box the uniform one."""
    if box is None:
        return law.complete()
    if isinstance(law, Gaussian) and (law.mean is not None or law.cov is not None):
        raise InvalidInput(
            "Inputs of a Gaussian law with a mean or covariance are to be drawn in a box.", "They leave every box.",
            "Leave the law out, and they are uniform in the box; or draw them inside by inputs=.")
    return Uniform(box)
