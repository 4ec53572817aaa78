"""The README's picture, and its table of speeds as measured here and now.

Run with ``make speed``: it rewrites the table between its marks in README.md and draws
``docs/picture.png``.
"""

import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

import bayes_feasible as bf
from bayes_feasible.analysis.benchmarks import draws, plain_numpy, rate, rounds, start_up
from bayes_feasible.analysis.report import style
from bayes_feasible.files.atomic import write_bytes

ROOT = Path(__file__).parents[2]
TABLE = re.compile(r"(?<=<!-- speed: make speed -->\n).*?(?=<!-- end of speed -->)", re.DOTALL)
HORIZON, REPLICATES = 20_000, 8
PULLS = 300  # of each arm in turn, before the draws of the picture
COUNTED = 1e-6  # a million draws, counted, see no smaller probability
LN10 = np.log(10.0)


def main() -> None:
    """Measure, rewrite the table and draw the picture."""
    draw_picture(ROOT / "docs" / "picture.png")
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    if not TABLE.search(text):
        raise ValueError(f"{readme}: expected the marks of the table of speeds")
    rows = [["what", "measured"], ["---", "---"], *measure()]
    table = "\n".join(f"| {what} | {measured} |" for what, measured in rows)
    print(table)
    write_bytes(readme, TABLE.sub(lambda _: f"{table}\n", text).encode())


def measure() -> list[list[str]]:
    """The rows of the table."""
    instance = bf.instances.end_of_optimism(alpha=0.1)
    wrong = bf.Alternative(instance.problem, instance.best)
    posteriors = [draws.with_log_probability(instance, target) for target in draws.RARITIES]
    speeds = [draws.exact_speed(wrong, posterior) for posterior in posteriors]
    peers = draws.sampler_speeds(wrong, posteriors[0])
    slower = ", ".join(f"{name} {speeds[0] / one:,.0f}" for name, (one, _) in peers.items())
    faster = []
    for size in rate.COMPARED:
        ours, forms, _ = rate.compare(size)
        faster.append(f"{size}: {min(forms) / ours:.0f}")
    taken = {
        name: rounds.microseconds_a_round(instance, make, 50_000)
        for name, make in {"BLFAIPS": bf.BLFAIPS, "Descent": bf.Descent}.items()
    }
    design = bf.g_optimal(instance.problem).allocation.values
    eta = 1.0 / bf.BLFAIPS(instance)._options.scale
    plain = plain_numpy.blfaips(
        instance, design, eta, rounds.HORIZON, 0, batch=256, most_seconds=rounds.MOST_SECONDS
    )
    ratio = 1e6 * rounds.whole_seconds(plain) / rounds.HORIZON / taken["BLFAIPS"]
    empty, ours = (start_up.median_of(code) for code in ("pass", "import bayes_feasible"))
    return [
        [
            "exact draws of what would make the answer wrong, log P from -4 to -10,000",
            f"{min(speeds) / 1e6:.1f} to {max(speeds) / 1e6:.1f} million a second, however rare",
        ],
        ["effective draws of PyMC's samplers at log P = -4", f"times fewer a second: {slower}"],
        [
            "the optimal rate with a certificate, against cvxpy with Clarabel, at (d, K)",
            f"times faster: {', '.join(faster)}",
        ],
        [
            "a simulated round of BLFAIPS and of Descent, d = 2, K = 5",
            f"{taken['BLFAIPS']:.1f} and {taken['Descent']:.1f} µs; plain NumPy takes "
            f"{ratio:,.0f} times as long for BLFAIPS",
        ],
        ["`import bayes_feasible`", f"{ours:.2f} s, {empty:.2f} s of it Python's own"],
    ]


def draw_picture(path: Path) -> None:
    """Draws of an alternative set that is rare, and P(error) where nobody can count it."""
    instance = bf.instances.end_of_optimism(alpha=0.3)
    with mpl.rc_context(style.STYLE):
        figure = Figure(figsize=(9.0, 3.7), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.0, 1.25))
        _draw_set(left, bf.instances.random_ball(2, 12, seed=2))
        _draw_decay(right, instance)
        figure.savefig(path, dpi=160)


def _draw_set(axes: Axes, instance: bf.Instance) -> None:
    """Exact draws of the reward parameter, by what is wrong with the answer there."""
    arms = np.arange(PULLS) % len(instance.problem.arms)
    posterior = bf.Posterior.from_history(instance.problem, arms, *instance.pull(arms, seed=0))
    wrong = bf.Alternative(instance.problem, instance.best)
    found = wrong.sample(posterior, 4000, seed=0).isel(chain=0)
    everywhere = posterior.sample(4000, seed=0).theta_reward.values[0]
    axes.plot(*everywhere.T, ".", markersize=2, color="#BBBBBB", label="posterior")
    chance = wrong.log_probability(posterior).value / LN10
    events = found.event.values
    several = [event for event in np.unique(events) if np.mean(events == event) > 0.01]
    for colour, event in zip(style.COLOURS, several, strict=False):
        at = found.theta_reward.values[events == event]
        label = f"{wrong.events.names[event]}, {len(at) / len(events):.0%}"
        axes.plot(*at.T, ".", markersize=2, color=colour, label=label)
    axes.set(xlabel="reward parameter 0", ylabel="reward parameter 1")
    axes.set_title(f"Exact draws of what makes us wrong, P = $10^{{{chance:.1f}}}$", fontsize=10)
    axes.legend(fontsize=8, frameon=False, markerscale=4)


def _draw_decay(axes: Axes, instance: bf.Instance) -> None:
    """P(error) of some rules beside the fastest decay there is."""
    rules = {name: getattr(bf, name) for name in ("Descent", "BLFAIPS", "TopTwo", "Uniform")}
    grid = range(HORIZON // 80, HORIZON + 1, HORIZON // 80)
    result = bf.simulate(instance, rules, HORIZON, REPLICATES, checkpoints=grid, seed=0)
    mean = result.log_error.mean("replicate") / LN10
    for name, look in style.styles(rules).items():
        axes.plot(grid, mean.sel(rule=name), label=name, markevery=20, markersize=4, **look)
    slope = bf.optimal_rate(instance).value / LN10
    axes.plot(
        grid, -slope * np.array(grid), color="black", **style.LIMIT, label="slope Γ: none is faster"
    )
    axes.axhspan(np.log10(COUNTED), 3.0, color="#E69F00", alpha=0.25, linewidth=0)
    axes.text(HORIZON, 4.0, "what counting a million draws can see", ha="right", fontsize=8)
    axes.set(xlabel="pulls", ylabel="$\\log_{10}$ P(error)", ylim=(None, 12.0))
    axes.set_title("P(error) of each rule, exact where nobody can count", fontsize=10)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.legend(fontsize=8, frameon=False, loc="lower left")


if __name__ == "__main__":
    main()
