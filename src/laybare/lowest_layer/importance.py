"""Noisy queries: points are drawn where units are active, and weighted back.

Active points among a first batch of draws tell where to look: centres C_j = t x/|x|. The proposal mixes a tenth of the law
itself with N(C_j, I), so that q/φ = 0.1 + 0.9 mean_j exp(C_j·x - |C_j|²/2) is bounded below by a tenth, and moments are
averages of r φ/q. A tenth of the queries of plain sampling gave the same accuracy at t = 3. The half-spaces are fitted to the
drawn labels as they are: a fit conditional on x needs no weights.
Source: ours; the paper's oracle that retains samples in proportion to f (`printed.biased_oracle`) is of the same kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import ndtri

from laybare.errors import TooFewSamples
from laybare.lowest_layer.activity import SPREADS, Baseline
from laybare.lowest_layer.finding import LayerFinding
from laybare.lowest_layer.silent_route import SilentChoices, find_silent
from laybare.lowest_layer.start import Directions, count_units
from laybare.shapes import Array
from laybare.source import Affine, Gaussian, Oracle, Samples, Source
from laybare.source.protocol import Parts

PLAIN = 0.1
FIRST = 0.25
"""Share of the proposal that is the law itself, and of the queries that look for active points."""

MOST_CENTRES = 500
"""Centres of the proposal: more cost time and add little."""

FEWEST_ACTIVE = 10


class Draws(NamedTuple):
    """Rows z on white inputs with their answers, φ/q of each, and the baseline as the rows from the law show it."""

    z: Array
    y: Array
    weight: Array
    rule: Baseline


@dataclass(frozen=True, eq=False)
class KnownDirections:
    """A start that is known already."""

    directions: Directions

    def __call__(self, source: Source, width: int, *, rng: Generator) -> Directions:
        """What was given, whatever the samples are."""
        return self.directions


def noisy_layer(
    oracle: Oracle, choices: SilentChoices, width: int | None, level: Array, noise: Array, *, rng: Generator
) -> tuple[LayerFinding, Parts]:
    """The layer, and the rows to fit a top to and to check it on."""
    transform = oracle.law.whitening(oracle)
    drawn = draw_active(oracle, Baseline(level, SPREADS * noise, noise, 1.0), transform.inverse(), width or oracle.dim, rng)
    rule = drawn.rule
    weighted = Samples(drawn.z, rule.active(drawn.y) * drawn.weight, law=Gaussian(0, 1))
    told = count_units(weighted) if width is None else width
    given = KnownDirections(choices.start(weighted, told, rng=rng))
    used, fresh = Samples(drawn.z, drawn.y, law=Gaussian(0, 1)).split(0.8, rng=rng)
    found = find_silent(used, fresh, told, choices._replace(start=given, rule=rule), rng=rng)
    raw = Samples(transform.inverse().apply(drawn.z), drawn.y, law=oracle.law)
    return found.pull_back(transform), raw.split(0.8, rng=rng)


def draw_active(oracle: Oracle, rule: Baseline, back: Affine, width: int, rng: Generator) -> Draws:
    """All that is left of the budget: a quarter from the law, the rest around what was active there."""
    total = oracle.budget - oracle.spent
    first = rng.standard_normal((max(1, int(FIRST * total)), oracle.dim))
    answers = oracle.ask(back.apply(first))
    active = rule.active(answers)
    silent = float(np.clip(1.0 - active.mean(), 1e-6, 1.0 - 1e-6))
    quiet = answers[~active]
    rule = Baseline(quiet.mean(axis=0), SPREADS * quiet.std(axis=0), quiet.std(axis=0), silent)
    if active.sum() < FEWEST_ACTIVE:
        raise TooFewSamples(
            f"{int(active.sum())} of {len(first):,} queries found a unit active.",
            "Noisy answers have to be drawn where units are active, and nothing tells where that is.",
            f"Grant about {int(4 * 50 * total / max(int(active.sum()), 1)):,} queries.", active=int(active.sum()))
    reach = float(ndtri(silent ** (1.0 / width)))
    points = first[active][:MOST_CENTRES]
    centres = reach * points / np.linalg.norm(points, axis=1, keepdims=True)
    second = propose(centres, total - len(first), oracle.dim, rng)
    z, y = np.vstack([first, second]), np.vstack([answers, oracle.ask(back.apply(second))])
    share = len(second) / total
    return Draws(z, y, 1.0 / (1.0 - share + share * density_ratio(z, centres)), rule)


def density_ratio(z: Array, centres: Array) -> Array:
    """q/φ of the proposal: 0.1 + 0.9 mean_j exp(C_j·z - |C_j|²/2), a few thousand rows at a time."""
    shift = np.square(centres).sum(axis=1) / 2
    parts = [np.exp(z[at : at + 4096] @ centres.T - shift).mean(axis=1) for at in range(0, len(z), 4096)]
    return PLAIN + (1.0 - PLAIN) * np.concatenate(parts)


def propose(centres: Array, count: int, dim: int, rng: Generator) -> Array:
    """Draws from the mixture of N(0, I) and N(C_j, I), (count, dim)."""
    chosen = centres[rng.integers(len(centres), size=count)]
    z: Array = rng.standard_normal((count, dim)) + np.where(rng.random(count) < PLAIN, 0.0, 1.0)[:, None] * chosen
    return z
