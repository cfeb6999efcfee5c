# SPDX-License-Identifier: Apache-2.0
"""What every request passes first: is it meant for this service, from its own page, of a fair size and rate?

A web page elsewhere may send a browser here, by its own name for this address (DNS rebinding) or by a form. The first
is seen by the header `Host`, the second by `Origin`. Neither gets in without a token; the gate keeps them from trying.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from time import monotonic as system_monotonic
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.service.problems import MEDIA_TYPE, ProblemError

MOST_BODY_BYTES = 64 << 10
_ALWAYS = ("/healthz", "/readyz")
"""Answered at any rate: it costs as little as a refusal, and what watches a process ends one that does not answer."""
_HEADERS = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]


class Rate:
    """Lets so many requests through in a second, and some at once.

    Parameters
    ----------
    per_second, at_once
        How many in the long run, and how many in a moment.
    """

    def __init__(self, per_second: float, at_once: float, monotonic: Callable[[], float] = system_monotonic) -> None:
        self._per_second, self._most, self._monotonic = per_second, at_once, monotonic
        self._left, self._at = at_once, monotonic()
        self._lock = threading.Lock()

    def another(self) -> Rate:
        """One of the same size, which counts for itself."""
        return Rate(self._per_second, self._most, self._monotonic)

    def take(self) -> bool:
        """Whether one more may pass."""
        with self._lock:
            now = self._monotonic()
            self._left = min(self._most, self._left + (now - self._at) * self._per_second)
            self._at = now
            if self._left < 1.0:
                return False
            self._left -= 1.0
            return True


class Gate:
    """Refuses what is not meant for this service (an ASGI application around another).

    Parameters
    ----------
    app
        What is behind it.
    hosts
        The names that this service has, without ports.
    is_known
        Whether a header ``Authorization`` has a token of this service.
    rate
        How many requests with a token pass. Those without one are counted apart, by the same rate: whoever sends too
        many of them keeps nobody out who has one.
    """

    def __init__(
        self, app: ASGIApp, hosts: Collection[str], is_known: Callable[[str | None], bool], rate: Rate | None = None
    ) -> None:
        self._app, self._hosts, self._is_known = app, frozenset(host.lower() for host in hosts), is_known
        self._rate = rate or Rate(per_second=50.0, at_once=200.0)
        self._strangers = self._rate.another()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # nothing else is spoken here
        headers = {key.lower(): value.decode("latin-1") for key, value in scope["headers"]}
        problem = self._problem(headers, str(scope.get("path", "")))
        if problem is not None:
            await _answer(problem, scope, send)
            return
        body = _BoundedBody(receive)
        is_refused = False

        async def send_with_headers(message: Message) -> None:
            nonlocal is_refused
            if is_refused:
                return
            if message["type"] == "http.response.start":
                if body.is_too_large:  # whatever the application made of half a body
                    is_refused = True
                    await _answer(_too_large(), scope, send)
                    return
                named = {name for name, _ in message["headers"]}
                extra = [(name, value) for name, value in _HEADERS if name not in named]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        await self._app(scope, body, send_with_headers)

    def _problem(self, headers: dict[bytes, str], path: str) -> ProblemError | None:
        host = headers.get(b"host", "")
        if _name(host) not in self._hosts:
            return ProblemError(
                421, f"this service is not {host[:100]!r}", "use the address that it printed at its start"
            )
        origin = headers.get(b"origin")
        if origin is not None and _netloc(origin) != host.lower():
            return ProblemError(403, "a page of another origin asks", "open the page that this service serves")
        rate = self._rate if self._is_known(headers.get(b"authorization")) else self._strangers
        if path not in _ALWAYS and not rate.take():
            return ProblemError(429, "too many requests", "ask less often", headers={"Retry-After": "1"})
        length = headers.get(b"content-length", "0")
        if not length.isdecimal() or int(length) > MOST_BODY_BYTES:
            return _too_large()
        has_body = length != "0" or b"transfer-encoding" in headers
        if has_body and not headers.get(b"content-type", "").split(";")[0].strip().endswith("json"):
            return ProblemError(415, "the body is not JSON", "send it with Content-Type: application/json")
        return None


class _BoundedBody:
    """Hands on a request's body up to a bound: one without a length may turn out to be too large."""

    def __init__(self, receive: Receive) -> None:
        self._receive, self._bytes = receive, 0

    @property
    def is_too_large(self) -> bool:
        """Whether the bound was passed."""
        return self._bytes > MOST_BODY_BYTES

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._bytes += len(message.get("body", b""))
            if self.is_too_large:
                return {"type": "http.request", "body": b"", "more_body": False}
        return message


def _too_large() -> ProblemError:
    return ProblemError(413, f"the body is larger than {MOST_BODY_BYTES >> 10} KiB", "send less")


def _name(host: str) -> str:
    """The name in a header ``Host``, without the port."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.partition(":")[0].lower()


def _netloc(origin: str) -> str | None:
    """Host and port of an origin; None: it is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


async def _answer(problem: ProblemError, scope: Scope, send: Send) -> None:
    body = problem.body(str(scope.get("path", "")))
    headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", str(len(body)).encode()), *_HEADERS]
    headers += [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
