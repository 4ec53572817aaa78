"""Problems, pulls and log-densities that the tests of the models share.

The log-densities are written with SciPy from the definitions, pull by pull.
"""

from functools import cache

import numpy as np
from helpers import closed_form, noise
from scipy import special, stats

import bayes_feasible as bf
from bayes_feasible import models
from bayes_feasible.models._interpreted import INTERPRETED

KINDS = {
    "linear_gaussian": "gaussian",
    "unknown_noise": "gaussian",
    "student_t": "student_t",
    "logistic": "logistic",
}
NOISE = np.array([0.7, 0.5, 1.5])
PRIOR_PULLS, DEGREES = 4.0, 4.0  # as documented
LONG = np.arange(60) % 3  # which arms are pulled


def problem(constraints=2, **options):
    arms = {"a": [1.0, 0.0], "b": [0.3, 0.9], "c": [-0.5, 0.4], "d": [0.2, 0.2]}
    candidates = {"u": [1.0, 0.2], "v": [0.1, 0.8], "copy of u": [1.0, 0.2], "w": [0.6, -0.4]}
    thresholds = dict(list({"dose": 0.4, "price": 0.2}.items())[:constraints])
    return bf.Problem(
        arms,
        thresholds,
        candidates=candidates,
        reward_noise=NOISE[0],
        cost_noise=NOISE[1 : 1 + constraints],
        **options,
    )


def history(this, kind, arms, seed):
    """Pulls under parameters of length about one; arms that are not listed stay unseen."""
    constraints = this.thresholds.size
    easy = bf.Problem(
        this.arms,
        np.full(constraints, np.inf),
        reward_noise=this.reward_noise,
        cost_noise=this.cost_noise,
    )
    truth = bf.Instance(easy, [0.5, 0.3], np.array([[0.1, -0.4], [0.6, 0.2]])[:constraints])
    return bf.History(this, arms, *truth.pull(arms, seed, noise=KINDS[kind]))


def student_draws(data, number, seed):
    """Posterior draws (draw, block, feature) of `unknown_noise`, from the textbook formulas."""
    this = data.problem
    mean, inverse = closed_form(data.posterior())
    shown = np.column_stack([data.rewards, data.costs])
    squares = np.sum((shown - this.arms[data.arms] @ mean.T) ** 2, axis=0)
    squares += np.sum(mean**2, axis=1) + PRIOR_PULLS * noise(this) ** 2
    rng, degrees = np.random.default_rng(seed), PRIOR_PULLS + len(data)
    scale = np.sqrt(squares / rng.chisquare(degrees, (number, len(mean))))
    white = rng.standard_normal((number, *mean.shape)) @ np.linalg.cholesky(inverse).T
    return mean + scale[..., np.newaxis] * white


def build(kind, data):
    return getattr(models, kind)(data)


def points(model, number, seed, spread=1.0):
    """Random points in the coordinates of the samplers."""
    rng = np.random.default_rng(seed)
    first = model.initial_point(0)
    return [
        {name: spread * rng.standard_normal(np.shape(value)) for name, value in first.items()}
        for _ in range(number)
    ]


def log_density(kind, data, point):
    """Log-density of parameters and pulls, up to a constant."""
    theta = np.atleast_2d(point["theta_reward"])
    if "theta_cost" in point:
        theta = np.vstack([theta, point["theta_cost"]])
    noise = NOISE[: len(theta)]
    scale, total = noise, 0.0
    if kind == "unknown_noise":
        logs = np.concatenate([np.ravel(point[n]) for n in SCALES if n in point])
        variance, half = np.exp(logs), PRIOR_PULLS / 2
        scale = np.sqrt(variance)
        total += np.sum(stats.invgamma.logpdf(variance, half, scale=half * noise**2) + logs)
    total += np.sum(stats.norm.logpdf(theta, 0, scale[:, np.newaxis]))
    mean = data.problem.arms[data.arms] @ theta.T
    shown = np.column_stack([data.rewards, data.costs])
    if kind == "logistic":
        return total + np.sum(special.log_expit(np.where(shown == 1, mean, -mean)))
    if kind == "student_t":
        return total + np.sum(stats.t.logpdf(shown, DEGREES, mean, scale))
    return total + np.sum(stats.norm.logpdf(shown, mean, scale))


SCALES = ("reward_variance_log__", "cost_variance_log__")


def compiled(model):
    return model.compile_logp(mode=INTERPRETED)


def evaluated(model, *names):
    """A function of a point that gives these variables of the model."""
    outputs = model.replace_rvs_by_values([model[name] for name in names])
    return model.compile_fn(
        outputs, inputs=model.value_vars, mode=INTERPRETED, on_unused_input="ignore"
    )


def differences(values):
    values = np.asarray(values)
    return values[1:] - values[0]


@cache
def component(kind, constraints):
    """A model, its data, and a component of an alternative set with functions of it."""
    data = history(problem(constraints), kind, LONG, seed=8)
    base, alternative = build(kind, data), bf.Alternative(data.problem, 0)
    event = len(alternative.events) - 1
    model = models.alternative(base, alternative, "component", event=event)
    names = ["log_weight", "theta_reward", *["theta_cost"] * bool(constraints)]
    return data, base, alternative, model, compiled(model), evaluated(model, *names)


def event_vectors(alternative, event):
    """What an event asks, from the definition: {parameter: (vector, limit)}."""
    this = alternative.problem
    own = this.candidates[alternative.candidate]
    finite = np.flatnonzero(np.isfinite(this.thresholds))
    if event < finite.size:
        return {1 + finite[event]: (own, this.thresholds[finite[event]])}
    other = this.candidates[alternative.rivals[event - finite.size]]
    costs = {1 + j: (-other, -this.thresholds[j]) for j in finite}
    return {0: (other - own, 0.0)} | costs
