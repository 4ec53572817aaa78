"""How fast the sampling rules are: `python -m bayes_feasible.analysis.benchmarks.rounds`.

Times are medians over runs on one core, and what a rule's round takes includes the pull that is
simulated. The yardstick is BLFAIPS in plain NumPy with rejection sampling (`plain_numpy`).
"""

import itertools
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np
from numba import njit

import bayes_feasible as bf
from bayes_feasible import BLFAIPS, Instance, Rule, instances, simulate
from bayes_feasible.alternative.normal import tail_excess
from bayes_feasible.analysis.benchmarks import plain_numpy
from bayes_feasible.analysis.benchmarks.timing import median_seconds, seconds_of, show
from bayes_feasible.rules.draws import weigh_chances, weigh_events
from bayes_feasible.rules.engine import pick
from bayes_feasible.simulation.world import Environment

ETAS: dict[str, float | str] = {"paper": "paper", "1": 1.0}
HORIZON = 2000
SEEDS = 3
MOST_SECONDS = 10.0  # for a run in plain NumPy
RULES: dict[str, Callable[..., Rule]] = {
    "Descent": bf.Descent,
    "BLFAIPS": BLFAIPS,
    "BLFAIPS, eta = 1": partial(BLFAIPS, eta=1.0),
    "LinearThompson": bf.LinearThompson,
    "TopTwo": bf.TopTwo,
    "TopTwo, beta optimal": partial(bf.TopTwo, beta="optimal"),
    "TopTwo, information": partial(bf.TopTwo, select="information"),
    "BestResponse": bf.BestResponse,
    "PlugIn": bf.PlugIn,
    "Oracle": bf.Oracle,
    "Uniform": bf.Uniform,
    "GOptimal": bf.GOptimal,
}
FIRST_ROUND = """
import bayes_feasible as bf
instance = bf.instances.end_of_optimism()
rule = bf.BLFAIPS(instance)
arm = rule.ask()
rule.tell(arm, *(shown[0] for shown in instance.pull([arm], seed=0)))
"""


def main() -> None:
    """Measure and print everything."""
    instance = instances.end_of_optimism(0.1)
    for make in RULES.values():
        Environment(instance, 0, 1).play(make(instance), 100)  # compiles
    simulate(instance, RULES, 200, 2, executor=False)
    against_plain_numpy()
    against_the_floor(instance)
    late_against_early(instance)
    growth()
    all_rules(instance)
    whole_study()
    first_round()


def microseconds_a_round(
    instance: Instance, make: Callable[..., Rule], rounds: int, *, before: int = 0, runs: int = 5
) -> float:
    """Median over runs with new seeds, after so many rounds that are not timed."""
    times = []
    for seed in range(runs):
        rule, world = make(instance, seed=seed), Environment(instance, 2 * seed, 2 * seed + 1)
        world.play(rule, max(before, 1))
        times.append(seconds_of(partial(world.play, rule, rounds)))
    return 1e6 * median(times) / rounds


def against_plain_numpy() -> None:
    """Rounds a second of the same algorithm with rejection sampling in plain NumPy."""
    rows = []
    for alpha, (name, eta) in itertools.product((0.1, 0.3), ETAS.items()):
        instance, make = instances.end_of_optimism(alpha), partial(BLFAIPS, eta=eta)
        design = bf.g_optimal(instance.problem).allocation.values
        ours = 1e-6 * HORIZON * microseconds_a_round(instance, make, HORIZON, runs=15)
        numpy_eta = 1.0 / make(instance)._options.scale
        for batch in (1, 256):
            runs = [
                plain_numpy.blfaips(
                    instance, design, numpy_eta, HORIZON, seed, batch=batch,
                    most_seconds=MOST_SECONDS,
                )
                for seed in range(SEEDS)
            ]  # fmt: skip
            plain, fewest = median(map(whole_seconds, runs)), min(r.seconds.size for r in runs)
            rows.append(
                [
                    f"α = {alpha}, eta {name}, {batch} draw{'s' * (batch > 1)} at a time",
                    f"{HORIZON / ours:,.0f}",
                    f"{HORIZON / plain:,.0f}",
                    f"{plain / ours:,.0f}",
                    f"{median(float(r.proposals[-200:].mean()) for r in runs):,.0f}",
                    "all" if fewest == HORIZON else f"{fewest} of {HORIZON}, then extrapolated",
                ]
            )
    title = f"BLFAIPS for {HORIZON} rounds, d = 2, K = 5, against plain NumPy (median of {SEEDS})"
    show(title, ["", "ours, rounds/s", "NumPy, rounds/s", "ratio", "draws a round at the end",
                 "rounds NumPy finished"], rows)  # fmt: skip


def whole_seconds(run: plain_numpy.Finished) -> float:
    """Time of all rounds: rounds not finished count as those of the last tenth that was.

    They would be slower still, as the alternative set gets rarer: this favours plain NumPy.
    """
    finished = run.seconds.size
    tail = max(finished // 10, 1)
    pace = (run.seconds[-1] - run.seconds[-tail - 1] if finished > tail else run.seconds[-1]) / tail
    return float(run.seconds[-1] + (HORIZON - finished) * pace)


@njit(cache=True)
def floor(bounds, rounds, rank, rng):
    """The random numbers and normal tails of so many BLFAIPS rounds, and nothing else."""
    events, blocks = bounds.shape
    log_probability, chance = np.empty(events), np.empty(events)
    total = 0.0
    for _ in range(rounds):
        top = weigh_events(bounds, log_probability)
        mass, _ = weigh_chances(log_probability, top, chance)
        event = pick(chance, mass, rng)
        for b in range(blocks):
            for _ in range(rank):
                total += rng.standard_normal()
            if bounds[event, b] > -np.inf:
                total += tail_excess(rng, bounds[event, b])
            total += rng.standard_normal()  # the noise of the pull
        total += rng.random() + rng.random()  # whether to explore, and the arm
        bounds[event, 0] += 1e-15 * total  # so that no round can be left out
    return total


def against_the_floor(instance: Instance) -> None:
    """Time of a round beside that of its random numbers and normal tails alone."""
    rounds, rows = 100_000, []
    for name, eta in ETAS.items():
        make = partial(BLFAIPS, eta=eta)
        ours = microseconds_a_round(instance, make, rounds, before=1000, runs=7)
        rule = make(instance, seed=0)
        Environment(instance, 0, 1).play(rule, rounds // 2)
        bounds, rank = rule._work.bounds.copy(), instance.problem.rank
        floor(bounds, 10, rank, np.random.default_rng(0))
        times = [
            seconds_of(partial(floor, bounds.copy(), rounds, rank, np.random.default_rng(seed)))
            for seed in range(7)
        ]
        least = 1e6 * median(times) / rounds
        rows.append([f"eta {name}", f"{ours:.2f}", f"{least:.2f}", f"{ours / least:.1f}"])
    title = "A BLFAIPS round, d = 2, K = 5, and only its random numbers and normal tails"
    show(title, ["", "round, µs", "floor, µs", "ratio"], rows)


def late_against_early(instance: Instance) -> None:
    """Rounds after a million others beside rounds after a thousand, in turns."""
    rows = []
    for name, eta in ETAS.items():
        make = partial(BLFAIPS, eta=eta)
        late, world = make(instance, seed=0), Environment(instance, 0, 1)
        world.play(late, 1_000_000)
        times: dict[str, list[float]] = {"early": [], "late": []}
        for seed in range(100):
            early, other = make(instance, seed=seed), Environment(instance, 2 * seed, 2 * seed + 1)
            other.play(early, 1000)
            times["early"].append(seconds_of(partial(other.play, early, 1000)))
            times["late"].append(seconds_of(partial(world.play, late, 1000)))
        first, last = (1e3 * median(times[when]) for when in ("early", "late"))
        rows.append([f"eta {name}", f"{first:.2f}", f"{last:.2f}", f"{last / first:.2f}"])
    title = "A BLFAIPS round after 10³ and after 10⁶ others"
    show(title, ["", "after 10³, µs", "after 10⁶, µs", "ratio"], rows)


def growth() -> None:
    """Time of a round as arms and features become many."""
    make = partial(BLFAIPS, eta=1.0)
    sizes = [(2, k) for k in (5, 20, 100, 1000)] + [(d, 50) for d in (2, 5, 10, 20, 50)]
    rows = []
    for d, k in sizes:
        instance = instances.random_ball(d, k, seed=0)
        rounds = max(200, 400_000 // (k * d))
        time_of_round = microseconds_a_round(instance, make, rounds, before=500, runs=3)
        rows.append([f"d = {d}, K = {k}", f"{time_of_round:.1f}"])
    show("A BLFAIPS round (eta 1) on random instances", ["", "round, µs"], rows)


def all_rules(instance: Instance) -> None:
    """Time of a round of every rule, also beside BLFAIPS."""
    rounds = 50_000
    taken = {name: microseconds_a_round(instance, make, rounds) for name, make in RULES.items()}
    free = Instance(bf.Problem(instance.problem.arms), instance.theta_reward)
    known = partial(bf.PEPS, horizon=rounds)
    peps: dict[str, Callable[..., Rule]] = {"PEPS": bf.PEPS, "PEPS, horizon": known}
    for name, make in peps.items():
        taken[f"{name} (no constraint)"] = microseconds_a_round(free, make, rounds)
    first = taken["BLFAIPS"]
    rows = [[name, f"{value:.2f}", f"{value / first:.2f}"] for name, value in taken.items()]
    title = f"A round of each rule, d = 2, K = 5, over {rounds:,} rounds"
    show(title, ["", "round, µs", "BLFAIPS = 1"], rows)


def whole_study(replicates: int = 50) -> None:
    """All rules on three instances through `simulate`, with all cores and with one."""
    rows = []
    for name, executor in {"as simulate chooses": None, "one process": False}.items():
        taken = [
            seconds_of(
                partial(simulate, instances.end_of_optimism(alpha), RULES, HORIZON,
                        replicates, executor=executor)
            )
            for alpha in (0.1, 0.2, 0.3)
        ]  # fmt: skip
        rows.append([name, f"{sum(taken):.1f}"])
    title = (
        f"{len(RULES)} rules × 3 instances × {replicates} replicates × {HORIZON} rounds, "
        "with exact errors and efficiencies at 8 checkpoints"
    )
    show(title, ["simulate", "seconds"], rows)


def first_round(runs: int = 7) -> None:
    """From the start of a process to the end of its first round, everything compiled before."""
    command = partial(subprocess.run, [sys.executable, "-c", FIRST_ROUND], check=True)
    command()
    taken = median_seconds(command, runs)
    print(f"A process that imports, makes a rule and plays one round: {taken:.2f} s")


if __name__ == "__main__":
    main()
