"""Sunspots: a threshold autoregression whose threshold is a combination of lags that
the data choose, not one lag given."""

import numpy as np
import pandas as pd
from statsmodels.api import datasets

import laybare as lb

series = datasets.sunspots.load_pandas().data.set_index("YEAR").SUNACTIVITY
lags = pd.DataFrame({f"lag_{lag}": series.shift(lag) for lag in (1, 2, 3, 9)}).dropna()
now = series[lags.index].rename("sunspots")
found = lb.recover(lags, now, activation="relu", rng=0)

print(
    f"{found.network.architecture}, {found.certificate.verdict}; explained on fresh "
    f"years: {1 - found.profile.unexplained:.2f}")
summary = found.summary()
linear = [f"{name} {values[0]}" for name, values in summary.linear]
print("in all years: " + ", ".join(linear))
for unit in summary.units:
    parts = ", ".join(f"{term.column} {term.direction}" for term in unit.terms)
    print(
        f"unit {unit.number}: bends where {unit.leading} = {unit.location}; direction "
        f"{parts}")
    slope = unit.terms[0].slopes[0]
    print(
        f"  {100 * unit.beyond:.0f} % of years beyond it; that adds {slope} per "
        f"{unit.leading}")
failed = [claim.name for claim in found.certificate.checks if not claim.passed]
print("not passed, first of all:", failed[0])

straight = np.column_stack([np.ones(len(lags)), lags])
plain = straight @ np.linalg.lstsq(straight, now, rcond=None)[0] - now
left = found(lags.to_numpy()) - now
print(
    f"residual of a linear autoregression on these lags: {plain.std():.1f}, with "
    f"thresholds: {left.std():.1f}")

found.plot(kind="units")[0].figure.savefig("sunspot_threshold-units.png", dpi=90)
axes = found.plot(kind="kinks", pairs=[("lag_1", "lag_2"), ("lag_2", "lag_3")])
axes[0].figure.savefig("sunspot_threshold-kinks.png", dpi=90)
