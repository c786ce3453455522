"""A deep model: two hidden layers behind queries, found one after the other, their
number not told."""

import laybare as lb

truth = lb.random_network(6, widths=(6, 4), biases=0.5, rng=3)
oracle = lb.Oracle(truth, budget=20_000)

found = lb.recover(oracle, lb.Lines(depth=None), rng=0)

print(f"hidden network: {truth.architecture}")
print(f"found:          {found.network.architecture}, {found.certificate.verdict}")
for number, layer in enumerate(lb.compare(found.network, truth).layers, 1):
    print(
        f"layer {number}: {len(layer.pairs)} units, right to 6 digits: "
        f"{layer.weight_error < 1e-6}")
parameters = truth.readout.size + 1 + sum(
    part.size for layer in truth.layers for part in (layer.weights, layer.biases))
print(
    f"parameters: {parameters}, fewer than 50 queries for each: "
    f"{oracle.spent < 50 * parameters}")
