# SPDX-License-Identifier: Apache-2.0
"""A query that a master scales: its agent in this process, connected to whichever master leads."""

from __future__ import annotations

import atexit
import json
import logging
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any

from penstock._wiring import LoopSettings, QueryHold
from penstock.adaptors.agent.arrival_report import Reported
from penstock.adaptors.agent.link import MasterLink
from penstock.adaptors.agent.master_address import MasterAddress
from penstock.adaptors.agent.server import OperatorAgent
from penstock.errors import ActuationRejectedError, PenstockError
from penstock.settings.objectives import objective_settings

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.adaptors.query_arrivals import FoundArrivals
    from penstock.adaptors.spark.query_facts import QueryFacts

_LOG = logging.getLogger(__name__)


class MasterScaler:
    """A query that a master watches and scales. Its page and API show how it goes; `detach` ends it.

    Whatever happens to the master, the query goes on. CPU shares are opened when the master is silent for five seconds;
    executors stay as they are.
    """

    def __init__(
        self,
        hold: QueryHold,
        address: MasterAddress,
        settings: dict[str, Any],
        notes: tuple[str, ...],
        arrivals: FoundArrivals,
    ) -> None:
        self.name = operator = str(settings["name"])
        """How the master calls it."""
        self.notes = notes if arrivals.note is None else (*notes, arrivals.note)
        """What you should know, a line each."""
        self._hold, self._arrivals = hold, arrivals
        self._lock = threading.Lock()
        self._is_attached = True
        self._agent = OperatorAgent(
            operator,
            hold.probe,
            hold.actuator,
            meters=hold.meters,
            arrivals=arrivals.times,
            on_stop=_never_stop,
        )
        self._agent.start()
        known = {**settings, "arrivals": Reported.by(arrivals.times)}
        self._link = MasterLink(self._agent, address, operator, settings=json.dumps(known)).start()
        atexit.register(self._take_leave)

    @property
    def connected_to(self) -> str | None:
        """The master that scales it now; None: none does, and `fault` says why."""
        return self._link.connected_to

    @property
    def fault(self) -> str | None:
        """Why no master scales it; None: one does, or none was tried yet."""
        return self._link.fault

    def detach(self) -> None:
        """Take leave of the master and put executors and CPU shares back; the query runs on. May be called twice."""
        with self._lock:
            if not self._is_attached:
                return
            self._is_attached = False
        atexit.unregister(self._take_leave)
        self._link.close("detached")
        self._agent.close()
        try:
            self._hold.actuator.release()
        except PenstockError:
            _LOG.exception("%s: its size could not be put back", self.name)
        self._arrivals.close()
        self._hold.close()

    def _take_leave(self) -> None:
        """Let the master know that the query ends with its application: else it would count as lost."""
        if self._link.connected_to is not None:  # nobody is waited for
            self._link.close("its application has ended")

    def __enter__(self) -> MasterScaler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.detach()


def settings_for_master(
    query: StreamingQuery,
    operator: str,
    settings: LoopSettings,
    facts: QueryFacts,
    *,
    policy: dict[str, Any],
    interval_seconds: float,
    prices: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The query as a master is introduced to it."""
    limits, guards = settings.limits, settings.guards
    return {
        "name": operator,
        "mode": str(settings.mode),
        "objective": objective_settings(settings.objective),
        "operators": [
            {
                "name": operator,
                "executors": [limits.min_executors, limits.max_executors],
                "cpu_shares": list(limits.cpu_shares),
                **({} if facts.trigger_seconds is None else {"trigger": facts.trigger_seconds}),
            }
        ],
        "policy": policy,
        "guards": None if guards is None else guards.model_dump(mode="json"),
        **({} if prices is None else {"prices": prices}),
        "interval": interval_seconds,
        "window": settings.window_seconds,
        "warm_up": settings.warm_up_seconds,
        "cores_per_executor": settings.cores_per_executor,
        "cap": facts.cap,
        "query_run": str(query.runId),
        "plan": facts.plan,
    }


def _never_stop() -> None:
    raise ActuationRejectedError("an attached query is not ended by its master")
