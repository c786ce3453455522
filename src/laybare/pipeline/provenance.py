"""Where a result comes from: version, call, seed, a fingerprint of the data, the names of their columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from laybare.source import Samples
from laybare.source.columns import Columns
from laybare.source.fingerprint import fingerprint
from laybare.version import __version__

FINGERPRINT_BYTES = 64 << 20
"""Bytes of the data that a fingerprint reads: all rows up to that, then blocks spread evenly."""

BLOCK = 4096
"""Rows of such a block."""


@dataclass(frozen=True)
class Provenance:
    """What is needed to do it again, and to see that it was done on the same data.

    `seed` is None where a Generator was given; `data` says in words what the data were, `fingerprint` is empty for a black box.
    """

    version: str
    call: str
    seed: int | None
    data: str
    fingerprint: str = ""
    columns: Columns = Columns()


def provenance_of(verb: str, source: Any, rng: Generator | int, **choices: Any) -> Provenance:
    """Of a call `verb(source, **choices, rng=rng)`."""
    seed = int(rng) if isinstance(rng, int | np.integer) else None
    given = ", ".join(f"{name}={_spelled(value)}" for name, value in choices.items() if value is not None)
    data = described(source)
    return Provenance(
        __version__, f"{verb}({', '.join(part for part in (data, given, f'rng={_spelled(rng)}') if part)})", seed, data,
        spread_fingerprint(source) if isinstance(source, Samples) else "", getattr(source, "columns", Columns()))


def described(source: Any) -> str:
    """A source in words, without what is in it: that of a black box would cost queries."""
    kind = type(source).__name__
    if isinstance(source, Samples):
        inputs, outputs = (f"{count} {name}{'s' * (count > 1)}" for count, name in (
            (source.dim, "input"), (source.outputs, "output")))
        return f"{kind}({source.size:,} rows, {inputs}, {outputs}, law={source.law})"
    budget = getattr(source, "budget", None)
    return f"{kind}({source.dim} inputs{'' if budget is None else f', budget={budget:,}'})"


def spread_fingerprint(source: Samples) -> str:
    """Of the shape and the numbers as float64; of blocks spread evenly where there are more than 64 MB of them."""
    blocks = -(-source.size // BLOCK)
    most = max(1, FINGERPRINT_BYTES // (8 * BLOCK * (source.dim + source.outputs)))
    chosen = np.unique(np.linspace(0, blocks - 1, min(blocks, most)).astype(int)).tolist()

    def one(block: int) -> str:
        return fingerprint(*source.read(block * BLOCK, min((block + 1) * BLOCK, source.size)))

    return fingerprint((source.size, source.dim, source.outputs), [one(block) for block in chosen])


def _spelled(value: Any) -> str:
    return "a Generator" if isinstance(value, Generator) else str(getattr(value, "name", None) or repr(value))
