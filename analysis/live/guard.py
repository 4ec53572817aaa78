"""Who may send what to a page that is served.

Every address begins with a secret token, so that a page elsewhere cannot name one; and no cookie
is used, so that it cannot borrow one. Beyond that a request must name a host that the server is
known by (a foreign name that was made to lead here is refused), a form must come from a page of
the same origin with the seal that was put into it, and nothing is read that is long, slow or of
another kind.
"""

import asyncio
import hmac
import ipaddress
from collections.abc import Collection
from hashlib import sha256
from urllib.parse import parse_qsl, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST = 2**16  # bytes of a form
FIELDS = 100  # of a form
LONGEST = 2**13  # characters of an address
PATIENCE = 10.0  # seconds for a form to arrive
FORM = "application/x-www-form-urlencoded"
HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",  # without any, a browser would not say where a form is from
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Guard:
    """Lets through to an application what names a known host and the token.

    Parameters
    ----------
    app : application
    token : str
        The first part of every path.
    names : collection of str
        Host names that the server is known by, beside localhost and any address in numbers.
    """

    def __init__(self, app: ASGIApp, token: str, names: Collection[str] = ()) -> None:
        self.app, self.token = app, token
        self.names = {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one request."""
        if scope["type"] != "http":  # nothing else is served
            return
        refused = self._refuse(Request(scope))

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                message["headers"] += [
                    (name.encode(), value.encode())
                    for name, value in HEADERS.items()
                    if name.encode() not in given
                ]
            await send(message)

        await (refused or self.app)(scope, receive, send_with_headers)

    def _refuse(self, request: Request) -> PlainTextResponse | None:
        if not is_known_host(request.headers.get("host", ""), self.names):
            return PlainTextResponse("this server is not known by that name\n", 421)
        if len(request.url.path) + len(request.url.query) > LONGEST:
            return PlainTextResponse("the address is too long\n", 414)
        first = request.url.path.split("/")[1]
        if not hmac.compare_digest(first.encode(), self.token.encode()):
            return PlainTextResponse("the address is not complete: the token is missing\n", 404)
        if request.method not in ("GET", "HEAD") and not is_same_origin(request):
            return PlainTextResponse("a form of another site\n", 403)
        return None


def is_known_host(header: str, names: Collection[str]) -> bool:
    """Whether a Host header names this server: localhost, numbers, or one of its names.

    >>> is_known_host("127.0.0.1:80", []), is_known_host("[::1]:80", [])
    (True, True)
    >>> is_known_host("evil.example", []), is_known_host("lab.example:80", ["lab.example"])
    (False, True)
    """
    try:
        host = urlsplit(f"//{header}").hostname or ""
        if host == "localhost" or host in names:
            return True
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_same_origin(request: Request) -> bool:
    """Whether a form was sent from a page of this server, as a browser tells."""
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    return request.headers.get("origin") == f"http://{request.headers.get('host')}"


def seal(token: str, key: str) -> str:
    """The seal of a form with this key, which nobody else can make.

    >>> seal("secret", "1") == seal("secret", "1") != seal("secret", "2")
    True
    """
    return hmac.new(token.encode(), f"form {key}".encode(), sha256).hexdigest()


async def read_form(request: Request, token: str) -> dict[str, str]:
    """The fields of a form that carries its seal.

    Raises
    ------
    HTTPException
        If it is too long, too slow, no form, or has no seal.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise HTTPException(415, f"expected {FORM}")
    content = bytearray()
    try:
        async with asyncio.timeout(PATIENCE):
            async for part in request.stream():
                content += part
                if len(content) > MOST:
                    raise HTTPException(413, f"expected at most {MOST} bytes")
    except TimeoutError:
        raise HTTPException(408, f"the form did not arrive within {PATIENCE:g} s") from None
    except ClientDisconnect:
        raise HTTPException(400, "the form was cut short") from None
    try:
        pairs = parse_qsl(
            content.decode("ascii"), keep_blank_values=True, strict_parsing=True,
            max_num_fields=FIELDS, errors="strict",
        )  # fmt: skip
    except ValueError:  # UnicodeDecodeError is one
        raise HTTPException(400, "the form cannot be read") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise HTTPException(400, "the form has a field twice")
    given = fields.get("seal", "").encode()
    if not hmac.compare_digest(given, seal(token, fields.get("key", "")).encode()):
        raise HTTPException(403, "the form has no valid seal; load the page again")
    return fields
