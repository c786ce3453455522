"""A release: one version everywhere, and a wheel that installs and runs where nothing else is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import laybare as lb

ROOT = Path(__file__).parent.parent


def test_the_version_stands_in_one_place_and_others_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"] and "version" not in project["project"]
    assert (ROOT / project["tool"]["hatch"]["version"]["path"]).read_text(encoding="utf-8").count("__version__ = ") == 1
    assert f"\nversion: {lb.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version = {{{lb.__version__}}}" in (ROOT / "docs" / "cite.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[{re.escape(lb.__version__)}\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)


def test_what_a_user_may_install() -> None:
    """An extra for everything, torch from a version on, not one alone; a typing marker; the classifiers name the Pythons."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    (everything,) = extras["all"]
    assert set(re.findall(r"\w+", everything)) - {"laybare"} == set(extras) - {"all", "docs", "dev"}
    assert all(">=" in one and "==" not in one for name in set(extras) - {"all", "dev"} for one in extras[name])
    assert (ROOT / "src" / "laybare" / "py.typed").exists() and "Typing :: Typed" in project["classifiers"]
    assert {"Programming Language :: Python :: 3.11", "Programming Language :: Python :: 3.14"} <= set(project["classifiers"])


@pytest.mark.slow
def test_the_wheel_runs_in_an_empty_environment(tmp_path: Path) -> None:
    """The wheel is made of the source distribution, as anybody would make it who has that alone."""
    subprocess.run([sys.executable, "-m", "build", "--outdir", tmp_path, ROOT], check=True, timeout=600)
    (wheel,), (sources,) = tmp_path.glob("laybare-*.whl"), tmp_path.glob("laybare-*.tar.gz")
    with tarfile.open(sources) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "CHANGELOG.md", "LICENSE", "CITATION.cff", "Makefile", "tests/test_release.py"} <= inside
    assert wheel.name.startswith(f"laybare-{lb.__version__}-")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "laybare/py.typed" in names and "laybare/report/templates/page.html.j2" in names
    assert {name.split("/")[0] for name in names} == {"laybare", f"laybare-{lb.__version__}.dist-info"}
    assert not [name for name in names if re.search(r"(^|/)(tests/|test_|conftest)", name)]
    venv.create(tmp_path / "empty", with_pip=True)
    run = tmp_path / "empty" / "bin"
    subprocess.run([run / "pip", "install", "-q", wheel], check=True, timeout=1200)
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # nothing but what the wheel brought
    done = subprocess.run(
        [run / "laybare", "demo", "--width", "4"], cwd=tmp_path, env=bare, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and "verdict: verified" in done.stdout and (tmp_path / "laybare-demo.html").exists()
