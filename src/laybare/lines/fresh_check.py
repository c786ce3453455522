"""The end of reading a deep network: it must predict fresh answers, all layers are fitted to them, and it must predict others.

Fresh answers are asked at random inputs of several scales, half of them at random features of the lowest layer, and, for the fit,
on both sides of every unit further up, which random inputs may hardly ever meet. One that is not predicted shows that a unit is
missing, and is a target for the next lines. In networks too large for a joint fit the lowest layer is measured again, and the
layers above it are fitted to its features; if these are too large as well, the second one is measured again
(`laybare.lines.remeasure`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from laybare.lines.assurance import Assured
from laybare.lines.deep_fit import (
    DeepFit,
    DeepParameters,
    LayerErrors,
    answer_sd,
    fit_all_layers,
    fit_biases_and_readout,
    residual_rms_of,
)
from laybare.lines.layer import LayerEstimate
from laybare.lines.model_fit import FIT
from laybare.lines.query import Answers, Purpose, QueryContext
from laybare.lines.remeasure import remeasure_lowest_layer, remeasure_second_layer
from laybare.numerics.shapes import Array
from laybare.source import Samples, Source, Unknown

SCALES = np.array([0.5, 1.0, 2.0, 4.0])
"""Scales of fresh inputs, in units of the inputs' scale. Checked by `laybare reproduce deep-cases`."""

Errors: TypeAlias = tuple[LayerErrors, ...]
"""Of every layer, from the lowest up."""


class CheckResult(NamedTuple):
    """The network after the fit, residuals of fresh answers relative to what is allowed, inputs that contradict it, and how many
    answers at inputs of the law are predicted."""

    fit: DeepFit
    fresh: Array
    targets: Array
    assured: Assured = Assured()


@dataclass(frozen=True, eq=False)
class NetworkChecker:
    """Asks fresh answers at inputs of this scale."""

    context: QueryContext
    spread: float

    def check(self, network: DeepParameters, layers: tuple[LayerEstimate, ...]) -> CheckResult:
        """Fresh answers, the fit if they are predicted, and others."""
        large = _is_large(network)
        errors = tuple(_errors_of_lines(layer) for layer in layers)
        if large:
            network, errors = self._remeasure(network, layers, errors)
        fitted = DeepFit(network, np.inf, np.nan)
        count = int(FIT.fresh_per_parameter * _fitted_parameters(network)) + 20
        fresh = self._ask_fresh(network, count, "polish")
        off = self._relative_residuals(fitted, fresh)
        if (off <= 1.0).all():
            prior = FIT.deep_prior_sds * max(float(layer.sd.max()) for layer in layers)
            fitted = (
                self._fit_upper_layers(network, fresh, layers, prior, errors) if large else
                self._fit_all_layers(network, fresh, layers, prior))
            return self.verify(fitted)
        return CheckResult(fitted, off, fresh.x[off > 1.0][: FIT.max_targets])

    def verify(self, fitted: DeepFit) -> CheckResult:
        """Fresh answers of a network that is fitted, and if they are predicted those at inputs of the law."""
        fresh = self._ask_fresh(fitted.parameters, FIT.fresh_answers, "verify")
        off = self._relative_residuals(fitted, fresh)
        if (off <= 1.0).all():
            return self._assure(fitted, off)
        return CheckResult(fitted, off, fresh.x[off > 1.0][: FIT.max_targets])

    def _assure(self, fitted: DeepFit, before: Array) -> CheckResult:
        """Answers at inputs of the law, after all others were predicted."""
        fresh, assured = self.context.queries.ask_assurance(fitted.parameters.layers[0][0].shape[1], self.context.rng)
        off = self._relative_residuals(fitted, fresh) if len(fresh.x) else np.empty(0)
        targets = fresh.x[off > 1.0][: FIT.max_targets]
        return CheckResult(fitted, np.concatenate([before, off]), targets, Assured() if len(targets) else assured)

    def _remeasure(
        self, network: DeepParameters, layers: tuple[LayerEstimate, ...], errors: Errors
    ) -> tuple[DeepParameters, Errors]:
        """Measure the lowest layer again, and the second one if the layers above the lowest are too large for a fit."""
        network, lowest = remeasure_lowest_layer(self.context, network, spread=self.spread)
        errors = (errors[0].improved(lowest), *errors[1:])
        if not _fits_biases_only(network):
            return network, errors
        network, second = remeasure_second_layer(self.context, network, layers[1], spread=self.spread)
        return network, (errors[0], errors[1].improved(second), *errors[2:])

    def _fit_all_layers(
        self, network: DeepParameters, fresh: Answers, layers: tuple[LayerEstimate, ...], prior: float
    ) -> DeepFit:
        aimed = self._ask_beside_units(layers, network)
        stored = self._stored_answers(max(int(FIT.max_multiplications / network.size**2), len(fresh.x) + len(aimed.x)))
        return fit_all_layers(network, Samples(stored.x, stored.y, Unknown()), self.context.rounding.sd, prior=prior)

    def _fit_upper_layers(
        self, network: DeepParameters, fresh: Answers, layers: tuple[LayerEstimate, ...], prior: float, errors: Errors
    ) -> DeepFit:
        """The layers above the lowest one fitted to its features; biases and readout alone, if these are too many."""
        aimed, (weights, biases) = self._ask_beside_units(layers, network), network.layers[0]
        x, y = np.vstack([fresh.x, aimed.x]), np.vstack([fresh.y, aimed.y])
        if _fits_biases_only(network):
            return self._fit_biases(network, Samples(x, y, Unknown()), errors)
        farthest = x[[np.argmax(np.linalg.norm(x, axis=1))]]

        def sd(h: Array, y: Array) -> Array:
            return self.context.rounding.sd(np.broadcast_to(farthest, (len(h), x.shape[1])), y)

        features = np.maximum(x @ weights.T + biases, 0.0)
        upper = fit_all_layers(_upper_layers(network), Samples(features, y, Unknown()), sd, prior=prior)
        whole = upper.parameters._replace(layers=(network.layers[0], *upper.parameters.layers))
        return DeepFit(whole, max(upper.error_bar, errors[0].largest), upper.rms)

    def _fit_biases(self, network: DeepParameters, source: Source, errors: Errors) -> DeepFit:
        """Biases and readout fitted; the residual is relative to rounding and to the effect of the rows' errors."""
        rows = tuple(layer._replace(biases=np.zeros_like(layer.biases)) for layer in errors)

        def expected(x: Array, y: Array) -> Array:
            return np.asarray(np.hypot(self.context.rounding.sd(x, y), answer_sd(network, rows, x)))

        fitted = fit_biases_and_readout(network, source, expected)
        return DeepFit(fitted, max(layer.largest for layer in errors), residual_rms_of(fitted, source, expected))

    def _ask_beside_units(self, layers: tuple[LayerEstimate, ...], network: DeepParameters) -> Answers:
        """Answers on both sides of every unit above the first layer: as many as its row has weights, if that is fitted."""
        rng, points = self.context.rng, [np.empty((0, layers[0].weights.shape[1]))]
        for layer in layers[1:]:
            space = layer.observed.space
            weights = 0 if _fits_biases_only(network) else space.width
            count = min(3 * space.width, weights + FIT.max_extra_points)
            for surface in layer.observed.known:
                share = rng.random((count, 1))
                between = share * surface.beyond[0] + (1.0 - share) * surface.beyond[1]
                away = np.array([space.random_point(rng) for _ in range(count)])
                aside = FIT.max_aside * 10.0 ** (-3.0 * rng.random((count, 1)))
                points.append((1.0 - aside) * between + aside * away)
        x = np.vstack(points)
        return self.context.queries.ask_where_usable(x, "polish") if len(x) else Answers(x, np.empty((0, len(network.offset))))

    def _stored_answers(self, most: int) -> Answers:
        """The latest answers, as many as the fit has time for; far ones, whose rounding is large, are left out."""
        blocks = list(self.context.queries.answers())[::-1]
        x, y = np.vstack([block.x for block in blocks])[:most], np.vstack([block.y for block in blocks])[:most]
        near = np.linalg.norm(x, axis=1) <= FIT.max_answer_distance * self.spread * np.sqrt(x.shape[1])
        return Answers(x[near], y[near])

    def _ask_fresh(self, network: DeepParameters, count: int, purpose: Purpose) -> Answers:
        """Random inputs of several scales; half of them at random features of the lowest layer."""
        (weights, biases), rng, half = network.layers[0], self.context.rng, count // 2
        x = self.spread * rng.choice(SCALES, (count, 1)) * rng.standard_normal((count, weights.shape[1]))
        h = self.spread * rng.choice(SCALES, (half, 1)) * rng.standard_normal((half, len(biases)))
        x[:half] = (np.maximum(h, -0.3 * self.spread) - biases) @ np.linalg.pinv(weights).T
        return self.context.queries.ask_where_usable(x, purpose)

    def _relative_residuals(self, fitted: DeepFit, fresh: Answers) -> Array:
        """Differences of fresh answers and predictions, relative to what rounding and the error bars allow, (n,)."""
        rounding = self.context.rounding
        off = np.abs(fresh.y - fitted.parameters(fresh.x)).max(axis=1)
        bar = float(np.fmin(fitted.error_bar, min(FIT.max_error_roundings * rounding.unit, FIT.max_used_error)))
        size = np.abs(fitted.parameters.readout).max() * (1.0 + np.linalg.norm(fresh.x, axis=1))
        return np.asarray(off / (FIT.contradiction_sds * rounding.sd(fresh.x, fresh.y) + FIT.allowed_error_bars * bar * size))


def _errors_of_lines(layer: LayerEstimate) -> LayerErrors:
    """The errors of a layer as lines have measured it: a bias is the product of a normal and a place."""
    return LayerErrors(layer.sd, layer.sd * (1.0 + np.abs(layer.biases)) * np.sqrt(layer.weights.shape[1]))


def _is_large(network: DeepParameters) -> bool:
    """Whether not all parameters are fitted."""
    return network.size > FIT.max_deep_parameters and len(network.layers) > 1


def _fits_biases_only(network: DeepParameters) -> bool:
    """Whether only biases and readout are fitted."""
    return _is_large(network) and len(network.layers) == 2 and _upper_layers(network).size > FIT.max_deep_parameters


def _fitted_parameters(network: DeepParameters) -> int:
    """The number of parameters that a fit moves."""
    if _fits_biases_only(network):
        return network.size - sum(weights.size for weights, _ in network.layers)
    return _upper_layers(network).size if _is_large(network) else network.size


def _upper_layers(network: DeepParameters) -> DeepParameters:
    """The layers above the lowest one."""
    return network._replace(layers=network.layers[1:])
