"""`import laybare` is quick and brings in nothing slow."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import laybare

SLOW = {"sklearn", "matplotlib", "click", "rich", "dask", "torch", "jinja2", "pandas", "polars", "onnx", "pyarrow"}
ALLOWED_SECONDS = 0.3

MEASURE = """
import time, numpy, scipy.linalg, scipy.special
begun = time.process_time()
import laybare
print(time.process_time() - begun)
"""


def python(*arguments: str, first: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python as a user would; modules in `first` come before all others."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(str(path) for path in (first, *sys.path) if path)
    if first is not None:
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True, timeout=120)


def test_no_slow_library_is_imported() -> None:
    lines = python("-X", "importtime", "-c", "import laybare").stderr.splitlines()
    imported = {line.rsplit("|", 1)[1].strip().split(".")[0] for line in lines if line.startswith("import time:")}
    assert "laybare" in imported
    assert not imported & SLOW


def test_methods_are_imported_when_they_are_named() -> None:
    later = (
        "import sys, laybare as lb\n"
        "print([m for m in sys.modules if m.startswith(('laybare.landscape', 'laybare.methods.te'))], lb.TensorInit.__name__)")
    assert python("-c", later).stdout.split() == ["[]", "TensorInit"]


def test_every_public_name_is_there() -> None:
    check = "import laybare; from laybare import *; print(all(hasattr(laybare, name) for name in dir(laybare)))"
    assert python("-c", check).stdout.strip() == "True"


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'laybare' has no attribute 'tensor_init'"):
        laybare.tensor_init  # noqa: B018


def test_import_takes_little_beyond_numpy_and_scipy(tmp_path: Path) -> None:
    """Of a copy whose modules are compiled, as pip compiles them."""
    shutil.copytree(Path(laybare.__file__).parent, tmp_path / "laybare", ignore=shutil.ignore_patterns("__pycache__"))
    python("-c", MEASURE, first=tmp_path)  # compiles
    assert min(float(python("-c", MEASURE, first=tmp_path).stdout) for _ in range(3)) < ALLOWED_SECONDS  # 0.16 on two busy cores
