"""What a comparison's outcome depends on: the recommendation, η, averaging over instances."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import xarray as xr

from bayes_feasible.analysis.paper.claims import Claim, state
from bayes_feasible.analysis.paper.compare import AT_END, Contest
from bayes_feasible.analysis.paper.rule_sets import HEROES, RIVALS

FACTORS = {"criterion": "the recommendation", "hero": "η", "instances": "averaging over instances"}


class Comparison(NamedTuple):
    """One comparison at the end of the runs, and what came of it."""

    setting: str
    instances: str
    hero: str
    criterion: str
    rival: str
    standing: str


def comparisons(
    data: Mapping[tuple[str, str], xr.Dataset], heroes: Sequence[str], rivals: Sequence[str]
) -> list[Comparison]:
    """Compare every hero with every rival by both recommendations; keys: (setting, instances)."""
    return [
        Comparison(setting, instances, hero, criterion, rival, standing)
        for (setting, instances), found in data.items()
        for hero in heroes
        for criterion, rival, standing in Contest(found, hero, rivals, AT_END).standings()
    ]


def changes(found: Sequence[Comparison], factor: str) -> tuple[list[Comparison], int, int]:
    """Where the outcome changes with one factor, all else the same.

    Returns the first of each group of comparisons that differ in the factor alone and whose
    outcomes are not all the same; how many of these have the hero ahead in one and behind in
    another; and how many groups there are.
    """
    place = Comparison._fields.index(factor)
    others = itemgetter(*(i for i in range(len(Comparison._fields) - 1) if i != place))
    groups = [list(group) for _, group in groupby(sorted(found, key=others), key=others)]
    groups = [group for group in groups if len(group) > 1]
    changed = [group for group in groups if len({one.standing for one in group}) > 1]
    turned = sum({"ahead", "behind"} <= {one.standing for one in group} for group in changed)
    return [group[0] for group in changed], turned, len(groups)


def dependence_claim(
    data: Mapping[tuple[str, str], xr.Dataset],
    where: str,
    *,
    heroes: Sequence[str] = HEROES,
    rivals: Sequence[str] = RIVALS,
) -> Claim:
    """State whether the outcomes depend on what the paper leaves open."""
    found = comparisons(data, heroes, rivals)
    parts, matters, turns = [], [], []
    for factor, name in FACTORS.items():
        changed, turned, groups = changes(found, factor)
        if not groups:
            continue
        settings = "; ".join(dict.fromkeys(one.setting for one in changed))
        parts.append(
            f"{name}: {len(changed)} of {groups} change, {turned} from ahead to behind or back"
            + (f" (in {settings})" if settings else "")
        )
        matters += [name] * bool(changed)
        turns += [name] * bool(turned)
    answer = "fails" if turns else "part" if matters else "holds"
    result = ". ".join(parts)
    return state("dependence", answer, where=where, result=result, matters=matters, turns=turns)
