# SPDX-License-Identifier: Apache-2.0
"""A run of numbered records whose controller, cluster and broker may be harmed one after the other, and repaired."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.live_run import LiveRun
from tests.e2e.nemeses import controller_with_set_clock
from tests.e2e.nemeses.checker import rows_written
from tests.e2e.nemeses.cut_network import CutNetwork
from tests.e2e.nemeses.targets import drivers_of

from penstock.adaptors.kafka.broker import KafkaBroker
from penstock.adaptors.process.children import Warden
from penstock.adaptors.spark.cluster import EmbeddedCluster

KEYS = 97
TRIGGER_SECONDS = 2.0
POLICY, OPERATORS = "mead", ("number", "keeper", "counter")
WAVE_SECONDS = 60.0
"""How long a calm or a rush lasts: twice as long as MEAD looks back."""
_NO_BROKER = ("Kafka: no broker answers", "cannot be reached (Failed to get metadata")
_SHORT_LIVED = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Executors are killed before the better compiler has paid for itself."""
PATIENCE_SECONDS = 600.0
"""How long records may stay away after a fault: a driver takes half a minute to start on a busy machine."""


@dataclass(frozen=True)
class Surroundings:
    """What the run finds: a cluster, a broker, and a network before the broker. None of them ends with a controller."""

    cluster: EmbeddedCluster
    broker: KafkaBroker
    network: CutNetwork


@contextlib.contextmanager
def surroundings(folder: Path) -> Iterator[Surroundings]:
    """Start cluster and broker in a folder; clients of the broker find it behind the network alone."""
    brokers: list[KafkaBroker] = []
    with (
        Warden() as warden,
        CutNetwork(lambda: int(brokers[0].bootstrap_servers.rpartition(":")[2])) as network,
        EmbeddedCluster(
            warden,
            folder / "cluster",
            cores_per_worker=6,
            memory_per_worker="6g",
            timeout_seconds=400.0,  # a busy machine is no fault of the code
        ) as cluster,
    ):
        advertised = {"advertised.listeners": f"CLIENT://127.0.0.1:{network.port}"}
        brokers.append(KafkaBroker(warden, folder / "kafka", settings=advertised, timeout_seconds=400.0))
        with brokers[0] as broker:
            yield Surroundings(cluster, broker, network)


@dataclass(frozen=True, slots=True)
class Sending:
    """What is sent to a run, and what it costs there.

    Attributes
    ----------
    steps
        Seconds, and records a second, one after the other.
    most_in_batch
        Records in a batch at most.
    milliseconds
        Of CPU that the first operator spends on a record.
    """

    steps: tuple[tuple[int, int], ...]
    most_in_batch: int
    milliseconds: float = 0.0

    @property
    def records(self) -> int:
        """How many they are."""
        return sum(seconds * rate for seconds, rate in self.steps)


def even(records: int, seconds: float) -> tuple[tuple[int, int], ...]:
    """As many records, or a few more, at one rate, in about so many seconds."""
    rate = max(1, int(records / seconds))
    return ((math.ceil(records / rate), rate),)


def waves(records: int, seconds: float) -> tuple[tuple[int, int], ...]:
    """As many records, or a few more, in about so many seconds: a calm and a rush by turns, at three times its rate."""
    turns = max(1, round(seconds / (2 * WAVE_SECONDS)))
    step = math.ceil(seconds / (2 * turns))
    calm = max(1, math.ceil(records / (4 * turns * step)))
    return ((step, calm), (step, 3 * calm)) * turns


def settings(around: Surroundings, sending: Sending) -> dict[str, Any]:
    """Number, keep and count the records, under MEAD.

    It begins with one executor of two and all of its CPU: more than a calm needs, and less than a rush on a busy
    machine.
    """

    def operator(name: str, app: str, **others: Any) -> dict[str, Any]:
        return {
            "name": name,
            "app": f"tests.e2e.nemeses.numbered_apps:{app}",
            "trigger": f"{TRIGGER_SECONDS:g}s",
            "input_options": {"maxOffsetsPerTrigger": str(sending.most_in_batch)},
            "executor_memory": "700m",
            "driver_memory": "700m",
            "cpu_shares": [0.5, 0.7, 1.0],
            "spark": {**around.cluster.authentication, "spark.executor.extraJavaOptions": _SHORT_LIVED},
            **others,
        }

    return {
        "name": "nemeses",
        "cluster": {"master": around.cluster.master_url},
        "broker": {"servers": f"127.0.0.1:{around.network.port}", "partitions": 2},
        "arrivals": {
            "shape": "steps:" + ",".join(f"{seconds}s@{rate}" for seconds, rate in sending.steps),
            "options": {"payload": "none"},
        },
        "operators": [
            operator(
                "number",
                "number",
                executors=[1, 2],
                first_executors=1,
                options={"milliseconds": f"{sending.milliseconds:g}"},
            ),
            operator("keeper", "keep_places", input="number", unique=["index"]),
            operator("counter", "count_keys", input="number", unique=["index"], options={"keys": str(KEYS)}),
        ],
        "objective": {"p95": "30s"},
        "policy": {
            "name": POLICY,
            "options": {"window": 3000, "every_seconds": "10s", "rescue_every": "2s", "look_back": "30s"},
        },
        "restarts": {"most": 1000, "within": "60s", "longest_wait": "10s", "start_within": "600s"},
        "window": "10s",
        "warm_up": "5s",
        "drain": "3600s",
    }


class NumberedRun:
    """The run and its present controller. Use as a context manager: whatever happens, nothing of it is left."""

    def __init__(self, folder: Path, around: Surroundings, sending: Sending) -> None:
        self.folder, self.around = folder, around
        self._clock = folder.with_suffix(".clock")
        self._spec = settings(around, sending)
        self._environment = {controller_with_set_clock.VARIABLE: str(self._clock)}
        self.live = self._start()
        self.controllers, self.failed_resumes = 1, 0

    def __enter__(self) -> NumberedRun:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.live.process.pid, signal.SIGCONT)
        self.live.__exit__()
        for process in drivers_of(self.folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)

    @property
    def kept(self) -> Path:
        """Where the numbers come out."""
        return self.folder / "operators" / "keeper" / "output"

    @property
    def counted(self) -> Path:
        """Where the counts come out."""
        return self.folder / "operators" / "counter" / "output"

    def rows(self) -> int:
        """How many records have come out, copies too."""
        return rows_written(self.kept)

    def epoch(self) -> float:
        """When number 0 was due."""
        found = json.loads((self.folder / "producer-result.json").read_text(encoding="utf-8"))
        return float(found["epoch"])

    def kill_controller(self) -> None:
        """End it with signal 9."""
        self.live.process.kill()
        self.live.process.wait()

    def resume(self) -> None:
        """Let another controller take the run over."""
        self.live.__exit__()
        self.live = self._start("--resume")
        self.controllers += 1

    def set_clock(self, seconds: float) -> None:
        """Set the controller's wall clock by so much from that of the machine."""
        self._clock.write_text(repr(seconds), encoding="ascii")

    def wait_for(self, what: str, is_true: Callable[[], bool], patience_seconds: float = PATIENCE_SECONDS) -> float:
        """Wait while the controller runs; gives the seconds."""
        began = time.monotonic()
        while not is_true():
            if self._has_failed_to_resume():
                self.failed_resumes += 1
                self.resume()
            assert self.live.process.poll() in (None, 0), f"{what}: the controller failed\n{self.live.output()}"
            assert time.monotonic() < began + patience_seconds, f"waited in vain for: {what}\n{self.live.output()}"
            time.sleep(0.2)
        return time.monotonic() - began

    def result(self) -> dict[str, Any]:
        """Wait for the end of the run, and give what it printed last."""
        self.wait_for("the end of the run", lambda: self.live.process.poll() == 0, 3600.0)
        return self.live.result()

    def _has_failed_to_resume(self) -> bool:
        """Whether a resume has ended before it began, because no broker answered: who wants it tries again."""
        if self.controllers == 1 or self.live.process.poll() in (None, 0):
            return False
        output = self.live.output()
        return "  running\n" not in output and any(words in output for words in _NO_BROKER)

    def wait_for_rows(self, records: int) -> None:
        """Wait until so many records have come out; they must go on coming."""
        while (rows := self.rows()) < records:
            self.wait_for(f"more than {rows:,} records", lambda rows=rows: self.rows() > rows)  # type: ignore[misc]

    def _start(self, *options: str) -> LiveRun:
        module = controller_with_set_clock.__name__
        return LiveRun(self.folder, self._spec, *options, environment=self._environment, module=module)
