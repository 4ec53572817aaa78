"""Gaussian priors of the parameters of one outcome."""

from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from bayes_feasible import _check
from bayes_feasible._check import Array


class Prior:
    """A Gaussian prior of one block of parameters.

    Parameters
    ----------
    mean : number, or vector over features
    sd : number, or vector over features
        Standard deviations of independent parameters.
    covariance : matrix (feature, feature), optional
        In place of `sd`.

    Examples
    --------
    >>> Prior(mean=[-2.0, 0.0], sd=[1.0, 0.5])
    Prior(mean=[-2.0, 0.0], sd=[1.0, 0.5])
    >>> Prior(sd=2.0).to_dict()
    {'mean': 0.0, 'sd': 2.0}
    """

    def __init__(self, mean: Any = 0.0, sd: Any = None, *, covariance: Any = None) -> None:
        self.mean = _check.numbers("mean", mean)
        if self.mean.ndim > 1:
            raise ValueError(
                f"mean: expected a number or a vector over features, got shape {self.mean.shape}"
            )
        if sd is not None and covariance is not None:
            raise ValueError("covariance: expected sd or covariance, got both")
        self.sd: Array = _check.numbers("sd", 1.0 if sd is None else sd)
        self.covariance: Array | None = None
        if covariance is None:
            if self.sd.ndim > 1:
                raise ValueError(
                    f"sd: expected a number or a vector over features, got shape {self.sd.shape}"
                )
            if np.any(self.sd <= 0):
                raise ValueError(f"sd: expected positive numbers, got {self.sd.min():g}")
        else:
            self.covariance = _check_covariance(covariance)

    def _on(self, features: int, *, name: str = "prior") -> tuple[Array, Array]:
        """Mean (feature,) and covariance (feature, feature) for so many features."""
        sizes = {
            what: array.shape[0]
            for what, array in (("mean", self.mean), ("sd", self.sd),
                                ("covariance", self.covariance))
            if array is not None and array.ndim
        }  # fmt: skip
        for what, size in sizes.items():
            if size != features:
                raise ValueError(
                    f"{name}: expected a {what} for {features} features, got one for {size}"
                )
        mean = np.broadcast_to(self.mean, features).astype(float)
        if self.covariance is not None:
            return mean, self.covariance.copy()
        return mean, np.diag(np.broadcast_to(np.square(self.sd), features).astype(float))

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for files."""
        spread = "sd" if self.covariance is None else "covariance"
        return {"mean": self.mean.tolist(), spread: getattr(self, spread).tolist()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Prior) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Prior({', '.join(f'{key}={value}' for key, value in self.to_dict().items())})"


def _check_covariance(value: Any) -> Array:
    matrix = _check.numbers("covariance", value)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"covariance: expected a square matrix, got shape {matrix.shape}")
    if not np.allclose(matrix, matrix.T, rtol=1e-10, atol=0):
        raise ValueError("covariance: expected a symmetric matrix")
    matrix = (matrix + matrix.T) / 2
    variance = np.diag(matrix)
    if variance.min() <= 0:
        raise ValueError(f"covariance: expected positive variances, got {variance.min():g}")
    sd = np.sqrt(variance)
    least = float(np.linalg.eigvalsh(matrix / np.outer(sd, sd))[0])
    if least < 1e-14:
        raise ValueError(
            f"covariance: expected a positive definite matrix, got a smallest eigenvalue of "
            f"{least:g} times the variances"
        )
    return matrix


def quantile(share: float, freedom: float) -> float:
    """Of a Student distribution; infinite degrees of freedom are a Gaussian."""
    return float(ndtri(share) if np.isinf(freedom) else stdtrit(freedom, share))


def below(x: Array, freedom: float) -> Array:
    """The distribution function of the same."""
    return ndtr(x) if np.isinf(freedom) else stdtr(freedom, x)


def along(vectors: Array, centre: Array, covariance: Array) -> tuple[Array, Array]:
    """Means and standard deviations of `vectors @ theta` for a Gaussian theta."""
    variance = np.einsum("zf,fg,zg->z", vectors, covariance, vectors)
    return vectors @ centre, np.sqrt(np.maximum(variance, 0.0))
