"""Recoveries as files: the networks, the certificate with its standard errors, and the solver's steps, in one safetensors file.

Arrays lie under "network.", "start.", "errors." and "trace"; the claims stand in the description, numbers that JSON does not
know (inf, nan) as words. The method is stored by name only.
"""

from __future__ import annotations

from dataclasses import asdict
from os import PathLike, fspath
from typing import Any

import numpy as np

from laybare.certificate import Certificate, Claim, StandardErrors
from laybare.damping import Trace, TraceRow
from laybare.errors import InvalidInput
from laybare.networks import Network
from laybare.networks.files import contents_of, network_in
from laybare.networks.storage import Contents, read, write
from laybare.pipeline.provenance import Provenance
from laybare.pipeline.recovery import Recovery
from laybare.source.columns import Columns

FORMAT, VERSION = "recovery", 1
NUMBERS = ("value", "threshold")
MEASURED = ("noise", "explained", "visible", "held_out", "held_out_error")


def save(found: Recovery, path: str | PathLike[str]) -> None:
    """Write a recovery, complete or not at all."""
    parts = {"network": contents_of(found.network), "start": contents_of(found.start)}
    arrays = {f"{name}.{key}": array for name, part in parts.items() for key, array in part.arrays.items()}
    arrays |= {f"errors.{key}": np.asarray(array) for key, array in found.certificate.standard_errors._asdict().items()}
    rows = [row for trace in found.traces for row in trace.rows]
    arrays["trace"] = np.array(rows, dtype=float).reshape(len(rows), len(TraceRow._fields))
    certificate = found.certificate
    description = {
        "format": FORMAT, "version": VERSION, "by": found.found_by, "seconds": found.seconds, "samples_used": found.samples_used,
        "queries": found.queries,
        "claims": [_written(asdict(claim)) for claim in certificate.claims],
        "certificate": {key: repr(float(getattr(certificate, key))) for key in MEASURED},
        "because": certificate.reason, "reason": found.traces[-1].reason if found.traces else None,
        "provenance": None if found.provenance is None else asdict(found.provenance),
        "parts": {name: part.description for name, part in parts.items()}}
    write(path, Contents(arrays, description))


def load(path: str | PathLike[str]) -> Network | Recovery:
    """What `network.save(path)` or `found.save(path)` wrote. Anything else is refused; nothing in a file is ever run."""
    contents = read(path)
    if contents.description.get("format") != FORMAT:
        return network_in(contents, fspath(path))
    try:
        return _recovery(contents, fspath(path))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(
            f"{fspath(path)} says that it holds a recovery, and does not ({error}).", "It was damaged or written by hand.",
            "Save it again with found.save(path).") from error


def _recovery(contents: Contents, path: str) -> Recovery:
    arrays, told = contents
    if told["version"] != VERSION:
        raise InvalidInput(
            f"{path} has version {told['version']} of the format.", f"This laybare reads version {VERSION}.",
            "Use a newer laybare.")
    network, start = (
        network_in(Contents(_under(arrays, name), told["parts"][name]), path) for name in ("network", "start"))
    numbers = {key: float(text) for key, text in told["certificate"].items()}
    claims = tuple(Claim(**_read(claim)) for claim in told["claims"])
    certificate = Certificate(claims, StandardErrors(**_under(arrays, "errors")), **numbers, reason=str(told.get("because", "")))
    rows = tuple(TraceRow(*row)._replace(samples=int(row[-1])) for row in arrays["trace"].tolist())
    traces = () if told["reason"] is None else (Trace(rows, str(told["reason"])),)
    return Recovery(
        network, start, certificate, None, float(told["seconds"]), int(told["samples_used"]), traces, dict(told["queries"]),
        str(told["by"]), _provenance(told.get("provenance")))


def _provenance(told: dict[str, Any] | None) -> Provenance | None:
    """Files of version 0.1 have none."""
    if told is None:
        return None
    return Provenance(**told | {"columns": Columns(*(tuple(map(str, names)) for names in told["columns"]))})


def _under(arrays: dict[str, Any], name: str) -> dict[str, Any]:
    return {key.partition(".")[2]: array for key, array in arrays.items() if key.startswith(f"{name}.")}


def _written(claim: dict[str, Any]) -> dict[str, Any]:
    return claim | {key: repr(float(claim[key])) for key in NUMBERS} | {"passed": bool(claim["passed"])}


def _read(claim: dict[str, Any]) -> dict[str, Any]:
    return claim | {key: float(claim[key]) for key in NUMBERS}
