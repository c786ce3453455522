"""A search in the few directions of the inputs along which the outputs bend, where there are fewer units than inputs.

For white normal inputs the second moment of what a linear function leaves of y has the span of the weights (Stein's identity),

    E[(y - c - β·x)(x xᵀ - I)] = Σᵢ aᵢ c₂(bᵢ) wᵢ wᵢᵀ,

and y is a function of x in that span, plus a linear part. A search there has r + 1 numbers per unit instead of d + 1, and a step
costs (r/d)² of what it costs with all inputs. What the estimated span misses is noise to that search, so that its units are a
start for a fit with all inputs, not an end. Where inputs are not normal the span may be wrong; the fit is poor then, and says so.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.moments import SecondMoment, measure_with_noise
from laybare.moments.fit import HermiteFit, fit_hermite
from laybare.moments.residual import Residual
from laybare.refinement.hunt import Search, random_units
from laybare.refinement.levenberg import Refined
from laybare.refinement.normal import Model
from laybare.refinement.overwide import over_wide
from laybare.refinement.parts import enough_rows
from laybare.refinement.variation import total_variation
from laybare.shapes import Array, Progress
from laybare.source import Source
from laybare.source.projected import Projected

FEW = 0.7
"""Share of the dimension up to which so many directions are worth a search of their own."""

EXPLAINED = 0.2
"""Share of what a linear function leaves of y that the units may leave, for the span to hold what there is."""


class LeadingDirections(NamedTuple):
    """Where outputs bend: an orthonormal basis (dim, r), and the linear function of all inputs that is fitted best."""

    basis: Array
    linear: HermiteFit


class Leading(NamedTuple):
    """What a search in the leading directions found: rows (units, p) on all inputs, the fit there, its loss per row, and whether
    two runs agreed on a fit that leaves little."""

    rows: Array
    fit: Refined
    loss: float
    agreed: bool


def leading_directions(source: Source, width: int | None) -> LeadingDirections | None:
    """Where outputs bend, as many directions as the width or as stand out; nothing where that saves little.

    For white inputs; several outputs are taken side by side. Two passes, n·d² operations.
    """
    if width is not None and width > FEW * source.dim:
        return None
    linear = fit_hermite(source, 1)
    moment = measure_with_noise(Residual(source, linear), SecondMoment(), stage="second moment")
    vectors, values, _ = np.linalg.svd(np.hstack(list(moment.value)))
    edge = float(np.linalg.norm(np.hstack(list(moment.noise)), 2))  # a direction of noise too many costs less than one too few
    count = int(np.sum(values > edge)) if width is None else width
    return LeadingDirections(vectors[:, :count], linear) if 0 < count <= FEW * source.dim else None


def search_leading(
    source: Source, model: Model, width: int | None, directions: LeadingDirections, rows: int, *, search: Search, rng: Generator,
    progress: Progress | None = None,
) -> Leading:
    """An over-wide search on so many rows, seen along these directions and without the linear function of all inputs.

    A width that was not told is at least the number of directions.
    """
    basis, r = directions.basis, directions.basis.shape[1]
    low = Projected(Residual(enough_rows(source, rows), directions.linear), basis).kept()
    scale = total_variation(low)
    known = None if width is not None else random_units(r, r, search.bias_scale if model.biases else None, rng)
    found = over_wide(
        low, model, width, known, search=search, bare=known is not None, scale=scale, rng=rng, progress=progress)
    lifted = np.hstack([found.point.units[:, :r] @ basis.T, found.point.units[:, r:]])
    return Leading(lifted, found, found.loss / low.size, found.agreed and found.loss <= EXPLAINED * scale)
