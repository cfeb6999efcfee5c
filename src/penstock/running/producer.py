# SPDX-License-Identifier: Apache-2.0
"""The producer of a run: a process of its own that sends a trace or shape to a broker, open loop.

``python -m penstock.running.producer JOB.json RESULT.json`` runs it; the result says when it began, then how it went.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.adaptors.private_file import write_private
from penstock.adaptors.process.leftovers import end_marked
from penstock.errors import AdaptorError, ClusterError
from penstock.records import decode, encode
from penstock.running.operator_job import ExchangeEnd, TopicEnd

if TYPE_CHECKING:
    from penstock.adaptors.process.children import Child, Warden
    from penstock.adaptors.produce.sink import Sink

_MARK = "PENSTOCK_PRODUCER"
"""The environment variable that marks the producer of a run; its value is the run's folder."""
_START_SECONDS = 120.0
_BROKER_SECONDS = 60.0
"""How long it tries to reach the broker, which answered the controller a moment ago."""
_RETRY_SECONDS = 1.0
_LINGER_SECONDS = 0.01
"""A request for each record would cost the broker more CPU than an operator has on one machine."""


@dataclass(frozen=True, slots=True)
class ProducerJob:
    """What is sent, and where to."""

    replay: Mapping[str, str]
    to: TopicEnd | ExchangeEnd
    epoch: float | None = None
    """Time zero of a load that another producer began, in seconds since 1970."""
    parts: tuple[tuple[int, int], ...] | None = None
    """First and following number of the stretches of records that are to be sent; None: all."""


class ProducerProcess:
    """The controller's side of the producer.

    Parameters
    ----------
    job
        What it does.
    folder
        The run's; gets its job, result and log.
    warden
        Keeps the process.
    """

    def __init__(self, job: ProducerJob, folder: Path, warden: Warden) -> None:
        self._job, self._folder, self._warden = job, folder, warden
        self._result = folder / "producer-result.json"
        self._child: Child | None = None
        self._reported: str | None = None

    def start(self) -> None:
        """Start it."""
        path = self._folder / "producer.json"
        write_private(path, encode(self._job))
        self._result.unlink(missing_ok=True)
        argv = [sys.executable, "-m", "penstock.running.producer", str(path), str(self._result)]
        log = self._folder / "logs" / "producer.log"
        env = {**os.environ, _MARK: str(self._folder)}
        self._child = self._warden.start("producer", argv, log=log, env=env, cwd=Path.cwd())

    def await_epoch(self) -> float:
        """Time zero of what it sends, in seconds since 1970.

        Raises
        ------
        ClusterError
            It ended or did not begin; with the end of its log.
        """
        assert self._child is not None
        deadline = time.monotonic() + _START_SECONDS
        while (found := self._read_result()) is None:
            self._child.raise_if_ended()
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"the producer did not begin; {self._child.log} ends with\n{self._child.tail()}", target="producer"
                )
            time.sleep(0.05)
        return float(found["epoch"])

    def fault(self) -> str | None:
        """What the user should know of it, once."""
        if self._child is None or self._child.poll() is None or self._reported is not None:
            return None
        found = self._read_result() or {}
        if "records_due" not in found:
            self._reported = f"the producer ended: {self._child.tail(3)}"
        elif found["records_unconfirmed"]:
            self._reported = (
                f"{found['records_unconfirmed']:,} records were not confirmed: {'; '.join(found['faults'])}"
            )
        elif not found["is_on_time"]:
            late = 1e3 * found["p99_lateness_seconds"]
            self._reported = f"the producer was late (p99 {late:.1f} ms): it, not the load alone, shaped what arrived"
        return self._reported

    def stop(self) -> None:
        """End it where it still sends."""
        if self._child is not None and self._child.poll() is None:
            self._warden.stop(self._child)

    def _read_result(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self._result.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return found


def end_earlier_producer(folder: Path) -> None:
    """End the producer of a run's earlier controller: its warden ends it too, and may not have come to that yet.

    While it sends, nobody can know what is left to send.

    Raises
    ------
    ClusterError
        It does not end.
    """
    left = end_marked(str(folder), variable=_MARK)
    if left:
        raise ClusterError(
            f"the producer of an earlier controller does not end (processes {left}); end it, then resume again",
            target="producer",
        )


def run_producer(job: ProducerJob, result: Path) -> int:
    """Send everything; gives the process's exit code."""
    from penstock.adaptors.produce.pacing import produce
    from penstock.adaptors.replay.options import ReplayOptions, open_arrivals
    from penstock.adaptors.replay.payloads import open_payload

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    options = ReplayOptions.parse(job.replay)
    sink = _patient_sink(job.to, stop)
    try:
        made = produce(
            open_arrivals(options),
            open_payload(options),
            sink,
            speed=options.speed,
            parts=None if job.parts is None else [range(*part) for part in job.parts],
            epoch=job.epoch,
            confirm_seconds=120.0,
            stop=stop,
            on_start=lambda epoch: write_private(result, json.dumps({"epoch": epoch})),
        )
    finally:
        sink.close()
    late = made.lateness
    found = {
        "epoch": made.epoch,
        "records_due": made.due,
        "records_sent": made.sent,
        "records_unconfirmed": made.unconfirmed,
        "faults": list(made.delivery.faults),
        "p99_lateness_seconds": None if late is None else late.p99_seconds,
        "is_on_time": late is None or late.is_on_time,
    }
    write_private(result, json.dumps(found))
    return 1 if made.unconfirmed else 0


def _patient_sink(to: TopicEnd | ExchangeEnd, stop: threading.Event) -> Sink:
    deadline = time.monotonic() + _BROKER_SECONDS
    while True:
        try:
            return _open_sink(to)
        except AdaptorError as fault:
            if not fault.retryable or time.monotonic() >= deadline or stop.wait(_RETRY_SECONDS):
                raise


def _open_sink(to: TopicEnd | ExchangeEnd) -> Sink:
    producer = f"penstock-{os.getpid()}-{time.time_ns()}"  # another run's may have had the same process id
    if isinstance(to, TopicEnd):
        from penstock.adaptors.produce.kafka_sink import KafkaSink

        return KafkaSink(to.connection(), to.topic, producer, linger_seconds=_LINGER_SECONDS)
    from penstock.adaptors.rabbitmq.publisher import RabbitMQSink

    return RabbitMQSink(to.connection(), to.exchange, "", producer)


def main() -> int:
    """Run the job in the file named first on the command line."""
    return run_producer(decode(ProducerJob, Path(sys.argv[1]).read_bytes()), Path(sys.argv[2]))


if __name__ == "__main__":
    sys.exit(main())
