"""Which data a result is from, by which call, with which libraries: to repeat it, and to check that the data are the same."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from platform import python_version
from typing import Any

import numpy as np
import scipy
from numpy.random import Generator

from laybare.source.checkpoint import fingerprint
from laybare.source.samples import ColumnNames, Samples
from laybare.version import __version__

FINGERPRINT_BYTES = 64 << 20
"""Bytes of the data that a fingerprint reads: all rows up to that, then blocks spread evenly. Convention: a tenth of a second."""

FINGERPRINT_ROWS = 4096
"""Rows of such a block. Convention: part of the definition of the fingerprint."""


@dataclass(frozen=True)
class Provenance:
    """What is needed to repeat a recovery, and to check that the data are the same.

    `seed` is None where a Generator was given; `data` says in words what the data were, `fingerprint` is empty for a black box;
    `date` is when it was found (UTC), `libraries` what it was computed with.
    """

    version: str
    call: str
    seed: int | None
    data: str
    fingerprint: str = ""
    columns: ColumnNames = ColumnNames()
    date: str = ""
    libraries: str = ""


def provenance_of(verb: str, source: Any, rng: Generator | int, **choices: Any) -> Provenance:
    """Of a call `verb(source, **choices, rng=rng)`."""
    seed = int(rng) if isinstance(rng, int | np.integer) else None
    given = ", ".join(f"{name}={_spell(value)}" for name, value in choices.items() if value is not None)
    data = describe_source(source)
    return Provenance(
        __version__, f"{verb}({', '.join(part for part in (data, given, f'rng={_spell(rng)}') if part)})", seed, data,
        sampled_fingerprint(source) if isinstance(source, Samples) else "", getattr(source, "columns", ColumnNames()),
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", library_versions())


def library_versions() -> str:
    """Python and the libraries that compute."""
    return f"Python {python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}"


def describe_source(source: Any) -> str:
    """A source in words, without its rows: those of a black box would cost queries."""
    if isinstance(source, Samples):
        return repr(source)
    budget = getattr(source, "budget", None)
    return f"{type(source).__name__}({source.dim} inputs{'' if budget is None else f', budget={budget:,}'})"


def sampled_fingerprint(source: Samples) -> str:
    """Hash of the shape and the values as float64; of blocks spread evenly where there are more than 64 MB."""
    blocks = -(-source.size // FINGERPRINT_ROWS)
    most = max(1, FINGERPRINT_BYTES // (8 * FINGERPRINT_ROWS * (source.dim + source.outputs)))
    chosen = np.unique(np.linspace(0, blocks - 1, min(blocks, most)).astype(int)).tolist()

    def one(block: int) -> str:
        return fingerprint(*source.read(block * FINGERPRINT_ROWS, min((block + 1) * FINGERPRINT_ROWS, source.size)))

    return fingerprint((source.size, source.dim, source.outputs), [one(block) for block in chosen])


def _spell(value: Any) -> str:
    return "a Generator" if isinstance(value, Generator) else str(getattr(value, "name", None) or repr(value))
