# SPDX-License-Identifier: Apache-2.0
"""The elastic policy: the cheapest allocation whose predicted throughput keeps up.

References
----------
Imai, Patterson and Varela, "Maximum Sustainable Throughput Prediction for Large-Scale Data Streaming Systems": the
least size whose predicted MST covers the input rate (Eq. 11). Added here: intervals instead of a rate of
over-provisioning, online samples, the backlog, the trend of the arrivals, and what changes cost.
"""

from __future__ import annotations

from functools import partial

from penstock.errors import ConfigurationError, NotReadyError
from penstock.performance.demand import BatchDemand, RecordDemand
from penstock.policies.elastic.capacity import Capacity
from penstock.policies.elastic.change_cost import ChangeCost, failed_rate, usual_dwell_seconds
from penstock.policies.elastic.choice import Aim, Choice, Chooser
from penstock.policies.elastic.load import Load, load_of
from penstock.policies.elastic.options import ElasticOptions
from penstock.policies.elastic.running_batch import RunningBatch
from penstock.ports import Look, OperatorSite, PolicyContext
from penstock.records import Allocation, Decision, PlanRequest, Quality, WorkloadEstimate

_USED_UP = 0.95
"""Utilisation from which all CPU is taken to be used."""

_SOON = 2.0
"""Catch-up times within which a size that was taken was not enough after all, if more was needed again."""

_BEYOND_PATIENCE = 0.25
"""Part of the catch-up time by which records are taken to wait too long where all CPU is used."""

Evidence = dict[str, float | int | str | None]


class ElasticPolicy:
    """Sizes every operator by its own throughput.

    Parameters
    ----------
    context
        The pipeline.
    options
        What it is set to.
    """

    name = "elastic"

    def __init__(self, context: PolicyContext, options: ElasticOptions) -> None:
        self.options = options
        self.every_seconds = options.every_seconds
        self._known = {name: _Known(name, site, options) for name, site in context.operators.items()}

    def watch(self, look: Look) -> tuple[str, ...]:
        """Learn from one look."""
        known = self._known.get(look.operator)
        if known is not None:
            known.watch(look)
        return ()

    def plan(self, request: PlanRequest) -> Decision:
        """The cheapest allocation that keeps up, or a hold with its cause."""
        known, seen = self._known.get(request.operator), request.observation
        missing = f" (missing: {'; '.join(seen.missing)})" if seen.missing else ""
        if seen.quality is not Quality.GOOD:
            return self._hold(request, f"the data are {seen.quality.value}{missing}")
        if known is None:
            return self._hold(request, "the operator was not introduced")
        try:
            load = load_of(
                request,
                calm_batch_seconds=known.calm_batch_seconds(request),
                backlog=known.backlog(request),
                remembered_seconds=self.options.catch_up_seconds,
                follow_trend=self.options.follow_trend,
            )
            chooser = Chooser(
                request.limits,
                request.current,
                load,
                known.aim(request),
                sustained=known.capacity.sustained,
                change_cost=known.changes.of if self.options.weigh_changes else _nothing,
                usual_dwell=partial(usual_dwell_seconds, request.recent, request.at)
                if self.options.weigh_changes
                else _not_known,
                failed_rate=partial(
                    failed_rate, request.recent, request.at, soon_seconds=_SOON * self.options.catch_up_seconds
                )
                if self.options.patience > 0.0
                else _not_known,
            )
        except NotReadyError as fault:
            return self._hold(request, str(fault))
        choice = chooser.choose()
        return self._decision(request, known, load, chooser.needed, choice)

    def close(self) -> None:
        """Nothing was started."""

    def _hold(self, request: PlanRequest, why: str) -> Decision:
        return Decision(
            request.operator, request.at, self.name, request.current, request.current, f"holding: {why}",
            {"quality": request.observation.quality.value},
        )  # fmt: skip

    def _decision(self, request: PlanRequest, known: _Known, load: Load, needed: float, choice: Choice) -> Decision:
        ahead = max(load.rate, needed - load.waiting / self.options.catch_up_seconds)
        return Decision(
            request.operator, request.at, self.name, request.current, choice.target, choice.reason,
            {**_work_evidence(load, needed), **known.evidence(choice.target)},
            rejected=choice.rejected,
            workload=WorkloadEstimate(
                request.at, ahead, growth=ahead / load.rate if load.rate > 0.0 else 1.0
            ),
        )  # fmt: skip


class _Known:
    """What is known about one operator."""

    def __init__(self, name: str, site: OperatorSite, options: ElasticOptions) -> None:
        if site.demand is not None and not isinstance(site.demand, (RecordDemand, BatchDemand)):
            raise ConfigurationError(
                f"demand of {name}: {site.demand!r} is neither a RecordDemand nor a BatchDemand", field="demand"
            )
        self._site, self._options = site, options
        self._batch_seconds = options.batch_of(site.trigger_seconds)
        self.capacity = Capacity(
            site,
            options.model,
            batch_seconds=self._batch_seconds,
            confidence=options.confidence,
            given=options.samples,
        )
        self.changes = ChangeCost()
        self._running = RunningBatch(site)
        self._rows_of_last_batch: int | None = None

    def watch(self, look: Look) -> None:
        self.capacity.watch(look)
        batches = look.telemetry.batches
        self.changes.watch(look.observation.at, look.observation.cluster, batches, self._expected_seconds)
        self._running.watch(look)
        if batches:
            self._rows_of_last_batch = batches[-1].rows

    def backlog(self, request: PlanRequest) -> float | None:
        """What is done before a record that arrives now, and with it in its batch; None: not known.

        Where a source does not say when records arrive, a batch without a cap shows it: it takes all that wait. A
        real-time query has no batches that do; while its CPU is not used up nothing waits, and when it is, more is
        taken to wait than patience allows. Its last checkpoint may be a minute old, and counts only without that.
        """
        seen, rate = request.observation, request.observation.arrival_rate_rows_per_second
        shows_cpu = self._site.is_real_time and rate is not None and seen.utilisation is not None
        if seen.backlog_records is not None and not (shows_cpu and seen.backlog_records > 0):
            return self._running.before_the_last(seen.backlog_records, request.at, self._expected_rate)
        if self._site.is_real_time and rate is not None and seen.utilisation is not None:
            beyond = (self._options.patience + _BEYOND_PATIENCE) * self._options.catch_up_seconds * rate
            return 0.0 if seen.utilisation < _USED_UP else beyond
        if self._site.cap is None and self._rows_of_last_batch is not None and seen.batch_seconds is not None:
            return self._rows_of_last_batch + (rate or 0.0) * seen.batch_seconds
        return None

    def _expected_seconds(self, rows: int, allocation: Allocation) -> float | None:
        """How long a batch should take: by what was learnt of batches, or by what the allocation sustains."""
        seconds = self.capacity.free.expected_seconds(rows, allocation)
        if seconds is not None:
            return seconds
        try:
            rate = self._expected_rate(allocation)
        except NotReadyError:
            return None
        return rows / rate if rate > 0.0 else None

    def _expected_rate(self, allocation: Allocation) -> float:
        return self.capacity.sustained(allocation).prediction.records_per_second

    def calm_batch_seconds(self, request: PlanRequest) -> float:
        """How long a batch takes, or is waited for, while the query keeps up: the shortest mean of late."""
        seen = [o.batch_seconds for o in (*request.history, request.observation) if o.batch_seconds is not None]
        return self._options.calm_batch_of(min(seen, default=0.0), self._site.trigger_seconds)

    def aim(self, request: PlanRequest) -> Aim:
        options = self._options
        return Aim(
            options.catch_up_seconds,
            options.patience,
            options.every_seconds + self.changes.settle_out_seconds,
            self._coming_for(request),
            self.changes.pause_in_seconds,
            self._is_unseen(request),
        )

    def _is_unseen(self, request: PlanRequest) -> bool:
        """Whether records are in work that do not show yet what the allocation does; an idle query shows nothing."""
        seen = request.observation
        waits = seen.arrival_rate_rows_per_second if seen.backlog_records is None else seen.backlog_records
        return not self._site.is_real_time and bool(waits) and not self.capacity.free.whole_batches

    def _coming_for(self, request: PlanRequest) -> float | None:
        """What was needed at the last change to more, until that is there and a batch has run with it."""
        last = next((d for d in reversed(request.recent) if d.is_change), None)
        if last is None or not last.is_growth or last.target != request.current:
            return None
        needed = last.evidence.get("needed_records_per_second")
        helps_after = self.changes.settle_out_seconds + (request.observation.batch_seconds or 0.0)
        is_young = 0.0 <= request.at - last.at < helps_after
        return needed if is_young and isinstance(needed, float) else None

    def evidence(self, target: Allocation) -> Evidence:
        sustained, demand = self.capacity.sustained(target), self.capacity.free.demand
        return {
            "sustained_records_per_second": sustained.prediction.records_per_second,
            "sustained_low": sustained.low,
            "sustained_high": sustained.prediction.high,
            "confidence": self._options.confidence,
            "known_by": sustained.basis,
            "samples": len(self.capacity.samples),
            "fixed_seconds": None if demand is None else demand.fixed_seconds,
            "per_record_seconds": None if demand is None else demand.per_record_seconds,
            "batch_seconds_allowed": self._batch_seconds,
            "settle_out_seconds": self.changes.settle_out_seconds,
            "settle_in_seconds": self.changes.settle_in_seconds,
            "pause_out_seconds": self.changes.pause_out_seconds,
            "pause_in_seconds": self.changes.pause_in_seconds,
            "changes_measured": self.changes.measured,
        }


def _work_evidence(load: Load, needed: float) -> Evidence:
    return {
        "arrival_rate_rows_per_second": load.rate,
        "arrival_rate_rises_by": load.slope,
        "backlog_records": load.backlog,
        "waiting_records": load.waiting,
        "needed_records_per_second": needed,
    }


def _not_known(rung: Allocation) -> None:  # noqa: ARG001
    return None


def _nothing(before: Allocation, after: Allocation) -> float:  # noqa: ARG001
    return 0.0
