"""Smooth units (sigmoid, softplus, …) and exponential ones from samples, where no row is silent."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.certificate import Claim
from laybare.errors import TooFewSamples
from laybare.levels import GRAM, SOLVED_LOSS
from laybare.lowest_layer import acceptance
from laybare.lowest_layer.cliques import blocks, correlation_graph, correlations
from laybare.lowest_layer.finding import LayerFinding
from laybare.lowest_layer.joint_fit import Joint, JointFit, fit_joint, joint_start
from laybare.lowest_layer.polynomial_above import check_one_output, exact_on_fresh, polynomial_above, relative_residual
from laybare.lowest_layer.start import LayerStart, ThirdMoments, count_units
from laybare.moments import Residual, fit_hermite
from laybare.networks import Layer
from laybare.networks.polynomials import Polynomial, multilinear, with_powers
from laybare.shapes import Array, Progress, Sums
from laybare.source import Source

THRESHOLDS = (4.0, 2.5, 6.0, 1.0)
"""First guesses of the common threshold; the fit is run from the best two or three until one is exact."""

TRIED = 3
FEWEST_ROWS, ROWS_A_NUMBER = 6000, 20
"""Rows of the joint fit: so many, and so many for each unknown; more only cost time when there is no noise."""

OPEN = GRAM
"""Smallest eigenvalue of the normal matrix (diagonal scaled to 1) at which every number is still determined."""


class SmoothChoices(NamedTuple):
    """Choices of this route: products of how many units, and powers of single units, the top may have."""

    activation: Activation
    start: LayerStart
    degree: int
    powers: int = 1


def find_smooth(
    used: Source, fresh: Source, width: int | None, choices: SmoothChoices, *, rng: Generator, progress: Progress | None
) -> LayerFinding:
    """Directions from the third moments of what a linear fit leaves, then all parameters at once; both sources are white."""
    check_one_output(used)
    told = count_units(Residual(used, fit_hermite(used, 1))) if width is None else width
    exponents = with_powers(multilinear(told, choices.degree), choices.powers)
    unknowns = told * (used.dim + 1) + len(exponents)
    if used.size < 2 * unknowns:
        raise TooFewSamples(
            f"{used.size:,} samples for {unknowns} unknowns.", "A fit needs more equations than unknowns.",
            f"Give at least {ROWS_A_NUMBER * unknowns:,} samples.", samples=used.size, unknowns=unknowns)
    wanted = max(FEWEST_ROWS, ROWS_A_NUMBER * unknowns)
    part = used if used.size <= wanted else used.split(wanted / used.size, rng=rng).first
    fit: JointFit | None = None
    for start in _starts(choices.start):
        one = _best(part, start(used, told, rng=rng).weights, exponents, choices.activation, progress)
        fit = one if fit is None or one.loss < fit.loss else fit
        if fit.trace.loss < SOLVED_LOSS:
            break
    assert fit is not None
    joint = facing_down(fit.joint) if choices.powers == 1 else fit.joint
    return LayerFinding(joint.layer, _claims(joint, fit, part, fresh), _errors(fit, part), _noise(fit, part), joint.top)


def _starts(start: LayerStart) -> tuple[LayerStart, ...]:
    """Third moments after a linear fit, then, if they did not lead to an exact fit, with the fourth ones beside them."""
    if not isinstance(start, ThirdMoments):
        return (start,)
    return replace(start, linear=True), replace(start, linear=True, fourth=True)


def _best(source: Source, weights: Array, exponents: Array, activation: Activation, progress: Progress | None) -> JointFit:
    """The fit with the smallest loss, from the most promising thresholds; the first exact one ends the search."""
    starts = [
        joint_start(source, weights, np.full(len(weights), threshold), exponents, activation) for threshold in THRESHOLDS]
    ranked = sorted(starts, key=lambda start: _loss(source, start))
    best: JointFit | None = None
    for start in ranked[:TRIED]:
        fit = fit_joint(source, start, progress=progress)
        best = fit if best is None or fit.loss < best.loss else best
        if best.trace.loss < SOLVED_LOSS:
            break
    assert best is not None
    return best


def _loss(source: Source, joint: Joint) -> float:
    def squares(x: Array, y: Array) -> Sums:
        return (np.asarray(np.sum((y[:, 0] - joint(x)) ** 2)),)

    return float(source.sum(squares, stage="loss")[0])


def facing_down(joint: Joint) -> Joint:
    """Thresholds above 0 where that is free: act(-u) = 2·centre - act(u), and multilinear tops are closed under X → 2·centre -
    X."""
    centre = joint.activation.centre
    turned = joint.rows[:, -1] > 0
    if centre is None or not turned.any():
        return joint
    rows = np.where(turned[:, None], -joint.rows, joint.rows)
    exponents = [tuple(row) for row in joint.top.exponents.tolist()]
    coefficients = dict.fromkeys(exponents, 0.0)
    for exponent, value in zip(exponents, joint.top.coefficients, strict=True):
        for kept, factor in _expanded(exponent, turned, 2.0 * centre):
            coefficients[kept] += factor * float(value)
    return joint._replace(rows=rows, top=Polynomial(joint.top.exponents, np.array(list(coefficients.values()))))


def _expanded(exponent: tuple[int, ...], turned: Array, sum_: float) -> list[tuple[tuple[int, ...], float]]:
    """Π (s - X_i over turned i) Π (X_i over the others), as monomials and factors."""
    terms: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
    for power, flip in zip(exponent, turned, strict=True):
        if power and flip:
            terms = [term for kept, factor in terms for term in (((*kept, 1), -factor), ((*kept, 0), sum_ * factor))]
        else:
            terms = [((*kept, int(power)), factor) for kept, factor in terms]
    return terms


def _noise(fit: JointFit, source: Source) -> float:
    return float(np.sqrt(fit.loss / max(1, source.size - len(fit.normal))))


def _errors(fit: JointFit, source: Source) -> Array:
    """Standard errors of the rows, from the inverse normal matrix."""
    size = fit.joint.rows.size
    covariance = np.diag(np.linalg.pinv(fit.normal, hermitian=True))[:size]
    return _noise(fit, source) * np.sqrt(np.maximum(covariance, 0.0)).reshape(fit.joint.rows.shape)


def _claims(joint: Joint, fit: JointFit, used: Source, fresh: Source) -> tuple[Claim, ...]:
    relative = relative_residual(fresh, lambda x: joint.top(joint.layer(x)))
    ratio = (relative + 1e-12) / (float(np.sqrt(fit.trace.loss)) + 1e-12)
    limit = 1.0 + acceptance.SIGMAS * float(np.sqrt(2.0 / fresh.size)) + len(fit.normal) / used.size
    scale = 1.0 / np.sqrt(np.maximum(np.diag(fit.normal), np.finfo(float).tiny))
    lowest = float(np.linalg.eigvalsh(fit.normal * scale[:, None] * scale)[0])
    directions = joint.rows[:, :-1] / np.maximum(np.linalg.norm(joint.rows[:, :-1], axis=1, keepdims=True), 1e-300)
    return (
        exact_on_fresh(relative, fresh.size),
        Claim(
            "fresh residual over used residual", ratio, limit, ratio <= limit or relative < 1e-10, "tested",
            "root mean squares; larger means over-fitting.", decisive=True),
        Claim(
            "smallest eigenvalue of the normal matrix", lowest, OPEN, lowest > OPEN, "proved",
            "diagonal scaled to 1; near zero some numbers trade against each other, as c and t do for high thresholds."),
        acceptance.separated(directions))


def find_exponential(used: Source, fresh: Source, width: int | None, activation: Activation) -> LayerFinding:
    """Units e^{ρ(w·x - t)} whose rows are disjoint 0/1 vectors: cliques of the correlations of log y; t goes into the top."""
    check_one_output(used)
    rows = blocks(correlation_graph(correlations(used)))
    seen = rows[rows.sum(axis=1) > 1] if width is None else rows[np.sort(np.argsort(-rows.sum(axis=1), kind="stable")[:width])]
    layer = Layer(seen, np.zeros(len(seen)), activation)
    top = polynomial_above(used, layer)
    relative = relative_residual(fresh, lambda x: top(layer(x)))
    covered = Claim(
        "units with a block of coordinates", float(len(seen)), float(width or len(seen)), width is None or len(seen) == width,
        "tested", f"cliques of sizes {', '.join(str(int(size)) for size in seen.sum(axis=1))}; the thresholds are in the top, "
        "where e^{-ρt} cannot be told from the coefficients.", decisive=True)
    exact = replace(exact_on_fresh(relative, fresh.size), decisive=True)
    return LayerFinding(layer, (exact, covered), np.zeros((len(seen), used.dim + 1)), 0.0, top)
