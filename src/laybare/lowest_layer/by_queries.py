"""The layer behind a black box: facets if it answers without noise, importance sampling if it does not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import erfc

from laybare.certificate import Claim
from laybare.errors import AssumptionViolated
from laybare.levels import LAST_BITS
from laybare.lines import AskBox
from laybare.lowest_layer import acceptance
from laybare.lowest_layer.activity import Baseline, activity_of
from laybare.lowest_layer.facets import FLAT, RADII, Facets, FacetSearch, find_facets
from laybare.lowest_layer.finding import LayerFinding, layer_of
from laybare.lowest_layer.importance import noisy_layer, propose
from laybare.lowest_layer.method import HighThreshold
from laybare.lowest_layer.union_fit import HalfSpaces, mismatch
from laybare.shapes import Array
from laybare.source import Gaussian, Oracle, Samples, Source
from laybare.source.protocol import Parts

LOOKED_AT = 64
"""Draws among which the baseline is looked for, and answers from which noise is told."""

RARELY = 0.25
"""Share of draws that must give the baseline: half, minus four standard deviations of 64 draws."""

CHECKED = 200
"""Fresh rays on which the facets must predict the silence just before and the change just after the boundary."""

NEAR = 1e-6
SAME_POWER = 0.1
"""How far beyond the predicted boundary a change must show, relatively; how close the power of its growth must be."""

SMALL = 0.02
"""Radius, in units of the inputs' spread, of the ball in which a noiseless answer must be constant."""

TOP_ROWS, CHECK_ROWS = 20_000, 2000
FEWEST_ROWS = 1000
RARE = 0.02
"""Rows for the top and the active set, if the budget still allows at least so few; they are drawn around the facets if fewer than
this share of rows drawn from the law would be active."""


class Calibration(NamedTuple):
    """A silent point, the baseline there, deviations that count as rounding, the noise (outputs,), the spread of the inputs
    (dim,)."""

    origin: Array
    level: Array
    tol: float
    noise: Array
    spread: Array


def layer_by_queries(
    oracle: Oracle, method: HighThreshold, width: int | None, *, rng: Generator
) -> tuple[LayerFinding, Parts | None]:
    """Calibrate, then facets or samples: the layer on x, and rows for the top (None if the budget was spent)."""
    with oracle.purpose("baseline"):
        start = calibrate(oracle, rng)
    if start.noise.any():
        with oracle.purpose("active points"):
            return noisy_layer(oracle, method.silent_choices, width, start.level, start.noise, rng=rng)
    search = method.queries or FacetSearch()
    with oracle.purpose("facets"):
        facets = find_facets(
            oracle.ask, start.origin, start.level, start.tol, width=width, search=search, scale=start.spread, box=_ends(oracle),
            rng=rng)
    with oracle.purpose("check"):
        beyond = _beyond(oracle, start, facets.spaces, method.activation.degree, rng)
    claims: tuple[Claim, ...] = (_flat(facets), *beyond, acceptance.separated(facets.spaces.weights))
    spaces = HalfSpaces(facets.spaces.weights, facets.spaces.thresholds + facets.spaces.weights @ start.origin)
    rows = _rows(oracle, spaces, CHECK_ROWS if method.top is None else TOP_ROWS, rng)
    rule = Baseline(start.level, np.full(len(start.level), start.tol), np.zeros(len(start.level)), 1.0)
    if rows is not None:
        claims = (*claims, _active_set(rows.second, rule, spaces))
    errors = np.full((len(spaces.weights), oracle.dim + 1), facets.misfit)
    return LayerFinding(layer_of(spaces, method.activation), claims, errors), rows


def calibrate(oracle: Oracle, rng: Generator) -> Calibration:
    """The most frequent answer among some draws, a point that gives it, and whether the same question has the same answer."""
    mean, spread = _middle(oracle)
    still = oracle.ask(np.repeat(mean[None], LOOKED_AT, axis=0))
    noise = still.std(axis=0)
    scale = float(np.abs(still).max(initial=0.0)) + 1.0
    if (noise > 1e-9 * scale).any():
        return Calibration(mean, still.mean(axis=0), 0.0, noise, spread)
    ball = oracle.ask(mean + SMALL * spread * rng.standard_normal((LOOKED_AT, oracle.dim)) / np.sqrt(oracle.dim))
    moved = np.abs(ball - still[0]).max()
    if moved > 1e-9 * scale:
        raise AssumptionViolated(
            f"Near the centre of the inputs the output moves by {moved:.2g}.",
            "There all units should sleep, and the output be constant.",
            "Check the activation: step and ReLU units are zero below their thresholds. For smooth units give their activation.",
            moved=float(moved))
    tol = max(10.0 * float(moved), LAST_BITS * float(np.abs(still).max()))
    drawn = oracle.ask(_draws(oracle, rng))
    silent = float(np.mean((np.abs(drawn - still[0]) <= tol).all(axis=1)))
    if silent < RARELY:
        raise AssumptionViolated(
            f"The output at the centre of the inputs is that of {silent:.0%} of {LOOKED_AT} draws.",
            "All units should sleep there and in most draws.", "Use RandomStart for units that are often active.", share=silent)
    return Calibration(mean, still[0], tol, np.zeros(len(noise)), spread)


def _ends(oracle: Oracle) -> AskBox | None:
    return None if oracle.box is None else AskBox(oracle.box.low, oracle.box.high)


def _given_law(oracle: Oracle) -> Gaussian:
    return oracle.law if isinstance(oracle.law, Gaussian) else Gaussian(0.0, 1.0)


def _middle(oracle: Oracle) -> tuple[Array, Array]:
    """Mean and spread of the inputs, (dim,) each; those of the uniform law in a box."""
    if oracle.box is not None:
        return (oracle.box.low + oracle.box.high) / 2.0, (oracle.box.high - oracle.box.low) / np.sqrt(12.0)
    law = _given_law(oracle)
    cov = np.asarray(1.0 if law.cov is None else law.cov)
    spread = np.sqrt(np.diag(cov)) if cov.ndim == 2 else np.full(oracle.dim, float(np.sqrt(cov)))
    return np.broadcast_to(np.asarray(0.0 if law.mean is None else law.mean), (oracle.dim,)).astype(float), spread


def _draws(oracle: Oracle, rng: Generator) -> Array:
    if oracle.box is not None:
        return np.asarray(rng.uniform(oracle.box.low, oracle.box.high, (LOOKED_AT, oracle.dim)))
    return _given_law(oracle).complete().draw(LOOKED_AT, oracle.dim, rng)


def _rows(oracle: Oracle, spaces: HalfSpaces, most: int, rng: Generator) -> Parts | None:
    """Rows within what is left of the budget, for the top and the active set; around the facets if the law hardly ever gets
    there."""
    left = min(most, oracle.size)
    if left < FEWEST_ROWS:
        return None
    if oracle.box is not None:
        return oracle.take(left).split(0.8, rng=rng)
    transform = oracle.law.whitening(oracle)
    normals = spaces.weights @ np.linalg.inv(transform.matrix).T
    reach = (spaces.thresholds - spaces.weights @ transform.mean) / np.linalg.norm(normals, axis=1)
    if 0.5 * erfc(reach / np.sqrt(2.0)).sum() > RARE:
        return oracle.take(left).split(0.8, rng=rng)
    centres = normals / np.linalg.norm(normals, axis=1, keepdims=True) * reach[:, None]
    x = transform.inverse().apply(propose(centres, left, oracle.dim, rng))
    return Samples(x, oracle.ask(x, purpose="top"), law=oracle.law).split(0.8, rng=rng)


def _flat(facets: Facets) -> Claim:
    return Claim(
        "misfit of crossings to their facets", facets.misfit, FLAT, facets.misfit < FLAT, "proved",
        f"largest |w·p/t - 1| over the points of the boundary from which {len(facets.spaces.weights)} facets were computed, with "
        f"{facets.queries:,} queries.", decisive=True)


def _beyond(oracle: Oracle, start: Calibration, spaces: HalfSpaces, degree: float | None, rng: Generator) -> tuple[Claim, Claim]:
    """Along fresh rays: silence just before the predicted boundary, a change just after it, and how that grows with the way."""
    count = min(CHECKED, max(0, (oracle.budget - oracle.spent) // 3))
    rays = rng.standard_normal((count, oracle.dim))
    rays *= start.spread / np.linalg.norm(rays, axis=1, keepdims=True)
    reach = (rays @ (spaces.weights / spaces.thresholds[:, None]).T).max(axis=1, initial=0.0)
    farthest = np.full(count, RADII[-1])
    if oracle.box is not None:
        ends = np.array([oracle.box.span(start.origin, ray)[1] for ray in rays])
        farthest = np.minimum(farthest, ends / (1 + 3 * NEAR))
    met = reach * farthest > 1.0
    distance = np.where(met, 1.0 / np.where(met, reach, 1.0), farthest)
    points = np.concatenate([rays * (distance * f)[:, None] for f in (1 - NEAR, 1 + NEAR, 1 + 2 * NEAR)])
    change = np.abs(oracle.ask(start.origin + points) - start.level)
    before, after, twice = (change > start.tol).any(axis=1).reshape(3, count)
    wrong = int(np.sum(before | (met & ~after)))
    seen = met & after & twice
    sizes = change.max(axis=1).reshape(3, count)[:, seen]
    return _contradicted(wrong, count), _rising(np.log2(sizes[2] / sizes[1]), degree)


def _contradicted(wrong: int, count: int) -> Claim:
    return Claim(
        "fresh rays that contradict the facets", wrong / max(count, 1), 0.0, wrong == 0 and count > 0, "tested",
        f"{wrong} of {count} rays change before the predicted boundary or not right after it; a facet that was missed would show "
        "here unless its solid angle is tiny.", decisive=True)


def _rising(powers: Array, degree: float | None) -> Claim:
    """Twice as far beyond the boundary a unit of degree p has risen 2^p times as far; a step has jumped."""
    wanted = float("nan") if degree is None else float(degree)
    power = float(np.median(powers)) if len(powers) else float("nan")
    return Claim(
        "power with which outputs rise beyond a boundary", power, wanted, abs(power - wanted) <= SAME_POWER, "tested",
        f"median over {len(powers)} fresh rays, {NEAR:g} and {2 * NEAR:g} beyond the boundary: 0 for step units, 1 for relu, p "
        "for power_relu(p), whatever smooth function lies above them.", decisive=True)


def _active_set(fresh: Source, rule: Baseline, spaces: HalfSpaces) -> Claim:
    found = mismatch(activity_of(fresh, rule), spaces)
    return Claim(
        "active-set mismatch on drawn rows", found.share, 0.0, found.share <= 0.0, "tested",
        f"{found.uncovered + found.intruding} of {found.rows:,} rows that were drawn at random.", decisive=True)
