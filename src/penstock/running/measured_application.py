# SPDX-License-Identifier: Apache-2.0
"""An application that runs so that its throughput can be measured: started, held to its size, watched, ended."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock._wiring import why_no_cpu_shares
from penstock.clock import Clock
from penstock.errors import ClusterError, MetricSourceError
from penstock.measuring.plan import READ_ONLY, MeasurePlan, Turn
from penstock.measuring.sample import Sample
from penstock.measuring.steady_looks import SteadyLooks
from penstock.measuring.taking import Phase, SampleTaking
from penstock.records import Action, Allocation, Mode
from penstock.running.back_off import BackOff
from penstock.running.measured_source import MeasuredSource
from penstock.running.operator_job import JobOutput
from penstock.running.operator_launcher import OperatorLauncher
from penstock.running.running_operator import RunningOperator
from penstock.running.starting import make_job
from penstock.settings import OperatorSettings, RestartSettings

if TYPE_CHECKING:
    from penstock.adaptors.host_load import HostCpu
    from penstock.adaptors.process.children import Warden
    from penstock.measuring.disturbance import HostReading
    from penstock.records import Telemetry

NAME = "measured"
_CAP_FILE = "cap.txt"
_LOOK_SECONDS = 0.5
_SILENCE_SECONDS = 240.0
"""Without the end of a batch for this long, nothing more is waited for."""

Say = Callable[[str, float], None]
"""Takes the phase, and how much of the turn is done, from 0 to 1."""

_PART_DONE = {
    Phase.WARMING: 0.3, Phase.HOLDING: 0.4, Phase.CONVERGING: 0.45, Phase.SAMPLING: 0.7, Phase.DONE: 0.95,
    Phase.OTHER_CAP: 0.0,
}  # fmt: skip


class Site:
    """Where applications are measured: the cluster, this host, and what ends them.

    Parameters
    ----------
    master, environment, is_embedded
        Where Spark runs, and the environment of drivers there.
    warden
        Keeps the drivers: they end with Penstock.
    folder
        Of the measurement.
    """

    def __init__(
        self,
        master: str,
        environment: Mapping[str, str],
        warden: Warden,
        folder: Path,
        *,
        is_embedded: bool,
        clock: Clock,
        stop: threading.Event,
    ) -> None:
        from penstock.adaptors.host_load import HostCpu

        self.master, self.environment, self.is_embedded = master, environment, is_embedded
        self.warden, self.folder, self.clock, self.stop = warden, folder, clock, stop
        self.sockets = warden.temporary_folder()
        # On a cluster of others, their executors may stand on this host too: no process is taken for ours.
        self.host: HostCpu = HostCpu(os.getpid() if is_embedded else None)


def operator_data(plan: MeasurePlan, turn: Turn) -> dict[str, Any]:
    """The application as an operator of a settings file: as many executors as the turn has, no more and no less."""
    tasks = str(plan.parallelism(turn.executors))
    return {
        "name": NAME,
        "app": READ_ONLY if turn.is_source else plan.app,
        "options": {} if turn.is_source else dict(plan.options),
        "executors": (turn.executors, turn.executors),
        "cpu_shares": None if plan.cpu_share is None else (plan.cpu_share,),
        "executor_cores": plan.cores,
        "executor_memory": plan.executor_memory,
        "driver_memory": plan.driver_memory,
        "spark": {"spark.sql.shuffle.partitions": tasks, **plan.spark},
    }


class MeasuredApplication:
    """One application with one size and one cap. Use as a context manager: it is started, and ended in any case."""

    def __init__(self, site: Site, plan: MeasurePlan, turn: Turn, source: MeasuredSource, cap: int) -> None:
        from penstock.adaptors.agent.client import RemoteOperator

        self._site, self._plan, self._turn, self._source, self._cap = site, plan, turn, source, cap
        kind = "source" if turn.is_source else "application"
        self._own = site.folder / "work" / f"{kind}-{turn.executors}-executors-{turn.repeat}"
        shutil.rmtree(self._own, ignore_errors=True)  # of a measurement that died: each begins without a checkpoint
        self._own.mkdir(parents=True)
        settings = OperatorSettings.model_validate(operator_data(plan, turn))
        job = make_job(
            settings,
            source.reads(plan.parallelism(turn.executors), cap, self._own / _CAP_FILE),
            JobOutput(is_dropped=True),
            master=site.master,
            folder=self._own,
            socket_path=site.sockets / f"{NAME}.sock",
            mode=Mode.ACT,
            streams=source.spark,
            is_embedded=site.is_embedded,
        )
        logs = site.folder / "logs" / self._own.name
        logs.parent.mkdir(exist_ok=True)
        self._looks = SteadyLooks(site.clock)
        self._operator = RunningOperator(
            settings,
            {None: job},
            launcher=OperatorLauncher(NAME, self._own, logs, site.environment, site.warden),
            remote=RemoteOperator(job.socket_path),
            back_off=BackOff(RestartSettings()),
        )

    def __enter__(self) -> MeasuredApplication:
        return self

    def __exit__(self, *_: object) -> None:
        self._operator.end()
        self._operator.close()
        shutil.rmtree(self._own, ignore_errors=True)  # its output and checkpoint; the log stays

    def measure(self, taking: SampleTaking, say: Say, keep: Callable[[Sample], None]) -> Phase:
        """Run it until its samples are taken, or another cap is needed, or the user has stopped it.

        Raises
        ------
        ClusterError
            It failed, or its throughput cannot be measured; with the reason.
        """
        clock, stop = self._site.clock, self._site.stop
        say("starting the application", 0.05)
        self._operator.start(clock.monotonic())
        while not stop.is_set() and not self._operator.is_ready(clock.monotonic()):
            clock.wait(0.2, stop)
        self._check_share()
        heard_at, kept, is_asked = clock.monotonic(), 0, False
        while not stop.is_set() and taking.phase not in (Phase.DONE, Phase.OTHER_CAP):
            look = self._look()
            if look is not None:
                heard_at = self._heard(look, heard_at)
                taking.see(look, self._runnable() if taking.phase is Phase.SAMPLING else None)
                self._set_cap(taking.cap)
                for sample in taking.samples[kept:]:
                    keep(self._with_bytes(sample, taking.records_done))
                kept = len(taking.samples)
            if taking.phase is Phase.HOLDING and not is_asked:
                is_asked = True
                target = Allocation(self._turn.executors, self._plan.cpu_share or 1.0)
                self._operator.remote.request(Action(NAME, clock.now(), target, None))
            say(str(taking.phase), _PART_DONE[taking.phase])
            clock.wait(_LOOK_SECONDS, stop)
        return taking.phase

    def read_host(self) -> HostReading | None:
        """The host's counters; None where the kernel does not show them."""
        try:
            return self._site.host.read()
        except MetricSourceError:
            return None

    def _set_cap(self, cap: int) -> None:
        from penstock.adaptors.replay.max_rows_file import write_max_rows

        if cap != self._cap:
            self._cap = cap
            write_max_rows(self._own / _CAP_FILE, cap)

    def _runnable(self) -> int | None:
        try:
            return self._site.host.runnable()
        except MetricSourceError:
            return None

    def _check_share(self) -> None:
        is_wanted = self._plan.holds_cpu and not self._site.stop.is_set()
        if is_wanted and not self._operator.remote.can_set_cpu_share:
            raise ClusterError(f"--cpu-share: {why_no_cpu_shares(self._site.master)}; leave it out", target=NAME)

    def _look(self) -> Telemetry | None:
        try:
            return self._looks.steady(self._operator.remote.collect())
        except MetricSourceError:
            self._operator.is_ready(self._site.clock.monotonic())  # raises, with its log, if the process has ended
            return None

    def _heard(self, look: Telemetry, heard_at: float) -> float:
        if not look.is_running:
            why = "; ".join(look.faults) or "its query ended, and did not say why"
            raise ClusterError(f"the application ended: {why}", target=NAME, retryable=True)
        now = self._site.clock.monotonic()
        if any(batch.rows for batch in look.batches):
            return now
        if now - heard_at > _SILENCE_SECONDS:
            raise ClusterError(
                f"no batch with records ended for {_SILENCE_SECONDS:g} s, with at most {self._cap:,} records in one: "
                f"is the source empty, or the application stuck? Its log is in {self._site.folder / 'logs'}",
                target=NAME,
            )
        return heard_at

    def _with_bytes(self, sample: Sample, records: int) -> Sample:
        length = self._source.bytes_per_record(records)
        return sample if length is None else replace(sample, bytes_per_second=length * sample.throughput.mean)
