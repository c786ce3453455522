"""How many units do several outputs on symmetric inputs show? Singular values of AW, in units of their own noise.

B = E[yxᵀ] on white inputs is (1+a)/2 AW, of rank k. Its estimate has the noise of e = y - Bx: √n Cov(e)^-½ B has entries of
variance about 1 beside the signal, and the largest singular value of such noise is close to √m + √d for m output directions. What
exceeds that clearly is signal. A value below it proves nothing: weights that nearly depend on each other have weak ones. So the
count is exact only if it reaches what the method can see at most, min(m, d), or if it leaves nothing over; else it is a lower
bound and the fit has to decide.
Source: the printed method is told the width; counting is ours.
"""

from __future__ import annotations

import numpy as np

from laybare.decomposition import RankEstimate
from laybare.levels import ROUNDING
from laybare.moments import linear_product
from laybare.shapes import Array
from laybare.source import Source

CLEAR = 1.6
"""Multiple of √m + √d that counts as signal. Noise alone reached 0.72 to 0.97 of it in five settings."""


def count_outputs(source: Source, slope: float) -> RankEstimate:
    """Units that the outputs of white samples show; `exact` is None if the spectrum leaves it open."""
    odd = linear_product(source, slope=slope)
    root = _inverse_root(odd.residual)
    directions = len(root)
    values = np.sqrt(source.size) * abs(1 + slope) / 2 * np.linalg.svd(root @ odd.product, compute_uv=False)
    edge = CLEAR * (np.sqrt(directions) + np.sqrt(source.dim))
    seen, limit = int(np.sum(values > edge)), min(directions, source.dim)
    gap = float(values[seen - 1] / max(edge / CLEAR, values[seen] if seen < len(values) else 0.0)) if seen else 0.0
    where = f"The outputs vary in {directions} directions, the inputs in {source.dim}"
    if seen < limit:
        return RankEstimate(
            seen, None, gap, f"At least {seen} of at most {limit}. {where}; value {seen + 1} of the product of the layers is "
            f"{values[seen]:.3g} in units of noise, where noise alone reaches {edge / CLEAR:.3g}: a weak unit could hide in it.")
    if limit < min(source.outputs, source.dim):
        return RankEstimate(seen, seen, gap, f"Exactly {seen}. {where}, and all of them show a unit.")
    return RankEstimate(
        seen, seen, gap, f"{seen}, as many as can be seen. {where}: width {limit} is plausible, and more units than that would "
        "not show here.")


def _inverse_root(cov: Array) -> Array:
    """Rows r with r cov rᵀ = I in the directions that vary."""
    spread = np.sqrt(np.maximum(np.diag(cov), 0.0))
    spread[spread == 0.0] = 1.0
    values, vectors = np.linalg.eigh(cov / np.outer(spread, spread))
    kept = values > ROUNDING * values[-1]
    return np.asarray((vectors[:, kept] / np.sqrt(values[kept])).T / spread)
