"""Step and ReLU units at low thresholds, or under a top without linear terms, from where f jumps or bends.

No share of silent rows is needed, and no active set: units are the places (z, t) at which E[f | z·x = s] jumps (steps) or bends
(ReLU) at s = t, found by ascent of the correlation with δ' or δ'' (`printed.delta`). Three things make it work from few samples.
A quadratic fit is subtracted first, and with it what pulls ascents from all sides to the sum of the units. Units are found one
after the other: products of those found enter the fit, which takes their jumps away (their mean along the unit is what a fit
explains), and the next is the largest of what is left. Then every unit ascends again beside all others. ReLU units are fitted
together with the polynomial above them afterwards, to all digits without noise.
Source: Goel and Panigrahy (2019), section 3, Theorems 3 and 6, Corollary 1, appendix C.1; the fits and their order are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.certificate import Claim
from laybare.errors import LaybareError, TooFewSamples
from laybare.lowest_layer import acceptance, tops
from laybare.lowest_layer.acceptance import LayerClaimName, LayerFinding, errors_from_angles
from laybare.lowest_layer.layer_start import ThirdMoments
from laybare.lowest_layer.printed.searches import ASCENT, DeltaOptions, JumpPlaces, ascend_jumps, random_places
from laybare.lowest_layer.union_fit import HalfSpaces
from laybare.moments import Residual, least_squares
from laybare.networks import Layer
from laybare.networks.polynomials import monomials, multilinear
from laybare.numerics.shapes import Array, Sums
from laybare.source import Source


@dataclass(frozen=True, kw_only=True)
class JumpSearch:
    """How units are searched for by their jumps: random `starts` per unit beside those of third moments, and what counts."""

    starts: int = 24
    """Checked by `pytest tests/lowest_layer/test_jumps.py`."""
    least_score: float = 7.0
    """Least jump over its standard error. Measured: `pytest -s tests/lowest_layer/test_jumps.py -k nothing`"""
    rounds: int = 2
    """Ascents of every unit beside all others. Checked by `pytest tests/lowest_layer/test_jumps.py`."""
    thresholds: tuple[float, ...] = (0.5, 1.0, 0.0, 1.5, 2.0)
    """Thresholds at which bends are looked for. Checked by `pytest tests/lowest_layer/test_jumps.py`."""
    options: DeltaOptions = ASCENT

    def find(self, used: Source, fresh: Source, width: int | None, activation: Activation, *, rng: Generator) -> LayerFinding:
        """The layer; both sources are white and have one output. Raises TooFewSamples if no unit stands out."""
        tops.check_one_output(used)
        if activation.degree != 0:
            return self._find_bends(used, fresh, width, activation, rng)
        found = self._one_by_one(used, width, activation, rng)
        for _ in range(self.rounds):
            found = self._ascend_again(used, found, activation)
        layer = acceptance.layer_from_spaces(found.spaces, activation)
        return _step_layer(layer, used, fresh, (self._score_claim(found), acceptance.separation_claim(layer.weights)), found)

    def find_exactly(
        self, used: Source, fresh: Source, width: int | None, activation: Activation, *, rng: Generator
    ) -> LayerFinding | None:
        """The layer, or None if none is found that explains the outputs of fresh rows."""
        try:
            found = self.find(used, fresh, width, activation, rng=rng)
        except LaybareError:
            return None
        return found if all(claim.passed for claim in found.claims) else None

    def _find_bends(self, used: Source, fresh: Source, width: int | None, activation: Activation, rng: Generator) -> LayerFinding:
        """Threshold by threshold: the best places there, or all but one of one more, fitted together with the polynomial above
        them; the first exact fit, or the best."""
        best: tuple[float, LayerFinding] | None = None
        for threshold in self.thresholds:
            places = random_places(used.dim, self.starts, threshold, rng)
            found = ascend_jumps(used, places, order=2, free=False, merge=True, options=self.options).distinct()
            seen = int(np.sum(found.scores >= self.least_score))
            count = seen if width is None else width
            if not 0 < count <= seen:
                continue
            for chosen in combinations(range(min(seen, count + 1)), count):
                some = found.chosen(np.array(chosen))
                layer = acceptance.layer_from_spaces(some.spaces, activation)
                residual, finding = _fit_with_top(layer, used, fresh, (self._score_claim(some),))
                if best is None or residual < best[0]:
                    best = residual, finding
                if residual <= acceptance.ACCEPTANCE.max_residual:
                    return finding
        if best is None:
            raise _no_unit(0, width, self.least_score)
        return best[1]

    def _one_by_one(self, used: Source, width: int | None, activation: Activation, rng: Generator) -> JumpPlaces:
        found = HalfSpaces(np.zeros((0, used.dim)), np.zeros(0))
        best: list[JumpPlaces] = []
        while len(best) < (used.dim if width is None else width):
            rest = _unexplained(used, found, activation)
            starts = _join(random_places(used.dim, self.starts, None, rng), _from_moments(rest, rng) if not best else None)
            places = ascend_jumps(rest, starts, merge=True, options=self.options).distinct()
            if places.scores[0] < self.least_score:
                break
            best.append(_upwards(places.chosen(np.zeros(1, dtype=int))))
            found = _join(found, best[-1].spaces)
        if not best or (width is not None and len(best) < width):
            raise _no_unit(len(best), width, self.least_score)
        return _gather(best)

    def _ascend_again(self, used: Source, found: JumpPlaces, activation: Activation) -> JumpPlaces:
        """Every unit from where it is, at the last width, with all others and their products in the fit."""
        again = []
        for i in range(len(found.jumps)):
            others, own = (found.chosen(np.array(rows, dtype=int)).spaces for rows in (
                [j for j in range(len(found.jumps)) if j != i], [i]))
            rest = _unexplained(used, others, activation)
            width = float(self.options.last_width(used.size, own.thresholds, 1)[0])
            narrow = DeltaOptions(first_width=width, max_steps=2 * self.options.max_steps)
            again.append(_upwards(ascend_jumps(rest, own, options=narrow)))
        return _gather(again)

    def _score_claim(self, found: JumpPlaces) -> Claim:
        least, limit = float(found.scores.min()), self.least_score
        return Claim(
            LayerClaimName.LEAST_JUMP, least, limit, least >= limit, "tested",
            "how far the mean output jumps, or bends, across the hyperplane of the least visible unit.", decisive=True)


def _no_unit(found: int, width: int | None, score: float) -> TooFewSamples:
    return TooFewSamples(
        f"{found} units have a jump of more than {score:g} standard errors" + (f", for width {width}." if width else "."),
        "Units are found where the output jumps, or bends, across a hyperplane.", "Give more samples, or another activation.",
        found=found)


def _upwards(found: JumpPlaces) -> JumpPlaces:
    """Steps that fall along z rise along -z, and are 1 minus the unit; bends have no sign. Thresholds are made positive."""
    turn = np.where(found.spaces.thresholds < 0, -1.0, 1.0)
    return found._replace(spaces=HalfSpaces(turn[:, None] * found.spaces.weights, turn * found.spaces.thresholds))


def _gather(some: list[JumpPlaces]) -> JumpPlaces:
    spaces = HalfSpaces(np.vstack([p.spaces.weights for p in some]), np.concatenate([p.spaces.thresholds for p in some]))
    return JumpPlaces(spaces, np.concatenate([p.jumps for p in some]), np.concatenate([p.errors for p in some]))


def _join(one: HalfSpaces, other: HalfSpaces | None) -> HalfSpaces:
    if other is None:
        return one
    return HalfSpaces(np.vstack([one.weights, other.weights]), np.concatenate([one.thresholds, other.thresholds]))


def _from_moments(rest: Source, rng: Generator) -> HalfSpaces | None:
    """Directions of third moments, as many as inputs, with a threshold of 1; none if the moments refuse."""
    try:
        rows = ThirdMoments()(rest, rest.dim, rng=rng).weights
    except LaybareError:
        return None
    return HalfSpaces(rows, np.ones(len(rows)))


def _unexplained(source: Source, found: HalfSpaces, activation: Activation) -> Residual:
    """What a quadratic, the features of the units found and their products leave of the output."""
    return Residual(source, least_squares(source, _UnitProducts(found, activation)))


@dataclass(frozen=True, eq=False)
class _UnitProducts:
    """1, x, x_i x_j, and all products of up to three features of the units found (squares too where they are not 0 or 1)."""

    found: HalfSpaces
    activation: Activation

    def __call__(self, x: Array) -> Array:
        i, j = np.triu_indices(x.shape[1])
        parts = [np.ones((len(x), 1)), x, x[:, i] * x[:, j]]
        if len(self.found.thresholds):
            units = self.activation(self.found.margins(x))
            parts.append(monomials(multilinear(units.shape[1], min(3, units.shape[1])), units)[:, 1:])
            if self.activation.degree:
                parts.append(units**2)
        return np.hstack(parts)


def _step_layer(layer: Layer, used: Source, fresh: Source, claims: tuple[Claim, ...], found: JumpPlaces) -> LayerFinding:
    """Step units: every cell of the arrangement has one output."""
    top = tops.fit_polynomial(used, layer)
    spread = float(np.sqrt(np.mean(np.square(used.read(0, min(used.size, 4096)).y)))) or 1.0

    def hits(x: Array, y: Array) -> Sums:
        return (np.asarray(np.sum(np.abs(y[:, 0] - top(layer(x))) < 0.1 * spread)),)

    share, least = float(fresh.sum(hits, stage="levels")[0]) / fresh.size, acceptance.ACCEPTANCE.min_tied_share
    level = Claim(
        LayerClaimName.AT_CELL_LEVEL, share, least, share >= least, "tested",
        "fresh rows whose output is the one that the polynomial of the units has in their cell, up to a tenth of the spread; "
        "step units allow no other.", decisive=True)
    widths = ASCENT.last_width(used.size, found.spaces.thresholds, 1)
    errors = errors_from_angles(found.spaces, widths / found.scores * np.sqrt(layer.dim))
    return LayerFinding(layer, (*claims, level), errors, 0.0, top)


def _fit_with_top(layer: Layer, used: Source, fresh: Source, claims: tuple[Claim, ...]) -> tuple[float, LayerFinding]:
    """The residual over the spread of y, and the finding. ReLU units: all parameters at once with the polynomial above them."""
    exponents = multilinear(layer.width, min(layer.width, tops.TOP.product_degree))
    start = tops.joint_model_at(used, layer.weights, -np.asarray(layer.biases), exponents, layer.activation)
    fit = tops.fit_joint(used, start)
    model = fit.joint
    lengths = np.linalg.norm(model.rows[:, :-1], axis=1)
    scaled = Layer(model.rows[:, :-1] / lengths[:, None], model.rows[:, -1] / lengths, layer.activation)
    top: Callable[[Array], Array] = tops.fit_polynomial(used, scaled)
    residual = tops.relative_residual(fresh, lambda x: top(scaled(x)))
    exact = acceptance.residual_claim(residual, fresh.size)
    noise = float(np.sqrt(fit.loss / used.size))
    errors = noise * np.sqrt(np.abs(np.diag(np.linalg.pinv(fit.normal)))[: model.rows.size]).reshape(model.rows.shape)
    made = (*claims, exact, acceptance.separation_claim(scaled.weights))
    return residual, LayerFinding(scaled, made, errors / lengths[:, None], 0.0 if exact.passed else noise, top)
