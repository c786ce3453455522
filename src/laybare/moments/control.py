"""Control variates: subtract what is known in closed form, take moments of the rest, add the closed form back.

If g has known moments, E[y h_α] = E[(y - g) h_α] + E[g h_α], and the noise of the estimate is that of y - g alone. A
least-squares constant + linear + quadratic g cuts the error of orders 3 and more by 3 to 25 (their variance by 8 to 700), because
those degrees carry nearly all of E y²: for ReLU without bias 0.5, of which 0.0908 is left after degree 1 and 0.0113 after
degree 2. A fitted network takes most of the rest; it should have been fitted on other samples, or the error is understated.

Residuals of p fitted coefficients are shrunk: their moments are multiplied by n/(n-p).
Higher degrees than 2 help little in many dimensions and hurt in few (degree 3 at d = 4: twice the error of order 6).
"""

from __future__ import annotations

from laybare.moments.fit import HermiteFit, affordable_degree, fit_hermite
from laybare.moments.hermite import HermiteMoments, check_packed
from laybare.moments.measure import Measured, measure_with_noise
from laybare.moments.memory import MEMORY_LIMIT
from laybare.moments.packed import PackedMoments
from laybare.moments.population import population_moments
from laybare.moments.residual import Residual
from laybare.network import Network
from laybare.source.protocol import Source


def controlled_moments(
    source: Source, order: int, *, degree: int = 2, network: Network | None = None, memory: int = MEMORY_LIMIT
) -> Measured[PackedMoments]:
    """Hermite moments of orders 0, …, `order` with their split-half noise, for inputs that are N(0, I).

    Subtracted first: `network` if given, then the least-squares polynomial of the highest degree up to `degree` that has two
    samples a coefficient. Orders up to that degree are the least-squares coefficients. Two passes (more for d > 43).
    """
    check_packed(source.dim, order, source.outputs, memory)
    rest = source if network is None else Residual(source, network)
    fit = fit_control(rest, min(degree, order), memory=memory)
    measured = measure_with_noise(Residual(rest, fit), HermiteMoments(order), stage=f"moments of order {order}")
    added = fit.moments.up_to(order)
    if network is not None:
        added = added + population_moments(network, order, memory=memory)
    return Measured(measured.value * fit.inflation + added, measured.noise * fit.inflation)


def fit_control(source: Source, degree: int = 2, *, memory: int = MEMORY_LIMIT) -> HermiteFit:
    """The least-squares polynomial of the highest degree up to `degree` with two samples a coefficient.

    For other moments than packed ones: `Residual(source, fit)` is a source of what it leaves, `fit.moments` what to add back.
    """
    return fit_hermite(source, affordable_degree(source.size, source.dim, degree), memory=memory)
