# SPDX-License-Identifier: Apache-2.0
"""The operator's side of a controller in another process: it measures and acts as asked, and watches the lease.

If a controller that has acted falls silent, CPU shares are opened, the executors stay, the query goes on, and the
agent waits for a controller to come back. `wire` holds what is said.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from penstock.adaptors.spark.actuator import check_allocation
from penstock.adaptors.spark.wire import (
    PROTOCOL,
    REQUEST_LIMIT_BYTES,
    LineChannel,
    OversizedMessageError,
    checked_socket_path,
)
from penstock.errors import (
    ActuationRejectedError,
    AdaptorError,
    ConfigurationError,
    MetricSourceError,
)
from penstock.ports import Actuator, MetricSource
from penstock.records import Action, BatchProgress, decode, encode

_log = logging.getLogger(__name__)

_LOOK_EVERY_SECONDS = 0.2
_LONGEST_WAIT_FOR_THREADS_SECONDS = 5.0


class LeasedActuator(Actuator, Protocol):
    """An actuator that can let go of the CPU shares alone."""

    def open_shares(self) -> None:
        """Lift the CPU cap and leave the executors as they are; the next request sets it again."""
        ...


@dataclass(slots=True)
class _Seat:
    """The one controller being served."""

    controller: str
    channel: LineChannel


class OperatorAgent:
    """Serves one controller at a time on a Unix domain socket that only this user can reach.

    Parameters
    ----------
    operator
        The operator's name; requests for another one are refused.
    source, actuator
        What measures and changes the operator.
    socket_path
        Where to listen. Its folder is made with mode 0700, or must have it.
    lease_seconds
        How long a controller that has acted may be silent before CPU shares are opened.
    on_stop
        Called when the controller asks the operator to end. It must return at once: set an event, do not wait.
    on_stop_at_border
        The same, after the running batch, which may take so many seconds; None: that is not offered.
    """

    def __init__(
        self,
        operator: str,
        source: MetricSource,
        actuator: LeasedActuator,
        socket_path: str | Path,
        *,
        on_stop: Callable[[], None],
        on_stop_at_border: Callable[[float], None] | None = None,
        lease_seconds: float = 5.0,
        batches_per_reply: int = 500,
        batches_kept: int = 10_000,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._operator = operator
        self._source = source
        self._actuator = actuator
        self._path = checked_socket_path(socket_path)
        self._on_stop = on_stop
        self._on_stop_at_border = on_stop_at_border
        self._told_all = threading.Event()
        self._is_last_word = False
        self._gave_all = False
        self._lease_seconds = lease_seconds
        self._monotonic = monotonic
        self._outbox = _Outbox(source, batches_per_reply, batches_kept)
        self._lock = threading.Lock()
        self._work_lock = threading.Lock()
        self._seat: _Seat | None = None
        self._heard_at = monotonic()
        self._in_hand = 0
        self._is_leased = False
        self._is_closing = threading.Event()
        self._listening: socket.socket | None = None
        self._threads: list[threading.Thread] = []
        self._channels: set[LineChannel] = set()

    def start(self) -> OperatorAgent:
        """Listen, in threads of its own."""
        listening = _bind(self._path)
        listening.settimeout(_LOOK_EVERY_SECONDS)
        self._listening = listening
        self._run("penstock-agent", lambda: self._accept(listening))
        return self

    def close(self) -> None:
        """Stop listening; the operator is left as it is. May be called twice."""
        self._is_closing.set()
        listening, self._listening = self._listening, None
        if listening is None:
            return
        _knock(self._path)
        self._path.unlink(missing_ok=True)
        with self._lock:
            channels = list(self._channels)
        for channel in channels:
            channel.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_LONGEST_WAIT_FOR_THREADS_SECONDS)
        # Last, when nobody waits on it any more: its number could be given to another file at once.
        listening.close()

    def __enter__(self) -> OperatorAgent:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def await_last_collect(self, timeout_seconds: float) -> bool:
        """Wait until a controller has been given everything measured so far; false: none came for it in time."""
        self._is_last_word = True
        return self._told_all.wait(timeout_seconds)

    def check_lease(self) -> None:
        """Open the CPU shares if a controller that has acted has been silent for too long."""
        # Held while shares are opened, so that no request is undone that arrives meanwhile. Taken: one is in hand.
        if not self._work_lock.acquire(blocking=False):
            return
        try:
            silent_seconds = self._monotonic() - self._heard_at
            if not self._is_leased or self._in_hand or silent_seconds <= self._lease_seconds:
                return
            self._actuator.open_shares()
            self._is_leased = False
            note = f"no word from the controller for {silent_seconds:.1f} s: CPU shares were opened"
            _log.warning("%s: %s", self._operator, note)
            self._outbox.add_fault(note)
        except Exception as fault:  # the operator's process must go on; the next look tries again
            _log.error("CPU shares of %s could not be opened: %s", self._operator, fault)
        finally:
            self._work_lock.release()

    def _run(self, name: str, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        self._threads = [t for t in self._threads if t.is_alive()] + [thread]
        thread.start()

    def _accept(self, listening: socket.socket) -> None:
        while not self._is_closing.is_set():
            self.check_lease()
            try:
                connection, _ = listening.accept()
            except TimeoutError:
                continue
            except OSError as fault:
                # Out of file numbers, say: the lease must still be watched, and the next try may succeed.
                _log.error("%s could not accept a connection: %s", self._operator, fault)
                self._is_closing.wait(_LOOK_EVERY_SECONDS)
                continue
            if self._is_closing.is_set():
                connection.close()
                return
            connection.settimeout(None)
            channel = LineChannel(connection, REQUEST_LIMIT_BYTES)
            with self._lock:
                self._channels.add(channel)
            self._run("penstock-agent-connection", lambda c=channel: self._serve(c))  # type: ignore[misc]

    def _serve(self, channel: LineChannel) -> None:
        try:
            while (reply := self._next_reply(channel)) is not None:
                channel.send(reply)
                if self._gave_all:
                    self._told_all.set()
                if reply.get("kind") == "oversized":
                    return
        except OSError as fault:
            # The controller has gone; the lease decides what follows from that.
            _log.info("%s: connection lost: %s", self._operator, fault)
        finally:
            with self._lock:
                self._channels.discard(channel)
                if self._seat is not None and self._seat.channel is channel:
                    self._seat = None
            channel.close()

    def _next_reply(self, channel: LineChannel) -> dict[str, Any] | None:
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
        except Exception as fault:  # a fault of ours is told to the controller and must not end the operator
            _log.exception("%s: a request failed", self._operator)
            return _refusal("actuation", fault)

    def _answer(self, message: dict[str, Any], channel: LineChannel) -> dict[str, Any]:
        verb = message.get("do")
        if verb == "hello":
            return self._greet(message, channel)
        verbs: dict[str, Callable[[], dict[str, Any]]] = {
            "collect": lambda: self._collect(message),
            "request": lambda: self._request(message),
            "release": self._release,
            "beat": dict,
            "stop": self._stop,
            "stop_at_border": lambda: self._stop_after_batch(message),
        }
        if not isinstance(verb, str) or verb not in verbs:
            raise ValueError(f"unknown verb {verb!r}; known: hello, {', '.join(verbs)}")
        with self._lock:
            if self._seat is None or self._seat.channel is not channel:
                raise ValueError("say hello first: this connection is not that of the controller in charge")
            self._in_hand += 1
        try:
            with self._work_lock:
                reply = verbs[verb]()
            self._heard_at = self._monotonic()
        except AdaptorError:
            self._heard_at = self._monotonic()  # the operator failed, not the controller
            raise
        finally:
            with self._lock:
                self._in_hand -= 1
        return {"ok": True, **reply}

    def _greet(self, message: dict[str, Any], channel: LineChannel) -> dict[str, Any]:
        controller = message.get("controller")
        if not isinstance(controller, str) or not controller:
            raise ValueError("hello: 'controller' must name the controller")
        if message.get("protocol") != PROTOCOL:
            raise ValueError(
                f"hello: protocol {message.get('protocol')!r} is not {PROTOCOL}: use one version of Penstock"
            )
        with self._lock:
            seat, now = self._seat, self._monotonic()
            # A connection whose controller hangs is as good as dead once the lease has run out.
            is_alive = self._in_hand > 0 or now - self._heard_at <= self._lease_seconds
            if seat is not None and seat.controller != controller and is_alive:
                return _refusal("occupied", ValueError("another controller is in charge of this operator"))
            self._seat, self._heard_at = _Seat(controller, channel), now
        if seat is not None and seat.channel is not channel:
            seat.channel.close()
        return {
            "ok": True,
            "operator": self._operator,
            "can_set_cpu_share": self._actuator.can_set_cpu_share,
        }

    def _collect(self, message: dict[str, Any]) -> dict[str, Any]:
        ack = message.get("ack")
        if isinstance(ack, bool) or not isinstance(ack, int):
            raise ValueError("collect: 'ack' must be the number of the last reply received, 0 before the first")
        is_last_word = self._is_last_word  # as of before the look: what it brings is then all there is
        reply = self._outbox.next_reply(ack)
        self._gave_all = is_last_word and self._outbox.is_empty
        return reply

    def _request(self, message: dict[str, Any]) -> dict[str, Any]:
        text = message.get("action")
        if not isinstance(text, str):
            raise ValueError("request: 'action' must be an encoded Action")
        action = decode(Action, text)
        if action.operator != self._operator:
            raise ValueError(f"request: this is {self._operator!r}, not {action.operator!r}")
        check_allocation(action.target, action.request_id)
        self._is_leased = True
        self._actuator.request(action)
        return {}

    def _release(self) -> dict[str, Any]:
        self._actuator.release()
        self._is_leased = False
        return {}

    def _stop(self) -> dict[str, Any]:
        self._on_stop()
        return {}

    def _stop_after_batch(self, message: dict[str, Any]) -> dict[str, Any]:
        seconds = message.get("seconds")
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < float("inf"):
            raise ValueError("stop_at_border: 'seconds' must be how long the running batch may take")
        if self._on_stop_at_border is None:
            raise ValueError("stop_at_border: this operator cannot be stopped at a batch border")
        self._on_stop_at_border(float(seconds))
        return {}


class _Outbox:
    """Keeps what was measured until the controller says it has it: a lost reply loses no batch."""

    def __init__(self, source: MetricSource, batches_per_reply: int, batches_kept: int) -> None:
        self._source = source
        self._per_reply = batches_per_reply
        self._kept = batches_kept
        self._number = 0
        self._sent: list[BatchProgress] = []
        self._sent_faults: list[str] = []
        self._unsent: deque[BatchProgress] = deque()
        self._unsent_faults: list[str] = []

    @property
    def is_empty(self) -> bool:
        return not self._unsent

    def add_fault(self, fault: str) -> None:
        self._unsent_faults.append(fault)

    def next_reply(self, ack: int) -> dict[str, Any]:
        if ack != self._number:
            self._unsent.extendleft(reversed(self._sent))
            self._unsent_faults[:0] = self._sent_faults
        self._sent, self._sent_faults = [], []
        telemetry = self._source.collect()
        self._unsent.extend(telemetry.batches)
        lost = len(self._unsent) - self._kept
        if lost > 0:
            for _ in range(lost):
                self._unsent.popleft()
            self.add_fault(f"{lost} batches were lost: no controller collected them in time")
        self._sent = [self._unsent.popleft() for _ in range(min(self._per_reply, len(self._unsent)))]
        self._sent_faults, self._unsent_faults = self._unsent_faults, []
        self._number += 1
        told = replace(telemetry, batches=tuple(self._sent), faults=(*self._sent_faults, *telemetry.faults))
        return {"number": self._number, "telemetry": encode(told)}


def _kind_of(fault: Exception) -> str:
    if isinstance(fault, MetricSourceError):
        return "metrics"
    if isinstance(fault, ActuationRejectedError):
        return "rejected"
    return "actuation" if isinstance(fault, AdaptorError) else "malformed"


def _refusal(kind: str, fault: Exception) -> dict[str, Any]:
    return {
        "ok": False,
        "kind": kind,
        "error": str(fault) or type(fault).__name__,
        "retryable": bool(getattr(fault, "retryable", kind == "occupied")),
        "request_id": getattr(fault, "request_id", None),
    }


def _bind(path: Path) -> socket.socket:
    """Listen on `path`, in a folder nobody else can enter; what a dead agent left there is replaced."""
    folder = path.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise ConfigurationError(
            f"socket_path: others can enter {folder}; run: chmod 700 {folder}", field="socket_path"
        )
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale(path)
        listening.bind(str(path))
        path.chmod(0o600)
        listening.listen(4)
    except BaseException:
        listening.close()
        raise
    return listening


def _knock(path: Path) -> None:
    """Wake a thread that waits in `accept`; without it, it wakes by itself a little later."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as visitor, contextlib.suppress(OSError):
        visitor.settimeout(_LOOK_EVERY_SECONDS)
        visitor.connect(str(path))


def _remove_stale(path: Path) -> None:
    if not path.exists():
        return
    if not path.is_socket():
        raise ConfigurationError(f"socket_path: {path} exists and is not a socket", field="socket_path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
    raise ConfigurationError(
        f"socket_path: another agent listens on {path}; choose another run folder or end that run",
        field="socket_path",
    )
