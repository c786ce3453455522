"""Where a black box is asked: rows, scalers of models, standard units and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import laybare as lb
from laybare.errors import InvalidInput
from laybare.source.oracle.regions import InputRegion, RowMixture, read_rows


@pytest.fixture
def rows(rng: np.random.Generator) -> np.ndarray:
    x = rng.normal([500.0, 0.02, -3.0], [80.0, 0.004, 1.0], (60, 3))
    x[:, 2] = -3.0
    return x


def test_location_scale_range_and_constant_inputs(rows: np.ndarray) -> None:
    region = lb.Oracle(lambda x: x[:, 0], 3, inputs=rows).region
    assert region is not None
    assert_allclose(region.location, rows.mean(axis=0))
    assert_allclose(region.scale[:2], rows.std(axis=0)[:2])
    assert_allclose(region.scale[2], np.median(rows.std(axis=0)[:2]))
    assert region.constant == (2,)
    assert_allclose(region.high, rows.max(axis=0))
    assert "like the 60 rows given" in region.sentence
    assert "1 of them never change (input 2)" in region.sentence


@pytest.mark.parametrize("ending", ["npy", "npz", "csv", "frame"])
def test_rows_come_from_files_and_frames(ending: str, rows: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / f"rows.{ending}"
    given: Any = path
    if ending == "npy":
        np.save(path, rows)
    elif ending == "npz":
        np.savez(path, x=rows)
    elif ending == "csv":
        np.savetxt(path, rows, delimiter=",", header="area,smoothness,bias", comments="", fmt="%.17g")
    else:
        given = pytest.importorskip("pandas").DataFrame(rows, columns=["area", "smoothness", "bias"])
    oracle = lb.Oracle(lambda x: x[:, 0], inputs=given)
    assert oracle.dim == 3
    assert_allclose(oracle.region.location, rows.mean(axis=0))
    assert oracle.columns.inputs == (("area", "smoothness", "bias") if ending in ("csv", "frame") else ())


def test_drawn_inputs_lie_between_rows(rows: np.ndarray) -> None:
    x = lb.Oracle(lambda x: x[:, 0], inputs=rows).typical(200)
    assert (x >= rows.min(axis=0)).all() and (x <= rows.max(axis=0)).all()
    assert_allclose(x.mean(axis=0), rows.mean(axis=0), atol=4 * rows.std(axis=0).max() / np.sqrt(60))
    assert len(np.unique(RowMixture(rows)(np.random.default_rng(0), 50), axis=0)) == 50


@pytest.mark.parametrize(
    "bad", [np.ones((5, 4)), np.ones(7), [[1.0, np.nan, 2.0], [0.0, 1.0, 2.0]], np.ones((1, 3)), 5, "rows.txt"])
def test_what_are_no_rows_is_refused(bad: Any, unchecked: None) -> None:
    with pytest.raises(InvalidInput):
        lb.Oracle(lambda x: x[:, 0], 3, inputs=bad)


def test_a_network_in_standard_units_is_carried_back(rng: np.random.Generator) -> None:
    region = InputRegion.of_rows(rng.normal(3.0, 5.0, (50, 4)), "here")
    for outputs, linear in ((1, None), (2, rng.standard_normal((4, 2)))):
        layer = lb.Layer(rng.standard_normal((6, 4)), rng.standard_normal(6), lb.relu)
        readout = rng.standard_normal(6) if outputs == 1 else rng.standard_normal((6, 2))
        network = lb.Network(layer, readout, 0.5, linear)
        u = rng.standard_normal((20, 4))
        assert_allclose(region.network_on_given(network)(region.given(u)), network(u), atol=1e-10)
        assert_allclose(region.white(region.given(u)), u, atol=1e-12)


def test_a_view_in_standard_units_asks_the_same_black_box(rows: np.ndarray) -> None:
    oracle = lb.Oracle(lambda x: x @ np.array([1.0, 2.0, 3.0]), inputs=rows, box=(rows.min() - 900, rows.max() + 900))
    view = oracle.standardised()
    u = np.zeros((1, 3))
    assert_allclose(view.ask(u), oracle.ask(oracle.region.location[None]))
    assert view.spent == oracle.spent == 2
    assert_allclose(view.as_given.box.low, oracle.box.low)
    assert np.abs(view.typical(100)).max() < 6.0


@pytest.mark.parametrize("scaler", ["StandardScaler", "MinMaxScaler", "RobustScaler"])
def test_the_scaler_of_a_pipeline_says_where(scaler: str, rows: np.ndarray, rng: np.random.Generator) -> None:
    from sklearn import preprocessing
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline

    x = rng.normal([500.0, 0.02], [80.0, 0.004], (200, 2))
    model = make_pipeline(getattr(preprocessing, scaler)(), LinearRegression()).fit(x, x[:, 0])
    region = lb.Oracle(model).region
    assert region is not None and f"the pipeline's {scaler}" in region.said
    assert (np.abs(region.location - x.mean(axis=0)) < x.std(axis=0)).all()
    assert_allclose(region.scale / x.std(axis=0), 1.0, rtol=0.7)


def test_a_pickle_gets_the_right_sentence() -> None:
    with pytest.raises(InvalidInput, match=r"is a pickle.*Export the model to ONNX"):
        lb.Oracle("model.pt", 3)


def test_rows_of_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        read_rows(tmp_path / "none.csv", None)


def test_a_table_with_more_than_inputs_is_refused_without_advice_that_nobody_can_follow(tmp_path: Path) -> None:
    """A black box has no option to leave columns out."""
    path = tmp_path / "rows.csv"
    path.write_text("a,site\n1,north\n2,south\n")
    with pytest.raises(InvalidInput, match=r"'north' in column site.* and nothing else") as caught:
        read_rows(path, None)
    assert "drop" not in str(caught.value)
