"""`--law normal` is N(0, I) with nothing estimated: rows of zeros and ones come back as such."""

from __future__ import annotations

import numpy as np
from click.testing import CliRunner

import laybare as lb
from laybare import cli
from laybare.networks.polynomials import Polynomial, multilinear
from laybare.planted import PlantedTarget
from laybare.source import as_law

BLOCKS = lb.Layer(np.kron(np.eye(2), np.ones((1, 3))), None, lb.exponential(0.5))


def test_normal_by_name_is_the_standard_law() -> None:
    assert as_law("normal") == lb.Gaussian(0, 1) and as_law("gaussian") == lb.Gaussian()


def test_rows_of_theorem_7_by_command_are_zeros_and_ones(tmp_path) -> None:
    """By estimates they came back as 0.992."""
    target = PlantedTarget(BLOCKS, Polynomial(multilinear(2, 2), np.array([0.0, 9.0, 9.0, 0.1])))
    x = np.random.default_rng(3).standard_normal((20_000, 6))
    np.savez(tmp_path / "data.npz", x=x, y=target(x))
    said = CliRunner().invoke(cli.commands, [
        "recover-layer", str(tmp_path / "data.npz"), "--law", "normal", "--literal", "--activation", "exponential(0.5)",
        "--width", "2", "--out", str(tmp_path / "layer.npz")])
    assert said.exit_code in (0, 3, 4), said.output
    with np.load(tmp_path / "layer.npz") as found:
        assert set(np.unique(found["weights"])) == {0.0, 1.0}
