"""The first look at a black box: what it is, within the first queries, before minutes are spent on what it is not."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.insight.findings import ODDS, SENTENCES, Finding, Insight
from laybare.insight.kinks import isolated_kink, lies_on_hyperplane
from laybare.insight.local import Shape, shapes
from laybare.insight.probe import Enough, Probe, ProbeLine
from laybare.insight.steps import border, one_input_decides
from laybare.insight.tails import BENDS, NAMES, Tail, tail
from laybare.shapes import Array
from laybare.source import Oracle

PLACES = np.tan(np.array([-1.2, -0.7, -0.25, 0.25, 0.7, 1.2]))
"""Places on a line, in typical distances: evenly spread over the kinks of Gaussian units."""

WIDTH = 0.1
"""Half-width of what is looked at around a place, relative to its distance."""

FOLLOWED, BORDERS, ENDS = 4, 3, 3
"""Kinks that are followed, borders that are looked at, ends of lines whose tails are."""

QUADRATIC, FLAT, STRAIGHT = 2, 4, 2
"""Places of six, at least: where a parabola leaves nothing (twice as many if answers are coarse), that are constant, that are
straight."""


MOST = 280
"""Queries, at most."""


def first_look(oracle: Oracle, *, most: int = MOST, rng: Generator | int = 0) -> Insight:
    """What a black box is: noisy, constant on pieces, piecewise linear, smooth; which activation; one layer or more.

    Takes 40 to `most` queries, booked as "first look" and "rounding". It is a look, not a proof: the certificate of a recovery
    decides. Answers stay with the oracle (`oracle.answered`).
    """
    rng = np.random.default_rng(rng)
    before = oracle.spent
    rounding = oracle.rounding
    with oracle.purpose("first look"):
        noisy = rounding.kind == "noise" and rounding.absolute > 0
        look = _Look("noisy" if noisy else "unclear")
        if not noisy:
            with suppress(Enough):
                _take(look, oracle, Probe(oracle, rounding, min(before + most, oracle.budget), rng), rng)
    name = look.link or oracle.taken_as
    findings = [
        Finding("kind", look.kind, SENTENCES[look.kind]), Finding("link", name, ODDS if look.link else oracle.remarks[0]),
        Finding("rounding", rounding.kind, rounding.sentence),
        Finding("outputs", oracle.outputs, f"It has {oracle.outputs} output{'s' * (oracle.outputs > 1)}.")]
    findings += _further(look)
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


def _take(look: _Look, oracle: Oracle, probe: Probe, rng: Generator) -> None:
    x = oracle.unsaturated(8) if oracle.taken_as != "identity" else oracle.typical(8)
    look.share = float(np.linalg.norm(x[0] - x[1]) / np.linalg.norm(np.subtract(*oracle.typical(2))))
    unit = float(np.median(np.linalg.norm(x - x.mean(axis=0), axis=1)))
    line, places, widths = _first_places(oracle, _line(x[0], rng), unit)
    seen = shapes(probe, line, places, widths)
    if _is_smooth(seen) and probe.low > 0 and probe.high < 1 and oracle.outputs == 1:
        odds = probe.as_log_odds(rng)
        again = shapes(odds, line, places, widths)
        if sum(shape.kind == "straight" for shape in again) >= STRAIGHT and not _is_smooth(again):
            probe, seen, look.link = odds, again, "logit"
    look.scale = _scale(seen, oracle.dim)
    kinds = Counter(shape.kind for shape in seen)
    if kinds["quadratic"] >= (QUADRATIC if oracle.rounding.kind == "float64" else 2 * QUADRATIC):
        look.kind, look.activations, look.bounded = "smooth", ("power_relu(2)",), False
    elif _is_smooth(seen):
        _smooth(look, oracle, probe, x, unit, rng)
    elif kinds["flat"] >= FLAT and not kinds["straight"]:
        _steps(look, probe, x)
    elif kinds["straight"] + kinds["flat"] >= STRAIGHT:
        _straight(look, oracle, probe, [line, *(_line(point, rng) for point in x[1:4])], seen, unit, rng)


def _is_smooth(seen: list[Shape]) -> bool:
    kinds = Counter(shape.kind for shape in seen)
    return kinds["curved"] + kinds["quadratic"] >= 2 and kinds["straight"] <= 2


def _straight(
    look: _Look, oracle: Oracle, probe: Probe, lines: list[ProbeLine], seen: list[Shape], unit: float, rng: Generator
) -> None:
    """Kinks of lines, one between each two neighbours: are they on hyperplanes?"""
    look.kind = "linear"
    verdicts: list[bool] = []
    for line in lines:
        seen = seen or shapes(probe, *_first_places(oracle, line, unit))
        for left, right in _bends(seen):
            look.kind, look.activations = "piecewise linear", ("relu", "leaky_relu", "absolute")
            if oracle.dim == 1 or oracle.box is not None:
                return
            kink = isolated_kink(probe, line, left, right)
            on_plane = None if kink is None else lies_on_hyperplane(probe, line, kink, unit, rng)
            verdicts += [] if on_plane is None else [on_plane]
            if verdicts:
                look.layers = 1 if all(verdicts) else 2
            if len(verdicts) == FOLLOWED or look.layers == 2:
                return
        if verdicts:
            return
        seen = []


def _bends(seen: list[Shape]) -> list[tuple[Shape, Shape]]:
    """Neighbouring straight places with different slopes."""
    good = [shape for shape in seen if shape.kind in ("straight", "flat")]
    return [(a, b) for a, b in pairwise(good) if not np.isclose(a.slope, b.slope, rtol=1e-6, atol=1e-12)]


def _steps(look: _Look, probe: Probe, x: Array) -> None:
    y = probe(x).y
    pairs = [(i, j) for i in range(len(x)) for j in range(i) if y[i] != y[j]]
    if not pairs:
        look.kind, look.bounded = "constant", True
        return
    apart = [one_input_decides(probe, *border(probe, x[i], x[j])) for i, j in pairs[:: max(1, len(pairs) // BORDERS)][:BORDERS]]
    look.kind = "tree" if 2 * sum(apart) > len(apart) else "steps"  # beside one border of a tree there may be another
    look.activations, look.bounded = (() if look.kind == "tree" else ("step",)), True


def _smooth(look: _Look, oracle: Oracle, probe: Probe, x: Array, unit: float, rng: Generator) -> None:
    look.kind = "smooth"
    if oracle.box is not None:
        return
    ends: list[Tail] = []
    for point in x[1:]:
        end = tail(probe, _line(point, rng), unit)
        ends += [] if end is None else [end]
        _name(look, ends)
        if sum(bool(np.isfinite(end.bends)) for end in ends) == ENDS:
            break


def _name(look: _Look, ends: list[Tail]) -> None:
    """Activations that fit what has been seen of the ends of lines."""
    if ends:
        look.bounded = all(end.constant for end in ends)
        bends = [end.bends for end in ends if np.isfinite(end.bends)]
        either = (*NAMES[look.bounded, False], *NAMES[look.bounded, True])
        look.activations = NAMES[look.bounded, float(np.median(bends)) > BENDS] if bends else either


def _line(point: Array, rng: Generator) -> ProbeLine:
    direction = rng.standard_normal(len(point))
    return ProbeLine(point, direction / np.linalg.norm(direction))


class _LookPlaces(NamedTuple):
    line: ProbeLine
    t: Array
    widths: Array


def _first_places(oracle: Oracle, line: ProbeLine, unit: float) -> _LookPlaces:
    """Where the first points on a line go, and how far around each; in a box, over the middle of what lies inside."""
    if oracle.box is None:
        return _LookPlaces(line, unit * PLACES, WIDTH * unit * (1.0 + np.abs(PLACES)))
    start, stop = oracle.box.span(line.point, line.direction)
    half = (stop - start) / 2
    centred = ProbeLine(line.point + (start + half) * line.direction, line.direction)
    return _LookPlaces(centred, half * np.linspace(-0.8, 0.8, len(PLACES)), np.full(len(PLACES), WIDTH * half))


def _scale(seen: list[Shape], dim: int) -> float | None:
    """The nearest place, seen from the middle, beyond which the slope is another one."""
    good = [shape for shape in seen if np.isfinite(shape.slope)]
    bent = [max(abs(a.t), abs(b.t)) for a, b in pairwise(good) if not np.isclose(a.slope, b.slope, rtol=1e-6, atol=1e-12)]
    return min(bent) / float(np.sqrt(dim)) if bent else None


def _further(look: _Look) -> list[Finding]:
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
        found.append(Finding("scale", look.scale, f"It bends at inputs of about {look.scale:.2g} a coordinate."))
    return found
