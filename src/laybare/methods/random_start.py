"""RandomStart: random directions, spare units, the sign-free model, pruning. The control for every other method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, absolute, relu
from laybare.assembly.signs import Signs
from laybare.assembly.unfold import folding, unfold
from laybare.certificate import Claim
from laybare.methods.start import Start
from laybare.refinement.normal import Model, network_of
from laybare.refinement.overwide import Search, over_wide, total_variation
from laybare.shapes import Progress
from laybare.source import Source


@dataclass(frozen=True, kw_only=True)
class RandomStart:
    """Hidden layer by over-wide Gauss-Newton from random directions; no assumption on the inputs beyond whitening.

    ReLU and leaky ReLU are fitted in the sign-free form Σ αᵢ|wᵢ·x + bᵢ| + v·x + c, which has no wrong signs to get stuck in; the signs
    are decoded at the end. Nothing is proved about it; it is what every provable method has to be compared with, and the
    strongest known method per sample on noiseless data.

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

    def find(self, source: Source, width: int | None, *, rng: Generator, progress: Progress | None = None) -> Start:
        """A network close to the one behind the source, or the best local minimum found."""
        fold = folding(self.activation)
        fitted = absolute if fold is not None else self.activation
        model = Model(fitted, biases=self.biases, offset=True, linear=fold is not None)
        refined = over_wide(source, model, width, search=self.search, rng=rng, progress=progress)
        network = network_of(refined.point, vector=source.outputs == 1)
        if fold is None:
            return Start(network, (), refined.trace)
        rms = float(np.sqrt(max(refined.loss, 0.0) / total_variation(source)))
        unfolded = unfold(network, self.activation, tol=max(1e-7, 3.0 * rms))
        return Start(unfolded.network, (signs_claim(unfolded.signs),), refined.trace)


def signs_claim(signs: Signs) -> Claim:
    """How the signs of the units were decided, for the certificate."""
    if not signs.searched:
        text = "too many units for the search of signs: the linear part was kept instead of deciding them."
    elif not signs.alternatives:
        text = f"no signs make the units add up to the linear part of the data (relative residual {signs.residual:.1e}); it was kept."
    elif not signs.unique:
        text = "several sign patterns give the same function: no data can tell which one is behind it."
    else:
        text = f"one pattern fits (relative residual {signs.residual:.1e}, next best {signs.runner_up:.1e})."
    return Claim("sign patterns that fit", float(len(signs.alternatives)), 1.0, signs.unique, "proved", text)
