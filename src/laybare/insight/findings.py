"""What the first look at a black box found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from laybare.source import Rounding


class Finding(NamedTuple):
    """One thing that was looked at: its name, what was found, and a sentence about it."""

    name: str
    value: Any
    sentence: str


@dataclass(frozen=True)
class Insight:
    """What a black box is, from its first answers.

    Attributes
    ----------
    kind : "piecewise linear", "smooth", "steps", "tree", "linear", "constant", "noisy" or "unclear"
    activations : names of the activations it may have, the likeliest first; empty if none fits or none can be told
    layers : hidden layers: 1, 2 (meaning two or more), or None if that was not seen
    outputs : number of outputs, after the link
    link : what the answers are: "identity", "logit" or "softmax"; say link= if the oracle takes them for something else
    bounded : whether the answers stay within bounds far out; None if that could not be seen
    scale : distance from the middle of the inputs at which the function first bends, in inputs of size one; None if not seen
    rounding : how finely the answers are resolved
    queries : what it cost
    findings : all of it, a sentence each
    """

    kind: str
    activations: tuple[str, ...]
    layers: int | None
    outputs: int
    link: str
    bounded: bool | None
    scale: float | None
    rounding: Rounding
    queries: int
    findings: tuple[Finding, ...]

    def explain(self) -> str:
        """All sentences."""
        return " ".join(finding.sentence for finding in self.findings)


SENTENCES = {
    "piecewise linear": "It is straight between kinks: units such as ReLU, leaky ReLU or the absolute value.",
    "smooth": "It is curved and has no kinks: smooth units.",
    "steps": "It is constant on pieces whose borders cut across several inputs: step units, or hard labels of a classifier "
             "(for those ask for probabilities); use HighThreshold(activation=step).",
    "tree": "It is constant on pieces, and every border that was looked at belongs to one input: a decision tree or a sum of "
            "such. That is no network, and no weights can be read.",
    "linear": "It is a linear function wherever it was looked at: no hidden unit bends there. Use larger inputs or a larger box.",
    "constant": "All answers are the same: nothing depends on the inputs where it was looked at. Use larger inputs.",
    "noisy": "The same question has different answers: noise. Use a method for samples, such as RandomStart().",
    "unclear": "It is neither straight, nor curved, nor constant on pieces at any scale that was looked at.",
}
"""A sentence for every kind."""

ODDS = "Answers are probabilities of one class: their log-odds are straight where they are curved. Say link='logit'."
