"""Teachers and objectives for tests of landscapes, and a dense Hessian to check products against."""

from __future__ import annotations

import numpy as np

import laybare as lb
from laybare.landscape import (
    DesignParameters,
    FreeSpace,
    LocalDerivatives,
    Objective,
    ReLURisk,
    SampledPenalty,
    SampledRisk,
    Teacher,
    UnitRows,
    coefficient,
    even_response,
    general_design,
    orthogonal_design,
    pairs_on_spheres,
    population_f,
    population_g,
    population_tensor_risk,
    response_of,
    series_risk,
    tensor_risk,
)
from laybare.moments import PackedQuartic, packed_moments, quartic
from laybare.numerics.shapes import Array
from laybare.planted import orthonormal_weights, random_unit_rows


def teacher(
    dim: int, width: int, rng: np.random.Generator, *, orthonormal: bool = False, ratio: float = 4.0,
    activation: lb.Activation = lb.relu,
) -> Teacher:
    """Readouts from 1 to `ratio`; rows orthonormal, or Gaussian of length 1."""
    rows = (orthonormal_weights if orthonormal else random_unit_rows)(dim, width, rng=rng)
    return Teacher(np.geomspace(1.0, ratio, width), rows, activation)


def drawn(truth: Teacher, samples: int, rng: np.random.Generator, noise: float = 0.0) -> lb.Samples:
    """Gaussian inputs and the teacher's outputs."""
    x = rng.standard_normal((samples, truth.dim))
    y = truth.activation(x @ truth.directions.T) @ truth.readout + noise * rng.standard_normal(samples)
    return lb.Samples(x, y, law=lb.Gaussian(0, 1))


def objectives(rng: np.random.Generator) -> dict[str, Objective]:
    """One of every kind, in the population and from samples, width 3 in dimension 4."""
    truth = teacher(4, 3, rng)
    source = drawn(truth, 400, rng, noise=0.3)
    moments = packed_moments(source, 4)
    packed, sampled = PackedQuartic.of(moments), quartic(source)
    second = coefficient(lb.relu, 2)
    return {
        "f, ReLU kernel": ReLURisk(truth),
        "f, Hermite series": series_risk(truth, 9),
        "f, series, readout held": series_risk(truth, 9, domain=UnitRows(1, held=1)),
        "f'": population_tensor_risk(truth),
        "G": population_g(truth, mu=0.7, strength=1.1),
        "F": population_f(truth, mu=0.7, strength=1.1),
        "F with delta": population_f(truth, mu=0.7, strength=1.1, ridge=0.3),
        "P'": pairs_on_spheres(truth.readout, truth.directions),
        "R": pairs_on_spheres(truth.readout, truth.directions, mu=0.4, pair=0.0),
        "P' + R": pairs_on_spheres(truth.readout, truth.directions, mu=0.4),
        "f' from moments": tensor_risk(moments.tensor(2)[0], packed, lb.relu, 3),
        "f' from passes": tensor_risk(moments.tensor(2)[0], sampled, lb.relu, 3),
        "f' from a batch": SampledRisk(source=source, response=even_response(lb.relu), width=3),
        "f from a batch, tanh": SampledRisk(source=source, response=response_of(lb.tanh), width=3, domain=FreeSpace()),
        "G from passes": orthogonal_design(sampled, -1.0, 3, 4, mu=0.7, strength=1.1),
        "G from moments": orthogonal_design(packed, -1.0, 3, 4, mu=0.7, strength=1.1),
        "F from a batch": general_design(
            sampled, -1.0, 3, 4, penalty=SampledPenalty(source, second), parameters=DesignParameters(0.7, 1.1, 0.1)),
    }


def some_point(objective: Objective, rng: np.random.Generator) -> Array:
    """A generic point: away from unit length and equal readouts where these are free."""
    start = objective.start(rng)
    return objective.domain.project(start + 0.2 * rng.standard_normal(start.shape))


def dense_hessian(objective: Objective, point: Array) -> Array:
    """The Hessian on the domain, column by column; zero along what is not tangent."""
    local = LocalDerivatives(objective, point)
    columns = [local.times(unit.reshape(point.shape)).ravel() for unit in np.eye(point.size)]
    return np.array(columns)


def tangent_eigenvalues(objective: Objective, point: Array) -> Array:
    """Eigenvalues of the Hessian on the tangent space, rising."""
    projection = np.array([objective.domain.tangent(point, unit.reshape(point.shape)).ravel() for unit in np.eye(point.size)])
    values, vectors = np.linalg.eigh(projection)
    basis = vectors[:, values > 0.5]
    eigenvalues: Array = np.linalg.eigvalsh(basis.T @ dense_hessian(objective, point) @ basis)
    return eigenvalues
