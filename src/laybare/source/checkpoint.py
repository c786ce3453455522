"""A call that can be killed: its source with a journal, and what the journal must agree with."""

from __future__ import annotations

import platform
import sys
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from laybare.errors import InvalidInput
from laybare.source.fingerprint import data_fingerprint, fingerprint
from laybare.source.journal import Journal
from laybare.source.oracle import Oracle


def with_checkpoint(source: Any, folder: str | PathLike[str] | None, **call: Any) -> Any:
    """The same source; every long pass over it is written into `folder`, and given back if this same call was made before.

    One reading for the name of the data. A folder of other data, another call or another version is refused by what differs.
    Small passes and everything between passes are carried out again.
    """
    if folder is None:
        return source
    if isinstance(source, Oracle) and not source.logged:
        raise InvalidInput(
            "A checkpoint was asked for, and the oracle has no log.", "Its answers would be paid for again after a crash.",
            "Give the oracle a folder too: Oracle(target, log=...).")
    identity = {
        "version": f"laybare {sys.modules['laybare'].__version__}, numpy {np.__version__}, python {platform.python_version()}",
        "block_bytes": source.schedule.block_bytes, "data": data_fingerprint(source), "law": fingerprint(source.law),
        **{name: _told(value) for name, value in call.items()}}
    schedule = replace(source.schedule, journal=Journal(Path(folder), identity))
    return source.scheduled(schedule) if isinstance(source, Oracle) else source.with_schedule(schedule)


def _told(value: Any) -> Any:
    return value if value is None or isinstance(value, int | str) else fingerprint(value)
