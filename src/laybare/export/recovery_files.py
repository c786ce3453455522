"""Networks and recoveries in files.

A recovery in a file, and back.

A file (safetensors) holds both networks, the certificate with its standard errors, and the solver's steps. Arrays lie under
"network.", "start.", "errors." and "trace"; the claims stand in the description, with numbers that JSON does not know (inf, nan)
as words. The method is stored by name only.

JSON text (every number in the shortest form that reads back to the same bits) and NumPy archives (arrays by name).
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from os import PathLike, fspath
from typing import Any

import numpy as np

from laybare.activations import activation_named
from laybare.certificate import Assurance, Certificate, Claim, Findings, Resolution, StandardErrors
from laybare.certificate.data_profile import DataProfile
from laybare.errors import InvalidInput
from laybare.export.chains import as_network
from laybare.networks import Layer, Network
from laybare.networks.network_files import FORMAT as NETWORK_FORMAT
from laybare.networks.network_files import (
    KEY,
    VERSION,
    Contents,
    check_ending,
    check_storable,
    contents_of,
    network_in,
    read_contents,
    write_atomically,
    write_contents,
)
from laybare.numerics.checks import as_reals, check_path, check_whole
from laybare.numerics.file_borders import archive_bytes, check_whole_file_fits, open_archive, reading
from laybare.numerics.shapes import Array
from laybare.pipeline.recovery import Recovery
from laybare.solver import Trace, TraceRow
from laybare.source.losses import Loss
from laybare.source.provenance import Provenance
from laybare.source.samples import ColumnNames


def to_json(network: Network, path: str | os.PathLike[str] | None = None) -> str:
    """The network as JSON text; written to `path` too if there is one.

    {"format": "network", "version": 1, "dim": d, "outputs": m or null, "layers": [{"activation", "weights", "biases"}, …],
    "readout", "offset", "linear"}; outputs null means one output given as a vector, linear null that there is no linear part.
    """
    names = check_storable(as_network(network))
    place = None if path is None else check_ending(path, ".json")
    layers = [
        {"activation": name, "weights": layer.weights.tolist(), "biases": np.asarray(layer.biases).tolist()}
        for name, layer in zip(names, network.layers, strict=True)]
    text = json.dumps({
        "format": NETWORK_FORMAT, "version": VERSION, "dim": network.dim,
        "outputs": None if network.readout.ndim == 1 else network.outputs, "layers": layers,
        "readout": network.readout.tolist(), "offset": np.asarray(network.offset).tolist(),
        "linear": None if network.linear is None else network.linear.tolist()})
    if place is not None:
        write_atomically(place, text.encode())
    return text


def from_json(source: str | os.PathLike[str]) -> Network:
    """The network in JSON text of `to_json` (text that starts with a brace), or in a file of it (anything else: a path)."""
    text, where = _text(source)
    with reading(where, "network in JSON", "Write it again with to_json."):
        held = json.loads(text)
        if (held["format"], held["version"]) != (NETWORK_FORMAT, VERSION):
            raise InvalidInput(
                f"{where} holds format {held['format']!r}, version {held['version']!r}.",
                f"This version reads {NETWORK_FORMAT!r}, {VERSION}.", "Update laybare, or write it again with to_json.")
        try:
            return _network(held)
        except InvalidInput as error:
            raise InvalidInput(
                f"{where} does not hold a network: {error.seen}", error.why, "Write it again with to_json.",
                **error.values) from None


def _network(held: dict[str, Any]) -> Network:
    dim = below = check_whole("dim", held["dim"])
    layers: list[Layer] = []
    if not held["layers"]:
        raise InvalidInput("No layers.", "A network has at least one.", "Write it again with to_json.")
    for layer in held["layers"]:
        width = len(layer["biases"])
        weights, biases = _array("weights", layer["weights"], width, below), _array("biases", layer["biases"], width)
        layers.append(Layer(weights, biases, activation_named(layer["activation"])))
        below = width
    tail = () if held["outputs"] is None else (check_whole("outputs", held["outputs"]),)
    linear = held["linear"]
    return Network(
        layers, _array("readout", held["readout"], below, *tail), _array("offset", held["offset"], *tail),
        None if linear is None else _array("linear", linear, dim, *tail))


def _array(name: str, values: Any, *shape: int) -> Array:
    """Numbers in a given shape; nested lists cannot tell (0, 3) from (0,)."""
    array = as_reals(name, values)
    array = array if array.size else array.reshape(shape)
    if array.shape != shape:
        raise InvalidInput(
            f"{name} has shape {array.shape}, and the sizes around it say {shape}.", "They contradict each other.",
            "Write it again with to_json.", name=name, shapes=(array.shape, shape))
    return array.astype(float)


def _text(source: str | os.PathLike[str]) -> tuple[str, str]:
    """The text, and what to call it."""
    if isinstance(source, str) and source.lstrip().startswith("{"):
        return source, "The text"
    try:
        path = check_path("source", source)
    except InvalidInput as error:
        raise InvalidInput(
            error.seen, "JSON text starts with a brace, anything else is taken for a path.", "Check the path.") from None
    check_whole_file_fits(path)
    with reading(path, "file of JSON text", "Write it again with to_json."):
        return path.read_text(encoding="utf-8"), str(path)


def to_npz(network: Network, path: str | os.PathLike[str]) -> None:
    """Write weights, biases, readout, offset (and linear) as an .npz file that `numpy.load` opens; float64 bit for bit.

    Several layers are weights.0, weights.1, … from the lowest up.
    """
    arrays, description = contents_of(as_network(network))
    place = check_ending(path, ".npz")
    write_atomically(place, archive_bytes(arrays | {KEY: np.array(json.dumps(description, sort_keys=True))}))


def from_npz(path: str | os.PathLike[str]) -> Network:
    """The network that `to_npz` wrote. Anything else is refused with the reason; no pickle is ever loaded."""
    with open_archive(check_path("path", path), "Write it again with to_npz, or open it with load.") as archive:
        arrays = {name: archive.read(name) for name in archive.members}
    try:
        description = json.loads(str(arrays.pop(KEY)))
        if not isinstance(description, dict):
            raise ValueError
    except (KeyError, ValueError, RecursionError):
        raise InvalidInput(
            f"{path} has no description of a network (its arrays: {', '.join(sorted(arrays)) or 'none'}).",
            "Which array would be which part of a network is not known.",
            "Build Layer(weights, biases, activation) and Network(layers, readout) from its arrays.") from None
    return network_in(Contents(arrays, description), os.fspath(path))


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
