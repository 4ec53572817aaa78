"""Serve the page of a trial until it is stopped."""

import os
import re
import secrets
import socket
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from bayes_feasible import _check
from bayes_feasible.files.atomic import create_file
from bayes_feasible.files.guard import read_file
from bayes_feasible.trial.journal import WAIT

HOST, PORT = "127.0.0.1", 8421
TOKEN = re.compile(r"[A-Za-z0-9_-]{20,200}")
AT_ONCE = 100  # connections
MISSING = "trial serve: expected the extra `web`; run: pip install 'bayes_feasible[web]'"


def serve(
    path: str | os.PathLike[str],
    host: str = HOST,
    port: int = PORT,
    *,
    token: str | None = None,
    names: Collection[str] = (),
    wait: float = WAIT,
    ready: Callable[[str], Any] = print,
) -> None:
    """Serve the page of a trial, with forms to ask and to tell, until Ctrl-C.

    Parameters
    ----------
    path : path
        The file of a `Trial`.
    host : str
        Where to listen: this machine alone, unless told otherwise.
    port : int
        0 takes any that is free.
    token : str, optional
        What the address begins with, and whoever knows it may ask and tell; by default a new one.
    names : collection of str
        Host names it may be called by, beside `host`, localhost and addresses in numbers.
    wait : float
        Seconds to wait while another process is writing.
    ready : callable
        Is told the address as soon as somebody answers there.
    """
    try:
        import uvicorn

        from bayes_feasible.analysis.live.app import make_app
    except ModuleNotFoundError as error:
        if error.name not in ("uvicorn", "starlette"):
            raise
        raise ValueError(MISSING) from None
    port = _check.count("port", port, least=0, most=65535)
    token = secrets.token_urlsafe(32) if token is None else check_token(token)
    app = make_app(path, token, {host, *names}, wait)
    # No log of requests: it would hold the token.
    config = uvicorn.Config(
        app, log_level="error", access_log=False, server_header=False, ws="none",
        lifespan="off", http="h11", limit_concurrency=AT_ONCE, timeout_keep_alive=5,
        h11_max_incomplete_event_size=2**14, timeout_graceful_shutdown=5,
    )  # fmt: skip
    with _listen(host, port) as listener:
        shown = f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{listener.getsockname()[1]}/{token}/")
        uvicorn.Server(config).run([listener])


def check_token(token: str) -> str:
    """Refuse a token that could be guessed, or that is no part of an address."""
    if not isinstance(token, str) or not TOKEN.fullmatch(token):
        raise ValueError("token: expected 20 to 200 letters, digits, - and _")
    return token


def read_token(path: Path) -> str:
    """The token in a file; a new one where there is no such file yet, for its owner to read.

    So a server that is started again has the same address.
    """
    if not path.exists():
        create_file(path, f"{secrets.token_urlsafe(32)}\n".encode())
        os.chmod(path, 0o600)
    return check_token(read_file(path, most=1000).decode("ascii", "replace").strip())


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise OSError(f"{host}:{port}: cannot listen there ({error.strerror})") from error
