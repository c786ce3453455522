"""Quick start: samples of a network in, the network itself out, with a certificate."""

import numpy as np

import laybare as lb

rng = np.random.default_rng(1)
# five ReLU units with biases: what is to be found
truth = lb.random_network(dim=10, width=5, rng=rng)
x = rng.standard_normal((1000, 10))

found = lb.recover(x, truth(x), rng=0)  # the width is not told

print(
    f"a {found.network.architecture} network of {found.network.activations} units, "
    f"{found.certificate.verdict}")
# modulo the symmetries of ReLU units: order and scale
match = lb.compare(found.network, truth)
print(f"every number right to 10 digits: {match.max_error < 1e-10}")
print(f"units missing: {len(match.missing)}, spurious: {len(match.spurious)}")

fresh = rng.standard_normal((100, 10))
print(
    "predictions right to 10 digits: "
    f"{np.allclose(found(fresh), truth(fresh), rtol=0, atol=1e-10)}")

found.network.save("network.safetensors")  # numbers and names, never code
print(
    "read back bit for bit: "
    f"{lb.compare(lb.load('network.safetensors'), found.network).max_error == 0}")
