"""Degenerate problems after a perturbation (smoothed analysis), and decompositions of tensors with noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from laybare import decomposition, moments
from laybare.activations import relu
from laybare.networks import Layer, Network, unsigned_error
from laybare.numerics.shapes import Array
from laybare.planted import orthonormal_weights, perturb_inputs, perturb_network, perturb_weights, random_unit_rows
from laybare.report.drawings import LinesFigure, Panel
from laybare.source import Samples, Symmetric
from laybare.studies import columns as col
from laybare.studies.study import Study, StudyMeasurement, cross, table


class SmoothedCell(NamedTuple):
    """The statement, dimension, and the size of the perturbation: ρ, λ or τ."""

    statement: str
    dim: int
    perturbation: float


class SmoothedGrid(NamedTuple):
    """Dimension of each statement, and sizes of the perturbation; 0 is the input as it is."""

    dims: tuple[int, int, int]
    sizes: tuple[float, ...] = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)


class SmoothedRun(NamedTuple):
    """Least singular value; the bound of Lemma 14 and the least singular value of the detector that it bounds, if asked."""

    least: float
    bound: float = np.nan
    detected: float = np.nan


def _perturb_weights(dim: int, size: float, rng: Generator) -> SmoothedRun:
    width = dim // 5
    weights = perturb_weights(_equal_rows(width, dim), size, rng=rng)
    if size == 0.0:
        return SmoothedRun(0.0, 0.0, 0.0)  # two rows are the same: their column of M is zero
    readout = orthonormal_weights(width, width, rng=rng)
    M = moments.gaussian_augmented(weights)
    detector = np.linalg.svd(moments.population_detector(weights, readout), compute_uv=False)
    return SmoothedRun(_least(M), moments.detector_gap_bound(M, readout), float(detector[width * (width - 1) // 2 - 1]))


def _perturb_inputs(dim: int, size: float, rng: Generator) -> SmoothedRun:
    rows = 200 * dim * (dim + 1)
    weights = random_unit_rows(dim, dim // 7, rng=rng)
    x = perturb_inputs(np.outer(rng.choice([-1.0, 1.0], rows), np.eye(dim)[0]), rng.standard_normal((dim, dim)), size, rng=rng)
    return SmoothedRun(_least(moments.augmented_matrix(Samples(x, relu(x @ weights.T), law=Symmetric()), weights)))


def _perturb_general(dim: int, size: float, rng: Generator) -> SmoothedRun:
    flattening = 2  # l of Corollary 3.3
    width = moments.smoothed_width(dim, flattening)
    network = Network(Layer(_equal_rows(width, dim), None, relu), np.ones(width))
    return SmoothedRun(moments.khatri_rao_gap(perturb_network(network, size, rng=rng).layer.weights, flattening))


def _equal_rows(width: int, dim: int) -> Array:
    return np.tile(np.eye(dim)[0], (width, 1))


def _least(matrix: Array) -> float:
    return float(np.linalg.svd(matrix, compute_uv=False)[-1])


STATEMENTS = {
    "Theorem 9, weights": _perturb_weights, "Theorem 10, inputs": _perturb_inputs, "Corollary 3.3, weights": _perturb_general}


def perturb_once(cell: SmoothedCell, seed: int) -> SmoothedRun:
    """Perturb, decompose."""
    rng = np.random.default_rng([seed, cell.dim, round(1e6 * cell.perturbation)])
    return STATEMENTS[cell.statement](cell.dim, cell.perturbation, rng)


def _perturbed_rows(m: StudyMeasurement) -> list[Any]:
    return [row for row in m.rows if row.perturbation > 0]


def _smoothed_sentence(m: StudyMeasurement) -> str:
    exponents = "; ".join(f"{s} {_exponent(rows):.1f}" for s, rows in col.group_rows(_perturbed_rows(m), "statement").items())
    broken = sum(run.detected < run.bound * (1 - 1e-9) for run in m.all_runs)
    return (
        f"Exponent of the least singular value in the perturbation: {exponents}. The bound of Lemma 14 fails in {broken} runs.")


def _exponent(rows: Sequence[Any]) -> float:
    """Of the smaller half of the perturbations, where the polynomial is a power."""
    some = rows[: max(2, len(rows) // 2 + 1)]
    x, y = np.log([r.perturbation for r in some]), np.log([max(r.median_least_singular_value, 1e-300) for r in some])
    return float(np.polyfit(x, y, 1)[0])


SMOOTHED = Study(
    "smoothed-analysis",
    "Least singular values that the theory asks for, of degenerate weights and inputs after a perturbation",
    "The papers: at least a polynomial of the perturbation and the dimension, with high probability.",
    quick=SmoothedGrid((15, 14, 6)), full=SmoothedGrid((25, 28, 10)),
    cells=lambda grid: [
        SmoothedCell(*pair, size) for pair in zip(STATEMENTS, grid.dims, strict=True) for size in grid.sizes],
    run_cell=perturb_once,
    table=table(
        "statement", "dim", "perturbation", median_least_singular_value=col.median("least"), smallest=col.reduced(min, "least"),
        median_bound_of_Lemma_14=col.median("bound"), median_least_of_the_detector=col.median("detected"), runs=col.count),
    sentence=_smoothed_sentence,
    figure=lambda m: LinesFigure([Panel(
        "Perturbed degenerate problems", "perturbation", "least singular value",
        col.curves(_perturbed_rows(m), "statement", "perturbation", "median_least_singular_value"), "xy")],
        "Least singular values over perturbations"))
"""Smoothed analysis: the worst weights or inputs, perturbed a little, are well conditioned. Three statements, each on an input
that is degenerate without the perturbation:

    weights of symmetric inputs   Theorem 9 of Ge et al. (2019): all rows of W equal, W + ρE, x ~ N(0, I), k = d/5: σ_min(M)
    inputs of symmetric inputs    Theorem 10 of Ge et al. (2019): x = ±v for a single v, a share λ of it replaced by Qg, k = d/7
    weights of general ReLU       Corollary 3.3 of Awasthi et al. (2021): all rows equal, noise of length τ: s_m of the l-th
                                  Khatri-Rao power with as many units as the corollary allows, l = 2

Informally this is Theorem 3 of Ge et al. (2019). The theorems say that the least singular value is at least a polynomial of the
perturbation; its exponent is not stated. For Theorem 9 of Ge et al. (2019) the bound of Lemma 14 on what the detector sees
(`detector_gap_bound`, corrected by √2) stands beside."""


class NoisyTensor(NamedTuple):
    """True directions (rows), the tensor with noise, a second moment with noise."""

    directions: Array
    tensor: Array
    second: Array


def by(decompose: decomposition.Decomposer) -> Callable[[NoisyTensor, Generator], Array]:
    """The directions that a decomposition of the tensor finds."""
    return lambda noisy, rng: decompose(noisy.tensor, len(noisy.directions), rng=rng).directions


def whitened_power(noisy: NoisyTensor, rng: Generator) -> Array:
    """The tensor power method after whitening."""
    return by(decomposition.AfterWhitening(noisy.second))(noisy, rng)


def from_truth(noisy: NoisyTensor, rng: Generator) -> Array:
    """Least squares from the truth."""
    return decomposition.polish_tensor(noisy.tensor, noisy.directions)


DEFAULT, FROM_TRUTH = "joint diagonalisation (default)", "least squares from the truth"
DECOMPOSITIONS: dict[str, Callable[[NoisyTensor, Generator], Array]] = {
    DEFAULT: by(decomposition.joint_diagonalisation),
    "without least squares": by(decomposition.JointDiagonalisation(polish=False)),
    "by UWEDGE": by(decomposition.JointDiagonalisation(diagonalise=decomposition.uwedge, polish=False)),
    "by FFDIAG": by(decomposition.JointDiagonalisation(diagonalise=decomposition.ffdiag, polish=False)),
    "by QRJ1D": by(decomposition.JointDiagonalisation(diagonalise=decomposition.qrj1d, polish=False)),
    "KCL, stage 1": by(decomposition.KCL()),
    "KCL, two stages (literal)": by(decomposition.KCL.literal()),
    "Jennrich, best of 20 pencils": by(decomposition.Jennrich()),
    "Jennrich, one pencil (literal)": by(decomposition.Jennrich.literal()),
    "tensor power after whitening": whitened_power,
    "ALS, random start": by(decomposition.AlternatingLeastSquares()),
    "ALS, best of 5": by(decomposition.best_of(5, decomposition.AlternatingLeastSquares())),
    "Gauss-Newton, best of 5": by(decomposition.best_of(5, decomposition.GaussNewton())),
    FROM_TRUTH: from_truth}


class NoiseCell(NamedTuple):
    """Condition number of the directions, name of the arm."""

    condition: float
    decomposition: str


def noisy_tensor(condition: float, rng: Generator, rank: int = 5) -> NoisyTensor:
    """A problem of this study."""
    first, second = (np.linalg.qr(rng.standard_normal((rank, rank)))[0] for _ in range(2))
    w = first @ np.diag(np.linspace(1, condition, rank)) @ second.T
    u = w / np.linalg.norm(w, axis=1, keepdims=True)
    tensor = np.einsum("i,ia,ib,ic->abc", rng.choice([-1.0, 1.0], rank), u, u, u)
    return NoisyTensor(u, _add_noise(tensor, rng), _add_noise(u.T @ u, rng))


def _add_noise(tensor: Array, rng: Generator, share: float = 0.03) -> Array:
    raw = np.asarray(rng.standard_normal(tensor.shape))
    noise = np.sum([raw.transpose(order) for order in permutations(range(raw.ndim))], axis=0)
    return np.asarray(tensor + share * np.linalg.norm(tensor) / np.linalg.norm(noise) * noise)


def decompose_once(cell: NoiseCell, seed: int) -> float:
    """The largest error of a direction."""
    noisy = noisy_tensor(cell.condition, np.random.default_rng([seed, round(cell.condition)]))
    return unsigned_error(DECOMPOSITIONS[cell.decomposition](noisy, np.random.default_rng(seed)), noisy.directions)


def _noise_sentence(m: StudyMeasurement) -> str:
    medians = {(row.condition, row.decomposition): row.median_error for row in m.rows}
    ratios = ", ".join(f"{medians[c, DEFAULT] / medians[c, FROM_TRUTH]:.2f} at condition {c:g}" for c in m.grid)
    return f"Median error of the default over that of least squares from the truth: {ratios}."


def _noise_figure(m: StudyMeasurement) -> LinesFigure:
    lines = [line._replace(dashed=line.name == FROM_TRUTH) for line in col.curves(
        m.rows, "decomposition", "condition", "median_error")]
    panel = Panel("3 % noise, 5 parts", "condition number", "median error of directions", lines, "y")
    return LinesFigure([panel], "Errors of decompositions under noise")


DECOMPOSITION_NOISE = Study(
    "decomposition-noise", "Directions of a tensor with 3 % noise by every decomposition, over their condition number",
    "Joint diagonalisation reaches what least squares reaches from the truth; one random pencil does not.",
    quick=(1, 2, 5), full=(1, 2, 5, 10, 20), cells=lambda grid: cross(NoiseCell, grid, DECOMPOSITIONS), run_cell=decompose_once,
    table=table(
        "condition", "decomposition", median_error=col.median(), highest_tenth=col.reduced(lambda e: np.quantile(e, 0.9)),
        runs=col.count),
    sentence=_noise_sentence, figure=_noise_figure, seeds=50)
"""Decompositions under noise: the directions of a 5×5×5 tensor with 3 % noise, of condition 1, 2 and 5. W = Q₁ diag(linspace(1,
κ, 5)) Q₂ᵀ with random orthogonal Q₁, Q₂; the directions uᵢ are its rows, scaled to length 1; T = Σ ±uᵢ⊗uᵢ⊗uᵢ with random signs;
noise is a symmetrised Gaussian tensor of 3 % of |T|. Whitening is given Σ uᵢuᵢᵀ with 3 % noise beside. An error is the largest
|uᵢ - (±ûᵢ)| over the parts, paired at best. The lower limit is least squares started at the truth. The grid is of condition
numbers."""
