"""`import laybare` is quick and brings in nothing slow."""

from __future__ import annotations

import os
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


def python(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python as a user would have it: compiled modules are kept (here, in a folder of their own)."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path), "OPENBLAS_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True, timeout=120)


def test_no_slow_library_is_imported(tmp_path: Path) -> None:
    lines = python(tmp_path, "-X", "importtime", "-c", "import laybare").stderr.splitlines()
    imported = {line.rsplit("|", 1)[1].strip().split(".")[0] for line in lines if line.startswith("import time:")}
    assert "laybare" in imported
    assert not imported & SLOW


def test_methods_are_imported_when_they_are_named(tmp_path: Path) -> None:
    later = "import sys, laybare\nprint([m for m in sys.modules if m.startswith(('laybare.landscape', 'laybare.methods.te'))])"
    assert python(tmp_path, "-c", later).stdout.strip() == "[]"
    assert python(tmp_path, "-c", "import laybare as lb; print(lb.TensorInit.__name__)").stdout.strip() == "TensorInit"


def test_every_public_name_is_there(tmp_path: Path) -> None:
    check = "import laybare; from laybare import *; print(all(hasattr(laybare, name) for name in dir(laybare)))"
    assert python(tmp_path, "-c", check).stdout.strip() == "True"


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'laybare' has no attribute 'tensor_init'"):
        laybare.tensor_init  # noqa: B018


def test_import_takes_little_beyond_numpy_and_scipy(tmp_path: Path) -> None:
    python(tmp_path, "-c", MEASURE)  # compiles
    assert min(float(python(tmp_path, "-c", MEASURE).stdout) for _ in range(3)) < ALLOWED_SECONDS  # 0.16 on two busy cores
