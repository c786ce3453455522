"""What a certificate says beside the fit of TensorInit: the signs of the readouts as the second moment shows them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laybare.assembly.counting import Inertia, inertia
from laybare.assembly.magnitudes import VANISHING
from laybare.certificate import Claim
from laybare.methods.start import Outcome
from laybare.networks import Network
from laybare.source import Source


@dataclass(frozen=True, eq=False)
class SignsOfReadouts:
    """That no more readouts of a sign show in the second moment than the network has; nothing where it does not show them.

    The rows of `start` span the moment's subspace. A network that fits exactly needs no such check, and inputs that are not quite
    Gaussian would only confuse it.
    """

    start: Network

    def __call__(self, source: Source, outcome: Outcome) -> tuple[Claim, ...]:
        network, activation = outcome.network, outcome.network.activation
        silent = network.outputs > 1 or abs(float(activation.hermite(2))) < VANISHING
        if silent or outcome.exact:
            return ()
        seen = inertia(source, activation, np.linalg.qr(self.start.layer.weights.T)[0])
        has = Inertia(int(np.sum(network.readout > 0)), int(np.sum(network.readout < 0)))
        excess = max(seen.positive - has.positive, seen.negative - has.negative, 0)
        return (Claim(
            "readouts of a sign that are missing", float(excess), 0.0, excess == 0, "tested",
            f"the inertia of the second moment shows at least {seen.positive} positive and {seen.negative} negative readouts "
            f"beyond noise; the network has {has.positive} and {has.negative}."),)
