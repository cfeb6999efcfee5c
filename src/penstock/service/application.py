# SPDX-License-Identifier: Apache-2.0
"""The web application: routes over the desks of some pipelines, behind a gate."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fastapi import APIRouter, FastAPI
from starlette.middleware.gzip import GZipMiddleware

from penstock.service import agent_routes, backtest_routes, machine_routes, read_routes, steer_routes
from penstock.service.asking import Service
from penstock.service.gate import Gate, Rate
from penstock.service.openapi import describe
from penstock.service.problems import answer_with_problems
from penstock.service.server import LOOPBACK_NAMES

_SMALLEST_PACKED_BYTES = 4000


def make_application(
    service: Service,
    *,
    hosts: Collection[str] = LOOPBACK_NAMES,
    rate: Rate | None = None,
    routers: Sequence[APIRouter] = (),
) -> FastAPI:
    """The application.

    Parameters
    ----------
    service
        The pipelines, who may do what, and where events come from.
    hosts
        The names that the service has.
    rate
        How many requests it answers.
    routers
        What else it serves, such as a page.
    """
    app = FastAPI(title="Penstock", version="1", docs_url=None, redoc_url=None, openapi_url="/openapi.json")
    app.state.service = service
    answer_with_problems(app)
    describe(app)
    for router in (
        machine_routes.router,
        read_routes.router,
        steer_routes.router,
        agent_routes.router,
        backtest_routes.router,
        *routers,
    ):
        app.include_router(router)
    app.add_middleware(GZipMiddleware, minimum_size=_SMALLEST_PACKED_BYTES, compresslevel=5)
    app.add_middleware(Gate, hosts=hosts, is_known=lambda header: service.access.role_of(header) is not None, rate=rate)
    return app
