"""Curvature of the risk |y - net(x)|²/(2n) in the hidden weights, readout fixed: what local convergence depends on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.network import Network
from laybare.refinement.normal import Step, StepStatistic, point_of
from laybare.source import Source


class Curvature(NamedTuple):
    """Extreme eigenvalues. Gradient descent with step η < 2/largest shrinks the error by about 1 - η·least a step."""

    least: float
    largest: float


def curvature(source: Source, network: Network) -> Curvature:
    """Extreme eigenvalues of the Gauss-Newton Hessian, block (j, l) = Σ_o a_jo a_lo E[act'ⱼ act'ₗ xxᵀ], of a bias-free network.

    At weights that fit without residual it is the Hessian. Dense: one pass of n·(k·d)², then (k·d)³.
    Source: Zhong et al. (2017), section 4; the population Hessian is the limit of many samples.
    """
    point = point_of(network, biases=False, offset=True, linear=False)
    step = Step(*source.sum(StepStatistic(point), stage="curvature"))
    (k, d), q = point.units.shape, len(point.coefficients)
    A = point.coefficients[:k]
    blocks = step.gram[q:, q:].reshape(k, d, k, d) * (A @ A.T)[:, None, :, None]
    values = np.linalg.eigvalsh(blocks.reshape(k * d, k * d) / float(step.rows))
    return Curvature(float(values[0]), float(values[-1]))
