"""What an audit found: a row for every budget and every defence, the verdict, and where it all comes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite, nan
from os import PathLike
from typing import Any, NamedTuple

from laybare.auditing.copy_error import CHECK, CheckOptions
from laybare.networks.network_files import write_atomically
from laybare.pipeline.recovery import Recovery

DAYS_PER_YEAR = 365
"""Convention: a year of query limits."""

EXACT, NEAR, NONE, OPEN = "exact copy", "copy", "no copy", "open"
"""The verdicts of an audit. "open": the best copy may be within one per cent, and the check has too few inputs to say."""


class AuditRow(NamedTuple):
    """The result of one budget: first the copy, then its weights.

    A copy differs from the model by `error` of the spread of its answers at one input in a hundred, between `error_low` and
    `error_high` with 95 % confidence over all rows; `functional_error` is the root mean square; `agreement`, at least
    `agreement_low`, is the share of inputs with the same class. `way` is the attack that made it with this many `queries`, and
    "none" where no attack gave a copy. With more queries a copy from fewer is still there: rows never get worse, and of two exact
    copies the one with verified weights is shown.

    `verdict` is that of the certificate, "none" for a copy without weights, "refused" if `sentence` says why there is nothing;
    `widths` are the units of every layer that was read, `units` their sum, of `activation`; `error_bar` is the largest standard
    error of a weight relative to the length of its row. NaN where there is nothing. `late` says that the time limit ended an
    attack until here, so that a faster machine may come further; all other rows depend on the seed alone.
    """

    budget: int
    queries: int
    way: str
    error: float
    error_low: float
    error_high: float
    functional_error: float
    agreement: float
    agreement_low: float
    verdict: str
    units: int
    widths: tuple[int, ...]
    activation: str
    error_bar: float
    seconds: float
    sentence: str = ""
    late: bool = False


class DefenceRow(NamedTuple):
    """The model behind a defence: queries to a copy within one per cent and within 1e-6, None if not within `within` queries.

    `not_with` is the largest budget that was shown not to be enough for one per cent, 0 if none was. `quota` is the
    largest number of queries a day with which the copy takes more than a year, `days` what it takes under a cap. `error_high`
    bounds the best copy that there was, `error_low` from below. `sentence` says why nothing was measured, where that is so;
    `late` is that of its rows.
    """

    name: str
    description: str
    near: int | None
    exact: int | None
    not_with: int
    within: int
    quota: int
    days: float
    error_low: float
    error_high: float
    agreement: float
    seconds: float
    sentence: str = ""
    late: bool = False


class AuditOrigin(NamedTuple):
    """What is needed to repeat an audit: when, by which command, seed and version, where inputs came from, the log's hash."""

    date: str
    command: str
    seed: int
    version: str
    versions: str
    inputs: str
    fingerprint: str


@dataclass(frozen=True)
class Audit:
    """After how many queries an outsider holds a copy that answers like the model, with what defence, and what is known of its
    weights.

    `paid` counts every query, `checked` those of the check among them; `found` is the recovery with the largest budget that
    gave one; `kind` is what the model answers: "outputs", "probabilities" or "labels". `interrupted` says that somebody ended it
    early, `failure` why the model did.
    """

    model: str
    dim: int
    rows: tuple[AuditRow, ...]
    paid: int
    checked: int
    found: Recovery | None
    kind: str
    defences: tuple[DefenceRow, ...]
    origin: AuditOrigin
    interrupted: bool = False
    failure: str = ""
    check: CheckOptions = field(default=CHECK, repr=False)

    @property
    def verdict(self) -> str:
        """"exact copy", "copy", "no copy" or "open", with the largest budget."""
        best = min((row.error_high for row in self.rows), default=nan)
        if not best <= self.check.near:
            return NONE if self.rows and self.not_with == self.rows[-1].budget else OPEN
        return EXACT if best <= self.check.exact else NEAR

    @property
    def near(self) -> int | None:
        """Queries to a copy within one per cent; None if no budget was enough."""
        return queries_to(self.rows, self.check.near)

    @property
    def exact(self) -> int | None:
        """Queries to a copy within 1e-6."""
        return queries_to(self.rows, self.check.exact)

    @property
    def quota(self) -> int:
        """Largest number of queries a day with which a copy within one per cent takes more than a year."""
        return yearly_quota(self.near, self.not_with)

    @property
    def not_with(self) -> int:
        """The largest budget that was shown not to be enough for a copy within one per cent, 0 if none was."""
        return largest_failure(self.rows, self.check.near)

    def __str__(self) -> str:
        from laybare.report.audit_words import audit_text

        return audit_text(self)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from laybare.report.notebook import audit_html

        return audit_html(self)

    def figure(self) -> str:
        """The error of the copy against queries, with its confidence band, as SVG text."""
        from laybare.report.audit_formats import audit_figure

        return audit_figure(self).svg()

    def render(self, form: str = "html") -> str:
        """The audit as text: "html", "json", "md" or "sarif"."""
        from laybare.report.audit_formats import render_audit

        return render_audit(self, form)

    def report(self, path: str | PathLike[str], form: str | None = None) -> None:
        """Write the audit, in one move; the form goes by the ending of the file (.html, .json, .md, .sarif) if not given."""
        from laybare.report.audit_formats import form_of, render_audit

        write_atomically(path, render_audit(self, form_of(path) if form is None else form).encode())

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, as the shipped JSON Schema says; what is not there is None."""
        from laybare.report.audit_formats import audit_document

        return audit_document(self)

    def json(self) -> str:
        """The same as JSON text."""
        return self.render("json")


def queries_to(rows: tuple[AuditRow, ...], tol: float) -> int | None:
    """The fewest queries with which a copy was within `tol`."""
    return min((row.queries for row in rows if isfinite(row.error_high) and row.error_high <= tol), default=None)


def largest_failure(rows: tuple[AuditRow, ...], tol: float) -> int:
    """The largest budget whose copy is off by more than `tol`, for sure."""
    return max((row.budget for row in rows if row.error_low > tol), default=0)


def yearly_quota(queries: int | None, within: int) -> int:
    """The largest q for which queries / q days are more than a year; a lower bound of it where `within` were not enough."""
    return max(0, -(-(within + 1 if queries is None else queries) // DAYS_PER_YEAR) - 1)
