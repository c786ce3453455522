"""A folder of networks drawn or trained here, in the form that `zoo.py --folder` reads: their runtime is float32.

    python benchmarks/zoo_drawn.py --into DIR [--shapes 10-10-10-1 ...] [--seeds 0-19] [--trained] [--final none|softmax|sigmoid]
    python benchmarks/zoo.py --folder DIR --form runtime --solver laybare

Drawn: rows N(0, 2 / fan-in), biases 0.5 N(0, 1), readouts N(0, 1 / width). Trained: scikit-learn's MLPRegressor on 2,000 inputs
uniform in the domain, from a drawn network with one layer of 20 units.
"""

from __future__ import annotations

import argparse
import json
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.random import Generator

SHAPES = ("10-10-10-1", "12-8-5-1", "12-12-12-3")
LOW, HIGH = -2.0, 2.0


def drawn(sizes: tuple[int, ...], rng: Generator) -> list[np.ndarray]:
    """W0, b0, W1, b1, ..."""
    parts = []
    for level, (below, width) in enumerate(pairwise(sizes)):
        scale, spread = (1.0, 1.0) if level == len(sizes) - 2 else (2.0, 0.5)
        parts += [rng.normal(size=(width, below)) * np.sqrt(scale / below), spread * rng.normal(size=width)]
    return parts


def values(parts: list[np.ndarray], x: np.ndarray) -> np.ndarray:
    """Outputs (n, outputs)."""
    for weights, biases in zip(parts[:-2:2], parts[1:-2:2], strict=True):
        x = np.maximum(x @ weights.T + biases, 0.0)
    return np.asarray(x @ parts[-2].T + parts[-1])


def trained(sizes: tuple[int, ...], rng: Generator) -> list[np.ndarray]:
    """The same, fitted to a drawn network."""
    from sklearn.neural_network import MLPRegressor

    x = rng.uniform(LOW, HIGH, (2000, sizes[0]))
    y = values(drawn((sizes[0], 20, sizes[-1]), rng), x)
    model = MLPRegressor(hidden_layer_sizes=sizes[1:-1], max_iter=150, random_state=int(rng.integers(1 << 31)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it need not have converged
        model.fit(x, y[:, 0] if sizes[-1] == 1 else y)
    return [part for pair in zip(model.coefs_, model.intercepts_, strict=True) for part in (pair[0].T, pair[1])]


def main() -> None:
    parser = argparse.ArgumentParser(description="Write networks that zoo.py reads.")
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--shapes", nargs="+", default=SHAPES)
    parser.add_argument("--seeds", default="0-19", help="first-last")
    parser.add_argument("--trained", action="store_true")
    parser.add_argument("--final", choices=("none", "softmax", "sigmoid"), default="none")
    given = parser.parse_args()
    given.into.mkdir(parents=True, exist_ok=True)
    first, last = map(int, given.seeds.split("-"))
    manifest = {}
    for shape in given.shapes:
        sizes = tuple(map(int, shape.split("-")))
        for seed in range(first, last + 1):
            name = f"{'trained' if given.trained else 'drawn'}_{shape.replace('-', '_')}_{seed}"
            parts = (trained if given.trained else drawn)(sizes, np.random.default_rng(seed))
            np.savez(given.into / name, **{f"{'Wb'[i % 2]}{i // 2}": part for i, part in enumerate(parts)})
            manifest[name] = {
                "origin": "benchmarks/zoo_drawn.py", "what": shape, "licence": "none", "final": given.final, "float32": True,
                "low": LOW, "high": HIGH}
    (given.into / "manifest.json").write_text(json.dumps(manifest, indent=1))


if __name__ == "__main__":
    main()
