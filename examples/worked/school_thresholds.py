"""School districts: pupils above the national median over poverty and more
(statsmodels' star98), a threshold with its error."""

import numpy as np
from statsmodels.api import datasets

import laybare as lb

data = datasets.star98.load_pandas().data
share = (100 * data.NABOVE / (data.NABOVE + data.NBELOW)).rename("above_median")
names = {
    "LOWINC": "low_income", "PERASIAN": "asian", "PERBLACK": "black",
    "PERHISP": "hispanic", "AVYRSEXP": "experience", "PTRATIO": "pupils_per_teacher"}
table = data[list(names)].rename(columns=names)
found = lb.recover(table, share, activation="relu", rng=0)

print(
    f"{found.network.architecture}, {found.certificate.verdict}; explained on fresh "
    f"rows: {1 - found.profile.unexplained:.2f}")
for unit in found.summary().units:
    print(
        f"bends where low_income = {unit.location} percent, other columns at their "
        f"means (p = {unit.p_value:.1g})")
    for term in unit.terms:
        print(
            f"  {term.column:<20}{term.slopes[0]!s:>16} points per unit before the "
            "kink, none beyond it")
print(
    f"{100 * (1 - unit.beyond):.0f} % of districts lie beyond it, at "
    f"{found.summary().offset[0]} percent")

left = (found(table.to_numpy()) - share).to_numpy()
straight = np.column_stack([np.ones(len(table)), table])
plain = straight @ np.linalg.lstsq(straight, share, rcond=None)[0] - share
print(f"residual of a plane: {plain.std():.2f}, with the kink: {left.std():.2f}")
failed = [claim.name for claim in found.certificate.checks if not claim.passed]
print("not passed:", "; ".join(failed))

found.plot(kind="units")[0].figure.savefig("school_thresholds-units.png", dpi=90)
pairs = [("low_income", "hispanic"), ("low_income", "black")]
axes = found.plot(kind="kinks", pairs=pairs)
axes[0].figure.savefig("school_thresholds-kinks.png", dpi=90)
