"""RandomStart: random directions, spare units, the sign-free model, pruning. The control for every other method."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.random import Generator

from laybare.activations import Activation, relu
from laybare.methods.start import Start
from laybare.refinement.hunt import Search
from laybare.shapes import Progress
from laybare.source import Source


@dataclass(frozen=True, kw_only=True)
class RandomStart:
    """Hidden layer by over-wide Gauss-Newton from random directions; no assumption on the inputs beyond whitening.

    ReLU and leaky ReLU are fitted in the sign-free form Σ αᵢ|wᵢ·x + bᵢ| + v·x + c, which has no wrong signs to get stuck in,
    softplus and GELU with a free linear part to the same end; the signs are decoded afterwards. Nothing is proved about it; it
    is what every provable method has to be compared with, and the strongest known method per sample on noiseless data.

    Parameters
    ----------
    activation : Activation
    biases : bool
        Whether the hidden units have biases.
    search : Search
        Spare units, repairs and the effort of each run.
    """

    activation: Activation = relu
    biases: bool = True
    search: Search = Search()

    def start(self, source: Source, width: int | None, *, rng: Generator, progress: Progress | None = None) -> Start:
        """Nowhere in particular: the search draws its units at random."""
        return Start()
