# SPDX-License-Identifier: Apache-2.0
"""The part of the API for machines: health, events, and metrics for Prometheus."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from penstock.service.asking import desk_of, may_read, only_known_query, service_of
from penstock.service.events import MOST_CLIENTS, Event, EventFeed, Listener
from penstock.service.problems import ProblemError
from penstock.service.prometheus import exposition

_LOG = logging.getLogger(__name__)
HEARTBEAT_SECONDS = 10.0
_MOST_DIGITS = 18

router = APIRouter(tags=["machines"])


@router.get("/healthz")
def healthy() -> dict[str, str]:
    """Whether the service answers."""
    return {"status": "ok"}


@router.get("/readyz")
def ready(request: Request) -> dict[str, str]:
    """Whether every pipeline was looked at, and its loop goes on; of a master, whether it leads."""
    service = service_of(request)
    desks = service.desks
    if service.master is not None:  # its pipelines come and go, and one that is new does not make it unready
        leadership = service.master.leadership
        if not leadership.is_leading:
            if leadership.trouble is not None:
                raise ProblemError(503, leadership.why_not, "mend its store, or start it again")
            raise ProblemError(503, "this master does not lead", "ask the one that does")
        return {"status": "ready"}
    if not desks:
        raise ProblemError(503, "no pipeline is there yet", "wait until its operators run")
    for desk in desks.values():
        if desk.is_of_this_process and not desk.is_live:
            raise ProblemError(503, f"{desk.facts.name} has ended", "start it again")
        if any(desk.seen(name) is None for name in desk.facts.names):
            raise ProblemError(503, f"{desk.facts.name} was not looked at yet", "wait for the first look")
    return {"status": "ready"}


@router.get("/metrics", dependencies=[Depends(may_read)])
def metrics(request: Request) -> Response:
    """Every metric in the text form of Prometheus."""
    body, content_type = exposition(service_of(request).desks.values(), service_of(request).master)
    return Response(body, media_type=content_type)


@router.get("/api/v1/events", dependencies=[Depends(may_read), Depends(only_known_query)])
async def events(
    request: Request,
    pipeline: Annotated[str | None, Query(max_length=200)] = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> StreamingResponse:
    """What happens, as server-sent events."""
    if pipeline is not None:
        desk_of(request, pipeline)
    feed = service_of(request).feed
    is_number = last_event_id is not None and last_event_id.isdecimal() and len(last_event_id) <= _MOST_DIGITS
    after = int(last_event_id) if last_event_id is not None and is_number else None
    listener = feed.listen(pipeline, after)
    if listener is None:
        raise ProblemError(
            503, f"{MOST_CLIENTS} clients listen already", "close one of them", headers={"Retry-After": "10"}
        )
    return StreamingResponse(
        _lines(feed, listener), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
    )


async def _lines(feed: EventFeed, listener: Listener) -> AsyncIterator[str]:
    try:
        yield ": welcome\n\n"
        while True:
            has_ended = listener.has_ended  # asked first: what comes while these are sent is not the end's to lose
            taken, dropped = listener.take()
            if dropped:
                yield _event("dropped", {"count": dropped})
            for event in taken:
                if (text := _text_of(event)) is not None:
                    yield text
            if has_ended:
                yield _event("end", {})
                return
            if not taken:
                await listener.wait(HEARTBEAT_SECONDS)
                if not listener.has_news and not listener.has_ended:
                    yield ": heart-beat\n\n"
    finally:
        feed.leave(listener)


def _text_of(event: Event) -> str | None:
    """An event as it is sent; None where it cannot be shown: those after it can."""
    try:
        return _event(event.kind, event.plain(), event.number)
    except Exception:
        _LOG.exception("an event of %s cannot be shown", event.pipeline)
        return None


def _event(kind: str, plain: object, number: int | None = None) -> str:
    identity = "" if number is None else f"id: {number}\n"
    return f"{identity}event: {kind}\ndata: {json.dumps(plain, allow_nan=False)}\n\n"
