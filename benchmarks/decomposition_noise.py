"""Decompositions under noise: median direction error of a 5×5×5 tensor with 3 % noise, directions of condition 1, 2 and 5.

    python benchmarks/decomposition_noise.py [FIRST_SEED [COUNT]]

Setting. W = Q₁ diag(linspace(1, κ, 5)) Q₂ᵀ with random orthogonal Q₁, Q₂; the directions uᵢ are its rows, scaled to unit length;
T = Σ ±uᵢ⊗uᵢ⊗uᵢ with random signs; noise is a symmetrised Gaussian tensor scaled to 3 % of |T| in the Frobenius norm. Error: the
largest |uᵢ − (±ûᵢ)| over the parts, paired at best. The floor is least squares started at the truth.
"""

from __future__ import annotations

import sys
from itertools import permutations

import numpy as np

from laybare.decomposition import (
    KCL,
    AlternatingLeastSquares,
    Jennrich,
    JointDiagonalisation,
    best_of,
    joint_diagonalisation,
    polish_tensor,
)

RANK, NOISE = 5, 0.03
CONDITIONS = (1, 2, 5)
LIMITS = (0.017, 0.022, 0.045)
"""What the default must reach at the three conditions: median over 50 seeds."""

METHODS = {
    "joint diagonalisation (default)": joint_diagonalisation,
    "  without least squares": JointDiagonalisation(polish=False),
    "KCL, stage 1": KCL(),
    "KCL, two stages (literal)": KCL.literal(),
    "Jennrich, best of 20 pencils": Jennrich(),
    "Jennrich, one pencil (literal)": Jennrich.literal(),
    "ALS, random start": AlternatingLeastSquares(),
    "ALS, best of 5": best_of(5, AlternatingLeastSquares()),
}
FLOOR = "least squares from the truth"


def noisy_tensor(condition, rng):
    """(directions, tensor with noise)."""
    first, second = (np.linalg.qr(rng.standard_normal((RANK, RANK)))[0] for _ in range(2))
    w = first @ np.diag(np.linspace(1, condition, RANK)) @ second.T
    u = w / np.linalg.norm(w, axis=1, keepdims=True)
    tensor = np.einsum("i,ia,ib,ic->abc", rng.choice([-1.0, 1.0], RANK), u, u, u)
    noise = rng.standard_normal((RANK,) * 3)
    noise = sum(noise.transpose(order) for order in permutations(range(3)))
    return u, tensor + NOISE * np.linalg.norm(tensor) / np.linalg.norm(noise) * noise


def direction_error(found, truth):
    """Largest |u − ±û| over the parts, in the pairing that makes it smallest (all pairings: 120 at rank 5)."""
    apart = np.minimum(np.linalg.norm(found[:, None] - truth, axis=2), np.linalg.norm(found[:, None] + truth, axis=2))
    return min(apart[list(order), range(len(truth))].max() for order in permutations(range(len(truth))))


def errors(condition, seeds, methods=METHODS):
    """Direction errors of every method, and of the floor: name -> (seeds,)."""
    table = {name: [] for name in [*methods, FLOOR]}
    for seed in seeds:
        truth, tensor = noisy_tensor(condition, np.random.default_rng([seed, condition]))
        for name, decompose in methods.items():
            table[name].append(direction_error(decompose(tensor, RANK, rng=np.random.default_rng(seed)).directions, truth))
        table[FLOOR].append(direction_error(polish_tensor(tensor, truth), truth))
    return {name: np.array(values) for name, values in table.items()}


def main(first=10_000, count=50):
    columns = [errors(condition, range(first, first + count)) for condition in CONDITIONS]
    print(f"median (90th percentile) of the largest direction error, {count} seeds from {first}, noise {NOISE:.0%}")
    print(f"{'':34}" + "".join(f"{f'condition {condition}':>18}" for condition in CONDITIONS))
    for name in columns[0]:
        cells = [f"{np.median(column[name]):.4f} ({np.quantile(column[name], 0.9):.3f})" for column in columns]
        print(f"{name:34}" + "".join(f"{cell:>18}" for cell in cells))
    print(f"{'needed from the default':34}" + "".join(f"{limit:>10.3f}{'':8}" for limit in LIMITS))
    default = next(iter(METHODS))
    return 0 if all(np.median(column[default]) <= limit for column, limit in zip(columns, LIMITS, strict=True)) else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
