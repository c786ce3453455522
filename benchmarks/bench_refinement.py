"""Levenberg-Marquardt against scipy.optimize.least_squares with the analytic Jacobian: same start, same final error."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from measure import Row, peak_memory, row, seconds

DIM, WIDTH, SIZE = 20, 10, 50_000


def bench_lm_scipy() -> Iterator[Row]:
    """tanh, d=20, k=10, n=50,000, noiseless; both go on to a relative loss of 1e-20 or lower."""
    import laybare as lb
    from laybare.damping import Effort
    from laybare.refinement.levenberg import levenberg_marquardt
    from laybare.refinement.normal import point_of
    from laybare.refinement.variation import total_variation

    rng = np.random.default_rng(7)
    W, b = rng.standard_normal((WIDTH, DIM)) / np.sqrt(DIM), 0.5 * rng.standard_normal(WIDTH)
    a = rng.uniform(0.5, 1.5, WIDTH) * rng.choice([-1.0, 1.0], WIDTH)
    truth = lb.Network(lb.Layer(W, b, lb.tanh), a)
    x = rng.standard_normal((SIZE, DIM))
    y = truth(x)
    near = lb.Network(lb.Layer(W + 0.1 * rng.standard_normal(W.shape), b, lb.tanh), a)
    source = lb.Samples(x, y, law=lb.Gaussian(mean=np.zeros(DIM), cov=np.eye(DIM)))
    scale = total_variation(source)
    start = point_of(near, biases=True, offset=True, linear=False)
    losses = {}

    def ours() -> None:
        losses["ours"] = levenberg_marquardt(source, start, scale, effort=Effort(floor=1e-20)).loss / scale

    def scipys() -> None:
        losses["scipy"] = _least_squares(x, y, start.units, start.coefficients[:, 0]) / scale

    times = [(seconds(ours), seconds(scipys)) for _ in range(3)]
    peaks = peak_memory(ours), peak_memory(scipys)
    if max(losses.values()) > 1e-20:
        raise RuntimeError(f"not the same final error: {losses}")
    yield row("lm-scipy-time", ours=min(t[0] for t in times), baseline=min(t[1] for t in times), need=5)
    yield row("lm-scipy-memory", ours=peaks[0], baseline=peaks[1], need=10, unit="bytes")


def _least_squares(x: np.ndarray, y: np.ndarray, units: np.ndarray, coefficients: np.ndarray) -> float:
    from scipy.optimize import least_squares

    X1 = np.column_stack([x, np.ones(len(x))])
    k, p = units.shape

    def parts(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.tanh(X1 @ theta[: k * p].reshape(k, p).T), theta[k * p :]

    def residual(theta: np.ndarray) -> np.ndarray:
        H, c = parts(theta)
        return H @ c[:k] + c[k] - y

    def jacobian(theta: np.ndarray) -> np.ndarray:
        H, c = parts(theta)
        J = np.empty((len(x), k * p + k + 1))
        np.multiply(((1.0 - H * H) * c[:k])[:, :, None], X1[:, None, :], out=J[:, : k * p].reshape(len(x), k, p))
        J[:, k * p : -1], J[:, -1] = H, 1.0
        return J

    start = np.concatenate([units.ravel(), coefficients])
    end = least_squares(residual, start, jacobian, method="trf", ftol=1e-15, xtol=1e-15, gtol=1e-15)
    return float(2.0 * end.cost)
