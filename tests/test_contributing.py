"""CONTRIBUTING's checklist for a new method is true: one new file, and `recover` takes it."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np

import laybare as lb

GUIDE = Path(__file__).parent.parent / "CONTRIBUTING.md"


def test_the_method_of_the_guide_runs_through_recover(tmp_path: Path) -> None:
    (text,) = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    file = tmp_path / "along_axes.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("along_axes", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    method = module.AlongAxes()
    assert isinstance(method, lb.Method)

    rng = np.random.default_rng(0)
    truth = lb.random_network(5, 4, rng=rng)
    x = rng.standard_normal((800, 5))
    found = lb.recover(lb.Samples(x, truth(x)), method, 4, rng=0)
    assert found.certificate.verdict == "verified", found.certificate.explain()
    assert lb.compare(found.network, truth).max_error < 1e-10
    assert "by AlongAxes from 800 samples" in str(found)
    assert "units along the axes" in {claim.name for claim in found.certificate.claims}


def test_every_place_that_the_guide_names_is_there() -> None:
    places = set(re.findall(r"`((?:src|tests|docs|benchmarks)/[\w/.]+)`", GUIDE.read_text(encoding="utf-8")))
    assert len(places) > 10
    missing = [place for place in places if not (GUIDE.parent / place).exists()]
    assert not missing
