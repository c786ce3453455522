"""What else could explain the residual? Score tests against the usual ways to be outside of the class.

The residual is regressed on features that the network does not have: squares and products of inputs (polynomials), steps
(trees), functions of the output (clipping, links, another layer), bumps at every unit (another activation), random units (missing
ones). What the network's own features and, while there are few parameters, all its tangents explain is taken out of them first.

Each set is tested twice: by F, which is exact for Gaussian noise that is the same everywhere, and by Hotelling's T² of the
products (feature times residual), which asks only that rows are independent (Wooldridge 1991). A set counts as having found
something only if both say so: noise that varies deceives the first, few rows the second. Where the first sees nothing, the
second is not asked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import fdtrc

from laybare.certificate.fitted import State
from laybare.linear_algebra import Precision, solve_spd
from laybare.refinement.normal import Point, outputs_of, pre_activations, with_ones
from laybare.shapes import Array, Sums
from laybare.source import Source

TANGENTS = 300
"""Parameters up to which features are freed of all tangents of the network, not of its own features alone."""

PLACES = (-0.67, 0.0, 0.67)
"""Steps at the quartiles of white Gaussian inputs."""

BUMPS = (0.4, 1.2)
"""Widths of bumps at a unit, in standard deviations of the inputs."""

FAR = 100.0
"""Outputs beyond so many standard deviations of y are taken as that."""

SUSPICIOUS = 0.5
"""-log10 of the chance of what is left, all tests counted, from which more is asked. Right networks often come so far, by
chance."""

NEW, NEW_SINGLE = 1e-8, 1e-4
"""Share of a feature's square that must be new beside the network's own, in either precision."""


class Alternative(NamedTuple):
    """The set of features that explains most: its name, how many they are, the share of the residual of an output, -log10 of its
    chance, how many tests there were, and which output it is."""

    name: str
    features: int
    share: float
    evidence: float
    tests: int
    output: int = 0

    @property
    def suspicious(self) -> bool:
        return self.evidence - math.log10(max(self.tests, 1)) >= SUSPICIOUS


class Left(NamedTuple):
    """The most telling set of features, and new units (rows w, b), those first that explain most of the residual alone."""

    most: Alternative
    units: Array


def strongest_alternative(state: State, probes: Array, view: Source) -> Left:
    """The most telling of all sets of features over all outputs; one or two passes over these rows, which may be some of those
    that were used.

    `probes` are rows (w, b) of random units, which are put in order.
    """
    plan = _plan(state, probes)
    names = tuple(plan.sets)
    gram, moment, loss = view.sum(_Features(plan), stage="certificate")
    q = plan.own
    columns = np.concatenate([np.arange(len(state.point.coefficients)), np.arange(len(gram) - len(probes), len(gram))])
    alone = gains_alone(gram[np.ix_(columns, columns)], moment[columns], len(state.point.coefficients))
    units = probes[np.argsort(-alone)]
    back = solve_spd(gram[:q, :q], np.hstack([gram[:q, q:], moment[:q]]))
    new = gram[q:, q:] - gram[q:, :q] @ back[:, : len(gram) - q]
    scores = moment[q:] - gram[q:, :q] @ back[:, len(gram) - q :]
    kept = np.diag(new) > (NEW if plan.dtype is np.float64 else NEW_SINGLE) * np.maximum(np.diag(gram)[q:], np.finfo(float).tiny)
    tests, rows = len(names) * state.view.outputs, view.size
    found = [Alternative("", 0, 0.0, 0.0, tests)]
    for name, o in product(names, range(state.view.outputs)):
        chosen = plan.sets[name][kept[plan.sets[name]]]
        if len(chosen) and rows - q > 2 * len(chosen):
            own = np.ix_(chosen, chosen)
            share, plain = _plain(new[own], scores[chosen, o], float(loss[o]), rows - q - len(chosen))
            found.append(Alternative(name, len(chosen), share, plain, tests, o))
    best = max(found, key=lambda one: one.evidence)
    if not best.suspicious:
        return Left(best, units)
    (squares,) = view.sum(_Squares(plan, back[:, : len(gram) - q]), stage="certificate")
    both = found[:1]
    for one in found[1:]:
        chosen = plan.sets[one.name][kept[plan.sets[one.name]]]
        scatter = squares[one.output][np.ix_(chosen, chosen)] * (rows / (rows - q))
        both.append(one._replace(evidence=min(one.evidence, _robust(scatter, scores[chosen, one.output], rows))))
    return Left(max(both, key=lambda one: one.evidence), units)


def gains_alone(gram: Array, moment: Array, q: int) -> Array:
    """What each feature from number q on explains if it is added alone to the first q; of its Gram matrix with the other new ones
    the diagonal is needed."""
    solved = solve_spd(gram[:q, :q], np.hstack([moment[:q], gram[:q, q:]]))
    m = moment.shape[1]
    left = moment[q:] - gram[q:, :q] @ solved[:, :m]
    whole = np.diag(gram)[q:]
    own = np.maximum(whole - np.sum(gram[:q, q:] * solved[:, m:], axis=0), 1e-10 * whole)
    alone: Array = np.sum(left * left, axis=1) / np.maximum(own, np.finfo(float).tiny)  # a unit that is never on explains 0
    return alone


class _Plan(NamedTuple):
    """Which features are formed: the network's (`own` columns, tangents among them or not), then the sets, by column."""

    point: Point
    probes: Array
    tangents: bool
    products: bool
    own: int
    centre: Array
    scale: float
    sets: dict[str, Array]
    dtype: Precision


def _plan(state: State, probes: Array) -> _Plan:
    point, d, m = state.point, state.view.dim, state.view.outputs
    q = len(point.coefficients)
    tangents = q + point.units.size <= min(TANGENTS, state.view.size // 2)
    own = q + tangents * point.units.size
    room = max(1, (state.view.size - own) // 4)
    products = d * (d + 1) // 2 <= min(room, TANGENTS)
    counts = {
        "squares of inputs": d, "products of inputs": products * (d * (d - 1) // 2), "steps of inputs": len(PLACES) * d,
        "functions of the output": 4 * m, "bumps at the units": 2 * len(BUMPS) * point.width, "further units": len(probes)}
    at, sets = 0, {}
    for name, count in counts.items():
        if 0 < count <= room:
            sets[name] = np.arange(at, at + count)
        at += count
    return _Plan(point, probes, tangents, products, own, *_level(state), sets, state.precision)


def _level(state: State) -> tuple[Array, float]:
    """Mean of the network's outputs, and the standard deviation of y."""
    ones = state.fit.gram[state.point.width]  # the feature that is one everywhere
    return ones @ state.point.coefficients / float(state.fit.rows), float(np.sqrt(state.variance))


def _columns(plan: _Plan, x: Array) -> tuple[Array, Array]:
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
    s = np.clip((outputs - plan.centre) / plan.scale, -FAR, FAR).astype(dtype, copy=False)
    lengths = np.linalg.norm(point.units[:, : z.shape[1]], axis=1)
    g = U / np.where(lengths > 0.0, lengths, 1.0).astype(dtype)
    bells = [np.exp(-0.5 * (g / width) ** 2) for width in BUMPS]
    new = [z * z]
    if plan.products:
        i, j = np.triu_indices(z.shape[1], 1)
        new.append(z[:, i] * z[:, j])
    new += [(z > place).astype(dtype) for place in PLACES]
    new += [s**2, s**3, np.maximum(s - 1.0, 0.0), np.maximum(-1.0 - s, 0.0)]
    further = point.activation.in_precision(X1[:, : point.units.shape[1]] @ plan.probes.T.astype(dtype))
    new += [*bells, *(g * bell for bell in bells), further]
    return np.hstack([*own, *new]), outputs


class _OfPlan:
    """In the precision of a plan."""

    plan: _Plan

    @property
    def single(self) -> bool:
        return self.plan.dtype is np.float32


@dataclass(frozen=True, eq=False)
class _Features(_OfPlan):
    """(z, y) -> Gram matrix of all columns, its product with the residual, the residual's squares by output.

    Products of features from different sets, which nobody asks for, are left zero.
    """

    plan: _Plan

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
class _Squares(_OfPlan):
    """(z, y) -> for every output Σ r² φ̃ φ̃ᵀ, the new features φ̃ freed of the network's own."""

    plan: _Plan
    back: Array

    @property
    def row_floats(self) -> int:
        return 3 * _width(self.plan)

    def __call__(self, x: Array, y: Array) -> Sums:
        columns, outputs = _columns(self.plan, x)
        new = columns[:, self.plan.own :] - columns[:, : self.plan.own] @ self.back.astype(columns.dtype, copy=False)
        weighted = [new * r[:, None] for r in (y - outputs).astype(columns.dtype, copy=False).T]
        return (np.stack([scores.T @ scores for scores in weighted]).astype(np.float64, copy=False),)


def _width(plan: _Plan) -> int:
    return plan.own + 1 + max((int(columns.max()) for columns in plan.sets.values()), default=0)


def _plain(gram: Array, score: Array, loss: float, free: int) -> tuple[float, float]:
    """Share of the residual that is explained, and -log10 of the F test's chance."""
    explained = min(max(float(score @ solve_spd(gram, score)), 0.0), loss)
    share = explained / loss if loss > 0.0 else 0.0
    ratio = (share / len(score)) / max((1.0 - share) / free, 1e-300)
    return share, _digits(float(fdtrc(len(score), free, ratio)))


def _robust(squares: Array, score: Array, rows: int) -> float:
    """-log10 of the chance of Hotelling's T²."""
    plain = min(max(float(score @ solve_spd(squares, score)), 0.0), rows * (1.0 - 1e-12))
    squared = plain / (1.0 - plain / rows)
    return _digits(float(fdtrc(len(score), rows - len(score), squared * (rows - len(score)) / (len(score) * (rows - 1.0)))))


def _digits(chance: float) -> float:
    return float(-np.log10(max(chance, 1e-300)))
