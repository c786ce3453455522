"""Black boxes that compute in float32, torch modules and ONNX files: right networks are verified, the more queries the better."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import laybare as lb

SIZES = [(6, 6, 1), (6, 6, 3), (10, 16, 1)]
BUDGETS = [400, 2000, 8000]
FRESH = range(62_000, 62_020)
"""Seeds that nothing was set on."""

RIGHT = 1e-3
"""Largest error of a number that still is the right network: float32 answers leave 1e-7 to 1e-5."""


def onnx_file(net: lb.Network, folder: Path) -> Any:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (pip install '.[onnx]')")
    lb.to_onnx(net, folder / "net.onnx", dtype="float32")
    return str(folder / "net.onnx")


def torch_module(net: lb.Network, folder: Path) -> Any:
    pytest.importorskip("torch", reason="PyTorch is not installed (pip install '.[torch]')")
    return lb.to_torch(net, dtype="float32")


def outcome(made: Any, size: tuple[int, int, int], budget: int, seed: int, folder: Path, method: Any = None) -> tuple[str, bool]:
    """The verdict, and whether the network is the right one."""
    dim, width, outputs = size
    truth = lb.random_network(dim, width, outputs=outputs, biases=1.0, rng=seed)
    asked = []
    target = lb.source.as_target(made(truth, folder))

    def box(x: np.ndarray) -> np.ndarray:
        asked.append(len(x))
        return target.ask(x)

    try:
        found = lb.recover(lb.Oracle(box, dim, budget=budget, rng=seed), method=method, rng=seed)
    except (lb.errors.BudgetExhausted, lb.errors.TooFewSamples):
        return "refused", False
    assert sum(asked) <= budget
    same = found.network.activations == truth.activations and found.network.outputs == outputs
    return found.certificate.verdict, same and lb.compare(found.network, truth).max_error < RIGHT


@pytest.mark.parametrize("made", [onnx_file, torch_module])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_right_networks_are_verified(made: Any, size: tuple[int, int, int], tmp_path: Path, seed: int) -> None:
    assert outcome(made, size, 400, seed, tmp_path) != ("refuted", True)
    assert [outcome(made, size, budget, seed, tmp_path) for budget in BUDGETS[1:]] == [("verified", True)] * 2


@pytest.mark.slow
@pytest.mark.parametrize("method", [None, lb.RandomStart()], ids=["lines", "samples"])
@pytest.mark.parametrize("made", [onnx_file, torch_module])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_right_networks_of_twenty_seeds_are_verified(made: Any, size: tuple[int, int, int], method: Any, tmp_path: Path) -> None:
    for budget in BUDGETS:
        found = Counter(outcome(made, size, budget, seed, tmp_path, method) for seed in FRESH)
        print(f"\n{made.__name__} {'-'.join(map(str, size))}, {budget:,} queries: {dict(found)}", flush=True)
        assert found["refuted", True] == 0 == found["verified", False], (budget, found)
        assert budget < 2000 or found["verified", True] >= 19, (budget, found)
