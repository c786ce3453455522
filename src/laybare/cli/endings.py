"""How commands end: what is printed, which files are written, and the exit status."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

import click

import laybare as lb
from laybare.cli.screen import LISTED, _units_table, print_path, print_summary
from laybare.cli.speech import Speech, speaking
from laybare.networks.storage import put
from laybare.report import write_report

STATUS = {"verified": 0, "doubtful": 3, "refuted": 4}
INTERRUPTED = 130


def _torch_file(network: lb.Network, path: str) -> None:
    import torch

    contents = BytesIO()
    torch.save(lb.to_torch(network).state_dict(), contents)
    put(path, contents.getvalue())


WRITERS: dict[str, Callable[[lb.Network, str], Any]] = {
    ".safetensors": lambda network, path: network.save(path),
    ".npz": lambda network, path: lb.to_npz(network, path),
    ".onnx": lambda network, path: lb.to_onnx(network, path),
    ".pt": _torch_file,
    ".json": lambda network, path: lb.to_json(network, path),
}
"""How a network is written, by the ending of the file."""

NEEDED = {".onnx": "onnx", ".pt": "torch"}
"""Packages that must be there for an ending, each an extra of the same name."""


def checked_path(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    """Refuse a file in a directory that is not there before the work begins, not after it."""
    if path is not None and not Path(path).absolute().parent.is_dir():
        raise click.BadParameter(f"the directory {Path(path).absolute().parent} does not exist.", context, parameter)
    return path


def ending_of(*known: str) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """The same, and the ending must be known: never other bytes under a name than it says."""

    def check(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
        ending = "" if path is None else Path(path).suffix
        if path is not None and ending not in known:
            raise click.BadParameter(f"the ending of {path} is none of {', '.join(known)}.", context, parameter)
        package = NEEDED.get(ending)
        if package is not None and find_spec(package) is None:
            raise click.BadParameter(
                f"{ending} needs {package}, which is not installed: pip install 'laybare[{package}]'.", context, parameter)
        return checked_path(context, parameter, path)

    return check


NEW_FILE: dict[str, Any] = {"type": click.Path(dir_okay=False), "callback": checked_path, "metavar": "FILE"}


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What is wanted of a recovery: files, the seed, the form of the output."""

    out: str | None
    report: str | None
    seed: int
    speech: Speech

    @property
    def files(self) -> dict[str, str]:
        """What was written, and where."""
        return {what: path for what, path in (("network", self.out), ("report", self.report)) if path is not None}


def with_wishes(*endings: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add the options of Wishes; --out takes these endings, and the command's status becomes that of the program."""

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @click.option("--out", type=click.Path(dir_okay=False), callback=ending_of(*endings), metavar="FILE",
                      help=f"Save what was found here ({', '.join(endings)}).")
        @click.option("--report", help="Write an HTML page here.", **NEW_FILE)
        @click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Same seed, same result.")
        @speaking
        @wraps(command)
        def with_options(*, out: str | None, report: str | None, seed: int, speech: Speech, **options: Any) -> None:
            wishes = Wishes(out=out, report=report, seed=seed, speech=speech)
            click.get_current_context().exit(command(**options, wishes=wishes))

        return with_options

    return decorate


def finish(found: lb.Recovery, wishes: Wishes, *, interrupted: bool = False, remarks: tuple[str, ...] = ()) -> int:
    """Write what is wanted, print the rest, give the exit status."""
    found = as_typed(found, wishes)
    if wishes.out is not None:
        WRITERS[Path(wishes.out).suffix](found.network, wishes.out)
    if wishes.report is not None:
        write_report(found, wishes.report)
    status = status_of(found.certificate, interrupted=interrupted)
    network = found.network
    wishes.speech.tell(
        **facts_of(found, wishes, status), interrupted=interrupted, dim=network.dim, width=network.width, outputs=network.outputs,
        depth=network.depth, activation=network.activations, method=None if found.method is None else type(found.method).__name__)
    _print(found, wishes, remarks)
    if interrupted:
        click.echo("laybare: interrupted; this is what was found until then", err=True)
    return status


def as_typed(found: Any, wishes: Wishes) -> Any:
    """The same with the command as it was typed in place of the call that it made."""
    if found.provenance is None:
        return found
    return replace(found, provenance=replace(found.provenance, call=f"laybare {wishes.speech.command}"))


def status_of(certificate: lb.Certificate, *, interrupted: bool = False) -> int:
    """The exit status."""
    return INTERRUPTED if interrupted else STATUS[certificate.verdict]


def facts_of(found: Any, wishes: Wishes, status: int) -> dict[str, Any]:
    """Keys of --json that recoveries of networks and of layers share; docs/command-line.md has them all."""
    origin = found.provenance
    return {
        "verdict": found.certificate.verdict, "status": status, "seed": wishes.seed, "samples": found.samples_used,
        "queries": found.queries, "seconds": found.seconds, "noise": finite(found.certificate.noise),
        "claims": claims_of(found.certificate), "inputs": list(found.columns.inputs),
        "fingerprint": None if origin is None else origin.fingerprint or None, "out": wishes.out, "report": wishes.report}


def claims_of(certificate: lb.Certificate) -> list[dict[str, Any]]:
    """The claims as plain objects."""
    return [
        {"name": claim.name, "value": finite(claim.value), "threshold": finite(claim.threshold), "direction": claim.direction,
         "passed": bool(claim.passed), "kind": claim.kind, "explanation": claim.explanation} for claim in certificate.claims]


def _print(found: lb.Recovery, wishes: Wishes, remarks: tuple[str, ...]) -> None:
    speech = wishes.speech
    if not speech.in_text:
        return
    listed = found.network.width if speech.verbose else LISTED
    speech.say(_units_table(found.network, speech.width, found.columns, listed), *remarks)
    print_summary(str(found), found.certificate.verdict)
    if speech.verbose:
        say_origin(speech, found.provenance)
    for what, path in wishes.files.items():
        print_path(what, path)


def say_origin(speech: Speech, origin: Any) -> None:
    """What it takes to run it again."""
    if origin is not None:
        data = f"{origin.data}{', fingerprint ' * bool(origin.fingerprint)}{origin.fingerprint}"
        speech.say(f"call: {origin.call}", f"version: laybare {origin.version}", f"data: {data}")


def finite(value: float) -> float | None:
    """JSON has no infinity."""
    return float(value) if abs(value) < float("inf") else None
