# SPDX-License-Identifier: Apache-2.0
"""What every request asks first: who is it, which pipeline is meant, and which operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fastapi import Request

from penstock.errors import ConfigurationError, did_you_mean
from penstock.service.access import Access, Role
from penstock.service.backtests import Backtests
from penstock.service.desk import PipelineDesk
from penstock.service.events import EventFeed
from penstock.service.gate import Rate
from penstock.service.problems import ProblemError

if TYPE_CHECKING:
    from penstock.service.master import Master


class Service:
    """The parts of a service that its routes share.

    Parameters
    ----------
    desks
        The pipelines; more may be added.
    access
        Who may do what.
    feed
        Where events come from.
    wrong_tokens
        How many wrong tokens are answered before who guesses has to wait.
    """

    def __init__(
        self,
        desks: Sequence[PipelineDesk],
        access: Access,
        feed: EventFeed,
        *,
        wrong_tokens: Rate | None = None,
    ) -> None:
        self.desks: dict[str, PipelineDesk] = {}
        """The pipelines, by their names."""
        self.access, self.feed = access, feed
        self.master: Master | None = None
        """Who takes agents here; None: nobody does."""
        self.backtests = Backtests()
        """Those that were asked for here."""
        self._wrong_tokens = wrong_tokens or Rate(per_second=1.0, at_once=20.0)
        for desk in desks:
            self.add(desk)

    def add(self, desk: PipelineDesk) -> None:
        """Show one more pipeline.

        Raises
        ------
        ConfigurationError
            There is one of this name.
        """
        if desk.facts.name in self.desks:
            raise ConfigurationError(
                f"pipelines: two are called {desk.facts.name}; give each a name of its own", field="pipelines"
            )
        self.desks = {**self.desks, desk.facts.name: desk}  # a new one: requests may be reading the old

    @property
    def other_page(self) -> str | None:
        """Where the page of another master of the same store is; None: there is none."""
        return None if self.master is None else self.master.other_page

    def close(self) -> None:
        """End what was begun for those who look."""
        self.backtests.close()

    def put(self, desk: PipelineDesk) -> None:
        """Show one more pipeline, or another run of one."""
        self.desks = {**self.desks, desk.facts.name: desk}

    def remove(self, name: str) -> None:
        """Show a pipeline no more."""
        self.desks = {known: desk for known, desk in self.desks.items() if known != name}

    def role(self, request: Request) -> Role:
        """The role of a request; raises ProblemError where it has none."""
        header = request.headers.get("authorization")
        role = self.access.role_of(header)
        if role is not None:
            return role
        if header is not None and not self._wrong_tokens.take():
            raise ProblemError(429, "too many wrong tokens", "wait a while", headers={"Retry-After": "5"})
        fix = "send Authorization: Bearer TOKEN, with the token of the address that was printed at the start"
        what = "a token is needed" if header is None else "the token is wrong"
        raise ProblemError(401, what, fix, headers={"WWW-Authenticate": "Bearer"})


def service_of(request: Request) -> Service:
    """The service that a request is for."""
    found: Service = request.app.state.service
    return found


async def may_read(request: Request) -> Role:
    """Let those pass who may look. It never waits, so the event loop asks it: a hand-over to a thread costs more."""
    return service_of(request).role(request)


async def may_operate(request: Request) -> Role:
    """Let those pass who may steer."""
    return _operating(service_of(request).role(request))


def _operating(role: Role) -> Role:
    if role is not Role.OPERATE:
        raise ProblemError(403, "this token may only look", "use the token of the role operate")
    return role


def may_steer(request: Request) -> Role:
    """Let those pass who may steer the pipeline of the path.

    Whether it takes orders at all is said first, also to those who may only look: no other token would help them.
    """
    role = service_of(request).role(request)
    desk = desk_of(request, request.path_params["name"])
    if not desk.can_steer:
        _ = desk.helm  # raises with the reason
    return _operating(role)


async def only_known_query(request: Request) -> None:
    """Refuse a query that names what there is not: left out in silence, a slip would look like an answer."""
    known = {parameter.alias for parameter in request.scope["route"].dependant.query_params}
    for name in request.query_params:
        if name not in known:
            allowed = did_you_mean(name, known) if known else "this path takes no query; leave it out"
            raise ProblemError(422, f"{name[:100]}: is no part of this query", allowed)
        if len(request.query_params.getlist(name)) > 1:
            raise ProblemError(422, f"{name}: is given more than once", "give it once")


def desk_of(request: Request, name: str) -> PipelineDesk:
    """The pipeline that is meant."""
    desks = service_of(request).desks
    if name not in desks:
        here = did_you_mean(name, desks) if desks else "none is here yet: it appears when its query or run begins"
        raise ProblemError(404, f"there is no pipeline {name[:100]!r}", _where_else(request) or here)
    desk = desks[name]
    desk.refresh()
    return desk


def _where_else(request: Request) -> str:
    """Where the pipelines are, for those who ask a master that does not lead; empty: here, if anywhere."""
    master = service_of(request).master
    if master is None or master.leadership.is_leading:
        return ""
    if master.leadership.trouble is not None:
        return f"{master.leadership.why_not}; mend its store, or start it again"
    there = "" if master.other_page is None else f" at {master.other_page}"
    return f"this master does not lead; ask the one that does{there}"


def check_operator(desk: PipelineDesk, operator: str | None) -> None:
    """Refuse an operator that the pipeline does not have."""
    names = desk.facts.names
    if operator is not None and operator not in names:
        raise ProblemError(404, f"{desk.facts.name} has no operator {operator[:100]!r}", did_you_mean(operator, names))
