"""A recovery in a file, and back.

A file (safetensors) holds both networks, the certificate with its standard errors, and the solver's steps. Arrays lie under
"network.", "start.", "errors." and "trace"; the claims stand in the description, with numbers that JSON does not know (inf, nan)
as words. The method is stored by name only.
"""

from __future__ import annotations

from dataclasses import asdict
from os import PathLike, fspath
from typing import Any

import numpy as np

from laybare.certificate import Assurance, Certificate, Claim, Findings, Resolution, StandardErrors
from laybare.certificate.data_profile import DataProfile
from laybare.errors import InvalidInput
from laybare.networks import Network
from laybare.networks.network_files import contents_of, network_in
from laybare.networks.storage import Contents, read_contents, write_contents
from laybare.pipeline.recovery import Provenance, Recovery
from laybare.solver import Trace, TraceRow
from laybare.source.arrays import ColumnNames
from laybare.source.losses import Loss

FORMAT, FORMAT_VERSION = "recovery", 1
"""Convention: how a file says what it is."""
NUMBERS = ("value", "threshold")
PROFILE_ARRAYS, PROFILE_NUMBERS = ("means", "spreads", "beyond", "scores"), ("used", "fresh", "unexplained")
"""What of a profile is saved: no row of the data."""
MEASURED = ("noise", "explained", "visible", "held_out", "held_out_error")


def save(found: Recovery, path: str | PathLike[str]) -> None:
    """Write a recovery, complete or not at all."""
    parts = {"network": contents_of(found.network), "start": contents_of(found.start)}
    arrays = {f"{name}.{key}": array for name, part in parts.items() for key, array in part.arrays.items()}
    arrays |= {f"errors.{key}": np.asarray(array) for key, array in found.certificate.standard_errors._asdict().items()}
    if found.certificate.covariance is not None:
        arrays["covariance"] = found.certificate.covariance
    if found.profile is not None:
        arrays |= {f"profile.{key}": getattr(found.profile, key) for key in PROFILE_ARRAYS}
    rows = [row for trace in found.traces for row in trace.rows]
    arrays["trace"] = np.array(rows, dtype=float).reshape(len(rows), len(TraceRow._fields))
    certificate = found.certificate
    description = {
        "format": FORMAT, "version": FORMAT_VERSION, "by": found.found_by, "seconds": found.seconds,
        "samples_used": found.samples_used, "queries": found.queries,
        "claims": [_claim_to_json(asdict(claim)) for claim in certificate.claims],
        "certificate": {key: repr(float(getattr(certificate, key))) for key in MEASURED},
        "assurance": None if certificate.assurance is None else list(certificate.assurance),
        "findings": certificate.findings._asdict(), "because": certificate.reason,
        "resolution": None if certificate.resolution is None else [repr(float(part)) for part in certificate.resolution],
        "reason": found.traces[-1].reason if found.traces else None,
        "provenance": None if found.provenance is None else asdict(found.provenance), "loss": asdict(found.loss),
        "profile": None if found.profile is None else {key: getattr(found.profile, key) for key in PROFILE_NUMBERS},
        "parts": {name: part.description for name, part in parts.items()}}
    write_contents(path, Contents(arrays, description))


def load(path: str | PathLike[str]) -> Network | Recovery:
    """What `network.save(path)` or `found.save(path)` wrote. Anything else is refused; nothing in a file is ever run."""
    contents = read_contents(path)
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
    arrays, description = contents
    if description["version"] != FORMAT_VERSION:
        raise InvalidInput(
            f"{path} has version {description['version']} of the format.", f"This laybare reads version {FORMAT_VERSION}.",
            "Use a newer laybare.")
    network, start = (
        network_in(Contents(_under(arrays, name), description["parts"][name]), path) for name in ("network", "start"))
    measured = {key: float(text) for key, text in description["certificate"].items()}
    claims = tuple(Claim(**_claim_from_json(claim)) for claim in description["claims"])
    errors, reason = StandardErrors(**_under(arrays, "errors")), str(description.get("because", ""))
    assured = description.get("assurance")
    assurance = None if assured is None else Assurance(
        float(assured[0]), float(assured[1]), int(assured[2]), *map(str, assured[3:]))
    certificate = Certificate(
        claims, errors, **measured, reason=reason, assurance=assurance, covariance=arrays.get("covariance"),
        findings=Findings(**description.get("findings", {})), resolution=_resolution(description.get("resolution")))
    numbers = description.get("profile")
    profile = None if numbers is None else DataProfile(**_under(arrays, "profile"), **numbers, rows=None)
    rows = tuple(TraceRow(*row)._replace(samples=int(row[-1])) for row in arrays["trace"].tolist())
    traces = () if description["reason"] is None else (Trace(rows, str(description["reason"])),)
    return Recovery(
        network, start, certificate, None, float(description["seconds"]), int(description["samples_used"]), traces,
        dict(description["queries"]), str(description["by"]), _provenance(description.get("provenance")), profile,
        Loss(**description.get("loss", {})))


def _resolution(numbers: list[str] | None) -> Resolution | None:
    """Files of version 0.2 have none."""
    if numbers is None:
        return None
    level, bound, challengers, error = map(float, numbers)
    return Resolution(level, bound, int(challengers), error)


def _provenance(description: dict[str, Any] | None) -> Provenance | None:
    """Files of version 0.1 have none."""
    if description is None:
        return None
    return Provenance(**description | {"columns": ColumnNames(*(tuple(map(str, names)) for names in description["columns"]))})


def _under(arrays: dict[str, Any], name: str) -> dict[str, Any]:
    return {key.partition(".")[2]: array for key, array in arrays.items() if key.startswith(f"{name}.")}


def _claim_to_json(claim: dict[str, Any]) -> dict[str, Any]:
    return claim | {key: repr(float(claim[key])) for key in NUMBERS} | {
        "passed": bool(claim["passed"]), "decisive": bool(claim["decisive"]),
        "explanations": [_claim_to_json(check) for check in claim["explanations"]]}


def _claim_from_json(claim: dict[str, Any]) -> dict[str, Any]:
    return claim | {key: float(claim[key]) for key in NUMBERS} | {
        "explanations": tuple(Claim(**_claim_from_json(check)) for check in claim.get("explanations", ()))}
