"""Beyond one machine: chunks in Dask, every pass runs where they lie; recover and the
estimator are the same."""

import dask.array as da
import numpy as np

import laybare as lb

# a cluster; without one, Dask's threads on this machine
# from distributed import Client; client = Client("scheduler:8786")
truth = lb.random_network(dim=8, width=4, rng=0)
x = da.random.default_rng(0).standard_normal((20_000, 8), chunks=(4000, 8))
y = x.map_blocks(truth, drop_axis=1, dtype=float)  # nothing is computed yet

source = lb.DaskSamples(x, y)
model = lb.NetworkRecovery(width=4, random_state=0).fit(source)
print(
    f"{source.size:,} rows in {x.numblocks[0]} chunks: {model.network_.architecture}, "
    f"{model.certificate_.verdict}")
print(f"right to 10 digits: {lb.compare(model.network_, truth).max_error < 1e-10}")

here = lb.NetworkRecovery(width=4, random_state=0).fit(x.compute(), y.compute())
same = np.array_equal(here.network_.layer.weights, model.network_.layer.weights)
print(f"the same bits as from memory: {same}")

# a network is a function of rows
prediction = x.map_blocks(model.network_, drop_axis=1, dtype=float)
print(f"predictions right to 10 digits: {np.abs(prediction - y).max().compute() < 1e-10}")
