"""Reading a black box along lines, and what stands in the way, in words.

A black box that is read along lines at chosen points: network and certificate, or the reason why lines do not apply.

A classifier is read along lines that end where its probabilities are 0 or 1 to rounding: nothing is left of its log-odds there.

What a black box does where the network that was read does not predict it, in words.

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

from laybare.activations import Activation
from laybare.certificate import Assurance, Certificate, Claim, ClaimName
from laybare.certificate.repeatability import repeat_claims
from laybare.errors import AssumptionViolated, BudgetExhausted, InvalidInput, NotSeparated
from laybare.lines.assurance import AssuranceOptions
from laybare.lines.depth import DepthProbe
from laybare.lines.folds import FoldOptions, FoldsResult
from laybare.lines.read import DeepReadResult, ReadResult
from laybare.lines.single_layer import DepthCheck
from laybare.lines.surfaces import Surface
from laybare.methods.lines import (
    Lines,
    deep_certificate,
    deep_lines_apply,
    error_bars,
    folds_certificate,
    given_layers,
    lines_apply,
    lines_certificate,
)
from laybare.methods.start import check_activation
from laybare.networks import Network
from laybare.numerics.shapes import Array, Progress, report_progress
from laybare.source import Oracle
from laybare.source.oracle.repeats import ask_earlier_queries_again, reserved_queries

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


class LinesRefusal(NamedTuple):
    """Why a black box was not read along lines, by how much answers to the same question were seen to differ, and whether lines
    met a curve."""

    claims: tuple[Claim, ...] = ()
    moved: float = 0.0
    curved: bool = False


class BlackBoxReading(NamedTuple):
    """What lines found, on the given inputs: the method that did, the network as it was read and in canonical form, and its
    certificate."""

    method: Lines
    start: Network
    network: Network
    certificate: Certificate


def read_black_box(
    oracle: Oracle, chosen: Lines, width: int | None, *, named: bool, rng: Generator, progress: Progress | None = None,
) -> tuple[BlackBoxReading | None, LinesRefusal]:
    """The network behind a black box, or nothing, with the reason, where lines do not apply and were not `named`."""
    if not named and not lines_apply(chosen.activation):
        return None, LinesRefusal()
    may_be_deep = not named and deep_lines_apply(chosen.activation, oracle)
    depth_check = DepthProbe(oracle) if may_be_deep else None
    try:
        return read_single_layer(oracle, chosen, width, depth_check=depth_check, rng=rng, progress=progress), LinesRefusal()
    except BudgetExhausted as ended:
        check_not_rounded(oracle, ended)
        raise
    except AssumptionViolated as refusal:
        if named:
            raise
        if refusal.values.get("kind") == "deep" and may_be_deep:
            report_progress(progress, "lines", oracle.spent, oracle.spent, "more than one hidden layer")
            try:
                deep, located = replace(chosen, depth=None), refusal.values.get("located", ())
                return read_layers(oracle, deep, located=located, rng=rng, progress=progress), LinesRefusal()
            except BudgetExhausted as ended:
                raise _of_all_queries(ended, oracle) from ended
        moved, curved = float(refusal.values.get("moved", 0.0)), refusal.values.get("kind") == "smooth"
        return None, LinesRefusal((_lines_refused_claim(refusal, oracle),), moved, curved)


def _of_all_queries(ended: BudgetExhausted, oracle: Oracle) -> BudgetExhausted:
    """The same with what all readings have spent, and not only the last one."""
    if ended.values.get("spent", oracle.spent) == oracle.spent:
        return ended
    return BudgetExhausted(
        ended.seen, f"{oracle.spent:,} of the {oracle.budget:,} queries that were granted are spent, and no layer is complete.",
        "Grant more queries, four times as many for instance.", **{**ended.values, "spent": oracle.spent})


def read_single_layer(
    oracle: Oracle, method: Lines, width: int | None = None, *, depth_check: DepthCheck | None = None, rng: Generator,
    progress: Progress | None = None,
) -> BlackBoxReading:
    """Read along lines, as many layers as the method asks for."""
    if method.depth != 1:
        return read_layers(oracle, method, width, rng=rng, progress=progress)
    found = method.read(oracle, depth_check=depth_check, rng=rng, progress=progress)
    start = oracle.on_given_inputs(found.network)
    network = start.canonical()
    certified = lines_certificate(found, network, width, method.assurance.level)
    return BlackBoxReading(method, start, network, _finished(certified, found, network, oracle, rng))


def read_layers(
    oracle: Oracle, method: Lines, width: int | None = None, *, located: tuple[Surface, ...] = (), rng: Generator,
    progress: Progress | None = None,
) -> BlackBoxReading:
    """Read layer after layer. A single layer that is wider than its input is read as such."""
    found = method.read_deep(oracle, located=located, rng=rng, progress=progress)
    if len(found.layers) == 1 and found.layers[0].failure and not (found.ended or found.layers[0].observed.curved):
        try:
            return read_single_layer(oracle, replace(method, depth=1), width, rng=rng, progress=progress)
        except AssumptionViolated as refusal:
            if refusal.values.get("kind") != "deep":
                raise
    last = found.layers[-1]
    deeper = len(found.layers) == method.depth and not last.failure and last.readout is None  # than the depth that was given
    if not found.complete and not found.ended and not deeper:
        if not found.rounding.fine:
            found = replace(found, failure=_where_rounding_ends(found))
        read_above = _read_folds if found.rounding.fine else _read_coarse
        folded = read_above(oracle, method, found, rng=rng, progress=progress)
        if folded is not None:
            return folded._replace(certificate=with_named_misfit(folded.certificate, oracle, folded.network, rng=rng))
    start = oracle.on_given_inputs(found.network)
    hyperplanes = start.top is None and not np.any(start.readout)
    network = start if hyperplanes else start.canonical()  # a unit without readout would be lost
    certified = deep_certificate(found, network, method.depth, method.assurance.level)
    return BlackBoxReading(method, start, network, _finished(certified, found, network, oracle, rng))


def _where_rounding_ends(found: DeepReadResult) -> str:
    """What is missing, and how to get it: rows of surfaces that are followed across folds close to rounding, and not before."""
    return (
        f"{found.failure}. Answers rounded as {found.rounding.kind} leave too few digits to follow surfaces of units above: ask "
        "the same model in float64, exported or computed with float64 numbers, and those layers are read too")


def _read_folds(
    oracle: Oracle, method: Lines, below: DeepReadResult, *, rng: Generator, progress: Progress | None
) -> BlackBoxReading | None:
    """What folds read above the layers `below`; None if that is no more than these."""
    try:
        found = method.read_folds(oracle, given=given_layers(below), rng=rng, progress=progress)
    except (InvalidInput, NotSeparated):
        if oracle.resolution is None:
            raise
        return None  # surfaces lead to where a class is certain to rounding
    if found.network is None:
        return _layers_without_readout(oracle, method, found, below)
    start = oracle.on_given_inputs(found.network)
    network = start.canonical()
    misfit, limit, assurance = found.fresh, FoldOptions().predicted, None
    if found.complete:
        points = method.plan(oracle).points(
            0, sum(found.queries.values()), max(0, oracle.budget - oracle.spent - reserved_queries(oracle)), rng)
        misfit, shown = max(misfit, _misfit(oracle, found.network, points.x)), points.assured()
        assurance = (
            Assurance(method.assurance.level, shown.share, shown.answers) if shown.answers and misfit <= limit else None)
    certificate = folds_certificate(found, start, network, misfit, limit, assurance)
    return BlackBoxReading(method, start, network, _completed(certificate, found.error_bar, network, oracle))


def _read_coarse(
    oracle: Oracle, method: Lines, below: DeepReadResult, *, rng: Generator, progress: Progress | None
) -> BlackBoxReading | None:
    """What coarse answers tell of the layers above the lowest; None if that is no more than it."""
    if method.depth == 1 or oracle.dim == 1 or not len(below.layers[0].weights):
        return None
    try:
        found = method.read_coarse(oracle, below, rng=rng, progress=progress)
    except NotSeparated:
        return None  # a class is certain to rounding wherever it was asked
    if found.network is None:
        return _layers_without_readout(oracle, method, found, below)
    start = oracle.on_given_inputs(found.network)
    network, shown = start.canonical(), found.assured
    assurance = Assurance(method.assurance.level, shown.share, shown.answers) if found.complete and shown.answers else None
    certificate = folds_certificate(found, start, network, found.fresh, found.limit, assurance)
    return BlackBoxReading(method, start, network, _completed(certificate, found.error_bar, network, oracle))


def _misfit(oracle: Oracle, network: Network, x: Array) -> float:
    """Largest difference of fresh answers, relative to the largest one."""
    if not len(x):
        return 0.0
    answers = oracle.ask(x, purpose="assurance")
    return float(np.abs(network(x).reshape(answers.shape) - answers).max() / np.abs(answers).max())


def _layers_without_readout(
    oracle: Oracle, method: Lines, found: FoldsResult, below: DeepReadResult
) -> BlackBoxReading | None:
    """The layers that were read, nothing on top; None if they are no more than those below."""
    if sum(layer.width for layer in found.layers) <= sum(len(layer.biases) for layer in below.layers if not layer.failure):
        return None
    outputs = below.layers[0].observed.outputs
    width = found.layers[-1].width
    start = oracle.on_given_inputs(Network(found.layers, np.zeros(width) if outputs == 1 else np.zeros((width, outputs))))
    certificate = folds_certificate(found, start, start, float("inf"), FoldOptions().predicted, None)
    return BlackBoxReading(method, start, start, _completed(certificate, float("nan"), start, oracle))


def _finished(
    certificate: Certificate, found: ReadResult | DeepReadResult, network: Network, oracle: Oracle, rng: Generator
) -> Certificate:
    """Completed, and with a name for what fresh answers leave, where there is one."""
    completed = _completed(certificate, found.error_bar, network, oracle)
    return with_named_misfit(completed, oracle, network, ended=found.ended, rng=rng)


def _completed(certificate: Certificate, bar: float, network: Network, oracle: Oracle) -> Certificate:
    """With error bars on the inputs as they are given, the region of the assurance, and the claim on repeated queries."""
    region = oracle.region
    if oracle is not oracle.as_given and region is not None:
        certificate = replace(certificate, standard_errors=error_bars(bar, network, region.location, region.scale))
    if region is not None and certificate.assurance is not None:
        certificate = replace(certificate, assurance=certificate.assurance._replace(where=region.said))
    repeated = repeat_claims(ask_earlier_queries_again(oracle), noise_allowed=False)
    return replace(certificate, claims=(*certificate.claims, *repeated))


def chosen_lines(method: Lines | None, activation: Activation | None, assurance: AssuranceOptions | None) -> Lines:
    """The method that was given, or the default, with the activation and the assurance of the call."""
    chosen = Lines(activation=activation) if method is None else check_activation(method, activation)
    asked = {"activation": activation, "assurance": assurance}
    return replace(chosen, **{name: value for name, value in asked.items() if value is not None})  # type: ignore[arg-type]


def _lines_refused_claim(refusal: AssumptionViolated, oracle: Oracle) -> Claim:
    return Claim(
        ClaimName.LINES_BEFORE, float(oracle.spent), 0.0, True, "tested",
        f"the black box was not read along lines: {refusal.seen} {refusal.why} Samples were drawn from it instead.")
