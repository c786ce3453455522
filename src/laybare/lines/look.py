"""The first look at a black box: what it is, within the first queries, before minutes are spent on what it is not.

    oracle  ->  rounding and noise  ->  shapes at a few places  ->  kinks followed | tails | borders  ->  Insight
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.lines.depth import isolate_kink, stays_on_hyperplane
from laybare.lines.probe import (
    LOOK,
    TAIL_ACTIVATIONS,
    LocalShape,
    Probe,
    ProbeLine,
    QueriesUsedUp,
    Tail,
    bisect_border,
    has_kink,
    local_shapes,
    measure_tail,
    one_input_decides,
)
from laybare.numerics.checks import as_generator, check_instance, check_whole
from laybare.numerics.shapes import Array
from laybare.source import Oracle, Rounding

LOOK_PLACES = np.tan(np.array([-1.2, -0.7, -0.25, 0.25, 0.7, 1.2]))
"""Places on a line, in typical distances. Derived: evenly spread over the kinks of Gaussian units, whose t is Cauchy."""

KIND_SENTENCES = {
    "piecewise linear": "It is straight between kinks: units such as ReLU, leaky ReLU or the absolute value.",
    "smooth": "It is curved and has no kinks: smooth units.",
    "curved with kinks": "It is curved and has kinks: units of two sorts, or something smooth beside ReLU units or on top of "
                         "them, such as a link.",
    "steps": "It is constant on pieces whose borders cut across several inputs: step units, hidden features that are "
             "rounded, or hard labels of a classifier (for those ask for probabilities); use HighThreshold(activation=step).",
    "tree": "It is constant on pieces, and every border that was looked at belongs to one input: a decision tree or a sum of "
            "such, or inputs that are rounded first, as by a cache. That is no network, and no weights can be read.",
    "linear": "It is a linear function wherever it was looked at: no hidden unit bends there. Use larger inputs or a larger box.",
    "constant": "All answers are the same: nothing depends on the inputs where it was looked at. Use larger inputs.",
    "noisy": "The same question has different answers: noise. Use a method for samples, such as RandomStart().",
    "unclear": "It is neither straight, nor curved, nor constant on pieces at any scale that was looked at.",
}
"""A sentence for every kind."""

LOG_ODDS_SENTENCE = "Answers are probabilities of one class: their log-odds are straight where they are curved. Say link='logit'."


class Finding(NamedTuple):
    """One thing that was looked at: its name, what was found, and a sentence about it."""

    name: str
    value: Any
    sentence: str


@dataclass(frozen=True)
class Insight:
    """What a black box is, from its first answers.

    Attributes
    ----------
    kind : "piecewise linear", "smooth", "curved with kinks", "steps", "tree", "linear", "constant", "noisy" or "unclear"
    activations : names of the activations it may have, the likeliest first; empty if none fits or none can be determined
    layers : hidden layers: 1, 2 (meaning two or more), or None if that was not seen
    outputs : number of outputs, after the link
    link : what the answers are: "identity", "logit" or "softmax"; say link= if the oracle uses another one
    bounded : whether the answers stay within bounds far out; None if that could not be seen
    scale : distance from the middle of the inputs at which the function first bends, in inputs of size one; None if not seen
    rounding : how finely the answers are resolved
    queries : the number of queries
    findings : all of it, a sentence each
    """

    kind: str
    activations: tuple[str, ...]
    layers: int | None
    outputs: int
    link: str
    bounded: bool | None
    scale: float | None
    rounding: Rounding
    queries: int
    findings: tuple[Finding, ...]

    def explain(self) -> str:
        """All sentences."""
        return " ".join(finding.sentence for finding in self.findings)

    def __repr__(self) -> str:
        rows = [f"  {finding.name}: {finding.sentence}" for finding in self.findings]
        return "\n".join([f"first look, {self.queries:,} queries: {self.kind}", *rows])

    def _repr_html_(self) -> str:
        from laybare.report.notebook import insight_html

        return insight_html(self)


@np.errstate(all="ignore")
def first_look(oracle: Oracle, *, most: int = LOOK.max_queries, rng: Generator | int = 0) -> Insight:
    """What a black box is: noisy, constant on pieces, piecewise linear, smooth; which activation; one layer or more.

    Takes 40 to `most` queries, booked as "first look" and "rounding". It is a look, not a proof: the certificate of a recovery
    decides. Answers stay with the oracle (`oracle.answered`).
    """
    check_instance("oracle", oracle, Oracle, "Give Oracle(model, dim).")
    rng, most = as_generator(rng), check_whole("most", most)
    before = oracle.spent
    rounding = oracle.rounding
    with oracle.purpose("first look"):
        noisy = rounding.kind == "noise" and rounding.absolute > 0
        look = _Look("noisy" if noisy else "unclear")
        if not noisy:
            with suppress(QueriesUsedUp):
                _take_look(look, oracle, Probe(oracle, rounding, min(before + most, oracle.budget), rng), rng)
    name = look.link or oracle.link_in_use
    findings = [
        Finding("kind", look.kind, KIND_SENTENCES[look.kind]),
        Finding("link", name, LOG_ODDS_SENTENCE if look.link else oracle.remarks[0]),
        Finding("rounding", rounding.kind, rounding.sentence),
        Finding("outputs", oracle.outputs, f"It has {oracle.outputs} output{'s' * (oracle.outputs > 1)}.")]
    findings += _further_findings(look)
    return Insight(
        look.kind, look.activations, look.layers, oracle.outputs, name, look.bounded, look.scale, rounding, oracle.spent - before,
        tuple(findings))


class _Look:
    """What has been seen so far."""

    def __init__(self, kind: str = "unclear") -> None:
        self.kind = kind
        self.activations: tuple[str, ...] = ()
        self.layers: int | None = None
        self.bounded: bool | None = None
        self.scale: float | None = None
        self.link: str | None = None  # other than that of the oracle
        self.share = 1.0  # of the size of drawn inputs, at which probabilities are neither 0 nor 1


def _take_look(look: _Look, oracle: Oracle, probe: Probe, rng: Generator) -> None:
    x = oracle.unsaturated(8) if oracle.link_in_use != "identity" else oracle.typical(8)
    look.share = float(np.linalg.norm(x[0] - x[1]) / np.linalg.norm(np.subtract(*oracle.typical(2))))
    unit = float(np.median(np.linalg.norm(x - x.mean(axis=0), axis=1)))
    line, places, widths = _first_places(oracle, _random_line(x[0], rng), unit)
    seen = local_shapes(probe, line, places, widths)
    if _is_smooth(seen) and probe.low > 0 and probe.high < 1 and oracle.outputs == 1:
        odds = probe.as_log_odds(rng)
        again = local_shapes(odds, line, places, widths)
        if sum(shape.kind == "linear" for shape in again) >= LOOK.min_linear_places and not _is_smooth(again):
            probe, seen, look.link = odds, again, "logit"
    look.scale = _bend_scale(seen, oracle.dim)
    kinds = Counter(shape.kind for shape in seen)
    fine = oracle.rounding.kind == "float64"
    if kinds["quadratic"] >= (LOOK.min_quadratic_places if fine else 2 * LOOK.min_quadratic_places):
        look.kind, look.activations, look.bounded = "smooth", ("power_relu(2)",), False
    elif _is_smooth(seen) and has_kink(probe, line, places):
        look.kind = "curved with kinks"
    elif _is_smooth(seen):
        _look_at_tails(look, oracle, probe, x, unit, rng)
    elif kinds["flat"] >= LOOK.min_flat_places and not kinds["linear"]:
        _look_at_borders(look, probe, x)
    elif kinds["linear"] + kinds["flat"] >= LOOK.min_linear_places:
        _look_at_kinks(look, probe, [line, *(_random_line(point, rng) for point in x[1:4])], seen, unit, rng)


def _is_smooth(seen: list[LocalShape]) -> bool:
    kinds = Counter(shape.kind for shape in seen)
    return kinds["curved"] + kinds["quadratic"] >= 2 and kinds["linear"] <= 2


def _look_at_kinks(
    look: _Look, probe: Probe, lines: list[ProbeLine], seen: list[LocalShape], unit: float, rng: Generator
) -> None:
    """Kinks of lines, one between each two neighbours: are they on hyperplanes?"""
    look.kind, oracle = "linear", probe.oracle
    verdicts: list[bool] = []
    for line in lines:
        seen = seen or local_shapes(probe, *_first_places(oracle, line, unit))
        for left, right in _bent_pairs([shape for shape in seen if shape.kind in ("linear", "flat")]):
            look.kind, look.activations = "piecewise linear", ("relu", "leaky_relu", "absolute")
            if oracle.dim == 1 or oracle.box is not None:
                return
            kink = isolate_kink(probe, line, left, right)
            on_plane = None if kink is None else stays_on_hyperplane(probe, line, kink, unit, rng)
            verdicts += [] if on_plane is None else [on_plane]
            if verdicts:
                look.layers = 1 if all(verdicts) else 2
            if len(verdicts) == LOOK.max_followed_kinks or look.layers == 2:
                return
        if verdicts:
            return
        seen = []


def _bent_pairs(shapes: list[LocalShape]) -> list[tuple[LocalShape, LocalShape]]:
    """Neighbours with different slopes."""
    return [(a, b) for a, b in pairwise(shapes) if not np.isclose(a.slope, b.slope, rtol=1e-6, atol=1e-12)]


def _look_at_borders(look: _Look, probe: Probe, x: Array) -> None:
    y = probe(x).y
    pairs = [(i, j) for i in range(len(x)) for j in range(i) if y[i] != y[j]]
    if not pairs:
        look.kind, look.bounded = "constant", True
        return
    chosen = pairs[:: max(1, len(pairs) // LOOK.max_borders)][: LOOK.max_borders]
    apart = [one_input_decides(probe, *bisect_border(probe, x[i], x[j])) for i, j in chosen]
    look.kind = "tree" if 2 * sum(apart) > len(apart) else "steps"  # beside one border of a tree there may be another
    look.activations, look.bounded = (() if look.kind == "tree" else ("step",)), True


def _look_at_tails(look: _Look, oracle: Oracle, probe: Probe, x: Array, unit: float, rng: Generator) -> None:
    look.kind = "smooth"
    if oracle.box is not None:
        return
    tails: list[Tail] = []
    for point in x[1:]:
        tail = measure_tail(probe, _random_line(point, rng), unit)
        tails += [] if tail is None else [tail]
        _name_activations(look, tails)
        if sum(bool(np.isfinite(tail.excess)) for tail in tails) == LOOK.max_tails:
            break


def _name_activations(look: _Look, tails: list[Tail]) -> None:
    """Activations that fit the tails so far."""
    if tails:
        look.bounded = all(tail.constant for tail in tails)
        excess = [tail.excess for tail in tails if np.isfinite(tail.excess)]
        either = (*TAIL_ACTIVATIONS[look.bounded, False], *TAIL_ACTIVATIONS[look.bounded, True])
        gaussian = bool(excess) and float(np.median(excess)) > LOOK.gaussian_tail_excess
        look.activations = TAIL_ACTIVATIONS[look.bounded, gaussian] if excess else either


def _random_line(point: Array, rng: Generator) -> ProbeLine:
    direction = rng.standard_normal(len(point))
    return ProbeLine(point, direction / np.linalg.norm(direction))


class _LookPlaces(NamedTuple):
    line: ProbeLine
    t: Array
    widths: Array


def _first_places(oracle: Oracle, line: ProbeLine, unit: float) -> _LookPlaces:
    """Where the first points on a line go, and how far around each; in a box, over the middle of what lies inside."""
    if oracle.box is None:
        return _LookPlaces(line, unit * LOOK_PLACES, LOOK.place_half_width * unit * (1.0 + np.abs(LOOK_PLACES)))
    start, stop = oracle.box.span(line.point, line.direction)
    half, count = (stop - start) / 2, len(LOOK_PLACES)
    centred = ProbeLine(line.point + (start + half) * line.direction, line.direction)
    return _LookPlaces(centred, half * np.linspace(-0.8, 0.8, count), np.full(count, LOOK.place_half_width * half))


def _bend_scale(seen: list[LocalShape], dim: int) -> float | None:
    """The nearest place, seen from the middle, beyond which the slope is another one."""
    pairs = _bent_pairs([shape for shape in seen if np.isfinite(shape.slope)])
    bent = [max(abs(a.t), abs(b.t)) for a, b in pairs]
    return min(bent) / float(np.sqrt(dim)) if bent else None


def _further_findings(look: _Look) -> list[Finding]:
    found = []
    if look.activations:
        names = " or ".join(look.activations)
        found.append(Finding("activation", look.activations, f"It fits {names}: say activation= if that is not the default."))
    if look.layers is not None:
        found.append(Finding("layers", look.layers, (
            "All kinks that were followed lie on hyperplanes: one hidden layer." if look.layers == 1 else
            "A kink that was followed leaves its hyperplane or changes: more than one hidden layer; use Lines(depth=None).")))
    if look.bounded is not None:
        found.append(Finding("bounded", look.bounded, f"Far out it {'stays within bounds' if look.bounded else 'grows'}."))
    if look.share < 1.0:
        found.append(Finding("inputs", look.share, (
            f"At inputs as they are drawn, probabilities are 0 or 1 to rounding; {look.share:.2g} times as large they are not: "
            f"give a law of that size, such as lb.Gaussian(0, {look.share**2:.1g}), or a box.")))
    if look.scale is not None:
        found.append(Finding("scale", look.scale, f"It bends at inputs of about {look.scale:.2g} per coordinate."))
    return found
