"""Training: scikit-learn's MLPRegressor and PyTorch, from one start or the best of ten by their own training loss."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import Any

import numpy as np
from tasks import Given, Outcome, System, of_parts

import laybare as lb

ADAM_EPOCHS, LBFGS_STEPS, TORCH_STEPS = 400, 5000, 2000
"""Limits; all but PyTorch's Adam stop earlier where the loss stands still. scikit-learn's own limit is 200 for both."""

ADAM_RATE = 1e-2
"""For both libraries. scikit-learn's own, 1e-3, finds fewer networks in twice the time (seeds 100-105 of the first task)."""


def sklearn_mlp(solver: str, starts: int) -> System:
    """MLPRegressor of the true width, no penalty; of several starts that with the lowest training loss."""

    def system(given: Given) -> Outcome:
        runs = [fitted(given, given.task.width, solver, 1000 * given.seed + start) for start in range(starts)]
        return Outcome(lb.from_sklearn(min(runs, key=lambda mlp: float(mlp.loss_))), given.task.samples)

    return system


def fitted(given: Given, width: int, solver: str, seed: int, *, steps: int = LBFGS_STEPS) -> Any:
    """One MLPRegressor; `steps` is the limit of L-BFGS."""
    from sklearn.neural_network import MLPRegressor

    mlp = MLPRegressor(
        hidden_layer_sizes=(width,), solver=solver, alpha=0.0, tol=1e-10, n_iter_no_change=20, random_state=seed, max_fun=10**6,
        learning_rate_init=ADAM_RATE, max_iter=ADAM_EPOCHS if solver == "adam" else steps)
    return quietly(mlp, given)


def quietly(mlp: Any, given: Given) -> Any:
    """Fit without its warnings: whether it converged is seen by the result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mlp.fit(given.x, given.y)


def torch_module(solver: str, starts: int) -> System:
    """The same in PyTorch, double precision, full batches, for as many steps."""

    def system(given: Given) -> Outcome:
        runs = [_torch_run(given, solver, 1000 * given.seed + start) for start in range(starts)]
        return Outcome(min(runs, key=lambda run: run[0])[1], given.task.samples)

    return system


def _torch_run(given: Given, solver: str, seed: int) -> tuple[float, lb.Network]:
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    x, y = torch.from_numpy(given.x), torch.from_numpy(given.y.reshape(len(given.x), -1))
    dim, width = given.task.dim, given.task.width
    module = torch.nn.Sequential(torch.nn.Linear(dim, width), torch.nn.ReLU(), torch.nn.Linear(width, y.shape[1])).double()

    def loss() -> Any:
        return torch.nn.functional.mse_loss(module(x), y)

    _descend(module, loss, solver)
    lower, _, upper = module
    parts = [value.detach().numpy() for value in (lower.weight, lower.bias, upper.weight.T, upper.bias)]
    return float(loss().detach()), of_parts(*parts)


def _descend(module: Any, loss: Any, solver: str) -> None:
    import torch

    optimiser: Any = torch.optim.Adam(module.parameters(), lr=ADAM_RATE) if solver == "adam" else torch.optim.LBFGS(
        module.parameters(), max_iter=TORCH_STEPS, line_search_fn="strong_wolfe", tolerance_change=1e-14)

    def closure() -> Any:
        optimiser.zero_grad()
        value = loss()
        value.backward()
        return value

    for _ in range(TORCH_STEPS if solver == "adam" else 1):
        optimiser.step(closure)


def finite(network: lb.Network) -> bool:
    """Whether training came back with numbers."""
    return bool(np.isfinite(network.layer.rows).all() and np.isfinite(network.readout).all())


def systems() -> dict[str, System]:
    """By the names of the table; PyTorch only where it is installed."""
    found = {
        "scikit-learn L-BFGS, 1 start": sklearn_mlp("lbfgs", 1), "scikit-learn L-BFGS, best of 10": sklearn_mlp("lbfgs", 10),
        "scikit-learn Adam, 1 start": sklearn_mlp("adam", 1), "scikit-learn Adam, best of 10": sklearn_mlp("adam", 10)}
    if find_spec("torch") is not None:
        found |= {
            "PyTorch L-BFGS, 1 start": torch_module("lbfgs", 1), "PyTorch Adam, 1 start": torch_module("adam", 1)}
    return found
