# SPDX-License-Identifier: Apache-2.0
"""Runs a pipeline and scales it: cluster, streams, operators and the loop, started in order and ended in order."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from penstock._wiring import LoopSettings, fitting_limits, make_cycle, policies_of, why_no_cpu_shares
from penstock.clock import SystemClock
from penstock.errors import ClusterError, ConfigurationError
from penstock.knowledge.sqlite import SqliteStore
from penstock.loop import Cycle, CycleReport, Runner
from penstock.loop.account import RunSummary
from penstock.loop.known_operator import Place
from penstock.ports import Policy
from penstock.records import Limits, Mode, Quality
from penstock.running.back_off import BackOff
from penstock.running.checks import check_run, executor_bytes, executor_cores
from penstock.running.member import Member, OperatorProcess, State
from penstock.running.operator import OperatorJob
from penstock.running.resize import Resizer, job_of_size, size_fact
from penstock.running.results import summarise
from penstock.running.spark_configuration import spark_configuration
from penstock.running.streams import FolderStreams, Streams
from penstock.settings import OperatorSettings, RunSettings
from penstock.topology import ARRIVALS

if TYPE_CHECKING:
    from penstock.adaptors.process.children import Warden
    from penstock.adaptors.spark.cluster import EmbeddedCluster

_HEAL_EVERY_SECONDS = 3.0


class RunListener(Protocol):
    """Who wants to see a run go by."""

    def phase(self, text: str, fraction: float | None = None) -> None:
        """What is being done now, and how far it is."""
        ...

    def report(self, report: CycleReport) -> None:
        """One operator's pass."""
        ...

    def fault(self, operator: str, text: str) -> None:
        """A pass that failed, or something the user should know."""
        ...


def run_pipeline(
    settings: RunSettings, folder: Path, *, listener: RunListener, stop: threading.Event, resume: bool = False
) -> RunSummary:
    """Run the pipeline until its arrivals are done (or `stop` is set), then end everything that was started.

    `folder` then holds knowledge.sqlite with every observation and decision, the logs, and each operator's output.
    With `resume` operators that outlived their controller in that folder are taken over instead of started.
    """
    check_run(settings)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise ConfigurationError(f"folder: {folder} cannot be made: {fault.strerror}", field="folder") from fault
    with _Run(settings, folder.absolute(), listener, stop, resume=resume) as run:
        return run.run()


class _Run:
    def __init__(
        self, settings: RunSettings, folder: Path, listener: RunListener, stop: threading.Event, *, resume: bool
    ) -> None:
        from penstock.adaptors.process.children import Warden
        from penstock.adaptors.process.leftovers import remove_leftovers

        self._settings = settings
        self._folder = folder
        self._listener = listener
        self._stop = stop
        self._resume = resume
        self._clock = SystemClock()
        left = remove_leftovers()
        if left.processes or left.folders:
            found = f"{len(left.processes)} processes and {len(left.folders)} folders"
            listener.fault("run", f"removed what a dead run left behind: {found}")
        self._store = SqliteStore(folder / "knowledge.sqlite")
        if resume:
            self._check_resumable()
        self._store.set_fact("settings", settings.model_dump_json())
        self._warden: Warden = Warden()
        self._folder_of = {o.name: folder / "operators" / o.name for o in settings.operators}
        self._streams = self._make_streams()
        self._cluster: EmbeddedCluster | None = None
        self._members: dict[str, Member] = {}
        self._cycles: dict[str, Cycle] = {}
        self._resizers: dict[str, Resizer] = {}
        self._passes_held = 0
        self._runner: Runner | None = None
        self._failure: ClusterError | None = None
        self._next_heal = 0.0
        self._drain_deadline: float | None = None

    def _make_streams(self) -> Streams:
        if self._settings.broker is None:
            return FolderStreams(self._settings, self._folder_of)
        from penstock.running.topic_streams import TopicStreams

        return TopicStreams(
            self._settings,
            self._folder,
            self._folder_of,
            self._warden,
            tell=self._listener.phase,
            clock=self._clock.now,
            resume=self._resume,
        )

    def _check_resumable(self) -> None:
        why = None
        if self._settings.cluster.master == "embedded":
            why = "a run on the embedded cluster ends with its controller; start a new one"
        elif self._settings.broker is not None and self._settings.arrivals.topic is None:
            why = "the producer (and a broker) of a run end with its controller, and would begin anew; start a new one"
        elif self._store.fact("settings") != self._settings.model_dump_json():
            why = "the run in this folder has other settings; give those it was started with"
        if why is not None:
            self._store.close()
            raise ConfigurationError(f"resume: {why}", field="resume")

    def __enter__(self) -> _Run:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self._members.values():
            member.close()
        self._streams.close()
        self._warden.close()
        self._store.close()

    def run(self) -> RunSummary:
        started_at = self._clock.now()
        self._streams.start()  # before the cluster: a broker that cannot be reached is told at once
        master, environment = self._start_cluster()
        sockets = self._warden.temporary_folder() if self._cluster is not None else _agents_folder(self._folder)
        for operator in self._settings.operators:
            self._start_operator(operator, master, environment, sockets)
        for member in self._members.values():
            self._await_ready(member)
        if not self._stop.is_set():
            policies = self._policies()
            self._cycles = {name: self._cycle(member, policies[name]) for name, member in self._members.items()}
            self._resizers = {
                name: self._resizer(member) for name, member in self._members.items() if member.settings.sizes
            }
            self._streams.begin()
        self._control()
        self._listener.phase("stopping the operators")
        for member in reversed(self._members.values()):
            member.end()
        summary = summarise(
            self._settings,
            self._folder,
            self._members,
            self._streams.load,
            started_at=started_at,
            ended_at=self._clock.now(),
            faults=0 if self._runner is None else self._runner.faults - self._passes_held,
        )
        self._store.set_fact("summary", json.dumps(summary.to_json()))
        if self._failure is not None:
            raise self._failure
        return summary

    # --- starting ---

    def _start_cluster(self) -> tuple[str, Mapping[str, str]]:
        from penstock.adaptors.spark.cluster import EmbeddedCluster
        from penstock.adaptors.spark.installation import SparkInstallation

        wanted = self._settings.cluster
        if wanted.master != "embedded":
            return wanted.master, SparkInstallation.find().environment()
        self._listener.phase("starting the Spark cluster")
        operators = self._settings.operators
        cores = sum(map(executor_cores, operators))
        heap = sum(map(executor_bytes, operators))
        self._cluster = EmbeddedCluster(
            self._warden,
            self._folder / "cluster",
            workers=wanted.workers,
            cores_per_worker=wanted.cores_per_worker or -(-cores // wanted.workers),
            memory_per_worker=wanted.memory_per_worker or f"{int(heap / wanted.workers) >> 20}m",
        )
        self._cluster.start()
        return self._cluster.master_url, self._cluster.spark_environment()

    def _start_operator(
        self, operator: OperatorSettings, master: str, environment: Mapping[str, str], sockets: Path
    ) -> None:
        from penstock.adaptors.spark.remote import RemoteOperator

        self._listener.phase(f"starting operator {operator.name}")
        own = self._folder_of[operator.name]
        own.mkdir(parents=True, exist_ok=True)
        is_local = self._cluster is not None or master.startswith(("local", "spark://127.", "spark://localhost"))
        reads, writes = self._streams.ends(operator)
        job = OperatorJob(
            name=operator.name,
            app=operator.app,
            master=master,
            limits=operator.limits(),
            mode=Mode(self._settings.mode),
            folder=str(own),
            socket_path=str(sockets / f"{operator.name}.sock"),
            reads=reads,
            writes=writes,
            options=operator.options,
            spark={
                "spark.sql.warehouse.dir": str(own / "warehouse"),
                **spark_configuration(
                    operator, self._streams.spark, is_local=is_local, source_partitions=reads.partitions
                ),
            },
            trigger_seconds=operator.trigger_seconds,
            checkpoint_seconds=operator.checkpoint_seconds,
        )
        if self._resume and (size := self._store.fact(size_fact(operator.name))) is not None:
            job = job_of_size(job, operator, operator.executor_sizes[int(size)])
        warden = self._warden if self._cluster is not None else None
        member = Member(
            operator,
            job,
            process=OperatorProcess(job, own, self._folder / "logs", environment, warden),
            remote=RemoteOperator(job.socket_path),
            flow=self._streams.flow(operator, job.checkpoint_folder),
            back_off=BackOff(self._settings.restarts),
        )
        self._members[operator.name] = member
        member.start(self._clock.now(), resume=self._resume)

    def _await_ready(self, member: Member) -> None:
        self._listener.phase(f"waiting for the query of {member.name}")
        while not self._stop.is_set() and not member.is_ready(self._clock.now()):
            self._clock.wait(0.2, self._stop)
        wants_shares = self._settings.mode == "act" and member.settings.cpu_shares != (1.0,)
        if member.state is State.RUNNING and wants_shares and not member.remote.can_set_cpu_share:
            self._listener.fault(member.name, why_no_cpu_shares())

    def _policies(self) -> dict[str, Policy]:
        """The policy of each operator, once all are there: some policies decide for all together."""
        places = [
            Place(
                name,
                self._limits(member),
                () if member.settings.input == ARRIVALS else (member.settings.input,),
                member.settings.trigger_seconds,
                member.settings.cap,
                is_real_time=member.settings.is_real_time,
                tasks=member.job.reads.partitions,
            )
            for name, member in self._members.items()
        ]
        objectives = self._settings.path_objectives()
        return policies_of(self._settings.policy, places, objectives, knows_arrivals=True)

    def _limits(self, member: Member) -> Limits:
        return fitting_limits(member.settings.limits(), member.remote.can_set_cpu_share)

    def _cycle(self, member: Member, policy: Policy) -> Cycle:
        return make_cycle(
            member.name,
            LoopSettings(
                limits=self._limits(member),
                objective=self._settings.objective_of(member.name),
                mode=Mode(self._settings.mode),
                guards=self._settings.guards,
                window_seconds=self._settings.window,
                warm_up_seconds=self._settings.warm_up,
                cores_per_executor=int(member.job.spark["spark.executor.cores"]),
            ),
            policy=policy,
            source=member.remote,
            actuator=member.remote,
            arrival_times=member.flow.arrivals,
            store=self._store,
            record_latencies=member.flow.latencies,
        )

    def _resizer(self, member: Member) -> Resizer:
        known = self._store.fact(size_fact(member.name)) if self._resume else None
        return Resizer(
            member,
            self._cycles[member.name],
            self._store,
            self._settings.resize,
            limits=self._limits(member),
            objective=self._settings.objective_of(member.name),
            mode=Mode(self._settings.mode),
            size=0 if known is None else int(known),
            tell=lambda text: self._listener.fault(member.name, text),
        )

    # --- running ---

    def _control(self) -> None:
        self._runner = Runner(
            list(self._cycles.values()),
            self._clock,
            interval_seconds=self._settings.interval,
            on_report=self._take,
            on_fault=self._on_fault,
        )
        self._listener.phase("running", 0.0)
        if not self._stop.is_set():
            watcher = threading.Thread(target=self._stop_with, args=(self._runner,), daemon=True)
            watcher.start()
            self._runner.run()

    def _stop_with(self, runner: Runner) -> None:
        self._stop.wait()
        runner.stop()

    def _take(self, report: CycleReport) -> None:
        member = self._members[report.observation.operator]
        member.last = report
        for batch in report.batches:
            member.flow.path.add(batch)
        if member.name in self._resizers:
            self._resizers[member.name].take(report)
        member.account.add(report)
        for note in report.notes:
            self._listener.fault(member.name, note)
        self._listener.report(report)
        has_ended = report.observation.quality is Quality.STOPPED
        self._look_after(member, "; ".join(report.observation.missing) if has_ended else None)
        if member is next(reversed(self._members.values())):
            self._look_around(report.observation.at)

    def _on_fault(self, operator: str, text: str) -> None:
        member = self._members[operator]
        if member.is_resizing:
            self._passes_held += 1  # nobody there, and that is as it should be
        elif member.state is State.RUNNING:
            self._listener.fault(operator, text)
        self._look_after(member)
        if member is next(reversed(self._members.values())):
            self._look_around(self._clock.now())

    def _look_after(self, member: Member, ended: str | None = None) -> None:
        assert self._runner is not None
        restarts = member.restarts
        member.watch(self._clock.now(), lambda text: self._listener.fault(member.name, text), ended)
        if member.restarts > restarts:
            self._cycles[member.name].monitor.restarted()
        if member.name in self._resizers:
            self._resizers[member.name].follow(self._clock.now())
        if member.state is State.FAILED:
            self._failure = member.failure()
            self._runner.stop()

    def _look_around(self, now: float) -> None:
        for fault in self._streams.faults():
            self._listener.fault("streams", fault)
        if self._cluster is not None and now >= self._next_heal:
            self._next_heal = now + _HEAL_EVERY_SECONDS
            for worker in self._cluster.replace_lost_workers():
                self._listener.fault("cluster", f"{worker} was lost; a new one was started")
        self._progress(now)

    def _progress(self, now: float) -> None:
        """Tell how far the run is, and end it when every record that arrived is done."""
        assert self._runner is not None
        span = self._streams.load.span()
        if span is None:
            return
        start, end = span
        if now < end:
            self._listener.phase("running", None if math.isinf(end) else (now - start) / max(1e-9, end - start))
            return
        if self._drain_deadline is None:
            # What a real-time query has done is known only at its checkpoints.
            checkpoints = [o.checkpoint_seconds or 0.0 for o in self._settings.operators]
            self._drain_deadline = now + self._settings.drain + max(checkpoints)
        if self._all_done(now):
            self._runner.stop()
        elif now >= self._drain_deadline:
            self._listener.fault(
                "run", f"not all records were done {self._settings.drain:.0f} s after the last arrival"
            )
            self._runner.stop()
        else:
            self._listener.phase("finishing the records still under way", None)

    def _all_done(self, now: float) -> bool:
        """Whether nobody has anything left, all seen in this very pass: who is away may have more than it last had."""
        for member in self._members.values():
            seen = None if member.last is None else member.last.observation
            if member.state is not State.RUNNING or seen is None or seen.at < now or seen.backlog_records != 0:
                return False
            if member.settings.input == ARRIVALS and seen.records_done != self._streams.load.total:
                return False
        return True


def _agents_folder(run_folder: Path) -> Path:
    """Where the agents of a run listen that outlive it: the same for every controller of that run, and short."""
    name = hashlib.sha256(str(run_folder).encode()).hexdigest()[:12]
    parent = Path(tempfile.gettempdir()) / f"penstock-agents-{os.getuid()}"
    for folder in (parent, parent / name):
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            raise ConfigurationError(f"{folder}: not yours; set TMPDIR to a folder of your own", field="TMPDIR")
        folder.chmod(0o700)
    return parent / name
