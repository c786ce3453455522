"""Networks without one of their units: on how many rows that is decided."""

from __future__ import annotations

import numpy as np

import laybare as lb
from laybare.certificate.certificate import RULES
from laybare.certificate.evidence import bic_penalty_per_unit
from laybare.certificate.fitted_network import evaluate_fit
from laybare.certificate.unit_support import drop_cheapest_units
from laybare.source.problem import pose


def test_a_unit_that_few_rows_leave_open_is_judged_by_more_and_not_by_all() -> None:
    """Its gain on the search rows is below the limit; on the curvature rows, seven times as many, it is above."""
    rng, drawn = np.random.default_rng(1), lb.random_network(20, 20, readout="random", rng=0)
    truth = lb.Network(drawn.layer, np.where(np.arange(20) == 0, 0.6, drawn.readout), drawn.offset)
    x = rng.standard_normal((60_000, 20))
    samples = lb.Samples(x, truth(x) + 0.5 * rng.standard_normal(60_000))
    fitted = evaluate_fit(lb.refine(samples, truth, rng=0).network, pose(samples, biases=True, rng=np.random.default_rng(0)))
    reduced = drop_cheapest_units(fitted)
    assert fitted.search_rows.size < fitted.curvature_rows.size < fitted.used.size
    assert fitted.curvature_rows.size / fitted.used.size in [one.share for one in reduced]
    limit = RULES.clear_unit_gain * bic_penalty_per_unit(fitted)
    assert all(one.unit_gain > limit for one in reduced)
