"""scikit-learn's own checks. What cannot pass is listed with its reason; if it passes one day, the test fails."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks
from unfinished_certificate import without_certificate

import laybare as lb

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),  # rows that support no hidden unit
    pytest.mark.usefixtures("unchecked"),  # hundreds of fits: shapes are checked in the other tests
]

UNEQUAL = "weights from 1 to 10: half-spaces are judged by counts of rows, and take weights that are zero or equal"
FEW = "more free numbers than rows: a network that fits means nothing there, so TooFewSamples is raised"
SINGULAR = "fewer rows than inputs: the covariance is singular, and inputs cannot be whitened"

UNION = {
    "check_sample_weights_not_overwritten": UNEQUAL,
    "check_sample_weight_equivalence_on_dense_data": SINGULAR + "; and its weights are unequal",
    "check_sample_weights_shape": FEW,
    "check_n_features_in_after_fitting": FEW,
}

QUICK = lb.RandomStart(search=lb.Search(spares=0, hops=0, effort=lb.solver.Effort(max_steps=15)))
QUICK_UNION = lb.HighThreshold(
    activation=lb.step, baseline=0.0, top=None, repairs=0,
    annealing=lb.lowest_layer.Annealing(temperatures=(0.5, 0.1), max_steps=20))


def short(part: object) -> str:
    """Names that are the same in every process: those of scikit-learn show the address of a function."""
    if isinstance(part, lb.NetworkClassifier | lb.NetworkRecovery | lb.UnionOfHalfSpaces):
        return type(part).__name__ + "-of-any-width" * (part.width is None)
    return getattr(part, "func", part).__name__


def checks(*estimators):
    mark = parametrize_with_checks(list(estimators), expected_failed_checks=listed)
    return pytest.mark.parametrize(*mark.args, ids=short)


def listed(estimator: object) -> dict[str, str]:
    """Checks that are expected to fail, with the reason."""
    return UNION if isinstance(estimator, lb.UnionOfHalfSpaces) else {}


@checks(
    lb.NetworkRecovery(QUICK, width=1), lb.NetworkClassifier(QUICK, width=1),
    lb.UnionOfHalfSpaces(width=1, method=QUICK_UNION))
def test_scikit_learn_checks_with_little_effort(estimator, check):
    """Without the certificate, which takes two thirds of the time and is there in the slow ones."""
    with without_certificate():
        check(estimator)


@pytest.mark.slow
@checks(lb.NetworkRecovery(), lb.NetworkClassifier(), lb.NetworkRecovery(width=1), lb.UnionOfHalfSpaces(width=1))
def test_scikit_learn_checks(estimator, check):
    check(estimator)
