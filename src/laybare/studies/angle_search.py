"""RefineEstimate in 5, 20 and 50 dimensions: how often a perturbation helps, and where the search ends.

Lemma 7 perturbs by α/d in every direction normal to z. Geometry alone tells the share of perturbations that reduce the angle by
0.1 α/d, for that stride and for α/√d. Then five step units (t = 2, 40,000 samples): the search from 0.2 rad, by the printed slabs
and by the probit with a floor, with O(d log 1/ε) trials for ε = 0.05.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.activations import step
from laybare.errors import LaybareError
from laybare.lowest_layer.activity import activity_of, baseline
from laybare.lowest_layer.printed.random_search import Estimate, refine_estimate
from laybare.lowest_layer.profile import probit_edge, slab_edge
from laybare.networks import max_angle
from laybare.planted.high_thresholds import Target, polynomial_top, threshold_layer
from laybare.shapes import Event
from laybare.source import Gaussian, Samples
from laybare.studies.study import Cell, Outcome, Settings, Study

DIMS, UNITS, THRESHOLD, ROWS = (5, 20, 50), 5, 2.0, 40_000
ANGLE, ACCURACY, DECREASE, PERTURBATIONS = 0.2, 0.05, 0.1, 20_000
ESTIMATES: dict[str, Estimate] = {"slabs, as printed": slab_edge, "probit": probit_edge}


def helpful(dim: int, stride: float, seed: int) -> float:
    """Share of perturbations N(0, (stride α)²) normal to z, at the angle α to w, after which it is at most (1 - 0.1/d) α."""
    rng = np.random.default_rng([seed, dim, round(1000 * stride)])
    aside = stride * ANGLE * rng.standard_normal((PERTURBATIONS, dim - 1))  # the first component points along the circle to w
    cosine = (np.cos(ANGLE) + aside[:, 0] * np.sin(ANGLE)) / np.sqrt(1.0 + np.sum(aside**2, axis=1))
    return float(np.mean(np.arccos(np.minimum(cosine, 1.0)) <= (1.0 - DECREASE / dim) * ANGLE))


class End(NamedTuple):
    """The true angle at the end of a search, its trials, and the share of them that was accepted."""

    angle: float
    trials: int
    accepted: float


def search_once(name: str, dim: int, seed: int) -> End:
    """From ANGLE beside the first of five step units."""
    rng = np.random.default_rng([seed, dim, 77])
    target = Target(threshold_layer(dim, UNITS, step, THRESHOLD, rng=rng), polynomial_top(UNITS, rng=rng))
    x = rng.standard_normal((ROWS, dim))
    source = Samples(x, target(x), law=Gaussian(0, 1))
    w, aside = target.layer.weights[0], rng.standard_normal(dim)
    aside -= (aside @ w) * w
    start = np.cos(ANGLE) * w + np.sin(ANGLE) * aside / np.linalg.norm(aside)
    activity = activity_of(source, baseline(source))
    try:
        found = refine_estimate(activity, start, estimate=ESTIMATES[name], decrease=DECREASE, accuracy=ACCURACY, rng=rng)
    except LaybareError:
        return End(np.nan, 0, np.nan)
    return End(max_angle(found.direction[None], w[None]), found.trials, (len(found.tangents) - 1) / max(found.trials, 1))


def _study(settings: Settings) -> Outcome:
    rows: list[tuple[Cell, ...]] = []
    total = len(DIMS) * (2 + len(ESTIMATES))
    for dim in DIMS:
        for stride, size in (("α/d", 1.0 / dim), ("α/√d", dim**-0.5)):
            helped = [helpful(dim, size, seed) for seed in settings.seeds]
            rows.append((dim, f"perturbations by {stride}", float(np.median(helped)), "", "", len(helped)))
        for name in ESTIMATES:
            runs = [search_once(name, dim, seed) for seed in settings.seeds]
            angle, trials, accepted = np.nanmedian(np.array(runs), axis=0).tolist()
            rows.append((dim, f"search by {name}", accepted, angle, round(trials), len(runs)))
            if settings.progress is not None:
                settings.progress(Event("searches", len(rows), total, f"d={dim}, {name}"))
    ends = "; ".join(f"d = {row[0]}, {row[1]}: {float(row[3]):.2g} rad after {row[4]} trials" for row in rows if row[3] != "")
    shares = "; ".join(f"d = {row[0]}, {row[1]}: {float(row[2]):.2g}" for row in rows if row[3] == "")
    sentence = f"Share of perturbations that help: {shares}. Searches from {ANGLE:g} rad (medians): {ends}."
    return Outcome(("dim", "what", "share that helps", "last angle", "trials", "runs"), rows, sentence)


ALGORITHM_1 = Study(
    "gp19-algorithm1", "RefineEstimate (Algorithms 1 and 2, Lemma 7) in 5, 20 and 50 dimensions",
    "With the stride of Lemma 7 a constant share of trials helps in every dimension; with α/√d hardly any at d = 50.", _study)
