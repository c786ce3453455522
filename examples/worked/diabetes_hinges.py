"""Diabetes: where the course of the disease bends over ten measurements, with standard
errors, and what "doubtful" says."""

from sklearn.datasets import load_diabetes

import laybare as lb

data = load_diabetes(as_frame=True, scaled=False)
table = data.data.rename(columns={
    "s1": "cholesterol", "s2": "ldl", "s3": "hdl", "s4": "ratio", "s5": "log_trig",
    "s6": "sugar"})
found = lb.recover(table, data.target.rename("progression"), activation="relu", rng=0)
summary = found.summary()

print(
    f"{found.network.architecture}, {found.certificate.verdict}; explained on fresh "
    f"rows: {1 - found.profile.unexplained:.2f}")
for unit in summary.units:
    slopes = [(term.column, term.slopes[0]) for term in unit.terms]
    clear = [(name, slope) for name, slope in slopes if abs(slope.value) > 2 * slope.se]
    print(
        f"unit {unit.number} bends where {unit.leading} = {unit.location}, others at "
        "their means")
    print(
        f"  {100 * unit.beyond:.0f} % of patients on its positive side; slopes there "
        "that are clear of zero:")
    for name, slope in clear:
        print(f"  {name:<12}{slope}")
print(f"below the kink nothing is gained: {summary.offset[0]} for all of them")

print("\nwhat keeps it from being verified:")
for claim in found.certificate.checks:
    if not claim.passed:
        print(f"  {claim.name}")

told = found.predict(table.iloc[:1])
print(
    f"\nfirst patient: {told.mean[0]:.0f}, "
    f"mean within [{told.lower[0]:.0f}, {told.upper[0]:.0f}], "
    f"a new patient like this within [{told.new_lower[0]:.0f}, {told.new_upper[0]:.0f}]")

found.plot(kind="units")[0].figure.savefig("diabetes_hinges-units.png", dpi=90)
axes = found.plot(kind="effects", columns=["bmi", "log_trig", "cholesterol"])
axes[0].figure.savefig("diabetes_hinges-effects.png", dpi=90)
