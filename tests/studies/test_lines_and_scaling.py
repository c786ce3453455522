"""The studies of lines and of scaling run on small grids and say what they measured."""

from __future__ import annotations

from laybare.studies.black_boxes import LINES
from laybare.studies.scaling import SCALING, ScalingGrid, growth_exponent
from laybare.studies.study import Settings


def test_lines_read_every_network_from_fewer_queries_than_the_control_needs() -> None:
    result = LINES.run(Settings((0, 1), ((4, 2), (6, 3))))
    assert [row.exact for row in result.rows] == [2, 2]
    assert all(row.verified_but_wrong == 0 and row.queries_per_parameter < 5 for row in result.rows)
    assert "4/4 networks" in result.sentence and result.figure is not None


def test_scaling_measures_every_axis() -> None:
    result = SCALING.run(Settings((0,), ScalingGrid((400, 800), (2,), (1,), (400, 2, 1))))
    assert [row.axis for row in result.rows] == ["rows", "rows", "dim", "width"]
    assert all(row.verified == 1 and row.largest_error < 0.5 for row in result.rows)


def test_exponent_is_that_of_a_power_law() -> None:
    rows = [SCALING.table.row("rows", n, 5, 3, 1, 1, 1e-6 * n**1.5, 0.0, 0.0, 0.0, 0.0) for n in (100, 1000, 10_000)]
    assert abs(growth_exponent("rows", rows) - 1.5) < 1e-12
    assert abs(growth_exponent("rows", [row._replace(memory_mb=row.rows**0.5) for row in rows], "memory_mb") - 0.5) < 1e-12
