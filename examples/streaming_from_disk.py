"""Streaming from disk: rows in files, read block by block; the weights have the same
bits as from memory."""

from pathlib import Path

import numpy as np

import laybare as lb

truth = lb.random_network(dim=8, width=4, rng=0)
folder = Path("rows")
folder.mkdir()
blocks = []
for number in range(4):  # written by anybody, one file after the other
    x = np.random.default_rng(number).standard_normal((5000, 8))
    np.save(folder / f"x_{number:03d}.npy", x)
    np.save(folder / f"y_{number:03d}.npy", truth(x))
    blocks.append(x)

# nothing is kept: every pass reads the files again
source = lb.open_samples(folder, schedule=lb.source.Schedule(keep_bytes=0))
print(
    f"{source.size:,} rows of {source.dim} inputs in {len(list(folder.iterdir()))} "
    "files, memory-mapped")

streamed = lb.recover(source, width=4, rng=0)
print(f"{streamed.network.architecture}, {streamed.certificate.verdict}")
print(f"right to 10 digits: {lb.compare(streamed.network, truth).max_error < 1e-10}")

x = np.vstack(blocks)
kept = lb.recover(x, truth(x), width=4, rng=0)
print(
    "same bits as from memory: "
    f"{np.array_equal(kept.network.layer.weights, streamed.network.layer.weights)}")
