"""What the figures of Ge et al. (2019) compare: the printed algorithms, their practical variant, ours, and plain descent.

Every arm is told the width. Errors are those of the paper: columns of A and rows of W scaled to length 1, paired, squared
distances added up; mean squared error over outputs on 10,000 fresh inputs without noise.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import relu
from laybare.errors import LaybareError
from laybare.methods import Route, SymmetricInputs
from laybare.methods.start import network_at
from laybare.methods.symmetric_inputs.printed import PracticalRoute, PrintedNeurons
from laybare.methods.symmetric_inputs.routes import SpectralRoute
from laybare.networks import Layer, Network, compare, mean_squared_error, normalised_squared_errors
from laybare.pipeline import recover
from laybare.refinement.descent import adam, lbfgs
from laybare.refinement.hunt import random_units
from laybare.refinement.levenberg import Refined
from laybare.refinement.normal import Model, Point, network_of
from laybare.refinement.variation import total_variation
from laybare.shapes import Array
from laybare.source import Samples, Symmetric

Arm = Callable[[Samples, int, Generator], Network]
Solver = Callable[[Samples, Point, float, Generator], Refined]
FRESH = 10_000


def as_printed(route: Route) -> Arm:
    """A route on the samples as they are, without the solver."""

    def run(source: Samples, width: int, rng: Generator) -> Network:
        return network_at(route(source, width, relu, rng=rng))

    return run


def moments_alone(source: Samples, width: int, rng: Generator) -> Network:
    """Our moments on whitened samples, with the quadratic control variate and no more, without the solver."""
    view = source.whitened()
    return view.transform.pull_back(network_at(SpectralRoute(rounds=0)(view, width, relu, rng=rng)))


def by_method(source: Samples, width: int, rng: Generator) -> Network:
    """The library's own pipeline, hold-out and certificate included."""
    return recover(source, SymmetricInputs(), width, rng=rng).network


def from_random(solve: Solver) -> Arm:
    """Descent on all parameters from unit rows in random directions and readouts N(0, 1/k)."""

    def run(source: Samples, width: int, rng: Generator) -> Network:
        model = Model(relu, biases=False, offset=False)
        units = random_units(width, source.dim, None, rng)
        start = model.start(units, source.outputs)
        start = start.moved(units, rng.standard_normal(start.coefficients.shape) / np.sqrt(width))
        return network_of(solve(source, start, total_variation(source), rng).point, vector=False)

    return run


PRINTED, PRACTICAL, MOMENTS, OURS = "Algorithm 2", "practical", "moments", "SymmetricInputs"
ARMS: dict[str, Arm] = {
    PRINTED: as_printed(PrintedNeurons(noise=False, halves=False)),
    "Algorithm 3": as_printed(PrintedNeurons()),
    PRACTICAL: as_printed(PracticalRoute()),
    MOMENTS: moments_alone,
    OURS: by_method,
    "L-BFGS": from_random(lambda source, start, scale, rng: lbfgs(source, start, scale)),
    "Adam": from_random(lambda source, start, scale, rng: adam(source, start, scale, rng=rng)),
}


class SymmetricProblem(NamedTuple):
    """Hidden weights (k, d), readout (k, m), inputs for training and fresh ones, standard deviation of the noise."""

    truth: Network
    x: Array
    fresh: Array
    noise: float


class SymmetricRun(NamedTuple):
    """Squared errors of A and W, mean squared error of the outputs, largest error of any number, seconds; NaN if refused."""

    readout: float
    weights: float
    mse: float
    largest: float
    seconds: float


def run(arm: str, problem: SymmetricProblem, rng: Generator) -> SymmetricRun:
    """One recovery, compared with the truth."""
    truth, x, fresh, noise = problem
    y = truth(x)
    source = Samples(x, y + noise * rng.standard_normal(y.shape), law=Symmetric())
    begun = time.perf_counter()
    try:
        found = ARMS[arm](source, truth.width, rng)
    except LaybareError:
        return SymmetricRun(np.nan, np.nan, np.nan, np.inf, time.perf_counter() - begun)
    seconds = time.perf_counter() - begun
    mse = mean_squared_error(found(fresh), truth(fresh))
    if found.width != truth.width or not found.layer.weights.any(axis=1).all():
        return SymmetricRun(np.nan, np.nan, mse, np.inf, seconds)
    errors = normalised_squared_errors(found, truth)
    return SymmetricRun(errors.readout, errors.weights, mse, compare(found, truth).max_error, seconds)


def planted(weights: Array, readout: Array) -> Network:
    """y = A relu(Wx) with W = `weights` (k, d), A = `readout` (m, k)."""
    return Network(Layer(weights, None, relu), readout.T)


def conditioned(size: int, condition: float, rng: Generator) -> Array:
    """U S Vᵀ with random orthogonal U, V and S_ii = λ^-i, λ such that the condition number is `condition`."""
    U, V = (np.linalg.qr(rng.standard_normal((size, size)))[0] for _ in range(2))
    sizes = float(condition) ** (-np.arange(size) / max(size - 1, 1))
    matrix: Array = (U * sizes) @ V.T
    return matrix
