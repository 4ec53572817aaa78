"""What the paper leaves open: η, exploration, AdaHedge as printed, the sampler, the answer."""

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import batched

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from bayes_feasible.analysis.paper import compare, figures
from bayes_feasible.analysis.paper.claims import Claim, state
from bayes_feasible.analysis.paper.compare import difference, estimate, estimate_of, measure
from bayes_feasible.analysis.paper.printed_adahedge import PrintedAdaHedge
from bayes_feasible.analysis.paper.runs import Experiment, Piece, Rules, cut, run
from bayes_feasible.instances import end_of_optimism
from bayes_feasible.rules.blfaips import BLFAIPS
from bayes_feasible.simulation.simulate import simulate

ALPHA = 0.1
TIMES = (100, 500, 1000, 2000)
MEASURES = (*compare.AT_END, compare.EFFICIENCY)
FROZEN, EXACT = "printed: frozen", "exact draws"
VARIANTS: dict[str, Rules] = {
    "eta": {"paper's η": BLFAIPS}
    | {f"η = {value:g}": partial(BLFAIPS, eta=value) for value in (0.1, 0.3, 1.0, 3.0, 10.0)},
    "exploration": {
        f"t^-{power:g}{label}": partial(BLFAIPS, eta=value, exploration=power)
        for label, value in (("", "paper"), (" (η = 1)", 1.0))
        for power in (0.1, 0.25, 0.5, 1.0)
    },
    "adahedge": {
        "cumulative": BLFAIPS,
        FROZEN: PrintedAdaHedge,
        "printed: mixture overwrites": partial(PrintedAdaHedge, overwrite=True),
    },
}
MARKOV = {"PyMC Slice": "Slice", "PyMC Metropolis": "Metropolis"}  # step methods of PyMC
ANSWERS = ("draw", "mean", "probable")
ANSWERED = {name: compare.RULES[name] for name in (*compare.HEROES, "LinTS", "Uniform")}

SHORT = 40  # rounds with a Markov chain in each
SWEEPS = 10
CHAINED = 0.1  # share of the repetitions that the Markov chains get
FEWEST = 20  # of them: fewer tell nothing
BATCHES = 5  # that they are timed in: their spread is the error of the times


def work(
    repetitions: int, times: tuple[int, ...] = TIMES, short: int = SHORT
) -> list[Experiment | Piece]:
    """Variants of BLFAIPS; the recommendation rules; and PyMC's samplers in the rule."""
    chains = max(FEWEST, round(CHAINED * repetitions))
    answers = [partial(recommended, answer, repetitions, times) for answer in ANSWERS]
    settings = [list(MARKOV), chains, short, SWEEPS, BATCHES]
    instance = [end_of_optimism(ALPHA)]
    dim = xr.DataArray(list(ANSWERS), dims="answer", name="answer")
    return [
        *(
            Experiment(f"ablation_{name}", instance, rules, times, repetitions)
            for name, rules in VARIANTS.items()
        ),
        cut(
            "ablation_recommendation", [repetitions, times, list(ANSWERED)], answers,
            lambda found: xr.concat(found, dim),
        ),
        cut("ablation_sampler", settings, [partial(samplers, chains, short)]),
    ]  # fmt: skip


def recommended(answer: str, repetitions: int, times: tuple[int, ...]) -> xr.Dataset:
    """`simulate` with one recommendation rule; the pulls are the same with every other."""
    rules = {name: partial(maker, recommendation=answer) for name, maker in ANSWERED.items()}
    found = simulate(end_of_optimism(ALPHA), rules, times[-1], repetitions, times, progress=False)
    if found.sizes["replicate"] < repetitions:
        raise KeyboardInterrupt  # simulate gives back what is finished; half a study is none
    return found[["correct", "log_error", "efficiency"]]


def samplers(repetitions: int, rounds: int) -> xr.Dataset:
    """The same short experiment with exact draws and with Markov chains of PyMC.

    `seconds`, over rule and batch, is the processor time of a round.
    """
    import pymc as pm

    from bayes_feasible.analysis.paper.pymc_rule import SampledBLFAIPS, Sampler

    instance = end_of_optimism(ALPHA)
    rules: Rules = {EXACT: partial(BLFAIPS, eta=1.0)} | {
        name: partial(
            SampledBLFAIPS, sampler=Sampler(instance.problem, getattr(pm, method)), sweeps=SWEEPS
        )
        for name, method in MARKOV.items()
    }
    found, seconds = [], []
    for name, maker in rules.items():
        batch = Experiment(name, [instance], {name: maker}, (rounds,), repetitions // BATCHES)
        run(replace(batch, times=(2,), replicates=1))  # compiles
        for seed in range(BATCHES):
            start = time.process_time()
            found.append(run(replace(batch, seed=seed)).drop_vars("allocation"))
            seconds.append((time.process_time() - start) / (batch.replicates * rounds))
    by_rule = [xr.concat(batches, "replicate") for batches in batched(found, BATCHES)]
    times = np.reshape(seconds, (len(rules), BATCHES))
    return xr.concat(by_rule, "rule").assign(seconds=(("rule", "batch"), times))


def claims(data: Mapping[str, xr.Dataset]) -> list[Claim]:
    """Make a row for each choice that the paper makes or leaves open."""
    exploration = data["ablation_exploration"]
    own, ones = (
        exploration.sel(rule=[r for r in exploration.rule.values if ("η" in r) == at_one])
        for at_one in (False, True)
    )
    line, good = "Algorithm 1, line 5", "Exploration t^(-1/4) is a good choice, at"
    return [
        _variants(data["ablation_eta"], "paper's η", "The paper's η is a good choice",
                  "Section 3, min-learner"),
        _variants(own, "t^-0.25", f"{good} the paper's η", line),
        _variants(ones, "t^-0.25 (η = 1)", f"{good} η = 1", line),
        _variants(data["ablation_adahedge"], FROZEN, "AdaHedge works as printed",
                  "Algorithm 1, lines 2, 14 and 22"),
        _sampler(data["ablation_sampler"]),
        *_answers(data["ablation_recommendation"]),
    ]  # fmt: skip


def _variants(data: xr.Dataset, chosen: str, name: str, where: str) -> Claim:
    """The choice of the paper against the others; it holds if none is clearly better."""
    values, better, parts = [], [], []
    for rule in map(str, data.rule.values):
        values.append(f"{rule} " + " / ".join(str(estimate(data, rule, m)) for m in MEASURES))
        if rule == chosen:
            continue
        gaps = {m.name: difference(data, rule, chosen, m) for m in MEASURES}
        parts.append(f"{rule} " + " / ".join(gap.signed() for gap in gaps.values()))
        ahead = [measure for measure, gap in gaps.items() if gap.standing == "ahead"]
        better += [f"{rule} by {', '.join(ahead)}"] * bool(ahead)
    texts = {"name": name, "where": where, "chosen": chosen}
    found = {"values": values, "gaps": parts, "better": better}
    return state("variants", not better, alpha=ALPHA, **measure(data), **texts, **found)


def _sampler(data: xr.Dataset) -> Claim:
    """Exact draws against those of Markov chains, replicate by replicate on the same noise."""
    parts, apart = [], []
    for one in MEASURES:
        values = (f"{rule} {estimate(data, rule, one)}" for rule in (EXACT, *MARKOV))
        parts.append(f"{one.name}: {', '.join(values)}")
        for rule in MARKOV:
            gap = difference(data, rule, EXACT, one)
            apart += [f"{rule} by {one.name} {gap.signed()}"] * (gap.standing != "level")
    slower = []
    for rule in MARKOV:
        ratio = estimate_of((data.seconds.sel(rule=rule) / data.seconds.sel(rule=EXACT)).values)
        slower.append(f"{rule} {ratio.value:,.0f} ± {ratio.error:,.0f}")
    found = {"values": parts, "apart": apart, "slower": slower}
    return state("sampler", not apart, alpha=ALPHA, sweeps=SWEEPS, **measure(data), **found)


def _answers(data: xr.Dataset) -> list[Claim]:
    """One draw against the means and the most probable, for the same pulls."""
    rows, last = [], data.isel(time=-1)
    for better, name in (("mean", "the means"), ("probable", "the most probable candidate")):
        parts, worse = [], 0
        for rule in map(str, data.rule.values):
            right = last.correct.sel(rule=rule, answer=better).values.astype(float)
            chance = 1 - np.exp(last.log_error.sel(rule=rule, answer="draw").values)
            gap = estimate_of(right - chance)
            worse += gap.standing == "ahead"
            parts.append(
                f"{rule}: draw {estimate_of(chance)}, {better} {estimate_of(right)}, "
                f"difference {gap.signed()}"
            )
        size = {"horizon": int(data.time[-1]), "repetitions": data.sizes["replicate"]}
        found = {"better": name, "values": parts, "worse": worse}
        rows.append(state("answers", not worse, alpha=ALPHA, **size, **found))
    return rows


def pictures(data: Mapping[str, xr.Dataset]) -> dict[str, Figure]:
    """All variants at the end."""
    labels = ("η", "exploration", "AdaHedge")
    shown = {label: data[f"ablation_{n}"] for label, n in zip(labels, VARIANTS, strict=True)}
    last = int(shown["η"].time[-1])
    return {"ablations": figures.ablation(shown, f"End of Optimism, α = {ALPHA}, T = {last}")}
