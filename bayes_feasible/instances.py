"""Ready-made instances: the paper's, a classic without constraints, and one from film ratings."""

from pathlib import Path
from typing import Any

import numpy as np

from bayes_feasible import _check
from bayes_feasible.instance import Instance
from bayes_feasible.problem import Problem

ATTEMPTS = 1000  # draws of a random instance before giving up
LARGEST_TABLE = 10**8  # numbers in the arms of a random instance
FILMS = Path(__file__).with_name("data") / "movielens_imdb_top60.csv"
FEATURES = ("one-hot", "genres")


def end_of_optimism(alpha: float = 0.1) -> Instance:
    r"""The "End of Optimism" instance of Lattimore and Szepesvári with a cost constraint.

    The reward parameter is (1, 0), the cost parameter (0, 1) and the threshold 0.5. The arms are
    (1, 0), the best feasible one; (0, 0.15), feasible; (0, 1), infeasible; (1.2, 1.2), infeasible
    with a higher reward than the best; and :math:`(\cos\alpha, \sin\alpha)`, which is hard to tell
    from the best where :math:`\alpha` is small.

    Parameters
    ----------
    alpha : float
        Angle of the last arm, strictly between 0 and π/2. It is feasible up to π/6. Angles below
        about 1.5e-8, whose cosine rounds to one, are refused: the best would not be unique.

    Returns
    -------
    Instance

    References
    ----------
    T. Lattimore and C. Szepesvári, "The end of optimism? An asymptotic analysis of finite-armed
    linear bandits", AISTATS 2017.

    Examples
    --------
    >>> end_of_optimism(alpha=0.1).summary().reward_gap.values.round(6).tolist()
    [0.0, 1.0, 1.0, -0.2, 0.004996]
    """
    angle = _acute("alpha", alpha)
    arms = [[1, 0], [0, 0.15], [0, 1], [1.2, 1.2], [np.cos(angle), np.sin(angle)]]
    return Instance(Problem(arms, thresholds=0.5), [1, 0], [0, 1])


def random_ball(d: int, k: int, seed: Any, *, threshold: float = 0.5) -> Instance:
    """Arms drawn uniformly from the unit ball.

    The reward is the first coordinate and the cost the last, so in one dimension they coincide.
    The arms are drawn again, from the same generator, until some candidate is feasible, no other
    feasible candidate has the same reward, and no cost lies exactly on the threshold.

    Parameters
    ----------
    d, k : int
        Numbers of features and of arms.
    seed : int, SeedSequence or Generator
    threshold : float
        The largest feasible mean cost; `inf` for a constraint that never binds.

    Returns
    -------
    Instance

    Raises
    ------
    ValueError
        If 1000 draws gave no such instance, as happens where the threshold is near or below -1.

    Examples
    --------
    >>> random_ball(d=2, k=5, seed=0).problem
    Problem: 5 arms, 5 candidates (the arms), 2 features, 1 constraint
      cost 0 <= 0.5, noise 1
      reward noise 1
    """
    d, k = _check.count("d", d), _check.count("k", k)
    if d * k > LARGEST_TABLE:
        raise ValueError(f"k: {k} arms of {d} features are more than {LARGEST_TABLE} numbers")
    limit = _threshold(threshold)
    generator = _check.generator("seed", seed)
    reward, cost = np.eye(1, d)[0], np.eye(1, d, d - 1)[0]
    for _ in range(ATTEMPTS):
        arms = _uniform_in_ball(generator, k, d)
        if _has_clear_best(arms @ reward, arms @ cost, limit):
            return Instance(Problem(arms, thresholds=limit), reward, cost)
    raise ValueError(
        f"threshold: {ATTEMPTS} draws of {k} arms in {d} dimensions gave no instance with a "
        f"best feasible arm for the threshold {limit:g}"
    )


def soare(d: int = 2, angle: float = 0.1) -> Instance:
    r"""The benchmark of Soare, Lazaric and Munos: best-arm identification without constraints.

    The arms are the canonical basis and :math:`\cos(\omega) e_1 + \sin(\omega) e_2`, the reward
    parameter is :math:`2 e_1`. The first arm is the best and the last its close rival; pulling
    the second, a poor one, is what tells the two apart.

    Parameters
    ----------
    d : int
        Number of features, at least 2.
    angle : float
        The angle :math:`\omega` between the best arm and its rival, strictly between 0 and π/2;
        below about 1.5e-8, where the cosine rounds to one, it is refused.

    Returns
    -------
    Instance

    References
    ----------
    M. Soare, A. Lazaric and R. Munos, "Best-arm identification in linear bandits", NeurIPS 2014.

    Examples
    --------
    >>> soare(d=3).mean_reward.round(6).tolist()
    [2.0, 0.0, 0.0, 1.990008]
    """
    d = _check.count("d", d, least=2)
    if d * (d + 1) > LARGEST_TABLE:
        raise ValueError(f"d: {d + 1} arms of {d} features are more than {LARGEST_TABLE} numbers")
    omega = _acute("angle", angle)
    basis = np.eye(d)
    rival = np.cos(omega) * basis[0] + np.sin(omega) * basis[1]
    return Instance(Problem(np.vstack([basis, rival])), 2 * basis[0])


def movielens(
    threshold: float = 7.5, *, films: int = 60, features: str = "one-hot", table: Any = None
) -> Instance:
    """Find the film that MovieLens users rate highest among those IMDb scores low.

    The reward of a film is its mean MovieLens rating (0.5 to 5), its cost the IMDb score (1 to
    10). Both noises are 1.

    Parameters
    ----------
    threshold : float
        The largest feasible IMDb score.
    films : int
        How many films to keep, most rated first; at most 60 of the table that comes along.
    features : {"one-hot", "genres"}
        With "one-hot" each film has a feature of its own, and the truth is the data: for the
        default threshold 12 films are feasible and X-Men (2000) is the best, with mean 3.6992.

        With "genres" the features are a constant and an indicator of each genre that occurs, and
        the truth is the least-squares fit of rating and score on them (the shortest one, as the
        indicators may be linearly dependent): a linear model of the data, not the data. For the
        default threshold 6 films are feasible in it, and the best is The Princess Bride (1987),
        with a fitted rating of 3.658 and a fitted score of 7.41, although its own score is 8.1.
        Films of the same genres have the same vector: they are copies of one candidate and count
        as the same recommendation.
    table : FilmTable, its DataFrame, or path of a saved one, optional
        Other films, from the files of MovieLens and IMDb; see `read_films`. Films without an
        IMDb score are left out.

    Returns
    -------
    Instance

    Examples
    --------
    >>> instance = movielens()
    >>> instance.problem.name(instance.best), float(instance.mean_reward[instance.best])
    ('X-Men (2000)', 3.699248)
    >>> movielens(features="genres").problem.arms.shape
    (60, 18)
    """
    import pandas as pd

    from bayes_feasible.datasets.films import genre_lists, scored_films, unique_titles

    limit = _threshold(threshold)
    known = scored_films(FILMS if table is None else table)
    if _check.count("films", films) > len(known):
        raise ValueError(f"films: expected at most {len(known)}, got {films}")
    if not isinstance(features, str) or features not in FEATURES:
        raise ValueError(f"features: expected one of {FEATURES}, got {features!r}")
    titles, known = unique_titles(known)[:films], known.head(films)
    reward, cost = (known[name].to_numpy(dtype=float) for name in ("rating_mean", "imdb_score"))
    if features == "one-hot":
        arms = pd.DataFrame(np.eye(films), index=titles, columns=titles)
    else:
        genres = genre_lists(known)
        found = sorted({genre for each in genres for genre in each})
        has = {genre: [float(genre in each) for each in genres] for genre in found}
        arms = pd.DataFrame({"constant": 1.0, **has}, index=titles)
        reward, cost = np.linalg.lstsq(arms, np.column_stack([reward, cost]), rcond=None)[0].T
    lowest = (arms.to_numpy() @ cost).min()
    if lowest > limit:
        raise ValueError(f"threshold: no film is feasible; the lowest score is {lowest:.4g}")
    return Instance(Problem(arms, thresholds={"imdb_score": limit}), reward, cost)


def _acute(name: str, value: Any) -> float:
    """An angle strictly between 0 and π/2 whose cosine is less than one."""
    angle = _check.positive(name, value)
    if not (angle < np.pi / 2 and np.cos(angle) < 1):
        raise ValueError(
            f"{name}: expected an angle between 1.5e-8 and pi/2, so that the first arm is the "
            f"only best one, got {angle:g}"
        )
    return angle


def _threshold(value: Any) -> float:
    limit = _check.numbers("threshold", value, infinite=True)
    if limit.ndim or np.isneginf(limit):
        raise ValueError(f"threshold: expected one number or inf, got {value!r}")
    return float(limit)


def _uniform_in_ball(generator: np.random.Generator, k: int, d: int) -> _check.Array:
    """Uniform points of the unit ball: a uniform direction, and a radius of distribution r^d."""
    direction = generator.standard_normal((k, d))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return direction * generator.random((k, 1)) ** (1 / d)


def _has_clear_best(rewards: _check.Array, costs: _check.Array, limit: float) -> bool:
    feasible = np.sort(rewards[costs <= limit])
    unique = feasible.size > 0 and not np.any(feasible[:-1] == feasible[-1])
    return bool(unique and not np.any(costs == limit))
