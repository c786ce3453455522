"""The end of reading a deep network: it must predict fresh answers, all layers are fitted to them, and it must predict others.

Fresh answers are asked at random inputs of several scales, half of them at random features of the lowest layer, and, for the
fit, on both sides of every unit further up, which random inputs may hardly ever meet. One that is not predicted shows that a
unit is missing, and is a target for the next lines. Networks too large for a joint fit have their lowest layer measured again
(`laybare.lines.lowest_again`), and the layers above it fitted to its features; if these are too many as well, the second one is
measured again (`laybare.lines.second_again`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator

from laybare.lines.asking import Answers, Purpose, Purse
from laybare.lines.expected_errors import LayerErrors, answer_sd
from laybare.lines.joint_polish import DENSE, Deep, Fitted, misfit_of, polish_deep
from laybare.lines.layers import LayerRead
from laybare.lines.lowest_again import remeasured
from laybare.lines.second_again import second_remeasured
from laybare.lines.shift_polish import polish_shifts
from laybare.shapes import Array
from laybare.source import Samples, Source, Unknown
from laybare.source.rounding import Rounding

FRESH, SCALES = 800, np.array([0.5, 1.0, 2.0, 4.0])
"""Fresh answers that the result must predict, and their scales: what is active on one input in a hundred is then
seen all but surely."""

POLISH_SHARE, WORK, NEAR, PRIOR = 1.3, 3e10, 3e3, 100.0
"""Fresh answers for the polish, relative to the number of parameters; its multiplications at most; how
far out answers are used; what a number may move by if no answer tells it, in standard deviations of the lines."""

SURPRISE, ALLOWED, LOOSE, LOOSEST = 30.0, 1e3, 1e7, 1e-5
"""Standard deviations of rounding, and error bars, within which fresh answers must be predicted; and the largest error bar for
that, in units of rounding, and whatever the rounding."""

ASIDE, AIMED = 0.5, 20
"""Share of a random point in those that are aimed at a unit, at most; and how many there are beyond one a feature, at most."""

TARGETS = 3
"""Inputs that are not predicted, for lines through them."""

Errors: TypeAlias = tuple[LayerErrors, ...]
"""Of every layer, from the lowest up."""


class FreshCheck(NamedTuple):
    """The network after the fit, misfits of fresh answers, and inputs whose answers contradict it."""

    fitted: Fitted
    fresh: Array
    targets: Array


@dataclass(frozen=True, eq=False)
class Checker:
    """Asks fresh answers with one purse."""

    purse: Purse
    rounding: Rounding
    spread: float
    rng: Generator

    def checked(self, network: Deep, reads: tuple[LayerRead, ...]) -> FreshCheck:
        """Fresh answers, the fit if they are predicted, and others."""
        large, errors = network.size > DENSE and len(network.layers) > 1, tuple(_errors_of(read) for read in reads)
        if large:
            network, errors = self._measured_again(network, reads, errors)
        fitted = Fitted(network, np.inf, np.nan)
        fresh = self._ask_fresh(network, int(POLISH_SHARE * (_upper(network) if large else network).size) + 20, "polish")
        off = self._misfits(fitted, fresh)
        if (off <= 1.0).all():
            prior = PRIOR * max(float(read.sd.max()) for read in reads)
            fitted = self._above(network, fresh, reads, prior, errors) if large else self._fitted(network, fresh, reads, prior)
            fresh = self._ask_fresh(network, FRESH, "verify")
            off = self._misfits(fitted, fresh)
        return FreshCheck(fitted, off, fresh.x[off > 1.0][:TARGETS])

    def _measured_again(self, network: Deep, reads: tuple[LayerRead, ...], errors: Errors) -> tuple[Deep, Errors]:
        """The lowest layer from stars, and the second one if what lies above the lowest is too large for a fit as well."""
        network, lowest = remeasured(self.purse, network, self.rounding, spread=self.spread, rng=self.rng)
        errors = (errors[0].improved(lowest), *errors[1:])
        if _upper(network).size <= DENSE:
            return network, errors
        network, second = second_remeasured(self.purse, network, reads[1], self.rounding, self.spread)
        return network, (errors[0], errors[1].improved(second), *errors[2:])

    def _fitted(self, network: Deep, fresh: Answers, reads: tuple[LayerRead, ...], prior: float) -> Fitted:
        aimed = self._ask_aimed(reads, len(network.offset))
        kept = self._kept(max(int(WORK / network.size**2), len(fresh.x) + len(aimed.x)))
        return polish_deep(network, Samples(kept.x, kept.y, Unknown()), self.rounding.sd, prior=prior)

    def _above(self, network: Deep, fresh: Answers, reads: tuple[LayerRead, ...], prior: float, errors: Errors) -> Fitted:
        """The layers above the lowest one fitted to its features; biases and readout alone, if these are too many."""
        aimed, (weights, biases) = self._ask_aimed(reads, len(network.offset)), network.layers[0]
        x, y = np.vstack([fresh.x, aimed.x]), np.vstack([fresh.y, aimed.y])
        if len(network.layers) == 2 and _upper(network).size > DENSE:
            return self._shifted(network, Samples(x, y, Unknown()), errors)
        farthest = x[[np.argmax(np.linalg.norm(x, axis=1))]]

        def sd(h: Array, y: Array) -> Array:
            return self.rounding.sd(np.broadcast_to(farthest, (len(h), x.shape[1])), y)

        features = np.maximum(x @ weights.T + biases, 0.0)
        above = polish_deep(_upper(network), Samples(features, y, Unknown()), sd, prior=prior)
        whole = above.network._replace(layers=(network.layers[0], *above.network.layers))
        return Fitted(whole, max(above.error_bar, errors[0].largest), above.misfit)

    def _shifted(self, network: Deep, source: Source, errors: Errors) -> Fitted:
        """Biases and readout fitted; what is left is compared with rounding and with what the errors of the rows make of it."""
        rows = tuple(layer._replace(biases=np.zeros_like(layer.biases)) for layer in errors)

        def expected(x: Array, y: Array) -> Array:
            return np.asarray(np.hypot(self.rounding.sd(x, y), answer_sd(network, rows, x)))

        fitted = polish_shifts(network, source, expected)
        return Fitted(fitted, max(layer.largest for layer in errors), misfit_of(fitted, source, expected))

    def _ask_aimed(self, reads: tuple[LayerRead, ...], outputs: int) -> Answers:
        """Answers on both sides of every unit above the first layer: random inputs may hardly ever meet it."""
        points = [np.empty((0, reads[0].weights.shape[1]))]
        for read in reads[1:]:
            floor = read.seen.floor
            count = min(3 * floor.width, floor.width + AIMED)
            for surface in read.seen.known:
                share = self.rng.random((count, 1))
                between = share * surface.beyond[0] + (1.0 - share) * surface.beyond[1]
                away = np.array([floor.point(self.rng) for _ in range(count)])
                aside = ASIDE * 10.0 ** (-3.0 * self.rng.random((count, 1)))
                points.append((1.0 - aside) * between + aside * away)
        x = np.vstack(points)
        return Answers(x, self.purse.ask(x, "polish") if len(x) else np.empty((0, outputs)))

    def _kept(self, most: int) -> Answers:
        """The latest answers that were paid for, as many as the polish has time for; far ones carry large rounding."""
        blocks = list(self.purse.answers())[::-1]
        x, y = np.vstack([block.x for block in blocks])[:most], np.vstack([block.y for block in blocks])[:most]
        near = np.linalg.norm(x, axis=1) <= NEAR * self.spread * np.sqrt(x.shape[1])
        return Answers(x[near], y[near])

    def _ask_fresh(self, network: Deep, count: int, purpose: Purpose) -> Answers:
        """Random inputs of several scales; half of them at random features of the lowest layer."""
        weights, biases = network.layers[0]
        x = self.spread * self.rng.choice(SCALES, (count, 1)) * self.rng.standard_normal((count, weights.shape[1]))
        h = self.spread * self.rng.choice(SCALES, (count // 2, 1)) * self.rng.standard_normal((count // 2, len(biases)))
        x[: count // 2] = (np.maximum(h, -0.3 * self.spread) - biases) @ np.linalg.pinv(weights).T
        return Answers(x, self.purse.ask(x, purpose))

    def _misfits(self, fitted: Fitted, fresh: Answers) -> Array:
        """Differences of fresh answers and predictions, relative to what rounding and the error bars allow, (n,)."""
        off = np.abs(fresh.y - fitted.network(fresh.x)).max(axis=1)
        bar = float(np.fmin(fitted.error_bar, min(LOOSE * self.rounding.unit, LOOSEST)))
        size = np.abs(fitted.network.readout).max() * (1.0 + np.linalg.norm(fresh.x, axis=1))
        return np.asarray(off / (SURPRISE * self.rounding.sd(fresh.x, fresh.y) + ALLOWED * bar * size))


def _errors_of(read: LayerRead) -> LayerErrors:
    """As the lines have told a layer: a shift is the product of a normal and a place."""
    return LayerErrors(read.sd, read.sd * (1.0 + np.abs(read.biases)) * np.sqrt(read.weights.shape[1]))


def _upper(network: Deep) -> Deep:
    """The layers above the lowest one."""
    return network._replace(layers=network.layers[1:])
