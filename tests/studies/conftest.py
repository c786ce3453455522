"""Studies step many thousands of times through functions whose shapes the tests of their own rooms check."""

import pytest


@pytest.fixture(autouse=True)
def without_shape_checks(unchecked: None) -> None:
    """No shape checks here: with them the studies took four times as long."""
