"""How much a control variate takes off the error of Hermite moments of order 4, 5, 6.

    python benchmarks/control_variate.py [FIRST_SEED [COUNT]]

Setting: 14 ReLU units in 8 dimensions, unit weights, readout ±[.5, 1.5], biases in [-1.5, 1.5], 200,000 samples, 20 networks. The
error of order k is |ĉ_k - c_k| over all packed entries, against the closed form. A row is the mean error over networks, divided
by that of plain averages; the last columns say how many single networks stay below 0.2 of their own plain error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from laybare.activations import relu
from laybare.moments import PackedMoments, controlled_moments, packed_moments, population_moments
from laybare.networks import Layer, Network
from laybare.source import Samples, Source

DIM, WIDTH, SIZE, ORDERS = 8, 14, 200_000, (4, 5, 6)
LIMIT = 0.2

ESTIMATES: dict[str, Callable[[Source], PackedMoments]] = {
    "plain average": lambda source: packed_moments(source, 6),
    "minus mean": lambda source: controlled_moments(source, 6, degree=0, units=None).value,
    "minus linear": lambda source: controlled_moments(source, 6, degree=1, units=None).value,
    "minus quadratic": lambda source: controlled_moments(source, 6, units=None).value,
    "minus quadratic and pair units (default)": lambda source: controlled_moments(source, 6).value,
}


def main(first: int = 0, count: int = 20) -> None:
    errors = np.array([_errors(seed) for seed in range(first, first + count)])
    print(f"{count} networks, seeds {first} to {first + count - 1}; orders {ORDERS}")
    for row, name in enumerate(ESTIMATES):
        pooled = errors[:, row].mean(axis=0) / errors[:, 0].mean(axis=0)
        below = (errors[:, row] <= LIMIT * errors[:, 0]).sum(axis=0)
        print(f"{name:42s} mean error {_shown(errors[:, row].mean(axis=0))}   ratio {_shown(pooled)}   below {LIMIT}: {below}")


def _errors(seed: int) -> list[list[float]]:
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((WIDTH, DIM))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    layer = Layer(weights, rng.uniform(-1.5, 1.5, WIDTH), relu)
    network = Network(layer, rng.uniform(0.5, 1.5, WIDTH) * rng.choice([-1.0, 1.0], WIDTH))
    x = rng.standard_normal((SIZE, DIM))
    source, truth = Samples(x, network(x)), population_moments(network, max(ORDERS))
    found = [estimate(source) for estimate in ESTIMATES.values()]
    return [[float(np.linalg.norm((moments - truth).of(k))) for k in ORDERS] for moments in found]


def _shown(numbers: np.ndarray) -> str:
    return " ".join(f"{number:.4f}" for number in numbers)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
