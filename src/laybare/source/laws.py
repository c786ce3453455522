"""What may be assumed about the inputs: Gaussian, symmetric about 0, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, cast

import numpy as np
from numpy.random import Generator

from laybare.errors import InvalidInput
from laybare.shapes import Array
from laybare.source.affine import Affine
from laybare.source.protocol import Law, Source
from laybare.source.whitening import input_mean, inverse_root, second_moment


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Normal inputs.

    Parameters
    ----------
    mean : array (dim,), or one number for all coordinates, optional; None means that it is estimated from the data
    cov : array (dim, dim), or one number for the variance of independent coordinates, optional; None as above

    Gaussian(0, 1) is the standard normal law in any dimension.
    """

    mean: Array | float | int | None = None
    cov: Array | float | int | None = None

    def __post_init__(self) -> None:
        mean = None if self.mean is None else _numbers("mean", self.mean, (0, 1))
        cov = None if self.cov is None else _numbers("cov", self.cov, (0, 2))
        if cov is not None:
            _check_covariance(cov)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "cov", cov)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gaussian) and _same(self.mean, other.mean) and _same(self.cov, other.cov)

    def __hash__(self) -> int:
        return hash((self.mean is None, self.cov is None))

    def check(self, dim: int) -> None:
        """Refuse a mean or covariance of another dimension."""
        for name, given in (("mean", self.mean), ("cov", self.cov)):
            shape = np.asarray(0.0 if given is None else given).shape
            if shape and shape[0] != dim:
                raise InvalidInput(
                    f"The law's {name} has shape {shape}.", f"The inputs have dimension {dim}.",
                    f"Give a {name} for {dim} coordinates, or one number for all of them.", dim=dim, shape=shape)

    def whitening(self, source: Source) -> Affine:
        """To the standard normal law; mean and covariance are estimated if they are not given (one pass each)."""
        dim = source.dim
        mean = input_mean(source) if self.mean is None else np.broadcast_to(self.mean, (dim,)).astype(float)
        if self.cov is None:
            return Affine(mean, inverse_root(second_moment(source, mean)))
        return Affine(mean, self._inverse_root if np.ndim(self.cov) else np.eye(dim) / np.sqrt(self.cov))

    def white(self) -> Law:
        """The standard normal law."""
        return Gaussian(0.0, 1.0)

    def complete(self) -> Law:
        """What is not given is standard: mean 0, covariance I."""
        return Gaussian(0.0 if self.mean is None else self.mean, 1.0 if self.cov is None else self.cov)

    def draw(self, rows: int, dim: int, rng: Generator) -> Array:
        """Independent inputs (rows, dim); what is not given is standard."""
        x: Array = rng.standard_normal((rows, dim))
        if self.cov is not None:
            x = x @ self._factor.T if np.ndim(self.cov) else x * np.sqrt(self.cov)
        if self.mean is not None:
            x += self.mean
        return x

    @cached_property
    def _factor(self) -> Array:
        factor: Array = np.linalg.cholesky(np.asarray(self.cov))
        return factor

    @cached_property
    def _inverse_root(self) -> Array:
        cov = np.asarray(self.cov)
        return np.eye(len(cov)) if np.array_equal(cov, np.eye(len(cov))) else inverse_root(cov)


@dataclass(frozen=True)
class Symmetric:
    """Inputs with x and -x equally likely, and nothing more. Whitening is by the second moment about 0; it keeps the symmetry."""

    def check(self, dim: int) -> None:
        """Any dimension will do."""

    def whitening(self, source: Source) -> Affine:
        """By the estimated second moment about 0; one pass."""
        origin = np.zeros(source.dim)
        return Affine(origin, inverse_root(second_moment(source, origin)))

    def white(self) -> Law:
        """Still symmetric."""
        return self

    def complete(self) -> Law:
        """There is no one symmetric law to draw from."""
        _no_sampler("symmetric")

    def draw(self, rows: int, dim: int, rng: Generator) -> Array:
        """There is no one symmetric law to draw from."""
        _no_sampler("symmetric")


@dataclass(frozen=True)
class Unknown:
    """Nothing is assumed about the inputs. Whitening is by their estimated mean and covariance."""

    def check(self, dim: int) -> None:
        """Any dimension will do."""

    def whitening(self, source: Source) -> Affine:
        """By the estimated mean and covariance; two passes."""
        mean = input_mean(source)
        return Affine(mean, inverse_root(second_moment(source, mean)))

    def white(self) -> Law:
        """Still unknown."""
        return self

    def complete(self) -> Law:
        """An unknown law cannot be drawn from."""
        _no_sampler("unknown")

    def draw(self, rows: int, dim: int, rng: Generator) -> Array:
        """An unknown law cannot be drawn from."""
        _no_sampler("unknown")


def as_law(given: Any) -> Law:
    """A law, by itself, by its class or by its name: "gaussian", "symmetric", "unknown"."""
    known: dict[str, Any] = {"gaussian": Gaussian, "normal": Gaussian, "symmetric": Symmetric, "unknown": Unknown}
    if given in known.values():
        return cast(Law, given())
    if isinstance(given, str) and given.lower() in known:
        return cast(Law, known[given.lower()]())
    if not hasattr(given, "whitening"):
        raise InvalidInput(
            f"The law of the inputs is {given!r}.", "It says what is assumed about them.",
            "Give lb.Gaussian(), lb.Symmetric() or lb.Unknown(), or their names.", law=given)
    return cast(Law, given)


def _no_sampler(name: str) -> NoReturn:
    raise InvalidInput(
        f"The law of the inputs is {name}.", "That does not say how to draw them.",
        "Give inputs=, a function (rng, n) -> x of shape (n, dim), or a Gaussian law.", law=name)


def _numbers(name: str, given: Any, ndims: tuple[int, int]) -> Array:
    try:
        array = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"The {name} cannot be read as numbers ({error}).", "It belongs to a law of real inputs.", "Give floats.") from None
    if array.ndim not in ndims or not array.size or not np.isfinite(array).all():
        raise InvalidInput(
            f"The {name} has shape {array.shape}" + (" and is not finite." if not np.isfinite(array).all() else "."),
            f"It is one finite number or an array of {ndims[1]} dimension{'s' * (ndims[1] > 1)}.",
            "Give mean (dim,) and cov (dim, dim), or numbers.", shape=array.shape)
    array.setflags(write=False)
    return array


def _check_covariance(cov: Array) -> None:
    if cov.ndim == 0 and cov <= 0:
        raise InvalidInput(f"The variance is {cov}.", "Inputs need spread.", "Give a positive number.", variance=float(cov))
    if cov.ndim == 2 and (cov.shape[0] != cov.shape[1] or not np.allclose(cov, cov.T, rtol=1e-10, atol=0)):
        raise InvalidInput(
            f"The covariance of shape {cov.shape} is not symmetric.", "A covariance is.",
            "Give (cov + cov.T) / 2 if rounding did it.", shape=cov.shape)
    if cov.ndim == 2:
        inverse_root(cov)


def _same(left: Any, right: Any) -> bool:
    return left is right or (left is not None and right is not None and np.array_equal(left, right))
