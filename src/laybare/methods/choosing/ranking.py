"""The order in which methods are tried, with a sentence for each: what was measured to work, not what has a theorem.

RandomStart with spare units solves most settings and needs the fewest assumptions (it is the control of every study), so it is
always in the order. SymmetricInputs goes before it, which was measured to win for several outputs with few samples; moments come
after it, for bias-free units in 20 dimensions or more: where units have biases they would cost four times what RandomStart does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, gelu, relu, softplus, tanh
from laybare.methods.choosing.evidence import LOOKED_AT, Evidence, gather_evidence
from laybare.methods.choosing.suitability import MOSTLY, Suitability, suitabilities
from laybare.methods.general_relu import GeneralReLU
from laybare.methods.random_start import RandomStart
from laybare.methods.start import Method
from laybare.methods.symmetric_inputs import SymmetricInputs
from laybare.methods.tensor_init import TensorInit
from laybare.source import Source

MANY_INPUTS = 20
"""Dimension from which moments beat random directions at the exact width: 8 of 8 against 0 of 8 for square bias-free networks."""

TIES = 0.02
"""Share of equal labels beyond which units are not smooth: those have no level parts."""

SMOOTH = (tanh, softplus, gelu)
"""Tried after ReLU where no activation is told. Sigmoid is tanh, scaled and shifted; erf is hard to tell from it."""

MAKERS: dict[str, Callable[[Activation], Method]] = {
    "SymmetricInputs": lambda unit: SymmetricInputs(activation=unit), "TensorInit": lambda unit: TensorInit(activation=unit),
    "GeneralReLU": lambda unit: GeneralReLU(activation=unit), "RandomStart": lambda unit: RandomStart(activation=unit)}

WHY = {
    "SymmetricInputs": "with several outputs it needs the fewest samples",
    "TensorInit": f"in {MANY_INPUTS} dimensions or more moments find bias-free units that random directions miss",
    "GeneralReLU": "moments may show units that random directions miss",
    "RandomStart": "it assumes nothing about the inputs and solves most settings"}


class Candidate(NamedTuple):
    """A method to try, and why."""

    method: Method
    reason: str


class Choice(NamedTuple):
    """What was seen, what each method would need, and the order to try them in; what to do if all of them are refuted."""

    seen: Evidence
    table: tuple[Suitability, ...]
    candidates: tuple[Candidate, ...]
    otherwise: str

    def explain(self) -> str:
        """A sentence for every method, those that are tried first."""
        tried = [f"{n}. {one.reason}" for n, one in enumerate(self.candidates, 1)]
        others = {type(one.method).__name__ for one in self.candidates}
        return "\n".join([*tried, *(row.sentence for row in self.table if row.method not in others), self.otherwise])


def choose(
    source: Source, width: int | None = None, activation: Activation | None = None, *, rng: Generator | int = 0
) -> Choice:
    """Which methods to try on samples, in which order, and why; a look at up to 20,000 rows."""
    rng = np.random.default_rng(rng)
    some = source if source.size <= LOOKED_AT else source.split(LOOKED_AT / source.size, rng=rng).first
    return choose_after(gather_evidence(some.whitened().kept(), some, rng=rng), width, activation)


def choose_after(seen: Evidence, width: int | None, activation: Activation | None) -> Choice:
    """The same for evidence that was gathered already."""
    table = suitabilities(seen, width, activation)
    fitting = {row.method for row in table if row.fits} | {"RandomStart"}
    names = [name for name in _order(seen, activation) if name in fitting]
    unit = activation or relu
    candidates = [Candidate(MAKERS[name](unit), f"{_named(name, unit)}: {WHY[name]}.") for name in names]
    if activation is None and seen.constant <= TIES:
        candidates += [
            Candidate(RandomStart(activation=other), f"RandomStart of {other.name} units: no activation was told, and it may be "
                      "another than ReLU.") for other in SMOOTH]
    return Choice(seen, table, tuple(candidates), _otherwise(seen))


def _named(name: str, unit: Activation) -> str:
    return f"{name} of {unit.name} units"


def _order(seen: Evidence, activation: Activation | None) -> list[str]:
    """Before RandomStart what was measured to win there, after it what may find other minima."""
    moments = seen.dim >= MANY_INPUTS and (activation is None or activation.degree is not None or activation.centre is not None)
    after = [*(["TensorInit"] if moments else []), *([] if seen.constant > MOSTLY else ["GeneralReLU"])]
    return ["SymmetricInputs", "RandomStart", *after]


def _otherwise(seen: Evidence) -> str:
    if seen.constant > MOSTLY:
        return (
            f"If all are refuted: {seen.constant:.0%} of the labels are equal, so that the lowest layer may be rarely active "
            "under further layers; recover_layer(source, HighThreshold(activation=...)) finds it alone.")
    return "If all are refuted, the function is most likely no network of one hidden layer, or of other units."
