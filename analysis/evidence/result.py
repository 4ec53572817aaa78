"""An estimate of a log-probability, and when it is refused."""

from dataclasses import dataclass, field

import numpy as np
import xarray as xr

from bayes_feasible._check import Array
from bayes_feasible.alternative.alternative import Alternative, event_array
from bayes_feasible.analysis.evidence.expansion import Weighted

MOST_KHAT = 0.7
LEAST_EFFICIENCY = 0.1  # of the draws that must count; k-hat alone can look fine with fewer
MOST_RHAT = 1.01
MOST_DEVIATIONS = 5.0  # between two estimates of the same probability
MOST_ERROR = 0.5  # nats: a larger standard error says nothing


@dataclass(frozen=True)
class Evidence:
    """An estimate of the logarithm of a probability, and what speaks for it.

    Attributes
    ----------
    value : float
        Natural logarithm of the posterior probability of the alternative set.
    standard_error : float
        Of `value`.
    method : str
    names : list of str
        The events of the alternative set.
    log_probabilities : ndarray
        Their log-probabilities.
    diagnostics : dict of str to float
        What the method judges itself by.
    """

    value: float
    standard_error: float
    method: str
    names: list[str]
    log_probabilities: Array
    diagnostics: dict[str, float] = field(default_factory=dict)

    def __float__(self) -> float:
        return self.value

    @property
    def events(self) -> xr.DataArray:
        """Log-probability of each event of the union, by its name."""
        return event_array(self.names, self.log_probabilities)

    @property
    def likeliest(self) -> str:
        """The name of the most probable event: the mistake to expect."""
        return self.names[int(np.argmax(self.log_probabilities))] if self.names else "none"

    def to_dataset(self) -> xr.Dataset:
        """Value, standard error, diagnostics and the events, labelled."""
        numbers = {"log_error": self.value, "standard_error": self.standard_error}
        return xr.Dataset(
            {**numbers, **self.diagnostics, "event_log_probability": self.events},
            attrs={"method": self.method},
        )

    def __repr__(self) -> str:
        figures = ", ".join(f"{name} {value:.3g}" for name, value in self.diagnostics.items())
        return (
            f"log-probability {self.value:.6g} (standard error {self.standard_error:.2g}) by "
            f"{self.method}; likeliest: {self.likeliest}" + (f"; {figures}" if figures else "")
        )


class Refused(ValueError):
    """An estimator's own diagnostic says that its answer cannot be trusted.

    Attributes
    ----------
    evidence : Evidence
        The answer that is not to be trusted, with its diagnostics.
    """

    def __init__(self, message: str, evidence: Evidence) -> None:
        super().__init__(message)
        self.evidence = evidence


def no_answer(method: str, alternative: Alternative) -> Evidence:
    """What a method has to show that broke off."""
    names = alternative.events.names
    return Evidence(np.nan, np.inf, method, names, np.full(len(names), np.nan))


def refuse_unless(fine: bool, evidence: Evidence, reason: str) -> None:
    """Refuse an answer that is not."""
    if not fine:
        raise Refused(f"{evidence.method}: {reason}", evidence)


def judge_weights(evidence: Evidence, what: str, drawn: Weighted) -> None:
    """Refuse an answer whose weights cannot carry it."""
    refuse_unless(
        drawn.efficiency >= LEAST_EFFICIENCY, evidence,
        f"only {100 * drawn.efficiency:.2g} % of the draws of {what} count; at least "
        f"{100 * LEAST_EFFICIENCY:g} % are needed (Pareto k-hat {drawn.khat:.2f})",
    )  # fmt: skip
    refuse_unless(
        drawn.khat < MOST_KHAT, evidence,
        f"the weights of {what} have tails too heavy for an average "
        f"(Pareto k-hat {drawn.khat:.2f}, {MOST_KHAT} or more is too heavy)",
    )  # fmt: skip


def judge_agreement(evidence: Evidence, log_ratio: float, whole: Weighted) -> None:
    """Refuse an answer that contradicts the draws of the whole posterior.

    The events and the whole have proposals of their own. If one of them misses a mode, the draws
    of the whole put another share into the events, or the events have more than the whole.
    """
    share, error = whole.share()
    value = float(np.exp(min(log_ratio, 50.0)))
    spread = float(np.hypot(error, value * evidence.standard_error))
    refuse_unless(
        not abs(value - share) > MOST_DEVIATIONS * spread, evidence,
        f"the events have probability {value:.3g} by their own draws, {share:.3g} by draws of the "
        "whole posterior; a mode may have been missed",
    )  # fmt: skip


def judge_chains(evidence: Evidence, accepted: float = 0.0) -> None:
    """Refuse an answer from chains that have not mixed, or more of which diverged than accepted."""
    rhat, divergences = (evidence.diagnostics[name] for name in ("rhat", "divergences"))
    refuse_unless(
        rhat <= MOST_RHAT, evidence,
        f"the chains disagree (R-hat {rhat:.3f}, at most {MOST_RHAT} is allowed); more draws may "
        "help",
    )  # fmt: skip
    refuse_unless(
        not divergences > accepted, evidence,
        f"{divergences:g} transitions diverged; a larger tune, a larger target_accept or tighter "
        "priors may help",
    )  # fmt: skip


def judge_error(evidence: Evidence) -> None:
    """Refuse an answer whose standard error says nothing."""
    error = evidence.standard_error
    reason = f"the standard error is {error:.2g} nats, at most {MOST_ERROR:g} is allowed"
    refuse_unless(error <= MOST_ERROR, evidence, reason)
