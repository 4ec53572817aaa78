r"""What a pull shows: the reward and each cost have an outcome of their own.

Every outcome has a natural parameter that is linear in the features,
:math:`s = \langle x, \theta \rangle`:

=============  =====================  ==============================  ====================
outcome        density                threshold, in its own units     `Relative(z, by)`
=============  =====================  ==============================  ====================
`Gaussian`     N(s, noise²)           a mean                          difference of means
`Bernoulli`    success with           a probability                   odds ratio
               1 / (1 + exp(-s))
`Poisson`      counts at rate exp(s)  a rate                          ratio of rates
=============  =====================  ==============================  ====================

So a limit on a mean is a limit on the natural parameter, and every mistake stays a half-space of
the parameters.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, logit

from bayes_feasible import _check
from bayes_feasible._check import Array
from bayes_feasible.prior import Prior

REWARD = "reward"  # its name, unless it has another
NODES = 100  # of the quadrature over a Gaussian natural parameter


class Outcome(ABC):
    """What the kinds of outcomes share. `A` is the cumulant of the natural parameter.

    Examples
    --------
    >>> coin = Bernoulli()
    >>> natural = coin.natural("threshold", 0.8)
    >>> coin.mean(natural).round(3).item(), coin.variance(natural).round(3).item()
    (0.8, 0.16)
    >>> round(coin.shift("by", 2.0), 3)
    0.693
    >>> coin.divergence(natural, np.array(0.0)).round(4).item()
    0.1927
    >>> coin.mean_over(np.array(0.0), np.array(1.0)).round(3).item()
    0.5
    >>> coin.sd_over(np.array(0.0), np.array(1.0)).round(3).item()
    0.208
    >>> coin.draw(np.random.default_rng(0), np.zeros(3), 1.0)
    array([0., 1., 1.])
    >>> coin.check("conversions", np.array([3.0]), np.array([10]))
    >>> coin.prior_on(2, "reward")[0], coin.to_dict()
    (array([0., 0.]), {'kind': 'bernoulli'})
    """

    kind: ClassVar[str]
    relative: ClassVar[str]  # what `Relative` limits

    def __init__(self, *, prior: Prior | None = None) -> None:
        if prior is not None:
            _check.kind("prior", prior, Prior)
        self.prior = prior

    @property
    def known(self) -> bool:
        """Whether it is Gaussian with known noise."""
        return False

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the prior of the parameter: finite where noise is learnt."""
        return np.inf

    def prior_on(self, features: int, name: str) -> tuple[Array, Array]:
        """Mean and covariance of the prior, `Prior(0, 1)` by default."""
        return (Prior() if self.prior is None else self.prior)._on(features, name=f"{name}: prior")

    @abstractmethod
    def natural(self, name: str, mean: Any) -> Array:
        """The natural parameter of a mean."""

    @abstractmethod
    def shift(self, name: str, by: float) -> float:
        """How far apart natural parameters are that differ by a relative limit `by`."""

    @abstractmethod
    def mean(self, natural: Array) -> Array:
        """The mean: A'."""

    @abstractmethod
    def variance(self, natural: Array) -> Array:
        """The variance of an outcome (of a Gaussian: over that of the noise): A''."""

    def mean_over(self, centre: Array, sd: Array) -> Array:
        """The mean where the natural parameter is Gaussian itself."""
        means, weights = self._at_nodes(centre, sd)
        return means @ weights / weights.sum()

    def sd_over(self, centre: Array, sd: Array) -> Array:
        """The standard deviation of the mean where the natural parameter is Gaussian itself."""
        means, weights = self._at_nodes(centre, sd)
        off = means - (means @ weights / weights.sum())[..., np.newaxis]
        return np.sqrt(np.square(off) @ weights / weights.sum())

    def _at_nodes(self, centre: Array, sd: Array) -> tuple[Array, Array]:
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        spread = np.asarray(sd)[..., np.newaxis] * nodes
        return self.mean(np.asarray(centre)[..., np.newaxis] + spread), weights

    @abstractmethod
    def divergence(self, natural: Array, other: Array) -> Array:
        """Relative entropy of one outcome at another natural parameter, in nats."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, natural: Array, noise: float) -> Array:
        """Outcomes of pulls at these natural parameters."""

    def check(self, name: str, sums: Array, counts: Array) -> None:  # noqa: B027 (Gaussian)
        """Refuse sums of so many outcomes that no outcomes add up to."""

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for files."""
        given = {} if self.prior is None else {"prior": self.prior.to_dict()}
        return {"kind": self.kind} | given

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outcome) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        given = [f"{k}={v!r}" for k, v in self.to_dict().items() if k not in ("kind", "prior")]
        given += [] if self.prior is None else [f"prior={self.prior!r}"]
        return f"{type(self).__name__}({', '.join(given)})"


class Gaussian(Outcome):
    r"""A number with Gaussian noise, of known standard deviation or learnt.

    Parameters
    ----------
    noise : float, optional
        Standard deviation. Without it the noise is learnt.
    noise_prior : pair of floats
        Shape and scale of the inverse-gamma prior of the variance, where it is learnt:
        worth `2 * shape` observations with mean square `scale / shape`.
    prior : Prior, optional
        Of the parameters; by default N(0, noise² I). Where the noise is learnt, the prior
        covariance is in units of the variance over its prior guess `scale / shape`, so that a
        very tight `noise_prior` means the same as a known `noise`.

    Examples
    --------
    >>> Gaussian(noise=0.5)
    Gaussian(noise=0.5)
    >>> Gaussian()
    Gaussian(noise_prior=(1.0, 1.0))
    """

    kind = "gaussian"
    relative = "difference of means"

    def __init__(
        self, noise: float | None = None, *, noise_prior: Any = None, prior: Prior | None = None
    ) -> None:
        if noise is not None and noise_prior is not None:
            raise ValueError("noise_prior: expected only where the noise is learnt")
        self.noise = None if noise is None else _check.positive("noise", noise)
        self.noise_prior = (1.0, 1.0)
        if noise_prior is not None:
            pair = _check.numbers("noise_prior", noise_prior)
            if pair.shape != (2,) or pair.min() <= 0:
                raise ValueError(
                    f"noise_prior: expected two positive numbers (shape, scale), "
                    f"got {noise_prior!r}"
                )
            self.noise_prior = (float(pair[0]), float(pair[1]))
        super().__init__(prior=prior)

    @property
    def known(self) -> bool:
        """Whether the noise is known."""
        return self.noise is not None

    @property
    def learnt(self) -> bool:
        """Whether the noise is learnt."""
        return self.noise is None

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the prior of the parameter: finite where noise is learnt."""
        return 2 * self.noise_prior[0] if self.learnt else np.inf

    def prior_on(self, features: int, name: str) -> tuple[Array, Array]:
        """By default N(0, noise² I), the noise that is known or its prior guess."""
        if self.prior is not None:
            return super().prior_on(features, name)
        shape, scale = self.noise_prior
        variance = scale / shape if self.noise is None else self.noise**2
        return np.zeros(features), variance * np.eye(features)

    def natural(self, name: str, mean: Any) -> Array:
        """The mean itself."""
        return _check.numbers(name, mean, infinite=True)

    def shift(self, name: str, by: float) -> float:
        """A difference of means."""
        return float(by)

    def mean(self, natural: Array) -> Array:
        """The natural parameter itself."""
        return np.asarray(natural, dtype=float)

    def mean_over(self, centre: Array, sd: Array) -> Array:
        """The centre."""
        return np.asarray(centre, dtype=float)

    def sd_over(self, centre: Array, sd: Array) -> Array:
        """That of the natural parameter."""
        return np.asarray(sd, dtype=float)

    def variance(self, natural: Array) -> Array:
        """In units of the noise: 1."""
        return np.ones_like(natural)

    def divergence(self, natural: Array, other: Array) -> Array:
        """In units of the noise."""
        return 0.5 * np.square(np.subtract(other, natural))

    def draw(self, rng: np.random.Generator, natural: Array, noise: float) -> Array:
        """Means with noise."""
        return natural + noise * rng.standard_normal(np.shape(natural))

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for files."""
        noise = {"noise_prior": self.noise_prior} if self.learnt else {"noise": self.noise}
        document = super().to_dict()
        return {"kind": document.pop("kind"), **noise, **document}


class Bernoulli(Outcome):
    """Success or failure, 1 or 0, with a logit that is linear in the features.

    Parameters
    ----------
    prior : Prior, optional
        Of the parameters, on the scale of logits; by default `Prior(0, 1)`.

    Examples
    --------
    >>> Bernoulli(prior=Prior(mean=-2.0))
    Bernoulli(prior=Prior(mean=-2.0, sd=1.0))
    """

    kind = "bernoulli"
    relative = "odds ratio"

    def natural(self, name: str, mean: Any) -> Array:
        """The logit of a probability."""
        mean = _check.numbers(name, mean, infinite=True)
        limit = np.isposinf(mean)  # never binds
        bad = ~limit & ~((mean > 0) & (mean <= 1))
        if bad.any():
            raise ValueError(
                f"{name}: expected a probability above 0 and at most 1, got {mean[bad].flat[0]:g}"
            )
        return logit(np.where(limit, 1.0, mean))

    def shift(self, name: str, by: float) -> float:
        """The logarithm of an odds ratio."""
        return _log_ratio(name, by, "an odds ratio")

    def mean(self, natural: Array) -> Array:
        """The probability of success."""
        return expit(natural)

    def variance(self, natural: Array) -> Array:
        """That of one toss."""
        return expit(natural) * expit(np.negative(natural))

    def divergence(self, natural: Array, other: Array) -> Array:
        """Of the rarer result's side, without losing what is small beside 1."""
        natural, other = np.broadcast_arrays(natural, other)
        flip = np.where(natural > 0, -1.0, 1.0)
        step = flip * (other - natural)
        p = expit(flip * natural)  # at most 1/2
        # log E e^(step y) - step E y
        grown = np.where(
            step < 30.0,
            np.log1p(p * np.expm1(np.minimum(step, 30.0))),
            np.logaddexp(flip * natural - np.log1p(np.exp(flip * natural)) + step, np.log1p(-p)),
        )
        # Where the step is small, the difference of two near numbers: its series instead.
        v = p * (1 - p)
        skew, fourth = v * (1 - 2 * p), v * (1 - 6 * v)
        fifth = skew * (1 - 12 * v)
        series = step**2 * (v / 2 + step * (skew / 6 + step * (fourth / 24 + step * fifth / 120)))
        return np.where(np.abs(step) < 1e-3, series, np.maximum(grown - step * p, 0.0))

    def draw(self, rng: np.random.Generator, natural: Array, noise: float) -> Array:
        """Ones and zeros."""
        return (rng.random(np.shape(natural)) < expit(natural)).astype(float)

    def check(self, name: str, sums: Array, counts: Array) -> None:
        """Successes are whole numbers from 0 to the number of pulls."""
        _check_whole(name, sums, "a number of successes" if np.any(counts > 1) else "0 or 1")
        if np.any(sums > counts):
            at = int(np.argmax(sums > counts))
            many = np.ravel(np.broadcast_to(counts, np.shape(sums)))[at]
            raise ValueError(
                f"{name}: expected 0 or 1 a pull, got {np.ravel(sums)[at]:g} in {many:g}"
            )


class Poisson(Outcome):
    """A count, with a log rate that is linear in the features.

    Parameters
    ----------
    prior : Prior, optional
        Of the parameters, on the scale of logarithms; by default `Prior(0, 1)`.

    Examples
    --------
    >>> Poisson()
    Poisson()
    """

    kind = "poisson"
    relative = "ratio of rates"

    def natural(self, name: str, mean: Any) -> Array:
        """The logarithm of a rate."""
        mean = _check.numbers(name, mean, infinite=True)
        if np.any(~(mean > 0)):
            raise ValueError(f"{name}: expected a positive rate, got {mean.min():g}")
        return np.log(mean)

    def shift(self, name: str, by: float) -> float:
        """The logarithm of a ratio of rates."""
        return _log_ratio(name, by, "a ratio of rates")

    def mean(self, natural: Array) -> Array:
        """The rate."""
        with np.errstate(over="ignore"):
            return np.exp(natural)

    def mean_over(self, centre: Array, sd: Array) -> Array:
        """That of a log-normal variable."""
        return self.mean(np.asarray(centre) + np.square(sd) / 2)

    def sd_over(self, centre: Array, sd: Array) -> Array:
        """That of a log-normal variable."""
        with np.errstate(over="ignore"):
            return self.mean_over(centre, sd) * np.sqrt(np.expm1(np.square(sd)))

    def variance(self, natural: Array) -> Array:
        """The rate."""
        return self.mean(natural)

    def divergence(self, natural: Array, other: Array) -> Array:
        """From e^s, without losing what is small beside it."""
        step = np.subtract(other, natural)
        with np.errstate(over="ignore", invalid="ignore"):
            beyond = np.expm1(step) - step
        series = step**2 * (0.5 + step * (1 / 6 + step * (1 / 24 + step / 120)))
        return self.mean(natural) * np.where(np.abs(step) < 1e-3, series, beyond)

    def draw(self, rng: np.random.Generator, natural: Array, noise: float) -> Array:
        """Counts."""
        return rng.poisson(np.exp(natural)).astype(float)

    def check(self, name: str, sums: Array, counts: Array) -> None:
        """Counts are whole numbers."""
        _check_whole(name, sums, "a count")


@dataclass(frozen=True)
class Relative:
    """A limit relative to a candidate, in place of a number.

    Parameters
    ----------
    candidate : index or name
        The one to compare with.
    by : float
        By how much a cost may exceed that candidate's: a difference of means (Gaussian), an odds
        ratio (Bernoulli) or a ratio of rates (Poisson).

    Examples
    --------
    >>> Relative("control", 10.0)
    Relative(candidate='control', by=10.0)
    """

    candidate: int | str
    by: float


def _check_whole(name: str, values: Array, what: str) -> None:
    values = np.ravel(values)
    bad = ~np.isnan(values) & ((values < 0) | (values != np.floor(values)))
    if bad.any():
        raise ValueError(f"{name}: expected {what}, got {values[bad][0]:g}")


def _log_ratio(name: str, by: float, what: str) -> float:
    if not by > 0:
        raise ValueError(f"{name}: expected {what} above 0, got {by:g}")
    return float(np.log(by))
