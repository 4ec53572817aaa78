"""The verdicts on a rule, and when a fit can be trusted: what tables and pages share."""

ATTAINS, BELOW, UNDECIDED, FAULT, UNDEFINED = VERDICTS = (
    "attains", "below", "undecided", "fault", "undefined",
)  # fmt: skip

# Vehtari et al. (2021): chains that agree have an R-hat below 1.01, and what they say in the tails
# is worth quoting from 400 effective draws on.
RHAT, ESS = 1.01, 400

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
