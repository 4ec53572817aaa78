"""What a trial's journal comes to: the problem, what was seen, what is pending."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import bayes_feasible
from bayes_feasible import _check
from bayes_feasible.files.documents import build, from_document
from bayes_feasible.history import History
from bayes_feasible.instance import Instance
from bayes_feasible.posterior import Posterior
from bayes_feasible.problem import Problem
from bayes_feasible.safety import Guard, Safety
from bayes_feasible.stopping.stop import Monitor, Stop
from bayes_feasible.trial.journal import WAIT, Event, Journal, warn
from bayes_feasible.trial.ledger import Ledger
from bayes_feasible.trial.replay import Replay

if TYPE_CHECKING:
    import xarray as xr

KIND = "trial of bayes-feasible"


class Record:
    """A trial as it is read; `Trial` adds to it.

    Examples
    --------
    >>> import tempfile
    >>> from bayes_feasible import Problem, Trial
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trial = Trial.new(folder + "/drug.trial", Problem([[1, 0], [0, 1]]), seed=1)
    ...     _ = trial.tell(0, 3.0)
    ...     Record(trial.path).posterior.pulls
    1
    """

    def __init__(self, path: str | os.PathLike[str], *, wait: float = WAIT) -> None:
        self._journal = Journal(path, KIND, wait)
        self._turn = threading.RLock()  # the threads of this process take turns too
        self._still = 0  # how often `still` was entered
        self._events: list[Event] | None = None
        self._refresh()

    @property
    def history(self) -> History:
        """All pulls that were told and stand."""
        with self._turn:
            self._refresh()
            return self._history()

    @property
    def posterior(self) -> Posterior:
        """The posterior after them."""
        return self.history.posterior()

    @property
    def pending(self) -> "xr.DataArray":
        """Over `arm`: how many pulls were asked for and not yet told."""
        import xarray as xr

        return xr.DataArray(
            list(self.waiting.values()), {"arm": self.problem.coords["arm"]}, "arm", "pending"
        )

    @property
    def waiting(self) -> dict[str, int]:
        """How many pulls of each arm were asked for and not yet told, by its name."""
        with self._turn:
            self._refresh()
            return {self.arm_name(i): int(count) for i, count in enumerate(self._pending())}

    @property
    def events(self) -> list[Event]:
        """The journal, line by line."""
        with self._turn:
            self._refresh()
            return [dict(event) for event in self._journal.events]

    @property
    def head(self) -> str:
        """Checksum of the whole journal so far."""
        return self._journal.head

    @property
    def path(self) -> str:
        """Where the journal is."""
        return str(self._journal.path)

    def unasked(self, event: int) -> int:
        """How many pulls of a tell nobody had asked for.

        Examples
        --------
        >>> import tempfile
        >>> import bayes_feasible as bf
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trial = bf.Trial.new(folder + "/drug.trial", bf.Problem([[1, 0], [0, 1]]), seed=1)
        ...     event = trial.tell([0, 1], [0.3, 0.2])
        ...     trial.unasked(event)
        2
        """
        return self._ledger.unasked.get(event, 0)

    def undone(self, event: int) -> int | None:
        """The number of the event that took this one back, if any.

        Examples
        --------
        >>> import tempfile
        >>> import bayes_feasible as bf
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trial = bf.Trial.new(folder + "/drug.trial", bf.Problem([[1, 0], [0, 1]]), seed=1)
        ...     event = trial.tell(0, 3.0)
        ...     _ = trial.undo()
        ...     event, trial.undone(event)
        (2, 3)
        """
        return self._ledger.undone.get(event)

    def arm_name(self, arm: int) -> str:
        """The name of an arm.

        Examples
        --------
        >>> import tempfile
        >>> import bayes_feasible as bf
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     problem = bf.Problem({"low": [1, 0], "high": [1, 1]})
        ...     trial = bf.Trial.new(folder + "/drug.trial", problem)
        ...     trial.arm_name(1)
        'high'
        """
        return str(self.problem.coords["arm"][arm])

    @contextmanager
    def still(self) -> Iterator[None]:
        """Within it all answers are about one moment, whatever other processes add meanwhile.

        Examples
        --------
        >>> import tempfile
        >>> import bayes_feasible as bf
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trial = bf.Trial.new(folder + "/drug.trial", bf.Problem([[1, 0], [0, 1]]), seed=1)
        ...     other = bf.Trial(trial.path)
        ...     with trial.still():
        ...         _ = other.tell(0, 3.0)
        ...         before = trial.posterior.pulls
        ...     before, trial.posterior.pulls
        (0, 1)
        """
        with self._turn:
            self._refresh()
            self._still += 1
            try:
                yield
            finally:
                self._still -= 1

    def _refresh(self) -> None:
        if self._still:
            return
        self._journal.read()
        self._take_in()

    def _take_in(self) -> None:
        """Bring the state up to the journal, which others may have added to."""
        events = self._journal.events
        try:
            if self._events is not events:  # first time, or another file took its place
                self._open(events[0])
                self._ledger = Ledger(self.problem)
                self._replay = Replay(
                    self._journal.path, self.problem, self.rule, self.seed, self.settings
                )
                self._known = 1
            if self._ledger.extend(events[self._known :]):
                self._replay.forget()
            self._events, self._known = events, len(events)
        except ValueError as error:
            self._events = None
            raise ValueError(f"{self.path}: {error}") from None

    def _open(self, first: Event) -> None:
        try:
            problem = build(from_document(first["problem"]))
            self.problem = problem.problem if isinstance(problem, Instance) else problem
            self.rule: str = first["rule"]
            self.settings: dict[str, Any] = dict(first["settings"])
            self.seed: int = _check.count("seed", first["seed"], least=0)
            self.recommendation: str = first["recommendation"]
            check_recommendation(self.recommendation)
            self.version: str | None = first.get("bayes_feasible")
            self.stop = Stop(**first["stop"]) if "stop" in first else None
            self.safety = Safety(**first["safety"]) if "safety" in first else None
            check_clauses(self.problem, self.stop, self.safety)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"line 1 is not the beginning of a trial ({error})") from error
        if self.version not in (None, bayes_feasible.__version__):
            warn(
                f"{self.path}: begun with bayes_feasible {self.version}, this is "
                f"{bayes_feasible.__version__}: the last digits may differ"
            )

    def _history(self) -> History:
        return self._ledger.history()

    def _pending(self) -> NDArray[np.int64]:
        counts = np.zeros(len(self.problem.arms), dtype=np.int64)
        for arm, asked in self._ledger.pending.items():
            counts[arm] = len(asked)
        return counts


def check_clauses(problem: Problem, stop: Stop | None, safety: Safety | None) -> None:
    """Refuse a stop or a safety that does not go with the problem."""
    if stop is not None:
        Monitor(stop, problem)
    if safety is not None:
        _check.kind("safety", safety, Safety)
        Guard(safety, problem)


def check_recommendation(method: Any) -> None:
    """Refuse what is no way to recommend."""
    from bayes_feasible.recommendation import METHODS

    if method not in METHODS:
        raise ValueError(f"recommendation: expected one of {METHODS}, got {method!r}")
