"""`found.summary()`: kinks in the user's columns, rounded by their errors, in every form; intervals of predictions."""

from __future__ import annotations

import json

import numpy as np
import pandas
import pytest

import laybare as lb
from laybare.errors import InvalidInput
from laybare.report.tables import Quantity, round_by_error


@pytest.fixture(scope="module")
def found():
    """One kink at age + 0.5·(dose - 3) = 40 with slope 2, on columns of different units, and a second along dose."""
    rng = np.random.default_rng(3)
    frame = pandas.DataFrame({"age": rng.normal(45.0, 10.0, 3000), "dose": rng.normal(3.0, 2.0, 3000)})
    clean = 2.0 * np.maximum(0.0, frame.age + 0.5 * (frame.dose - 3.0) - 40.0) - 5.0 * np.maximum(0.0, frame.dose - 4.0) + 7.0
    y = pandas.Series(clean + rng.normal(0.0, 3.0, 3000), name="pressure")
    return lb.recover(frame, y, activation="relu"), frame, clean


def test_kinks_stand_in_the_columns_and_units_of_the_data(found) -> None:
    units = {unit.leading: unit for unit in found[0].summary().units}
    assert set(units) == {"age", "dose"}
    for name, place, slope in (("age", 40.0, 2.0), ("dose", 4.0, -5.0)):
        unit = units[name]
        above = max(unit.before[0], unit.after[0], key=lambda one: abs(one.value))
        assert abs(unit.location.value - place) < 4.0 * unit.location.se < 4.0
        assert abs(above.value - slope) < 4.0 * above.se < 1.0
        assert unit.p_value < 1e-6
    other = next(term.coefficient for term in units["age"].terms if term.column == "dose")
    assert abs(other.value - 0.5) < 4.0 * other.se < 1.0
    assert units["age"].beyond == pytest.approx(0.69, abs=0.03)


def test_a_kink_moves_with_the_unit_of_its_column(found) -> None:
    _, frame, clean = found
    months = frame.assign(age=12.0 * frame.age)
    y = pandas.Series(clean + np.random.default_rng(4).normal(0.0, 3.0, len(clean)), name="pressure")
    years, scaled = (next(unit for unit in lb.recover(x, y, activation="relu").summary().units if unit.leading == "age")
                     for x in (frame, months))
    assert scaled.location.value == pytest.approx(12.0 * years.location.value, rel=1e-5)
    assert scaled.location.se == pytest.approx(12.0 * years.location.se, rel=0.02)


def test_every_form_has_the_same_numbers(found) -> None:
    summary = found[0].summary()
    frame, plain, text = summary.to_frame(), summary.to_dict(), str(summary)
    first = plain["units"][0]
    assert json.loads(summary.to_json()) == plain
    row = frame[(frame.unit == 1) & (frame.column == first["leading"])].iloc[0]
    assert row.location == first["location"]["value"] and row.location_se == first["location"]["se"]
    for form in (text, summary.to_html(), summary.to_csv(), summary.to_latex()):
        assert "age" in form and "dose" in form
    assert str(summary.units[0].location) in text and "pressure" in text
    assert summary.to_latex().count(r"\\") == 1 + 4 + 1 + 2


def test_names_of_any_letters_stay_one_cell_in_every_form(found) -> None:
    """Names with letters that mean something to LaTeX, HTML or a terminal, and one name twice."""
    _, frame, clean = found
    odd = frame.set_axis(["a_{\\x}~^|$%&#", "<b>\nc"], axis=1)
    y = pandas.Series(clean + np.random.default_rng(4).normal(0.0, 3.0, len(clean)), name="<y> & z_1")
    summary = lb.recover(odd, y, activation="relu").summary()
    assert set(summary.to_frame().column) == {*odd.columns, "offset"}
    latex = summary.to_latex()
    assert r"a\_\{\textbackslash{}x\}\textasciitilde{}\textasciicircum{}\textbar{}\$\%\&\#" in latex
    assert r"\textless{}b\textgreater{} c" in latex and "R$^2$ on fresh rows" in latex and "verified: These" in latex
    assert all(line.count(" & ") == 7 for line in latex.splitlines()[4:9])
    assert "&lt;b&gt;" in summary.to_html() and "<b>\nc" not in summary.to_html()
    assert "  <b> c " in str(summary)
    twice = lb.recover(frame.set_axis(["age", "age"], axis=1), y, activation="relu").summary()
    assert set(twice.to_dict()["units"][0]["columns"]) == {"age [0]", "age [1]"}


def test_a_loaded_recovery_has_the_same_summary_and_intervals(found, tmp_path) -> None:
    recovery, frame, _ = found
    recovery.save(tmp_path / "found.safetensors")
    again = lb.load(tmp_path / "found.safetensors")
    assert str(again.summary()) == str(recovery.summary())
    for one, other in zip(again.predict(frame[:5]), recovery.predict(frame[:5]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_intervals_cover_the_mean_and_new_answers(found) -> None:
    """Over 2,000 new rows; 150 fresh rows set the second interval: its coverage has a standard deviation of 0.018."""
    recovery, _, _ = found
    rng = np.random.default_rng(9)
    x = np.column_stack([rng.normal(45.0, 10.0, 2000), rng.normal(3.0, 2.0, 2000)])
    clean = 2.0 * np.maximum(0.0, x[:, 0] + 0.5 * (x[:, 1] - 3.0) - 40.0) - 5.0 * np.maximum(0.0, x[:, 1] - 4.0) + 7.0
    given = recovery.predict(x, interval=0.95)
    assert np.mean((given.lower <= clean) & (clean <= given.upper)) > 0.6  # one fit: errors of rows go together
    new = clean + rng.normal(0.0, 3.0, 2000)
    assert abs(np.mean((given.new_lower <= new) & (new <= given.new_upper)) - 0.95) < 4.0 * 0.018
    assert np.all(recovery.predict(x[:9], interval=0.5).upper < given.upper[:9])
    np.testing.assert_allclose(given.mean, recovery(x))


def test_an_interval_that_is_no_share_is_refused(found, unchecked) -> None:
    with pytest.raises(InvalidInput, match="interval is 95"):
        found[0].predict(found[1], interval=95)


@pytest.mark.parametrize(("value", "se", "text"), [
    (27.3149, 0.4216, "27.3 ± 0.4"), (27.3149, 0.1216, "27.31 ± 0.12"), (1234.5, 96.0, "1230 ± 100"),
    (0.0012345, 0.00004, "0.00123 ± 0.00004"),
    (5.0, 0.0, "5"), (5.0, float("inf"), "5 ± inf"), (-0.0001, 0.02, "0.000 ± 0.020"), (3.2e9, 1.4e8, "3.20e9 ± 0.14e9"),
    (-0.0422001093989, 1.6e-14, "-0.0422001 ± 2e-14")])
def test_numbers_are_rounded_by_their_errors(value: float, se: float, text: str) -> None:
    assert str(Quantity(value, se)) == text


def test_an_unknown_error_leaves_five_digits() -> None:
    assert round_by_error(1.23456789, float("nan")) == ("1.2346", "")


def test_columns_in_another_order_are_refused_where_names_tell(found) -> None:
    recovery, frame, _ = found
    with pytest.raises(InvalidInput, match="dose, age"):
        recovery.predict(frame[["dose", "age"]])
    np.testing.assert_array_equal(recovery.predict(frame.to_numpy()[:5]).mean, recovery.predict(frame[:5]).mean)
