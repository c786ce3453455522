"""laybare: the default, the control, and the papers' own algorithms. The width is told to literal forms only."""

from __future__ import annotations

import numpy as np
from tasks import Array, Given, Outcome, System

import laybare as lb


def sampled(method: lb.Method | None, *, stated: bool = False) -> System:
    """`recover` on the samples."""

    def system(given: Given) -> Outcome:
        found = lb.recover(
            lb.Samples(given.x, given.y), method, given.task.width if stated else None, rng=given.seed)
        return Outcome(found.network, given.task.samples)

    return system


def asked(given: Given) -> Outcome:
    """`recover` on the black box; queries of reading, without those that check the result."""
    box = Box(given.truth)
    found = lb.recover(lb.Oracle(box, given.task.dim), rng=given.seed)
    return Outcome(found.network, box.asked - found.queries.get("assurance", 0))


class Box:
    """Answers, and counts what it was asked."""

    def __init__(self, network: lb.Network) -> None:
        self.network, self.asked = network, 0

    def __call__(self, x: Array) -> Array:
        self.asked += len(x)
        return np.asarray(self.network(x))


def literal() -> dict[str, System]:
    """Papers as printed, for units without biases and one output."""
    return {
        "Zhong et al. 2017, as printed": sampled(lb.TensorInit.literal(partition=False), stated=True),
        "Ge, Lee, Ma 2018, as printed": sampled(lb.LandscapeDesign.literal(), stated=True)}
