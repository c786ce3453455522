"""A fitted network and the sums that every check starts from."""

from __future__ import annotations

from dataclasses import dataclass

from laybare.networks import Network
from laybare.refinement.normal import Fit, FitStatistic, Point, point_of
from laybare.refinement.overwide import total_variation
from laybare.refinement.pruning import parameter_count
from laybare.source import Source
from laybare.source.views import View
from laybare.source.white import white_view

EXACT = 1e-18
"""Relative mean square below which data count as noiseless and fitted: solved fits end below 1e-28, stuck ones above 1e-6."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A network on white inputs (`point`), the samples it was fitted to (`view`), the sums there, the variation of y."""

    point: Point
    view: View
    fit: Fit
    variation: float

    @property
    def equations(self) -> int:
        return self.view.size * self.view.outputs

    @property
    def unknowns(self) -> int:
        return parameter_count(self.point)

    @property
    def spare(self) -> int:
        """Equations beyond the unknowns, at least one."""
        return max(1, self.equations - self.unknowns)

    @property
    def variance(self) -> float:
        """Of y, about its mean."""
        return self.variation / self.equations

    @property
    def noise(self) -> float:
        """Estimated variance of the noise in each output."""
        return float(self.fit.loss) / self.spare

    @property
    def exact(self) -> bool:
        """Whether nothing but rounding is left."""
        return self.noise <= EXACT * self.variance


def fitted(network: Network, used: Source, *, biases: bool, offset: bool) -> Fitted:
    """The state of a fit; passes for whitening, for the variation of y, for the loss."""
    view = white_view(used, centred=biases)
    white = view.transform.inverse().pull_back(network)
    point = point_of(white, biases=biases, offset=offset, linear=network.linear is not None)
    return Fitted(point, view, Fit(*view.sum(FitStatistic(point), stage="certificate")), total_variation(used))
