"""`make test-minimum` installs the lowest versions that are declared."""

from __future__ import annotations

from pathlib import Path

import pytest
from minimum_versions import declared, lowest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(("requirement", "pin"), [
    ("numpy>=2.0", "numpy==2.0"), ("dask[array,dataframe]>=2024.12", "dask[array,dataframe]==2024.12"),
    ("a-b>=1.2,<2", "a-b==1.2")])
def test_the_lowest_version_of_a_requirement(requirement: str, pin: str) -> None:
    assert lowest(requirement) == pin


def test_every_declared_requirement_has_a_lowest_version() -> None:
    pins = [lowest(one) for one in declared()]
    assert len(pins) > 10
    assert any(pin.startswith("numpy==") for pin in pins)


def test_tests_that_run_with_them_are_there() -> None:
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").split("\ntest-minimum:")[1].split("\n\n")[0]
    paths = [word for word in recipe.split() if word.startswith("tests/")]
    assert len(paths) > 5
    assert [path for path in paths if not (ROOT / path).exists()] == []
