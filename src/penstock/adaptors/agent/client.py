# SPDX-License-Identifier: Apache-2.0
"""The controller's side: MetricSource and Actuator of an operator in another process, over its agent's socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from penstock.adaptors.agent.channel import Channel, ControllerChannel
from penstock.adaptors.agent.followed_path import ReportedPath
from penstock.adaptors.agent.private_socket import checked_socket_path
from penstock.adaptors.agent.reported_arrivals import ReportedArrivals
from penstock.adaptors.agent.wire import (
    PROTOCOL,
    REPLY_LIMIT_BYTES,
    Advertise,
    Beat,
    Collect,
    Collected,
    Done,
    FromAgent,
    Hello,
    MalformedMessageError,
    Offer,
    Open,
    OversizedMessageError,
    Refusal,
    Release,
    Reports,
    Request,
    Stop,
    StopAtBorder,
    Subscribe,
    ToAgent,
    Welcome,
)
from penstock.errors import (
    ActuationError,
    ActuationRejectedError,
    AdaptorError,
    MetricSourceError,
)
from penstock.records import Action, BatchProgress, Telemetry, new_id

_R = TypeVar("_R", bound=FromAgent)
_PERIODS_KEPT = 3
"""After so many periods without a report a metric is not known any more."""


class _ConnectionLost(Exception):  # noqa: N818 (never leaves this module)
    """The connection broke. `is_stale`: it was an old one, so a new one may succeed."""

    def __init__(self, message: str, *, is_stale: bool) -> None:
        super().__init__(message)
        self.is_stale = is_stale


class RemoteOperator:
    """Measures and changes an operator through its agent. Connects when first used, and again after a loss.

    Every request can safely be repeated. Two requests with the same id count once, and a batch whose reply was lost
    comes again, once, with the next `collect`.

    Parameters
    ----------
    place
        Where the operator's agent listens; where it has connected to us, how it is called.
    connect
        Gives a connection to it, for one that has connected to us; raises OSError. Default: connects to `place`.
    fence
        The number of our lease as a leader; 0 where only one controller can be.
    arrivals
        Takes what the agent says about when records arrived; None: nobody here needs it.
    path
        Takes when records that are done had first arrived at the pipeline; None: nobody here needs it.
    timeout_seconds
        How long the agent may take for one reply. An agent's first count of its executors can take ten seconds.
    """

    def __init__(
        self,
        place: str | Path,
        *,
        connect: Callable[[], Channel[FromAgent]] | None = None,
        fence: int = 0,
        arrivals: ReportedArrivals | None = None,
        path: ReportedPath | None = None,
        timeout_seconds: float = 30.0,
    ) -> None:
        self._path = place if connect is not None else checked_socket_path(place)
        self._open_channel = connect or self._dial
        self._fence = fence
        self._arrivals, self._followed = arrivals, path
        self._timeout_seconds = timeout_seconds
        self._controller = new_id()
        self._lock = threading.Lock()
        self._channel: Channel[FromAgent] | None = None
        self._offers: list[Offer] = []
        self._wanted: Subscribe | None = None
        self._wanted_there: Subscribe | None = None
        """What the agent knows to be wanted."""
        self._metrics: dict[str, float | None] = {}
        self._metrics_at = float("-inf")
        self._can_set_cpu_share: bool | None = None
        self._operator: str | None = None
        self._ack = 0
        self._newest: BatchProgress | None = None

    @property
    def can_set_cpu_share(self) -> bool:
        """Whether the operator's CPU shares can be set. The first use asks the agent."""
        if self._can_set_cpu_share is None:
            self._act(Beat())
        return bool(self._can_set_cpu_share)

    @property
    def operator(self) -> str:
        """The operator's name. The first use asks the agent."""
        if self._operator is None:
            self._act(Beat())
        return str(self._operator)

    def collect(self) -> Telemetry:
        """Return what is new since the last call.

        Raises
        ------
        MetricSourceError
            Retryable when the agent cannot be reached: a later call returns what was measured meanwhile.
        """
        with self._lock:
            try:
                reply = self._exchange(Collect(self._ack), Collected)
                self._ack = reply.number
                self._take_arrivals(reply)
            except _ConnectionLost as fault:
                raise MetricSourceError(str(fault), target=str(self._path), retryable=True) from fault
            except ActuationError as fault:
                raise MetricSourceError(
                    str(fault), target=fault.target, request_id=fault.request_id, retryable=fault.retryable
                ) from fault
            return self._with_metrics(self._without_copies(reply.telemetry))

    def subscribe(self, metrics: Collection[str], every_seconds: float) -> None:
        """Have the agent report these metrics, which telemetry then brings along; those that it lacks are left out."""
        # It goes out with the next request: who subscribes does not wait for one that is under way.
        self._wanted = Subscribe(list(metrics), every_seconds)

    def request(self, action: Action) -> None:
        """Request the allocation in `action`."""
        self._act(Request(action), action.request_id)

    def release(self) -> None:
        """Put everything back as it was."""
        self._act(Release())

    def open_shares(self) -> None:
        """Lift the CPU cap and leave the executors as they are. The next request sets the cap again."""
        self._act(Open())

    def beat(self) -> None:
        """Renew the lease. Only needed when no other request is sent for longer than the lease."""
        self._act(Beat())

    def stop(self) -> None:
        """Ask the operator to end its query."""
        self._act(Stop())

    def stop_at_border(self, within_seconds: float) -> None:
        """Ask the operator to end its query after the running batch, or during it if that batch takes longer."""
        self._act(StopAtBorder(within_seconds))

    def close(self) -> None:
        """Close the connection. The agent opens shares that were set when the lease runs out. May be called twice."""
        with self._lock:
            self._disconnect()

    def _without_copies(self, telemetry: Telemetry) -> Telemetry:
        """Leave out batches that came before. The agent sends again what another controller took and did not confirm,
        and this one may have been in charge before that one."""
        new = []
        for batch in telemetry.batches:
            newest = self._newest
            if newest is None or batch.run_id != newest.run_id or batch.batch_id > newest.batch_id:
                self._newest = batch
                new.append(batch)
        return telemetry if len(new) == len(telemetry.batches) else replace(telemetry, batches=tuple(new))

    def _with_metrics(self, telemetry: Telemetry) -> Telemetry:
        """Add the newest values of what was subscribed to, unless they are too old."""
        wanted = self._wanted
        if wanted is None or not self._metrics:
            return telemetry
        # Both by the agent's clock. A report "of the future" is older than a clock that was set back since.
        is_fresh = abs(telemetry.at - self._metrics_at) <= _PERIODS_KEPT * wanted.every_seconds + 1.0
        return replace(telemetry, metrics=dict(self._metrics)) if is_fresh else telemetry

    def _take_arrivals(self, reply: Collected) -> None:
        try:
            if self._arrivals is not None:
                self._arrivals.take(reply)
            if self._followed is not None:
                self._followed.take(reply)
        except MalformedMessageError as fault:
            raise MetricSourceError(f"the agent's arrival times: {fault}", target=str(self._path)) from fault

    def _take_reports(self, reports: Reports) -> None:
        for report in reports.reports:
            self._metrics_at = report.at
            for place, value in report.values.items():
                if 0 <= place < len(self._offers):
                    self._metrics[self._offers[place].name] = value

    def _act(self, message: ToAgent, request_id: str | None = None) -> None:
        with self._lock:
            try:
                self._exchange(message, Done)
            except _ConnectionLost as fault:
                raise ActuationError(
                    str(fault), target=str(self._path), request_id=request_id, retryable=True
                ) from fault
            except MetricSourceError as fault:
                raise ActuationError(str(fault), target=fault.target, request_id=request_id) from fault

    def _exchange(self, message: ToAgent, kind: type[_R]) -> _R:
        try:
            return self._exchange_once(message, kind)
        except _ConnectionLost as fault:
            if not fault.is_stale:
                raise
        return self._exchange_once(message, kind)

    def _exchange_once(self, message: ToAgent, kind: type[_R]) -> _R:
        is_stale = self._channel is not None
        try:
            if self._channel is None:
                self._connect()
            if self._wanted is not self._wanted_there and self._channel is not None:
                wanted = self._wanted
                if wanted is not None and (wanted.metrics or self._wanted_there is not None):
                    self._channel.send(wanted)
                    self._metrics = {name: self._metrics.get(name) for name in wanted.metrics if name in self._metrics}
                self._wanted_there = wanted
            return self._ask(message, kind)
        except TimeoutError as fault:
            self._disconnect()
            raise _ConnectionLost(
                f"the agent at {self._path} did not reply within {self._timeout_seconds:g} s", is_stale=False
            ) from fault
        except OSError as fault:
            self._disconnect()
            raise _ConnectionLost(f"the agent at {self._path} cannot be reached: {fault}", is_stale=is_stale) from fault

    def _dial(self) -> Channel[FromAgent]:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(self._timeout_seconds)
            connection.connect(str(self._path))
        except OSError:
            connection.close()
            raise
        return ControllerChannel(connection, REPLY_LIMIT_BYTES)

    def _connect(self) -> None:
        self._channel = self._open_channel()
        try:
            welcome = self._ask(Hello(self._controller, PROTOCOL, self._fence), Welcome)
        except AdaptorError:
            self._disconnect()
            raise
        self._operator, self._can_set_cpu_share = welcome.operator, welcome.can_set_cpu_share
        self._offers = welcome.metrics
        self._wanted_there = None

    def _ask(self, message: ToAgent, kind: type[_R]) -> _R:
        assert self._channel is not None
        self._channel.send(message)
        while True:
            try:
                reply = self._channel.receive()
            except (MalformedMessageError, OversizedMessageError) as fault:
                raise OSError(f"an unreadable reply: {fault}") from fault
            match reply:
                case None:
                    raise ConnectionResetError("it closed the connection")
                case Reports():
                    self._take_reports(reply)
                case Advertise(offers):
                    self._offers = offers
                case Refusal():
                    raise self._error_in(reply)
                case _ if isinstance(reply, kind):
                    return reply
                case _:
                    raise OSError(f"{type(reply).__name__} came in place of {kind.__name__}")

    def _error_in(self, refusal: Refusal) -> AdaptorError:
        kinds: dict[str, type[AdaptorError]] = {
            "metrics": MetricSourceError,
            "rejected": ActuationRejectedError,
            "malformed": ActuationRejectedError,
            "deposed": ActuationRejectedError,
        }
        return kinds.get(refusal.kind, ActuationError)(
            refusal.error, target=str(self._path), request_id=refusal.request_id, retryable=refusal.retryable
        )

    def _disconnect(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()
