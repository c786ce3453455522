"""Extraction: a trained MLPRegressor gives up its weights to whoever may query it."""

import warnings

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler

import laybare as lb

x, y = load_diabetes(return_X_y=True)
x, y = StandardScaler().fit_transform(x), (y - y.mean()) / y.std()
# it need not have converged
with warnings.catch_warnings(category=UserWarning, action="ignore"):
    model = MLPRegressor(hidden_layer_sizes=(12,), max_iter=60, random_state=0).fit(x, y)

oracle = lb.Oracle(model, budget=2000)  # answers are all that is seen of the model
found = lb.recover(oracle, rng=0)

truth = lb.from_sklearn(model)
parameters = sum(part.size for part in (*model.coefs_, *model.intercepts_))
print(
    f"hidden units: {truth.width}, found: {found.network.width}, "
    f"{found.certificate.verdict}")
# without the answers that only check the result
read = oracle.spent - found.queries["assurance"]
print(
    f"parameters: {parameters}, read with fewer than 3 queries for each: "
    f"{read < 3 * parameters}")
print(
    "every weight right to 6 digits: "
    f"{lb.compare(found.network, truth).max_error < 1e-6}")

stolen = lb.to_sklearn(found.network)
print(
    "the copy predicts the same: "
    f"{np.allclose(stolen.predict(x), model.predict(x), atol=1e-8)}")
