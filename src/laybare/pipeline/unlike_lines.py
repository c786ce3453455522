"""What a black box is that lines cannot read: units to fit on samples, or one sentence that says what to do instead."""

from __future__ import annotations

from typing import NamedTuple, NoReturn

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, activation_named, relu
from laybare.certificate import Claim
from laybare.errors import AssumptionViolated, BudgetExhausted, InvalidInput, Unidentifiable
from laybare.insight import Insight, first_look
from laybare.insight.findings import ODDS, SENTENCES
from laybare.shapes import Array, Progress, tell
from laybare.source import Oracle

NAMED_WITHIN, LEAST_LOOK = 300, 200
"""Queries within which a black box is named, those of lines that did not apply among them; the look gets LEAST_LOOK at least."""

PLACES, NEARBY, FARTHER = 3, 1e-3, 8.0
"""Places at which the answer is compared with one next to it, that share of a typical distance away: all equal means flat. Then
as many so much farther from the middle (in a box, others): a network is flat where no ReLU unit is active, rarely there."""

SMOOTH = ("tanh", "softplus", "gelu", "erf")
"""Smooth units that are tried where the look could not see which they are (inside of a box, there are no tails)."""

TO_DO = {
    "steps": "Write recover_layer(oracle, HighThreshold(activation=step)).",
    "tree": "Read its borders instead: they lie across one input each."}
"""What to do about functions without slopes."""

TWINS = {"sigmoid": "tanh"}
"""Units that are others, scaled and shifted: sigmoid(t) = (1 + tanh(t/2))/2. No query tells them apart."""


class Candidates(NamedTuple):
    """Activations to fit, the likeliest first; what was seen, for the certificate; whether the answers are noisy."""

    activations: tuple[Activation, ...]
    claims: tuple[Claim, ...]
    noisy: bool


def name_units(
    oracle: Oracle, told: Activation | None, *, refused: bool, rng: Generator, progress: Progress | None = None
) -> Candidates:
    """Which units a black box may have. `refused`: lines were tried and did not apply; else `told` units are believed.

    At most NAMED_WITHIN queries in all. Raises, with what to do, where no network of one hidden layer can be fitted: steps,
    a tree, probabilities that were taken for outputs, more than one layer, nothing that bends, other units than those told.
    """
    if told is not None and not refused:
        return Candidates((told,), (), noisy=False)
    tell(progress, "first look")
    _check_room(oracle)
    seen = first_look(oracle, most=max(LEAST_LOOK, NAMED_WITHIN - oracle.spent), rng=rng)
    tell(progress, "first look", seen.queries, seen.queries, seen.kind)
    _check_kind(seen)
    if told is not None and seen.kind == "smooth":
        raise AssumptionViolated(
            f"{told.name} units were told, and the function is smooth.", seen.explain(),
            "Give the activation that fits, or none.", activations=seen.activations)
    return Candidates(_fitting(seen, told), (_what_was_seen(seen, told),), noisy=seen.kind == "noisy")


def refuse_steps(oracle: Oracle, *, rng: Generator, progress: Progress | None = None) -> None:
    """Name steps and trees before lines look for slopes that are not there: 2 * PLACES queries for any other black box, or twice
    as many."""
    if oracle.budget - oracle.spent < NAMED_WITHIN:
        return
    x = oracle.typical(2 * (PLACES + 1))
    if not _flat(oracle, x[: PLACES + 1]) or not _flat(oracle, _elsewhere(oracle, x)):
        return
    tell(progress, "first look")
    seen = first_look(oracle, most=NAMED_WITHIN - 4 * PLACES, rng=rng)
    if seen.kind in ("steps", "tree"):
        _check_kind(seen)


def _flat(oracle: Oracle, x: Array) -> bool:
    """Whether the answer next to each place but the last is the same."""
    near = x[:-1] + NEARBY * (x[1:] - x[:-1])  # between two points of a box lies the box
    y = oracle.ask(np.vstack([x[:-1], near]), purpose="first look", gaps=True)
    return bool((y[: len(near)] == y[len(near) :]).all())


def _elsewhere(oracle: Oracle, x: Array) -> Array:
    """Further places, as many as the half of these."""
    half = len(x) // 2
    if oracle.box is not None:
        return np.asarray(x[half:])
    middle = x.mean(axis=0)
    return np.asarray(middle + FARTHER * (x[half:] - middle))


def _fitting(seen: Insight, told: Activation | None) -> tuple[Activation, ...]:
    if seen.kind != "smooth":
        return (told or relu,)
    names = dict.fromkeys(TWINS.get(name, name) for name in seen.activations or SMOOTH)
    return tuple(activation_named(name) for name in names)


def _what_was_seen(seen: Insight, told: Activation | None) -> Claim:
    twins = [name for name in seen.activations if name in TWINS]
    text = seen.explain() + "".join(
        f" {name} units are {TWINS[name]} units, scaled and shifted: no query can tell them apart." for name in twins)
    if told is None and seen.kind in ("noisy", "unclear"):
        text += " Which units it has could not be seen: relu was taken; give activation= for others."
    return Claim("queries of the first look", float(seen.queries), float(NAMED_WITHIN), True, "tested", text)


def _check_room(oracle: Oracle) -> None:
    left = oracle.budget - oracle.spent
    if left < LEAST_LOOK:
        raise BudgetExhausted(
            f"{oracle.spent} of {oracle.budget} queries have shown that lines do not read this black box.",
            f"To see what it is takes up to {LEAST_LOOK} more, and a fit about 5 per parameter.",
            "Grant at least 1,000 queries, or give the activation.", needed=1000, spent=oracle.spent)


def _check_kind(seen: Insight) -> None:
    """Refuse what is no network of one hidden layer that samples could tell."""
    if seen.kind in ("steps", "tree"):
        _refuse(seen, TO_DO[seen.kind])
    if seen.kind in ("linear", "constant"):
        raise Unidentifiable(
            SENTENCES[seen.kind], "A unit that does not bend cannot be seen.", "Give a law or a box that is wider.")
    if seen.link == "logit":
        raise InvalidInput(ODDS, "As they are they would be taken for outputs.", "Write Oracle(target, link='logit').")
    if seen.kind == "piecewise linear" and seen.layers == 2:
        _refuse(seen, "Write recover(oracle, Lines(depth=None)), or recover_layer for the lowest layer.")


def _refuse(seen: Insight, do: str) -> NoReturn:
    raise AssumptionViolated(
        SENTENCES[seen.kind], f"Seen within {seen.queries} queries.", do, kind=seen.kind, queries=seen.queries)
