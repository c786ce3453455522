"""What notebooks show: the numbers, cut short, escaped, without script; and pages of deep networks."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import laybare as lb
from laybare.certificate import StandardErrors
from laybare.report import render
from laybare.report.tables import format_decimals
from laybare.solver import Trace, TraceRow
from laybare.source.samples import ColumnNames


class Words(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.words, self.tags = "", []
        self.feed(text)

    def handle_data(self, data):
        self.words += data + " "

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)


@pytest.fixture
def deep(rng):
    return lb.random_network(5, widths=(20, 4), outputs=2, rng=rng)


def test_network_shows_every_layer(deep):
    page = Words(deep._repr_html_())
    assert "Network 5-20-4-2" in page.words
    assert "Layer 1: 20 relu units" in page.words
    assert "Layer 2: 4 relu units" in page.words
    for value in (*deep.layers[0].weights[7], *deep.layers[1].biases, *deep.readout.ravel()):
        assert format_decimals(value) in page.words
    assert page.tags.count("table") == 2
    assert page.tags.count("tr") == 1 + 8 + 1 + 1 + 4  # heads, eight units and an ellipsis, heads, four units
    assert "script" not in page.tags


def test_network_says_what_else_it_has(rng):
    net = lb.Network(lb.Layer(np.ones((2, 3))), np.ones(2), linear=np.ones(3), top=lambda h: h[:, 0])
    assert "Network 3-2-?-1 with a linear part and a black box above the layers" in net._repr_html_()


@pytest.mark.parametrize("outputs", [1, 3])
def test_network_without_units_is_shown(outputs: int) -> None:
    """What was read of labels may be a linear part alone."""
    readout, offset = (np.zeros(0), 0.0) if outputs == 1 else (np.zeros((0, outputs)), np.zeros(outputs))
    empty = lb.Network(lb.Layer(np.zeros((0, 5)), np.zeros(0), lb.relu), readout, offset)
    assert f"5-0-{outputs}" in empty._repr_html_()


def test_match_shows_errors_and_units_without_partner(deep):
    fewer = lb.Network(lb.Layer(deep.layer.weights[1:], deep.layer.biases[1:]), np.ones((19, 2)))
    page = Words(lb.compare(fewer, deep)._repr_html_())
    words = " ".join(page.words.split())
    assert "weight bias readout offset linear all" in words
    assert "1 19 of 20 0 none" in words
    assert "2 0 of 4 0, 1, 2, 3 none" in words


@pytest.mark.parametrize("verdict", ["verified", "doubtful", "refuted"])
def test_certificate_shows_its_verdict_and_claims(verdict):
    evil = lb.Claim("<b>width</b>", 3.0, 2.0, verdict == "verified", "tested", 'says "so"', decisive=verdict == "refuted")
    errors = StandardErrors(np.ones((1, 1)), np.ones(1), np.ones(1), np.zeros(()))
    text = lb.Certificate((evil,), errors, 0.0)._repr_html_()
    assert verdict in Words(text).words
    assert "<b>width</b>" not in text
    assert "&lt;b&gt;width&lt;/b&gt;" in text
    assert ("✗" in text) == (verdict != "verified")


def test_recovery_shows_how_it_was_found_its_verdict_and_its_units(rng):
    net = lb.random_network(3, 2, rng=rng)
    claim = lb.Claim("width", 3.0, 2.0, True, "tested", "so")
    errors = StandardErrors(np.ones((2, 3)), np.ones(2), np.ones(2), np.zeros(()))
    page = Words(lb.Recovery(net, net, lb.Certificate((claim,), errors, 0.0), lb.RandomStart(), 1.0, 50, ())._repr_html_())
    words = " ".join(page.words.split())
    assert "3-2-1 network of relu units, by RandomStart from 50 samples" in words
    assert "verified" in words
    assert format_decimals(net.layer.weights[1, 2]) in words
    assert "script" not in page.tags


@pytest.mark.parametrize("known", [False, True])
def test_report_of_a_deep_network_shows_every_layer(deep, known):
    errors = StandardErrors(np.ones((1, 1)), np.ones(1), np.ones(1), np.zeros(()))
    trace = Trace((TraceRow(1.0, 0.0, 1.0, 0.0, 1),), "floor")
    found = lb.Recovery(deep, deep, lb.Certificate((), errors, 1.0), None, 1.0, 1, (trace,))
    text = render(found, deep if known else None)
    page = Words(text)
    assert "5-20-4-2 network of relu units" in page.words
    assert page.tags.count("svg") == 3
    assert "Layer 2: 4 relu units" in page.words
    assert ("24 of 24" in " ".join(page.words.split())) == known
    assert page.tags.count("script") == 2 and "<script src" not in text  # the network as data, and what sorts tables


@pytest.fixture(scope="module")
def found() -> lb.Recovery:
    x = np.random.default_rng(0).standard_normal((300, 3))
    return lb.recover(x, lb.random_network(3, 2, rng=1)(x), width=2)


def test_a_notebook_shows_units_in_their_columns_and_folds_checks_that_hold(found: lb.Recovery) -> None:
    shown = found._repr_html_()
    words = " ".join(Words(shown).words.split())
    unit = found.summary().units[0]
    assert f"{unit.leading} = {unit.location}" in words and "verified" in words.partition("Unit 1")[0]
    assert shown.index("Unit 2") < shown.index("<details>") < shown.index(found.certificate.checks[0].name)
    failed = replace(found.certificate.checks[0], passed=False)
    doubtful = replace(found.certificate, claims=(failed, *found.certificate.checks[1:]))._repr_html_()
    assert doubtful.index(f"✗ <b>{failed.name}") < doubtful.index("<details>")
    assert f"{len(found.certificate.checks) - 1} of {len(found.certificate.checks)} checks hold" in doubtful


def test_a_recovery_shows_itself_in_a_few_lines(found: lb.Recovery) -> None:
    shown = repr(found)
    assert shown.startswith("3-2-1 network of relu units, by RandomStart from 300 samples in ")
    assert "verdict: verified" in shown and max(map(len, shown.splitlines())) <= 80 and len(shown) < 700
    assert repr(found.certificate) in shown


def test_what_failed_is_named_by_a_certificate(found: lb.Recovery) -> None:
    failed = replace(found.certificate.checks[0], passed=False)
    shown = repr(replace(found.certificate, claims=(failed, *found.certificate.checks[1:])))
    assert f"not: {failed.name}" in shown and "verified" not in shown.splitlines()[0]


def test_sources_looks_and_audits_show_themselves() -> None:
    net = lb.random_network(2, 1, rng=2)
    x = np.random.default_rng(0).standard_normal((20, 2))
    samples = lb.Samples(x, net(x), columns=ColumnNames(("age", "<b>"), ("price",)))
    assert repr(samples) == "Samples(20 rows, 2 inputs, 1 output, law=Gaussian())"
    assert repr(lb.Gaussian(0, np.eye(2))) == "Gaussian(mean=0, cov=(2, 2))"
    assert "age, &lt;b&gt;" in samples._repr_html_()
    oracle = lb.Oracle(net, budget=500)
    look = lb.first_look(oracle)
    assert repr(oracle).endswith(f"2 inputs, {oracle.spent} of 500 queries spent)") and "first look" in oracle._repr_html_()
    assert repr(look).startswith(f"first look, {look.queries} queries: piecewise linear\n  kind: ")
    assert "It has 1 output." in Words(look._repr_html_()).words
    audit = lb.audit(net, (40,))
    assert repr(audit) == str(audit) and audit.rows[0].verdict in audit._repr_html_()
    assert np.array_equal(net.predict(x), net(x))


def test_objects_show_what_was_chosen_or_measured(found: lb.Recovery) -> None:
    """A method shows the choices that are not its defaults, a prediction a table, a check one sentence."""
    assert repr(lb.TensorInit()) == "TensorInit()"
    assert repr(lb.RandomStart(activation=lb.tanh, search=lb.Search(spares=2))) == (
        "RandomStart(activation=tanh, search=Search(spares=2))")
    assert repr(lb.TensorInit.literal(lb.relu)).startswith("TensorInit(route=Printed")
    x = np.zeros((12, 3))
    lines = repr(found.predict(x)).splitlines()
    assert lines[0].split() == ["Prediction", *found.predict(x)._fields] and lines[-1] == "(2 more)" and len(lines) == 12
    assert f"{found.predict(x).mean[0]:.4g}" in lines[1]
    check = found.certificate.checks[0]
    assert repr(check).startswith(f"ok   {check.name}: ") and check.explanation in repr(check)
    assert repr(found.traces[0]).startswith("Trace(") and repr(found.profile).startswith("DataProfile(270 used rows, 30 fresh")
    assert len(repr(found.plot)) < 200 and "\n" not in repr(found.plot)
