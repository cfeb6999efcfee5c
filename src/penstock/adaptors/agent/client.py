# SPDX-License-Identifier: Apache-2.0
"""The controller's side: MetricSource and Actuator of an operator in another process, over its agent's socket."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.adaptors.agent.private_socket import checked_socket_path
from penstock.adaptors.agent.wire import PROTOCOL, REPLY_LIMIT_BYTES, LineChannel
from penstock.errors import (
    ActuationError,
    ActuationRejectedError,
    AdaptorError,
    ConfigurationError,
    MetricSourceError,
)
from penstock.records import Action, BatchProgress, Telemetry, decode, encode, new_id


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
    socket_path
        Where the operator's agent listens.
    timeout_seconds
        How long the agent may take for one reply. An agent's first count of its executors can take ten seconds.
    """

    def __init__(self, socket_path: str | Path, *, timeout_seconds: float = 30.0) -> None:
        self._path = checked_socket_path(socket_path)
        self._timeout_seconds = timeout_seconds
        self._controller = new_id()
        self._lock = threading.Lock()
        self._channel: LineChannel | None = None
        self._can_set_cpu_share: bool | None = None
        self._operator: str | None = None
        self._ack = 0
        self._newest: BatchProgress | None = None

    @property
    def can_set_cpu_share(self) -> bool:
        """Whether the operator's CPU shares can be set. The first use asks the agent."""
        if self._can_set_cpu_share is None:
            self._act({"do": "beat"})
        return bool(self._can_set_cpu_share)

    @property
    def operator(self) -> str:
        """The operator's name. The first use asks the agent."""
        if self._operator is None:
            self._act({"do": "beat"})
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
                reply = self._exchange({"do": "collect", "ack": self._ack})
                telemetry = decode(Telemetry, str(reply["telemetry"]))
                self._ack = int(reply["number"])
            except _ConnectionLost as fault:
                raise MetricSourceError(str(fault), target=str(self._path), retryable=True) from fault
            except ActuationError as fault:
                raise MetricSourceError(
                    str(fault), target=fault.target, request_id=fault.request_id, retryable=fault.retryable
                ) from fault
            except (ConfigurationError, KeyError, ValueError) as fault:
                raise MetricSourceError(
                    f"the agent at {self._path} sent no usable telemetry: {fault}", target=str(self._path)
                ) from fault
            return self._without_copies(telemetry)

    def request(self, action: Action) -> None:
        """Request the allocation in `action`."""
        self._act({"do": "request", "action": encode(action)}, action.request_id)

    def release(self) -> None:
        """Put everything back as it was."""
        self._act({"do": "release"})

    def open_shares(self) -> None:
        """Lift the CPU cap and leave the executors as they are. The next request sets the cap again."""
        self._act({"do": "open"})

    def beat(self) -> None:
        """Renew the lease. Only needed when no other request is sent for longer than the lease."""
        self._act({"do": "beat"})

    def stop(self) -> None:
        """Ask the operator to end its query."""
        self._act({"do": "stop"})

    def stop_at_border(self, within_seconds: float) -> None:
        """Ask the operator to end its query after the running batch, or during it if that batch takes longer."""
        self._act({"do": "stop_at_border", "seconds": within_seconds})

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

    def _act(self, message: dict[str, Any], request_id: str | None = None) -> None:
        with self._lock:
            try:
                self._exchange(message)
            except _ConnectionLost as fault:
                raise ActuationError(
                    str(fault), target=str(self._path), request_id=request_id, retryable=True
                ) from fault
            except MetricSourceError as fault:
                raise ActuationError(str(fault), target=fault.target, request_id=request_id) from fault

    def _exchange(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._exchange_once(message)
        except _ConnectionLost as fault:
            if not fault.is_stale:
                raise
        return self._exchange_once(message)

    def _exchange_once(self, message: dict[str, Any]) -> dict[str, Any]:
        is_stale = self._channel is not None
        try:
            if self._channel is None:
                self._connect()
            return self._ask(message)
        except TimeoutError as fault:
            self._disconnect()
            raise _ConnectionLost(
                f"the agent at {self._path} did not reply within {self._timeout_seconds:g} s", is_stale=False
            ) from fault
        except OSError as fault:
            self._disconnect()
            raise _ConnectionLost(f"the agent at {self._path} cannot be reached: {fault}", is_stale=is_stale) from fault

    def _open_channel(self) -> LineChannel:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(self._timeout_seconds)
            connection.connect(str(self._path))
        except OSError:
            connection.close()
            raise
        return LineChannel(connection, REPLY_LIMIT_BYTES)

    def _connect(self) -> None:
        self._channel = self._open_channel()
        try:
            hello = self._ask({"do": "hello", "controller": self._controller, "protocol": PROTOCOL})
        except AdaptorError:
            self._disconnect()
            raise
        self._operator = str(hello.get("operator"))
        self._can_set_cpu_share = bool(hello.get("can_set_cpu_share"))

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self._channel is not None
        self._channel.send(message)
        try:
            reply = self._channel.receive()
        except ValueError as fault:
            raise OSError(f"an unreadable reply: {fault}") from fault
        if reply is None:
            raise ConnectionResetError("it closed the connection")
        if reply.get("ok") is True:
            return reply
        raise self._error_in(reply)

    def _error_in(self, reply: dict[str, Any]) -> AdaptorError:
        kinds: dict[Any, type[AdaptorError]] = {
            "metrics": MetricSourceError,
            "rejected": ActuationRejectedError,
            "malformed": ActuationRejectedError,
        }
        request_id = reply.get("request_id")
        return kinds.get(reply.get("kind"), ActuationError)(
            str(reply.get("error")),
            target=str(self._path),
            request_id=None if request_id is None else str(request_id),
            retryable=bool(reply.get("retryable")),
        )

    def _disconnect(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()
