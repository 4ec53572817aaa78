"""Films: the best rated on MovieLens among those that IMDb scores below 7.5."""

from collections.abc import Mapping
from functools import partial

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from bayes_feasible.analysis.paper import figures
from bayes_feasible.analysis.paper.claims import Claim, fill, state, words
from bayes_feasible.analysis.paper.compare import (
    Contest,
    Criterion,
    contest_claims,
    estimate_of,
    measure,
)
from bayes_feasible.analysis.paper.dependence import dependence_claim
from bayes_feasible.analysis.paper.films import ResampledRatings
from bayes_feasible.analysis.paper.rule_sets import (
    HEROES,
    PAPER_ETA,
    RULES,
    THOMPSON,
    TOP_TWO,
    TRUE_POSTERIOR,
)
from bayes_feasible.analysis.paper.runs import Experiment
from bayes_feasible.instances import movielens
from bayes_feasible.rules.blfaips import BLFAIPS

TIMES = (10, 20, 50, 100, 200, *range(500, 5001, 500))
RIVALS = (THOMPSON, TOP_TWO)  # those of the paper's figure
PULLED = Criterion("share of pulls that are the best film", "best_share")
# The paper's L, R1 and R2, which give its eta: 1/480.
PAPER_RULES = RULES | {
    PAPER_ETA: partial(BLFAIPS, arm_norm=3**0.5, parameter_radius=(10**0.5, 20**0.5))
}
FEW = {
    name: PAPER_RULES[name]
    for name in (PAPER_ETA, TRUE_POSTERIOR, THOMPSON, TOP_TWO, "Uniform", "G-optimal")
}
LABELS = {
    "films_20": "top 20 films, an arm each",
    "films_20_exact_scores": "top 20 films, an arm each, scores shown without noise",
    "films_60": "top 60 films, an arm each",
    "films_60_genres": "top 60 films, genre features",
}
DEAREST = "X-Men (2000)"  # best feasible of the 60 by its own ratings and score


def studies(repetitions: int, times: tuple[int, ...] = TIMES) -> list[Experiment]:
    """Top 20 and top 60 films, one-hot arms; top 20 with exact scores; top 60 by genre."""
    noisy, exact = ResampledRatings, partial(ResampledRatings, score_noise=0.0)
    top20, top60 = movielens(films=20), movielens(films=60)
    genres = movielens(films=60, features="genres")
    rows = (
        ("films_20", top20, PAPER_RULES, noisy),
        ("films_20_exact_scores", top20, FEW, exact),
        ("films_60", top60, FEW, noisy),
        ("films_60_genres", genres, FEW, noisy),
    )
    return [
        Experiment(name, [instance], rules, times, repetitions, environment=environment)
        for name, instance, rules, environment in rows
    ]


def claims(data: Mapping[str, xr.Dataset]) -> list[Claim]:
    """BLFAIPS against LinTS and Top-Two in each setting, by both readings of accuracy."""
    rows: list[Claim] = []
    for name, label in LABELS.items():
        found = data[name]
        best = np.atleast_1d(found.attrs["best"])[0]
        note = _genre_note(found) if name == "films_60_genres" else ""
        rows += contest_claims("movielens", found, note, rivals=RIVALS, label=label, best=best)
        pulled = Contest(found, PAPER_ETA, RIVALS, [PULLED])
        texts = {"label": label, "result": pulled.text(), "verdict": pulled.verdict()}
        rows.append(state("film_pulled", **measure(found), **texts))
    settings = {(label, "one table"): data[name] for name, label in LABELS.items()}
    depends = dependence_claim(settings, "Section 6.4", rivals=RIVALS)
    top = movielens(films=20)
    feasible = int((top.mean_cost[:, 0] <= 7.5).sum())
    best = top.problem.name(top.best)
    twenty = state("twenty_films", feasible != 1, feasible=feasible, best=best)
    return [*rows, depends, twenty, _genres()]


def _genre_note(found: xr.Dataset) -> str:
    """With genre features: how often the answer has the vector of the film that is really best."""
    problem = movielens(films=60, features="genres").problem
    same = problem.copies(int(np.flatnonzero(problem.coords["candidate"] == DEAREST)[0]))
    parts = []
    for rule in (*HEROES, *RIVALS, "Uniform"):
        answers = found.by_mean.sel(rule=rule).isel(instance=0, time=-1).values
        parts.append(f"{rule} {estimate_of(same[answers] & (answers >= 0))}")
    text = words()["movielens"]["note"]
    return fill(text, dearest=DEAREST, same=int(same.sum()), shares=", ".join(parts))


def _genres() -> Claim:
    try:
        instance = movielens(films=20, features="genres")
    except ValueError as error:
        return state("genres", "unclear", result=f"{error} (exact, least squares)")
    return state("genres", result=f"feasible: {instance.problem.name(instance.best)}")


def pictures(data: Mapping[str, xr.Dataset]) -> dict[str, Figure]:
    """Accuracy over time in each setting."""
    return {
        name: figures.accuracy(data[name], label[0].upper() + label[1:], pulled=True)
        for name, label in LABELS.items()
    }
