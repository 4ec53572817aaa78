"""The verdicts on a rule, and when a fit can be trusted: what tables and pages share."""

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
