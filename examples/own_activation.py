"""Your own activation: a value, a derivative, and what symmetries it has; all of it is
checked."""

import numpy as np
from scipy.special import expit

import laybare as lb

swish = lb.Activation.custom(
    # swish(t) - swish(-t) = t
    "swish", lambda t: t * expit(t), lambda t: expit(t) * (1 + t * expit(-t)), mirror=1.0)

rng = np.random.default_rng(0)
truth = lb.random_network(dim=5, width=3, activation=swish, rng=rng)
x = rng.standard_normal((1500, 5))

found = lb.recover(x, truth(x), activation=swish, width=3, rng=0)
print(
    f"{found.network.architecture} network of {found.network.activations} units, "
    f"{found.certificate.verdict}")
print(f"right to 8 digits: {lb.compare(found.network, truth).max_error < 1e-8}")

try:
    lb.Activation.custom("wrong", np.sin, np.sin)
except lb.errors.InvalidInput as refusal:
    print(refusal)
