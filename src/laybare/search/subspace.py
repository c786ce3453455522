"""A search in the few directions of the inputs along which the outputs bend, where there are fewer units than inputs.

For white normal inputs the second moment of the residual of a linear fit has the span of the weights (Stein's identity),

    E[(y - c - β·x)(x xᵀ - I)] = Σᵢ aᵢ c₂(bᵢ) wᵢ wᵢᵀ,

and y is a function of x in that span, plus a linear part. A search there has r + 1 parameters per unit instead of d + 1, and a
step costs (r/d)² of one with all inputs. What the estimated span misses is noise to that search: its units are a start for a fit
with all inputs, not an end. Where inputs are not normal the span may be wrong; then the fit is poor, and is not used.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.moments import SecondMoment, measure_with_noise
from laybare.moments.regression import HermiteFit, Residual, fit_hermite
from laybare.numerics.shapes import Array
from laybare.search import settings
from laybare.search.settings import SearchContext, SearchStart
from laybare.search.wide import search_with_spares
from laybare.solver import best_so_far
from laybare.solver.point import FittedPoint
from laybare.source import Source
from laybare.source.derived import ProjectedInputs
from laybare.source.problem import total_variation
from laybare.source.row_ladder import prefix_or_all


class Subspace(NamedTuple):
    """Where outputs bend: an orthonormal basis (dim, r), and the best linear function of all inputs."""

    basis: Array
    linear: HermiteFit


class SubspaceFit(NamedTuple):
    """Units found in the subspace as rows (units, p) on all inputs, the fit there, its loss per row, and whether two runs agreed
    on a fit that leaves little."""

    rows: Array
    fit: FittedPoint
    loss: float
    agreed: bool


def estimate_subspace(source: Source, width: int | None) -> Subspace | None:
    """As many directions as the width, or as stand out from the noise; None where that saves little.

    For white inputs; the moments of several outputs are placed side by side. Two passes, n·d² operations.
    """
    most = settings.SEARCH.subspace_share * source.dim
    if width is not None and width > most:
        return None
    linear = fit_hermite(source, 1)
    moment = measure_with_noise(Residual(source, linear), SecondMoment(), stage="second moment")
    vectors, values, _ = np.linalg.svd(np.hstack(list(moment.value)))
    edge = float(np.linalg.norm(np.hstack(list(moment.noise)), 2))  # a direction of noise too many costs less than one too few
    count = int(np.sum(values > edge)) if width is None else width
    return Subspace(vectors[:, :count], linear) if 0 < count <= most else None


def search_in_subspace(context: SearchContext, width: int | None, subspace: Subspace, rows: int) -> SubspaceFit:
    """A search with spares on this many rows, projected to the subspace, of the residual of the linear function.

    A width that is not given is at least the dimension of the subspace.
    """
    basis, r = subspace.basis, subspace.basis.shape[1]
    low = ProjectedInputs(Residual(prefix_or_all(context.source, rows), subspace.linear), basis).kept()
    inside = context._replace(source=low, scale=total_variation(low))
    known = None if width is not None else inside.draw_units(r)

    def lifted(found: FittedPoint) -> Array:
        return np.hstack([found.point.units[:, :r] @ basis.T, found.point.units[:, r:]])

    def on_all_inputs(found: FittedPoint) -> FittedPoint:
        return found._replace(point=context.start(lifted(found)))

    with best_so_far(view=on_all_inputs):
        found = search_with_spares(inside, width, SearchStart(known, "partial" if known is None else "complete"))
    trusted = found.agreed and found.loss <= settings.SEARCH.subspace_residual * inside.scale
    return SubspaceFit(lifted(found), found, found.loss / low.size, trusted)
