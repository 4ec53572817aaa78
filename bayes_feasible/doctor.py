"""Is the installation sound? Versions, the cache of compiled code, and a self-test.

The self-test compares with reference values that were computed in high precision and are shipped
in `data/reference.json`. It takes a few seconds once the code is compiled. What may be missing is
imported where it is used, so that a broken installation is told and does not break this as well.
"""

import importlib.metadata
import json
import math
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

import bayes_feasible as bf

# Largest relative error of the logarithms and exponents in the table; of a union, in standard
# errors, since it is sampled where more than two events overlap.
PRECISION = 1e-10
RATE_PRECISION = 1e-8
STANDARD_ERRORS = 6.0  # a false alarm in 10^9


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    subject: str
    sound: bool
    detail: str  # what was seen and, where it is not sound, what to do


def examine() -> Iterator[Finding]:
    """Look at the installation, one finding at a time, quickest first."""
    yield Finding("Python", True, platform.python_version())
    sound = True
    looks: list[Callable[[], Finding]] = [partial(_package, need) for need in requirements()]
    for look in [*looks, _cache]:
        finding = look()
        sound &= finding.sound
        yield finding
    advice = "reinstall the package" if sound else "first see to what is wrong above"
    for subject, check in CHECKS.items():
        yield _self_test(subject, check, advice)


def reference() -> dict[str, list[dict[str, Any]]]:
    """The shipped table of reference values."""
    text = files("bayes_feasible").joinpath("data", "reference.json").read_text(encoding="utf-8")
    return json.loads(text)


def requirements() -> list[Requirement]:
    """What the package asks for, without the extras."""
    declared = [Requirement(text) for text in importlib.metadata.requires("bayes_feasible") or ()]
    return [need for need in declared if need.marker is None or need.marker.evaluate({"extra": ""})]


def _package(need: Requirement) -> Finding:
    try:
        version = importlib.metadata.version(need.name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(need.name, False, f"not installed: pip install '{need}'")
    if not need.specifier.contains(version, prereleases=True):
        return Finding(need.name, False, f"{version} is not {need.specifier}: pip install '{need}'")
    return Finding(need.name, True, version)


def _cache() -> Finding:
    """Where Numba keeps compiled code; where it finds no such folder, nothing compiled works."""
    try:
        from bayes_feasible.alternative.normal import log_ndtr

        folder = Path(str(log_ndtr.stats.cache_path))
    except Exception as failure:
        return Finding(
            "compiled code", False, f"{failure}; set NUMBA_CACHE_DIR to a folder you may write to"
        )
    kept = sum(1 for _ in folder.glob("*.nbc"))
    return Finding("compiled code", True, f"{kept} functions kept in {folder}")


def _self_test(subject: str, check: Callable[[Any], float], advice: str) -> Finding:
    start = time.perf_counter()
    try:
        error = check(reference())
    except Exception as failure:
        return Finding(subject, False, f"failed with {type(failure).__name__}: {failure}; {advice}")
    seconds = time.perf_counter() - start
    detail = f"largest error {error:.1g} of what is allowed, {seconds:.1f} s"
    if not error <= 1:
        return Finding(subject, False, f"{detail}; reinstall with the versions of constraints.txt")
    return Finding(subject, True, detail)


def _relative(value: float, expected: Any, allowed: float) -> float:
    """The error as a share of what is allowed."""
    number = float(expected)
    if not math.isfinite(number):
        return 0.0 if value == number else math.inf
    return abs(value - number) / (allowed * max(abs(number), 1e-300))


def _worst(values: Any, expected: list[Any], allowed: float) -> float:
    return max(map(_relative, values, expected, [allowed] * len(expected)), default=0.0)


def check_tails(table: dict[str, Any]) -> float:
    """Log tail probabilities, to ten thousand standard deviations and beyond."""
    from bayes_feasible.alternative.normal import log_ndtr

    return max(_relative(log_ndtr(-row["x"]), row["value"], PRECISION) for row in table["log_tail"])


def problem_of(row: dict[str, Any]) -> "bf.Problem":
    """The problem that a row of the table describes."""
    noise = {"reward_noise": row["reward_noise"], "cost_noise": row["cost_noise"] or 1.0}
    return bf.Problem(row["arms"], row["thresholds"], **noise)


def posterior_of(row: dict[str, Any]) -> "bf.Posterior":
    """The posterior that a row of the table describes."""
    rewards, costs = [shown[0] for shown in row["sums"]], [shown[1:] for shown in row["sums"]]
    return bf.Posterior.from_sums(problem_of(row), row["counts"], rewards, costs)


def check_events(table: dict[str, Any]) -> float:
    """Log-probabilities of events, for every scale of arms and noise."""
    worst = 0.0
    for row in table["event"]:
        posterior = posterior_of(row)
        alternative = bf.Alternative(posterior.problem, row["candidate"])
        values = alternative.event_log_probabilities(posterior).values
        worst = max(worst, _worst(values, row["values"], PRECISION))
    return worst


def check_unions(table: dict[str, Any]) -> float:
    """Log-probabilities of error: within six standard errors, and within the certain bounds."""
    worst = 0.0
    for seed, row in enumerate(table["union"]):
        posterior = posterior_of(row)
        alternative = bf.Alternative(posterior.problem, row["candidate"])
        found = alternative.log_probability(posterior, seed=seed)
        allowed = STANDARD_ERRORS * found.standard_error + PRECISION * max(abs(row["value"]), 1.0)
        worst = max(worst, abs(found.value - row["value"]) / allowed)
        if not found.lower - allowed <= row["value"] <= found.upper + allowed:
            return math.inf
    return worst


def check_exponents(table: dict[str, Any]) -> float:
    """Exponents of candidates under given allocations."""
    worst = 0.0
    for row in table["exponent"]:
        instance = bf.Instance(problem_of(row), row["theta_reward"], row["theta_cost"])
        values = bf.exponents(instance, row["allocation"]).values
        worst = max(worst, _worst(values, row["values"], RATE_PRECISION))
    return worst


def check_rates(table: dict[str, Any]) -> float:
    """Optimal rates, and their certificates."""
    worst = 0.0
    for row in table["rate"]:
        costs, arms = row["costs"], range(len(row["rewards"]))
        basis = [[float(i == j) for j in arms] for i in arms]
        thresholds = () if costs is None else [row["threshold"]]
        problem = problem_of(row | {"arms": basis, "thresholds": thresholds})
        rate = bf.optimal_rate(bf.Instance(problem, row["rewards"], costs))
        worst = max(worst, _relative(rate.value, row["value"], RATE_PRECISION))
        rounding = 1 + PRECISION
        if not rate.lower <= rounding * row["value"] <= rounding**2 * rate.upper:
            return math.inf
    return worst


CHECKS: dict[str, Callable[[Any], float]] = {
    "log tail probabilities": check_tails,
    "probabilities of events": check_events,
    "probabilities of error": check_unions,
    "exponents": check_exponents,
    "optimal rates": check_rates,
}
