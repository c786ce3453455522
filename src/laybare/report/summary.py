"""`found.summary()`: where each unit bends, in the columns and units of the data, and what it adds, with standard errors.

A unit a·act(w·x + b) does not change if w and b are scaled against a. What has a meaning is free of that scale:

    kink        w·x + b = 0: with the leading column L, whose standardised weight is largest, solved for it:
                x_L + Σ r_i (x_i - m_i) = location,   r_i = w_i / w_L,   m_i the mean of column i
    location    where it bends along x_L if all other columns are at their means
    direction   the unit vector along (s_i w_i), s_i the standard deviation of column i: comparable from column to column
    slope       a·w: what the gradient of y gains where the kink is crossed (times the slopes of act before and after)

Errors follow by the delta method from the covariance of (w, b, a). The p-value of a unit is the chance of a readout so large, in
its standard errors, if there were no such unit: the tail of χ² with as many degrees of freedom as a unit has free parameters,
since the place of a unit that is not there is free as well (Scheffé's bound).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from html import escape
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from laybare.certificate.prediction import covered_point
from laybare.errors import printable
from laybare.numerics.shapes import Array
from laybare.report.tables import Quantity, format_digits, tex_number

if TYPE_CHECKING:
    from laybare.pipeline import Recovery

LISTED_COLUMNS = 12
"""Columns of a unit that the text lists, the largest first. Convention: half a screen; to_frame() has all."""


@dataclass(frozen=True)
class UnitTerm:
    """One column in one unit: its part of the direction, its coefficient in the kink's equation, the slopes that it gains."""

    column: str
    direction: Quantity
    coefficient: Quantity
    slopes: tuple[Quantity, ...]


@dataclass(frozen=True)
class UnitSummary:
    """One unit: its leading column, where it bends along it, slopes before and after, all columns, rows beyond, p-value."""

    number: int
    leading: str
    location: Quantity
    before: tuple[Quantity, ...]
    after: tuple[Quantity, ...]
    terms: tuple[UnitTerm, ...]
    beyond: float
    p_value: float


@dataclass(frozen=True)
class Summary:
    """What a recovery found, as a table: text (`str`), HTML (in notebooks, `to_html`), LaTeX (`to_latex`), data frame, dict."""

    title: str
    facts: tuple[tuple[str, str], ...]
    verdict: str
    meaning: str
    units: tuple[UnitSummary, ...]
    offset: tuple[Quantity, ...]
    linear: tuple[tuple[str, tuple[Quantity, ...]], ...]
    outputs: tuple[str, ...]
    measured: dict[str, float]

    def __str__(self) -> str:
        return "\n".join(_text_lines(self)).replace("\N{MINUS SIGN}", "-")

    @property
    def sentences(self) -> tuple[str, ...]:
        """Where each unit bends and what it adds, a sentence for each."""
        return tuple(f"unit {unit.number} {_unit_sentence(unit)}" for unit in self.units)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self) -> str:
        """Tables without script or style of their own."""
        head = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in self.facts)
        return (
            f'<div class="laybare"><h4>{escape(self.title)}</h4><table>{head}</table>'
            f"<p><b>{escape(self.verdict)}</b>. {escape(self.meaning)}</p>{''.join(map(self.unit_html, self.units))}"
            f"{self.rest_html()}</div>")

    def to_latex(self) -> str:
        """A tabular (package booktabs), one line per unit and column, then what is known about all of it."""
        slopes = [f"slope gained{'' if len(self.outputs) == 1 else f' ({_tex(name)})'}" for name in self.outputs]
        heads = ["unit", "column", "direction", "coefficient", "location", *slopes, "rows beyond", "$p$"]
        lines = [rf"\begin{{tabular}}{{ll{'r' * (len(heads) - 2)}}}", r"\toprule", " & ".join(heads) + r" \\", r"\midrule"]
        for unit in self.units:
            for i, term in enumerate(unit.terms):
                place = unit.location.latex if term.column == unit.leading else ""
                cells = [term.direction.latex, term.coefficient.latex, place, *(slope.latex for slope in term.slopes)]
                beside = [_share(unit.beyond, r"\%"), _chance(unit.p_value, tex_number)] if i == 0 else ["", ""]
                lines.append(" & ".join([str(unit.number) if i == 0 else "", _tex(term.column), *cells, *beside]) + r" \\")
        for name, values in (*self.linear, ("offset", self.offset)):
            lines.append(" & ".join(["", _tex(name), "", "", "", *(value.latex for value in values), "", ""]) + r" \\")
        known = [", ".join(f"{name}: {value}" for name, value in self.facts) + ".", f"{self.verdict}: {self.meaning}"]
        below = [rf"\multicolumn{{{len(heads)}}}{{p{{0.9\linewidth}}}}{{{_tex(text)}}} \\" for text in known]
        return "\n".join([*lines, r"\midrule", *below, r"\bottomrule", r"\end{tabular}"])

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, None for what is not a number: ready for JSON."""
        def pair(quantity: Quantity) -> dict[str, float | None]:
            return {"value": _plain(quantity.value), "se": _plain(quantity.se)}

        def several(values: tuple[Quantity, ...]) -> list[dict[str, float | None]]:
            return [pair(value) for value in values]

        units = [
            {"unit": unit.number, "leading": unit.leading, "location": pair(unit.location), "slope_before": several(unit.before),
             "slope_after": several(unit.after), "share_beyond": _plain(unit.beyond), "p_value": _plain(unit.p_value),
             "columns": {term.column: {
                 "direction": pair(term.direction), "coefficient": pair(term.coefficient), "slope": several(term.slopes)}
                 for term in unit.terms}} for unit in self.units]
        return {
            "title": self.title, "verdict": self.verdict, "meaning": self.meaning, "outputs": list(self.outputs), "units": units,
            "offset": several(self.offset), "linear": {name: several(values) for name, values in self.linear},
            **{name: _plain(value) for name, value in self.measured.items()}}

    def to_json(self) -> str:
        """`to_dict()` as text."""
        return json.dumps(self.to_dict())

    def to_csv(self) -> str:
        """The rows of `to_frame()` as CSV."""
        from csv import DictWriter
        from io import StringIO

        text, records = StringIO(), self._records()
        names = list(dict.fromkeys(name for record in records for name in record))
        writer = DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
        return text.getvalue()

    def to_frame(self) -> Any:
        """A pandas DataFrame, one row per unit and column; the offset and the linear part are units 0."""
        import pandas

        return pandas.DataFrame(list(self._records()))

    def _records(self) -> list[dict[str, Any]]:
        records = []
        for unit in self.units:
            for term in unit.terms:
                for output, slope in zip(self.outputs, term.slopes, strict=True):
                    records.append({
                        "unit": unit.number, "column": term.column, "output": output, "direction": term.direction.value,
                        "direction_se": term.direction.se, "coefficient": term.coefficient.value,
                        "coefficient_se": term.coefficient.se, "slope": slope.value, "slope_se": slope.se,
                        "location": unit.location.value, "location_se": unit.location.se, "leading": unit.leading,
                        "share_beyond": unit.beyond, "p_value": unit.p_value})
        for name, values in (*self.linear, ("offset", self.offset)):
            for output, value in zip(self.outputs, values, strict=True):
                records.append({"unit": 0, "column": name, "output": output, "slope": value.value, "slope_se": value.se})
        return records

    def unit_html(self, unit: UnitSummary, most: int | None = None) -> str:
        """A unit in words and as a table of its columns, of the `most` largest."""
        heads = ["column", "direction", "in the kink", *(f"slope gained{_of(name, self.outputs)}" for name in self.outputs)]
        rows = [[term.column, str(term.direction), str(term.coefficient), *map(str, term.slopes)] for term in unit.terms[:most]]
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        return (f"<p><b>Unit {unit.number}</b> {escape(_unit_sentence(unit))}</p><table><tr>"
                f"{''.join(f'<th>{escape(head)}</th>' for head in heads)}</tr>{body}</table>")

    def rest_html(self) -> str:
        """The linear part and the offset."""
        rows = "".join(
            f"<tr><th>{escape(name)}</th>{''.join(f'<td>{value}</td>' for value in values)}</tr>"
            for name, values in (*self.linear, ("offset", self.offset)))
        return f"<p><b>Linear part and offset</b></p><table>{rows}</table>"


def summarise(found: Recovery) -> Summary:
    """The summary of a recovery."""
    table = RecoveredParameters(found)
    network, cert, profile = found.network, found.certificate, found.profile
    fresh = float("nan") if profile is None else 1.0 - profile.unexplained
    kind = "R² on fresh rows" if not found.loss.linked else "deviance explained on fresh rows"
    facts = [("loss", found.loss.name), ("rows", f"{found.samples_used:,}" + (
        "" if profile is None or not profile.fresh else f" ({profile.used:,} used, {profile.fresh:,} fresh)"))]
    facts += [(kind, format_digits(fresh))] if isfinite(fresh) else []
    facts += [("noise (sd)", format_digits(cert.noise))] if isfinite(cert.noise) and found.loss.name == "squared" else []
    spread = "the answers" if found.loss.linked else "y"
    facts += [("smallest unit that would be seen", f"{format_digits(cert.visible)} sd of {spread}")] * isfinite(cert.visible)
    together = cert.simultaneous()
    facts += [("all parameters at once (95 %)", f"± {together:.2f} standard errors")] * isfinite(together)
    measured = {
        "fresh_explained": fresh, "noise": cert.noise, "visible": cert.visible, "simultaneous_factor": together,
        "rows": float(found.samples_used)}
    return Summary(
        f"{network.architecture} network of {network.activations} units", tuple(facts), cert.verdict, cert.meaning,
        tuple(table.unit(j) for j in range(len(network.layer.weights))), table.offset, table.linear, table.outputs, measured)


@dataclass(frozen=True, eq=False)
class RecoveredParameters:
    """A recovery's parameters, their covariance and the names that belong to them."""

    found: Recovery

    @cached_property
    def columns(self) -> tuple[str, ...]:
        network = self.found.network
        return _distinct(tuple(map(printable, self.found.columns.inputs))) or tuple(f"x{i}" for i in range(network.dim))

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        network, names = self.found.network, tuple(map(printable, self.found.columns.outputs))
        return names or (("y",) if network.outputs == 1 else tuple(f"y{o}" for o in range(network.outputs)))

    @property
    def flat(self) -> bool:
        """Whether what a unit adds can be read off: one hidden layer, all of it read."""
        return self.found.network.depth == 1 and self.found.network.top is None

    @cached_property
    def rows(self) -> Array:
        return self.found.network.layer.rows

    @cached_property
    def readout(self) -> Array:
        return self.found.network.columns[0] if self.flat else np.full((len(self.rows), len(self.outputs)), np.nan)

    @cached_property
    def spreads(self) -> Array:
        return np.ones(self.rows.shape[1] - 1) if self.found.profile is None else self.found.profile.spreads

    @cached_property
    def means(self) -> Array:
        return np.zeros(self.rows.shape[1] - 1) if self.found.profile is None else self.found.profile.means

    def covariance(self, j: int) -> Array:
        """Of (w, b, a) of unit j; where only standard errors are known, without correlations."""
        whole, errors = self.found.certificate.covariance, self.found.certificate.standard_errors
        d, m = self.rows.shape[1] - 1, len(self.outputs)
        if whole is None or not self.flat:
            readout = np.reshape(errors.readout, (-1, m))[j] if self.flat else np.full(m, np.nan)
            return np.diag(np.concatenate([errors.weights[j], [errors.biases[j]], readout]) ** 2)
        point = covered_point(self.found.network, len(whole))
        (k, p), places = point.units.shape, np.zeros(d + 1 + m, dtype=int)
        known = np.concatenate([np.ones(p), np.zeros(d + 1 - p), np.ones(m)]) > 0
        places[:p], places[d + 1 :] = j * p + np.arange(p), k * p + j * m + np.arange(m)
        block = whole[np.ix_(places, places)] * np.outer(known, known)
        return np.asarray(block)

    @cached_property
    def _rest(self) -> tuple[Array, Array]:
        """Offset and linear part (1 + d, m), and their standard errors."""
        _, offset, slope = self.found.network.columns
        values = np.vstack([offset[None], slope])
        whole, m = self.found.certificate.covariance, len(self.outputs)
        if whole is None or not self.flat:
            shift = np.reshape(self.found.certificate.standard_errors.offset, (1, -1))
            return values, np.vstack([shift, np.full(slope.shape, np.nan)])
        point = covered_point(self.found.network, len(whole))
        after = point.units.size + point.width * m
        errors = np.sqrt(np.maximum(np.diag(whole)[after:], 0.0)).reshape(-1, m)
        return values, errors

    @property
    def offset(self) -> tuple[Quantity, ...]:
        values, errors = self._rest
        return tuple(Quantity(float(v), float(e)) for v, e in zip(values[0], errors[0], strict=True))

    @property
    def linear(self) -> tuple[tuple[str, tuple[Quantity, ...]], ...]:
        if self.found.network.linear is None:
            return ()
        values, errors = self._rest
        return tuple(
            (name, tuple(Quantity(float(v), float(e)) for v, e in zip(values[i], errors[i], strict=True)))
            for i, name in enumerate(self.columns, 1))

    @np.errstate(invalid="ignore")  # what is left open has an infinite covariance, and its functions none
    def unit(self, j: int) -> UnitSummary:
        d = self.rows.shape[1] - 1
        w, b, a, C = self.rows[j, :d], self.rows[j, d], self.readout[j], self.covariance(j)
        order = np.argsort(-np.abs(self.spreads * w), kind="stable")
        lead = int(order[0])
        direction, ratios, place = self._directions(w, C), self._ratios(w, lead, C), self._place(w, b, lead, C)
        slopes = self._slopes(w, a, C)
        low, high = (float(np.mean(self.found.network.layer.activation.derivative(np.array([end])))) for end in (-1.0, 1.0))
        straight = self.found.network.layer.activation.degree == 1
        scaled = [[Quantity(factor * one[lead].value + 0.0, abs(factor) * one[lead].se) for one in slopes] for factor in (
            (low, high) if straight else (np.nan, np.nan))]
        beyond = self.found.profile.beyond[j] if self.found.profile is not None else np.nan
        terms = tuple(UnitTerm(self.columns[i], direction[i], ratios[i], tuple(one[i] for one in slopes)) for i in order)
        return UnitSummary(
            j + 1, self.columns[lead], place, tuple(scaled[0]), tuple(scaled[1]), terms, float(beyond), self._p_value(a, C))

    def _directions(self, w: Array, C: Array) -> list[Quantity]:
        d = len(w)
        scaled = self.spreads * w
        length = float(np.linalg.norm(scaled)) or 1.0
        u = scaled / length
        jacobian = (np.eye(d) - np.outer(u, u)) * self.spreads / length
        return _quantities(u, jacobian @ C[:d, :d] @ jacobian.T)

    def _ratios(self, w: Array, lead: int, C: Array) -> list[Quantity]:
        d = len(w)
        jacobian = np.eye(d) / w[lead]
        jacobian[:, lead] -= w / w[lead] ** 2
        jacobian[lead] = 0.0  # it is 1, whatever w is
        return _quantities(w / w[lead], jacobian @ C[:d, :d] @ jacobian.T)

    def _place(self, w: Array, b: float, lead: int, C: Array) -> Quantity:
        """Where the unit bends along its leading column, the others at their means."""
        d = len(w)
        others = self.means.copy()
        others[lead] = 0.0
        value = -(b + others @ w) / w[lead]
        gradient = np.concatenate([-others, [-1.0]]) / w[lead]
        gradient[lead] = -value / w[lead]
        return _quantities(np.array([value]), (gradient @ C[: d + 1, : d + 1] @ gradient)[None, None])[0]

    def _slopes(self, w: Array, a: Array, C: Array) -> list[list[Quantity]]:
        """aₒ wᵢ for every output o and column i."""
        d, variances = len(w), np.diag(C)
        slopes = np.outer(a, w)
        squared = a[:, None] ** 2 * variances[:d] + 2.0 * slopes * C[d + 1 :, :d] + w**2 * variances[d + 1 :, None]
        errors = np.where(np.isfinite(squared), np.sqrt(np.maximum(squared, 0.0)), np.nan)
        rows = zip(slopes.tolist(), errors.tolist(), strict=True)
        return [[Quantity(*each) for each in zip(*row, strict=True)] for row in rows]

    def _p_value(self, a: Array, C: Array) -> float:
        from scipy.stats import chi2

        m = len(a)
        block = C[-m:, -m:]
        if not np.isfinite(block).all() or not np.isfinite(a).all() or np.linalg.matrix_rank(block) < m:
            return float("nan")
        gauge = self.found.network.layer.activation.degree is not None
        return float(chi2.sf(a @ np.linalg.solve(block, a), len(C) - gauge))


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names that occur twice have their place among the columns behind them."""
    return tuple(f"{name} [{i}]" if names.count(name) > 1 else name for i, name in enumerate(names))


def _quantities(values: Array, covariance: Array) -> list[Quantity]:
    """Values with the roots of the diagonal as their errors."""
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    return [Quantity(float(value), float(error)) for value, error in zip(values, errors, strict=True)]


def _unit_sentence(unit: UnitSummary) -> str:
    place = f"bends where {unit.leading} = {unit.location}" + (", other columns at their means" if len(unit.terms) > 1 else "")
    rows = f"; {_share(unit.beyond)} of rows lie on its positive side" if isfinite(unit.beyond) else ""
    needed = f"; p {'= ' * (unit.p_value > 0.0)}{_chance(unit.p_value)}" if isfinite(unit.p_value) else ""
    below, above = (unit.after, unit.before) if unit.terms[0].direction.value < 0.0 else (unit.before, unit.after)
    known = len(below) == 1 and isfinite(above[0].value)
    slope = f"; slope in {unit.leading} {below[0]} below, {above[0]} above" if known else ""
    return place + slope + rows + needed + "."


def _share(share: float, sign: str = " %") -> str:
    return f"{100.0 * share:.0f}{sign}" if isfinite(share) else ""


def _chance(chance: float, spell: Callable[[str], str] = str) -> str:
    """A p-value; one that is smaller than a double can be is bounded."""
    if not isfinite(chance):
        return ""
    return spell(f"{chance:.2g}") if chance > 0.0 else spell("< 1e-300")


def _of(name: str, outputs: tuple[str, ...]) -> str:
    return "" if len(outputs) == 1 else f" ({name})"


def _text_lines(summary: Summary) -> list[str]:
    from textwrap import wrap

    wide = 78
    lines = ["=" * wide, summary.title.center(wide).rstrip(), "=" * wide]
    lines += [f"{name:<36}{value}" for name, value in summary.facts]
    lines += wrap(f"{summary.verdict}: {summary.meaning}", wide)
    for unit, sentence in zip(summary.units, summary.sentences, strict=True):
        lines += ["-" * wide, *wrap(sentence, wide)]
        heads = ["column", "direction", "in the kink", *(f"slope{_of(name, summary.outputs)}" for name in summary.outputs)]
        rows = [[term.column, str(term.direction), str(term.coefficient), *map(str, term.slopes)]
                for term in unit.terms[:LISTED_COLUMNS]]
        lines += _aligned(heads, rows)
        if len(unit.terms) > LISTED_COLUMNS:
            lines.append(f"  and {len(unit.terms) - LISTED_COLUMNS} more columns (to_frame() has all)")
    lines += ["-" * wide, *_aligned(["linear part", *summary.outputs], [
        [name, *map(str, values)] for name, values in (*summary.linear, ("offset", summary.offset))]), "=" * wide]
    return lines


def _aligned(heads: list[str], rows: list[list[str]]) -> list[str]:
    rows = [[cell.replace("\n", " ") for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    padded = [[row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
              for row in [heads, *rows]]
    return ["  " + "  ".join(row).rstrip() for row in padded]


TEX = {letter: rf"\{letter}" for letter in "_%&#${}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", "²": "$^2$", "±": r"$\pm$", "\n": " "}
"""How letters of names that mean something to LaTeX are written there."""


def _tex(text: str) -> str:
    return "".join(TEX.get(letter, letter) for letter in text)


def _plain(value: float) -> float | None:
    return float(value) if isfinite(value) else None
