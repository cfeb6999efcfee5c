# SPDX-License-Identifier: Apache-2.0
"""What an operator's records ask of one executor at full share, and what that becomes under other allocations.

Two kinds, after the two modes of the engine:

* `RecordDemand`: records are served one by one. An executor is a server that works on one record at a time;
  `n` executors are `n` such servers, and they take records in turn.
* `BatchDemand`: records wait for the running batch to end and ride together; a batch of `k` records takes
  ``f + c k``.

Assumptions, each of which a measurement can refute:

* Work is CPU work: with a share ``s`` of its cores an executor takes ``1 / s`` times as long. Waiting for disks or
  networks would not stretch; put such time into the fixed part of a `BatchDemand`.
* The part ``c k`` of a batch is spread evenly over the executors (at least one task for each core, no task much
  longer than the others), so it divides by ``n s`` (Amdahl, "Validity of the single processor approach", 1967).
* The fixed part ``f`` is done once per batch whatever the executors are: planning, commits, the start of tasks.
  Only its part `fixed_cpu_seconds` runs under the executors' CPU share and divides by ``s``. The driver keeps its
  cores.
* The shape (SCV) of a time does not change with the allocation.

Upwards a standard error is added; downwards a time is divided by what it would have been multiplied with upwards, so
that however large the errors no time becomes negative. For small ones that is the usual plus and minus.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from penstock.errors import ConfigurationError
from penstock.markov import PH
from penstock.performance.queueing.micro_batch.server import MicroBatch
from penstock.records import Allocation


@dataclass(frozen=True, slots=True)
class RecordDemand:
    """Records served one by one.

    Parameters
    ----------
    service
        Time of one record on one executor at full share, in seconds.
    spread
        Standard error of the mean of `service`, relative to it.

    Examples
    --------
    >>> demand = RecordDemand(PH.erlang(2, mean=0.01))
    >>> round(demand.at(Allocation(3, 0.5)).mean, 9)
    0.02
    """

    service: PH
    spread: float = 0.0

    def __post_init__(self) -> None:
        _require("spread", self.spread, least=0.0)

    def at(self, allocation: Allocation) -> PH:
        """Give the time of one record on one of the executors of an allocation."""
        return self.service.time_scaled(1.0 / check_allocation(allocation).cpu_share)

    def moved(self, errors: float) -> RecordDemand:
        """Give the demand with its mean `errors` standard errors higher (negative: lower)."""
        return replace(self, service=self.service.time_scaled(_factor(errors * self.spread)))


@dataclass(frozen=True, slots=True)
class BatchDemand:
    """Records that ride in micro-batches; a batch of `k` takes `fixed_seconds` + `per_record_seconds` * `k`.

    Parameters
    ----------
    fixed_seconds, per_record_seconds
        f and c, on one executor at full share.
    fixed_cpu_seconds
        The part of f that runs under the executors' CPU share.
    fixed_scv, per_record_scv
        Squared coefficients of variation of the fixed time and of one record's time.
    fixed_error_seconds, per_record_error_seconds, error_correlation
        Standard errors of f and c, and the correlation between the two (a regression gives it, mostly negative).
    cap
        Most records in a batch (Spark: maxOffsetsPerTrigger and its like); None: no cap.
    trigger_seconds
        Trigger interval; None: the next batch starts when the last has ended.

    Examples
    --------
    >>> server = BatchDemand(fixed_seconds=0.5, per_record_seconds=0.002, fixed_cpu_seconds=0.2).at(Allocation(4, 0.5))
    >>> round(server.fixed, 9), round(server.per_record, 9)
    (0.7, 0.001)
    """

    fixed_seconds: float
    per_record_seconds: float
    fixed_scv: float = 0.0
    per_record_scv: float = 0.0
    fixed_cpu_seconds: float = 0.0
    fixed_error_seconds: float = 0.0
    per_record_error_seconds: float = 0.0
    error_correlation: float = 0.0
    cap: int | None = None
    trigger_seconds: float | None = None

    def __post_init__(self) -> None:
        _require("fixed_seconds", self.fixed_seconds, above=0.0)
        _require("per_record_seconds", self.per_record_seconds, above=0.0)
        for name in ("fixed_scv", "per_record_scv", "fixed_error_seconds", "per_record_error_seconds"):
            _require(name, getattr(self, name), least=0.0)
        _require("fixed_cpu_seconds", self.fixed_cpu_seconds, least=0.0, most=self.fixed_seconds)
        _require("error_correlation", self.error_correlation, least=-1.0, most=1.0)
        if self.cap is not None and (self.cap != int(self.cap) or self.cap < 1):
            raise ConfigurationError(f"cap: {self.cap!r} must be a whole number of at least 1, or None", field="cap")
        if self.trigger_seconds is not None:
            _require("trigger_seconds", self.trigger_seconds, above=0.0)

    def at(self, allocation: Allocation) -> MicroBatch:
        """Give the server that an allocation makes."""
        fixed_factor, record_factor = self._factors(allocation)
        return MicroBatch(
            fixed=self.fixed_seconds * fixed_factor,
            per_record=self.per_record_seconds * record_factor,
            cap=self.cap,
            trigger=self.trigger_seconds,
            fixed_scv=self.fixed_scv,
            per_record_scv=self.per_record_scv,
        )

    @property
    def has_errors(self) -> bool:
        """Whether any standard error is known."""
        return self.fixed_error_seconds > 0.0 or self.per_record_error_seconds > 0.0

    def moved(self, errors: float, rate: float, allocation: Allocation) -> BatchDemand:
        """Give the demand, out of those `errors` standard errors away, with the longest batches (negative: shortest).

        Longest at `rate` records per second under `allocation`, where the settled batch time f / (1 - rate c) has
        the gradient (1, n) / (1 - rate c) in (f, c), n = rate f / (1 - rate c) being the settled batch. On the
        ellipse of covariance S the farthest point along g is S g / sqrt(g' S g). Saturated, c alone counts.
        """
        fixed_factor, record_factor = self._factors(allocation)
        left = 1.0 - rate * self.per_record_seconds * record_factor
        along_f, along_c = 0.0, 1.0
        if left > 0.0:
            along_f, along_c = fixed_factor, record_factor * rate * self.fixed_seconds * fixed_factor / left
        sigma_f, sigma_c = self.fixed_error_seconds, self.per_record_error_seconds
        cross = self.error_correlation * sigma_f * sigma_c
        move_f = sigma_f * sigma_f * along_f + cross * along_c
        move_c = cross * along_f + sigma_c * sigma_c * along_c
        length = math.sqrt(max(along_f * move_f + along_c * move_c, 0.0))
        if length == 0.0:
            return self
        fixed = _factor(errors * move_f / length / self.fixed_seconds)
        per_record = _factor(errors * move_c / length / self.per_record_seconds)
        return replace(
            self,
            fixed_seconds=self.fixed_seconds * fixed,
            fixed_cpu_seconds=self.fixed_cpu_seconds * fixed,
            per_record_seconds=self.per_record_seconds * per_record,
        )

    def _factors(self, allocation: Allocation) -> tuple[float, float]:
        """What an allocation makes of f and of c."""
        check_allocation(allocation)
        on_cpu = self.fixed_cpu_seconds / self.fixed_seconds
        return 1.0 - on_cpu + on_cpu / allocation.cpu_share, 1.0 / (allocation.executors * allocation.cpu_share)


Demand = RecordDemand | BatchDemand


def check_allocation(allocation: Allocation) -> Allocation:
    """Give the allocation back if it is one that can do any work."""
    if allocation.executors != int(allocation.executors) or allocation.executors < 1:
        raise ConfigurationError(
            f"executors: {allocation.executors!r} is not a number of executors; give a whole number of at least 1",
            field="executors",
        )
    if not 0.0 < allocation.cpu_share <= 1.0:
        raise ConfigurationError(
            f"cpu_share: {allocation.cpu_share!r} is outside (0, 1]; a share is a fraction of the executor's cores",
            field="cpu_share",
        )
    return allocation


def _factor(move: float) -> float:
    """One plus a relative move; for a negative one the inverse of its opposite."""
    return 1.0 + move if move >= 0.0 else 1.0 / (1.0 - move)


def _require(
    name: str, value: float, *, least: float = -math.inf, above: float = -math.inf, most: float = math.inf
) -> None:
    if not math.isfinite(value) or value < least or value <= above or value > most:
        bounds = [
            f"above {above:g}" if above > -math.inf else f"at least {least:g}",
            *([f"at most {most:g}"] if most < math.inf else []),
        ]
        raise ConfigurationError(f"{name}: {value!r} must be {' and '.join(bounds)}", field=name)
