"""Every claim of a certificate can fail, and does where it should; together they never verify a wrong network."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import laybare as lb
from laybare.certificate import Claim, ClaimName, certify, standard_errors_at
from laybare.certificate.evidence import gain_seen
from laybare.lowest_layer.acceptance import LayerClaimName
from laybare.methods.start import AssumptionName
from laybare.numerics.shapes import Event
from laybare.pipeline import Recovery
from laybare.planted import orthonormal_weights, random_network
from laybare.source.problem import pose_parts

NOISE = 0.1

# A step of the solver that overshoots is rejected; what measures it may overflow.


def samples(network: lb.Network, size: int, rng: np.random.Generator, noise: float = 0.0) -> lb.Samples:
    x = rng.standard_normal((size, network.dim))
    y = network(x)
    return lb.Samples(x, y + noise * rng.standard_normal(y.shape))


def named(certificate: lb.Certificate, name: str) -> lb.Claim:
    (claim,) = [claim for claim in certificate.checks if claim.name == name]
    return claim


def failed(certificate: lb.Certificate) -> set[str]:
    return {claim.name for claim in certificate.checks if not claim.passed}


def some_of(network: lb.Network, units: slice) -> lb.Network:
    layer = lb.Layer(network.layer.weights[units], network.layer.biases[units], network.activation)
    return lb.Network(layer, network.readout[units], network.offset)


def teacher(rng: np.random.Generator, activation: lb.Activation = lb.relu, outputs: int = 1) -> lb.Network:
    """Three orthogonal units of five inputs, of about equal weight."""
    rows = orthonormal_weights(5, 3, rng=rng) * (1.0 if activation.degree is not None else 2.0)
    readout = rng.choice([-1.0, 1.0], (3, outputs)) * rng.uniform(0.8, 1.2, (3, outputs))
    return lb.Network(lb.Layer(rows, rng.uniform(-0.5, 0.5, 3), activation), readout[:, 0] if outputs == 1 else readout)


@pytest.mark.parametrize("activation", [lb.relu, lb.tanh], ids=lambda activation: activation.name)
@pytest.mark.parametrize("noise", [0.0, NOISE])
def test_the_truth_is_verified(activation: lb.Activation, noise: float, rng: np.random.Generator) -> None:
    truth = teacher(rng, activation, outputs=2)
    certificate = lb.refine(samples(truth, 600, rng, noise), truth).certificate
    assert certificate.verdict == "verified", certificate.explain()
    assert abs(certificate.noise - noise) < 1e-12 + 4 * noise / np.sqrt(2 * 2 * 540)  # relative sd of a noise estimate: 1/√(2N)


def test_too_few_equations() -> None:
    truth = random_network(3, 2, rng=0)  # 9 unknowns; of 11 samples one is kept fresh
    certificate = lb.refine(samples(truth, 11, np.random.default_rng(0)), truth).certificate
    assert "equations per unknown" in failed(certificate)
    assert certificate.verdict == "doubtful"


def test_fresh_samples_from_elsewhere(rng: np.random.Generator) -> None:
    truth, other = teacher(rng), teacher(rng)
    data = samples(truth, 400, rng, NOISE)
    found = lb.refine(data, truth).network
    certificate = certify(found, pose_parts(data, samples(other, 100, rng), biases=True), rng=rng)
    assert "fresh residual over used residual" in failed(certificate) <= {
        "fresh residual over used residual", "what the best challenger gains"}  # a flatter function may predict other rows better
    assert certificate.verdict == "refuted"


@pytest.mark.parametrize("activation", [lb.relu, lb.tanh], ids=lambda activation: activation.name)
@pytest.mark.parametrize("noise", [0.0, NOISE])
def test_unit_missing(activation: lb.Activation, noise: float, rng: np.random.Generator) -> None:
    truth = teacher(rng, activation)
    certificate = lb.refine(samples(truth, 600, rng, noise), some_of(truth, slice(2))).certificate
    assert {"structure left in the residual", "gain of one more unit"} <= failed(certificate)
    price = (5 + 1 + 1 - (activation.degree is not None)) * np.log(540)  # a row, a bias, a readout, less a free scale
    assert named(certificate, "gain of one more unit").threshold == pytest.approx(price)
    assert named(certificate, "loss of one unit fewer").threshold == pytest.approx(0.85 * price)
    assert certificate.verdict == "refuted"


@pytest.mark.parametrize("activation", [lb.relu, lb.tanh], ids=lambda activation: activation.name)
def test_unit_too_many(activation: lb.Activation, rng: np.random.Generator) -> None:
    truth = teacher(rng, activation)
    certificate = lb.refine(samples(some_of(truth, slice(2)), 600, rng, NOISE), truth).certificate
    assert "loss of one unit fewer" in failed(certificate)
    assert certificate.verdict != "verified"


def test_unit_too_many_without_noise(rng: np.random.Generator) -> None:
    truth = teacher(rng)
    layer = lb.Layer(np.vstack([truth.layer.weights, np.eye(5)[:1]]), np.append(truth.layer.biases, 0.2))
    with_spare = lb.Network(layer, np.append(truth.readout, 1e-11))
    certificate = lb.refine(samples(truth, 400, rng), with_spare).certificate
    assert "loss of one unit fewer" in failed(certificate)


def test_units_nearly_parallel(rng: np.random.Generator) -> None:
    rows = np.array([[1.0, 0.0, 0.0], [np.cos(0.02), np.sin(0.02), 0.0]])
    truth = lb.Network(lb.Layer(rows, np.array([0.3, 0.31])), np.array([1.0, 0.8]))
    certificate = lb.refine(samples(truth, 400, rng), truth).certificate
    assert "samples between the two closest kinks" in failed(certificate)
    assert certificate.verdict != "verified"


def test_units_nearly_parallel_trade_weight_within_the_noise(rng: np.random.Generator) -> None:
    rows = np.array([[1.0, 0.0, 0.0], [np.cos(0.04), np.sin(0.04), 0.0]])
    truth = lb.Network(lb.Layer(rows, np.array([0.3, 0.5])), np.array([1.0, 0.8]))
    x = rng.standard_normal((2000, 3))
    certificate = lb.refine(lb.Samples(x, truth(x) + 0.1 * rng.standard_normal(2000)), truth).certificate
    assert "largest relative standard error of a unit" in failed(certificate)
    assert certificate.verdict != "verified"


def test_kink_that_no_sample_crosses(rng: np.random.Generator) -> None:
    truth = lb.Network(lb.Layer(np.eye(3)[:2], np.array([0.2, 8.0])), np.array([1.0, 0.8]))
    certificate = lb.refine(samples(truth, 400, rng), truth).certificate
    assert "samples beyond the least crossed kink" in failed(certificate)
    assert certificate.verdict == "doubtful"


def test_smooth_unit_that_is_straight_on_all_samples(rng: np.random.Generator) -> None:
    truth = lb.Network(lb.Layer(np.eye(3)[:2], np.array([0.2, 80.0]), lb.softplus), np.array([1.0, 0.8]))
    certificate = lb.refine(samples(truth, 400, rng), truth).certificate
    assert "largest relative standard error of a unit" in failed(certificate)
    assert certificate.verdict == "doubtful"


def test_parameters_that_the_samples_leave_open() -> None:
    """The second unit is active at three samples that the first one sees too: four numbers of it cannot come from three."""
    rng = np.random.default_rng(0)
    x = np.vstack([rng.uniform(1.0, 2.0, (3, 3)), rng.uniform(-2.0, -1.0, (60, 3)) * [-1.0, 1.0, 1.0]])
    truth = lb.Network(lb.Layer(np.array([[0.0, 1.0, -1.0], [0.0, 0.6, 0.8]])), np.array([1.0, 1.0]))
    errors = standard_errors_at(truth, lb.Samples(x, truth(x)), 0.1, biases=True, offset=True)
    assert np.isinf(errors.weights[1]).any()
    assert np.isfinite(errors.weights[0]).all()
    used, fresh = lb.Samples(x, truth(x)).split(0.95, rng=rng)
    certificate = certify(truth, pose_parts(used, fresh, biases=True), rng=rng)
    (claim,) = (claim for claim in certificate.checks if claim.name == ClaimName.RELATIVE_ERROR)
    assert not claim.passed and np.isinf(claim.value) and "without any change at the samples" in claim.explanation
    assert certificate.verdict != "verified"


def test_signs_that_no_data_can_tell(rng: np.random.Generator) -> None:
    """Σ aᵢ wᵢ = 0 over three units: turning all of them over changes nothing but the offset (Awasthi et al. 2021, Claim 4.8)."""
    rows = rng.standard_normal((3, 3))
    rows[2] = -rows[0] - rows[1]
    truth = lb.Network(lb.Layer(rows, np.array([0.3, -0.2, 0.5])), np.ones(3))
    certificate = lb.recover(samples(truth, 400, rng), width=3, rng=0).certificate
    claim = named(certificate, "sign patterns that fit")
    assert claim.value == 2
    assert failed(certificate) == {claim.name}
    assert certificate.verdict == "doubtful"


def test_refinement_cut_short(rng: np.random.Generator) -> None:
    def interrupt_once(event: Event) -> None:
        if event.stage == "refining":
            raise KeyboardInterrupt

    truth = teacher(rng)
    start = lb.Network(lb.Layer(truth.layer.weights + 0.1, truth.layer.biases), truth.readout)
    certificate = lb.refine(samples(truth, 400, rng), start, progress=interrupt_once).certificate
    assert "refinement finished" in failed(certificate)
    assert certificate.verdict != "verified"


@pytest.mark.parametrize("noise", [0.0, NOISE])
@pytest.mark.parametrize("activation", [lb.relu, lb.tanh], ids=lambda activation: activation.name)
def test_wrong_width_is_never_verified(activation: lb.Activation, noise: float, rng: np.random.Generator) -> None:
    truth = teacher(rng, activation)
    data = samples(truth, 400, rng, noise)
    narrow, wide = (lb.recover(data, width=width, activation=activation, rng=0) for width in (2, 4))
    assert narrow.certificate.verdict == "refuted"
    if wide.network.width == 4:  # copies of one unit are merged
        assert wide.certificate.verdict != "verified"
    else:
        assert lb.compare(wide.network, truth).max_error < 1e-8


LAWS: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "Student": lambda rng: rng.standard_t(5, 600),
    "uniform": lambda rng: rng.uniform(-1.7, 1.7, 600),
    "signs": lambda rng: rng.choice([-1.0, 1.0], 600),
}


@pytest.mark.parametrize("law", LAWS)
def test_noise_need_not_be_gaussian(law: str, rng: np.random.Generator) -> None:
    truth, x = teacher(rng), rng.standard_normal((600, 5))
    assert lb.refine(lb.Samples(x, truth(x) + NOISE * LAWS[law](rng)), truth).certificate.verdict == "verified"


def test_text_has_the_verdict_and_every_number(rng: np.random.Generator) -> None:
    truth = teacher(rng)
    found: Recovery = lb.refine(samples(truth, 300, rng), truth)
    text = found.certificate.explain()
    assert text.startswith("verdict: verified")
    shown = str(found.certificate)  # the same words, in lines of a terminal
    assert shown.split() == text.split() and max(map(len, shown.splitlines())) <= 80
    for claim in found.certificate.checks:
        assert claim.name in text
        assert f"{claim.value:.3g} ({claim.direction or 'threshold'} {claim.threshold:.3g}, {claim.kind})" in text
        assert claim.explanation in text


@pytest.mark.parametrize("noise", [0.0, NOISE])
def test_an_interrupt_while_certifying_verifies_nothing(noise: float, rng: np.random.Generator) -> None:
    """A refit that is cut short would make a unit look needed, or a missing one worthless."""
    truth = random_network(4, 3, rng=rng)
    source = samples(truth, 12_000, rng, noise)
    heard = 0

    def interrupt(event: Event) -> None:
        nonlocal heard
        if event.stage == "certifying" and event.total:
            heard += 1
            raise KeyboardInterrupt

    found = lb.recover(source, lb.RandomStart(), width=3, rng=0, progress=interrupt)
    assert heard == 1
    assert found.certificate.verdict != "verified"
    assert not named(found.certificate, "certificate finished").passed


def test_five_statements_rest_on_checks(rng: np.random.Generator) -> None:
    """Each statement stands if its checks hold; a verified network is printed in a few lines, with what was not seen."""
    truth = teacher(rng)
    found = lb.refine(samples(truth, 600, rng, NOISE), some_of(truth, slice(2)))
    names = [claim.name for claim in found.certificate.claims]
    assert names == [ClaimName.FUNCTION, ClaimName.UNITS, ClaimName.INTERVALS, ClaimName.MINIMUM, ClaimName.ROWS]
    function = found.certificate.claims[0]
    assert not function.passed and function.decisive
    assert function.value == sum(not check.passed for check in function.explanations) > 0
    assert all(claim.passed == all(check.passed for check in claim.explanations) for claim in found.certificate.claims)
    assert len(str(lb.refine(samples(truth, 600, rng, NOISE), truth)).splitlines()) <= 25


def test_a_check_that_comes_later_joins_its_statement(rng: np.random.Generator) -> None:
    truth = teacher(rng)
    certificate = lb.refine(samples(truth, 600, rng, NOISE), truth).certificate
    late = Claim("late", 2.0, 1.0, False, "tested", "")
    joined = certificate.with_check(ClaimName.MINIMUM, late)
    assert len(joined.claims) == len(certificate.claims) and late in joined.checks and joined.verdict == "doubtful"
    alone = certificate.with_check("elsewhere", late)
    assert alone.claims == (*certificate.claims, late)
    assert not any(check.decisive for claim in joined.claims for check in claim.not_decisive().explanations)


def test_yes_is_at_least_one() -> None:
    sides = [Claim("c", value, 1.0, passed, "tested", "").direction for value, passed in ((1.0, True), (0.0, False), (0.5, True))]
    assert sides == ["at least", "at least", "at most"]


def test_a_unit_that_is_just_visible_is_missed_as_often_as_the_level_says() -> None:
    """Its doubled log-likelihood ratio is the square of a normal variable of that mean; sd 7e-4 of 100,000, 4 sd."""
    draws = np.random.default_rng(0).standard_normal(100_000)
    for limit in (10.0, 30.0, 200.0):
        gains = (np.sqrt(gain_seen(limit, 0.05)) + draws) ** 2
        assert np.mean(gains < limit) == pytest.approx(0.05, abs=0.0028)


def test_every_claim_is_named_by_one_constant():
    """No claim is made under a name that is written out, and no two names say the same: nothing depends on how one is spelt."""
    source = Path(lb.__file__).parent
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in sorted(source.rglob("*.py"))]
    calls = [
        node for tree in trees for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Claim" and node.args]
    written_out = [ast.unparse(call.args[0]) for call in calls if isinstance(call.args[0], ast.Constant)]
    assert len(calls) > 50 and not written_out
    classes = (ClaimName, AssumptionName, LayerClaimName)
    names = [name for one in classes for key, name in vars(one).items() if key.isupper()]
    assert len(names) > 50 and len(names) == len(set(names))
