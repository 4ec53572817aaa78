"""What is wrong with a sampler's draws, and how bad it is: trusted, doubtful or condemned."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy import stats

from bayes_feasible.analysis.samplers.yardstick import Yardstick, compared_pairs

TRUSTED, DOUBTFUL, CONDEMNED, FAILED = VERDICTS = ("trusted", "doubtful", "condemned", "failed")

# All tests of one sampler together raise a false alarm with this probability: each test gets its
# part of it (Bonferroni). With some 15 tests a mean is allowed about 4 standard errors.
FALSE_ALARM = 1e-3
# Vehtari et al. (2021) ask for R-hat below 1.01 and 100 effective draws a chain. Independent
# draws in four chains of 1000 have an R-hat below 1.005 with near certainty.
RHAT_DOUBTFUL, RHAT_CONDEMNED = 1.01, 1.05
ESS_A_CHAIN = 100
BFMI = 0.3  # below this, energy is explored too slowly (Betancourt 2016)
# One divergence casts doubt; where one draw in a hundred diverges, the sampler cannot follow.
DIVERGENT = 0.01
# The probability of some event is wrong by at least the share of draws outside the set.
OUTSIDE = 0.01
# A region (event) with this share of the probability must be seen by every chain. A chain of 250
# effective draws lacks three quarters of it by chance with probability 2e-3, one of 1000 with
# probability 1e-10.
REGION = 0.05
SHORTFALL = 0.75
# Half a nat is a factor 1.6 on a probability: more is wrong, whatever the standard error says.
# Less is wrong too if the standard error does not cover it, down to what no one would notice.
LOG_P_WRONG, LOG_P_NEGLIGIBLE = 0.5, 0.005
MOST_NAMED = 3  # findings in a reason


class Finding(NamedTuple):
    """Something wrong with a sampler."""

    verdict: str
    text: str


def reach_verdict(row: xr.Dataset, chains: int, yardstick: Yardstick) -> tuple[str, str]:
    """The verdict on a sampler's figures, and the reason: the worst finding comes first."""
    number = row.sizes["coordinate"]
    tests = (
        (3 + bool(np.isfinite(row.neighbours_z))) * number
        + row.sizes["event"]
        + 2
        + compared_pairs(number)[0].size
    )
    level = FALSE_ALARM / tests
    found = [
        *_judge_claims(row, level),
        *_judge_independence(row, level),
        *_judge_mixing(row, yardstick),
        *_judge_law(row, yardstick, level),
        *_judge_size(row, chains),
    ]
    if not found:
        return TRUSTED, (
            f"R-hat {float(row.rhat):.3f}, no draw outside, every region seen by every chain, "
            f"means within {float(abs(row.mean_z).max()):.1f} standard errors of the exact ones"
        )
    found.sort(key=lambda finding: -VERDICTS.index(finding.verdict))  # stable: most telling first
    texts = [finding.text for finding in found]
    more = f"; and {len(texts) - MOST_NAMED} more" if len(texts) > MOST_NAMED else ""
    return found[0].verdict, "; ".join(texts[:MOST_NAMED]) + more


def percent(share: float) -> str:
    """A share for reading."""
    return f"{100 * share:.3g} %"


def _judge_claims(row: xr.Dataset, level: float) -> Iterator[Finding]:
    """Draws outside the set, the sampler's own log-probability, divergences."""
    outside = float(row.outside)
    if outside > 0:
        yield Finding(
            CONDEMNED if outside > OUTSIDE else DOUBTFUL,
            f"{percent(outside)} of the draws lie outside the alternative set",
        )
    error, z = float(row.log_probability_error), float(row.log_probability_z)
    # A standard error from a few runs is itself uncertain, hence Student's t.
    covered = abs(z) <= stats.t.isf(level / 2, float(row.log_probability_freedom))
    if abs(error) > LOG_P_WRONG or (abs(error) > LOG_P_NEGLIGIBLE and not covered):
        yield Finding(CONDEMNED, f"log P is wrong by {error:+.3g} ({z:+.1f} standard errors)")
    divergences = float(row.divergences)
    if divergences > 0:
        share = divergences / int(row.draws)
        yield Finding(
            CONDEMNED if share > DIVERGENT else DOUBTFUL,
            f"{int(divergences)} divergences ({percent(share)} of the draws)",
        )


def _judge_independence(row: xr.Dataset, level: float) -> Iterator[Finding]:
    """Draws that are said to be independent and are not."""
    if abs(row.neighbours_z) > stats.norm.isf(level / 2):
        yield Finding(
            CONDEMNED,
            f"draws said to be independent correlate by {float(row.neighbours):.2g} with their "
            f"neighbours ({float(row.neighbours_z):+.1f} standard errors)",
        )


def _judge_mixing(row: xr.Dataset, yardstick: Yardstick) -> Iterator[Finding]:
    """Regions that some chain misses, and chains that disagree."""
    regions = yardstick.occupancy >= REGION
    missed = np.flatnonzero(regions & (row.missed_worst.values > SHORTFALL))
    if missed.size:
        worst = int(missed[np.argmax(row.missed.values[missed])])
        yield Finding(
            CONDEMNED,
            f"a region missed: some chain (almost) never enters {missed.size} of {regions.sum()} "
            f"regions, such as {yardstick.alternative.events.names[worst]!r}, which holds "
            f"{percent(yardstick.occupancy[worst])} of the probability",
        )
    rhat = float(row.rhat)
    if rhat > RHAT_DOUBTFUL:
        verdict = CONDEMNED if rhat > RHAT_CONDEMNED else DOUBTFUL
        yield Finding(verdict, f"R-hat {rhat:.3g}: chains disagree")


def _judge_law(row: xr.Dataset, yardstick: Yardstick, level: float) -> Iterator[Finding]:
    """Means, distributions and occupancies that are not the exact ones."""
    bound = stats.norm.isf(level / 2)
    worst = int(np.argmax(np.abs(row.mean_z.values)))
    if abs(row.mean_z[worst]) > bound:
        yield Finding(
            CONDEMNED,
            f"the mean of coordinate {worst} is off by {float(row.mean_z[worst]):+.1f} standard "
            f"errors ({float(row.mean_shift[worst]):+.2g} standard deviations)",
        )
    worst = int(np.argmin(row.kolmogorov_p.values))
    if row.kolmogorov_p[worst] < level:
        yield Finding(
            CONDEMNED,
            f"the distribution of coordinate {worst} is another "
            f"(Kolmogorov distance {float(row.kolmogorov[worst]):.2g})",
        )
    # Rare events are left out: their counts are too small for a normal bound.
    z = np.where(yardstick.occupancy >= REGION, np.abs(row.occupancy_z.values), 0.0)
    worst = int(np.argmax(z))
    if z[worst] > bound:
        yield Finding(
            CONDEMNED,
            f"{percent(float(row.occupancy[worst]))} of the draws lie in "
            f"{yardstick.alternative.events.names[worst]!r}, "
            f"{percent(yardstick.occupancy[worst])} is right",
        )
    yield from _judge_scatter(row, bound)


def _judge_scatter(row: xr.Dataset, bound: float) -> Iterator[Finding]:
    """Draws that are too far apart, too close together, or tied to each other otherwise."""
    worst = int(np.argmax(np.abs(row.spread_z.values)))
    if abs(row.scatter_z) > bound:
        yield Finding(
            CONDEMNED,
            f"the draws scatter {float(row.scatter):.3g} times as much as they should "
            f"({float(row.scatter_z):+.1f} standard errors)",
        )
    elif abs(row.spread_z[worst]) > bound:
        yield Finding(
            CONDEMNED,
            f"the variance of coordinate {worst} is {float(row.spread[worst]):.3g} times the exact "
            f"one ({float(row.spread_z[worst]):+.1f} standard errors)",
        )
    elif row.tied_z > bound:
        yield Finding(CONDEMNED, f"correlations are off by {float(row.tied_z):.1f} standard errors")


def _judge_size(row: xr.Dataset, chains: int) -> Iterator[Finding]:
    """Too few effective draws, and energy that is explored too slowly."""
    least, needed = min(float(row.ess_bulk), float(row.ess_tail)), ESS_A_CHAIN * chains
    if least < needed:
        yield Finding(DOUBTFUL, f"only {least:.0f} effective draws, {needed} are needed")
    if row.bfmi < BFMI:
        yield Finding(DOUBTFUL, f"BFMI {float(row.bfmi):.2g}: energy is explored slowly")
