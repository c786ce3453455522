"""A width that was not told: units that the data do not support are taken out before the signs are settled.

Pruning inside of the search trusts noise to be the same everywhere, and knows nothing of how labels were rounded: units follow
noise that is larger in some places, and the last digits of float32. The certificate knows both, and would only say that the width
is not supported; so its own measure of the least needed unit decides here as well.
"""

from __future__ import annotations

from laybare.certificate.fitted import state_of
from laybare.certificate.width import least_needed
from laybare.certificate.worth import price_of_a_unit
from laybare.refinement.levenberg import Refined
from laybare.refinement.minimise import minimise
from laybare.refinement.normal import network_of
from laybare.refinement.problem import Problem
from laybare.shapes import Progress, tell

WIDEST, MOST = 32, 16
"""Units of a network that is narrowed, and how many it may lose: wider ones are most often no network of one hidden layer at all,
and a refit for each of their units would take minutes."""


def supported(problem: Problem, found: Refined, *, progress: Progress | None = None) -> Refined:
    """The fit without units that the samples do not miss: their loss is below Schwarz's price of their numbers.

    Two refits for every unit that is looked at, and one for every unit that goes; the last unit stays.
    """
    least = max(1, found.point.width - MOST) if found.point.width <= WIDEST else found.point.width
    while found.point.width > least and found.trace.reason != "interrupted":
        state = state_of(problem.given(network_of(found.point, vector=problem.used.outputs == 1)), problem, progress)
        try:
            fewer = least_needed(state)
        except KeyboardInterrupt:
            return found._replace(trace=found.trace._replace(reason="interrupted"))
        if fewer.worth >= price_of_a_unit(state):
            break
        tell(progress, "narrowing", detail=f"{fewer.point.width} units")
        refit = minimise(problem.used, fewer.point, problem.variation, progress=progress)
        found = refit._replace(trace=found.trace.then(refit.trace), runs=found.runs)
    return found
