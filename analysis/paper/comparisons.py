"""BLFAIPS against its rivals: a table of settings for each section of the paper, run and judged."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from bayes_feasible.analysis.paper import compare, figures
from bayes_feasible.analysis.paper.claims import Claim, fill, state, words
from bayes_feasible.analysis.paper.compare import (
    AT_END,
    BASELINES,
    HEROES,
    PAPER_ETA,
    RIVALS,
    RULES,
    TIMES,
)
from bayes_feasible.analysis.paper.films import ResampledRatings
from bayes_feasible.analysis.paper.runs import Data, Experiment, Part, Rules
from bayes_feasible.instance import Instance
from bayes_feasible.instances import end_of_optimism, movielens, random_ball
from bayes_feasible.rules.blfaips import BLFAIPS
from bayes_feasible.rules.peps import PEPS
from bayes_feasible.simulation.simulate import Environment

INSTANCES = 50  # that are averaged, of seeds 0, 1, ...
SEED = 0  # of the one instance
OF_SEED, ONE, AVERAGE = f"instance of seed {SEED}", "one instance", "average"


class Setting(NamedTuple):
    """One experiment, and what it is called in figures and claims."""

    title: str  # of its figure
    words: dict[str, Any]  # of its claims
    place: tuple[str, str]  # the setting, and whether it is one instance or many
    make: Callable[[int], Instance]  # from a seed
    rules: Rules = RULES
    times: Sequence[int] = TIMES
    share: int = 1  # times the repetitions of other settings
    environment: Callable[..., Environment] = Environment


Table = Mapping[str, Setting]  # by the name of the experiment


def work(
    table: Table, repetitions: int, times: Sequence[int] = (), instances: int = INSTANCES
) -> list[Experiment]:
    """Make the experiments; averages have as many repetitions in all as one instance."""
    found = []
    for name, one in table.items():
        number = instances if one.place[1] == AVERAGE else 1
        each = one.share * repetitions if number == 1 else max(2, repetitions // number)
        made = [one.make(SEED + i) for i in range(number)]
        found.append(
            Experiment(name, made, one.rules, times or one.times, each, environment=one.environment)
        )
    return found


def pictures(table: Table, data: Data, **options: Any) -> dict[str, Figure]:
    """Draw accuracy over time in every setting."""
    return {name: figures.accuracy(data[name], table[name].title, **options) for name in table}


def _contests(claim: str, table: Table, data: Data) -> list[Claim]:
    """Each hero against its rivals in every setting."""
    each = (compare.contest_claims(claim, data[name], **one.words) for name, one in table.items())
    return [row for rows in each for row in rows]


def _dependence(table: Table, data: Data, where: str, rivals: Sequence[str] = RIVALS) -> Claim:
    places = {one.place: data[name] for name, one in table.items()}
    return compare.dependence_claim(places, where, rivals=rivals)


def _the_same(make: Callable[..., Instance], _seed: int, **options: Any) -> Instance:
    """An instance that no seed changes."""
    return make(**options)


# Section 6.1: the "End of Optimism" instances, for three angles

ALPHAS = (0.1, 0.2, 0.3)
OPTIMISM: Table = {
    f"end_of_optimism_{alpha}": Setting(
        f"End of Optimism, α = {alpha}", {"alpha": alpha}, (f"α = {alpha}", ONE),
        partial(_the_same, end_of_optimism, alpha=alpha), RULES | BASELINES,
        share=2,  # these runs are short, and the best known
    )
    for alpha in ALPHAS
}  # fmt: skip
PAPER_REPETITIONS = 50


def optimism_claims(data: Data) -> list[Claim]:
    """BLFAIPS against its rivals for each angle; how near the optimum; what 50 runs can show."""
    rows = _contests("end_of_optimism", OPTIMISM, data)
    depends = _dependence(OPTIMISM, data, "Section 6.1")
    return [*rows, depends, _near_optimum(data), _fifty(data)]


def _near_optimum(data: Data) -> Claim:
    parts, short = [], []
    for name, setting in OPTIMISM.items():
        rules = map(str, data[name].rule.values)
        each = {rule: compare.estimate(data[name], rule, compare.EFFICIENCY) for rule in rules}
        parts.append(f"{setting.place[0]}: " + ", ".join(f"{r} {e}" for r, e in each.items()))
        short.append(each[PAPER_ETA].value)
    return state("near_optimum", result="; ".join(parts), least=min(short), most=max(short))


def _fifty(data: Data) -> Claim:
    """How large a difference has to be to show in 50 repetitions of right or wrong."""
    parts, hidden = [], 0
    for name, setting in OPTIMISM.items():
        for criterion in AT_END:
            one = compare.estimate(data[name], PAPER_ETA, criterion).value
            for rival in RIVALS:
                gap = compare.difference(data[name], PAPER_ETA, rival, criterion)
                other = compare.estimate(data[name], rival, criterion).value
                band = 2 * ((one * (1 - one) + other * (1 - other)) / PAPER_REPETITIONS) ** 0.5
                hidden += abs(gap.value) < band
                where = f"{setting.place[0]}, {rival}, by {criterion.name}"
                parts.append(f"{where}: {gap.signed()}, band ±{band:.2f}")
    return state("fifty", not hidden, result="; ".join(parts), hidden=hidden, total=len(parts))


def optimism_pictures(data: Data) -> dict[str, Figure]:
    """One figure for each angle, and the allocation's efficiency over time."""
    title = f"How near the optimal rate the pulls are, α = {ALPHAS[0]}"
    shown = {name: data[name].sel(rule=list(RULES)) for name in OPTIMISM}
    efficiency = {"end_of_optimism_efficiency": figures.efficiency(shown[next(iter(shown))], title)}
    return pictures(OPTIMISM, shown) | efficiency


# Section 6.2: random arms in the unit ball, one instance as in the paper and the average over many

SIZES = ((2, 5), (2, 20), (2, 50), (20, 20), (50, 20))  # dimensions and numbers of arms
KINDS = {"": (OF_SEED, ONE, OF_SEED), "_average": (AVERAGE, AVERAGE, "average of instances")}
BALL: Table = {
    f"random_ball{kind}_d{d}_k{k}": Setting(
        f"Unit ball, d = {d}, K = {k}: {long}", {"d": d, "k": k, "label": label},
        (f"d = {d}, K = {k}", instances), partial(random_ball, d, k),
    )
    for d, k in SIZES
    for kind, (label, instances, long) in KINDS.items()
}  # fmt: skip


def ball_claims(data: Data) -> list[Claim]:
    """BLFAIPS against its rivals in each setting, and over all settings."""
    over_all = [_over_all(data, hero) for hero in HEROES]
    depends = _dependence(BALL, data, "Section 6.2")
    return [*over_all, depends, *_contests("random_ball", BALL, data)]


def _over_all(data: Data, hero: str) -> Claim:
    """The claim as the paper puts it: faster for every number of arms and of dimensions."""
    standings, parts, total = [], [], Counter(ahead=0, level=0, behind=0)
    for name, setting in sorted(BALL.items(), key=lambda item: item[1].place[1] == AVERAGE):
        found = compare.Contest(data[name], hero, RIVALS).standings
        standings += found
        own = Counter(standing for *_, standing in found)
        counts = ", ".join(f"{own[word]} {word}" for word in total)
        parts.append(f"{', '.join(setting.place)}: {counts}")
        total.update(own)
    opening = compare.judge(standings).split(":")[0]
    return state("all_balls", hero=hero, result="; ".join(parts), opening=opening, **total)


def ball_pictures(data: Data) -> dict[str, Figure]:
    """One figure for each setting, and all differences at a glance."""
    averages = {s.place[0]: data[name] for name, s in BALL.items() if s.place[1] == AVERAGE}
    title = "Unit ball, average of instances: accuracy minus that of others"
    differences = figures.differences(averages, HEROES, RIVALS, title)
    return pictures(BALL, data) | {"random_ball_differences": differences}


# Section 6.3: PEPS, where no constraint binds: budget known, and unknown

RESTART = 1024  # the last restart before the end
KNOWN, FIXED = "PEPS (T known)", "PEPS (T known, fixed rate)"
FORGETS, KEEPS = "PEPS (doubling, forgets)", "PEPS (doubling, keeps data)"
PEPS_TIMES = tuple(sorted({*TIMES, 512, 520, RESTART, RESTART + 6}))
PEPS_RULES = RULES | {
    KNOWN: partial(PEPS, horizon=TIMES[-1]),
    FIXED: partial(PEPS, horizon=TIMES[-1], learner="hedge"),
    FORGETS: PEPS,
    KEEPS: partial(PEPS, keep_data=True),
}
FREE: Table = {
    f"peps{kind}": Setting(
        f"No constraint, d = 2, K = 5: {long}", {"label": label}, ("d = 2, K = 5", instances),
        partial(random_ball, 2, 5, threshold=float("inf")), PEPS_RULES, PEPS_TIMES,
    )
    for kind, (label, instances, long) in KINDS.items()
}  # fmt: skip


def peps_claims(data: Data) -> list[Claim]:
    """Known and unknown budget, on one instance and on average."""
    rows = []
    for name, setting in FREE.items():
        found, shared = data[name], setting.words | compare.measure(data[name])
        rows += [
            _known(found, shared), _unknown(found, shared, FORGETS, "forgets"),
            _unknown(found, shared, KEEPS, "keeps"),
        ]  # fmt: skip
    return rows


def _known(found: xr.Dataset, shared: dict[str, Any]) -> Claim:
    contest = compare.Contest(found, PAPER_ETA, (KNOWN, FIXED))
    same = (found.allocation.sel(rule=PAPER_ETA) == found.allocation.sel(rule=KNOWN)).all()
    level = all(standing == "level" for *_, standing in contest.standings)
    against = [f"{s} by {c}" for c, rival, s in contest.standings if rival == FIXED]
    return state(
        "peps_known",
        "holds" if level else "part",
        result=f"{compare.accuracies(found)}. {contest.text()}",
        why="with AdaHedge the two are the same rule, pull for pull" if same else "pulls differ",
        fixed=", ".join(against),
        **shared,
    )


def _unknown(found: xr.Dataset, shared: dict[str, Any], rule: str, how: str) -> Claim:
    contest = compare.Contest(found, PAPER_ETA, (rule,))
    around = "; ".join(
        f"after {t} pulls "
        + compare.difference(found.sel(time=[t]), PAPER_ETA, rule, AT_END[0]).signed()
        for t in (RESTART, RESTART + 6)
        if t in found.time.values
    )
    result = contest.text()
    if around:
        result += f". Around the last restart, by one draw: {around}"
    verdict = f"{contest.verdict()}. {compare.also_simple(found, PAPER_ETA, (rule,))}"
    texts = {"how": how, "result": result, "verdict": verdict}
    return state("peps_unknown", restart=RESTART, **shared, **texts)


def peps_pictures(data: Data) -> dict[str, Figure]:
    """The rules of this comparison, on one instance and on average."""
    shown = [PAPER_ETA, FIXED, FORGETS, KEEPS, "LinTS", "Oracle", "Uniform", "G-optimal"]
    return pictures(FREE, {name: found.sel(rule=shown) for name, found in data.items()})


# Section 6.4: films, the best rated on MovieLens among those that IMDb scores below 7.5

FILM_TIMES = (10, 20, 50, 100, 200, *range(500, 5001, 500))
FILM_RIVALS = (compare.THOMPSON, compare.TOP_TWO)  # those of the paper's figure
PULLED = compare.Criterion("share of pulls that are the best film", "best_share")
# The paper's L, R1 and R2, which give its eta: 1/480.
FILM_RULES = RULES | {
    PAPER_ETA: partial(BLFAIPS, arm_norm=3**0.5, parameter_radius=(10**0.5, 20**0.5))
}
FEW = {name: FILM_RULES[name] for name in (*HEROES, *FILM_RIVALS, "Uniform", "G-optimal")}
FILMS: Table = {
    name: Setting(
        label[0].upper() + label[1:], {"label": label}, (label, "one table"),
        partial(_the_same, movielens, **options), rules, FILM_TIMES,
        environment=world,
    )
    for name, label, options, rules, world in (
        ("films_20", "top 20 films, an arm each", {"films": 20}, FILM_RULES, ResampledRatings),
        ("films_20_exact_scores", "top 20 films, an arm each, scores shown without noise",
         {"films": 20}, FEW, partial(ResampledRatings, score_noise=0.0)),
        ("films_60", "top 60 films, an arm each", {"films": 60}, FEW, ResampledRatings),
        ("films_60_genres", "top 60 films, genre features",
         {"films": 60, "features": "genres"}, FEW, ResampledRatings),
    )
}  # fmt: skip
DEAREST = "X-Men (2000)"  # best feasible of the 60 by its own ratings and score


def film_claims(data: Data) -> list[Claim]:
    """BLFAIPS against LinTS and Top-Two in each setting, by both readings of accuracy."""
    rows: list[Claim] = []
    for name, setting in FILMS.items():
        found, size = data[name], compare.measure(data[name])
        best = np.atleast_1d(found.attrs["best"])[0]
        note = _genre_note(found) if name == "films_60_genres" else ""
        texts = setting.words | {"rivals": FILM_RIVALS, "best": best}
        rows += compare.contest_claims("movielens", found, note, **texts)
        pulled = compare.Contest(found, PAPER_ETA, FILM_RIVALS, [PULLED])
        texts = setting.words | {"result": pulled.text(), "verdict": pulled.verdict()}
        rows.append(state("film_pulled", **size, **texts))
    depends = _dependence(FILMS, data, "Section 6.4", FILM_RIVALS)
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
    for rule in (*HEROES, *FILM_RIVALS, "Uniform"):
        answers = found.by_mean.sel(rule=rule).isel(instance=0, time=-1).values
        parts.append(f"{rule} {compare.estimate_of(same[answers] & (answers >= 0))}")
    text = words()["movielens"]["note"]
    return fill(text, dearest=DEAREST, same=int(same.sum()), shares=", ".join(parts))


def _genres() -> Claim:
    try:
        instance = movielens(films=20, features="genres")
    except ValueError as error:
        return state("genres", "unclear", result=f"{error} (exact, least squares)")
    return state("genres", result=f"feasible: {instance.problem.name(instance.best)}")


PARTS = {
    "end_of_optimism": Part(partial(work, OPTIMISM), optimism_claims, optimism_pictures),
    "random_ball": Part(partial(work, BALL), ball_claims, ball_pictures),
    "peps": Part(partial(work, FREE), peps_claims, peps_pictures),
    "movielens": Part(partial(work, FILMS), film_claims, partial(pictures, FILMS, pulled=True)),
}
