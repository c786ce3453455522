"""How far a network misses rows that are left out of its fit, all told by the fit itself.

A row with score u and information i at the outputs η moves the fit to itself by its leverage. Without it the output there is, by
one Gauss-Newton step,

    η - l u / (1 - h),      l = Jᵀ (Σ w i J Jᵀ)⁻¹ J,      h = w i l,      J the gradient of the output in all parameters

which is exact for least squares in the linear part (Allen 1974), and an approximation for kinks and for likelihoods (Pregibon
1981). A unit whose slope a few rows determine has h near one there: it fits them, and says nothing about the next row like them.
"""

from __future__ import annotations

import numpy as np

from laybare.certificate.error_propagation import ERRORS
from laybare.estimator.simple_models import WeightedRows
from laybare.networks import Network
from laybare.numerics.levels import EPS
from laybare.numerics.shapes import Array
from laybare.solver.point import output_gradients, point_of
from laybare.source.losses import Loss


def left_out_deviance(network: Network, rows: WeightedRows, loss: Loss) -> float:
    """The deviance of all rows, each left out in turn; the outputs one after the other."""
    point = point_of(network, biases=True, offset=True, linear=network.linear is not None)
    eta = np.asarray(network(rows.x)).reshape(rows.y.shape)
    each, w = loss.rows(eta, rows.y), rows.weights[:, None]
    gradients = [output_gradients(point, rows.x, output) for output in range(network.outputs)]
    information = sum(J.T @ (J * (w * each.information)[:, [o]]) for o, J in enumerate(gradients))
    inverse = _pseudo_inverse(np.asarray(information))
    lever = np.column_stack([np.einsum("np,np->n", J @ inverse, J) for J in gradients])
    rest = np.maximum(1.0 - w * each.information * lever, ERRORS.min_residual_share)
    return float(np.sum(w * loss.rows(eta - w * lever * each.score / rest, rows.y).deviance))


def _pseudo_inverse(information: Array) -> Array:
    """Scaled to unit diagonal; directions without information, as the free scale of every ReLU unit, are left out."""
    scale = np.sqrt(np.maximum(np.diag(information), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(information / scale / scale[:, None])
    kept = values > ERRORS.singular_information * values.max(initial=EPS)
    return np.asarray((vectors[:, kept] / values[kept]) @ vectors[:, kept].T / scale / scale[:, None])
