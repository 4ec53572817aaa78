r"""Simulation-based calibration of samplers, rules and models.

Parameters are drawn from the prior, data given the parameters; then the parameters are themselves a
draw from the posterior, and their rank among a sampler's draws is uniform (Talts et al. 2018).
That stays true on any event of the parameters alone: kept only where the truth lies in the
alternative set of a candidate that was fixed beforehand, the truth is a draw from the posterior
given that set, so samplers of the set are judged the same way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from bayes_feasible import _check
from bayes_feasible._draws import block_noise, unrestricted
from bayes_feasible.alternative.alternative import Alternative
from bayes_feasible.analysis.calibration import prior_predictive, quantities, uniformity
from bayes_feasible.analysis.calibration.prior_predictive import Maker
from bayes_feasible.analysis.calibration.quantities import Sampler
from bayes_feasible.analysis.calibration.uniformity import Band
from bayes_feasible.history import History
from bayes_feasible.problem import Problem

FALSE_ALARM = 0.001
DRAWS = 99  # ranks from 0 to 99
NOISE = {
    "linear_gaussian": "gaussian",
    "unknown_noise": "gaussian",
    "student_t": "student_t",
    "logistic": "logistic",
}


@dataclass(frozen=True)
class Verdict:
    """Whether the truth looks like one more draw; `reasons` say what is wrong, by quantity."""

    passed: bool
    false_alarm: float  # the probability at most that a right sampler fails
    reasons: dict[str, str]  # for each quantity or event that is wrong
    tests: int  # how many were looked at

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        if self.passed:
            return (
                f"calibrated: {self.tests} quantities are as they should be (a right sampler "
                f"passes with probability {1 - self.false_alarm:g})"
            )
        worst = "; ".join(f"{name}: {reason}" for name, reason in self.reasons.items())
        return f"NOT calibrated, {len(self.reasons)} of {self.tests} quantities: {worst}"


def alternative_ranks(
    problem: Problem, candidate: int, arms: Any, sampler: Sampler | str = "exact", *,
    replications: int = 500, draws: int = DRAWS, seed: int = 0, progress: bool = False,
    **options: Any,
) -> xr.Dataset:  # fmt: skip
    """Ranks of the truth among a sampler's draws given the alternative set.

    Parameters
    ----------
    problem : Problem
        Its prior and noise generate the experiments.
    candidate : int
        Whose alternative set it is; fixed before any data.
    arms : vector of arm indices
        The pulls of every experiment.
    sampler : str or callable
        A name of `samplers.SAMPLERS`, or a function of (posterior, alternative, draws, seed) that
        gives a Dataset with `theta_reward` (chain, draw, feature) and `theta_cost`.
    replications : int
        Experiments in which the truth lies in the set.
    draws : int
        Draws the truth is ranked among; those of the sampler are thinned to so many.
    seed : int
    progress : bool
    **options
        Of a sampler given by its name, as in `samplers.sample_alternative`.

    Returns
    -------
    Dataset
        `rank` (replication, quantity) with values from 0 to the attribute `draws`: of every
        coordinate, the reward and costs of every candidate, and the posterior density. Over
        (replication, event): `true_event`, whether the event contains the truth, and
        `event_share`, the share of the draws that it contains. Over replication: `outside`, the
        share of the draws outside the set.

    Examples
    --------
    >>> problem = Problem([[1, 0], [0, 1]], thresholds=0.5)
    >>> ranks = alternative_ranks(problem, 0, [0, 1, 1], replications=200)
    >>> dict(ranks.sizes)
    {'replication': 200, 'quantity': 9, 'event': 2}
    >>> print(judge(ranks))
    calibrated: 11 quantities are as they should be (a right sampler passes with probability 0.999)
    """
    alternative = Alternative(problem, candidate)
    arms = _check.arms(problem, arms)
    if options and not isinstance(sampler, str):
        raise ValueError(f"{next(iter(options))}: only a sampler given by its name has options")
    drawn_by = quantities.named_sampler(sampler, **options) if isinstance(sampler, str) else sampler
    rng = np.random.default_rng([seed, 0xCA1])
    rows, true_events, shares, outside = [], [], [], []
    for _ in prior_predictive.repeated("replications", replications, progress):
        truth = prior_predictive.prior(problem, rng, alternative)
        posterior = prior_predictive.pulled(problem, truth, arms, rng)
        dataset = drawn_by(posterior, alternative, draws, int(rng.integers(2**31)))
        drawn = quantities.thinned_blocks(dataset, draws)
        rows.append(quantities.rank(posterior, truth, drawn, rng))
        true_events.append(alternative.events.contains(truth))
        inside = alternative.events.contains(drawn)
        shares.append(inside.mean(axis=0))
        outside.append(1.0 - inside.any(axis=1).mean())
    names = [*quantities.plain_names(problem), "posterior density"]
    both = ("replication", "event")
    return quantities.labelled(rows, names, draws).assign(
        true_event=(both, np.array(true_events)),
        event_share=(both, np.array(shares)),
        outside=("replication", np.array(outside)),
        event=alternative.events.names,
    )


def rule_ranks(
    problem: Problem, rule: Maker, pulls: int, *,
    replications: int = 200, draws: int = DRAWS, seed: int = 0, progress: bool = False,
) -> xr.Dataset:  # fmt: skip
    """Ranks of the truth among draws of a rule's posterior, after pulls of the rule's own choice.

    To choose by what earlier pulls showed leaves the posterior what it is: every rule passes that
    knows of the truth by its pulls alone and takes in all that they show.

    Parameters
    ----------
    problem : Problem
    rule : callable
        A rule's class, or a function of (problem, seed) that gives anything with `ask`, `tell` and
        `posterior`.
    pulls : int
        Of every experiment.
    replications, draws, seed, progress
        As in `alternative_ranks`.

    Returns
    -------
    Dataset
        `rank` (replication, quantity): of every coordinate, the reward and costs of every
        candidate, and the posterior density.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> problem = bf.Problem([[1, 0], [0, 1]], thresholds=0.5)
    >>> print(judge(rule_ranks(problem, bf.LinearThompson, 10)))
    calibrated: 9 quantities are as they should be (a right sampler passes with probability 0.999)
    """
    pulls, rng = _check.count("pulls", pulls), np.random.default_rng([seed, 0x41E])
    rows = []
    for _ in prior_predictive.repeated("replications", replications, progress):
        truth = prior_predictive.prior(problem, rng)
        posterior = prior_predictive.played(problem, rule, pulls, truth, rng, "posterior").posterior
        drawn = unrestricted(posterior, draws, rng)
        rows.append(quantities.rank(posterior, truth, drawn, rng))
    return quantities.labelled(rows, [*quantities.plain_names(problem), "posterior density"], draws)


def model_ranks(
    name: str, problem: Problem, arms: Any,
    sampler: Callable[[Any, int, int], xr.Dataset] | None = None, *,
    replications: int = 100, draws: int = DRAWS, seed: int = 0, progress: bool = False,
) -> xr.Dataset:  # fmt: skip
    """Ranks of the truth among posterior draws of a model; it is compiled once.

    Parameters
    ----------
    name : {"linear_gaussian", "unknown_noise", "student_t", "logistic"}
        The model; parameters, scales and data are drawn as it says.
    problem : Problem
    arms : vector of arm indices
        The pulls of every experiment.
    sampler : callable, optional
        A function of (model, draws, seed) that gives a Dataset of draws (chain, draw, ...), by
        default NUTS of nutpie with four times a few hundred draws.
    replications, draws, seed, progress
        As in `alternative_ranks`.

    Returns
    -------
    Dataset
        `rank` (replication, quantity): every coordinate of the parameters, the reward and costs of
        every candidate, the scales where the model learns them, and the likelihood of the pulls,
        without which draws that ignore the pulls, from the prior, would pass.

    Examples
    --------
    >>> import bayes_feasible as bf
    >>> problem = bf.Problem([[1, 0], [0, 1]], thresholds=0.5)
    >>> def from_the_prior(model, draws, seed):
    ...     return bf.Posterior(problem).sample(draws, seed)
    >>> ranks = model_ranks("linear_gaussian", problem, [0, 1, 1], from_the_prior, replications=3)
    >>> dict(ranks.sizes), ranks.attrs["draws"]
    ({'replication': 3, 'quantity': 9}, 99)
    """
    from bayes_feasible import models
    from bayes_feasible.models.unknown_noise import PRIOR_PULLS

    if name not in NOISE:
        raise ValueError(f"name: expected one of {', '.join(NOISE)}, got {name!r}")
    arms = _check.arms(problem, arms)
    drawn_by = quantities.nuts_draws if sampler is None else sampler
    rng = np.random.default_rng([seed, 0x5BC])
    learns = name == "unknown_noise"
    model, rows = None, []
    for _ in prior_predictive.repeated("replications", replications, progress):
        scale = block_noise(problem)
        if learns:
            scale = scale * np.sqrt(PRIOR_PULLS / rng.chisquare(PRIOR_PULLS, scale.size))
        truth = scale[:, np.newaxis] * rng.standard_normal((scale.size, problem.arms.shape[1]))
        shown = prior_predictive.shown_by(problem, truth, arms, rng, NOISE[name], scale)
        history = History(problem, arms, shown[:, 0], shown[:, 1:])
        if model is None:
            model = getattr(models, name)(history)
        else:
            models.set_data(model, history)
        dataset = drawn_by(model, draws, int(rng.integers(2**31)))
        drawn = quantities.thinned_blocks(dataset, draws)
        scales = quantities.thinned_scales(dataset, draws) if learns else np.tile(scale, (draws, 1))
        own, others = (
            np.column_stack(
                [quantities.plain(problem, parameters), *([spread] if learns else []),
                 prior_predictive.log_likelihood(history, parameters, NOISE[name], spread)]
            )
            for parameters, spread in ((truth[np.newaxis], scale[np.newaxis]), (drawn, scales))
        )  # fmt: skip
        rows.append(quantities.ranks_below(own[0], others, rng))
    names = quantities.plain_names(problem)
    if learns:
        names += ["reward_scale", *(f"cost_scale[{c}]" for c in problem.coords["constraint"])]
    return quantities.labelled(rows, [*names, "likelihood"], draws)


def simuk_ranks(
    model: Any, replications: int = 100, *, draws: int = DRAWS, seed: int = 0, **options: Any
) -> xr.Dataset:
    """The same by simuk, from a model's own prior predictive draws.

    simuk generates the data from the model itself, so this checks sampler and data path, but not
    that the model says what it should; and it asks PyMC for a new model in every replication,
    which `model_ranks` avoids. A model whose data enter by potentials (`unknown_noise`) has no
    prior predictive draws and is refused.

    Parameters
    ----------
    model : Model
    replications, draws, seed
        As in `model_ranks`.
    **options
        For `pm.sample`.
    """
    import simuk

    if model.potentials:
        names = ", ".join(potential.name for potential in model.potentials)
        raise ValueError(f"model: its potentials ({names}) are left out when data are generated")
    chains = options.setdefault("chains", 4)
    options = {"draws": -(-4 * (draws + 1) // chains), **options}
    check = simuk.SBC(
        model, num_simulations=_check.count("replications", replications), seed=seed,
        sample_kwargs={"nuts_sampler": "pymc", "quiet": True, **options}, progress_bar=False,
    )  # fmt: skip
    check.run_simulations()
    if len(check.posteriors) < replications:  # it logs the error, and goes on with what it has
        raise RuntimeError(
            f"simuk: broke off after {len(check.posteriors)} of {replications} replications"
        )
    rng, rows = np.random.default_rng([seed, 0x51]), []
    variables = [variable.name for variable in model.free_RVs]
    for number, posterior in enumerate(check.posteriors):
        truth = check.ref_params.isel(sample=number)
        own = np.concatenate([np.ravel(truth[name].values) for name in variables])
        values = np.concatenate(
            [posterior[name].transpose("sample", ...).values.reshape(posterior.sizes["sample"], -1)
             for name in variables], axis=1,
        )  # fmt: skip
        rows.append(quantities.ranks_below(own, quantities.thinned(values, draws), rng))
    labels = [
        f"{name}[{', '.join(map(str, place))}]"
        for name in variables
        for place in np.ndindex(check.ref_params[name].isel(sample=0).shape)
    ]
    return quantities.labelled(rows, labels, draws)


def judge(ranks: xr.Dataset, false_alarm: float = FALSE_ALARM) -> Verdict:
    """Whether the truth looks like one more draw.

    All ranks have to be uniform; each event has to contain the truth as often as the draws; and
    no draw may lie outside the set.

    Parameters
    ----------
    ranks : Dataset
        From one of the functions above.
    false_alarm : float
        The probability at most that a right sampler fails, shared out over the quantities and
        events.

    Examples
    --------
    >>> problem = Problem([[1, 0], [0, 1]], thresholds=0.5)
    >>> def too_sure(posterior, alternative, draws, seed):
    ...     return alternative.sample(posterior, draws, seed=seed, scale=0.2)
    >>> ranks = alternative_ranks(problem, 0, [0, 1, 1], too_sure, replications=200)
    >>> bool(judge(ranks))
    False
    """
    table = ranks["rank"].transpose("replication", "quantity")
    limits = _band(ranks, false_alarm)
    counts = uniformity.counts_at(table.values, limits.ranks)
    outside = np.any((counts < limits.lower) | (counts > limits.upper), axis=1)
    names = table["quantity"].values
    reasons = {str(names[i]): uniformity.shape(counts[i], limits) for i in np.flatnonzero(outside)}
    if "event" in ranks.dims:
        reasons |= _judge_events(ranks, false_alarm / _tests(ranks))
        share = float(ranks["outside"].mean())
        if share > 0:
            reasons["alternative set"] = f"{100 * share:.2g} % of the draws lie outside"
    return Verdict(not reasons, false_alarm, reasons, _tests(ranks))


def _tests(ranks: xr.Dataset) -> int:
    return ranks.sizes["quantity"] + ranks.sizes.get("event", 0)


def _band(ranks: xr.Dataset, false_alarm: float) -> Band:
    level = false_alarm / _tests(ranks)
    return uniformity.band(ranks.sizes["replication"], int(ranks.attrs["draws"]), level)


def _judge_events(ranks: xr.Dataset, level: float) -> dict[str, str]:
    """Events that contain the truth too often or too seldom.

    Given which of truth and draws together are in the event, each of them is the truth with the
    same probability: the number of experiments whose truth is in it is a sum of coins.
    """
    draws, reasons = ranks.attrs["draws"], {}
    for event in ranks["event"].values:
        true = ranks["true_event"].sel(event=event).values
        share = ranks["event_share"].sel(event=event).values
        least, most = uniformity.coin_interval((draws * share + true) / (draws + 1), 0.5 * level)
        if not least <= true.sum() <= most:
            often = "seldom" if true.sum() > most else "often"
            reasons[str(event)] = f"the draws are in this event too {often}"
    return reasons


def distribution(ranks: xr.Dataset, false_alarm: float = FALSE_ALARM) -> xr.Dataset:
    """Distribution functions of the ranks less the uniform one, with their band.

    Returns
    -------
    Dataset
        `difference` (quantity, level), `lower` and `upper` (level), and the attribute
        `probability` that all differences of a right sampler stay within.

    Examples
    --------
    >>> problem = Problem([[1, 0], [0, 1]], thresholds=0.5)
    >>> curves = distribution(alternative_ranks(problem, 0, [0, 1, 1], replications=50))
    >>> bool(((curves.difference >= curves.lower) & (curves.difference <= curves.upper)).all())
    True
    """
    table = ranks["rank"].transpose("replication", "quantity")
    replications, limits = len(table), _band(ranks, false_alarm)
    share = uniformity.counts_at(table.values, limits.ranks) / replications
    return xr.Dataset(
        {
            "difference": (("quantity", "level"), share - limits.expected),
            "lower": ("level", limits.lower / replications - limits.expected),
            "upper": ("level", limits.upper / replications - limits.expected),
        },
        coords={"quantity": table["quantity"].values, "level": limits.expected},
        attrs={"probability": 1.0 - false_alarm},
    )


def figure(ranks: xr.Dataset, false_alarm: float = FALSE_ALARM) -> Any:
    """The distribution functions of the ranks, those outside the band by name.

    Examples
    --------
    >>> problem = Problem([[1, 0], [0, 1]], thresholds=0.5)
    >>> picture = figure(alternative_ranks(problem, 0, [0, 1, 1], replications=50))
    >>> picture.axes[0].get_title("left")
    'calibrated'
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from bayes_feasible.analysis.report.style import COLOURS, STYLE

    curves, verdict = distribution(ranks, false_alarm), judge(ranks, false_alarm)
    with mpl.rc_context(STYLE):
        picture = Figure(figsize=(6.5, 4), layout="constrained")
        axes = picture.subplots()
        level = np.concatenate([[0.0], curves.level.values, [1.0]])
        lower, upper = (np.pad(curves[name].values, 1) for name in ("lower", "upper"))
        share = f"{100 * curves.attrs['probability']:g} % band, all curves at once"
        axes.fill_between(level, lower, upper, color="0.88", label=share)
        failed = 0
        for name in curves.quantity.values:
            values = np.pad(curves.difference.sel(quantity=name).values, 1)
            if str(name) in verdict.reasons:
                colour = COLOURS[failed % len(COLOURS)]
                axes.plot(level, values, color=colour, linewidth=1.6, label=str(name), zorder=3)
                failed += 1
            else:
                axes.plot(level, values, color="0.5", linewidth=0.7)
        axes.set_xlabel("rank of the truth / number of draws")
        axes.set_ylabel("share of ranks, less uniform")
        axes.set_title("calibrated" if verdict.passed else "not calibrated")
        axes.legend(frameon=False, fontsize=8)
        return picture
