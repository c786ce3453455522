"""How commands end: what is printed, which files are written, and the exit status."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

import laybare as lb
from laybare.cli.screen import _units_table, console_of, print_path, print_summary
from laybare.report import write_report

STATUS = {"verified": 0, "doubtful": 3, "refuted": 4}
INTERRUPTED = 130


def _torch_file(network: lb.Network, path: str) -> None:
    import torch

    torch.save(lb.to_torch(network).state_dict(), path)


WRITERS: dict[str, Callable[[lb.Network, str], Any]] = {
    ".safetensors": lambda network, path: network.save(path),
    ".npz": lambda network, path: lb.to_npz(network, path),
    ".onnx": lambda network, path: lb.to_onnx(network, path),
    ".pt": _torch_file,
    ".json": lambda network, path: lb.to_json(network, path),
}
"""How a network is written, by the ending of the file."""


def checked_path(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    """Refuse a file in a directory that is not there before the work begins, not after it."""
    if path is not None and not Path(path).absolute().parent.is_dir():
        raise click.BadParameter(f"the directory {Path(path).absolute().parent} does not exist.", context, parameter)
    return path


def _written_path(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    """The same, and the ending must say how."""
    if path is not None and Path(path).suffix.lower() not in WRITERS:
        raise click.BadParameter(f"the ending of {path} is none of {', '.join(WRITERS)}.", context, parameter)
    return checked_path(context, parameter, path)


NEW_FILE: dict[str, Any] = {"type": click.Path(dir_okay=False), "callback": checked_path, "metavar": "FILE"}


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What is wanted of a recovery: files, the form of the output, the seed."""

    out: str | None
    report: str | None
    as_json: bool
    seed: int


def with_wishes(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of Wishes; the command's status becomes that of the program."""

    @click.option("--out", type=click.Path(dir_okay=False), callback=_written_path, metavar="FILE",
                  help=f"Save the network here ({', '.join(WRITERS)}).")
    @click.option("--report", help="Write an HTML page here.", **NEW_FILE)
    @click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables.")
    @click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Same seed, same result.")
    @wraps(command)
    def with_options(*, out: str | None, report: str | None, as_json: bool, seed: int, **options: Any) -> None:
        wishes = Wishes(out=out, report=report, as_json=as_json, seed=seed)
        click.get_current_context().exit(command(**options, wishes=wishes))

    return with_options  # type: ignore[return-value]


def finish(found: lb.Recovery, wishes: Wishes, *, interrupted: bool = False, remarks: tuple[str, ...] = ()) -> int:
    """Write what is wanted, print the rest, give the exit status."""
    if wishes.out is not None:
        WRITERS[Path(wishes.out).suffix.lower()](found.network, wishes.out)
    if wishes.report is not None:
        write_report(found, wishes.report)
    if wishes.as_json:
        click.echo(json.dumps(as_object(found, wishes, interrupted=interrupted)))
    else:
        _print(found, wishes, remarks)
    if interrupted:
        click.echo("laybare: interrupted; this is what was found until then", err=True)
    return INTERRUPTED if interrupted else STATUS[found.certificate.verdict]


def as_object(found: lb.Recovery, wishes: Wishes, *, interrupted: bool) -> dict[str, Any]:
    """What --json prints; the keys are documented and stay."""
    network = found.network
    return {
        "verdict": found.certificate.verdict, "interrupted": interrupted, "dim": network.dim, "width": network.width,
        "outputs": network.outputs, "depth": network.depth, "activation": network.activations,
        "method": None if found.method is None else type(found.method).__name__, "samples": found.samples_used,
        "queries": found.queries, "seconds": found.seconds, "claims": claims_of(found.certificate),
        "out": wishes.out, "report": wishes.report}


def claims_of(certificate: lb.Certificate) -> list[dict[str, Any]]:
    """The claims as plain objects."""
    return [
        {"name": claim.name, "value": _finite(claim.value), "threshold": _finite(claim.threshold), "passed": bool(claim.passed),
         "kind": claim.kind, "explanation": claim.explanation} for claim in certificate.claims]


def _print(found: lb.Recovery, wishes: Wishes, remarks: tuple[str, ...]) -> None:
    console = console_of()
    console.print(_units_table(found.network, console.width))
    for remark in remarks:
        console.print(remark, markup=False)
    print_summary(console, str(found), found.certificate.verdict)
    for what, path in (("network", wishes.out), ("report", wishes.report)):
        if path is not None:
            print_path(what, path)


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return float(value) if abs(value) < float("inf") else None
