"""Which method: each says what it assumes, the certificate whether the answer holds.
RandomStart is the control."""

import numpy as np

import laybare as lb

rng = np.random.default_rng(0)
truth = lb.random_network(dim=8, width=6, biases=0.0, readout="positive", rng=rng)
x = rng.standard_normal((4000, 8))
samples = lb.Samples(x, truth(x), law=lb.Gaussian())

methods = {
    "RandomStart": lb.RandomStart(),  # nothing; the default for samples
    "TensorInit": lb.TensorInit(),  # normal inputs, no biases, no more units than inputs
    "LandscapeDesign": lb.LandscapeDesign(),  # the same, and a positive readout
    "GeneralReLU": lb.GeneralReLU(),  # normal inputs
    # the paper's algorithm alone, without the solver
    "TensorInit, as printed": lb.TensorInit.literal(),
}

print(f"{'method':<24}{'verdict':<12}{'error before the solver':<26}right to 10 digits")
for name, method in methods.items():
    found = lb.recover(samples, method, width=6, rng=0)
    match = lb.compare(found.network, truth)
    moments = not isinstance(method, lb.RandomStart)  # random directions are no estimate
    start = f"{lb.compare(found.start, truth).weight_error:.0e}" if moments else "none"
    print(
        f"{name:<24}{found.certificate.verdict:<12}{start:<26}{match.max_error < 1e-10}")
