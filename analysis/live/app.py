"""The application: the page of a trial with its forms."""

import os
import secrets
import threading
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

from bayes_feasible.analysis.live.forms import STEPS
from bayes_feasible.analysis.live.guard import Guard, read_form, seal
from bayes_feasible.analysis.report.trial_figures import draw
from bayes_feasible.analysis.report.trial_page import render
from bayes_feasible.analysis.report.trial_view import View, look
from bayes_feasible.outcomes import Bernoulli, Gaussian
from bayes_feasible.trial.describe import describe_event
from bayes_feasible.trial.export import KINDS, export
from bayes_feasible.trial.journal import WAIT
from bayes_feasible.trial.trial import Trial

TYPES = {".csv": "text/csv", ".json": "application/json", ".nc": "application/x-netcdf"}
POLICY = (
    "default-src 'none'; img-src data:; style-src 'nonce-{0}'; script-src 'nonce-{0}'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


class Answer(NamedTuple):
    """What the page says of the form that was sent."""

    event: int | None = None
    error: str = ""
    step: str = ""
    fields: Mapping[str, str] = {}


class Live:
    """A trial that is served. The steps and the page have a `Trial` each: neither waits long.

    Parameters
    ----------
    path : path
    token : str
    wait : float
        Seconds to wait while another process is writing.
    """

    def __init__(self, path: str | os.PathLike[str], token: str, wait: float) -> None:
        self.token = token
        self.steps, self.pages = Trial(path, wait=wait), Trial(path, wait=wait)
        self._drawing = threading.Lock()
        self._drawn: tuple[str, View, list[dict[str, str]]] | None = None

    def page(self, answer: Answer = Answer()) -> Response:  # noqa: B008 (it does not change)
        """The page as the trial is now, after a form or without one."""
        with self._drawing:  # several browsers want the same figures: drawn once
            if self._drawn is None or self._drawn[0] != self._head():
                view = look(self.pages)
                self._drawn = view.status.head, view, draw(view)
            _, view, figures = self._drawn
        nonce = secrets.token_urlsafe(16)
        text = render(view, figures, live=self._forms(view, answer, nonce))
        status = 400 if answer.error else 200
        return HTMLResponse(text, status, {"content-security-policy": POLICY.format(nonce)})

    def _head(self) -> str:
        return str(self.pages.events[-1]["check"])

    def head(self) -> Response:
        """How far the trial is, for pages that look whether they are old."""
        with self.pages.still():
            return JSONResponse({"head": self.pages.head, "events": len(self.pages.events)})

    def step(self, name: str, fields: Mapping[str, str]) -> Response:
        """Take a step and lead to the page that says so; or the page with what is wrong."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a line cut short by a crash, which is repaired
                event = STEPS[name](self.steps, fields)
        except (TypeError, ValueError) as error:
            return self.page(Answer(error=str(error), step=name, fields=fields))
        except OSError as error:  # the disk is full, or another process holds the file
            raise HTTPException(503, f"nothing was recorded: {error}") from None
        return RedirectResponse(f"/{self.token}/?event={event}", 303)

    def export(self, kind: str) -> Response:
        """All of the trial as a file."""
        name = Path(self.pages.path).stem.encode("ascii", "replace").decode().replace("?", "_")
        safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)
        content = export(self.pages, kind, spreadsheet=True)
        disposition = f'attachment; filename="{safe}{kind}"'
        return Response(content, media_type=TYPES[kind],
                        headers={"content-disposition": disposition})  # fmt: skip

    def _forms(self, view: View, answer: Answer, nonce: str) -> dict[str, Any]:
        """What the template needs for the forms."""
        problem, pending = view.history.problem, view.status.arms.pending.values
        last = max((e["n"] for e in view.events[1:] if self._stands(view, e)), default=None)
        message = ""
        if answer.event is not None and 1 <= answer.event <= len(view.events):
            message = describe_event(problem, view.events[answer.event - 1])
        forms = {}
        for name in STEPS:
            key = secrets.token_urlsafe(16)
            if name == answer.step:  # the same form again, so the same key
                key = answer.fields["key"]
            forms[name] = {"key": key, "seal": seal(self.token, key)}
        first = int(pending.argmax()) if pending.any() else 0
        kept = answer.fields if answer.step == "tell" else {}
        return {
            "nonce": nonce,
            "forms": forms,
            "message": message,
            "error": answer.error,
            "kept": kept,
            "chosen": kept.get("arm", str(first)),
            "arms": [
                {"index": str(x), "name": str(name), "pending": int(pending[x])}
                for x, name in enumerate(problem.coords["arm"].tolist())
            ],
            "outcomes": [
                {
                    "name": name,
                    "whole": not isinstance(outcome, Gaussian),
                    "hint": "0 or 1" if isinstance(outcome, Bernoulli) else "",
                }
                for name, outcome in zip(problem.outcome_names, problem.outcomes, strict=True)
            ],
            "last": last and {"n": last, "what": describe_event(problem, view.events[last - 1])},
            "head": view.status.head,
            "kinds": list(KINDS),
            "cohort": view.cohort,
        }

    @staticmethod
    def _stands(view: View, event: dict[str, Any]) -> bool:
        return event["event"] != "undo" and event["n"] not in view.undone


def make_app(
    path: str | os.PathLike[str], token: str, names: Collection[str] = (), wait: float = WAIT
) -> Guard:
    """Make the application that serves a trial under a token.

    Parameters
    ----------
    path : path
        Of the trial.
    token : str
        The first part of every address.
    names : collection of str
        Host names it is known by, beside localhost and addresses in numbers.
    wait : float
        Seconds to wait while another process is writing.
    """
    live = Live(path, token, wait)

    def page(request: Request) -> Response:
        number = request.query_params.get("event", "")
        known = number.isascii() and number.isdecimal() and len(number) < 16
        return live.page(Answer(int(number)) if known else Answer())

    def head(request: Request) -> Response:
        return live.head()

    async def step(request: Request) -> Response:
        fields = await read_form(request, token)
        name = request.url.path.rpartition("/")[2]
        return await run_in_threadpool(live.step, name, fields)

    def download(request: Request) -> Response:
        kind = request.path_params["kind"]
        if f".{kind}" not in KINDS:
            raise HTTPException(404)
        return live.export(f".{kind}")

    routes = [
        Route("/", page),
        Route("/head", head),
        Route("/export.{kind}", download),
        *(Route(f"/{name}", step, methods=["POST"]) for name in STEPS),
    ]
    return Guard(Starlette(routes=[Mount(f"/{token}", routes=routes)]), token, names)
