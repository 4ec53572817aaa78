"""What others offer for the same questions: draws from an alternative set, its log-probability.

hopsy samples one convex polytope, so its draws of the events are put together here, with the
events' probabilities; BlackJAX's elliptical slice sampler takes the union as it is. SciPy's
multivariate normal and OpenTURNS' subset and directional sampling estimate probabilities. Needs
the extra `peers`; without it the benchmark says so and is left out.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import logsumexp, softmax

from bayes_feasible._check import Array
from bayes_feasible.analysis.benchmarks.timing import show
from bayes_feasible.analysis.samplers import scoreboard
from bayes_feasible.analysis.samplers.own import Target
from bayes_feasible.analysis.samplers.sample import prepare
from bayes_feasible.analysis.samplers.targets import named

NEEDED = "blackjax", "hopsy", "openturns"
DRAWN = "one_event_4", "four_events_4", "four_events_40", "ball_10_20_40", "axes_20_40"
MEASURED = "four_events_4", "four_events_40", "four_events_400", "ball_10_20_40", "axes_20_40",\
    "corner", "duplicates"  # fmt: skip
CHAINS, DRAWS, TUNE = 4, 1000, 1000
STEPS = 0.03, 0.1, 0.3, 1.0  # of hopsy, whose best is taken
BOX = 100.0  # hopsy wants a bounded polytope; no draw comes near
LEVEL, DIRECTIONS = 10_000, 2000  # draws of each level, directions


def main() -> None:
    """Measure and print both tables."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        print(f"peers: left out, {', '.join(missing)} missing; pip install 'bayes_feasible[peers]'")
        return
    compare_draws()
    compare_probabilities()


class White(NamedTuple):
    """A target in coordinates that are standard normal without the events."""

    root: Array
    normals: Array  # (event, half-space, coordinate), of length 1
    limits: Array
    asked: NDArray[np.bool_]

    @classmethod
    def of(cls, target: Target) -> "White":
        """Whiten the events."""
        root = np.linalg.cholesky(target.covariance)
        normals, asked = target.vectors @ root, np.isfinite(target.limits)
        length = np.where(asked, np.linalg.norm(normals, axis=2), 1.0)
        limits = np.where(asked, (target.limits - target.vectors @ target.mean) / length, -np.inf)
        return cls(root, normals / length[..., np.newaxis], limits, asked)

    def log_tails(self) -> Array:
        """Log-probability of each event: its half-spaces are independent."""
        return stats.norm.logsf(self.limits).sum(axis=1)

    def margin(self, points: Any) -> Array:
        """How far inside the union points (point, coordinate) are; negative outside."""
        limits = np.where(self.asked, self.limits, -1e9)
        held = np.einsum("ebd,td->teb", self.normals, np.asarray(points)) - limits
        return held.min(axis=2).max(axis=1)[:, np.newaxis]


@cache
def _target(name: str) -> Target:
    return Target.of(prepare(*named(name), draws=DRAWS, tune=TUNE, chains=CHAINS))


# --- Draws


def hopsy_events(target: Target) -> Any:
    """Each event by hopsy's Gaussian coordinate hit-and-run; put together by their probabilities.

    The seconds that count are those of the step that does best.
    """
    white = White.of(target)
    shares, seconds = softmax(white.log_tails()), 0.0
    events = np.flatnonzero(shares > 1e-3)
    rng = np.random.default_rng(target.seed)
    length = 2 * target.draws
    picked = rng.choice(events, (CHAINS, length), p=shares[events] / shares[events].sum())
    points = np.empty((CHAINS, length, len(target.mean)))
    for event in events:
        drawn, spent = _polytope(white, int(event), target)
        seconds += spent
        for chain in range(CHAINS):
            mine = np.flatnonzero(picked[chain] == event)
            points[chain, mine] = drawn[chain, np.arange(mine.size) * length // max(mine.size, 1)]
    limits = np.where(white.asked, white.limits, -np.inf)
    inside = np.einsum("ebd,ctd->cteb", white.normals, points) >= limits - 1e-9
    count = inside.all(axis=3).sum(axis=2)
    kept = rng.random(count.shape) * count < 1.0
    draws = np.array([points[c][kept[c]][: target.draws] for c in range(CHAINS)])
    return target.label(target.mean + draws @ white.root.T, seconds=seconds)


def _polytope(white: White, event: int, target: Target) -> tuple[Array, float]:
    """Draws of one event, with the step that has most effective draws, and the seconds."""
    hopsy: Any = import_module("hopsy")
    asked, size = white.asked[event], len(target.mean)
    normals, limits = white.normals[event, asked], white.limits[event, asked]
    model = hopsy.Gaussian(mean=np.zeros(size), covariance=np.eye(size))
    problem = hopsy.add_box_constraints(
        hopsy.Problem(-normals, -limits, model), -BOX * np.ones(size), BOX * np.ones(size),
        simplify=False,
    )  # fmt: skip
    start = normals.T @ (np.maximum(limits, 0.0) + 0.05)
    found = []
    for step in STEPS:
        chains = [
            hopsy.MarkovChain(
                problem, proposal=hopsy.GaussianCoordinateHitAndRunProposal, starting_point=start
            )
            for _ in range(CHAINS)
        ]
        for chain in chains:
            chain.proposal.stepsize = step
        seeds = [hopsy.RandomNumberGenerator(seed=target.seed + i) for i in range(CHAINS)]
        began = time.perf_counter()
        _, states = hopsy.sample(
            chains, seeds, n_samples=2 * target.draws + target.tune, thinning=size
        )
        spent = time.perf_counter() - began
        states = states[:, target.tune :]
        effective = scoreboard.measured.convergence(np.moveaxis(states, 2, 0))["ess_bulk"].min()
        found.append((float(effective), states, spent))
    _, states, spent = max(found, key=lambda one: one[0])
    return states, spent


def compare_draws() -> None:
    """Effective draws a second and the verdict, on the same targets."""
    elliptical = import_module(
        "bayes_feasible.analysis.benchmarks.elliptical_slice"
    ).elliptical_slice
    rows = []
    named(DRAWN[0])[1].sample(named(DRAWN[0])[0], 10)  # what it needs once
    for name in DRAWN:
        posterior, wrong = named(name)
        samplers = {"exact": "exact", "hopsy": hopsy_events, "elliptical slice": elliptical}
        sizes = {"draws": DRAWS, "tune": TUNE, "chains": CHAINS}
        trees = scoreboard.run(posterior, wrong, samplers, progress=False, **sizes)
        # What compiling takes is told by a run of hardly any draws.
        short = scoreboard.run(
            posterior, wrong, {"short": elliptical}, progress=False, chains=CHAINS, draws=4, tune=0
        )
        tree = trees["elliptical slice"]
        tree.attrs["seconds"] = max(tree.attrs["seconds"] - short["short"].attrs["seconds"], 1e-3)
        board = scoreboard.judge(trees, posterior, wrong)
        exact = board.ess_per_second.sel(sampler="exact").item()
        for sampler in samplers:
            row = board.sel(sampler=sampler)
            speed = row.ess_per_second.item()
            rows.append(
                [
                    name, sampler, row.verdict.item(), f"{row.rhat.item():.3f}",
                    f"{row.ess_bulk.item():,.0f}", f"{speed:,.0f}",
                    f"{exact / speed:,.0f}" if speed > 0 else "-",
                ]
            )  # fmt: skip
    show(
        f"Draws: {CHAINS} chains of {DRAWS}, one core", ["target", "sampler", "verdict", "R-hat",
        "ESS", "ESS/s", "times slower than exact"], rows,
    )  # fmt: skip


# --- Log-probabilities


def by_scipy(white: White) -> tuple[float, float]:
    """Each event by SciPy's multivariate normal, and their sum, which counts overlaps again."""
    logs = []
    for normals, limits, asked in zip(white.normals, white.limits, white.asked, strict=True):
        across = normals[asked] @ normals[asked].T
        with warnings.catch_warnings(), np.errstate(divide="ignore"):
            warnings.simplefilter("ignore")
            normal = stats.multivariate_normal(np.zeros(len(across)), across)
            logs.append(float(normal.logcdf(-limits[asked])))
    return float(logsumexp(logs)), np.nan


def by_subset(white: White) -> tuple[float, float]:
    """OpenTURNS' subset sampling of the union."""
    ot: Any = import_module("openturns")
    algorithm = ot.SubsetSampling(_event(ot, white))
    algorithm.setMaximumOuterSampling(LEVEL // 1000)
    algorithm.setBlockSize(1000)
    return _estimate(algorithm)


def by_directions(white: White) -> tuple[float, float]:
    """OpenTURNS' directional sampling of the union, in whitened coordinates."""
    ot: Any = import_module("openturns")
    roots = ot.RootStrategy(ot.MediumSafe())
    roots.setMaximumDistance(40.0)
    algorithm = ot.DirectionalSampling(_event(ot, white), roots, ot.RandomDirection())
    algorithm.setMaximumOuterSampling(DIRECTIONS)
    algorithm.setBlockSize(1)
    algorithm.setMaximumCoefficientOfVariation(0.0)
    return _estimate(algorithm)


def _event(ot: Any, white: White) -> Any:
    size = white.normals.shape[2]
    function = ot.PythonFunction(size, 1, func_sample=white.margin)
    vector = ot.CompositeRandomVector(function, ot.RandomVector(ot.Normal(size)))
    ot.RandomGenerator.SetSeed(0)
    return ot.ThresholdEvent(vector, ot.GreaterOrEqual(), 0.0)


def _estimate(algorithm: Any) -> tuple[float, float]:
    algorithm.run()
    result = algorithm.getResult()
    with np.errstate(divide="ignore"):
        return float(np.log(result.getProbabilityEstimate())), result.getCoefficientOfVariation()


METHODS: dict[str, Callable[[White], tuple[float, float]]] = {
    "SciPy, events summed": by_scipy,
    "OpenTURNS, subset": by_subset,
    "OpenTURNS, directional": by_directions,
}


def compare_probabilities() -> None:
    """How far off, how sure, how long: the union by each method."""
    rows = [row for name in MEASURED for row in _measure(name)]
    show(
        "Log-probability of the union; off by: from ours, whose standard error is in the row",
        ["target", "method", "log P", "off by", "stated error", "seconds"], rows,
    )  # fmt: skip


def _measure(name: str) -> Iterator[list[str]]:
    posterior, wrong = named(name)
    white = White.of(_target(name))
    wrong.log_probability(posterior)  # what it needs once
    began = time.perf_counter()
    ours = wrong.log_probability(posterior)
    spent = time.perf_counter() - began
    yield [name, "ours", f"{ours.value:.4f}", "", f"{ours.standard_error:.2g}", f"{spent:.2g}"]
    for method, estimate in METHODS.items():
        began = time.perf_counter()
        try:
            value, error = estimate(white)
        except Exception as reason:  # what a program says where it cannot
            text = str(reason).splitlines()[0][:60]
            yield [name, method, "failed", text, "", f"{time.perf_counter() - began:.2g}"]
            continue
        spent, off = time.perf_counter() - began, value - ours.value
        stated = "none" if np.isnan(error) else f"{error:.2g}"
        yield [name, method, f"{value:.4f}", f"{off:+.2g}", stated, f"{spent:.2g}"]


if __name__ == "__main__":
    main()
