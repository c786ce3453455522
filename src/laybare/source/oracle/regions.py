"""Where a black box is asked: location, scale and range of every input, from the user's rows or from the model's own scaler.

Lines, steps and fresh answers are laid out in standard units, u = (x - location) / scale, in which the inputs that matter have
mean 0 and spread 1. What is found there is carried back: w·u + b = (w/scale)·x + b - (w/scale)·location.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.errors import InvalidInput
from laybare.networks import Layer, Network
from laybare.numerics.checks import check_dtype, check_path, show_value
from laybare.numerics.file_borders import map_array, open_archive
from laybare.numerics.shapes import Array
from laybare.source.samples import as_numeric
from laybare.source.table_files import ColumnChoice, read_csv, read_feather, read_json_lines, read_parquet

NEAR_STANDARD = 3.0
"""Locations up to this and scales up to this factor from 1 count as standard. Derived: lines reach 1e5 scales, and three standard
deviations hold nearly all inputs."""


@dataclass(frozen=True, eq=False)
class InputRegion:
    """Location and scale of every input, (dim,) each; `said` completes "inputs ...", such as "like the 569 rows given".

    `constant` are the inputs that never change: they are asked around their value, at the median scale of the others.
    """

    location: Array
    scale: Array
    said: str
    low: Array
    high: Array
    constant: tuple[int, ...] = ()

    @classmethod
    def of_rows(cls, x: Array, said: str) -> InputRegion:
        """Mean, standard deviation, range and constant columns of rows (n, dim)."""
        location, scale = x.mean(axis=0), x.std(axis=0)
        still = np.ptp(x, axis=0) <= 0.0
        location = np.where(still, x[0], location)
        usual = float(np.median(scale[~still])) if not still.all() else 1.0
        return cls(
            location, np.where(still, usual, scale), said, x.min(axis=0), x.max(axis=0),
            tuple(int(i) for i in np.flatnonzero(still)))

    @classmethod
    def of_scaler(cls, location: Array, scale: Array, said: str) -> InputRegion:
        """From the location and scale that a model subtracts and divides by."""
        size = np.where((np.abs(scale) > 0.0) & np.isfinite(scale), np.abs(scale), 1.0)
        return cls(location, size, said, location - 3.0 * size, location + 3.0 * size)

    @property
    def standard(self) -> bool:
        """Whether these are about standard units already."""
        ratio = np.maximum(self.scale, 1.0 / self.scale)
        return bool(np.abs(self.location).max() <= NEAR_STANDARD and ratio.max() <= NEAR_STANDARD)

    def given(self, u: Array) -> Array:
        """Inputs as the black box takes them, from standard units."""
        return np.asarray(self.location + self.scale * u)

    def white(self, x: Array) -> Array:
        """Inputs in standard units."""
        return np.asarray((x - self.location) / self.scale)

    def network_on_given(self, network: Network) -> Network:
        """A network of standard units as one of the inputs as they are given."""
        lowest = network.layers[0]
        weights = np.asarray(lowest.weights) / self.scale
        layers = (Layer(weights, np.asarray(lowest.biases) - weights @ self.location, lowest.activation), *network.layers[1:])
        if network.linear is None:
            return Network(layers, network.readout, network.offset, top=network.top)
        linear: Array = (network.linear.T / self.scale).T
        moved: Array = np.asarray(network.offset) - self.location @ linear
        return Network(layers, network.readout, moved, linear, top=network.top)

    @property
    def sentence(self) -> str:
        """Where the black box is asked, for a report."""
        size = f"locations from {self.location.min():.3g} to {self.location.max():.3g}, scales from {self.scale.min():.3g} to " \
               f"{self.scale.max():.3g}"
        still = "" if not self.constant else (
            f" {len(self.constant)} of them never change (input {', '.join(map(str, self.constant[:5]))}"
            f"{', ...' * (len(self.constant) > 5)}); these are asked around that value, at the median scale of the others.")
        return f"Asked at inputs {self.said}: {size}.{still}"


class RowMixture(NamedTuple):
    """Draws inputs where the user's rows are: a random row, moved by a random share of half the way to another."""

    rows: Array

    def __call__(self, rng: Generator, n: int) -> Array:
        one, other = (self.rows[rng.integers(0, len(self.rows), n)] for _ in range(2))
        return np.asarray(one + 0.5 * rng.random((n, 1)) * (other - one))


class GivenRows(NamedTuple):
    """The user's rows (n, dim), and the names of their columns."""

    x: Array
    names: tuple[str, ...] = ()


INPUTS_ALONE = "Give rows with a number for every input of the black box, and nothing else: no labels, outputs or row numbers."


def read_rows(given: Any, dim: int | None, least: int = 2) -> GivenRows:
    """Rows from an array, a DataFrame or a file (a table, .npy, .npz); they are inputs, without outputs."""
    if isinstance(given, str | PathLike):
        path = check_path("inputs", given)
        named = _from_file(path)
        check_dtype(str(path), named.x.dtype)
    else:
        rows = as_numeric("inputs", given)
        named = GivenRows(np.asarray(rows[:] if rows.ndim else rows), tuple(str(name) for name in getattr(given, "columns", ())))
    x = np.array(named.x, dtype=np.float64)
    if x.ndim == 1 and dim == 1:
        x = x[:, None]
    if x.ndim != 2 or len(x) < least or (dim is not None and x.shape[1] != dim):
        wants = "" if dim is None else f" The black box takes {dim} inputs."
        raise InvalidInput(
            f"The inputs have shape {x.shape}{_listed(named.names)}.", f"They show where the black box is to be asked.{wants}",
            INPUTS_ALONE if x.ndim and len(x) >= least else f"Give at least {least} rows.", shape=x.shape)
    if not np.isfinite(x).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(x))[0])
        raise InvalidInput(
            f"Row {row} of the inputs has {x[row, column]} in column {column}.", "A black box is asked at finite points.",
            "Leave out rows with missing values.", row=row, column=column)
    return GivenRows(x, named.names if len(named.names) == x.shape[1] else ())


def _listed(names: Sequence[str]) -> str:
    return f" (columns {', '.join(names[:6])}{', ...' * (len(names) > 6)})" if names else ""


def _from_file(path: Path) -> GivenRows:
    if not path.is_file():
        what = "is not a regular file" if path.exists() else "does not exist"
        raise InvalidInput(f"{path} {what}.", "It should hold rows of inputs.", "Check the path.", path=str(path))
    ending = "".join(path.suffixes[-2:]).lower()
    if ending.endswith(".npy"):
        return GivenRows(np.asarray(map_array(path)))
    if ending.endswith(".npz"):
        with open_archive(path, "Write it again with numpy.savez(path, x=x).") as archive:
            names = list(archive.members)
            return GivenRows(np.asarray(archive.map("x" if "x" in names else names[0])))
    readers = {".parquet": read_parquet, ".feather": read_feather, ".jsonl": read_json_lines}
    read = readers.get(path.suffix.lower(), read_csv)
    if not (".csv" in ending or ".tsv" in ending or read is not read_csv):
        raise InvalidInput(
            f"{path} ends in {path.suffix or 'nothing'}.",
            "Rows of inputs are read from .csv, .tsv, .parquet, .feather, .jsonl, .npy and .npz.",
            "Convert it, or give an array.", suffix=path.suffix)
    try:
        x, _, columns = read(path, ColumnChoice(()))
    except InvalidInput as error:
        if "drop" not in error.do:
            raise
        raise InvalidInput(error.seen, error.why, INPUTS_ALONE, **error.values) from None  # an Oracle drops no columns
    return GivenRows(np.asarray(x[:]), columns.inputs)


def check_inputs(given: Any) -> bool:
    """Whether these inputs are drawn by a function; raises InvalidInput for what is neither that nor rows."""
    if given is None or callable(given):
        return True
    if isinstance(given, str | PathLike | list | tuple) or hasattr(given, "__array__"):
        return False
    raise InvalidInput(
        f"inputs is {show_value(given)}.", "It says where the black box is asked.",
        "Give rows (an array, a DataFrame or a file), or a function (rng, n) -> x of shape (n, dim), or leave it out.")


def scaler_region(model: Any) -> InputRegion | None:
    """Location and scale of the inputs of a scikit-learn pipeline, from its first step, if that is a fitted scaler."""
    steps = getattr(model, "steps", None) or [("", None)]
    fitted, said = steps[0][1], f"where the pipeline's {type(steps[0][1]).__name__} puts them"

    def read(name: str) -> Array | None:
        value = getattr(fitted, name, None)
        return None if value is None else np.asarray(value, dtype=np.float64)

    low, high, scale = read("data_min_"), read("data_max_"), read("scale_")
    if low is not None and high is not None:
        return replace(InputRegion.of_scaler((low + high) / 2.0, (high - low) / 4.0, said), low=low, high=high)
    if scale is None:
        return None
    location = next((value for value in map(read, ("mean_", "center_")) if value is not None), np.zeros(len(scale)))
    return InputRegion.of_scaler(location, scale, said)


def batch_norm_region(module: Any) -> InputRegion | None:
    """The same of a torch module that begins with a batch normalisation of its inputs."""
    leaves = [part for part in module.modules() if not list(part.children())]
    first = leaves[0] if leaves else None
    mean, variance = getattr(first, "running_mean", None), getattr(first, "running_var", None)
    if mean is None or variance is None:
        return None
    scale = np.sqrt(variance.double().cpu().numpy() + float(getattr(first, "eps", 0.0)))
    return InputRegion.of_scaler(mean.double().cpu().numpy(), scale, f"where the module's {type(first).__name__} puts them")
