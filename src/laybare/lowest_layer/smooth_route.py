"""Units without a silent region, from samples: smooth ones (sigmoid, softplus, …) by a joint fit, exponential ones by a graph.

Exponential units select coordinates. Let u(a) = e^{ρ(a-t)}, let the rows w_p be 0/1 vectors, and let m_S = Σ_{p∈S} w_p count how
often a coordinate is selected. Then

    E[f (x_i x_j - δ_ij)] = ρ² Σ_S c_S e^{-ρt|S|} m_i m_j e^{ρ²|m_S|²/2}.

For disjoint rows with D ones each this is ρ² Σ_{S covers i, j} c_S μ^{|S|}, μ = e^{-ρ(t - ρD/2)} (the printed exponent is
garbled): larger inside a block than across, since fewer S cover two blocks. So an edge joins i and j if the entry is above the
largest gap, and cliques are units. The printed rule "α_ij ≥ ρ" (`printed_graph`) is a threshold in the wrong units. log f is a
function of the same sums with much lighter tails; it needs fewer samples.
Source: Goel and Panigrahy (2019), Theorem 7 and Algorithm 3, corrected.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.certificate import Claim, ClaimName
from laybare.errors import AssumptionViolated, NotSeparated, TooFewSamples
from laybare.lowest_layer import acceptance, tops
from laybare.lowest_layer.acceptance import LayerClaimName, LayerFinding, residual_claim
from laybare.lowest_layer.layer_start import LayerStart, ThirdMoments, count_visible_units
from laybare.moments import Residual, fit_hermite, second_moment
from laybare.networks import Layer
from laybare.networks.polynomials import Polynomial, multilinear, with_powers
from laybare.numerics.levels import GRAM, SOLVED_LOSS
from laybare.numerics.shapes import Array, Progress
from laybare.source import Source
from laybare.source.derived import RelabelledOutputs


@dataclass(frozen=True, kw_only=True)
class SmoothOptions:
    """Starts and rows of the joint fit."""

    first_thresholds: tuple[float, ...] = (4.0, 2.5, 6.0, 1.0)  # guesses of the common threshold
    max_starts: int = 3  # of the best guesses, until one is exact. Checked by `pytest tests/lowest_layer`.
    min_rows: int = 6000  # rows of the fit: more only cost time without noise. Checked by `pytest tests/lowest_layer`.
    rows_per_unknown: int = 20  # the same, per unknown. Checked by `pytest tests/lowest_layer`.
    min_eigenvalue: float = GRAM  # of the scaled normal matrix, if every parameter is determined


SMOOTH = SmoothOptions()


class SmoothChoices(NamedTuple):
    """Choices of this route: the top has products of up to `degree` units, and powers of single units up to `powers`."""

    activation: Activation
    start: LayerStart
    degree: int
    powers: int = 1


def find_smooth_units(
    used: Source, fresh: Source, width: int | None, choices: SmoothChoices, *, rng: Generator, progress: Progress | None
) -> LayerFinding:
    """Directions from the third moments of what a linear fit leaves, then all parameters at once; both sources are white."""
    tops.check_one_output(used)
    count = count_visible_units(Residual(used, fit_hermite(used, 1))) if width is None else width
    exponents = with_powers(multilinear(count, choices.degree), choices.powers)
    unknowns = count * (used.dim + 1) + len(exponents)
    if used.size < 2 * unknowns:
        raise TooFewSamples(
            f"{used.size:,} samples for {unknowns} unknowns.", "A fit needs more equations than unknowns.",
            f"Give at least {SMOOTH.rows_per_unknown * unknowns:,} samples.", samples=used.size, unknowns=unknowns)
    wanted = max(SMOOTH.min_rows, SMOOTH.rows_per_unknown * unknowns)
    part = used if used.size <= wanted else used.split(wanted / used.size, rng=rng).first
    fit = _best_fit(
        _fit_from_thresholds(part, start(used, count, rng=rng).weights, exponents, choices.activation, progress)
        for start in _starts(choices.start))
    joint = with_positive_thresholds(fit.joint) if choices.powers == 1 else fit.joint
    return LayerFinding(joint.layer, _claims(joint, fit, part, fresh), _errors(fit, part), _noise(fit, part), joint.top)


def _starts(start: LayerStart) -> tuple[LayerStart, ...]:
    """Third moments after a linear fit, then, if they did not lead to an exact fit, with the fourth ones beside them."""
    if not isinstance(start, ThirdMoments):
        return (start,)
    return replace(start, linear=True), replace(start, linear=True, fourth=True)


def _fit_from_thresholds(
    source: Source, weights: Array, exponents: Array, activation: Activation, progress: Progress | None
) -> tops.JointFit:
    """The best fit from the best first thresholds."""
    starts = [
        tops.joint_model_at(source, weights, np.full(len(weights), threshold), exponents, activation)
        for threshold in SMOOTH.first_thresholds]
    ranked = sorted(starts, key=lambda start: _loss(source, start))
    return _best_fit(tops.fit_joint(source, start, progress=progress) for start in ranked[: SMOOTH.max_starts])


def _best_fit(fits: Iterator[tops.JointFit]) -> tops.JointFit:
    """The one with the smallest loss; an exact one ends the search."""
    best = next(fits)
    for fit in fits if best.trace.loss >= SOLVED_LOSS else ():
        best = min(best, fit, key=lambda one: one.loss)
        if best.trace.loss < SOLVED_LOSS:
            break
    return best


def _loss(source: Source, joint: tops.JointModel) -> float:
    return float(source.sum(lambda x, y: (np.asarray(np.sum((y[:, 0] - joint(x)) ** 2)),), stage="loss")[0])


def with_positive_thresholds(joint: tops.JointModel) -> tops.JointModel:
    """Turn units to thresholds above 0: act(-u) = 2·centre - act(u), and X → 2·centre - X keeps a top multilinear."""
    centre = joint.activation.centre
    turned = joint.rows[:, -1] > 0
    if centre is None or not turned.any():
        return joint
    rows = np.where(turned[:, None], -joint.rows, joint.rows)
    exponents = [tuple(row) for row in joint.top.exponents.tolist()]
    coefficients = dict.fromkeys(exponents, 0.0)
    for exponent, value in zip(exponents, joint.top.coefficients, strict=True):
        for kept, factor in _expand(exponent, turned, 2.0 * centre):
            coefficients[kept] += factor * float(value)
    return joint._replace(rows=rows, top=Polynomial(joint.top.exponents, np.array(list(coefficients.values()))))


def _expand(exponent: tuple[int, ...], turned: Array, sum_: float) -> list[tuple[tuple[int, ...], float]]:
    """Π (s - X_i over turned i) Π (X_i over the others), as monomials and factors."""
    terms: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
    for power, flip in zip(exponent, turned, strict=True):
        if power and flip:
            terms = [term for kept, factor in terms for term in (((*kept, 1), -factor), ((*kept, 0), sum_ * factor))]
        else:
            terms = [((*kept, int(power)), factor) for kept, factor in terms]
    return terms


def _noise(fit: tops.JointFit, source: Source) -> float:
    return float(np.sqrt(fit.loss / max(1, source.size - len(fit.normal))))


def _errors(fit: tops.JointFit, source: Source) -> Array:
    """Standard errors of the rows, from the inverse normal matrix."""
    size = fit.joint.rows.size
    covariance = np.diag(np.linalg.pinv(fit.normal, hermitian=True))[:size]
    return _noise(fit, source) * np.sqrt(np.maximum(covariance, 0.0)).reshape(fit.joint.rows.shape)


def _claims(joint: tops.JointModel, fit: tops.JointFit, used: Source, fresh: Source) -> tuple[Claim, ...]:
    relative = tops.relative_residual(fresh, lambda x: joint.top(joint.layer(x)))
    ratio = (relative + 1e-12) / (float(np.sqrt(fit.trace.loss)) + 1e-12)
    limit = 1.0 + acceptance.ACCEPTANCE.sigmas * float(np.sqrt(2.0 / fresh.size)) + len(fit.normal) / used.size
    scale = 1.0 / np.sqrt(np.maximum(np.diag(fit.normal), np.finfo(float).tiny))
    lowest = float(np.linalg.eigvalsh(fit.normal * scale[:, None] * scale)[0])
    directions = joint.rows[:, :-1] / np.maximum(np.linalg.norm(joint.rows[:, :-1], axis=1, keepdims=True), 1e-300)
    return (
        residual_claim(relative, fresh.size),
        Claim(
            ClaimName.FRESH_RESIDUAL, ratio, limit, ratio <= limit or relative < 1e-10, "tested",
            "root mean squares; larger means over-fitting.", decisive=True),
        Claim(
            LayerClaimName.NORMAL_EIGENVALUE, lowest, SMOOTH.min_eigenvalue, lowest > SMOOTH.min_eigenvalue, "proved",
            "diagonal scaled to 1; near zero some parameters trade against each other, as c and t do for high thresholds."),
        acceptance.separation_claim(directions))


def find_exponential_units(used: Source, fresh: Source, width: int | None, activation: Activation) -> LayerFinding:
    """Units e^{ρ(w·x - t)} whose rows are disjoint 0/1 vectors: cliques of the correlations of log y; t goes into the top."""
    tops.check_one_output(used)
    rows = disjoint_cliques(correlation_graph(correlation_matrix(used)))
    seen = rows[rows.sum(axis=1) > 1] if width is None else rows[np.sort(np.argsort(-rows.sum(axis=1), kind="stable")[:width])]
    layer = Layer(seen, np.zeros(len(seen)), activation)
    top = tops.fit_polynomial(used, layer)
    relative = tops.relative_residual(fresh, lambda x: top(layer(x)))
    covered = Claim(
        LayerClaimName.COORDINATE_BLOCKS, float(len(seen)), float(width or len(seen)), width is None or len(seen) == width,
        "tested", f"cliques of sizes {', '.join(str(int(size)) for size in seen.sum(axis=1))}; the thresholds are in the top, "
        "where e^{-ρt} cannot be distinguished from the coefficients.", decisive=True)
    exact = replace(residual_claim(relative, fresh.size), decisive=True)
    return LayerFinding(layer, (exact, covered), np.zeros((len(seen), used.dim + 1)), 0.0, top)


def is_exponential(activation: Activation) -> bool:
    """Whether units are e^{ρu}."""
    return activation.name.startswith("exponential(")


def correlation_matrix(source: Source, *, logarithm: bool = True) -> Array:
    """E[f (xxᵀ - I)] of what the least-squares linear part leaves, of y or of log y, for white inputs."""
    origin = _log_outputs(source) if logarithm else source
    return np.asarray(second_moment(Residual(origin, fit_hermite(origin, 1)))[0])


def printed_graph(source: Source, rho: float) -> Array:
    """Algorithm 3 as printed: an edge where E[f x_i x_j] ≥ ρ. Bool (n, n), no edge from a vertex to itself."""
    (total,) = source.sum(lambda x, y: (x.T @ (x * y[:, :1]),), stage="correlations")
    edges = total / source.size >= rho
    np.fill_diagonal(edges, False)
    return np.asarray(edges)


def correlation_graph(matrix: Array) -> Array:
    """Edges above the largest gap of the sorted entries off the diagonal; bool (n, n)."""
    i, j = np.triu_indices(len(matrix), 1)
    values = np.sort(matrix[i, j])
    cut = int(np.argmax(np.diff(values)))
    edges = matrix > (values[cut] + values[cut + 1]) / 2
    np.fill_diagonal(edges, False)
    return np.asarray(edges & edges.T)


def disjoint_cliques(edges: Array) -> Array:
    """Cliques that share no vertex, as 0/1 rows (k, n); refuses a graph that is not made of such cliques."""
    with_self = edges | np.eye(len(edges), dtype=bool)
    rows = np.unique(with_self, axis=0)
    if (rows.sum(axis=0) > 1).any():
        raise NotSeparated(
            f"The graph of correlations has {int(edges.sum() // 2)} edges and does not fall into disjoint cliques.",
            "Every unit selects its own coordinates, all of which are correlated with each other and with no other.",
            "Give more samples; or the units overlap, and this method does not apply.", edges=int(edges.sum() // 2))
    order = np.argsort(-rows.argmax(axis=1), kind="stable")[::-1]
    return np.asarray(rows[order], dtype=float)


def _log_outputs(source: Source) -> Source:
    (bad,) = source.sum(lambda x, y: (np.asarray(np.sum(y <= 0)),), stage="signs of y")
    if bad:
        raise AssumptionViolated(
            f"{int(bad)} of {source.size:,} outputs are not positive.",
            "Exponential units under a positive top give positive ones.",
            "Use another activation, or HighThreshold.literal, which looks at f itself.", bad=int(bad))
    return RelabelledOutputs(source, lambda y: np.log(y[:, 0]))
