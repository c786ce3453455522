"""Schemas of SARIF 2.1.0: the structure of what audits write, and the whole of the standard where it is at hand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

STRUCTURE: dict[str, Any] = json.loads((Path(__file__).parent / "sarif_structure.json").read_text(encoding="utf-8"))
"""What sections 3.13 to 3.55 say of the objects that an audit writes."""

OFFICIAL = os.environ.get("LAYBARE_SARIF_SCHEMA", "")
"""The file of the schema that OASIS publishes; `make test-sarif` gets it and sets this."""
