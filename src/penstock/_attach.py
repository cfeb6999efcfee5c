# SPDX-License-Identifier: Apache-2.0
"""Three lines in somebody's own job: the loop inside the driver of a query that already runs."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from penstock._wiring import LoopSettings, QueryHold, fitting_limits, hold_query, make_cycle, policy_of
from penstock.clock import SystemClock
from penstock.errors import ConfigurationError
from penstock.knowledge.memory import MemoryStore
from penstock.knowledge.sqlite import SqliteStore
from penstock.loop import Cycle, CycleReport, Runner
from penstock.ports import ArrivalTimes, KnowledgeStore
from penstock.records import Decision, LatencySummary, Limits, Objective, Observation
from penstock.settings import GuardSettings, PolicySettings, mode_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_LOG = logging.getLogger(__name__)


def attach(
    query: StreamingQuery,
    *,
    objective: Objective | None = None,
    executors: tuple[int, int] = (1, 1),
    cpu_shares: tuple[float, ...] = (1.0,),
    mode: str = "recommend",
    policy: str = "threshold",
    policy_options: dict[str, Any] | None = None,
    guards: dict[str, Any] | None = None,
    name: str | None = None,
    arrivals: ArrivalTimes | None = None,
    interval_seconds: float = 1.0,
    window_seconds: float = 15.0,
    warm_up_seconds: float = 15.0,
    store: str | Path | None = None,
) -> Scaler:
    """Watch a running query, and (mode ``"act"``) keep it inside its objective with the least resources.

    The query is never stopped, and a fault of Penstock never reaches it. Use the result in a ``with`` statement,
    or call its `detach`: everything is then as it was.

    Parameters
    ----------
    query
        A streaming query started in this process by plain PySpark code, on any master.
    objective
        ``latency(p95="2s")`` or ``keep_up()``; default: keep up.
    executors
        Fewest and most executors. On a standalone cluster ``spark.cores.max`` bounds what the master gives.
    cpu_shares
        Allowed CPU shares per executor, rising; the default leaves the CPU alone. Needs the executors on this host
        and the rights for cgroups; without them executors alone are scaled.
    mode
        ``"recommend"`` (default) decides and tells; ``"act"`` carries it out.
    policy, policy_options, guards
        Which policy decides, with its options; the guards' settings. See docs/reference/settings.md.
    name
        The operator's name in decisions; default: the query's name.
    arrivals
        When the source's records arrived, where that is known; else latency is interpolated between batches.
    interval_seconds, window_seconds, warm_up_seconds
        How often to look; what rates and latencies are taken over; how long to watch before deciding.
    store
        File to keep observations and decisions in (SQLite); default: memory.

    Raises
    ------
    ConfigurationError
        An argument is wrong, or the query has no driver in this process; nothing was changed.
    """
    limits = Limits(executors[0], executors[1], tuple(cpu_shares))
    if interval_seconds <= 0 or window_seconds <= 0:
        raise ConfigurationError("interval_seconds, window_seconds: must be above 0", field="interval_seconds")
    settings = LoopSettings(
        limits=limits,
        objective=objective or Objective(),
        mode=mode_of(mode),
        policy=PolicySettings(name=policy, options=policy_options or {}),
        guards=_guards(guards),
        window_seconds=window_seconds,
        warm_up_seconds=warm_up_seconds,
    )
    policy_of(settings.policy)  # a wrong policy is told before the query is touched
    operator = name or query.name or "query"
    kept: KnowledgeStore = MemoryStore() if store is None else SqliteStore(Path(store))
    hold: QueryHold | None = None
    try:
        hold = hold_query(query, operator, limits, settings.mode)
        settings = replace(
            settings,
            limits=fitting_limits(limits, hold.actuator.can_set_cpu_share),
            cores_per_executor=hold.cores_per_executor,
        )
        cycle = make_cycle(
            operator, settings, source=hold.probe, actuator=hold.actuator, arrival_times=arrivals, store=kept
        )
    except BaseException:
        if hold is not None:
            hold.close()
        kept.close()
        raise
    return Scaler(cycle, hold, kept, interval_seconds)


class Scaler:
    """A query under watch. `decisions`, `observation` and `latency` say how it goes; `detach` ends it."""

    def __init__(self, cycle: Cycle, hold: QueryHold, store: KnowledgeStore, interval_seconds: float) -> None:
        self.notes = hold.notes
        self._cycle = cycle
        self._hold = hold
        self._store = store
        self._observation: Observation | None = None
        self._final_decisions: list[Decision] | None = None
        self._lock = threading.Lock()
        self._runner = Runner([cycle], SystemClock(), interval_seconds=interval_seconds, on_report=self._take)
        self._runner.start()

    @property
    def decisions(self) -> list[Decision]:
        """The decisions so far, holds included, oldest first; each explains itself by `explain()`."""
        return self._store.decisions() if self._final_decisions is None else self._final_decisions

    @property
    def observation(self) -> Observation | None:
        """The newest picture of the query; None before the first look."""
        return self._observation

    @property
    def latency(self) -> LatencySummary | None:
        """Record latency since attaching."""
        return self._cycle.monitor.latency_of_run()

    @property
    def faults(self) -> int:
        """How many passes failed; the query did not notice."""
        return self._runner.faults

    def detach(self) -> None:
        """Stop watching and put executors and CPU shares back; the query runs on. May be called twice."""
        with self._lock:
            if self._final_decisions is not None:
                return
            self._runner.stop()
            self._final_decisions = self._store.decisions()
            for close in (self._hold.close, self._store.close):
                try:
                    close()
                except Exception:  # one part that cannot let go must not keep the others from it
                    _LOG.exception("detaching failed in part")

    def __enter__(self) -> Scaler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.detach()

    def _take(self, report: CycleReport) -> None:
        self._observation = report.observation


def _guards(given: dict[str, Any] | None) -> GuardSettings:
    from pydantic import ValidationError

    try:
        return GuardSettings.model_validate(given or {})
    except ValidationError as fault:
        faults = [f"guards.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in fault.errors()]
        raise ConfigurationError.of_all("guards", faults) from fault
