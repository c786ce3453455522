"""A union of half-spaces: which rules say "reject", read off nothing but labels."""

import numpy as np

import laybare as lb

rng = np.random.default_rng(0)
x = rng.standard_normal((6000, 4))  # four measurements of a part
rules = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 0.6, 0.8, 0.0], [0.0, 0.0, -0.6, 0.8]])
limits = np.array([1.6, 1.8, 1.7])
labels = np.where((x @ rules.T > limits).any(axis=1), "reject", "accept")

# the number of rules is not told
model = lb.UnionOfHalfSpaces(random_state=0).fit(x, labels)

print(
    f"rejected: {np.mean(labels == 'reject'):.0%}; rules found: "
    f"{len(model.weights_)}, {model.certificate_.verdict}")
for rule, limit in zip(rules, limits, strict=True):
    nearest = np.argmax(model.weights_ @ rule)
    angle = np.degrees(np.arccos(min(1.0, model.weights_[nearest] @ rule)))
    off = abs(model.thresholds_[nearest] - limit)
    print(
        f"rule {rule}: within 2 degrees {angle < 2}, its limit {limit} within 0.05 "
        f"{off < 0.05}")

fresh = rng.standard_normal((5000, 4))
right = np.where((fresh @ rules.T > limits).any(axis=1), "reject", "accept")
print(f"99 % of new parts judged right: {model.score(fresh, right) > 0.99}")
