"""Where a command takes a posterior and an alternative set from."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from bayes_feasible.commands import _source as source

if TYPE_CHECKING:
    from bayes_feasible.alternative.alternative import Alternative
    from bayes_feasible.instance import Instance
    from bayes_feasible.posterior import Posterior

TARGETS = ("a", "b", "c")
RULES = ("BLFAIPS", "BestResponse", "Descent", "GOptimal", "LinearThompson", "Oracle", "PEPS",
         "PlugIn", "TopTwo", "Uniform")  # fmt: skip
SAMPLERS = ("exact", "exact_step", "nutpie_component", "nuts_component", "smc_events", "smc_graded",
            "smc_hard", "slice", "demetropolis", "nutpie_smooth", "nuts_smooth", "nutpie_hard",
            "nuts_hard")  # fmt: skip
TRUTH = "truth"
DEFAULT_PULLS = 1000
RARITY = -40.0  # of a target
FILE = (
    "a .toml, .json or .csv file with the problem; with its true parameters too, unless "
    "--history gives the pulls"
)


def add(parser: argparse.ArgumentParser) -> None:
    """Let the parser take a file, a built-in instance or a target, and the pulls behind it."""
    group = source.add(parser, FILE)
    group.add_argument(
        "--target",
        choices=TARGETS,
        help="a posterior built for trying samplers: one dominating event (a), four comparable "
        "ones (b), or d = 10, K = 20 (c)",
    )
    parser.add_argument(
        "--log-probability",
        type=float,
        metavar="NUMBER",
        help=f"with --target: natural logarithm of the probability of error ({RARITY:g})",
    )
    parser.add_argument(
        "--history", type=Path, metavar="PULLS", help="recorded pulls, a .csv or .nc file"
    )
    parser.add_argument(
        "--pulls",
        type=int,
        metavar="N",
        help=f"how many pulls there were ({DEFAULT_PULLS})",
    )
    parser.add_argument(
        "--rule",
        choices=(TRUTH, *RULES),
        default=TRUTH,
        metavar="NAME",
        help=f"what decided on the pulls: {', '.join(RULES)}; or truth, which shares them out "
        "optimally and has the posterior mean equal the true parameters (truth)",
    )
    parser.add_argument(
        "--candidate",
        metavar="NAME",
        help="the candidate whose alternative set it is (the one the posterior recommends)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the pulls and the draws (0)"
    )
    parser._negative_number_matcher = source.NEGATIVE_NUMBER  # -1e3 is no option


def state(options: argparse.Namespace) -> tuple["Posterior", "Alternative"]:
    """The posterior and the alternative set that were asked for."""
    from bayes_feasible.alternative.alternative import Alternative

    if options.target is not None:
        _refuse(options, "--target", ("history", "pulls", "candidate"))
        from bayes_feasible.analysis.samplers.targets import target

        rarity = RARITY if options.log_probability is None else options.log_probability
        return target(options.target, rarity)
    if options.log_probability is not None:
        raise ValueError("--log-probability: has no meaning without --target")
    posterior = _posterior(options)
    return posterior, Alternative(posterior.problem, _candidate(options, posterior))


def _refuse(options: argparse.Namespace, beside: str, names: tuple[str, ...]) -> None:
    given = [f"--{name}" for name in names if getattr(options, name) is not None]
    if options.rule != TRUTH:
        given.append("--rule")
    if given:
        raise ValueError(f"{given[0]}: has no meaning with {beside}")


def _posterior(options: argparse.Namespace) -> "Posterior":
    if options.history is not None:
        _refuse(options, "--history", ("pulls",))
        from bayes_feasible.history import History

        return History.load(options.history, source.bare(source.problem(options))).posterior()
    from bayes_feasible import _check  # NumPy: not for `--help`

    instance = source.instance(options)
    pulls = DEFAULT_PULLS if options.pulls is None else options.pulls
    _check.count("--pulls", pulls, most=_check.LARGEST_COUNT)
    return (
        _at_truth(instance, pulls) if options.rule == TRUTH else _played(instance, options, pulls)
    )


def _at_truth(instance: "Instance", pulls: int) -> "Posterior":
    """Pulls shared out by the optimal allocation, every arm at least once."""
    import numpy as np

    from bayes_feasible.analysis.study.curves import posterior_at_truth, whole_pulls
    from bayes_feasible.rate.rate import optimal_rate

    counts = whole_pulls(optimal_rate(instance).allocation, pulls)
    return posterior_at_truth(instance, np.maximum(counts, 1))


def _played(instance: "Instance", options: argparse.Namespace, pulls: int) -> "Posterior":
    """The rule, playing."""
    import numpy as np
    from tqdm import tqdm

    import bayes_feasible as bf

    rule = getattr(bf, options.rule)(instance, seed=options.seed)
    noise = np.random.default_rng([options.seed, 1])
    for _ in tqdm(range(pulls), desc=options.rule, unit="pull", leave=False, disable=None):
        arm = rule.ask()
        rewards, costs = instance.pull([arm], noise)
        rule.tell(arm, rewards[0], costs[0])
    return rule.posterior


def _candidate(options: argparse.Namespace, posterior: "Posterior") -> int:
    if options.candidate is not None:
        from bayes_feasible import _check

        return _check.candidate(posterior.problem, options.candidate, name="--candidate")
    best = posterior.best()
    if best is None:
        raise ValueError(
            "--candidate: no candidate looks feasible, so none is recommended; name one"
        )
    return best
