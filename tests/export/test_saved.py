"""A recovery that is saved and loaded says what it said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import laybare as lb


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_recovery_comes_back(noise: float, tmp_path: Path, rng: np.random.Generator) -> None:
    truth = lb.random_network(3, 2, rng=rng)
    x = rng.standard_normal((200, 3))
    found = lb.recover(lb.Samples(x, truth(x) + noise * rng.standard_normal(200)), width=2, rng=0)
    found.save(tmp_path / "found.safetensors")
    again = lb.load(tmp_path / "found.safetensors")
    assert isinstance(again, lb.Recovery)
    assert str(again) == str(found)
    assert again.certificate.claims == found.certificate.claims
    assert again.certificate.findings == found.certificate.findings
    assert again.certificate.resolution == found.certificate.resolution
    for mine, theirs in zip(again.certificate.standard_errors, found.certificate.standard_errors, strict=True):
        assert_array_equal(mine, theirs)
    assert_array_equal(again(x), found(x))
    assert again.traces[-1].rows == tuple(row for trace in found.traces for row in trace.rows)
    again.report(str(tmp_path / "again.html"))
    assert found.certificate.verdict in (tmp_path / "again.html").read_text()


def test_networks_load_as_before(tmp_path: Path) -> None:
    truth = lb.random_network(3, 2, rng=0)
    truth.save(tmp_path / "net.safetensors")
    assert isinstance(lb.load(tmp_path / "net.safetensors"), lb.Network)


def test_file_that_only_says_that_it_is_a_recovery(tmp_path: Path) -> None:
    from laybare.networks.network_files import Contents, write_contents

    write_contents(tmp_path / "bad.safetensors", Contents({"trace": np.zeros((0, 5))}, {"format": "recovery", "version": 1}))
    with pytest.raises(lb.errors.InvalidInput, match="says that it holds a recovery"):
        lb.load(tmp_path / "bad.safetensors")
