"""LandscapeDesign: close from samples before the solver, exact after it, by every route; refusals with their reasons."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from landscapes import drawn, teacher
from scipy.stats import ortho_group
from unfinished_certificate import without_certificate

import laybare as lb
from laybare.cli import commands
from laybare.landscape import DesignParameters, StepSchedule, Teacher
from laybare.methods import landscape_design
from laybare.methods.landscape_design import PolarRoute, TensorRoute, WhitenedRoute
from laybare.methods.printed.ge_lee_ma_2018 import PrintedDesign
from laybare.networks import unsigned_error
from laybare.planted import random_unit_rows
from laybare.search.settings import Search

ONE_START = Search(spares=0, hops=0)
EXACT = 1e-8
SQUARE = lb.Activation.custom("square", lambda t: t**2, lambda t: 2 * t, degree=2, parity="even")


def network(truth: Teacher) -> lb.Network:
    return lb.Network(lb.Layer(truth.directions, None, truth.activation), truth.readout)


def start_error(method: lb.LandscapeDesign, truth: Teacher, source: lb.Samples, rng: np.random.Generator) -> float:
    return unsigned_error(method.start(source, truth.width, rng=rng).network.layer.weights, truth.directions)


@pytest.mark.parametrize(
    ("route", "limit"), [(TensorRoute(), 0.16), (PolarRoute(), 0.16), (WhitenedRoute(), 0.4)], ids=["f'", "polar", "F whitened"])
def test_start_alone_is_close(route: object, limit: float, rng: np.random.Generator) -> None:
    """d = m = 6, n = 6000, readouts 1; random directions are off by more than 0.5."""
    truth = teacher(6, 6, rng, orthonormal=True, ratio=1.0)
    source = drawn(truth, 6000, rng)
    assert start_error(lb.LandscapeDesign(route=route), truth, source, rng) < limit
    assert unsigned_error(random_unit_rows(6, 6, rng=rng), truth.directions) > 0.5


@pytest.mark.parametrize(
    "activation", [lb.relu, lb.leaky_relu(0.1), lb.absolute, lb.softplus, lb.gelu], ids=lambda activation: activation.name)
def test_one_start_is_enough(activation: lb.Activation, rng: np.random.Generator) -> None:
    truth = teacher(8, 8, rng, orthonormal=True, ratio=1.0, activation=activation)
    found = lb.recover(drawn(truth, 4000, rng), lb.LandscapeDesign(activation=activation, search=ONE_START), 8, rng=rng)
    assert lb.compare(found.network, network(truth)).max_error < EXACT
    assert found.certificate.verdict == "verified", found.certificate.explain()


@pytest.mark.parametrize(("dim", "width", "samples"), [(4, 1, 400), (1, 1, 300), (5, 5, 1500), (12, 3, 1500)])
def test_other_shapes(dim: int, width: int, samples: int, rng: np.random.Generator) -> None:
    truth = teacher(dim, width, rng)
    found = lb.recover(drawn(truth, samples, rng), lb.LandscapeDesign(), width, rng=rng)
    assert lb.compare(found.network, network(truth)).max_error < EXACT


def test_width_is_found(rng: np.random.Generator) -> None:
    truth = teacher(20, 4, rng, ratio=1.0)
    found = lb.recover(drawn(truth, 3000, rng), lb.LandscapeDesign(), rng=rng)
    assert found.network.width == 4 and found.certificate.verdict == "verified", found.certificate.explain()
    assert lb.compare(found.network, network(truth)).max_error < EXACT


def test_correlated_inputs_are_whitened(rng: np.random.Generator) -> None:
    truth = teacher(6, 3, rng)
    x = rng.standard_normal((2000, 6)) @ (rng.standard_normal((6, 6)) + 2 * np.eye(6))
    found = lb.recover(lb.Samples(x, network(truth)(x)), lb.LandscapeDesign(), 3, rng=rng)
    assert lb.compare(found.network, network(truth)).max_error < EXACT


def test_start_turns_with_its_inputs(rng: np.random.Generator) -> None:
    """The minimum turns with the inputs, whatever the random start."""
    truth = teacher(5, 5, rng, orthonormal=True, ratio=1.5)
    source = drawn(truth, 20_000, rng)
    x, y = source.read(0, 20_000)
    Q = ortho_group.rvs(5, random_state=1)
    turned = lb.Samples(x @ Q.T, y, law=lb.Gaussian(0, 1))
    method = lb.LandscapeDesign(route=PolarRoute())
    one, other = (method.start(part, 5, rng=np.random.default_rng(0)).network for part in (source, turned))
    assert unsigned_error(one.layer.weights, other.layer.weights @ Q) < 0.05  # control units are not turned with the inputs


def test_outputs_scale(rng: np.random.Generator) -> None:
    truth = teacher(6, 3, rng)
    source = drawn(truth, 3000, rng)
    x, y = source.read(0, 3000)
    scaled = lb.Samples(x, 7.0 * y, law=lb.Gaussian(0, 1))
    one, other = (lb.LandscapeDesign().start(part, 3, rng=np.random.default_rng(0)).network for part in (source, scaled))
    assert lb.compare(lb.Network(one.layer, 7.0 * one.readout), other).max_error < 1e-4


def test_same_seed_same_bits(rng: np.random.Generator) -> None:
    source = drawn(teacher(6, 4, rng), 1500, rng)
    one, other = (lb.recover(source, lb.LandscapeDesign(), 4, rng=3).network for _ in range(2))
    assert (one.layer.weights == other.layer.weights).all() and (one.readout == other.readout).all()


def test_moments_beyond_the_packed_size(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the fourth moment is not formed, passes over the data take its place: nearly the same start."""
    full, fewer = teacher(5, 5, rng, orthonormal=True, ratio=1.0), teacher(7, 5, rng, orthonormal=True, ratio=1.0)
    for truth in (full, fewer):
        source = drawn(truth, 6000, rng)
        packed = start_error(lb.LandscapeDesign(), truth, source, np.random.default_rng(0))
        with monkeypatch.context() as patched:
            patched.setattr(landscape_design, "LANDSCAPE", landscape_design.LandscapeOptions(packed_dim=2))
            passes = start_error(lb.LandscapeDesign(), truth, source, np.random.default_rng(0))
        assert max(packed, passes) < 0.25


@pytest.mark.parametrize("orthogonal", [True, False])
@pytest.mark.parametrize("samples", [60_000, pytest.param(200_000, marks=pytest.mark.slow)])
def test_literal_objectives_with_many_samples(orthogonal: bool, samples: int, rng: np.random.Generator) -> None:
    """G and F as printed, d = 3; the refinement then is exact."""
    truth = teacher(3, 3, rng, orthonormal=True, ratio=1.0)
    source = drawn(truth, samples, rng)
    with without_certificate():
        found = lb.recover(source, lb.LandscapeDesign.literal(orthogonal=orthogonal), 3, rng=rng)
        refined = lb.refine(source, found.network)
    assert unsigned_error(found.network.layer.weights, truth.directions) < 0.4
    assert lb.compare(refined.network, network(truth)).max_error < EXACT


def test_literal_stochastic_descent(rng: np.random.Generator) -> None:
    """SGD on G with fresh batches, d = 3, from 60 batches of 5000."""
    truth = teacher(3, 3, rng, orthonormal=True, ratio=1.0)
    steps = StepSchedule(step=0.1, count=59, hold=40, every=10)
    method = lb.LandscapeDesign.literal(orthogonal=True, parameters=DesignParameters(1.0, 0.8, 0.0, 0.0), steps=steps, batch=5000)
    source = drawn(truth, 300_000, rng)
    assert start_error(method, truth, source, rng) < 0.5
    fewer = teacher(4, 2, rng, orthonormal=True, ratio=1.0)
    assert start_error(method, fewer, drawn(fewer, 300_000, rng), rng) < 0.5


def test_literal_f_stochastic_descent_runs(rng: np.random.Generator) -> None:
    truth = teacher(3, 3, rng, orthonormal=True, ratio=1.0)
    method = lb.LandscapeDesign.literal(
        parameters=DesignParameters(1.0, 0.8, 0.0, 0.0), steps=StepSchedule(step=0.05, count=50), batch=4000)
    assert method.start(drawn(truth, 204_000, rng), 3, rng=rng).network.width == 3
    fewer = teacher(4, 2, rng, orthonormal=True, ratio=1.0)
    assert method.start(drawn(fewer, 204_000, rng), 2, rng=rng).network.width == 2


def test_noise_leaves_the_error_that_the_certificate_says(rng: np.random.Generator) -> None:
    """A tenth of sd(y): root mean square of the weights' errors against their standard errors."""
    truth = network(teacher(6, 6, rng, orthonormal=True, ratio=1.0)).canonical()
    x = rng.standard_normal((6000, 6))
    y = truth(x)
    source = lb.Samples(x, y + 0.1 * y.std() * rng.standard_normal(6000))
    found = lb.recover(source, lb.LandscapeDesign(), 6, rng=rng)
    match = lb.compare(found.network, truth)
    errors = found.network.layer.weights[match.pairs[:, 0]] - truth.layer.weights[match.pairs[:, 1]]
    assert np.sqrt(np.sum(errors**2) / np.sum(found.certificate.standard_errors.weights**2)) < 1.5
    assert found.certificate.verdict == "verified", found.certificate.explain()


def test_certificate_tells_of_the_start(rng: np.random.Generator) -> None:
    found = lb.recover(drawn(teacher(5, 4, rng), 1500, rng), lb.LandscapeDesign(), 4, rng=rng)
    claims = {claim.name: claim for claim in found.certificate.checks}
    assert claims["curvature of the designed objective at the start"].value > 0
    assert "gradient" in claims["curvature of the designed objective at the start"].explanation
    assert claims["excess kurtosis of the inputs"].passed


def test_inputs_with_heavy_tails_are_doubtful_if_there_is_noise(rng: np.random.Generator) -> None:
    truth = teacher(5, 4, rng)
    x = rng.standard_t(5, (4000, 5))
    y = network(truth)(x)
    claims = []
    for noise in (0.0, 0.2):
        source = lb.Samples(x, y + noise * rng.standard_normal(4000))
        certificate = lb.recover(source, lb.LandscapeDesign(), 4, rng=rng).certificate
        claims.append(next(claim for claim in certificate.checks if claim.name == "excess kurtosis of the inputs"))
    assert [claim.passed for claim in claims] == [True, False]
    assert all(claim.value > claim.threshold for claim in claims)


@pytest.mark.parametrize(
    ("activation", "missing"),
    [(lb.sigmoid, "order 2 .* and order 4"), (lb.tanh, "order 2 .* and order 4"), (lb.erf, "order 2 .* and order 4"),
     (lb.step, "order 2 .* and order 4"), (SQUARE, "order 4 "), (lb.power_relu(2), "order 4 ")],
    ids=lambda value: getattr(value, "name", None))
def test_activations_without_signal_are_refused(activation: lb.Activation, missing: str, rng: np.random.Generator) -> None:
    source = lb.Samples(rng.standard_normal((200, 4)), rng.standard_normal(200))
    with pytest.raises(lb.errors.Unidentifiable, match=f"no Hermite coefficient of {missing}") as refused:
        lb.recover(source, lb.LandscapeDesign(activation=activation), 2)
    assert abs(refused.value.values["fourth"]) < 1e-3


@pytest.mark.parametrize("method", [lb.LandscapeDesign(), lb.LandscapeDesign.literal()], ids=["default", "literal"])
def test_negative_readouts_are_refused_with_the_eigenvalues(method: lb.LandscapeDesign, rng: np.random.Generator) -> None:
    truth = teacher(6, 6, rng, orthonormal=True, ratio=1.0)
    signs = np.array([-1.0, -1.0, 1.0, 1.0, 1.0, 1.0])
    source = drawn(Teacher(signs, truth.directions, lb.relu), 20_000, rng)
    with pytest.raises(lb.errors.AssumptionViolated, match="second moment has eigenvalues -") as refused:
        lb.recover(source, method, 6, rng=rng)
    assert len(refused.value.values["negative"]) == 2
    np.testing.assert_allclose(refused.value.values["negative"], -1.0, atol=0.4)


def test_positive_readouts_are_not_refused() -> None:
    """Twenty draws at 3 samples a coefficient: none is taken for negative."""
    for seed in range(20):
        rng = np.random.default_rng([seed, 8])
        seen = landscape_design.controlled_even_moments(drawn(teacher(6, 3, rng), 90, rng), 3, lb.relu)
        landscape_design.check_positive(seen, 3)


def test_dependent_weights_are_refused_by_routes_that_divide(rng: np.random.Generator) -> None:
    rows = random_unit_rows(4, 4, rng=rng)
    rows[3] = rows[:3].sum(axis=0) / np.linalg.norm(rows[:3].sum(axis=0))
    source = drawn(Teacher(np.ones(4), rows, lb.relu), 2000, rng)
    for route in (PolarRoute(), WhitenedRoute(), PrintedDesign()):
        with pytest.raises(lb.errors.NotSeparated, match="Eigenvalue 4 of M"):
            route(source, 4, lb.relu, rng=rng)


def test_literal_objective_without_a_minimum_is_refused() -> None:
    """F with δ in more dimensions than units: plain moments of 3000 samples let it fall without end."""
    rng = np.random.default_rng(2)
    source = drawn(teacher(6, 2, rng, orthonormal=True, ratio=1.0), 3000, rng)
    with pytest.raises(lb.errors.TooFewSamples, match="falls without end"):
        lb.recover(source, lb.LandscapeDesign.literal(span=False), 2, rng=rng)


def test_several_outputs_are_refused(rng: np.random.Generator) -> None:
    source = lb.Samples(rng.standard_normal((200, 4)), rng.standard_normal((200, 2)))
    with pytest.raises(lb.errors.InvalidInput, match="There are 2 outputs"):
        lb.recover(source, lb.LandscapeDesign(), 2)


def test_sizes_are_refused(rng: np.random.Generator) -> None:
    source = drawn(teacher(4, 4, rng), 300, rng)
    with pytest.raises(lb.errors.InvalidInput, match="Width 5 in dimension 4"):
        lb.recover(source, lb.LandscapeDesign(), 5)
    with pytest.raises(lb.errors.TooFewSamples, match="weights"):
        lb.recover(drawn(teacher(10, 4, rng), 30, rng), lb.LandscapeDesign(), 4)
    noise = lb.Samples(rng.standard_normal((300, 4)), rng.standard_normal(300))
    with pytest.raises(lb.errors.NotSeparated, match="do not tell the width"):
        lb.recover(noise, lb.LandscapeDesign.literal())


def test_command_line_knows_it(tmp_path: Path, rng: np.random.Generator) -> None:
    truth = teacher(5, 3, rng)
    x, y = drawn(truth, 800, rng).read(0, 800)
    np.savez(tmp_path / "data.npz", x=x, y=y[:, 0])
    result = CliRunner().invoke(commands, ["recover", str(tmp_path / "data.npz"), "--method", "landscape-design", "--width", "3"])
    assert result.exit_code == 0 and "by LandscapeDesign" in result.output and "verdict: verified" in result.output
