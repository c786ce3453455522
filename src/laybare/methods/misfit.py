"""Where answers of a black box and the network that was found differ, and what that says, in words.

A fit to samples is checked against queries that were repeated and, if the black box has no noise, against fresh answers.

Nothing that a network was read from is wasted: wherever an earlier answer is not predicted, the same input and inputs nearby are
asked, and how these answers differ from the prediction says what is there:

    another answer to the same input                         several models at random, noise
    predicted nearby                                         single inputs go to another model, as by a hash
    the same answer nearby, to the last bit                  rounded inputs or features, a cache with rounded keys
    the same difference nearby                               a jump: a back door, a step or a tree beside the network
    another difference nearby                                pieces or curves that are not those of this network
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator

from laybare.certificate import Assurance, Certificate, Claim, ClaimName
from laybare.certificate.repeatability import lack_of_fit_claim, repeat_claims
from laybare.errors import AssumptionViolated, BudgetExhausted
from laybare.lines.assurance import AssuranceOptions, AssurancePlan
from laybare.lines.model_fit import FIT
from laybare.networks import Network
from laybare.numerics.levels import NOISELESS
from laybare.numerics.shapes import Array
from laybare.source import Oracle
from laybare.source.oracle.repeats import RepeatedAnswers, reserved_queries

MisfitKind: TypeAlias = Literal["random", "single inputs", "rounded", "jump", "pieces"]

MISFIT_SENTENCES: dict[MisfitKind, str] = {
    "random": (
        "where an answer is not predicted, the same input has another answer now: one of several models answers at random, or "
        "there is noise. Ask a version that always answers alike."),
    "single inputs": (
        "where an answer is not predicted, answers right beside it are: single inputs are answered by something else, as if "
        "routed to another model by a hash, or from a table. What answers the others was read."),
    "rounded": (
        "answers are constant on small pieces: inputs or hidden features are rounded, or a cache answers inputs that agree to a "
        "few decimals. Turn that off; the lines of a network show only where features are exact."),
    "jump": (
        "where an answer is not predicted, it differs by one number from there to nearby: a jump, as of a back door, a step or a "
        "tree beside the network. No ReLU network has jumps."),
    "pieces": (
        "where an answer is not predicted, the difference changes from place to place: bends or curves that no unit of this "
        "network makes, such as borders that end on each other (maxout, further layers) or a smooth function beside it.")}
"""A sentence for each kind."""


@dataclass(frozen=True, kw_only=True)
class MisfitOptions:
    """How many answers are looked at again, and where."""

    places: int = 8  # inputs that are not predicted. Checked by `pytest tests/hostile/test_misfits.py`.
    nearby: float = 1e-5
    """How far nearby is, as a share of the way to another input. Derived: pieces of a thousandth hold it, float64 resolves it."""
    beside: int = 2  # inputs nearby, for every place. Checked by `pytest tests/hostile/test_misfits.py`.
    typical: int = 100  # inputs of the law that show how large answers are, without queries. Convention: a hundred.
    missed: float = 1e-6  # a share of the spread of answers by which one is not predicted. Checked by `pytest tests/hostile`.


OPTIONS = MisfitOptions()


def named_misfit(oracle: Oracle, network: Network, *, rng: np.random.Generator) -> str:
    """What is at earlier queries that the network does not predict: a sentence, or nothing where nothing can be seen.

    Two dozen queries, if the budget has them. Units that were read wrongly leave pieces too, so that anything else counts more.
    """
    kinds = _kinds_of_misfit(oracle.as_given, network, rng)
    said = Counter([kind for kind in kinds if kind != "pieces"] or kinds)
    return MISFIT_SENTENCES[said.most_common(1)[0][0]] if said else ""


def with_named_misfit(
    certificate: Certificate, oracle: Oracle, network: Network, *, ended: bool = False, rng: np.random.Generator
) -> Certificate:
    """The certificate of a network that was not read to its end, with what stood in the way.

    If the budget `ended`, units may be missing, so that pieces which no unit makes say nothing.
    """
    where = next((claim for claim in certificate.claims if claim.of_answers and not claim.passed), None)
    if where is None or network.top is not None or not np.any(network.readout):
        return certificate
    said = named_misfit(oracle, network, rng=rng)
    if not said or (ended and said == MISFIT_SENTENCES["pieces"]):
        return certificate
    claims = tuple(
        replace(claim, explanation=f"{claim.explanation} {said[0].upper()}{said[1:]}") if claim is where else claim
        for claim in certificate.claims)
    return replace(certificate, claims=claims, reason=certificate.reason or said)


def check_not_rounded(oracle: Oracle, ended: BudgetExhausted) -> None:
    """Say that a black box is constant on small pieces, where a search for its units has met nothing but borders of these."""
    oracle = oracle.as_given
    if oracle.budget - oracle.spent < 2 * OPTIONS.places:
        return
    x = oracle.fresh_inputs(oracle.queries.get("assurance", 0), OPTIONS.places)
    y = oracle.ask(np.vstack([x, _nearby(x, np.roll(x, 1, axis=0))]), purpose="first look", gaps=True)
    if (y[: len(x)] == y[len(x) :]).all():
        raise AssumptionViolated(
            f"{ended.seen} {MISFIT_SENTENCES['rounded'][0].upper()}{MISFIT_SENTENCES['rounded'][1:]}",
            "A piece without slope tells nothing of the weights.", "Ask the network itself, without rounding or cache.",
            kind="steps") from ended


def _kinds_of_misfit(oracle: Oracle, network: Network, rng: np.random.Generator) -> list[MisfitKind]:
    asked = oracle.answered()
    x, y = asked.read(0, asked.size)
    inputs = oracle.fresh_inputs(0, OPTIONS.typical)
    tol = OPTIONS.missed * float(np.std(network(inputs)))
    off = np.abs(_predicted(network, x, y) - y).max(axis=1) > tol
    size = np.linalg.norm(x - inputs.mean(axis=0), axis=1)  # lines are asked far from all inputs as well
    near = size <= 2.0 * np.median(np.linalg.norm(inputs - inputs.mean(axis=0), axis=1))
    places = np.flatnonzero(off & near)
    left = (oracle.budget - oracle.spent) // (1 + OPTIONS.beside)
    places = rng.permutation(places)[: min(OPTIONS.places, left)]
    if not len(places):
        return []
    others = [oracle.fresh_inputs(k * len(places), len(places)) for k in range(OPTIONS.beside)]
    points = np.concatenate([x[places], *(_nearby(x[places], other) for other in others)])
    answers = oracle.ask(points, purpose="asked again", gaps=True)
    predicted, shape = _predicted(network, points, answers), (1 + OPTIONS.beside, len(places), -1)
    return [
        _kind_of_misfit(y[place], answers.reshape(shape)[:, i], predicted.reshape(shape)[:, i], tol)
        for i, place in enumerate(places)]


def _kind_of_misfit(before: Array, answers: Array, predicted: Array, tol: float) -> MisfitKind:
    """Of one place: the answer before, then answers and predictions (points, outputs) there and nearby."""
    if np.abs(answers[0] - before).max() > tol:
        return "random"
    off = answers - predicted
    moved, expected = np.abs(off - off[0]).max(), np.abs(predicted - predicted[0]).max()
    if expected and (answers == answers[0]).all():
        return "rounded"
    if np.abs(off[1:]).max() <= tol:
        return "single inputs"
    return "jump" if moved <= OPTIONS.missed * expected else "pieces"


def _predicted(network: Network, x: Array, y: Array) -> Array:
    return np.asarray(network(x).reshape(y.shape))


def _nearby(x: Array, other: Array) -> Array:
    """Inputs a little way towards others: between two points of a box lies the box."""
    return np.asarray(x + OPTIONS.nearby * (other - x))


class BlackBoxChecks(NamedTuple):
    """What the checks of a fit need. `moved`: by how much answers to the same question were seen to differ before."""

    rng: Generator
    moved: float = 0.0
    assurance: AssuranceOptions = AssuranceOptions()


def check_fit_of_black_box(
    oracle: Oracle, network: Network, certificate: Certificate, repeats: RepeatedAnswers | None, checks: BlackBoxChecks
) -> Certificate:
    """Of a fit to samples of a black box, with the claims on repeated queries, and on fresh answers if it has no noise."""
    claims = (*repeat_claims(repeats, noise_allowed=True, moved=checks.moved), *lack_of_fit_claim(certificate.noise, repeats))
    certificate = replace(certificate, claims=(*certificate.claims, *claims))
    if certificate.verdict == "verified" and repeats is not None and repeats.kind == "same":
        certificate = _with_fresh_answers(oracle, network, certificate, repeats, checks)
    if repeats is not None and repeats.kind == "same":
        certificate = with_named_misfit(certificate, oracle, network, rng=checks.rng)
    return certificate


def _with_fresh_answers(
    oracle: Oracle, network: Network, certificate: Certificate, repeats: RepeatedAnswers, checks: BlackBoxChecks
) -> Certificate:
    """Answers at inputs that nothing else asks: without noise every one must be predicted, up to the residual of the fit."""
    begun = oracle.queries.get("assurance", 0)
    left = max(0, oracle.budget - oracle.spent - reserved_queries(oracle))
    points = AssurancePlan(checks.assurance, oracle.fresh_inputs).points(begun, oracle.spent - begun, left, checks.rng)
    if not len(points.x):
        return certificate
    oracle.ask(points.x, purpose="assurance", gaps=True)
    asked = oracle.answered("assurance")
    x, answers = asked.read(0, asked.size)  # those of earlier rounds as well
    usable = np.asarray(np.isfinite(answers).all(axis=1))
    limit = max(
        FIT.contradiction_sds * certificate.noise, float(repeats.tol.max()), NOISELESS * float(np.std(answers[usable])))
    worst = float(np.abs(network(x[usable]).reshape(answers[usable].shape) - answers[usable]).max(initial=0.0))
    claim = Claim(
        ClaimName.FRESH_ANSWERS, worst, limit, worst <= limit, "tested",
        f"largest difference at {int(usable.sum()):,} inputs that nothing else used, against rounding and the residual of the "
        "fit; a larger one means that something is missing.", decisive=True, of_answers=True)
    shown = points.assured(int(usable[len(usable) - len(points.x) :][: points.of_law].sum()))
    assurance = Assurance(checks.assurance.level, shown.share, shown.answers) if claim.passed and shown.answers else None
    return replace(certificate, claims=(*certificate.claims, claim), assurance=assurance)
