"""Hinges in one column: laybare beside pwlf and beside statsmodels' least squares on a grid of knots: error, coverage, time.

    python benchmarks/hinge_peers.py [--problems 20] [--first 0]        (needs pip install pwlf statsmodels)

A problem: 400 rows of x uniform in [0, 10], two kinks at least 2 apart and 1.5 from the ends, slopes that change by 1 to 3, noise
of 20 % of the signal. pwlf and the grid are given the number of kinks; laybare finds it. Intervals of 95 %, where there are any.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

import laybare as lb

ROWS, NOISE, LEVEL, KNOTS = 400, 0.2, 1.96, 40


class Answer(NamedTuple):
    """Kinks and their standard errors (NaN: none are given)."""

    kinks: Any
    errors: Any


def draw(seed: int) -> tuple[Any, Any, Any]:
    """Columns, outputs, true kinks."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.0, 10.0, ROWS)
    first = rng.uniform(1.5, 5.0)
    kinks = np.array([first, rng.uniform(first + 2.0, 8.5)])
    changes = rng.uniform(1.0, 3.0, 2) * rng.choice([-1.0, 1.0], 2)
    signal = rng.uniform(-1.0, 1.0) * x + sum(c * np.maximum(x - k, 0.0) for c, k in zip(changes, kinks, strict=True))
    return x, signal + NOISE * signal.std() * rng.standard_normal(ROWS), kinks


def ours(x: Any, y: Any) -> Answer | None:
    """The width is detected; units without a kink among the rows are none."""
    return _kinks(lb.recover(x[:, None], y, activation="relu", rng=0), x)


def verified(x: Any, y: Any) -> Answer | None:
    """The same, as far as the certificate stands by it."""
    found = lb.recover(x[:, None], y, activation="relu", rng=0)
    return _kinks(found, x) if found.certificate.verdict == "verified" else None


def with_trend(x: Any, y: Any) -> Answer | None:
    """The units that were found, refined with a linear part beside them, as the other two have one."""
    found = lb.recover(x[:, None], y, activation="relu", rng=0).network
    start = lb.Network(found.layer, found.readout, found.offset, linear=np.zeros(1))
    return _kinks(lb.refine(lb.Samples(x[:, None], y), start), x)


def _kinks(found: lb.Recovery, x: Any) -> Answer | None:
    """Two kinks among the rows, in their order."""
    places = [unit.location for unit in found.summary().units if x.min() < unit.location.value < x.max()]
    return Answer(*np.array(sorted((place.value, place.se) for place in places)).T) if len(places) == 2 else None


def pwlf_fit(x: Any, y: Any) -> Answer:
    """Three segments are given; standard errors by its own non-linear formula."""
    import pwlf

    model = pwlf.PiecewiseLinFit(x, y, seed=0)
    breaks = model.fit(3)
    errors = model.standard_errors(method="non-linear", step_size=1e-4)
    return Answer(breaks[1:-1], errors[model.beta.size : model.beta.size + 2])


def grid_fit(x: Any, y: Any) -> Answer:
    """statsmodels has no break points: least squares at all pairs of knots on a grid, the best pair taken."""
    from statsmodels.api import OLS

    def fit(pair: tuple[float, float]) -> Any:
        return OLS(y, np.column_stack([np.ones_like(x), x, *(np.maximum(x - knot, 0.0) for knot in pair)])).fit()

    knots = np.quantile(x, np.linspace(0.05, 0.95, KNOTS))
    return Answer(np.array(min(combinations(knots, 2), key=lambda pair: fit(pair).ssr)), np.full(2, np.nan))


def measure(name: str, fit: Callable[[Any, Any], Answer | None], problems: range) -> str:
    """A line of the table."""
    apart, covered, seconds, right = [], [], [], 0
    for seed in problems:
        x, y, kinks = draw(seed)
        begun = time.process_time()
        answer = fit(x, y)
        seconds.append(time.process_time() - begun)
        if answer is None:
            continue
        right += 1
        apart += list(np.abs(answer.kinks - kinks))
        covered += list(np.abs(answer.kinks - kinks) <= LEVEL * answer.errors)
    if not right:
        return f"| {name} | 0 of {len(problems)} | | | {np.median(seconds):.2f} |"
    share = "none" if name.startswith("statsmodels") else f"{np.mean(covered):.0%}"
    return f"| {name} | {right} of {len(problems)} | {np.median(apart):.3f} | {share} | {np.median(seconds):.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--problems", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="seed of the first problem")
    given = parser.parse_args()
    problems = range(given.first, given.first + given.problems)
    print("| | two kinks found | median error of a kink | intervals that cover | processor seconds |\n|---|---|---|---|---|")
    for name, fit in (("laybare", ours), ("laybare, verified", verified), ("laybare, refined with a linear part", with_trend),
                      ("pwlf, number of kinks given", pwlf_fit), ("statsmodels, least squares on a grid of knots", grid_fit)):
        print(measure(name, fit, problems), flush=True)


if __name__ == "__main__":
    main()
