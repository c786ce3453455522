"""What CONTRIBUTING says is true: its examples run in their order, its places exist, and `recover` takes a method of one file."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np

import laybare as lb
from laybare.studies import STUDIES

GUIDE = Path(__file__).parent.parent / "CONTRIBUTING.md"
HOW_TO = ("Change a threshold", "A new activation", "A new study", "A new decomposition", "A new method")


def blocks() -> dict[str, str]:
    """The example of every section that has one."""
    sections = re.split(r"^## (.+)$", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    found = {title: re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
             for title, text in zip(sections[::2], sections[1::2], strict=True)}
    return {title: texts[0] for title, texts in found.items() if texts}


def test_every_list_has_steps_and_an_example() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert set(blocks()) == set(HOW_TO)
    for title in HOW_TO:
        section = text.split(f"## {title}\n")[1].split("\n## ")[0]
        assert len(re.findall(r"^\d+\. ", section, re.MULTILINE)) >= 4, title


def test_the_examples_run_one_after_the_other() -> None:
    names: dict[str, object] = {}
    for title in HOW_TO[:-1]:
        exec(compile(blocks()[title], title, "exec"), names)


def test_studies_that_the_guide_names_exist() -> None:
    named = set(re.findall(r"laybare reproduce ([\w-]+)", GUIDE.read_text(encoding="utf-8")))
    assert named and named <= set(STUDIES)


def test_the_method_of_the_guide_runs_through_recover(tmp_path: Path) -> None:
    text = blocks()["A new method"]
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
    assert "units along the axes" in {claim.name for claim in found.certificate.checks}


def test_every_place_that_the_guide_names_is_there() -> None:
    places = set(re.findall(r"`((?:src|tests|docs|benchmarks)/[\w/.]+)`", GUIDE.read_text(encoding="utf-8")))
    assert len(places) > 10
    missing = [place for place in places if not (GUIDE.parent / place).exists()]
    assert not missing
