# SPDX-License-Identifier: Apache-2.0
"""Changes the allocation of the application in this process: executors through Spark, CPU shares through the kernel.

A background thread does the work, so that a slow driver never holds up the loop. It repeats the last request every few
seconds, which corrects drift (an executor that died, one that would not drain).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from penstock.adaptors.allocation_check import check_allocation
from penstock.adaptors.spark.scaling import ExecutorScaler
from penstock.errors import ActuationError, ActuationRejectedError, ActuationTimeoutError, PenstockError
from penstock.records import Action, Refused

_log = logging.getLogger(__name__)

_IDS_KEPT = 1000
_LONGEST_START_SECONDS = 60.0


class SparkActuator:
    """An Actuator for the application of this process.

    Parameters
    ----------
    scaler
        Sets the number of executors. Its cluster is asked for CPU shares, too; where it cannot set them, only
        executors are scaled.
    reconcile_every_seconds
        How often the last request is repeated.
    warm_seconds
        While executors start, and this long after, the CPU cap is at its widest. See `_is_starting`.
    """

    def __init__(
        self,
        scaler: ExecutorScaler,
        *,
        reconcile_every_seconds: float = 2.0,
        warm_seconds: float = 8.0,
        release_within_seconds: float = 20.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scaler = scaler
        self._cluster = scaler.cluster
        self._every_seconds = reconcile_every_seconds
        self._warm_seconds = warm_seconds
        self._monotonic = monotonic
        self._release_within_seconds = release_within_seconds
        self._wake = threading.Condition()
        self._worker: threading.Thread | None = None
        self._is_stopping = False
        self._action: Action | None = None
        self._is_new = False
        self._known_ids: deque[str] = deque(maxlen=_IDS_KEPT)
        self._shares_lock = threading.Lock()
        self._are_shares_open = False
        self._is_share_due = False
        self._starting_until: float | None = None
        self._executors_before: int | None = None
        self._put_back_error: Exception | None = None
        self._last_error: ActuationError | None = None
        self._is_error_reported = True

    @property
    def can_set_cpu_share(self) -> bool:
        """Whether CPU shares can be set here."""
        return self._cluster.why_no_shares is None

    @property
    def last_error(self) -> ActuationError | None:
        """Why the last request, or its latest repetition, failed. None: it did not."""
        return self._last_error

    def request(self, action: Action) -> None:
        """Request an allocation and return at once. A later request replaces it.

        Raises
        ------
        ActuationRejectedError
            The allocation is impossible here; nothing changes. `take_faults` reports what fails later.
        """
        check_allocation(action.target, action.request_id)
        self._scaler.ensure_scalable(on_nodes=bool(action.target.nodes))
        with self._wake:
            if self._is_wanted(action):
                self._known_ids.append(action.request_id)
                self._action, self._is_new, self._are_shares_open = action, True, False
            self._is_stopping = False
            self._ensure_worker()
            self._wake.notify_all()

    def take_faults(self) -> tuple[str, ...]:
        """Return the failures and notes that were not reported yet, for `Telemetry.faults`."""
        with self._wake:
            error = None if self._is_error_reported else self._last_error
            self._is_error_reported = True
        notes = self._scaler.take_notes()
        return notes if error is None else (f"scaling failed: {error}", *notes)

    def refused(self) -> Refused | None:
        """Return the last request with the reason, where it will not come about; None: it has, or still may."""
        with self._wake:
            action, error, is_waiting = self._action, self._last_error, self._is_new
        if action is None or is_waiting:
            return None
        if isinstance(error, ActuationRejectedError) and not error.retryable and error.request_id == action.request_id:
            return Refused(action.request_id, str(error))
        reason = None if self._is_share_due else self._cluster.share_refusal()
        return None if reason is None else Refused(action.request_id, reason)

    def open_shares(self) -> None:
        """Lift the CPU cap and leave the executors as they are. The next request sets it again."""
        with self._wake:
            self._are_shares_open = True
        if self.can_set_cpu_share:
            with self._shares_lock:
                self._cluster.resize(None)

    def release(self) -> None:
        """Put executors and CPU shares back as they were before the first request.

        Raises
        ------
        ActuationError
            Something could not be put back. The rest was.
        """
        with self._wake:
            self._is_stopping = True
            self._action, self._is_new = None, False
            if self._executors_before is not None or self._worker is not None:
                self._ensure_worker()
            worker = self._worker
            self._wake.notify_all()
        errors: list[Exception] = []
        if worker is not None:
            # The driver may hang. The user's program must not hang with it.
            worker.join(self._release_within_seconds)
            if worker.is_alive():
                errors.append(self._too_late())
            elif self._put_back_error is not None:
                errors.append(self._put_back_error)
        with self._shares_lock:
            errors += _attempt(self._cluster.release)
        if errors:
            raise _as_actuation_error(errors, None)

    def _too_late(self) -> ActuationTimeoutError:
        return ActuationTimeoutError(
            f"the driver did not answer within {self._release_within_seconds:g} s; executors are put back when it does",
            target="spark",
            retryable=True,
        )

    def _ensure_worker(self) -> None:
        if self._worker is None or not self._worker.is_alive():
            self._worker = threading.Thread(target=self._work, name="penstock-actuator", daemon=True)
            self._worker.start()

    def _is_wanted(self, action: Action) -> bool:
        """Whether a request is new. After shares were opened, the last one may be repeated."""
        if action.request_id not in self._known_ids:
            return True
        is_last = self._action is not None and self._action.request_id == action.request_id
        return is_last and self._are_shares_open

    def _work(self) -> None:
        while True:
            with self._wake:
                if not self._is_new and not self._is_stopping:
                    self._wake.wait(self._every_seconds)
                action, is_new, is_stopping = self._action, self._is_new, self._is_stopping
                self._is_new = False
            if is_stopping:
                self._put_back()
                with self._wake:
                    if self._is_stopping:
                        self._worker = None
                        return
            elif action is not None:
                self._carry_out(action, is_new)

    def _put_back(self) -> None:
        before = self._executors_before
        self._put_back_error = None
        if before is None:
            return
        # Nobody will be there to take back a total that was raised for the draining ones.
        for error in _attempt(lambda: self._scaler.reconcile(before, beside_draining=False)):
            self._put_back_error = error
            return
        self._executors_before = None

    def _carry_out(self, action: Action, is_new: bool) -> None:
        # The share caps the whole group, whatever the number of executors. So the order does not matter: the capacity
        # on the way is never below the smaller of the old and the new one.
        errors = [*_attempt(lambda: self._set_share(action, is_new)), *_attempt(lambda: self._scale(action))]
        error = _as_actuation_error(errors, action.request_id) if errors else None
        with self._wake:
            if error is None:
                self._is_error_reported = True
            elif is_new or str(error) != str(self._last_error):
                # Reported once, not at every repetition of the same failure.
                self._is_error_reported = False
                _log.error("%s", error)
            self._last_error = error

    def _set_share(self, action: Action, is_new: bool) -> None:
        if not self.can_set_cpu_share:
            return
        self._is_share_due |= is_new
        is_starting = self._is_starting(action, is_new)
        with self._shares_lock:
            if self._is_share_due and not self._are_shares_open and not self._is_stopping:
                self._cluster.resize(action.target, is_starting=is_starting)
                self._is_share_due = is_starting

    def _is_starting(self, action: Action, is_new: bool) -> bool:
        """Whether executors are starting: a JVM that starts and compiles would use up the share of the others.

        True until some seconds after the last one has started, but for a bounded time.
        """
        now = self._monotonic()
        is_missing = self._scaler.active_count() < action.target.executors
        if is_new and is_missing:
            self._starting_until = now + _LONGEST_START_SECONDS
        elif not is_missing and self._starting_until is not None:
            self._starting_until = min(self._starting_until, now + self._warm_seconds)
        return self._starting_until is not None and now < self._starting_until

    def _scale(self, action: Action) -> None:
        if self._executors_before is None:
            self._executors_before = max(1, self._scaler.current_total())
        if action.target.nodes:
            self._scaler.place(dict(action.target.nodes))
        else:
            self._scaler.reconcile(action.target.executors)


def _attempt(call: Callable[[], None]) -> list[Exception]:
    """Return the error of a call as a list, so that the rest of the work continues."""
    try:
        call()
    except Exception as fault:  # kept and reported to the controller: a defect of ours must never end the thread
        return [fault]
    return []


def _as_actuation_error(errors: list[Exception], request_id: str | None) -> ActuationError:
    """Combine several errors into one. A single ActuationError keeps its kind."""
    kind = type(errors[0]) if len(errors) == 1 and isinstance(errors[0], ActuationError) else ActuationError
    error = kind(
        "; ".join(str(e) if isinstance(e, PenstockError) else f"{type(e).__name__}: {e}" for e in errors),
        target="spark",
        request_id=request_id,
        retryable=all(getattr(e, "retryable", True) for e in errors),
    )
    error.__cause__ = errors[0]
    return error
