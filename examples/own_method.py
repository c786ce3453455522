"""Your own method: it says where units may be, and `recover` does the rest: search,
signs, certificate."""

from dataclasses import dataclass

import numpy as np

import laybare as lb


@dataclass(frozen=True, kw_only=True)
class TowardsOutliers:
    """Units begin in the directions of the rows with the largest outputs."""

    activation: lb.Activation = lb.relu
    biases: bool = True
    search: lb.Search | None = lb.Search()

    def start(self, source, width, *, rng, progress=None):
        """Where units may be, on white inputs; every pass over the data is a sum, but a
        few rows may be looked at."""
        rows = source.read(0, min(source.size, 1000))
        largest = np.argsort(-np.abs(rows.y[:, 0]))[: width or 4]
        chosen = rows.x[largest]
        directions = chosen / np.linalg.norm(chosen, axis=1, keepdims=True)
        zeros = np.zeros(len(directions))
        network = lb.Network(lb.Layer(directions, zeros, self.activation), zeros)
        claim = lb.Claim(
            "units at large outputs", float(len(directions)), 0.0, True, "tested",
            "where the search began.")
        return lb.Start(network, (claim,))


rng = np.random.default_rng(0)
truth = lb.random_network(dim=6, width=4, rng=rng)
x = rng.standard_normal((1000, 6))

for method in (TowardsOutliers(), lb.RandomStart()):
    found = lb.recover(x, truth(x), method, width=4, rng=0)
    right = lb.compare(found.network, truth).max_error < 1e-10
    print(f"{found.found_by}: {found.certificate.verdict}, right to 10 digits: {right}")
