"""Estimators for scikit-learn: fitted in place, as its users expect; the work is done by `recover` and `recover_layer`."""

from laybare.estimator.half_space_classifier import UnionOfHalfSpaces
from laybare.estimator.network_estimators import NetworkClassifier, NetworkRecovery

__all__ = ["NetworkClassifier", "NetworkRecovery", "UnionOfHalfSpaces"]
