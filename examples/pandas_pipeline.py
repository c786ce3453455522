"""A pandas pipeline: columns with names, a scaler, the recovered units, and what each
of them looks at."""

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import laybare as lb

rng = np.random.default_rng(0)
table = pd.DataFrame({
    "age": rng.normal(50, 12, 1500), "dose": rng.normal(3, 1, 1500),
    "weight": rng.normal(70, 15, 1500),
    "height": rng.normal(1.7, 0.1, 1500)})
effect = 2 * np.maximum(table.dose - 3, 0) - 0.1 * np.maximum(table.age - 60, 0)
effect += 0.02 * np.maximum(table.weight - 80, 0)

chain = make_pipeline(StandardScaler(), lb.NetworkRecovery(random_state=0))
chain.set_output(transform="pandas")
chain.fit(table, effect)
scaler, model = chain[0], chain[-1]

print(
    f"{model.network_.architecture}, {model.certificate_.verdict}, R² = "
    f"{chain.score(table, effect):.6f}")
units = pd.DataFrame(model.network_.layer.weights, columns=model.feature_names_in_)
for number, unit in units.iterrows():
    name = unit.abs().idxmax()
    column = list(table.columns).index(name)
    shift = model.network_.layer.biases[number] / unit[name]
    bend = scaler.mean_[column] - scaler.scale_[column] * shift
    print(
        f"unit {number} looks at {name} alone: "
        f"{(unit.drop(name).abs() < 1e-10).all()}; it bends at {bend:.4g}")

print("\nhidden units as columns:", list(chain.transform(table).columns))
