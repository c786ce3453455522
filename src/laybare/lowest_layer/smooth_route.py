"""Smooth units (sigmoid, softplus, …) and exponential ones from samples, where no row is silent."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.certificate import Claim
from laybare.decomposition import detect_rank
from laybare.errors import InvalidInput, TooFewSamples
from laybare.levels import GRAM, SOLVED, SOLVED_LOSS
from laybare.lowest_layer import acceptance
from laybare.lowest_layer.cliques import blocks, correlation_graph, correlations
from laybare.lowest_layer.found import FoundLayer
from laybare.lowest_layer.joint_fit import Joint, JointFit, fit_joint, joint_start
from laybare.lowest_layer.start import LayerStart, ThirdMoments
from laybare.moments import Residual, SecondMoment, fit_hermite, least_squares, measure_with_noise
from laybare.networks import Layer
from laybare.networks.polynomials import Polynomial, monomials, multilinear, with_powers
from laybare.shapes import Array, Progress, Sums
from laybare.source import Source

THRESHOLDS = (4.0, 2.5, 6.0, 1.0)
"""First guesses of the common threshold; the fit is run from the best two or three until one is exact."""

TRIED = 3
FEWEST_ROWS, ROWS_A_NUMBER = 6000, 20
"""Rows of the joint fit: so many, and so many for each unknown; more only cost time when there is no noise."""

OPEN = GRAM
"""Smallest eigenvalue of the normal matrix (diagonal scaled to 1) at which every number is still determined."""


class Smooth(NamedTuple):
    """Choices of this route: products of how many units, and powers of single units, the top may have."""

    activation: Activation
    start: LayerStart
    degree: int
    powers: int = 1


def find_smooth(
    used: Source, fresh: Source, width: int | None, choices: Smooth, *, rng: Generator, progress: Progress | None
) -> FoundLayer:
    """Directions from the third moments of what a linear fit leaves, then all parameters at once; both sources are white."""
    check_one_output(used)
    told = count_units(used) if width is None else width
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
    return FoundLayer(joint.layer, _claims(joint, fit, part, fresh), _errors(fit, part), _noise(fit, part), joint.top)


def _starts(start: LayerStart) -> tuple[LayerStart, ...]:
    """Third moments after a linear fit, then, if they did not lead to an exact fit, with the fourth ones beside them."""
    if not isinstance(start, ThirdMoments):
        return (start,)
    return replace(start, linear=True), replace(start, linear=True, fourth=True)


def count_units(source: Source) -> int:
    """Units that the second moment of what a linear fit leaves shows; at least one."""
    moment = measure_with_noise(Residual(source, fit_hermite(source, 1)), SecondMoment(), stage="width")
    return max(1, detect_rank(np.linalg.eigvalsh(moment.value[0]), np.linalg.eigvalsh(moment.noise[0])).at_least)


def check_one_output(source: Source) -> None:
    """Refuse several outputs."""
    if source.outputs > 1:
        raise InvalidInput(
            f"There are {source.outputs} outputs.", "Smooth and exponential units are fitted to one.",
            "Give one output at a time; step and ReLU units take several.", outputs=source.outputs)


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
    relative = _relative_residual(fresh, joint)
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


def exact_on_fresh(relative: float, rows: int) -> Claim:
    """Nothing but rounding left on rows that nothing has seen."""
    return Claim(
        "held-out residual over the spread of y", relative, SOLVED, relative <= SOLVED, "tested",
        f"root mean square on {rows:,} fresh rows; more than rounding means label noise, or a top of another form than the "
        "polynomial that was fitted, and then directions may be off by hundredths of a radian.")


def _relative_residual(source: Source, function: Joint | Layered) -> float:
    def squares(x: Array, y: Array) -> Sums:
        return np.asarray(np.sum((y[:, 0] - function(x)) ** 2)), y.sum(axis=0), np.asarray(np.sum(y**2))

    left, first, second = (part.item() for part in source.sum(squares, stage="residual"))
    return float(np.sqrt(left / max(second - first**2 / source.size, np.finfo(float).tiny)))


class Layered(NamedTuple):
    """top(layer(x))."""

    layer: Layer
    top: Polynomial

    def __call__(self, x: Array) -> Array:
        """Outputs, (n,)."""
        return self.top(self.layer(x))


def find_exponential(used: Source, fresh: Source, width: int | None, activation: Activation) -> FoundLayer:
    """Units e^{ρ(w·x - t)} whose rows are disjoint 0/1 vectors: cliques of the correlations of log y; t goes into the top."""
    check_one_output(used)
    rows = blocks(correlation_graph(correlations(used)))
    seen = rows[rows.sum(axis=1) > 1] if width is None else rows[np.sort(np.argsort(-rows.sum(axis=1), kind="stable")[:width])]
    layer = Layer(seen, np.zeros(len(seen)), activation)
    exponents = multilinear(len(seen), len(seen) if len(seen) <= 8 else 3)
    coefficients = least_squares(used, lambda x: monomials(exponents, layer(x))).coefficients[:, 0]
    top = Polynomial(exponents, coefficients)
    relative = _relative_residual(fresh, Layered(layer, top))
    covered = Claim(
        "units with a block of coordinates", float(len(seen)), float(width or len(seen)), width is None or len(seen) == width,
        "tested", f"cliques of sizes {', '.join(str(int(size)) for size in seen.sum(axis=1))}; the thresholds are in the top, "
        "where e^{-ρt} cannot be told from the coefficients.", decisive=True)
    exact = replace(exact_on_fresh(relative, fresh.size), decisive=True)
    return FoundLayer(layer, (exact, covered), np.zeros((len(seen), used.dim + 1)), 0.0, top)
