"""How fast a probability of error decays: a regression of its logarithm on time."""

from typing import Any

import numpy as np
import pymc as pm

from bayes_feasible import _check
from bayes_feasible._check import Array

POWER = 0.75, 0.5  # prior mean and standard deviation: one or two limits to cross, rarely more


def rate_regression(time: Any, log_error: Any, unit: float) -> pm.Model:
    r"""The decay rate of a probability of error, from its logarithm at several times.

    For replicate :math:`r` at time :math:`t`, with :math:`\Gamma` the `unit`,

    .. math::
        -\log p_{r,t} = \rho_r t - c \sqrt{\Gamma t} + a \log t - b_r + \varepsilon_{r,t}, \qquad
        \rho_r \sim N(\rho, \omega^2 \Gamma^2) .

    What theory says of the terms: :math:`-\log p_t` is, but for what grows more slowly, half the
    squared distance from the posterior mean to the likeliest mistake: a log-likelihood ratio with
    mean :math:`f` and variance :math:`2 f` a pull, if :math:`f` is that mistake's exponent. So

    - :math:`\varepsilon` is a Brownian motion of variance :math:`2 f t`. Values at two times are
      correlated, steps from one to the next are not, so the steps are what is observed.
      (Independent errors around the line would take every further look at the same walk for news
      and promise too narrow an interval: of nominal 95 % intervals 92 % cover the rate with 7
      checkpoints, and 68 % with 25.)
      `noise` is the scale of the steps, :math:`\sqrt{f / \Gamma}` in theory. The square of the
      standardised error adds :math:`1 - t_k / t_{k+1}` to the variance of a step of any length;
    - `power` :math:`a` is half the number of limits that the likeliest mistake has to cross;
    - `bend` :math:`c` shows where several mistakes are about equally likely, as they are under
      most optimal allocations: the likeliest is then the one that luck favours, by
      :math:`\sqrt t`. An allocation that is still on its way bends the line too;
    - `rate_spread` :math:`\omega` is for rules that adapt, whose replicates may differ for good;
    - the intercepts :math:`b_r` cancel in the steps.

    Parameters
    ----------
    time : rising numbers of pulls, shape (checkpoint,)
        At least two.
    log_error : table, shape (replicate, checkpoint)
        Natural logarithms of the probabilities of error.
    unit : float
        A rate to measure in, such as the optimal one.

    Returns
    -------
    Model
        With `relative_rate` :math:`\rho / \Gamma` and the terms above. `rate_data` gives the data
        of other curves, of any number of replicates and times, for `pm.set_data` or for
        `with_data` of a model that nutpie has compiled.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> instance = bf.instances.end_of_optimism(alpha=0.3)
    >>> result = bf.simulate(instance, {"Oracle": bf.Oracle}, 1000, 4, [100, 300, 1000])
    >>> curves = result.log_error.sel(rule="Oracle")
    >>> model = rate_regression(curves.time, curves, unit=bf.optimal_rate(instance).value)
    >>> [rv.name for rv in model.free_RVs]
    ['relative_rate', 'bend', 'power', 'noise', 'rate_spread']
    """
    data = rate_data(time, log_error, unit)
    replicates, steps = data["growth"].shape
    with pm.Model(coords={"replicate": range(replicates), "step": range(steps)}) as model:
        per_rate = pm.Data("per_rate", data["per_rate"], dims="step")
        per_bend = pm.Data("per_bend", data["per_bend"], dims="step")
        per_power = pm.Data("per_power", data["per_power"], dims="step")
        growth = pm.Data("growth", data["growth"], dims=("replicate", "step"))

        relative_rate = pm.HalfNormal("relative_rate", 1.0)
        bend = pm.StudentT("bend", nu=3, mu=0.0, sigma=1.0)
        power = pm.Normal("power", *POWER)
        noise = pm.LogNormal("noise", -0.5, 1.0)
        rate_spread = pm.HalfNormal("rate_spread", 0.1)

        mean = relative_rate * per_rate - bend * per_bend + power * per_power
        spread = pm.math.sqrt(noise**2 + (rate_spread * per_rate) ** 2)
        pm.Normal("steps", mean, spread, observed=growth, dims=("replicate", "step"))
    return model


def rate_data(time: Any, log_error: Any, unit: float) -> dict[str, Array]:
    """The data of `rate_regression`: independent steps, and what each term adds to them.

    Steps are divided by the standard deviation that theory gives them, and turned so that the
    rate shows in the first one alone. What a replicate's own rate adds is then in the first one
    alone too, and all are independent.
    """
    times, logs = _check.numbers("time", time), _check.numbers("log_error", log_error)
    if times.ndim != 1 or times.size < 2 or times[0] <= 0 or np.any(np.diff(times) <= 0):
        raise ValueError(f"time: expected at least two rising positive numbers, got {times}")
    if logs.ndim != 2 or logs.shape[1] != times.size or not len(logs):
        raise ValueError(
            f"log_error: expected shape (replicate, {times.size}), a column for each time, "
            f"got {logs.shape}"
        )
    scaled = _check.positive("unit", unit) * times
    terms = np.diff([scaled, np.sqrt(scaled), np.log(scaled)])
    spread = np.sqrt(2 * terms[0] + 1 - scaled[:-1] / scaled[1:])
    turn = _reflection(terms[0] / spread)
    per_rate, per_bend, per_power = (terms / spread) @ turn
    per_rate[1:] = 0.0  # but for rounding
    growth = (-np.diff(logs) / spread) @ turn
    return {"per_rate": per_rate, "per_bend": per_bend, "per_power": per_power, "growth": growth}


def _reflection(vector: Array) -> Array:
    """The symmetric orthogonal matrix that maps a vector onto the first axis."""
    length = np.linalg.norm(vector)
    mirror = vector.copy()
    mirror[0] += length  # away from 0, and the sign is put right below
    mirror /= np.linalg.norm(mirror)
    return 2 * np.outer(mirror, mirror) - np.eye(vector.size)
