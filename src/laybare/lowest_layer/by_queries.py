"""The lowest layer behind a black box: along lines, by facets, or by importance sampling.

The layer behind a black box: facets if it answers without noise, importance sampling if it does not.

Noisy answers: points are drawn where units are active, and weighted back. Active points among a first batch of draws give the
centres C_j = t x/|x|. The proposal mixes a tenth of the law itself with N(C_j, I), so that q/φ = 0.1 + 0.9 mean_j
exp(C_j·x - |C_j|²/2) is at least a tenth, and moments are averages of r φ/q. The half-spaces are fitted to the drawn labels as
they are: a fit conditional on x needs no weights.
Source: ours; the oracle of Goel and Panigrahy (2019) that retains samples in proportion to f is of the same kind.

The lowest layer of a ReLU network of any depth behind a black box, read along lines; what lies above is the black box itself.

These are the parts of `Lines(depth=None)`, which stop after the first layer: kinks that stay on their hyperplane far away are
units of the lowest layer, and the gradients show their active sides and whether one is missing. Needs answers without noise, and
a layer that is not wider than its input; no unit has to be rarely active.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import erfc, ndtri

from laybare.certificate import Certificate, Claim, ClaimName, StandardErrors
from laybare.certificate.repeatability import repeat_claims
from laybare.errors import AssumptionViolated, InvalidInput, TooFewSamples
from laybare.lines.feature_space import RemainingBlackBox
from laybare.lines.layer import LayerEstimate
from laybare.lines.query import QueryBox, QueryCounter
from laybare.lines.read import DeepReadResult
from laybare.lowest_layer import acceptance
from laybare.lowest_layer.acceptance import LayerClaimName, LayerFinding, layer_from_spaces
from laybare.lowest_layer.active_rows import ACTIVITY, Baseline, label_active_rows
from laybare.lowest_layer.facets import RADII, RAYS, Facets, FacetSearch, SilentPoint, find_facets
from laybare.lowest_layer.high_threshold import HighThreshold
from laybare.lowest_layer.layer_start import Directions, count_visible_units
from laybare.lowest_layer.silent_route import SilentChoices, find_silent_units
from laybare.lowest_layer.tops import Top
from laybare.lowest_layer.union_fit import HalfSpaces, count_mismatch
from laybare.methods.lines import MAX_ERROR_BAR, Lines, layer_claim
from laybare.networks import Layer
from laybare.numerics.levels import LAST_BITS
from laybare.numerics.shapes import Array, Progress
from laybare.source import Affine, Gaussian, Oracle, Samples, Source
from laybare.source.oracle.repeats import ask_earlier_queries_again
from laybare.source.protocol import SplitSources

FRESH_INPUTS = 40
"""Inputs at which the answers must follow from the features alone. Checked by `pytest tests/lowest_layer/test_by_lines.py`."""

MAX_UNEXPLAINED = 1e-6
"""1 - R² of these answers at most. Checked by `pytest tests/lowest_layer/test_by_lines.py`."""


def layer_by_lines(
    oracle: Oracle, method: Lines, width: int | None, *, rng: Generator, progress: Progress | None = None
) -> tuple[Layer, Certificate, Top | None]:
    """The lowest layer, what is known about it, and the black box as a function of its features."""
    if method.depth is not None:
        raise InvalidInput(
            f"Lines(depth={method.depth}) was given.", "The lowest layer is read whatever lies above it.",
            "Use Lines(depth=None).")
    found = method.read_lowest(oracle, rng=rng, progress=progress)
    read = found.layers[0]
    layer = Layer(read.weights, read.biases)
    top = None if read.failure else _black_box_top(oracle, read, rng)
    repeated = repeat_claims(ask_earlier_queries_again(oracle), noise_allowed=False)
    claims = (layer_claim(read, 0), *_width_claim(read, width), *_feature_claim(top), _error_bar_claim(found, read), *repeated)
    errors = StandardErrors(
        np.repeat(read.sd[:, None], layer.dim, axis=1), read.sd * np.maximum(1.0, np.abs(read.biases)),
        np.full(layer.width, np.nan), np.asarray(np.nan))
    return layer, Certificate(claims, errors, 0.0), top


def _black_box_top(oracle: Oracle, read: LayerEstimate, rng: Generator) -> Top:
    """The black box on the features; R² at fresh inputs, of answers at other inputs with the same features."""
    above = RemainingBlackBox(((read.weights, read.biases),), QueryCounter(oracle.ask))
    x = rng.standard_normal((FRESH_INPUTS, read.weights.shape[1]))
    with oracle.purpose("check"):
        y, same = oracle.ask(x).reshape(FRESH_INPUTS, -1), above(np.maximum(x @ read.weights.T + read.biases, 0.0))
    return Top(above, 1.0 - float(np.sum((y - same) ** 2) / np.sum((y - y.mean(axis=0)) ** 2)))


def _width_claim(read: LayerEstimate, width: int | None) -> tuple[Claim, ...]:
    if width is None:
        return ()
    count = len(read.biases)
    text = f"{count} units were read, {width} were given."
    return (Claim(ClaimName.GIVEN_WIDTH, float(count), float(width), count == width, "tested", text),)


def _feature_claim(top: Top | None) -> tuple[Claim, ...]:
    if top is None:
        return ()
    rest = 1.0 - top.r2
    return (Claim(
        LayerClaimName.FEATURES, rest, MAX_UNEXPLAINED, rest <= MAX_UNEXPLAINED, "tested",
        f"1 - R² at {FRESH_INPUTS} fresh inputs, of the answers at other inputs that have the same features of this layer."),)


def _error_bar_claim(found: DeepReadResult, read: LayerEstimate) -> Claim:
    bar = float(read.sd.max(initial=0.0))
    return Claim(
        ClaimName.PARAMETER_ERROR_BAR, bar, MAX_ERROR_BAR, bar < MAX_ERROR_BAR, "tested",
        f"standard deviation of a weight or bias; the answers are resolved as {found.rounding.kind}.")


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """How many queries go where, and what the checks of the facets ask for."""

    calibration_draws: int = 64  # for the baseline, and equal questions for the noise. Checked by `pytest tests/lowest_layer`.
    min_silent_share: float = 0.25  # of these draws. Derived: half, minus four standard deviations of 64 draws.
    ball_radius: float = 0.02  # where noiseless answers must be constant, in sds. Checked by `pytest tests/lowest_layer`.
    noise: float = 1e-9  # relative change of answers that is no rounding. Checked by `pytest tests/lowest_layer`.
    check_rays: int = 200  # fresh rays on which facets must predict the change. Checked by `pytest tests/lowest_layer`.
    check_step: float = 1e-6  # relative distance at which the change must show. Checked by `pytest tests/lowest_layer`.
    power_tol: float = 0.1  # error of the power of its growth. Checked by `pytest tests/lowest_layer`.
    top_rows: int = 20_000  # rows for the top and the active set. Checked by `pytest tests/lowest_layer`.
    check_rows: int = 2000  # rows for the active set alone. Checked by `pytest tests/lowest_layer`.
    min_rows: int = 1000  # with less budget left, neither is done. Checked by `pytest tests/lowest_layer`.
    min_active_share: float = 0.02  # below it rows are drawn around the facets. Checked by `pytest tests/lowest_layer`.
    law_share: float = 0.1  # of the proposal. Derived: weights of at most 10.
    first_share: float = 0.25  # of the queries, to look for active points. Checked by `pytest tests/lowest_layer`.
    max_centres: int = 500  # of the proposal: more cost time and add little. Checked by `pytest tests/lowest_layer`.
    min_active: int = 10  # active points that give centres. Checked by `pytest tests/lowest_layer`.


QUERIES = QueryOptions()


def layer_by_queries(
    oracle: Oracle, method: HighThreshold, width: int | None, *, rng: Generator
) -> tuple[LayerFinding, SplitSources | None]:
    """Calibrate, then facets or samples: the layer on x, and rows for the top (None if the budget was spent)."""
    with oracle.purpose("baseline"):
        start = calibrate(oracle, rng)
    if start.noise.any():
        with oracle.purpose("active points"):
            return find_noisy_layer(oracle, method.silent_choices, width, start.level, start.noise, rng=rng)
    search = method.queries or FacetSearch()
    with oracle.purpose("facets"):
        facets = find_facets(oracle.ask, start, width=width, search=search, box=_query_box(oracle), rng=rng)
    with oracle.purpose("check"):
        beyond = _check_fresh_rays(oracle, start, facets.spaces, method.activation.degree, rng)
    claims: tuple[Claim, ...] = (_planarity_claim(facets), *beyond, acceptance.separation_claim(facets.spaces.weights))
    spaces = HalfSpaces(facets.spaces.weights, facets.spaces.thresholds + facets.spaces.weights @ start.origin)
    rows = _draw_rows(oracle, spaces, QUERIES.check_rows if method.top is None else QUERIES.top_rows, rng)
    rule = Baseline(start.level, np.full(len(start.level), start.tol), np.zeros(len(start.level)), 1.0)
    if rows is not None:
        claims = (*claims, _active_set_claim(rows.second, rule, spaces))
    errors = np.full((len(spaces.weights), oracle.dim + 1), facets.misfit)
    return LayerFinding(layer_from_spaces(spaces, method.activation), claims, errors), rows


def calibrate(oracle: Oracle, rng: Generator) -> SilentPoint:
    """The most frequent answer among some draws, a point that gives it, and whether the same question has the same answer."""
    mean, spread = _input_mean_and_spread(oracle)
    still = oracle.ask(np.repeat(mean[None], QUERIES.calibration_draws, axis=0))
    noise = still.std(axis=0)
    scale = float(np.abs(still).max(initial=0.0)) + 1.0
    if (noise > QUERIES.noise * scale).any():
        return SilentPoint(mean, still.mean(axis=0), 0.0, noise, spread)
    around = rng.standard_normal((QUERIES.calibration_draws, oracle.dim))
    ball = oracle.ask(mean + QUERIES.ball_radius * spread * around / np.sqrt(oracle.dim))
    moved = np.abs(ball - still[0]).max()
    if moved > QUERIES.noise * scale:
        raise AssumptionViolated(
            f"Near the centre of the inputs the output moves by {moved:.2g}.",
            "There all units should be inactive, and the output constant.",
            "Check the activation: step and ReLU units are zero below their thresholds. For smooth units give their activation.",
            moved=float(moved))
    tol = max(10.0 * float(moved), LAST_BITS * float(np.abs(still).max()))
    drawn = oracle.ask(_draws(oracle, rng))
    silent = float(np.mean((np.abs(drawn - still[0]) <= tol).all(axis=1)))
    if silent < QUERIES.min_silent_share:
        raise AssumptionViolated(
            f"The output at the centre of the inputs is that of {silent:.0%} of {QUERIES.calibration_draws} draws.",
            "All units should be inactive there and in most draws.",
            "Use RandomStart for units that are often active.", share=silent)
    return SilentPoint(mean, still[0], tol, np.zeros(len(noise)), spread)


def _query_box(oracle: Oracle) -> QueryBox | None:
    return None if oracle.box is None else QueryBox(oracle.box.low, oracle.box.high)


def _law_of(oracle: Oracle) -> Gaussian:
    return oracle.law if isinstance(oracle.law, Gaussian) else Gaussian(0.0, 1.0)


def _input_mean_and_spread(oracle: Oracle) -> tuple[Array, Array]:
    """Mean and spread of the inputs, (dim,) each; those of the uniform law in a box."""
    if oracle.box is not None:
        return (oracle.box.low + oracle.box.high) / 2.0, (oracle.box.high - oracle.box.low) / np.sqrt(12.0)
    law = _law_of(oracle)
    cov = np.asarray(1.0 if law.cov is None else law.cov)
    spread = np.sqrt(np.diag(cov)) if cov.ndim == 2 else np.full(oracle.dim, float(np.sqrt(cov)))
    return np.broadcast_to(np.asarray(0.0 if law.mean is None else law.mean), (oracle.dim,)).astype(float), spread


def _draws(oracle: Oracle, rng: Generator) -> Array:
    if oracle.box is not None:
        return np.asarray(rng.uniform(oracle.box.low, oracle.box.high, (QUERIES.calibration_draws, oracle.dim)))
    return _law_of(oracle).complete().draw(QUERIES.calibration_draws, oracle.dim, rng)


def _draw_rows(oracle: Oracle, spaces: HalfSpaces, most: int, rng: Generator) -> SplitSources | None:
    """Rows within the rest of the budget, for the top and the active set; around the facets if the law hardly reaches them."""
    left = min(most, oracle.size)
    if left < QUERIES.min_rows:
        return None
    if oracle.box is not None:
        return oracle.take(left).split(0.8, rng=rng)
    transform = oracle.law.whitening(oracle)
    normals = spaces.weights @ np.linalg.inv(transform.matrix).T
    reach = (spaces.thresholds - spaces.weights @ transform.mean) / np.linalg.norm(normals, axis=1)
    if 0.5 * erfc(reach / np.sqrt(2.0)).sum() > QUERIES.min_active_share:
        return oracle.take(left).split(0.8, rng=rng)
    centres = normals / np.linalg.norm(normals, axis=1, keepdims=True) * reach[:, None]
    x = transform.inverse().apply(draw_proposal(centres, left, oracle.dim, rng))
    return Samples(x, oracle.ask(x, purpose="top"), law=oracle.law).split(0.8, rng=rng)


def _planarity_claim(facets: Facets) -> Claim:
    return Claim(
        LayerClaimName.FACET_MISFIT, facets.misfit, RAYS.flat, facets.misfit < RAYS.flat, "proved",
        f"largest |w·p/t - 1| over the points of the boundary from which {len(facets.spaces.weights)} facets were computed, with "
        f"{facets.queries:,} queries.", decisive=True)


def _check_fresh_rays(
    oracle: Oracle, start: SilentPoint, spaces: HalfSpaces, degree: float | None, rng: Generator
) -> tuple[Claim, Claim]:
    """Silence just before the predicted boundary, a change just after it, and how it grows with the distance."""
    step = QUERIES.check_step
    count = min(QUERIES.check_rays, max(0, (oracle.budget - oracle.spent) // 3))
    rays = rng.standard_normal((count, oracle.dim))
    rays *= start.spread / np.linalg.norm(rays, axis=1, keepdims=True)
    reach = (rays @ (spaces.weights / spaces.thresholds[:, None]).T).max(axis=1, initial=0.0)
    farthest = np.full(count, RADII[-1])
    if oracle.box is not None:
        ends = np.array([oracle.box.span(start.origin, ray)[1] for ray in rays])
        farthest = np.minimum(farthest, ends / (1 + 3 * step))
    met = reach * farthest > 1.0
    distance = np.where(met, 1.0 / np.where(met, reach, 1.0), farthest)
    points = np.concatenate([rays * (distance * f)[:, None] for f in (1 - step, 1 + step, 1 + 2 * step)])
    change = np.abs(oracle.ask(start.origin + points) - start.level)
    before, after, twice = (change > start.tol).any(axis=1).reshape(3, count)
    wrong = int(np.sum(before | (met & ~after)))
    seen = met & after & twice
    sizes = change.max(axis=1).reshape(3, count)[:, seen]
    return _ray_claim(wrong, count), _power_claim(np.log2(sizes[2] / sizes[1]), degree)


def _ray_claim(wrong: int, count: int) -> Claim:
    return Claim(
        LayerClaimName.FRESH_RAYS, wrong / max(count, 1), 0.0, wrong == 0 and count > 0, "tested",
        f"{wrong} of {count} rays change before the predicted boundary or not right after it; a facet that was missed would show "
        "here unless its solid angle is tiny.", decisive=True)


def _power_claim(powers: Array, degree: float | None) -> Claim:
    """Twice as far beyond the boundary a unit of degree p has risen 2^p times as far; a step has jumped."""
    wanted = float("nan") if degree is None else float(degree)
    power = float(np.median(powers)) if len(powers) else float("nan")
    return Claim(
        LayerClaimName.BOUNDARY_POWER, power, wanted, abs(power - wanted) <= QUERIES.power_tol, "tested",
        f"median over {len(powers)} fresh rays, {QUERIES.check_step:g} and {2 * QUERIES.check_step:g} beyond the boundary: 0 for "
        "step units, 1 for relu, p for power_relu(p), whatever smooth function lies above them.", decisive=True)


def _active_set_claim(fresh: Source, rule: Baseline, spaces: HalfSpaces) -> Claim:
    found = count_mismatch(label_active_rows(fresh, rule), spaces)
    return Claim(
        LayerClaimName.DRAWN_MISMATCH, found.share, 0.0, found.share <= 0.0, "tested",
        f"{found.uncovered + found.intruding} of {found.rows:,} rows that were drawn at random.", decisive=True)


class Draws(NamedTuple):
    """Rows z on white inputs with their answers, φ/q of each, and the baseline as the rows from the law show it."""

    z: Array
    y: Array
    weight: Array
    rule: Baseline


@dataclass(frozen=True, eq=False)
class GivenDirections:
    """A start at known directions."""

    directions: Directions

    def __call__(self, source: Source, width: int, *, rng: Generator) -> Directions:
        """The known directions."""
        return self.directions


def find_noisy_layer(
    oracle: Oracle, choices: SilentChoices, width: int | None, level: Array, noise: Array, *, rng: Generator
) -> tuple[LayerFinding, SplitSources]:
    """The layer, and the rows to fit a top to and to check it on."""
    transform = oracle.law.whitening(oracle)
    first_rule = Baseline(level, ACTIVITY.silent_sds * noise, noise, 1.0)
    drawn = draw_active_rows(oracle, first_rule, transform.inverse(), width or oracle.dim, rng)
    rule = drawn.rule
    weighted = Samples(drawn.z, rule.active(drawn.y) * drawn.weight, law=Gaussian(0, 1))
    count = count_visible_units(weighted) if width is None else width
    given = GivenDirections(choices.start(weighted, count, rng=rng))
    used, fresh = Samples(drawn.z, drawn.y, law=Gaussian(0, 1)).split(0.8, rng=rng)
    found = find_silent_units(used, fresh, count, choices._replace(start=given, rule=rule), rng=rng)
    raw = Samples(transform.inverse().apply(drawn.z), drawn.y, law=oracle.law)
    return found.pull_back(transform), raw.split(0.8, rng=rng)


def draw_active_rows(oracle: Oracle, rule: Baseline, back: Affine, width: int, rng: Generator) -> Draws:
    """All that is left of the budget: a quarter from the law, the rest around what was active there."""
    total = oracle.budget - oracle.spent
    first = rng.standard_normal((max(1, int(QUERIES.first_share * total)), oracle.dim))
    answers = oracle.ask(back.apply(first))
    active = rule.active(answers)
    silent = float(np.clip(1.0 - active.mean(), 1e-6, 1.0 - 1e-6))
    quiet = answers[~active]
    rule = Baseline(quiet.mean(axis=0), ACTIVITY.silent_sds * quiet.std(axis=0), quiet.std(axis=0), silent)
    if active.sum() < QUERIES.min_active:
        raise TooFewSamples(
            f"{int(active.sum())} of {len(first):,} queries found a unit active.",
            "Noisy answers have to be drawn where units are active, and nothing tells where that is.",
            f"Grant about {int(4 * 50 * total / max(int(active.sum()), 1)):,} queries.", active=int(active.sum()))
    reach = float(ndtri(silent ** (1.0 / width)))
    points = first[active][:QUERIES.max_centres]
    centres = reach * points / np.linalg.norm(points, axis=1, keepdims=True)
    second = draw_proposal(centres, total - len(first), oracle.dim, rng)
    z, y = np.vstack([first, second]), np.vstack([answers, oracle.ask(back.apply(second))])
    share = len(second) / total
    return Draws(z, y, 1.0 / (1.0 - share + share * density_ratio(z, centres)), rule)


def density_ratio(z: Array, centres: Array) -> Array:
    """q/φ of the proposal: 0.1 + 0.9 mean_j exp(C_j·z - |C_j|²/2), a few thousand rows at a time."""
    shift = np.square(centres).sum(axis=1) / 2
    parts = [np.exp(z[at : at + 4096] @ centres.T - shift).mean(axis=1) for at in range(0, len(z), 4096)]
    return QUERIES.law_share + (1.0 - QUERIES.law_share) * np.concatenate(parts)


def draw_proposal(centres: Array, count: int, dim: int, rng: Generator) -> Array:
    """Draws from the mixture of N(0, I) and N(C_j, I), (count, dim)."""
    chosen = centres[rng.integers(len(centres), size=count)]
    z: Array = rng.standard_normal((count, dim)) + np.where(rng.random(count) < QUERIES.law_share, 0.0, 1.0)[:, None] * chosen
    return z
