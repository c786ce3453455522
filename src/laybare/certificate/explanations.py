"""What else could explain the residual? Score tests against the usual ways to be outside of the class, and the likeliest reason.

The residual is regressed on features that the network does not have: squares and products of inputs (polynomials), steps
(trees), functions of the output (clipping, links, another layer), bumps at every unit (another activation), random units (missing
ones). What the network's own features explain, and while there are few parameters all its tangents, is taken out of them first.

Each set is tested twice: by F, exact for Gaussian noise of one size, and by Hotelling's T² of the products (feature times
residual), which asks only that rows are independent (Wooldridge 1991). A set counts only if both say so: noise that varies
deceives the first, few rows the second. Of sets in which the first sees nothing, the second is not computed.

Of very many rows some are tested. What is suspicious there, as chance often makes it, is tested again on others, twice as many if
there are: structure shows there too, and more clearly; chance does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import chdtrc, chdtri, fdtrc

from laybare.certificate.certificate import RULES, Claim, ClaimName
from laybare.certificate.fitted_network import FittedNetwork
from laybare.numerics.levels import TINY
from laybare.numerics.linear_algebra import Precision, solve_spd
from laybare.numerics.shapes import Array, Sums
from laybare.solver.normal import outputs_of, pre_activations, with_ones
from laybare.solver.point import Point
from laybare.source import Source
from laybare.source.problem import PROBLEM


@dataclass(frozen=True, kw_only=True)
class FeatureOptions:
    """The features that the residual is regressed on."""

    max_tangents: int = 300
    """Parameters up to which features are freed of all tangents of the network; also products of inputs. Checked by
    `make bench`."""
    step_places: tuple[float, ...] = (-0.67, 0.0, 0.67)  # Derived: quartiles of white Gaussian inputs.
    bump_widths: tuple[float, ...] = (0.4, 1.2)  # In standard deviations of the inputs. Checked by `laybare reproduce hostile`.
    max_output: float = 100.0
    """Outputs are clipped to this number of standard deviations of y. Convention: keeps cubes finite in single precision."""
    random_units: int = 100  # Checked by `laybare reproduce hostile`.
    new_share: float = 1e-8
    """Least share of a feature's square that is new beside the network's own. Derived: the root of the rounding of a double."""
    new_share_single: float = 1e-4  # The same in single precision. Derived: the root of the rounding of a single, rounded down.


FEATURES = FeatureOptions()


class Alternative(NamedTuple):
    """The set of features that explains most: name, size, the share of the residual of an output that it explains, -log10 of the
    chance of that, the number of tests, and the output."""

    name: str
    features: int
    share: float
    evidence: float
    tests: int
    output: int = 0

    @property
    def suspicious(self) -> bool:
        return self.evidence - math.log10(max(self.tests, 1)) >= RULES.suspicious_evidence

    def among_dependent_rows(self, design_effect: float) -> Alternative:
        """The same where rows count as fewer by this factor: its χ² is smaller by that."""
        if design_effect <= 1.0 or not self.features:
            return self
        smaller = chdtri(self.features, 10.0**-self.evidence) / design_effect
        return self._replace(evidence=_minus_log10(float(chdtrc(self.features, smaller))))


class ResidualStructure(NamedTuple):
    """The strongest set of features, and new units (rows w, b), those first that explain most of the residual alone."""

    strongest: Alternative
    units: Array


def strongest_alternative(fitted: FittedNetwork, probes: Array, view: Source) -> ResidualStructure:
    """The strongest of all sets of features over all outputs, on the rows of `view`; one or two passes.

    `probes` are rows (w, b) of random units, which are put in order.
    """
    plan = _plan(fitted, probes)
    names = tuple(plan.sets)
    gram, moment, loss = view.sum(_Features(plan), stage="certificate")
    q = plan.own
    columns = np.concatenate([np.arange(len(fitted.point.coefficients)), np.arange(len(gram) - len(probes), len(gram))])
    alone = single_feature_gains(gram[np.ix_(columns, columns)], moment[columns], len(fitted.point.coefficients))
    units = probes[np.argsort(-alone)]
    back = solve_spd(gram[:q, :q], np.hstack([gram[:q, q:], moment[:q]]))
    new = gram[q:, q:] - gram[q:, :q] @ back[:, : len(gram) - q]
    scores = moment[q:] - gram[q:, :q] @ back[:, len(gram) - q :]
    share = FEATURES.new_share if plan.dtype is np.float64 else FEATURES.new_share_single
    kept = np.diag(new) > share * np.maximum(np.diag(gram)[q:], TINY)
    tests, rows = len(names) * fitted.used.outputs, view.size
    found = [Alternative("", 0, 0.0, 0.0, tests)]
    for name, o in product(names, range(fitted.used.outputs)):
        chosen = plan.sets[name][kept[plan.sets[name]]]
        if len(chosen) and rows - q > 2 * len(chosen):
            own = np.ix_(chosen, chosen)
            share, plain = _f_test(new[own], scores[chosen, o], float(loss[o]), rows - q - len(chosen))
            found.append(Alternative(name, len(chosen), share, plain, tests, o))
    best = max(found, key=lambda one: one.evidence)
    if not best.suspicious:
        return ResidualStructure(best, units)
    doubted = sorted({one.name for one in found if one.suspicious})
    scatters = view.sum(_ScoreScatter(plan, back[:, : len(gram) - q], tuple(doubted)), stage="certificate")
    both = [one for one in found if not one.suspicious]
    for one in (one for one in found if one.suspicious):
        of_set, chosen = plan.sets[one.name], kept[plan.sets[one.name]]
        scatter = scatters[doubted.index(one.name)][one.output][np.ix_(chosen, chosen)] * (rows / (rows - q))
        both.append(one._replace(evidence=min(one.evidence, _hotelling_test(scatter, scores[of_set[chosen], one.output], rows))))
    return ResidualStructure(max(both, key=lambda one: one.evidence), units)


def single_feature_gains(gram: Array, moment: Array, q: int) -> Array:
    """What each feature from number q on explains if it is added alone to the first q; reads the diagonal of their own Gram."""
    solved = solve_spd(gram[:q, :q], np.hstack([moment[:q], gram[:q, q:]]))
    m = moment.shape[1]
    left = moment[q:] - gram[q:, :q] @ solved[:, :m]
    whole = np.diag(gram)[q:]
    own = np.maximum(whole - np.sum(gram[:q, q:] * solved[:, m:], axis=0), 1e-10 * whole)
    alone: Array = np.sum(left * left, axis=1) / np.maximum(own, TINY)  # a unit that is never active explains 0
    return alone


class _FeaturePlan(NamedTuple):
    """The features: the network's (`own` columns, with or without tangents), then the sets, by column."""

    point: Point
    probes: Array
    tangents: bool
    products: bool
    own: int
    centre: Array
    scale: float
    sets: dict[str, Array]
    dtype: Precision


def _plan(fitted: FittedNetwork, probes: Array) -> _FeaturePlan:
    point, d, m = fitted.point, fitted.used.dim, fitted.used.outputs
    q = len(point.coefficients)
    tangents = q + point.units.size <= min(FEATURES.max_tangents, fitted.used.size // 2)
    own = q + tangents * point.units.size
    room = max(1, (fitted.used.size - own) // 4)
    products = d * (d + 1) // 2 <= min(room, FEATURES.max_tangents)
    steps, bumps = len(FEATURES.step_places), len(FEATURES.bump_widths)
    counts = {
        "squares of inputs": d, "products of inputs": products * (d * (d - 1) // 2), "steps of inputs": steps * d,
        "functions of the output": 4 * m, "bumps at the units": 2 * bumps * point.width, "further units": len(probes)}
    at, sets = 0, {}
    for name, count in counts.items():
        if 0 < count <= room:
            sets[name] = np.arange(at, at + count)
        at += count
    return _FeaturePlan(point, probes, tangents, products, own, *_output_level(fitted), sets, fitted.precision)


def _output_level(fitted: FittedNetwork) -> tuple[Array, float]:
    """Mean of the network's outputs, and the standard deviation of y."""
    ones = fitted.fit.gram[fitted.point.width]  # the feature that is one everywhere
    return ones @ fitted.point.coefficients / float(fitted.fit.rows), float(np.sqrt(fitted.output_variance))


def _columns(plan: _FeaturePlan, x: Array) -> tuple[Array, Array]:
    """The network's own columns with the new features behind them, in the precision of the plan, and its outputs."""
    point, n, dtype = plan.point, len(x), plan.dtype
    X1 = with_ones(point, x, dtype)
    z = X1[:, : point.units.shape[1] - point.biases]
    U = pre_activations(point, X1)
    H, S = point.activation.value_and_slope(U)
    own = [H, *([X1[:, -1:]] if point.offset else []), *([z] if point.linear else [])]
    outputs = outputs_of(point, X1, H)
    if plan.tangents:
        own.append((S[:, :, None] * X1[:, None, : point.units.shape[1]]).reshape(n, point.units.size))
    s = np.clip((outputs - plan.centre) / plan.scale, -FEATURES.max_output, FEATURES.max_output).astype(dtype, copy=False)
    lengths = np.linalg.norm(point.units[:, : z.shape[1]], axis=1)
    g = U / np.where(lengths > 0.0, lengths, 1.0).astype(dtype)
    bells = [np.exp(-0.5 * (g / width) ** 2) for width in FEATURES.bump_widths]
    new = [z * z]
    if plan.products:
        i, j = np.triu_indices(z.shape[1], 1)
        new.append(z[:, i] * z[:, j])
    new += [(z > place).astype(dtype) for place in FEATURES.step_places]
    new += [s**2, s**3, np.maximum(s - 1.0, 0.0), np.maximum(-1.0 - s, 0.0)]
    further = point.activation.in_precision(X1[:, : point.units.shape[1]] @ plan.probes.T.astype(dtype))
    new += [*bells, *(g * bell for bell in bells), further]
    return np.hstack([*own, *new]), outputs


class _InPlanPrecision:
    """A statistic in the precision of its plan."""

    plan: _FeaturePlan

    @property
    def single(self) -> bool:
        return self.plan.dtype is np.float32


@dataclass(frozen=True, eq=False)
class _Features(_InPlanPrecision):
    """(z, y) -> Gram matrix of all columns, its product with the residual, the residual's squares by output.

    Products of features from different sets are not needed and left zero.
    """

    plan: _FeaturePlan

    @property
    def row_floats(self) -> int:
        return 2 * _width(self.plan)

    def __call__(self, x: Array, y: Array) -> Sums:
        columns, outputs = _columns(self.plan, x)
        r, q = y - outputs, self.plan.own
        gram = np.zeros((columns.shape[1],) * 2)
        own = columns[:, :q]
        gram[:q, :q], gram[:q, q:] = own.T @ own, own.T @ columns[:, q:]
        gram[q:, :q] = gram[:q, q:].T
        np.fill_diagonal(gram[q:, q:], np.einsum("nf,nf->f", columns[:, q:], columns[:, q:]))
        for chosen in self.plan.sets.values():
            new = slice(q + int(chosen[0]), q + int(chosen[-1]) + 1)
            gram[new, new] = columns[:, new].T @ columns[:, new]
        moment = columns.T @ r.astype(columns.dtype, copy=False)
        return gram, moment.astype(np.float64, copy=False), np.sum(r * r, axis=0)


@dataclass(frozen=True, eq=False)
class _ScoreScatter(_InPlanPrecision):
    """(z, y) -> for each of these sets, and every output, Σ r² φ̃ φ̃ᵀ, the new features φ̃ freed of the network's own."""

    plan: _FeaturePlan
    back: Array
    names: tuple[str, ...]

    @property
    def row_floats(self) -> int:
        return 3 * _width(self.plan)

    def __call__(self, x: Array, y: Array) -> Sums:
        columns, outputs = _columns(self.plan, x)
        residuals = (y - outputs).astype(columns.dtype, copy=False)
        new = columns[:, self.plan.own :] - columns[:, : self.plan.own] @ self.back.astype(columns.dtype, copy=False)
        squares = []
        for features in (new[:, self.plan.sets[name]] for name in self.names):
            weighted = (features * r[:, None] for r in residuals.T)
            squares.append(np.stack([scores.T @ scores for scores in weighted]).astype(np.float64, copy=False))
        return tuple(squares)


def _width(plan: _FeaturePlan) -> int:
    return plan.own + 1 + max((int(columns.max()) for columns in plan.sets.values()), default=0)


def _f_test(gram: Array, score: Array, loss: float, free: int) -> tuple[float, float]:
    """Share of the residual that is explained, and -log10 of the F test's chance."""
    explained = min(max(float(score @ solve_spd(gram, score)), 0.0), loss)
    share = explained / loss if loss > 0.0 else 0.0
    ratio = (share / len(score)) / max((1.0 - share) / free, 1e-300)
    return share, _minus_log10(float(fdtrc(len(score), free, ratio)))


def _hotelling_test(squares: Array, score: Array, rows: int) -> float:
    """-log10 of the chance of Hotelling's T²."""
    plain = min(max(float(score @ solve_spd(squares, score)), 0.0), rows * (1.0 - 1e-12))
    squared = plain / (1.0 - plain / rows)
    return _minus_log10(float(fdtrc(len(score), rows - len(score), squared * (rows - len(score)) / (len(score) * (rows - 1.0)))))


def _minus_log10(chance: float) -> float:
    return float(-np.log10(max(chance, 1e-300)))


def find_residual_structure(fitted: FittedNetwork, rng: Generator) -> ResidualStructure:
    """What explains the residual best, if it is more than rounding: features, at most a quarter as many as it has degrees of
    freedom, and random units by themselves."""
    point = fitted.point
    if fitted.exact:
        return ResidualStructure(Alternative("", 0, 0.0, 0.0, 1), np.empty((0, point.units.shape[1])))
    room = fitted.degrees_of_freedom // (4 * fitted.used.outputs)
    probes = _random_units(point, max(1, min(FEATURES.random_units, room)), rng)
    found = strongest_alternative(fitted, probes, fitted.residual_rows)
    decided = not found.strongest.suspicious or residual_structure_claim(found.strongest).decisive
    if fitted.residual_rows is fitted.used or decided:
        return found
    return found._replace(strongest=strongest_alternative(fitted, found.units, fitted.confirmation_rows).strongest)


def _random_units(point: Point, count: int, rng: Generator) -> Array:
    """Random directions on white inputs, rows as long as those of the network, biases N(0, 1)."""
    dim = point.units.shape[1] - point.biases
    lengths = np.linalg.norm(point.units[:, :dim], axis=1)
    rows = rng.standard_normal((count, dim))
    rows *= (float(np.median(lengths)) if len(lengths) else 1.0) / np.linalg.norm(rows, axis=1)[:, None]
    return np.column_stack([rows, rng.standard_normal(count)]) if point.biases else rows


def residual_structure_claim(found: Alternative) -> Claim:
    """The strongest set of features against chance, over all sets and outputs."""
    tests = float(np.log10(max(found.tests, 1)))
    doubting, refuting = RULES.doubting_evidence + tests, RULES.refuting_evidence + tests
    empty = "nothing but rounding is left" if found.tests else "the rows are too few for any test"
    text = (
        f"{found.name} ({found.features}) explain {found.share:.2g} of the residual; the number is -log10 of the chance that "
        f"noise lets them, of {found.tests} tests" if found.name else empty)
    return Claim(
        ClaimName.RESIDUAL_STRUCTURE, found.evidence, doubting, found.evidence <= doubting, "tested",
        f"{text}; a missed or wrong unit, another activation or another kind of function leaves more. Beyond "
        f"{refuting:.3g} the network is refuted.", decisive=found.evidence > refuting)


UNITS_MISSING = "units are missing: give a larger width, or none"

BY_FEATURES = {
    "squares of inputs": "the outputs have squares of inputs in them: a polynomial, or units of another kind",
    "products of inputs": "the outputs have products of inputs in them: a polynomial, or a network of several layers",
    "steps of inputs": "the outputs jump at values of single inputs: a tree, or units that are steps; try recover_layer with "
    "HighThreshold(activation=step)",
    "functions of the output": "the outputs are a function of such a network: a link (try the logit or the logarithm of y), "
    "clipped labels, or another layer",
    "bumps at the units": "the units bend in another way: try another activation, tanh or softplus for smooth functions, relu "
    "for kinks",
    "further units": UNITS_MISSING}
"""Reasons by the set of features that explains most of the residual."""


def likely_reason(fitted: FittedNetwork, features: str, missing: bool) -> str:
    """The first reason that the labels, the fit, or the features that explain the residual show.

    `missing`: a further unit is real, which is also so where units only approximate the function.
    """
    y = fitted.used.read(0, min(fitted.used.size, PROBLEM.grid_rows)).y
    if len(np.unique(y)) <= RULES.few_label_values < len(y):
        return "the labels have few values: classes or steps; ask for log-odds, or try recover_layer with step units."
    if fitted.explained < RULES.min_explained:
        return "the inputs explain next to nothing of y: it is noise, or a function too wild for these samples."
    if float(y.min()) >= 0.0 and float(y.max()) <= 1.0 and float(y.max() - y.min()) > 0.5:
        return "the outputs lie between 0 and 1, as probabilities do: try the logit, log(y / (1 - y))."
    by_features = BY_FEATURES.get(features, "the search did not find the best fit: try more samples, a width or another rng")
    or_units = f"; or {UNITS_MISSING}" if missing and UNITS_MISSING not in by_features else ""
    return f"{by_features}{or_units}."
