"""The activation of a black box that lines cannot read: candidates to fit on samples, or an error that says what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, activation_named, relu
from laybare.certificate import Claim, ClaimName
from laybare.errors import AssumptionViolated, BudgetExhausted, InvalidInput, Unidentifiable
from laybare.lines.look import KIND_SENTENCES, LOG_ODDS_SENTENCE, Insight, first_look
from laybare.numerics.shapes import Array, Progress, report_progress
from laybare.source import Oracle


@dataclass(frozen=True, kw_only=True)
class FirstLookOptions:
    """Queries and distances of the first look."""

    queries: int = 300  # Queries within which a black box is named. Checked by `pytest tests/pipeline`.
    least_queries: int = 200  # Queries that the look has at least. Checked by `pytest tests/pipeline`.
    points: int = 3  # points compared with others nearby: all equal means flat. Checked by `pytest tests/pipeline`.
    nearby: float = 1e-3  # How far nearby is, as a share of a typical distance. Checked by `pytest tests/pipeline`.
    farther: float = 8.0  # how much farther out it is tried again. Checked by `pytest tests/pipeline`.


LOOK = FirstLookOptions()
"""The options in use."""

SMOOTH = ("tanh", "softplus", "gelu", "erf")
"""Smooth activations that are tried where the look cannot tell which it is (a box has no tails)."""

TO_DO = {
    "steps": "Write recover_layer(oracle, HighThreshold(activation=step)).",
    "tree": "Read its borders instead: they lie across one input each.",
    "curved with kinks": "Ask for answers before the last step: link='logit' or 'softmax' for probabilities, raw scores instead "
                         "of exponentials. For a network near it fit samples: recover(x, y, RandomStart())."}
"""What to do about functions that are no network of one layer of one activation."""

TWINS = {"sigmoid": "tanh"}
"""Activations that are others, scaled and shifted: sigmoid(t) = (1 + tanh(t/2))/2. No query tells them apart."""


class Candidates(NamedTuple):
    """Activations to fit, the likeliest first; claims of the first look; whether the answers are noisy."""

    activations: tuple[Activation, ...]
    claims: tuple[Claim, ...]
    noisy: bool


def candidate_activations(
    oracle: Oracle, given: Activation | None, *, refused: bool, rng: Generator, progress: Progress | None = None
) -> Candidates:
    """Activations that a black box may have. `refused`: lines were tried and did not apply; else the `given` one is it.

    At most `LOOK.queries` queries in all. Raises, with what to do, where no network of one hidden layer can be fitted: steps,
    a tree, probabilities that were taken for outputs, more than one layer, nothing that bends, another activation than given.
    """
    if given is not None and not refused:
        return Candidates((given,), (), noisy=False)
    report_progress(progress, "first look")
    _check_budget(oracle)
    seen = first_look(oracle, most=max(LOOK.least_queries, LOOK.queries - oracle.spent), rng=rng)
    report_progress(progress, "first look", seen.queries, seen.queries, seen.kind)
    _check_kind(seen, oracle)
    if given is not None and seen.kind == "smooth":
        raise AssumptionViolated(
            f"{given.name} units were given, and the function is smooth.", seen.explain(),
            "Give the activation that fits, or none.", activations=seen.activations)
    return Candidates(_activations_to_fit(seen, given), (_look_claim(seen, given),), noisy=seen.kind == "noisy")


def check_not_piecewise_constant(oracle: Oracle, *, rng: Generator, progress: Progress | None = None) -> None:
    """Refuse steps and trees before lines look for slopes that are not there.

    Any other black box is asked 2 · `LOOK.points` queries, or twice as many.
    """
    if oracle.budget - oracle.spent < LOOK.queries:
        return
    x = oracle.typical(2 * (LOOK.points + 1))
    if not _is_flat(oracle, x[: LOOK.points + 1]) or not _is_flat(oracle, _other_points(oracle, x)):
        return
    report_progress(progress, "first look")
    seen = first_look(oracle, most=LOOK.queries - 4 * LOOK.points, rng=rng)
    if seen.kind in ("steps", "tree"):
        _check_kind(seen, oracle)


def _is_flat(oracle: Oracle, x: Array) -> bool:
    """Whether the answer near each point but the last is the same as there."""
    near = x[:-1] + LOOK.nearby * (x[1:] - x[:-1])  # between two points of a box lies the box
    y = oracle.ask(np.vstack([x[:-1], near]), purpose="first look", gaps=True)
    return bool((y[: len(near)] == y[len(near) :]).all())


def _other_points(oracle: Oracle, x: Array) -> Array:
    """The second half of the points, farther out if there is no box."""
    half = len(x) // 2
    if oracle.box is not None:
        return np.asarray(x[half:])
    middle = x.mean(axis=0)
    return np.asarray(middle + LOOK.farther * (x[half:] - middle))


def _activations_to_fit(seen: Insight, given: Activation | None) -> tuple[Activation, ...]:
    if seen.kind != "smooth":
        return (given or relu,)
    names = dict.fromkeys(TWINS.get(name, name) for name in seen.activations or SMOOTH)
    return tuple(activation_named(name) for name in names)


def _look_claim(seen: Insight, given: Activation | None) -> Claim:
    twins = [name for name in seen.activations if name in TWINS]
    text = seen.explain() + "".join(
        f" {name} units are {TWINS[name]} units, scaled and shifted: no query can tell them apart." for name in twins)
    if given is None and seen.kind in ("noisy", "unclear"):
        text += " Which units it has could not be seen: relu was taken; give activation= for others."
    return Claim(ClaimName.FIRST_LOOK, float(seen.queries), float(LOOK.queries), True, "tested", text)


def _check_budget(oracle: Oracle) -> None:
    left = oracle.budget - oracle.spent
    if left < LOOK.least_queries:
        raise BudgetExhausted(
            f"{oracle.spent} of {oracle.budget} queries have shown that lines do not read this black box.",
            f"To see what it is takes up to {LOOK.least_queries} more, and a fit about 5 per parameter.",
            "Grant at least 1,000 queries, or give the activation.", needed=1000, spent=oracle.spent)


def _check_kind(seen: Insight, oracle: Oracle) -> None:
    """Refuse what is not a network of one hidden layer that samples can identify."""
    if seen.kind in TO_DO:
        _refuse(seen, TO_DO[seen.kind])
    if seen.kind in ("linear", "constant"):
        raise Unidentifiable(
            KIND_SENTENCES[seen.kind], "A unit that does not bend cannot be seen.", "Give a law or a box that is wider.")
    if seen.link == "logit" and oracle.link_in_use != "logit":
        raise InvalidInput(
            LOG_ODDS_SENTENCE, "As they are they would be taken for outputs.", "Give link='logit'.")
    if seen.kind == "piecewise linear" and seen.layers == 2:
        _refuse(seen, "Write recover(oracle, Lines(depth=None)), or recover_layer for the lowest layer.")


def _refuse(seen: Insight, do: str) -> NoReturn:
    raise AssumptionViolated(
        KIND_SENTENCES[seen.kind], f"Seen within {seen.queries} queries.", do, kind=seen.kind, queries=seen.queries)
