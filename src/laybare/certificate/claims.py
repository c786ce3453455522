"""Claims with numbers, and the verdict they add up to."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import NamedTuple

import numpy as np

from laybare.networks import Network
from laybare.shapes import Array

NOTHING = 1e-12
"""Share of the variance of y that counts as rounding in words."""


@dataclass(frozen=True)
class Claim:
    """One thing that was checked: `passed` tells whether `value` is on the right side of `threshold`.

    `kind`: "proved" (follows from the numbers alone), "tested" (a statistical test could have failed), "assumed" (on trust).
    A `decisive` claim that fails refutes the network; any other failure makes it doubtful.
    """

    name: str
    value: float
    threshold: float
    passed: bool
    kind: str
    explanation: str
    decisive: bool = False

    @property
    def direction(self) -> str:
        """Which side of the threshold is right: "at most" or "at least"; nothing if the value is no number.

        What is yes or no has the value 1 or 0 and the threshold 1, which is a least value.
        """
        if self.value != self.value:
            return ""
        if self.passed and self.value == self.threshold == 1.0:
            return "at least"
        return "at most" if (self.value <= self.threshold) == self.passed else "at least"


class StandardErrors(NamedTuple):
    """Asymptotic standard errors shaped as the weights, biases, readout and offset; NaN where they were not computed."""

    weights: Array
    biases: Array
    readout: Array
    offset: Array


@dataclass(frozen=True)
class Certificate:
    """What is known about a recovered network without knowing the truth.

    `noise` is the standard deviation of the residual, `explained` the share of the variance of y that the network explains,
    `visible` the smallest unit that would have been seen: the standard deviation of what it adds, relative to that of y.
    `held_out` is the mean square of the residual on rows that nothing had seen, relative to the variance of y, `held_out_error`
    its standard error. They are NaN where nothing of the kind was measured (a single layer under an unknown top). `reason` says
    why a network was refuted, most likely.
    """

    claims: tuple[Claim, ...]
    standard_errors: StandardErrors
    noise: float
    explained: float = nan
    visible: float = nan
    held_out: float = nan
    held_out_error: float = nan
    reason: str = ""

    @property
    def verdict(self) -> str:
        """ "verified": every claim holds; "refuted": a decisive one failed; "doubtful": another one failed."""
        failed = [claim for claim in self.claims if not claim.passed]
        if not failed:
            return "verified"
        return "refuted" if any(claim.decisive for claim in failed) else "doubtful"

    @property
    def meaning(self) -> str:
        """What the verdict says and what it does not, in one or two sentences; empty where the network is not whole."""
        if self.explained != self.explained:
            return ""
        rest = 1.0 - self.explained
        left = "Nothing but rounding is left." if rest < NOTHING else (
            f"Noise or structure that no such unit explains makes up {rest:.2g} of the variance of y.")
        why = f" Most likely {self.reason}" if self.reason else ""
        if self.verdict == "refuted":
            return f"These are not the weights behind the data: see what failed. {left}{why}"
        if self.verdict == "doubtful":
            return f"The network fits, but not everything that would make its weights certain holds: see what failed. {left}{why}"
        return (
            "These are the weights of the best network of this width and activation, within their standard errors, and the data "
            f"support the width. {left} A unit that adds less than {self.visible:.1e} of the spread of y would not have been "
            "seen; nor are activations so alike as tanh and erf, or ReLU and a GELU of long rows, or errors in x, told apart.")

    def explain(self) -> str:
        """The verdict, and the claims with their numbers and what they mean."""
        lines = [f"verdict: {self.verdict}", *([self.meaning] if self.meaning else [])]
        for claim in self.claims:
            mark = "ok  " if claim.passed else "FAIL"
            side = claim.direction or "threshold"
            lines.append(f"  {mark} {claim.name}: {claim.value:.3g} ({side} {claim.threshold:.3g}, {claim.kind})")
            lines.append(f"       {claim.explanation}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.explain()

    def _repr_html_(self) -> str:
        from laybare.report.notebook import certificate_html

        return certificate_html(self)


def unjudged(network: Network, claims: tuple[Claim, ...] = ()) -> Certificate:
    """What is left of a certificate whose tests were interrupted: nothing is known, and it says so."""
    readout, biases = np.asarray(network.readout), np.asarray(network.layer.biases)
    errors = StandardErrors(*(np.full_like(part, nan, dtype=float) for part in (
        np.asarray(network.layer.weights), biases, readout, np.asarray(network.offset))))
    missing = Claim(
        "certificate finished", nan, nan, False, "proved", "The tests were interrupted: nothing speaks for these weights yet.")
    return Certificate((missing, *claims), errors, nan)
