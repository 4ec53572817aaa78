"""What the posteriors of one block have in common."""

from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg.lapack import dtrtri

from bayes_feasible._check import Array


class Tails(NamedTuple):
    """Log-probabilities of half-spaces, with standard errors that are 0 where they are exact."""

    log_probability: Array
    standard_error: Array
    k_hat: Array  # of the importance weights; -inf where there are none


class Weighted(NamedTuple):
    """Draws given a half-space, with logarithms of importance weights (0 where exact)."""

    theta: Array  # (draw, feature)
    log_weight: Array  # (draw,)


class Block(Protocol):
    """The posterior of the parameter of one outcome."""

    exact: bool  # no draw carries a weight
    mean: Array  # (feature,), of the posterior, or its mode
    root: Array  # (feature, feature): covariance or inverse curvature is `root @ root.T`

    def tails(self, vectors: Array, limits: Array) -> Tails:
        """Log-probability of `vectors @ theta >= limits`, for rows of vectors."""

    def draw(
        self, rng: np.random.Generator, size: int, vector: Array | None, limit: float
    ) -> Weighted:
        """Draws given `vector @ theta >= limit`; without a vector, from the posterior."""


def invert_triangle(triangle: Array, *, lower: bool) -> Array:
    """The inverse; `solve_triangular` wakes threads and takes a hundred times longer.

    Raises
    ------
    LinAlgError
        If it has none.
    """
    inverse, info = dtrtri(triangle, lower=lower)
    if info:
        raise np.linalg.LinAlgError("a triangle is singular")
    return np.asarray(inverse)


def normal_draws(
    rng: np.random.Generator, size: int, axes: int, normal: Array | None, along: Array | None
) -> Array:
    """Standard normal vectors, with the coordinate `along` a unit normal where one is given."""
    u = rng.standard_normal((size, axes))
    if normal is not None and along is not None:
        u += (along - u @ normal)[:, np.newaxis] * normal
    return u


def whitened(vector: Array, limit: float, centre: Array, root: Array) -> tuple[Array, float, float]:
    """Unit normal, offset and length of a half-space in the coordinates u."""
    white = vector @ root
    length = float(np.linalg.norm(white))
    return white / length, float(limit - vector @ centre) / length, length
