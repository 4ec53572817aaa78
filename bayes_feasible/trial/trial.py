"""A live experiment on disk: ask which arm to pull, tell what it showed, see how sure we are."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import bayes_feasible
from bayes_feasible import _check
from bayes_feasible.files.documents import to_document
from bayes_feasible.instance import Instance
from bayes_feasible.posterior import Posterior
from bayes_feasible.problem import Problem
from bayes_feasible.safety import Batch, Guard, Safety
from bayes_feasible.stopping.stop import Stop
from bayes_feasible.sums import read_rows
from bayes_feasible.trial.journal import WAIT, Event, Journal
from bayes_feasible.trial.ledger import LONGEST_KEY, TOLD, ask_fields, is_key, tell_event
from bayes_feasible.trial.record import KIND, Record, check_clauses, check_recommendation
from bayes_feasible.trial.replay import make_rule

if TYPE_CHECKING:
    import xarray as xr

    from bayes_feasible.recommendation import Recommendation
    from bayes_feasible.simulation.forecast import Forecast
    from bayes_feasible.stopping.stop import Decision
    from bayes_feasible.trial.status import Status


class Trial(Record):
    """An experiment whose every step is in a file.

    The file is a journal: one line an event, only ever added to, on the disk before a method
    returns; see `bayes_feasible.trial.journal`. Opening it rebuilds the whole state, so that
    the rule asks for the same arms as if the session had never stopped. Several processes may
    work on one trial at the same time, each with its own `Trial`; they take turns.

    Parameters
    ----------
    path : path
        A file that `Trial.new` made.
    wait : float
        Seconds to wait while another process is writing.

    Attributes
    ----------
    problem : Problem
    rule : str
        Name of the sampling rule, with its `settings` (dict) and `seed`.
    recommendation : str
        How the candidate to recommend is chosen: "mean", "probable" or "draw"; see `Rule`.
    stop : Stop or None
    safety : Safety or None
    version : str or None
        The version of the package that began the trial; None for one that did not say.

    Examples
    --------
    >>> import tempfile
    >>> problem = Problem({"low": [1, 0.2], "high": [1, 0.9]}, thresholds={"toxicity": 0.3})
    >>> folder = tempfile.TemporaryDirectory()
    >>> trial = Trial.new(folder.name + "/drug.trial", problem, seed=1)
    >>> arm = trial.ask()
    >>> trial.tell(arm, reward=0.7, cost=0.1)
    3
    >>> trial.tell("high", reward=1.2, cost={"toxicity": 0.8})
    4
    >>> trial.undo()["event"]
    'tell'
    >>> Trial(folder.name + "/drug.trial").posterior.pulls
    1
    >>> folder.cleanup()
    """

    @classmethod
    def new(
        cls,
        path: str | os.PathLike[str],
        problem: Problem | Instance,
        rule: str = "Descent",
        seed: int = 0,
        *,
        recommendation: str = "mean",
        stop: Stop | None = None,
        safety: Safety | None = None,
        wait: float = WAIT,
        **settings: Any,
    ) -> "Trial":
        """Start a trial.

        Parameters
        ----------
        path : path
            The file to make; there must be none of that name.
        problem : Problem or Instance
            The truth of an Instance is not kept. `Oracle` and `TopTwo(beta="optimal")` look at
            it now and keep what they make of it.
        rule : str
            Name of a sampling rule.
        seed : int
            The same seed and the same observations give the same arms.
        recommendation : {"mean", "probable", "draw"}
            What to recommend: the best feasible candidate of the posterior means, the candidate
            most probably best, or the best feasible one of a posterior draw.
        stop : Stop, optional
            When it may end; `status` says so. Nothing is refused after that.
        safety : Safety, optional
            Which arms may be asked for.
        wait : float
            Seconds to wait while another process is writing.
        **settings
            Options of the rule, such as `eta` or `exploration`.
        """
        seed = _check.count("seed", seed, least=0)
        check_recommendation(recommendation)
        made = make_rule(problem, rule, seed, settings)
        known = problem.problem if isinstance(problem, Instance) else problem
        header = {
            "bayes_feasible": bayes_feasible.__version__,
            "problem": to_document(known, strict=True),
            "rule": type(made).__name__,
            "settings": {name: getattr(made, name) for name in made.settings},
            "seed": seed,
            "recommendation": recommendation,
        }
        check_clauses(known, stop, safety)
        header |= {} if stop is None else {"stop": stop.to_dict()}
        header |= {} if safety is None else {"safety": safety.to_dict()}
        Journal.create(path, KIND, header, wait)
        return cls(path, wait=wait)

    def ask(
        self, n: int | None = None, *, allowed: Any = None, shares: bool = False,
        key: str | None = None,
    ) -> Any:  # fmt: skip
        """The arm to pull next; or an array of `n` arms to pull before the next `tell`.

        Every call asks for further pulls, also while earlier ones are pending: two people who
        ask at the same time pull two arms. With a `key` that was used before, nothing is asked:
        the answer of that time comes again. The trial's safety holds; `allowed`, a list of arms,
        restricts it further. With `shares` the batch is divided among arms as the rule would
        divide the next pulls (at most 1000 of them), rounded to whole pulls.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     problem = Problem({"a": [1, 0], "b": [0, 1], "c": [1, 1]})
        ...     trial = Trial.new(folder + "/ab.trial", problem, safety=Safety(allowed=["a", "b"]))
        ...     np.bincount(trial.ask(5000, shares=True)).tolist(), trial.ask(3, allowed=["b"])
        ([1665, 3335], array([1, 1, 1]))
        """
        _check_key(key)
        number = 1 if n is None else _check.count("n", n, most=_check.LARGEST_COUNT)
        arms: NDArray[np.int64] | None = None
        with self._turn:
            while arms is None:  # once, unless others take an event back between the two steps
                self._refresh()
                self._replay.catch_up(self._journal.events, self._ledger)  # others may write now
                with self._writing() as append:
                    if self._replay.rule is not None:
                        arms = self._ask(number, append, key, allowed, shares)
            self._replay.keep(self._journal.events)
        return int(arms[0]) if n is None else arms

    def _ask(
        self,
        number: int,
        append: Callable[[Event], Event],
        key: str | None,
        allowed: Any,
        shares: bool,
    ) -> NDArray[np.int64]:
        before = self._repeated(key, {"event": "ask"})
        if before is not None:
            if len(before["arms"]) != number:
                raise ValueError(f"key: {key!r} asked for {len(before['arms'])} pulls before")
            return np.array(before["arms"], dtype=np.int64)
        rule = self._replay.catch_up(self._journal.events, self._ledger)
        try:
            batch = self._batch(number, allowed, shares)
            arms = rule._make(batch)
            append({"event": "ask", "arms": arms.tolist(), **ask_fields(batch), **_keyed(key)})
        except BaseException:
            self._replay.forget()  # it may be ahead of the journal
            raise
        self._replay.seen += 1
        return arms

    def _batch(self, number: int, allowed: Any, shares: bool) -> Batch:
        """How to make a batch of so many pulls."""
        if self.safety is None and allowed is None:
            return Batch(number, shares=shares)
        safety = self.safety or Safety()
        if allowed is not None:
            also = _check.arms(self.problem, allowed, name="allowed")
            if safety.allowed is not None:
                own = _check.arms(self.problem, safety.allowed, name="allowed")
                also = np.intersect1d(also, own)
            if not also.size:
                raise ValueError("allowed: expected an arm that the trial allows, got none")
            safety = replace(safety, allowed=also.tolist())
        guard = Guard(safety, self.problem)
        return guard.plan(self._history().posterior(), self._pending(), number, shares=shares)

    def done(self) -> "Decision":
        """Whether the trial's stop says that it may end, and why.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     problem, stop = Problem({"a": [1, 0], "b": [0, 1]}), Stop(error=0.05, pulls=60)
        ...     trial = Trial.new(folder + "/ab.trial", problem, stop=stop)
        ...     _ = trial.tell(["a", "b"], [14.0, 6.0], count=10)
        ...     print(trial.done())
        Stop (error), answer: a. P(error) = 0.044, at most 0.05. 20 of 60 pulls.
        """
        with self.still():
            posterior = self._history().posterior()
            return self._decide(posterior, self._recommend(posterior))

    def _decide(self, posterior: Posterior, choice: "Recommendation") -> "Decision":
        if self.stop is None:
            raise ValueError(f"{self.path}: this trial was begun without a stop")
        return self.stop.check(posterior, choice.candidate, len(self._journal.events))

    def forecast(self, *, draws: int = 100, probability: float = 0.8) -> "Forecast":
        """How many more pulls until the answer is sure enough for the trial's stop.

        The trial is carried on, with its rule, from draws of the posterior. Pulls that are pending
        count as not made.

        Parameters
        ----------
        draws : int
            Trials carried on.
        probability : float
            Of the interval.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     problem, stop = Problem({"a": [1, 0], "b": [0, 1]}), Stop(error=0.05)
        ...     trial = Trial.new(folder + "/ab.trial", problem, stop=stop)
        ...     _ = trial.tell(["a", "b"], [14.0, 6.0], count=10)
        ...     print(trial.forecast())
        none: it is sure enough now
        """
        from bayes_feasible.simulation.forecast import forecast

        with self.still():
            if self.stop is None:
                raise ValueError(f"{self.path}: this trial was begun without a stop")
            rule = self._replay.catch_up(self._journal.events, self._ledger)
            return forecast(
                rule, self.stop, allowed=self.safety, draws=draws, probability=probability,
                seed=[self.seed, len(self._journal.events)],
            )  # fmt: skip

    def tell(
        self, arm: Any, reward: Any, cost: Any = None, count: Any = 1, *, sd: Any = None,
        key: str | None = None,
    ) -> int:  # fmt: skip
        """Take in what pulls showed: late, in any order, whether asked for or not.

        All of it becomes one event, which is on the disk when this returns.

        Parameters
        ----------
        arm, reward, cost, count, sd
            As in `Posterior.update`: one pull, or vectors; NaN where an outcome was not seen
            (yet), which is told later in a row of its own; sums of `count` pulls.
        key : str, optional
            A name of this tell: the same told again under it, by somebody who did not learn
            whether it arrived, is counted once. Something else under it is refused.

        Returns
        -------
        int
            The number of the event.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trial = Trial.new(folder + "/drug.trial", Problem([[1, 0], [0, 1]]), seed=1)
        ...     events = [trial.tell(0, 3.0, key="patient 7") for _ in range(3)]
        ...     events, trial.posterior.pulls
        ([2, 2, 2], 1)
        """
        _check_key(key)
        rows = read_rows(self.problem, arm, reward, cost, count, sd)
        if rows.arms.size == 0:
            raise ValueError("arm: there is no pull to tell of")
        told = tell_event(rows)
        with self._writing() as append:
            event = self._repeated(key, told) or append(told | _keyed(key))
        return int(event["n"])

    def _repeated(self, key: str | None, event: Event) -> Event | None:
        """The event that this one repeats under the same key, if there is one."""
        number = None if key is None else self._ledger.keys.get(key)
        if number is None:
            return None
        before = self._journal.events[number - 1]
        names = TOLD if event["event"] == "tell" else ("event",)
        if any(before.get(name) != event.get(name) for name in names):
            raise ValueError(f"key: {key!r} is that of event {number}, which is another one")
        return before

    def undo(self, event: int | None = None) -> Event:
        """Take back the last ask or tell that stands, or the tell of this number.

        Nothing is deleted: an event is added that says so, and the state becomes what it would
        be if the other had not happened. Again takes back the one before. To take back an undo,
        tell the same again. When an earlier tell is taken back, what was asked for since stays
        as it was asked.

        Returns
        -------
        dict
            The event that was taken back.
        """
        with self._writing() as append:
            taken = self._to_undo(event)
            append({"event": "undo", "of": taken["n"]})
        return taken

    def recommend(self) -> "Recommendation":
        """The best feasible candidate, how probably that is wrong, and why.

        It depends on nothing but the journal: asked again, it answers the same.

        Examples
        --------
        >>> import tempfile
        >>> problem = Problem({"low": [1, 0.2], "high": [1, 0.9]}, thresholds={"toxicity": 0.3})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trial = Trial.new(folder + "/drug.trial", problem, seed=1)
        ...     _ = trial.tell(["low", "high"] * 20, [0.2, 0.9] * 20, [0.1, 0.8] * 20)
        ...     trial.recommend().name
        'low'
        """
        with self._turn:
            self._refresh()
            return self._recommend(self._history().posterior())

    def status(self, *, forecast: bool = False) -> "Status":
        """All there is to know now; print it, or take its parts.

        With `forecast`, also how many more pulls it will take until the answer is sure enough for
        the trial's stop, which takes a while.

        Examples
        --------
        >>> import tempfile
        >>> problem = Problem({"low": [1, 0.2], "high": [1, 0.9]}, thresholds={"toxicity": 0.3})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trial = Trial.new(folder + "/drug.trial", problem, seed=1)
        ...     _ = trial.tell(["low", "high"] * 20, [0.2, 0.9] * 20, [0.1, 0.8] * 20)
        ...     status = trial.status()  # print(status) says it all in words
        >>> status.recommendation.name, status.candidates.feasible.values.round(2).tolist()
        ('low', [0.75, 0.02])
        """
        from bayes_feasible.trial.status import status

        with self._turn:
            self._refresh()
            posterior = self._history().posterior()
            choice = self._recommend(posterior)
            about = {"path": self.path, "rule": self.rule, "head": self.head}
            found = status(
                posterior, choice, self._pending(), events=len(self._journal.events), **about
            )
            if self.stop is not None:
                found = replace(found, stop=self._decide(posterior, choice))
            return replace(found, forecast=self.forecast()) if forecast else found

    def probability_best(self) -> "xr.Dataset":
        """For every candidate, the probability that it is the best feasible one.

        As `Posterior.probability_best`; asked again, it answers the same.

        Examples
        --------
        >>> import tempfile
        >>> problem = Problem({"low": [1, 0.2], "high": [1, 0.9]}, thresholds={"toxicity": 0.3})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trial = Trial.new(folder + "/drug.trial", problem, seed=1)
        ...     _ = trial.tell(["low", "high"] * 20, [0.2, 0.9] * 20, [0.1, 0.8] * 20)
        ...     trial.probability_best().best.values.round(2).tolist()
        [0.74, 0.02]
        """
        with self.still():
            return self.posterior.probability_best([self.seed, len(self._journal.events)])

    @contextmanager
    def _writing(self) -> Iterator[Callable[[Event], Event]]:
        with self._turn:
            self._refresh()  # most of what is new, while others may still write
            with self._journal.writing() as append:
                self._take_in()
                yield append
                self._take_in()

    def _recommend(self, posterior: Posterior) -> "Recommendation":
        from bayes_feasible.recommendation import choose, recommend

        rng = np.random.default_rng([self.seed, len(self._journal.events)])
        choice = choose(posterior, self.recommendation, rng)
        return recommend(posterior, choice, rng)

    def _to_undo(self, number: int | None) -> Event:
        """The event to take back."""
        standing = self._ledger.standing
        if not standing:
            raise ValueError(f"{self.path}: there is nothing to take back")
        number = standing[-1]["n"] if number is None else _check.count("event", number)
        if number == standing[-1]["n"]:
            return standing[-1]
        if number > len(self._journal.events):
            raise ValueError(f"event: there are {len(self._journal.events)} events, got {number}")
        if number in self._ledger.undone:
            by = self._ledger.undone[number]
            raise ValueError(f"event: {number} was already taken back by event {by}")
        event = self._journal.events[number - 1]
        if event["event"] != "tell":
            raise ValueError(
                f"event: {number} is of kind {event['event']!r}; but for the last event, only a "
                "tell can be taken back"
            )
        return event


def _check_key(key: Any) -> None:
    if key is not None and not is_key(key):
        raise ValueError(f"key: expected a text of 1 to {LONGEST_KEY} characters, got {key!r}")


def _keyed(key: str | None) -> Event:
    return {} if key is None else {"key": key}
