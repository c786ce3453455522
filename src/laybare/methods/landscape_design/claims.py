"""What a certificate says beside the fit of LandscapeDesign: the minimum it began from, signs of readouts, tails of inputs."""

from __future__ import annotations

import numpy as np

from laybare.certificate import Claim
from laybare.landscape import Minimum
from laybare.methods.landscape_design.even_moments import EvenMoments
from laybare.methods.start import Outcome
from laybare.shapes import Array, Sums
from laybare.source import Source

TAILS = 5.0
"""Standard errors that the kurtosis of Gaussian inputs keeps within."""


def stationary(minimum: Minimum | None) -> tuple[Claim, ...]:
    """Second-order certificate of the start."""
    if minimum is None:
        return ()
    order = minimum.order
    share = order.smallest / max(abs(order.largest), 1e-300)
    return (Claim(
        "curvature of the designed objective at the start", share, 0.0, not order.curved_down, "tested",
        f"smallest Hessian eigenvalue {order.smallest:.2e} of at most {order.largest:.2e}, gradient {order.gradient_norm:.1e}, "
        f"after {minimum.escapes} escapes from saddles; negative means that the descent did not end in a minimum."),)


def positive_readouts(seen: EvenMoments) -> Claim:
    """Whether all readouts are positive, as far as the second moment tells."""
    smallest, edge = float(seen.spectrum.min()), seen.edge
    return Claim(
        "smallest eigenvalue of the second moment over its noise", smallest / max(edge, 1e-300), -1.0, True, "tested",
        f"{smallest:.3g} with noise {edge:.3g}: clearly negative eigenvalues would mean negative readouts, and are refused.")


def gaussian_tails(source: Source, outcome: Outcome) -> tuple[Claim, ...]:
    """Excess kurtosis of the inputs: the moments are those of the network only if the inputs are Gaussian."""
    (fourth, second) = (total / source.size for total in source.sum(_powers, stage="kurtosis"))
    value = float(np.mean(fourth / second**2)) - 3.0
    limit = TAILS * float(np.sqrt(24.0 / (source.size * source.dim)))
    text = "moments of orders 2 and 4 are those of the network only for Gaussian inputs"
    return (Claim(
        "excess kurtosis of the inputs", value, limit, outcome.exact or abs(value) <= limit, "tested",
        f"{text}; the data were fitted exactly, so that it does not matter here." if outcome.exact else f"{text}."),)


def _powers(x: Array, y: Array) -> Sums:
    squares = x * x
    return (squares * squares).sum(axis=0), squares.sum(axis=0)
