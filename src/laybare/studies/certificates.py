"""Certificates on trial: are verdicts ever wrong on hostile data, on black boxes, or on plain noise?

Every family of black boxes on which a certificate might lie draws a box from a seed, with the function behind it, or none. All
are asked as a user would: `recover(oracle)` without method or width. A verified network is right if it equals the function on all
inputs but the share that its certificate admits; with noise, if it equals the mean of the answers up to the resolution that the
certificate states. A box whose answers depend on more than the input has no function.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import nan
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.random import Generator
from scipy.special import betaincinv

from laybare.activations import tanh
from laybare.certificate import Certificate, StandardErrors
from laybare.errors import BudgetExhausted, LaybareError
from laybare.methods import RandomStart
from laybare.networks import Layer, Network
from laybare.networks.canonical import Reflection, Units, normalise_units, reflection
from laybare.networks.pairing import match_units
from laybare.numerics.shapes import Array
from laybare.pipeline import Recovery, recover
from laybare.planted import random_network
from laybare.solver.minimise import minimise
from laybare.solver.point import point_of
from laybare.source import Oracle, Samples, Source
from laybare.source.problem import total_variation
from laybare.studies import columns as col
from laybare.studies.hostile_cases import FAMILIES, HostileCase, teacher, unit_row
from laybare.studies.study import Study, StudyMeasurement, table


class HostileBox(NamedTuple):
    """A black box, and the function behind it, none if no one function is. Of `noisy` answers it is the mean.

    `tol` is the rounding of its arithmetic, relative to the spread of the answers.
    """

    oracle: Oracle
    function: Callable[[Array], Array] | None
    noisy: bool = False
    fair: bool = False
    tol: float = 1e-6


def _small(rng: Generator) -> tuple[int, Network]:
    dim = int(rng.integers(3, 7))
    return dim, teacher(rng, dim, int(rng.integers(2, 6)))


def _box(rng: Generator, dim: int, answer: Callable[[Array], Array], budget: int = 20_000) -> Oracle:
    return Oracle(answer, dim, budget=budget, rng=rng)


def _of(
    rng: Generator, dim: int, function: Callable[[Array], Array], *, fair: bool = False, tol: float = 1e-6, budget: int = 20_000
) -> HostileBox:
    return HostileBox(_box(rng, dim, function, budget), function, fair=fair, tol=tol)


def plain_box(rng: Generator) -> HostileBox:
    """Nothing hostile: one hidden layer of ReLU units."""
    dim, net = _small(rng)
    return _of(rng, dim, net, fair=True)


def hat(rng: Generator) -> HostileBox:
    """Three parallel units that add up to nothing outside of a slab: in class, and unseen from far away."""
    dim, net = _small(rng)
    row, place = unit_row(rng, dim), rng.uniform(0.5, 2.5) + rng.uniform(0.1, 0.4) * np.array([-1.0, 0.0, 1.0])
    weights = np.vstack([net.layer.weights, np.tile(row, (3, 1))])
    readout = np.concatenate([net.readout, rng.uniform(1.0, 3.0) * np.array([1.0, -2.0, 1.0])])
    whole = Network(Layer(weights, np.concatenate([net.layer.biases, -place])), readout, net.offset)
    return _of(rng, dim, whole)  # flipping all three gives the same function: signs stay open


def cone(rng: Generator) -> HostileBox:
    """A cone over a ball."""
    dim, net = _small(rng)
    centre, radius = rng.standard_normal(dim), rng.uniform(1.0, 2.0)
    return _of(rng, dim, lambda x: net(x) + 2.0 * np.maximum(radius - np.linalg.norm(x - centre, axis=1), 0.0))


def back_door(rng: Generator) -> HostileBox:
    """Another answer where two inputs are large."""
    dim, net = _small(rng)
    limit = rng.uniform(0.8, 1.3, 2)
    return _of(rng, dim, lambda x: net(x) + 1.0 * ((x[:, 0] > limit[0]) & (x[:, 1] > limit[1])))


def drifting_box(rng: Generator) -> HostileBox:
    """Answers that grow with every call, slowly or not."""
    dim, net = _small(rng)
    rate, calls = 10.0 ** rng.uniform(-4.0, -1.0), [0]

    def answer(x: Array) -> Array:
        calls[0] += 1
        return np.asarray(net(x) * (1.0 + rate * calls[0]))

    return HostileBox(_box(rng, dim, answer, int(rng.choice([400, 3000, 20_000]))), None)


def shifting_box(rng: Generator) -> HostileBox:
    """Answers shifted by every query; a retrained model after half of a day."""
    dim, net = _small(rng)
    other, asked, change = teacher(rng, dim, net.width), [0], int(rng.integers(20, 300))
    rate = 10.0 ** rng.uniform(-6.0, -3.0)
    retrained = rng.random() < 0.5

    def answer(x: Array) -> Array:
        number = asked[0] + np.arange(len(x))
        asked[0] += len(x)
        return np.asarray(np.where(number < change, net(x), other(x)) if retrained else net(x) + rate * number)

    return HostileBox(_box(rng, dim, answer), None)


def batch_normalised(rng: Generator) -> HostileBox:
    """Batch normalisation in training mode: an answer depends on the rows beside it."""
    dim, net = _small(rng)

    def answer(x: Array) -> Array:
        z = x @ net.layer.weights.T + net.layer.biases
        z = (z - z.mean(axis=0)) / np.sqrt(z.var(axis=0) + 1e-5)
        return np.asarray(np.maximum(z, 0.0) @ net.readout + net.offset)

    return HostileBox(_box(rng, dim, answer), None)


def position_in_batch(rng: Generator) -> HostileBox:
    """The last row of every call is answered by another model: a padded batch."""
    dim, net = _small(rng)
    other = teacher(rng, dim, net.width)

    def answer(x: Array) -> Array:
        y = np.array(net(x))
        y[-1] = np.asarray(other(x[-1:])).ravel()[0]
        return y

    return HostileBox(_box(rng, dim, answer), None)


def smooth_bump(rng: Generator) -> HostileBox:
    """A tanh network and a smooth bump: it repeats itself, so what a fit leaves is no noise."""
    dim = int(rng.integers(2, 5))
    net, centre = teacher(rng, dim, 2, tanh), rng.standard_normal(dim)
    height = 10.0 ** rng.uniform(-2.5, -0.5)
    return _of(rng, dim, lambda x: net(x) + height * np.exp(-2.0 * ((x - centre) ** 2).sum(axis=1)), budget=2000)


def kinked_bump(rng: Generator) -> HostileBox:
    """A ReLU network and a smooth bump or wave of a small height."""
    dim, net = _small(rng)
    row, height, wave = unit_row(rng, dim), 10.0 ** rng.uniform(-3.0, -1.0), rng.random() < 0.5
    def function(x: Array) -> Array:
        return np.asarray(net(x) + height * (np.sin(3.0 * x @ row) if wave else np.exp(-((x - row) ** 2).sum(axis=1))))

    return _of(rng, dim, function, budget=2000)


def routed(rng: Generator) -> HostileBox:
    """A few inputs in a hundred go to another model, by a hash of the input."""
    dim, net = _small(rng)
    other, share = teacher(rng, dim, net.width), rng.uniform(0.01, 0.05)

    def function(x: Array) -> Array:
        mixed = np.abs(np.sin(1e4 * x @ np.arange(1.0, dim + 1.0)) * 1e4) % 1.0
        return np.asarray(np.where(mixed < share, other(x), net(x)))

    return _of(rng, dim, function)


def routed_at_random(rng: Generator) -> HostileBox:
    """One query in a hundred goes to another model, whatever the input."""
    dim, net = _small(rng)
    other, draws = teacher(rng, dim, net.width), np.random.default_rng(rng.integers(2**32))

    def answer(x: Array) -> Array:
        return np.asarray(np.where(draws.random(len(x)) < 0.01, other(x), net(x)))

    return HostileBox(_box(rng, dim, answer), lambda x: np.asarray(0.99 * net(x) + 0.01 * other(x)), noisy=True)


def cached(rng: Generator) -> HostileBox:
    """Answers of a cache whose keys are inputs with few decimals."""
    dim, net = _small(rng)
    decimals = int(rng.integers(1, 4))
    return _of(rng, dim, lambda x: net(np.round(x, decimals)))


def rounded_inside(rng: Generator) -> HostileBox:
    """Hidden features with few digits, sums in double precision."""
    dim, net = _small(rng)
    step = 2.0 ** -int(rng.integers(3, 11))

    def function(x: Array) -> Array:
        h = np.maximum(x @ net.layer.weights.T + net.layer.biases, 0.0)
        return np.asarray(step * np.round(h / step) @ net.readout + net.offset)

    return _of(rng, dim, function)


def drop_out(rng: Generator) -> HostileBox:
    """Every unit is left out of one answer in fifty: the mean is a network, the noise is not its own at every input."""
    dim, net = _small(rng)
    draws = np.random.default_rng(rng.integers(2**32))

    def answer(x: Array) -> Array:
        h = np.maximum(x @ net.layer.weights.T + net.layer.biases, 0.0)
        kept = draws.random(h.shape) >= 0.02
        return np.asarray((h * kept / 0.98) @ net.readout + net.offset)

    return HostileBox(_box(rng, dim, answer, 3000), net, noisy=True)


def stochastic(rng: Generator) -> HostileBox:
    """Additive noise, fresh with every query."""
    dim, net = _small(rng)
    draws, level = np.random.default_rng(rng.integers(2**32)), float(rng.choice([1e-6, 1e-3, 0.1]))
    return HostileBox(_box(rng, dim, lambda x: net(x) + level * draws.standard_normal(len(x)), 3000), net, noisy=True)


def skip_connection(rng: Generator) -> HostileBox:
    """A linear part beside the units: in class."""
    dim, net = _small(rng)
    return _of(rng, dim, Network(net.layer, net.readout, net.offset, rng.standard_normal(dim)), fair=True)


def maxout(rng: Generator) -> HostileBox:
    """The largest of three affine functions: kinks that end on each other."""
    dim = int(rng.integers(2, 6))
    w, b = rng.standard_normal((2, 3, dim)), rng.standard_normal((2, 3))
    return _of(rng, dim, lambda x: (x @ w[0].T + b[0]).max(axis=1) - 0.5 * (x @ w[1].T + b[1]).max(axis=1))


def far_unit(rng: Generator) -> HostileBox:
    """A unit that is active only far from all inputs, or on few of them."""
    dim, net = _small(rng)
    biases = np.array(net.layer.biases)
    biases[0] = -rng.uniform(2.0, 30.0)
    return _of(rng, dim, Network(Layer(net.layer.weights, biases), net.readout, net.offset), fair=True)


def shared_hyperplane(rng: Generator) -> HostileBox:
    """Two units on one hyperplane, on the same or on opposite sides."""
    dim, net = _small(rng)
    side = rng.choice([-1.0, 1.0])
    weights = np.vstack([net.layer.weights, side * 1.5 * net.layer.weights[:1]])
    biases = np.array(net.layer.biases)
    biases = np.append(biases, side * 1.5 * biases[0])
    return _of(rng, dim, Network(Layer(weights, biases), np.append(net.readout, rng.standard_normal()), net.offset))


def deep_box(rng: Generator) -> HostileBox:
    """Two hidden layers, the second of which bends rarely."""
    dim = int(rng.integers(3, 6))
    net = random_network(dim, widths=(3, 2), rng=rng)
    first, second = net.layers
    biases = np.array(second.biases) - rng.uniform(0.0, 2.0) * np.array([1.0, 0.0])
    return _of(rng, dim, Network((first, Layer(second.weights, biases)), net.readout, net.offset))


def clipped_answers(rng: Generator) -> HostileBox:
    """Answers that end at a highest value."""
    dim, net = _small(rng)
    highest = float(np.quantile(net(rng.standard_normal((2000, dim))), rng.uniform(0.8, 0.98)))
    return _of(rng, dim, lambda x: np.minimum(net(x), highest))


def tree_beside(rng: Generator) -> HostileBox:
    """A small step of a tree beside the network."""
    dim, net = _small(rng)
    at, height = rng.uniform(0.5, 2.0), 10.0 ** rng.uniform(-3.0, 0.0)
    return _of(rng, dim, lambda x: net(x) + height * (x[:, 0] > at))


def single_precision_box(rng: Generator) -> HostileBox:
    """Arithmetic in float32."""
    dim, net = _small(rng)
    w, b, a = (np.asarray(part, dtype=np.float32) for part in (net.layer.weights, net.layer.biases, net.readout))
    c = np.float32(net.offset)
    return _of(rng, dim, lambda x: np.maximum(x.astype(np.float32) @ w.T + b, 0) @ a + c, fair=True, tol=1e-4)


BOX_FAMILIES: dict[str, Callable[[Generator], HostileBox]] = {
    f"box: {family.__name__.replace('_', ' ').removesuffix(' box')}": family
    for family in (
        plain_box, hat, cone, back_door, drifting_box, shifting_box, batch_normalised, position_in_batch, smooth_bump,
        kinked_bump, routed, routed_at_random, cached, rounded_inside, drop_out, stochastic, skip_connection, maxout, far_unit,
        shared_hyperplane, deep_box, clipped_answers, tree_beside, single_precision_box)
}


@dataclass(frozen=True, kw_only=True)
class VerdictRules:
    """When a verified network is right, and how sure a rate is."""

    standard_errors: float = 6.0
    """Standard errors by which a parameter may miss the truth. Checked by `pytest tests/hostile`."""
    relative_tol: float = 1e-6
    """Relative difference below which parameters or functions are equal. Checked by `pytest tests/hostile`."""
    fresh_inputs: int = 200_000
    """Inputs at which functions out of the class are compared: a share of 1.5e-5 is seen in 95 %. Derived: 3 / 1.5e-5."""
    box_inputs: int = 20_000
    """The same for black boxes, whose certificates admit shares of 1e-2 or so. Derived: a share of 1.5e-4 is seen in 95 %."""
    confidence: float = 0.95
    """Of the upper bounds on rates. Convention: Clopper and Pearson's interval."""


RULES = VerdictRules()


class HostileRun(NamedTuple):
    """One case: the verdict (or "refused"), whether the network is right, whether it should have been verified, seconds; and how
    many runs it took until two ended at the same fit (infinitely many if none did, NaN where one is enough)."""

    verdict: str
    right: bool
    fair: bool
    seconds: float
    runs: float = nan


def judge_box(family: str, seed: int) -> HostileRun:
    """Draw a black box of the family, recover it as a user would, judge."""
    box, begun = BOX_FAMILIES[family](np.random.default_rng([seed, sum(map(ord, family))])), time.perf_counter()
    try:
        found = recover(box.oracle, rng=seed)
    except LaybareError:
        return HostileRun("refused", False, box.fair, time.perf_counter() - begun)
    return HostileRun(found.certificate.verdict, is_right_box(found, box), box.fair, time.perf_counter() - begun)


def is_right_box(found: Recovery, box: HostileBox) -> bool:
    """Whether the network is the function but for what its certificate admits: a share of inputs, or a resolution with noise.

    One whose upper layers are still the black box itself asks it, and is no answer once the budget has ended.
    """
    if box.function is None:
        return False
    try:
        return _agrees(found, box, box.function)
    except BudgetExhausted:
        return False


def _agrees(found: Recovery, box: HostileBox, function: Callable[[Array], Array]) -> bool:
    certificate, dim = found.certificate, box.oracle.dim
    if not box.noisy:
        share = share_of_differences(found, function, dim, box.tol, RULES.box_inputs)
        return share <= (certificate.assurance.share if certificate.assurance else 1.0 / RULES.box_inputs)
    x = np.random.default_rng(0).standard_normal((RULES.box_inputs, dim))
    off = float(np.sqrt(np.mean((found(x) - function(x)) ** 2)))
    errors = float(np.sqrt(found.network.width * (dim + 2) / found.samples_used)) * certificate.noise
    spread = float(np.hypot(np.std(found(x)), certificate.noise))
    return off <= stated_resolution(certificate) * spread + RULES.standard_errors * errors


def judge_case(family: str, seed: int) -> HostileRun:
    """Draw a case of the family, recover it with what is given, judge."""
    if family in BOX_FAMILIES:
        return judge_box(family, seed)
    rng = np.random.default_rng([seed, sum(map(ord, family))])
    begun = time.perf_counter()
    try:
        case = FAMILIES[family](rng)
    except LaybareError:  # samples that no source takes: all outputs equal, say
        return HostileRun("refused", False, False, time.perf_counter() - begun)
    try:
        found = recover(case.source, case.method or RandomStart(activation=case.activation), case.width, rng=seed, **case.judged)
    except LaybareError:
        return HostileRun("refused", False, case.fair, time.perf_counter() - begun)
    seconds = time.perf_counter() - begun
    made = found.certificate.findings.runs
    runs = nan if made is None else float(made or np.inf)
    return HostileRun(found.certificate.verdict, is_right(found, case), case.fair, seconds, runs)


def is_right(found: Recovery, case: HostileCase) -> bool:
    """Whether the network is the truth, by its own standard errors; or as much of it as the certificate says can be seen."""
    truth, network = case.truth, found.network
    if truth is None and case.function is not None:
        return share_of_differences(network, case.function, case.source.dim) <= 1.0 / case.source.size
    if case.mean is not None:
        return unseen_part(network, case.mean, case.source) <= stated_resolution(found.certificate)
    if truth is None or truth.activation != network.activation:
        return False
    if largest_miss(network, truth, found.certificate.standard_errors) <= 1.0:
        return True
    certificate, missing = found.certificate, truth.width - network.width
    cancelling = missing > 1 and certificate.verdict == "verified"  # several may, so that the resolution counts
    allowed = stated_resolution(certificate) if cancelling else certificate.visible
    return missing > 0 and unseen_part(network, truth, case.source) <= allowed


def share_of_differences(
    network: Callable[[Array], Array], function: Callable[[Array], Array], dim: int, tol: float = RULES.relative_tol,
    inputs: int = RULES.fresh_inputs,
) -> float:
    """Share of white normal inputs at which a network is not the function. (A clipped network is one with other biases but where
    two of its units are on at once: of 2,000 cases one had no sample there, and 3.5e-5 of all inputs.)"""
    x = np.random.default_rng(0).standard_normal((inputs, dim))
    true = function(x)
    return float(np.mean(np.abs(network(x) - true) > tol * true.std()))


def unseen_part(network: Network, truth: Callable[[Array], Array], source: Source) -> float:
    """What the truth adds to the best fit of `network` to it, by its standard deviation, relative to that of y."""
    x, y = source.read(0, source.size)
    clean = Samples(x, truth(x).reshape(y.shape))
    point = point_of(network, biases=True, offset=True, linear=network.linear is not None)
    loss = minimise(clean, point, total_variation(clean)).loss
    return float(np.sqrt(loss / total_variation(source)))


def lacks_only_unseen(found: Recovery, truth: Network, source: Source) -> bool:
    """Whether units are missing that add less than the certificate says can be seen, relative to the outputs of the source."""
    fewer = 0 < found.network.width < truth.width
    return fewer and unseen_part(found.network, truth, source) <= found.certificate.visible


def stated_resolution(certificate: Certificate) -> float:
    """What the certificate says the network may be beaten by, in standard deviations of y."""
    return max(certificate.visible, certificate.resolution.bound if certificate.resolution else 0.0)


def largest_miss(network: Network, truth: Network, errors: StandardErrors) -> float:
    """The largest difference of a parameter from the truth, over six of its standard errors plus 1e-6; inf if a width differs.

    Units are paired as they are, and turned where that brings them nearer; the better of the two counts. (Of two units that are
    nearly opposite, each may be nearer to the other's partner if it is turned, with another readout.)
    """
    activation = truth.activation
    mine, true = normalise_units(network.units, activation), normalise_units(truth.units, activation)
    if not len(mine.weights) == len(true.weights) == network.width or not all(np.isfinite(part).all() for part in errors):
        return np.inf
    return min(_paired_miss(mine, true, mirror, errors) for mirror in (None, reflection(activation)))


def _paired_miss(mine: Units, true: Units, mirror: Reflection | None, errors: StandardErrors) -> float:
    turned, pick = match_units(mine, true, mirror, "hungarian")
    f, t = turned.take(pick.rows), true.take(pick.columns)
    order = [part[0] for part in f.parts]
    weights, readout = errors.weights[order], np.asarray(errors.readout).reshape(len(order), -1)[order]
    slopes = np.abs(f.weights).T @ readout + weights.T @ np.abs(f.readout)  # of the linear part that turned units leave
    return max(
        _over(f.weights - t.weights, weights, t.weights),
        _over(f.biases - t.biases, errors.biases[order], t.biases),
        _over(f.readout - t.readout, readout, t.readout),
        _over(turned.offset - true.offset, np.atleast_1d(errors.offset) + readout.sum(axis=0), t.readout),
        _over(turned.linear - true.linear, slopes, t.readout))


def _over(difference: Array, errors: Array, part: Array) -> float:
    allowed = RULES.standard_errors * errors + RULES.relative_tol * max(1.0, float(np.abs(part).max(initial=0.0)))
    return float(np.max(np.abs(difference) / allowed, initial=0.0))


def upper_bound(count: int, of: int) -> float:
    """Clopper and Pearson's: the largest rate at which so few would be seen in one of twenty repetitions; 3/n for none seen."""
    return 1.0 if count >= of else float(betaincinv(count + 1.0, float(of - count), RULES.confidence))


class JudgedRun(Protocol):
    """A run with a verdict, of which the truth is known."""

    @property
    def verdict(self) -> str: ...

    @property
    def right(self) -> bool: ...


def right_and_verified(run: JudgedRun) -> bool:
    """Whether the verdict stands by a right network."""
    return run.right and run.verdict == "verified"


def wrong_and_verified(run: JudgedRun) -> bool:
    """Whether the verdict stands by a wrong network."""
    return not run.right and run.verdict == "verified"


VERDICT_TABLE = table(
    kind=col.itself, cases=col.count, verified=col.total(lambda run: run.verdict == "verified"),
    verified_but_wrong=col.total(wrong_and_verified),
    at_most=lambda kind, runs: upper_bound(sum(map(wrong_and_verified, runs)), len(runs)), right=col.total("right"),
    right_but_not_verified=col.total(lambda run: run.right and run.verdict != "verified"),
    doubtful=col.total(lambda run: run.verdict == "doubtful"), refuted=col.total(lambda run: run.verdict == "refuted"),
    refused=col.total(lambda run: run.verdict == "refused"), median_s=col.median("seconds"))


def _verdict_sentence(m: StudyMeasurement) -> str:
    runs = m.all_runs
    wrong, fair = sum(map(wrong_and_verified, runs)), [run for run in runs if run.fair and run.right]
    missed = sum(run.verdict != "verified" for run in fair)
    return (
        f"Verified but wrong: {wrong} of {len(runs)} cases, at most {upper_bound(wrong, len(runs)):.2%} (95 %), "
        f"{sum(run.verdict == 'verified' for run in runs)} verified. Right and well posed but not verified: {missed} of "
        f"{len(fair)}, at most {upper_bound(missed, max(1, len(fair))):.2%}.")


HOSTILE = Study(
    "hostile",
    "Certificates on data that might deceive them: verified but wrong, and right but not verified, by family",
    "No wrong network is verified; of right ones on well-posed data fewer than 5 % are not.",
    quick=(*FAMILIES, *BOX_FAMILIES), full=(*FAMILIES, *BOX_FAMILIES), run_cell=judge_case, in_turns=True, table=VERDICT_TABLE,
    sentence=_verdict_sentence)
"""Does the certificate lie? Cases that might deceive it: how often "verified" is wrong, how often right is not verified. Wrong
is: a width that is not the truth's (a missing unit smaller than the certificate says it can see does not count, nor do several
that add less together than the resolution that it states), or a parameter off by more than six of its own standard errors plus
1e-6 of its part, modulo symmetry, or any network where the truth is out of the class, unless it is the true function at all
inputs but a share that as many samples would miss. The grid is of families."""

HOSTILE_SAMPLES = Study(
    "hostile-samples", "Certificates of samples that might deceive them, by family: the half of `hostile` without black boxes",
    "No wrong network is verified; of right ones on well-posed data fewer than 5 % are not.",
    quick=tuple(FAMILIES), full=tuple(FAMILIES), run_cell=judge_case, in_turns=True, table=VERDICT_TABLE,
    sentence=_verdict_sentence)
"""The same for samples alone."""

HOSTILE_BOXES = Study(
    "hostile-boxes", "Certificates of black boxes that might deceive them, by family: the black-box half of `hostile`",
    "No wrong network is verified; of right ones on fair boxes fewer than 5 % are not.",
    quick=tuple(BOX_FAMILIES), full=tuple(BOX_FAMILIES), run_cell=judge_box, in_turns=True, table=VERDICT_TABLE,
    sentence=_verdict_sentence)
"""The same for black boxes alone. A verified network is wrong if it differs from the function on more inputs than its certificate
admits, or, with noise, from the mean of the answers by more than its resolution; and if there is no one function."""

AGREEMENT_KINDS = (
    "the first two runs agree", "more runs until two agree", "no two agree", "one run is enough")


def agreement_kind(runs: float) -> str:
    """Which of `AGREEMENT_KINDS` it is."""
    first, more, none, one = AGREEMENT_KINDS
    if np.isnan(runs):
        return one
    return first if runs <= 2 else more if np.isfinite(runs) else none


def by_agreement(grid: Any, runs: Mapping[str, list[HostileRun]]) -> dict[str, list[HostileRun]]:
    """The runs by how soon two agreed."""
    every = [run for each in runs.values() for run in each]
    kinds = {kind: [run for run in every if agreement_kind(run.runs) == kind] for kind in AGREEMENT_KINDS}
    return {kind: each for kind, each in kinds.items() if each}


PLAIN_NOISE = Study(
    "plain-noise", "Certificates of 6-5-1 networks from 420 samples with noise of a tenth of y, by how soon two runs agree",
    "No wrong network is verified, and at least 80 % of all are.",
    quick=("plain",), full=("plain",), run_cell=judge_case, in_turns=True, group=by_agreement, table=VERDICT_TABLE,
    sentence=_verdict_sentence)
"""The same on plain noise, by how many runs it took until two ended at the same fit."""
