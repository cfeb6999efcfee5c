# SPDX-License-Identifier: Apache-2.0
"""The operator's side: measures and acts for a controller in another process, and watches its lease.

If a controller that has acted falls silent, the agent opens the CPU shares and keeps the executors. The query goes on,
and the agent waits for a controller to come back. `wire` defines the messages.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol

import msgspec

from penstock.adaptors.agent.channel import AgentChannel, Channel
from penstock.adaptors.agent.followed_path import PathReport
from penstock.adaptors.agent.handshake import other_version
from penstock.adaptors.agent.meters import Meters, add_own_metrics
from penstock.adaptors.agent.outbox import Outbox
from penstock.adaptors.agent.private_socket import checked_socket_path, listen_privately, wake_listener
from penstock.adaptors.agent.reporter import Reporter
from penstock.adaptors.agent.telemetry_meters import TelemetryMeters
from penstock.adaptors.agent.wire import (
    PROTOCOL,
    REQUEST_LIMIT_BYTES,
    Beat,
    Collect,
    Done,
    Hello,
    Open,
    OversizedMessageError,
    Pulse,
    Refusal,
    Release,
    Reply,
    Request,
    Stop,
    StopAtBorder,
    Subscribe,
    ToAgent,
    Welcome,
)
from penstock.adaptors.allocation_check import check_allocation
from penstock.errors import ActuationRejectedError, AdaptorError, MetricSourceError
from penstock.ports import Actuator, ArrivalTimes, MetricSource

_log = logging.getLogger(__name__)

_LOOK_EVERY_SECONDS = 0.2
_LONGEST_WAIT_FOR_THREADS_SECONDS = 5.0


_LONGEST_ERROR = 4000


class _NoReply:
    """Stands for a message that wants no reply."""


NO_REPLY = _NoReply()


class LeasedActuator(Actuator, Protocol):
    """An actuator that can lift the CPU cap and keep the executors."""

    def open_shares(self) -> None:
        """Lift the CPU cap and leave the executors as they are. The next request sets the cap again."""
        ...


class DeposedError(ValueError):
    """A controller asks for something whose fencing number is older than one that was heard."""


class HeardFence:
    """The largest fencing number that was heard, by one agent or by all of a process whose operators go together."""

    def __init__(self) -> None:
        self.number = 0
        self._lock = threading.Lock()

    def hear(self, number: int) -> None:
        """Take a number that somebody came with."""
        with self._lock:
            self.number = max(self.number, number)


@dataclass(slots=True)
class _Seat:
    """The one controller being served, and its fencing number."""

    controller: str
    channel: Channel[ToAgent]
    fence: int


class OperatorAgent:
    """Serves one controller at a time: on a Unix domain socket that only this user can reach, and over connections
    that it has opened to masters itself (`serve`).

    A controller with a larger fencing number takes over at once, and from then on all with a smaller one are refused,
    by every agent that shares what it has heard.

    Parameters
    ----------
    operator
        The operator's name. Requests for another one are refused.
    source, actuator
        Measures and changes the operator.
    socket_path
        Where to listen. The folder is created with mode 0700; an existing folder must have that mode. None: nowhere.
    meters
        Metrics that can be subscribed to; the user's own come to them.
    arrivals
        When the operator's records arrived, for controllers that cannot find it out; None: they know, or do without.
    path
        The same since records first arrived at the pipeline.
    lease_seconds
        How long a controller that has acted may be silent before CPU shares are opened.
    on_stop
        Called when the controller asks the operator to end. It must return at once: set an event instead of waiting.
    on_stop_at_border
        The same, but after the running batch, which may take the given number of seconds. None: not supported.
    heard
        Fencing numbers that are heard together with other agents; default: this agent hears for itself.
    now
        What the clock of this host shows.
    """

    def __init__(
        self,
        operator: str,
        source: MetricSource,
        actuator: LeasedActuator,
        socket_path: str | Path | None = None,
        *,
        meters: Meters | None = None,
        arrivals: ArrivalTimes | None = None,
        path: PathReport | None = None,
        on_stop: Callable[[], None],
        on_stop_at_border: Callable[[float], None] | None = None,
        heard: HeardFence | None = None,
        lease_seconds: float = 5.0,
        batches_per_reply: int = 500,
        batches_kept: int = 10_000,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._now = now
        self._operator = operator
        self._source = source
        self._actuator = actuator
        self._path = None if socket_path is None else checked_socket_path(socket_path)
        watched = TelemetryMeters(source, arrivals)
        self._reporter = Reporter(meters or Meters())
        watched.offer(self._reporter.meters)
        add_own_metrics(self._reporter.meters)
        self._heard = heard or HeardFence()
        self._seated_fence = 0
        self._on_stop = on_stop
        self._on_stop_at_border = on_stop_at_border
        self._all_collected = threading.Event()
        self._is_last_collect = False
        self._replied_all = False
        self._lease_seconds = lease_seconds
        self._monotonic = monotonic
        self._outbox = Outbox(watched, batches_per_reply, batches_kept, arrivals=arrivals, path=path)
        self._lock = threading.Lock()
        self._work_lock = threading.Lock()
        self._seat: _Seat | None = None
        self._heard_at = monotonic()
        self._in_progress = 0
        self._is_leased = False
        self._is_closing = threading.Event()
        self._listening: socket.socket | None = None
        self._threads: list[threading.Thread] = []
        self._channels: set[Channel[ToAgent]] = set()

    def start(self) -> OperatorAgent:
        """Start listening in background threads."""
        if self._path is None:
            self._run("penstock-agent", self._watch_lease)
            return self
        listening = listen_privately(self._path)
        listening.settimeout(_LOOK_EVERY_SECONDS)
        self._listening = listening
        try:
            self._run("penstock-agent", lambda: self._accept(listening))
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Stop listening and leave the operator as it is. May be called twice."""
        self._is_closing.set()
        self._reporter.close()
        listening, self._listening = self._listening, None
        if listening is not None and self._path is not None:
            wake_listener(self._path, _LOOK_EVERY_SECONDS)
            self._path.unlink(missing_ok=True)
        with self._lock:
            channels = list(self._channels)
        for channel in channels:
            channel.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_LONGEST_WAIT_FOR_THREADS_SECONDS)
        # Close it last, when no thread waits on it: the kernel may reuse its number at once.
        if listening is not None:
            listening.close()

    def __enter__(self) -> OperatorAgent:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def meters(self) -> Meters:
        """What can be subscribed to."""
        return self._reporter.meters

    @property
    def fence(self) -> int:
        """The largest fencing number that a controller came with."""
        return self._heard.number

    def serve(self, channel: Channel[ToAgent]) -> None:
        """Serve a connection until it ends: one that came in, or one that was opened to a master."""
        with self._lock:
            self._channels.add(channel)
        self._serve(channel)

    def await_last_collect(self, timeout_seconds: float) -> bool:
        """Wait until a controller has collected everything measured so far. False: none did in time."""
        self._is_last_collect = True
        return self._all_collected.wait(timeout_seconds)

    def check_lease(self) -> None:
        """Open the CPU shares if a controller that has acted stays silent for too long."""
        # Holding the lock keeps a request that arrives meanwhile from being undone. If it is taken, one is in progress.
        if not self._work_lock.acquire(blocking=False):
            return
        try:
            silent_seconds = self._monotonic() - self._heard_at
            if not self._is_leased or self._in_progress or silent_seconds <= self._lease_seconds:
                return
            self._actuator.open_shares()
            self._is_leased = False
            note = f"the controller was silent for {silent_seconds:.1f} s: CPU shares were opened"
            _log.warning("%s: %s", self._operator, note)
            self._outbox.add_fault(note)
        except Exception as fault:  # the operator's process must go on; the next check tries again
            _log.error("CPU shares of %s could not be opened: %s", self._operator, fault)
        finally:
            self._work_lock.release()

    def _run(self, name: str, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        self._threads = [t for t in self._threads if t.is_alive()] + [thread]

    def _watch_lease(self) -> None:
        while not self._is_closing.wait(_LOOK_EVERY_SECONDS):
            self.check_lease()

    def _accept(self, listening: socket.socket) -> None:
        while not self._is_closing.is_set():
            self.check_lease()
            try:
                connection, _ = listening.accept()
            except TimeoutError:
                continue
            except OSError as fault:
                # For example, no file numbers are left. The lease must still be watched, and the next try may succeed.
                _log.error("%s could not accept a connection: %s", self._operator, fault)
                self._is_closing.wait(_LOOK_EVERY_SECONDS)
                continue
            if self._is_closing.is_set():
                connection.close()
                return
            connection.settimeout(None)
            channel = AgentChannel(connection, REQUEST_LIMIT_BYTES)
            try:
                self._run("penstock-agent-connection", lambda c=channel: self.serve(c))  # type: ignore[misc]
            except RuntimeError as fault:  # the machine allows no further thread: the lease must still be watched
                channel.close()
                _log.error("%s could not serve a connection: %s", self._operator, fault)
                self._is_closing.wait(_LOOK_EVERY_SECONDS)

    def _serve(self, channel: Channel[ToAgent]) -> None:
        try:
            while (reply := self._next_reply(channel)) is not None:
                if isinstance(reply, _NoReply):
                    continue
                channel.send(reply)
                if self._replied_all:
                    self._all_collected.set()
                if isinstance(reply, Refusal) and reply.kind == "oversized":
                    return
        except OSError as fault:
            # The controller has gone. The lease decides what follows.
            _log.info("%s: connection lost: %s", self._operator, fault)
        finally:
            self._reporter.away(channel)
            with self._lock:
                self._channels.discard(channel)
                if self._seat is not None and self._seat.channel is channel:
                    self._seat = None
            channel.close()

    def _next_reply(self, channel: Channel[ToAgent]) -> Reply | _NoReply | None:
        try:
            message = channel.receive()
        except ValueError as fault:
            return _refusal("oversized" if isinstance(fault, OversizedMessageError) else "malformed", fault)
        if message is None:
            return None
        try:
            return self._answer(message, channel)
        except (AdaptorError, ValueError) as fault:
            return _refusal(_kind_of(fault), fault)
        except Exception as fault:  # a defect of ours is reported to the controller and must not end the operator
            _log.exception("%s: a request failed", self._operator)
            return _refusal("actuation", fault)

    def _answer(self, message: ToAgent, channel: Channel[ToAgent]) -> Reply | _NoReply:
        if isinstance(message, Hello):
            return self._greet(message, channel)
        if isinstance(message, Pulse):
            return NO_REPLY
        if isinstance(message, Subscribe):
            self._reporter.subscribe(message, channel)
            return NO_REPLY
        with self._lock:
            self._check_seat(channel)
            self._in_progress += 1
        try:
            with self._work_lock:
                self._check_seat(channel)  # it may have been deposed while it waited
                reply = self._do(message)
            self._heard_at = self._monotonic()
        except AdaptorError:
            self._heard_at = self._monotonic()  # the operator failed, not the controller
            raise
        finally:
            with self._lock:
                self._in_progress -= 1
        return reply

    def _check_seat(self, channel: Channel[ToAgent]) -> None:
        if self._seat is None or self._seat.channel is not channel:
            raise ValueError("say hello first: this connection does not belong to the controller in charge")
        if self._seat.fence < self._heard.number:
            raise DeposedError(f"fencing number {self._seat.fence} is older than {self._heard.number}: another leads")

    def _do(self, message: ToAgent) -> Reply:
        match message:
            case Collect(ack):
                return self._collect(ack)
            case Request():
                self._request(message)
            case Release():
                self._actuator.release()
                self._is_leased = False
            case Open():
                self._actuator.open_shares()
                self._is_leased = False
            case Beat():
                pass
            case Stop():
                self._on_stop()
            case StopAtBorder(seconds):
                self._stop_after_batch(seconds)
            case _:
                raise ValueError(f"{type(message).__name__}: not a request to an operator's agent")
        return Done()

    def _greet(self, hello: Hello, channel: Channel[ToAgent]) -> Reply:
        if hello.protocol != PROTOCOL:
            raise ValueError(f"hello: {other_version(hello.protocol).error}")
        with self._work_lock if hello.fence > self._seated_fence else nullcontext(), self._lock:
            # With a larger number: what the deposed controller has asked for is done, and nothing of it comes after.
            if hello.fence < self._heard.number:
                raise DeposedError(f"fencing number {hello.fence} is older than {self._heard.number}: another leads")
            seat, now = self._seat, self._monotonic()
            # Once the lease has run out, a connection whose controller hangs counts as dead.
            is_alive = self._in_progress > 0 or now - self._heard_at <= self._lease_seconds
            is_deposed = seat is not None and hello.fence > seat.fence
            if seat is not None and seat.controller != hello.controller and is_alive and not is_deposed:
                return _refusal("occupied", ValueError("another controller is in charge of this operator"))
            self._seat, self._heard_at = _Seat(hello.controller, channel, hello.fence), now
            self._seated_fence = hello.fence
            self._heard.hear(hello.fence)
        if seat is not None and seat.channel is not channel:
            seat.channel.close()
        return Welcome(self._operator, self._actuator.can_set_cpu_share, self.meters.offers)

    def _collect(self, ack: int) -> Reply:
        is_last_collect = self._is_last_collect  # read before collecting: what comes then is all there is
        reply = msgspec.structs.replace(self._outbox.next_reply(ack), clock=self._now())
        self._replied_all = is_last_collect and self._outbox.is_empty
        return reply

    def _request(self, message: Request) -> None:
        action = message.action
        if action.operator != self._operator:
            raise ValueError(f"request: this is {self._operator!r}, not {action.operator!r}")
        check_allocation(action.target, action.request_id)
        self._is_leased = True
        self._actuator.request(action)

    def _stop_after_batch(self, seconds: float) -> None:
        if not 0 <= seconds < float("inf"):
            raise ValueError("stop_at_border: 'seconds' must say how long the running batch may take")
        if self._on_stop_at_border is None:
            raise ValueError("stop_at_border: this operator cannot be stopped at a batch border")
        self._on_stop_at_border(float(seconds))


def _kind_of(fault: Exception) -> str:
    if isinstance(fault, DeposedError):
        return "deposed"
    if isinstance(fault, MetricSourceError):
        return "metrics"
    if isinstance(fault, ActuationRejectedError):
        return "rejected"
    return "actuation" if isinstance(fault, AdaptorError) else "malformed"


def _refusal(kind: str, fault: Exception) -> Refusal:
    return Refusal(
        kind,
        (str(fault) or type(fault).__name__)[:_LONGEST_ERROR],
        bool(getattr(fault, "retryable", kind == "occupied")),
        getattr(fault, "request_id", None),
    )
