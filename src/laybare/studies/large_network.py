"""784-32-1: a network of the size of a small image classifier, recovered by matrix-free Gauss-Newton.

Teacher: unit rows, biases uniform in [-1, 1], |readout| uniform in [0.5, 1.5] with random signs, noiseless, x ~ N(0, I). Three
starts: cosine 0.9 to every true row; random directions with 16 spare units; directions from moments of orders 2 to 4.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import absolute, relu
from laybare.assembly.unfold import unfold
from laybare.decomposition import joint_diagonalisation, loadings
from laybare.moments import Residual, fit_hermite, projected_tensors, refine_subspace
from laybare.networks import Network, compare
from laybare.planted import random_network
from laybare.refinement.hunt import Search
from laybare.refinement.levenberg import Refined
from laybare.refinement.minimise import minimise
from laybare.refinement.normal import Model, network_of
from laybare.refinement.overwide import over_wide
from laybare.refinement.variation import total_variation
from laybare.shapes import Array
from laybare.source import Gaussian, Samples, Source
from laybare.studies.study import Settings, Study, StudyResult, headings

SIGN_FREE = Model(absolute, biases=True, offset=True, linear=True)
SPARES = 16
EXACT = 1e-8
ARMS = ("cosine 0.9", "cosine 0.9, twice the samples", "random, 16 spares", "moments")


class LargeSize(NamedTuple):
    """Input dimension, hidden units, samples for the good start and for the others."""

    dim: int = 784
    width: int = 32
    near: int = 76_000
    far: int = 2**17


def planted(dim: int, width: int, samples: int, rng: Generator) -> tuple[Network, Samples]:
    """The teacher of this study and samples from it."""
    truth = random_network(dim, width, biases=1.0, readout="random", rng=rng)
    x = rng.standard_normal((samples, dim))
    return truth, Samples(x, truth(x), law=Gaussian(0, 1))


def near_start(truth: Network, cosine: float, rng: Generator) -> Array:
    """Rows at the given cosine to the true ones, biases zero."""
    rows = truth.layer.weights
    aside = rng.standard_normal(rows.shape)
    aside -= np.sum(aside * rows, axis=1)[:, None] * rows
    aside /= np.linalg.norm(aside, axis=1)[:, None]
    return np.column_stack([cosine * rows + np.sqrt(1.0 - cosine**2) * aside, np.zeros(len(rows))])


def moment_start(source: Source, width: int, rng: Generator) -> Array:
    """Rows from moments: the subspace of the weights, then joint diagonalisation of all slices of orders 2, 3, 4 in it.

    The bias follows from c₃/c₂ = -b. What the best quadratic in the subspace explains is subtracted before orders 3 and 4.
    """
    subspace = refine_subspace(source, width, relu, order=2)
    second = subspace.moments.tensor(2)[0]
    rest = Residual(source, fit_hermite(source, 2, subspace.basis))
    *_, third, fourth = projected_tensors(rest, subspace.basis, 4)
    stack = np.concatenate([second[None], third[0], fourth[0].reshape(-1, width, width)])
    found = joint_diagonalisation(stack, width, rng=rng).directions
    weights = loadings(stack, found)
    return np.column_stack([found @ subspace.basis.T, _biases(weights, found)])


def _biases(weights: Array, directions: Array) -> Array:
    """-c₃/c₂ of every part: order 2 is the first slice; slices of order 3 load part r with c₃ times its direction."""
    width = len(directions)
    second = weights[0]
    third = np.sum(weights[1 : 1 + width] * directions.T, axis=0)
    return np.asarray(np.clip(-third / np.where(np.abs(second) > 1e-12, second, 1e-12), -1.5, 1.5))


class LargeRun(NamedTuple):
    """One recovery: largest parameter error, units within cosine 0.999 of a true one, steps, passes over the samples, seconds."""

    error: float
    found: int
    steps: int
    passes: int
    seconds: float


class LargeCell(NamedTuple):
    """Name of the arm, seed."""

    arm: str
    seed: int


class LargeRow(NamedTuple):
    """A row of the table."""

    network: str
    start: str
    seed: int
    largest_error: float
    units_found: int
    steps: int
    passes: int
    seconds: float


def run(arm: str, size: LargeSize, seed: int) -> LargeRun:
    """Plant, start as `arm` says, refine, decode the signs, compare."""
    rng = np.random.default_rng([seed, size.dim, size.width])
    samples = {"cosine 0.9": size.near, "cosine 0.9, twice the samples": 2 * size.near}.get(arm, size.far)
    truth, source = planted(size.dim, size.width, samples, rng)
    begun = time.perf_counter()
    refined = _refined(arm, truth, source, rng)
    seconds = time.perf_counter() - begun
    network = unfold(network_of(refined.point, vector=True), relu).network
    cosines = np.abs(_directions(network) @ _directions(truth).T).max(axis=0)
    steps, passes = len(refined.trace.rows) - 1, refined.trace.samples // samples
    return LargeRun(compare(network, truth).max_error, int(np.sum(cosines > 0.999)), steps, passes, seconds)


def _refined(arm: str, truth: Network, source: Source, rng: Generator) -> Refined:
    if arm == "random, 16 spares":
        return over_wide(source, SIGN_FREE, truth.width, search=Search(spares=SPARES, hops=0), rng=rng)
    rows = moment_start(source, truth.width, rng) if arm == "moments" else near_start(truth, 0.9, rng)
    return minimise(source, SIGN_FREE.start(rows, 1), total_variation(source))


def _directions(network: Network) -> Array:
    rows = network.layer.rows
    return np.asarray(rows / np.linalg.norm(rows, axis=1)[:, None])


def measure(settings: Settings[LargeSize]) -> dict[LargeCell, LargeRun]:
    """One run per arm and seed, each of which takes minutes."""
    cells = [LargeCell(arm, seed) for arm in ARMS for seed in settings.seeds]
    runs: dict[LargeCell, LargeRun] = {}
    for cell in cells:
        runs[cell] = run(cell.arm, settings.grid, cell.seed)
        settings.tick("runs", len(runs), len(cells), f"{cell.arm}: error {runs[cell].error:.1e}")
    return runs


def summary(size: LargeSize, runs: Mapping[LargeCell, LargeRun]) -> StudyResult:
    """Every run, and how many of an arm are right."""
    rows = [LargeRow(f"{size.dim}-{size.width}-1", cell.arm, cell.seed, *one) for cell, one in runs.items()]
    parts = [_count(arm, [row for row in rows if row.start == arm]) for arm in ARMS]
    return StudyResult(headings(LargeRow), rows, f"Recovered to {EXACT:g} (median seconds): {', '.join(parts)}.")


def _count(arm: str, rows: list[LargeRow]) -> str:
    exact = sum(row.largest_error < EXACT for row in rows)
    return f"{arm} {exact}/{len(rows)} ({np.median([row.seconds for row in rows]):.0f} s)"


LARGE = Study(
    "large-network", "Matrix-free refinement from a good start, from random directions with spares, and from moments",
    "A 784-32-1 network is recovered to 1e-8 from 2^17 samples in minutes on two cores.",
    LargeSize(200, 16, 20_000, 2**15), LargeSize(), measure, summary)
