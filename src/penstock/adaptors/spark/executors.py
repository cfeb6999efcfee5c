# SPDX-License-Identifier: Apache-2.0
"""The executors of a running application as its driver sees them, and which of them should go first."""

from __future__ import annotations

import http.client
import json
import urllib.request
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from penstock.errors import MetricSourceError
from penstock.records import ExecutorState

_LARGEST_REPLY_BYTES = 16 << 20
_NOT_A_LIST = (
    OSError, http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip
"""What is raised where nobody answers, or with something else than a list of executors."""
T = TypeVar("T")


class ExecutorsByRest:
    """Reads executors from the REST interface of the driver's own web page.

    Parameters
    ----------
    ui_url
        `SparkContext.uiWebUrl`: the driver's address, not a cluster manager's proxy. None: the page is disabled.
    app_id
        `SparkContext.applicationId`.
    timeout_seconds
        How long one request may take.
    first_timeout_seconds
        The same until the first answer: the driver builds its REST service at the first request, which was seen to
        take more than two seconds on a busy machine.
    """

    def __init__(
        self,
        ui_url: str | None,
        app_id: str,
        *,
        timeout_seconds: float = 2.0,
        first_timeout_seconds: float = 10.0,
    ) -> None:
        self._url = None if ui_url is None else f"{ui_url.rstrip('/')}/api/v1/applications/{app_id}/executors"
        self._timeout_seconds = timeout_seconds
        self._next_timeout_seconds = first_timeout_seconds
        # Ask the driver directly: an http_proxy in the environment is not meant for it.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def __call__(self) -> tuple[ExecutorState, ...]:
        """Return the live executors. The driver counts only if it runs the tasks itself.

        Raises
        ------
        MetricSourceError
            The page is disabled, does not answer in time or answers something else.
        """
        return self._read(executor_states)

    def entries(self) -> list[dict[str, Any]]:
        """Return what the REST interface lists, as it is; raises MetricSourceError likewise."""
        return self._read(lambda entries: [dict(entry) for entry in entries])

    def _read(self, take: Callable[[Iterable[Mapping[str, Any]]], T]) -> T:
        if self._url is None:
            raise MetricSourceError(
                "executors cannot be listed: Spark's web page is off; set spark.ui.enabled=true",
                target="spark-ui",
            )
        try:
            with self._opener.open(self._url, timeout=self._next_timeout_seconds) as reply:
                entries = json.loads(reply.read(_LARGEST_REPLY_BYTES))
            found = take(entries)
        except _NOT_A_LIST as fault:
            raise MetricSourceError(
                f"executors cannot be listed: {self._url} failed with {type(fault).__name__}: {fault}",
                target="spark-ui",
                retryable=True,
            ) from fault
        self._next_timeout_seconds = self._timeout_seconds
        return found


def executor_states(entries: Iterable[Mapping[str, Any]]) -> tuple[ExecutorState, ...]:
    """Return the executors in the REST interface's list. The driver counts only if it runs the tasks itself."""
    return tuple(
        ExecutorState(
            executor_id=str(entry["id"]),
            host=str(entry["hostPort"]).rsplit(":", 1)[0],
            cores=int(entry["totalCores"]),
            is_active=bool(entry["isActive"]),
            active_tasks=int(entry["activeTasks"]),
            task_seconds=int(entry["totalDuration"]) / 1e3,
            added_at=_instant(entry.get("addTime")),
        )
        for entry in entries
        # Only the driver of a local master has cores: it runs the tasks itself.
        if entry["id"] != "driver" or int(entry["totalCores"]) > 0
    )


def choose_to_remove(executors: Iterable[ExecutorState], count: int, draining: Collection[str] = ()) -> tuple[str, ...]:
    """Return the ids of up to `count` executors to remove, the first to go first.

    Those with the fewest running tasks go first, which delays the running batch least. Among equals the youngest goes
    first, because an old one holds more state, cached blocks and compiled code. Executors already on their way out
    (`draining`, or marked so) are never chosen again. One whose start is not known counts as young.
    """
    if count <= 0:
        return ()
    leaving = frozenset(draining)
    candidates = [e for e in executors if e.is_active and not e.is_draining and e.executor_id not in leaving]
    candidates.sort(
        key=lambda e: (
            e.active_tasks,
            e.added_at is not None,
            -(e.added_at or 0.0),
            -_id_as_number(e.executor_id),
            e.executor_id,
        )
    )
    return tuple(e.executor_id for e in candidates[:count])


def _id_as_number(executor_id: str) -> int:
    return int(executor_id) if executor_id.isdecimal() else -1


def _instant(text: str | None) -> float | None:
    """Parse the REST interface's time format, which ends in GMT where ISO has Z."""
    if text is None:
        return None
    return datetime.fromisoformat(text.removesuffix("GMT")).replace(tzinfo=UTC).timestamp()
