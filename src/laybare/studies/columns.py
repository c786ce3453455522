"""Columns of tables, and what sentences and figures do with rows.

A column is a function of a cell and its runs. In the makers below `name` is a field of the runs; without one, a run is a number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from laybare.numerics.shapes import Array
from laybare.report.drawings import Curve

Value = str | int | float
"""What stands in a table; an empty text where there is nothing to say."""

Column = Callable[[Any, Any], Value]
"""Value of a row from its cell and the list of its runs."""


def field(name: str) -> Column:
    """A field of the cell."""
    return lambda cell, runs: getattr(cell, name)


def itself(cell: Any, runs: Any) -> Value:
    """The cell, where it is a single value."""
    return cell  # type: ignore[no-any-return]


def count(cell: Any, runs: Sequence[Any]) -> int:
    """The number of runs."""
    return len(runs)


def total(holds: str | Callable[[Any], Any]) -> Column:
    """Runs for which a field is true, or for which `holds` is."""
    return lambda cell, runs: sum(bool(getattr(run, holds) if isinstance(holds, str) else holds(run)) for run in runs)


def values(runs: Sequence[Any], name: str = "") -> list[Any]:
    """A field of all runs or rows."""
    return [getattr(run, name) if name else run for run in runs]


def reduced(reduce: Callable[[Sequence[float]], Any], name: str = "") -> Column:
    """`reduce` of a field of the runs, as a float."""
    return lambda cell, runs: float(reduce(values(runs, name)))


def median(name: str = "") -> Column:
    """Median of a field."""
    return reduced(np.median, name)


def mean_of_finite(name: str, otherwise: Value) -> Column:
    """Mean of a field where it is finite."""

    def column(cell: Any, runs: Sequence[Any]) -> Value:
        kept = [value for value in values(runs, name) if np.isfinite(value)]
        return float(np.mean(kept)) if kept else otherwise

    return column


def spread(numbers: Sequence[float]) -> tuple[float, float, float, int]:
    """Median, lowest and highest tenth of the finite numbers, and how many are not finite."""
    kept = np.array([number for number in numbers if np.isfinite(number)])
    if not len(kept):
        return np.nan, np.nan, np.nan, len(numbers)
    return float(np.median(kept)), float(np.quantile(kept, 0.1)), float(np.quantile(kept, 0.9)), len(numbers) - len(kept)


def spread_columns(missing: str) -> dict[str, Column]:
    """The four numbers of `spread`, of runs that are numbers; the last column is called `missing`."""
    names = ("median", "lowest_tenth", "highest_tenth", missing)
    return {name: lambda cell, runs, i=i: spread(runs)[i] for i, name in enumerate(names)}  # type: ignore[misc]


def group_rows(rows: Iterable[Any], *names: str) -> dict[Any, list[Any]]:
    """Rows by the value of a field, or by the values of several, in the order of their first."""
    groups: dict[Any, list[Any]] = {}
    for row in rows:
        key = tuple(getattr(row, name) for name in names)
        groups.setdefault(key if len(names) > 1 else key[0], []).append(row)
    return groups


def curves(
    rows: Iterable[Any], by: str, x: str, y: str, *, label: Callable[[Any], str] = str, least: float = -np.inf
) -> list[Curve]:
    """A curve of column `y` over column `x` for every value of `by`; a logarithmic axis shows values below `least` there."""
    return [
        Curve(label(name), values(own, x), [max(value, least) for value in values(own, y)])
        for name, own in group_rows(rows, by).items()]


def rate_maps(rows: Iterable[Any], arm: str, shade: Callable[[Any], float], shape: tuple[int, int]) -> dict[str, Array]:
    """For every arm the shades of its rows, which stand in the order of a grid of that shape."""
    return {name: np.array([shade(row) for row in own]).reshape(shape) for name, own in group_rows(rows, arm).items()}


def radians(angle: float) -> str:
    """A median angle in a sentence; NaN is that of runs which were all refused."""
    return f"{angle:.2g} rad" if np.isfinite(angle) else "refused in every run"


def tally(rows: Iterable[Any], arm: str) -> str:
    """Exact recoveries of every arm, and how often a certificate was wrong."""
    groups = group_rows(rows, arm)
    parts = ", ".join(f"{name} {sum(values(own, 'exact'))}/{sum(values(own, 'runs'))}" for name, own in groups.items())
    return f"{parts}; verified but wrong: {sum(row.verified_but_wrong for own in groups.values() for row in own)}"
