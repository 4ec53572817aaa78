"""A trial as one web page that stands alone: what to recommend, how sure it is, what to do next."""

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from bayes_feasible._check import path as checked_path
from bayes_feasible._display import visible, visible_json
from bayes_feasible.analysis.report.page import Table, data_uri, fill
from bayes_feasible.analysis.report.trial_figures import draw
from bayes_feasible.analysis.report.trial_view import K_HAT, View, look
from bayes_feasible.files.atomic import write_bytes
from bayes_feasible.files.pulls import write_pulls
from bayes_feasible.recommendation import format_probability
from bayes_feasible.trial.describe import describe_event, plural
from bayes_feasible.trial.trial import Trial

SHOWN = 200  # rows of a table
MISTAKES = 5  # that are named
LAST = 50  # events that are listed
SURE = math.log(0.05)  # log P(error), where the trial has no stop of its own
LARGEST = 2**21  # bytes of a table of pulls that is put into the page


def write(
    trial: Trial | str | os.PathLike[str], path: str | os.PathLike[str] | None = None, *,
    forecast: bool = False,
) -> Path:  # fmt: skip
    """Write the page of a trial.

    Parameters
    ----------
    trial : Trial, or path
        Of its file.
    path : path, optional
        Where to write it; by default beside the trial, as `NAME.html`.
    forecast : bool
        Whether to say how many more pulls it will take until the trial's stop ends it.

    Returns
    -------
    Path
        Of the page.

    Examples
    --------
    >>> import tempfile
    >>> import bayes_feasible as bf
    >>> problem = bf.Problem({"low": [1, 0.2], "high": [1, 0.9]}, thresholds={"toxicity": 0.3})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trial = bf.Trial.new(folder + "/drug.trial", problem, seed=1)
    ...     _ = trial.tell("low", 0.2, 0.1)
    ...     page = write(trial)
    ...     page.name, page.read_text(encoding="utf-8")[:15]
    ('drug.html', '<!doctype html>')
    """
    trial = trial if isinstance(trial, Trial) else Trial(trial)
    source = Path(trial.path)
    target = source.with_suffix(".html") if path is None else checked_path("path", path)
    if target.exists() and target.samefile(source):
        raise ValueError(f"path: refusing to overwrite the input file {target}")
    write_bytes(target, render(look(trial, forecast=forecast)).encode())
    return target


def render(view: View, figures: list[dict[str, str]] | None = None, live: Any = None) -> str:
    """Make the page; `live` is what the forms of a page that is served need."""
    return visible(
        fill(
            "trial.html.j2",
            title=Path(view.status.path).name,
            view=view,
            live=live,
            answer=_answer(view),
            steps=_next_steps(view),
            warnings=_find_warnings(view),
            figures=draw(view) if figures is None else figures,
            candidates=_tabulate_candidates(view),
            mistakes=_tabulate_mistakes(view),
            arms=_tabulate_arms(view),
            log=_tabulate_events(view),
            download=_download(view),
            provenance=_tabulate_provenance(view),
            problem=visible_json(view.header["problem"]),
        )
    )


def _answer(view: View) -> dict[str, str]:
    """The recommendation, and how sure it is, in words."""
    choice = view.status.recommendation
    wrong = format_probability(choice.log_error)
    stop = view.status.stop
    tone = "good" if (choice.log_error <= SURE if stop is None else stop) else "open"
    if choice.candidate is None:
        reason = f"No candidate looks feasible. Most likely wrong because {choice.reason}."
    elif choice.log_error == -math.inf:
        reason = "Nothing can make it wrong."
    else:
        reason = f"Most likely wrong because {choice.reason}."
    return {"name": choice.name, "wrong": wrong, "tone": tone, "reason": reason}


def _next_steps(view: View) -> list[str]:
    """What to do now."""
    status, steps = view.status, []
    waiting = [
        f"{name} ({count})" if count > 1 else str(name)
        for name, count in zip(
            status.arms.arm.values.tolist(), status.arms.pending.values.tolist(), strict=True
        )
        if count
    ]
    if status.stop:
        steps.append(f"Stop here ({status.stop.reason}): {status.stop.name}. {_findings(view)}")
    elif status.stop is not None:
        steps.append(f"Not sure enough yet. {_findings(view)}")
    if status.forecast is not None:
        steps.append(f"More pulls until it is: {status.forecast}.")
    if waiting:
        number = int(status.arms.pending.sum())
        steps.append(f"Tell what {plural(number, 'pending pull')} showed: {', '.join(waiting)}.")
    elif not status.stop:
        steps.append("Nothing is pending. Ask which arm to pull next.")
    if len(view.refused) == status.arms.sizes["arm"]:
        steps.append("No arm may be asked for now.")
    steps += [f"{arm} may not be asked for now: {why}." for arm, why in view.refused.items()]
    if status.halving is None:
        steps.append("There is no result yet; all that is known comes from the prior.")
    elif status.halving == math.inf:
        steps.append("With the current allocation more pulls will not help. Ask the rule instead.")
    elif status.halving > 0:
        best = status.halving_at_best
        better = "" if best in (None, math.inf) else f", {_about(best)} with the best shares"
        steps.append(
            f"To halve the probability of error: {_about(status.halving)} more pulls with the "
            f"current allocation{better}."
        )
    return steps


def _findings(view: View) -> str:
    return " ".join(view.status.stop.findings) if view.status.stop is not None else ""


def _find_warnings(view: View) -> list[str]:
    found = []
    made = view.header.get("bayes_feasible")
    if made not in (None, view.version):
        found.append(
            f"The trial was begun with bayes_feasible {made}; this page was made with "
            f"{view.version}. The last digits may differ."
        )
    if view.k_hat > K_HAT:
        found.append(
            f"The probabilities of being best rest on importance weights with k-hat "
            f"{view.k_hat:.2f}, above {K_HAT}: take them as rough."
        )
    if view.best is None:
        found.append("P(best) is not offered within a parameter radius.")
    return found


def _tabulate_candidates(view: View) -> Table:
    status, names = view.status, view.status.candidates.candidate.values
    order = np.argsort(-(view.outcomes[0].mean if view.best is None else view.best), kind="stable")
    bounded = len(view.outcomes) > 1
    header = ["candidate", *(f"{o.name} ({o.unit})" if o.unit else o.name for o in view.outcomes)]
    header += ["P(within limits)"] * bounded + ["P(best)"] * (view.best is not None)
    rows = [
        [
            str(names[z]),
            *(f"{o.mean[z]:.3g} ({o.low[z]:.3g} to {o.high[z]:.3g})" for o in view.outcomes),
            *([f"{float(status.candidates.feasible[z]):.3f}"] * bounded),
            *([f"{view.best[z]:.3f}"] if view.best is not None else []),
        ]
        for z in order[:SHOWN].tolist()
    ]
    if view.best is not None and bounded:
        rows.append(["none", *[""] * (len(header) - 2), f"{view.none:.3f}"])
    limits = [f"{o.name} at most {o.limit:g}" for o in view.outcomes if math.isfinite(o.limit)]
    told = f"; limits: {', '.join(limits)}" if limits else ""
    return Table(f"Every candidate: mean and 95 % interval{told}{_more(names, rows)}", header, rows)


def _tabulate_mistakes(view: View) -> Table:
    logs, names = view.status.mistakes.values, view.status.mistakes.event.values
    rows = [
        [str(names[i]), format_probability(float(logs[i]))]
        for i in np.argsort(-logs, kind="stable")[:MISTAKES].tolist()
        if logs[i] > -np.inf
    ]
    return Table("How it may be wrong", ["mistake", "probability"], rows)


def _tabulate_arms(view: View) -> Table:
    """What was seen of each arm: the data in short."""
    history, arms = view.history, view.status.arms
    values = np.column_stack([history.rewards, history.costs])
    counts = np.broadcast_to(history.counts[:, np.newaxis], values.shape)
    sums = np.where(np.isnan(history.sds), values, values * counts)  # a mean has an sd
    seen = ~np.isnan(values)
    rows = []
    for x in np.argsort(-arms.pulls.values, kind="stable")[:SHOWN].tolist():
        own = (history.arms == x)[:, np.newaxis] & seen
        number = np.where(own, counts, 0).sum(axis=0)
        total = np.where(own, sums, 0.0).sum(axis=0)
        means = [f"{t / n:.4g}" if n else "-" for t, n in zip(total, number, strict=True)]
        share = "-" if view.shares is None else f"{view.shares[x]:.1%}"
        rows.append([str(arms.arm.values[x]), f"{int(arms.pulls[x]):,}", share,
                     str(int(arms.pending[x])), *means])  # fmt: skip
    header = ["arm", "pulls", "best share", "pending", *(f"mean {o.name}" for o in view.outcomes)]
    return Table(f"What was seen of each arm{_more(arms.arm.values, rows)}", header, rows)


def _tabulate_events(view: View) -> Table:
    rows = [
        [
            str(event["n"]),
            event["time"][:19].replace("T", " "),
            describe_event(view.history.problem, event),
            f"by {view.undone[event['n']]}" if event["n"] in view.undone else "",
        ]
        for event in view.events[-LAST:][::-1]
    ]
    last = f"The last {LAST} of {len(view.events):,}" if len(view.events) > LAST else "All"
    return Table(f"{last} events, the newest first", ["event", "time (UTC)", "what", "taken back"],
                 rows, words=(1, 3), prose=(2,))  # fmt: skip


def _download(view: View) -> str | None:
    """The pulls as the address of a table, unless there are too many."""
    try:
        table = write_pulls(view.history, spreadsheet=True).encode()
    except ValueError:  # two columns would have the same name
        return None
    return data_uri(table, "text/csv") if len(table) <= LARGEST else None


def _tabulate_provenance(view: View) -> Table:
    header, status = view.header, view.status
    settings = ", ".join(f"{key} = {value}" for key, value in header["settings"].items())
    clauses = [
        [name, ", ".join(f"{key} {_said(value)}" for key, value in header[name].items())]
        for name in ("stop", "safety")
        if name in header
    ]
    rows = [
        ["rule", f"{status.rule}{f' ({settings})' if settings else ''}, seed {header['seed']}"],
        ["recommendation", header["recommendation"]],
        *clauses,
        ["begun", f"{header['time']} with bayes_feasible {header.get('bayes_feasible', '?')}"],
        ["last event", view.events[-1]["time"]],
        ["events", f"{status.events:,}"],
        ["checksum of the journal", status.head],
        ["this page", f"bayes_feasible {view.version}"],
    ]
    return Table("Where this comes from", ["what", "value"], rows, prose=(1,))


def _said(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _more(names: Any, rows: list[list[str]]) -> str:
    return f" (the first {len(rows)} of {len(names):,})" if len(names) > len(rows) else ""


def _about(pulls: float | None) -> str:
    """A number of pulls to two digits: it is not known better."""
    assert pulls is not None
    return f"about {float(f'{max(math.ceil(pulls), 1):.2g}'):,.0f}"
