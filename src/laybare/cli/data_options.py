"""How a file of samples is read: the options that `recover`, `recover-layer` and `check` share."""

from __future__ import annotations

from typing import Any

import click

import laybare as lb
from laybare.source import as_law


def reading_options(command: Any) -> Any:
    """Add DATA and the options about it; the command gets them as `data` and `**reading`."""
    for option in reversed((
        click.argument("data", type=click.Path()),
        click.option("--target", default="y", show_default=True, help="Column or array with the outputs; several by commas."),
        click.option("--drop-columns", "drop", default="", metavar="NAMES", help="Columns that are no inputs, by commas."),
        click.option("--drop-missing", is_flag=True, help="Leave out rows in which a number is missing."),
        click.option("--law", type=click.Choice(["gaussian", "symmetric", "unknown"]), default="gaussian", show_default=True,
                     help="What is known about the inputs."),
    )):
        command = option(command)
    return command


def opened(data: str, reading: dict[str, Any]) -> lb.Samples:
    """The file under those options."""
    return lb.open_samples(data, law=as_law(reading.pop("law")), **reading)
