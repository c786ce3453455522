"""Claims with numbers, and the verdict they add up to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from laybare.shapes import Array


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


class StandardErrors(NamedTuple):
    """Asymptotic standard errors shaped as the weights, biases, readout and offset; NaN where they were not computed."""

    weights: Array
    biases: Array
    readout: Array
    offset: Array


@dataclass(frozen=True)
class Certificate:
    """What is known about a recovered network without knowing the truth."""

    claims: tuple[Claim, ...]
    standard_errors: StandardErrors
    noise: float

    @property
    def verdict(self) -> str:
        """ "verified": every claim holds; "refuted": a decisive one failed; "doubtful": another one failed."""
        failed = [claim for claim in self.claims if not claim.passed]
        if not failed:
            return "verified"
        return "refuted" if any(claim.decisive for claim in failed) else "doubtful"

    def explain(self) -> str:
        """The verdict, and the claims with their numbers and what they mean."""
        lines = [f"verdict: {self.verdict}"]
        for claim in self.claims:
            mark = "ok  " if claim.passed else "FAIL"
            lines.append(f"  {mark} {claim.name}: {claim.value:.3g} (threshold {claim.threshold:.3g}, {claim.kind})")
            lines.append(f"       {claim.explanation}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.explain()

    def _repr_html_(self) -> str:
        from laybare.report.notebook import certificate_html

        return certificate_html(self)
