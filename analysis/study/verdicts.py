"""The verdicts on a rule, and when a fit can be trusted: what tables and pages share."""

from typing import Any

import numpy as np
import xarray as xr

ATTAINS, BELOW, UNDECIDED, FAULT, UNDEFINED = VERDICTS = (
    "attains", "below", "undecided", "fault", "undefined",
)  # fmt: skip

# Vehtari et al. (2021): chains that agree have an R-hat below 1.01, and what they say in the tails
# is worth quoting from 400 effective draws on.
RHAT, ESS = 1.01, 400

# What is said of a fitted rate that nothing can have, and its mark in tables.
OVERSHOT = "†"
OVERSHOOT = (
    "wholly above 1, where no rule can be in the long run: a fit overshoots while the allocation "
    "improves, because the error then falls faster and faster. What the allocation can reach is "
    "its efficiency"
)

_WORDS = {
    ATTAINS: "attains Γ", BELOW: "below Γ", UNDECIDED: "undecided", FAULT: "FAULT",
    UNDEFINED: "undefined",
}  # fmt: skip


def words(verdict: str) -> str:
    """A verdict for people.

    >>> words("attains")
    'attains Γ'
    """
    return _WORDS[verdict]


def overshot(one: xr.Dataset) -> bool:
    """Whether a rule's fitted rate lies where no rule can be, because its allocation improves."""
    return float(one.relative_lower) > 1 and one.verdict.item() != FAULT


# What tables and pages take from a summary: variables by dimension, and attributes by type.
TEXTS = ("rule", "verdict", "explanation", "trouble")
VARIABLES = {
    ("rule",): (
        *(*TEXTS, "relative_rate", "relative_lower", "relative_upper", "bounded_lower"),
        *("bounded_upper", "local_exponent", "local_lower", "local_upper"),
    ),
    ("time",): ("time",),
    ("rule", "time"): ("log_error", "accuracy", "efficiency", "distance", "slope"),
    ("rule", "time", "arm"): ("allocation",),
    ("arm",): ("arm", "optimal_allocation"),
}
ATTRIBUTES: dict[Any, tuple[str, ...]] = {
    np.integer: ("replicates", "horizon"),
    np.floating: ("rate", "rate_lower", "rate_upper", "region", "probability"),
    str: ("best",),
}
MOST_RULES = 1000


def require_summary(summary: xr.Dataset) -> None:
    """Refuse what is not the summary of a study, whoever wrote it."""
    for dims, names in VARIABLES.items():
        for name in names:
            if name not in summary:
                raise ValueError(f"not the summary of a study; no {name!r}")
            values = summary[name]
            kinds = "OU" if name in TEXTS else "iu" if name == "time" else "fiuOU"
            if set(values.dims) != set(dims) or values.dtype.kind not in kinds or not values.size:
                raise ValueError(f"not the summary of a study; {name!r} has {values.dtype} values")
    for kind, names in ATTRIBUTES.items():
        for name in names:
            if not isinstance(summary.attrs.get(name), kind):
                raise ValueError(f"not the summary of a study; no attribute {name!r}")
    rules = list(summary.rule.values)
    if len(set(rules)) < len(rules) or len(rules) > MOST_RULES:
        raise ValueError(f"expected at most {MOST_RULES} rules, each once, got {len(rules)}")
    unknown = set(summary.verdict.values) - set(VERDICTS)
    if unknown:
        raise ValueError(f"expected verdicts out of {', '.join(VERDICTS)}, got {unknown.pop()!r}")
