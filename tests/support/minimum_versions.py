"""The lowest versions that pyproject.toml declares, as pip takes them: `numpy>=2.0` becomes `numpy==2.0`.

    python tests/support/minimum_versions.py            those of laybare and of its extras
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

EXTRAS = ("onnx", "dask", "parquet", "zarr")
"""All but torch, which is pinned, and large."""


def declared(project: Path = Path(__file__).parents[2] / "pyproject.toml") -> list[str]:
    """Requirements of the library and of its extras, as they are written."""
    held = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    return [*held["dependencies"], *(one for extra in EXTRAS for one in held["optional-dependencies"][extra])]


def lowest(requirement: str) -> str:
    """The lowest version that satisfies `name>=version`, or `name[extras]>=version,<other`."""
    found = re.fullmatch(r"([\w-]+(?:\[[\w,]+\])?)>=([\w.]+)(,.*)?", requirement)
    assert found, requirement
    return f"{found[1]}=={found[2]}"


def main() -> None:
    print(*map(lowest, declared()), sep="\n")


if __name__ == "__main__":
    main()
