"""Is the model with more parameters better? Twice the log of a likelihood ratio, and what it must exceed.

For N equations with equal normal noise, its variance fitted, the ratio of two fits is that of their squared errors,

    gain = N log((loss without + floor) / (loss with + floor)),

where `floor` is rounding, so that exact fits compare as well: any true unit raises the loss 1e10-fold. A model with q more
parameters is better if the gain exceeds the penalty q log N (Schwarz 1978). Pruning, widths, signs and the certificate ask this.
"""

from __future__ import annotations

import numpy as np

TINY = float(np.finfo(float).tiny)
"""The floor where none is given. Derived: the least number whose logarithm keeps all digits."""


def log_likelihood_gain(equations: float, without: float, loss: float, floor: float = TINY) -> float:
    """Twice the log-likelihood ratio of a fit with squared error `loss` over one with squared error `without`."""
    return equations * float(np.log((max(without, 0.0) + floor) / (max(loss, 0.0) + floor)))


def schwarz_penalty(parameters: float, equations: float) -> float:
    """What so many parameters gain by chance at most."""
    return parameters * float(np.log(equations))
