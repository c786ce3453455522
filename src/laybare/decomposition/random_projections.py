"""KCL: a symmetric tensor through random projections and joint diagonalisation, in one or two stages.

Stage 1 contracts the tensor with L random unit vectors and diagonalises the L matrices jointly. Stage 2 repeats it with the r
contractions that stage 1 says would single out one part each. Stage 2 rests on r slices only: for ill-conditioned directions it
is the worse of the two (`laybare reproduce decomposition-noise` has both), so the default is one stage.

Source: Kuleshov, Chaganty and Liang (2015), AISTATS; Zhong et al. (2017), Algorithm 1, use it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from laybare.decomposition.checks import as_slices
from laybare.decomposition.components import Components, unit_rows
from laybare.decomposition.diagonaliser import Diagonalise, directions_of, rows_for
from laybare.decomposition.explanation import explain, loadings
from laybare.decomposition.multiplicative import ffdiag
from laybare.decomposition.pencil import jennrich
from laybare.decomposition.shears import qrj1d
from laybare.decomposition.slices import condense, project
from laybare.errors import InvalidInput
from laybare.shapes import Array


@dataclass(frozen=True, kw_only=True)
class KCL:
    """Random projections and joint diagonalisation.

    `separation`: the smallest sine between the loadings of two parts times the smallest singular value of the directions.
    The default starts FFDIAG from Jennrich's directions; `literal` is two stages of QRJ1D from the identity.
    """

    projections: int = 100
    stages: int = 1
    diagonalise: Diagonalise = ffdiag
    warm: bool = True

    def __post_init__(self) -> None:
        if self.stages not in (1, 2) or self.projections < 2:
            raise InvalidInput(
                f"{self.stages} stages of {self.projections} projections were asked for.",
                "One projection alone does not determine the parts, and there is no third stage.",
                "Give 1 or 2 stages and at least 2 projections.", stages=self.stages, projections=self.projections)

    @classmethod
    def literal(cls) -> KCL:
        """The paper's own choices."""
        return cls(stages=2, diagonalise=qrj1d, warm=False)

    def __call__(self, tensor: Array, rank: int, *, rng: Generator) -> Components:
        slices = as_slices(tensor, rank)
        span = project(slices, rank)
        condense(span.slices, rank)  # refuses a stack without information
        rows = rows_for(jennrich(span.slices, rank, rng=rng).directions) if self.warm else np.eye(rank)
        weights = unit_rows(rng.standard_normal((self.projections, len(slices))))
        for _ in range(self.stages):
            # Joint diagonalisation sees only Σ A_l⊗A_l: R of the weights' QR gives it from no more slices than there were.
            mixing = np.linalg.qr(weights, mode="r")
            rows = self.diagonalise(np.tensordot(mixing, span.slices, axes=1), rows).rows
            weights = singling_out(loadings(span.slices, directions_of(rows)))
        return explain(slices, unit_rows(directions_of(rows) @ span.basis.T))


kcl = KCL()


def singling_out(weights: Array) -> Array:
    """Unit combinations (r, s) of slices that keep one part each, from loadings (s, r): rows dual to the loadings.

    For a symmetric tensor, λᵢ = cᵢuᵢ, these are the rows of the joint diagonaliser, as in the paper.
    """
    return unit_rows(np.linalg.pinv(weights))
