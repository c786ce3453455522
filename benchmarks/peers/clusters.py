"""Expand-and-cluster, after Martinelli, Simsek, Gerstner and Brea (2024): many wide students, and the units on which they agree.

1. Expand: train several students of four times the true width until they fit.
2. Cluster: put the hidden units of all students together, w and b scaled to length 1 (ReLU units have no scale of their own);
   average linkage; a cluster that has units of at least half of the students and is narrow is a unit of the truth.
3. Collapse: one unit for each such cluster, readout by least squares, then train this network from there.

Deviation: the paper trains with its own second-order solver; here scikit-learn's L-BFGS trains students and the last network. The
truth's width is given, as to every system of this comparison: of the clusters the most crowded so many are kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tasks import Array, Given, Outcome, of_parts
from trained import fitted, quietly

import laybare as lb

STUDENTS, EXPANSION, SHARE, NARROW = 10, 4, 0.5, 0.2
"""Students, their width over the true one, share of them that must agree, largest distance inside of a cluster (radians)."""

STUDENT_STEPS = 1000
"""Of L-BFGS for every student: with noise wide ones go on fitting it for 5,000, and find no more units for that."""


def expand_and_cluster(given: Given) -> Outcome:
    """The three steps."""
    students = [fitted(
        given, EXPANSION * given.task.width, "lbfgs", 1000 * given.seed + i, steps=STUDENT_STEPS) for i in range(STUDENTS)]
    units = [_units(student) for student in students]
    directions = _agreed(np.vstack(units), np.repeat(np.arange(STUDENTS), [len(own) for own in units]), given.task.width)
    return Outcome(_collapsed(given, directions), given.task.samples)


def _units(student: Any) -> Array:
    """Rows (w, b) of length 1 of the units that do something."""
    rows = np.column_stack([student.coefs_[0].T, student.intercepts_[0]])
    size = np.linalg.norm(rows, axis=1) * np.linalg.norm(student.coefs_[1], axis=1)
    kept = size > 1e-3 * size.max()
    return rows[kept] / np.linalg.norm(rows[kept], axis=1, keepdims=True)


def _agreed(rows: Array, owners: Array, width: int) -> Array:
    """Centres of the clusters on which enough students agree, the most crowded first."""
    from scipy.cluster.hierarchy import fcluster, linkage

    labels = fcluster(linkage(rows, "average"), NARROW, "distance")
    support = {label: len(set(owners[labels == label])) for label in np.unique(labels)}
    chosen = [label for label in sorted(support, key=support.__getitem__, reverse=True) if support[label] >= SHARE * STUDENTS]
    if not chosen:
        return rows[:1]
    return np.array([np.median(rows[labels == label], axis=0) for label in chosen[:width]])


def _collapsed(given: Given, directions: Array) -> lb.Network:
    weights, biases = directions[:, :-1], directions[:, -1]
    features = np.column_stack([np.maximum(given.x @ weights.T + biases, 0.0), np.ones(len(given.x))])
    target = given.y.reshape(len(given.x), -1)
    solution = np.linalg.lstsq(features, target, rcond=None)[0]
    return _trained_from(given, of_parts(weights, biases, solution[:-1], solution[-1]))


def _trained_from(given: Given, start: lb.Network) -> lb.Network:
    """L-BFGS from a given network: scikit-learn goes on from weights that it finds."""
    from sklearn.neural_network import MLPRegressor

    mlp = MLPRegressor(hidden_layer_sizes=(start.width,), solver="lbfgs", alpha=0.0, tol=1e-12, max_iter=1, warm_start=True)
    quietly(mlp, given)
    mlp.coefs_ = [np.asarray(start.layer.weights).T.copy(), start.readout.reshape(start.width, -1).copy()]
    mlp.intercepts_ = [np.asarray(start.layer.biases).copy(), np.atleast_1d(start.offset).astype(float).copy()]
    mlp.set_params(max_iter=5000, max_fun=10**6)
    return lb.from_sklearn(quietly(mlp, given))
