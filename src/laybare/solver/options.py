"""The numbers that steer the solver, in one place. They choose between ways to the same minimum, not between minima.

Choices are made by what a step by normal equations costs: n·P² operations for n rows and P parameters. One rate turns them into
seconds. It is calibrated at release, not when the program runs: choices, and with them bits, must not depend on the machine.
There are three levels. Cheap: many runs can be made, what is uncertain is tried again. Fair: a run may be repeated. Expensive:
steps are saved, by a subsample or a subspace first, one matrix for several steps, independent runs at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class CostModel:
    """Seconds of a step, and where the levels end."""

    rate: float = 2e10  # n·P² per second of one core. Checked by `make bench BENCH_ARGS=refine`.
    cheap: float = 0.001  # seconds of a step below which it is cheap. Checked by `make bench BENCH_ARGS=recover`.
    expensive: float = 0.025  # seconds of a step from which it is expensive. Checked by `make bench BENCH_ARGS=recover`.
    fixed: float = 0.001  # seconds of a step beside its sums. Measured: `pytest -s -m slow tests/pipeline/test_monitor.py`.

    def step_seconds(self, rows: int, parameters: float) -> float:
        """Of normal equations on one core."""
        return rows * float(parameters) ** 2 / self.rate

    def is_cheap(self, rows: int, parameters: float) -> bool:
        return self.step_seconds(rows, parameters) < self.cheap

    def is_expensive(self, rows: int, parameters: float) -> bool:
        return self.step_seconds(rows, parameters) >= self.expensive


COST = CostModel()
"""The model in use."""


@dataclass(frozen=True, kw_only=True)
class SolverOptions:
    """When to use single precision, a subsample, products instead of matrices. n rows, P unknowns; n·P² is the work of a step."""

    dense_limit: int = 2000  # hidden parameters up to which the normal matrix (32 MB) is formed. Checked by `make bench`.
    products_from: int = 100  # unknowns up to which n·P² costs less than the products of a step. Checked by `make bench`.

    part_rows: int = 8  # rows of the subsample per unknown. Derived: condition number ((1 + 8^-½) / (1 - 8^-½))² = 4.4.
    part_ratio: int = 3  # a subsample is worth it if all rows are this many times as many. Checked by `make bench`.
    product_operations: int = 6  # operations of a product with JᵀJ per row and unknown. Derived: in `matrix_free.py`.
    part_gain_tol: float = 0.1  # `Effort.gain_tol` there: a tenth of what its noise makes. Checked by `pytest tests/solver`.
    part_kink_tol: float = 0.01  # `Effort.kink_tol` there. Checked by `pytest tests/solver`.

    single_above: float = 1e-3  # relative loss above which normal equations may be single. Checked by `pytest tests/solver`.
    single_from: int = 200  # hidden parameters from which that saves time. Checked by `make bench`.
    single_damping: float = 1e-5  # least damping that keeps such a matrix definite. Checked by `pytest tests/solver`.
    held_single_above: float = 1e-4  # relative loss above which held rows give single steps. Checked by `pytest tests/search`.
    single_metric_from: int = 300  # hidden parameters from which a metric is single precision. Checked by `make bench`.
    single_range: float = 1e12  # largest readout, or its inverse. Derived: 1e14 squares of it are the largest float32.

    cg_forcing: float = 0.25  # largest forcing term of CG. Checked by `pytest tests/solver`.
    cg_tightest: float = 1e-4  # smallest forcing term. Derived: single-precision products carry CG to about 1e-5.
    cg_products: int = 200  # most products of one step. Checked by `pytest tests/solver`.
    cg_report_after: int = 10  # products of a step after which each is reported. Convention: a step may take minutes.

    far_loss: float = 1e-2  # relative loss above which a matrix-free fit uses a subsample. Checked by `pytest tests/solver`.
    far_rows: int = 4  # rows of that subsample per parameter. Checked by `pytest tests/solver`.

    metric_products: int = 4  # products that CG takes in a new metric. Checked by `make bench`.
    metric_steps: int = 4  # steps that a metric should serve before it is formed again. Checked by `make bench`.
    metric_cost: int = 20  # unknowns whose normal matrix costs one product. Derived: 6 operations at a third of the speed.
    metric_damping_ratio: float = 4.0  # dampings within this factor share a factorisation. Checked by `make bench`.
    metric_small_damping: float = 1e-4  # dampings below this share one too. Checked by `make bench`.
    metric_change: float = 3.0  # relative change that makes a metric useless. Derived: unit rows change by 2 at most.

    least_square: float = 1e-150  # sum of squares of a unit, of the largest one's. Derived: the root of what float64 holds.
    decided_share: float = 0.1  # a tentative refit stops below this share of what decides. Checked by `make bench`.
    diverged: float = 1e3  # growth of the loss at which descent has diverged. Checked by `pytest tests/solver`.


SOLVER = SolverOptions()
"""The options in use."""


def work_of_step(rows: int, unknowns: int, systems: int, products: float) -> float:
    """Seconds of a step that formed this number of normal equations, and made this number of products or evaluations.

    The normal equations of a subsample serve several steps and are left out.
    """
    one = SOLVER.product_operations * rows * unknowns / COST.rate
    return COST.fixed + systems * COST.step_seconds(rows, unknowns) + products * one
