"""Exponential units that select coordinates: a graph of correlations whose cliques are the units.

Let u(a) = e^{ρ(a-t)} and let the rows w_p be 0/1 vectors. With m_S = Σ_{p∈S} w_p (how often a coordinate is selected),

    E[f (x_i x_j - δ_ij)] = ρ² Σ_S c_S e^{-ρt|S|} m_i m_j e^{ρ²|m_S|²/2}.

For disjoint rows with D ones each this is ρ² Σ_{S covers i, j} c_S μ^{|S|}, μ = e^{-ρ(t - ρD/2)} (the printed exponent is
garbled; `theory.exponential_moments`): larger inside a block than across, since fewer S cover two blocks. So an edge joins i and
j if the entry is above the largest gap, and cliques are units. The printed rule "α_ij ≥ ρ" (`printed_graph`) is only a threshold,
in the wrong units. log f is a function of the same sums with much lighter tails: the exact graph took a tenth of the samples
(`logarithm`).
Source: Goel and Panigrahy (2019), Theorem 7 and Algorithm 3, corrected.
"""

from __future__ import annotations

import numpy as np

from laybare.activations import Activation
from laybare.errors import AssumptionViolated, NotSeparated
from laybare.moments import Residual, fit_hermite, second_moment
from laybare.shapes import Array, Sums
from laybare.source import Source
from laybare.source.relabelled import Relabelled


def is_exponential(activation: Activation) -> bool:
    """Whether units are e^{ρu}."""
    return activation.name.startswith("exponential(")


def correlations(source: Source, *, logarithm: bool = True) -> Array:
    """E[f (xxᵀ - I)] of what the least-squares linear part leaves, of y or of log y, for white inputs."""
    origin = _logarithm(source) if logarithm else source
    found: Array = second_moment(Residual(origin, fit_hermite(origin, 1)))[0]
    return found


def printed_graph(source: Source, rho: float) -> Array:
    """Algorithm 3 as printed: an edge where E[f x_i x_j] ≥ ρ. Bool (n, n), no edge from a vertex to itself."""

    def products(x: Array, y: Array) -> Sums:
        return (x.T @ (x * y[:, :1]),)

    (total,) = source.sum(products, stage="correlations")
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


def blocks(edges: Array) -> Array:
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


def _logarithm(source: Source) -> Source:
    def lowest(x: Array, y: Array) -> Sums:
        return (np.asarray(np.sum(y <= 0)),)

    (bad,) = source.sum(lowest, stage="signs of y")
    if bad:
        raise AssumptionViolated(
            f"{int(bad)} of {source.size:,} outputs are not positive.",
            "Exponential units under a positive top give positive ones.",
            "Use another activation, or HighThreshold.literal, which looks at f itself.", bad=int(bad))
    return Relabelled(source, lambda y: np.log(y[:, 0]))
