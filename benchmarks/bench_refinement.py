"""Refinement against what else there is: same data, same final error.

Levenberg-Marquardt against scipy.optimize.least_squares with the analytic Jacobian; many samples against normal equations of all
rows, and against scikit-learn's L-BFGS.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from measure import Row, peak_memory, row, seconds

from laybare.solver.point import Point
from laybare.source import Samples

DIM, WIDTH, SIZE = 20, 10, 50_000


def bench_lm_scipy() -> Iterator[Row]:
    """tanh, d=20, k=10, n=50,000, noiseless; both go on to a relative loss of 1e-20 or lower."""
    import laybare as lb
    from laybare.solver import Effort
    from laybare.solver.dense import levenberg_marquardt
    from laybare.solver.point import point_of
    from laybare.source.problem import total_variation

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


def bench_refine_large() -> Iterator[Row]:
    """ReLU, noise 0.1, from a start that is off by 0.2, until a step is a thirtieth of a standard error.

    d=50, k=20, n=100,000 (1041 unknowns): a part of the rows first, then products, against normal equations of all rows. d=20,
    k=10, n=20,000: against scikit-learn's L-BFGS, which begins at random and has 5000 steps.
    """
    from laybare.solver.dense import levenberg_marquardt
    from laybare.solver.minimise import minimise
    from laybare.solver.point import overfit

    source, start, scale = _noisy(50, 20, 100_000)
    losses = {}

    def parts() -> None:
        losses["ours"] = minimise(source, start, scale).loss

    def dense() -> None:
        losses["dense"] = levenberg_marquardt(source, start, scale).loss

    times = [(seconds(parts), seconds(dense)) for _ in range(2)]
    if losses["ours"] > losses["dense"] * (1 + 0.01 * overfit(source, start)):
        raise RuntimeError(f"not the same minimum: {losses}")
    yield row("refine-large-dense", ours=min(t[0] for t in times), baseline=min(t[1] for t in times), need=4)

    source, start, scale = _noisy(20, 10, 20_000)
    peer = seconds(lambda: losses.update(sklearn=_lbfgs(*source.read(0, source.size), 10)))
    ours = min(seconds(parts) for _ in range(3))
    if losses["ours"] > losses["sklearn"] * (1 + 0.01 * overfit(source, start)):
        raise RuntimeError(f"a worse minimum: {losses}")
    yield row("refine-large-sklearn", ours=ours, baseline=peer, need=5)


def _noisy(dim: int, width: int, size: int) -> tuple[Samples, Point, float]:
    import laybare as lb
    from laybare.solver.point import point_of
    from laybare.source.problem import total_variation

    rng = np.random.default_rng(8)
    truth = lb.random_network(dim, width, biases=0.4, bias_law="normal", readout="random", rng=rng)
    x = rng.standard_normal((size, dim))
    y = truth(x) + 0.1 * rng.standard_normal(size)
    rows = truth.layer.weights + 0.2 / np.sqrt(dim) * rng.standard_normal((width, dim))
    near = lb.Network(lb.Layer(rows, truth.layer.biases, lb.relu), truth.readout)
    source = lb.Samples(x, y, law=lb.Gaussian(mean=np.zeros(dim), cov=np.eye(dim)))
    return source, point_of(near, biases=True, offset=True, linear=False), total_variation(source)


def _lbfgs(x: np.ndarray, y: np.ndarray, width: int) -> float:
    """Residual sum of squares of scikit-learn's network."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPRegressor

    model = MLPRegressor(
        hidden_layer_sizes=(width,), solver="lbfgs", alpha=0.0, tol=1e-7, max_iter=5000, max_fun=100_000, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x, y[:, 0])
    return float(np.sum((y[:, 0] - model.predict(x)) ** 2))


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
