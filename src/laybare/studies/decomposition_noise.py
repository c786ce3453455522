"""Decompositions under noise: the directions of a 5×5×5 tensor with 3 % noise, of condition 1, 2 and 5.

W = Q₁ diag(linspace(1, κ, 5)) Q₂ᵀ with random orthogonal Q₁, Q₂; the directions uᵢ are its rows, scaled to length 1;
T = Σ ±uᵢ⊗uᵢ⊗uᵢ with random signs; noise is a symmetrised Gaussian tensor of 3 % of |T|. Whitening is given Σ uᵢuᵢᵀ with 3 % noise
beside. An error is the largest |uᵢ - (±ûᵢ)| over the parts, paired at best. The floor is least squares started at the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import permutations
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.decomposition import (
    KCL,
    AfterWhitening,
    AlternatingLeastSquares,
    Decomposer,
    GaussNewton,
    Jennrich,
    JointDiagonalisation,
    best_of,
    ffdiag,
    joint_diagonalisation,
    polish_tensor,
    qrj1d,
    uwedge,
)
from laybare.networks import unsigned_error
from laybare.report.plots import Curve, LinesFigure, Panel
from laybare.shapes import Array
from laybare.studies.study import Study, StudyResult, headings, over

RANK, NOISE = 5, 0.03


class NoisyTensor(NamedTuple):
    """True directions (rows), the tensor with noise, a second moment with noise."""

    directions: Array
    tensor: Array
    second: Array


def by(decompose: Decomposer) -> Callable[[NoisyTensor, Generator], Array]:
    """The directions that a decomposition of the tensor finds."""
    return lambda noisy, rng: decompose(noisy.tensor, RANK, rng=rng).directions


def whitened_power(noisy: NoisyTensor, rng: Generator) -> Array:
    """The tensor power method after whitening."""
    return AfterWhitening(noisy.second)(noisy.tensor, RANK, rng=rng).directions


def floor(noisy: NoisyTensor, rng: Generator) -> Array:
    """Least squares from the truth."""
    return polish_tensor(noisy.tensor, noisy.directions)


DEFAULT, FLOOR = "joint diagonalisation (default)", "least squares from the truth"
ARMS: dict[str, Callable[[NoisyTensor, Generator], Array]] = {
    DEFAULT: by(joint_diagonalisation),
    "without least squares": by(JointDiagonalisation(polish=False)),
    "by UWEDGE": by(JointDiagonalisation(diagonalise=uwedge, polish=False)),
    "by FFDIAG": by(JointDiagonalisation(diagonalise=ffdiag, polish=False)),
    "by QRJ1D": by(JointDiagonalisation(diagonalise=qrj1d, polish=False)),
    "KCL, stage 1": by(KCL()),
    "KCL, two stages (literal)": by(KCL.literal()),
    "Jennrich, best of 20 pencils": by(Jennrich()),
    "Jennrich, one pencil (literal)": by(Jennrich.literal()),
    "tensor power after whitening": whitened_power,
    "ALS, random start": by(AlternatingLeastSquares()),
    "ALS, best of 5": by(best_of(5, AlternatingLeastSquares())),
    "Gauss-Newton, best of 5": by(best_of(5, GaussNewton())),
    FLOOR: floor}


class NoiseCell(NamedTuple):
    """Condition number of the directions, name of the arm."""

    condition: float
    arm: str


class NoiseGrid(NamedTuple):
    """Condition numbers and arms."""

    conditions: tuple[float, ...] = (1, 2, 5)
    arms: tuple[str, ...] = tuple(ARMS)

    def cells(self) -> list[NoiseCell]:
        return [NoiseCell(condition, arm) for condition in self.conditions for arm in self.arms]


class NoiseRow(NamedTuple):
    """A row of the table."""

    condition: float
    decomposition: str
    median_error: float
    highest_tenth: float
    runs: int


def noisy_tensor(condition: float, rng: Generator) -> NoisyTensor:
    """A problem of this study."""
    first, second = (np.linalg.qr(rng.standard_normal((RANK, RANK)))[0] for _ in range(2))
    w = first @ np.diag(np.linspace(1, condition, RANK)) @ second.T
    u = w / np.linalg.norm(w, axis=1, keepdims=True)
    tensor = np.einsum("i,ia,ib,ic->abc", rng.choice([-1.0, 1.0], RANK), u, u, u)
    return NoisyTensor(u, _noisy(tensor, rng), _noisy(u.T @ u, rng))


def _noisy(tensor: Array, rng: Generator) -> Array:
    raw = np.asarray(rng.standard_normal(tensor.shape))
    noise = np.sum([raw.transpose(order) for order in permutations(range(raw.ndim))], axis=0)
    noisy: Array = tensor + NOISE * np.linalg.norm(tensor) / np.linalg.norm(noise) * noise
    return noisy


def run_once(cell: NoiseCell, seed: int) -> float:
    """The largest error of a direction."""
    noisy = noisy_tensor(cell.condition, np.random.default_rng([seed, round(cell.condition)]))
    return unsigned_error(ARMS[cell.arm](noisy, np.random.default_rng(seed)), noisy.directions)


def summary(grid: NoiseGrid, runs: Mapping[NoiseCell, list[float]]) -> StudyResult:
    """Medians over the condition number."""
    rows = [NoiseRow(*cell, float(np.median(e)), float(np.quantile(e, 0.9)), len(e)) for cell, e in runs.items()]
    medians = {(row.condition, row.decomposition): row.median_error for row in rows}
    lines = [Curve(arm, grid.conditions, [medians[c, arm] for c in grid.conditions], dashed=arm == FLOOR) for arm in grid.arms]
    ratios = ", ".join(f"{medians[c, DEFAULT] / medians[c, FLOOR]:.2f} at condition {c:g}" for c in grid.conditions)
    panel = Panel("3 % noise, 5 parts", "condition number", "median error of directions", lines, "y")
    sentence = f"Median error of the default over that of least squares from the truth: {ratios}."
    return StudyResult(headings(NoiseRow), rows, sentence, LinesFigure([panel], "Errors of decompositions under noise"))


DECOMPOSITION_NOISE = Study(
    "decomposition-noise", "Directions of a tensor with 3 % noise by every decomposition, over their condition number",
    "Joint diagonalisation reaches what least squares reaches from the truth; one random pencil does not.",
    NoiseGrid(), NoiseGrid((1, 2, 5, 10, 20)), over(NoiseGrid.cells, run_once), summary, seeds=50)
