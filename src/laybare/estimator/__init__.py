"""Estimators for scikit-learn: fitted in place, as its users expect; the work is done by `recover` and `recover_layer`."""

from laybare.estimator.network_estimators import NetworkClassifier, NetworkRecovery, UnionOfHalfSpaces

__all__ = ["NetworkClassifier", "NetworkRecovery", "UnionOfHalfSpaces"]
