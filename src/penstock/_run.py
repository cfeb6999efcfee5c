# SPDX-License-Identifier: Apache-2.0
"""Runs a pipeline and scales it: cluster, operators and the loop, started in order and ended in order."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from penstock._operator import OperatorJob
from penstock._run_checks import check_run, executor_bytes
from penstock._wiring import LoopSettings, fitting_limits, make_cycle, policies_of, why_no_cpu_shares
from penstock.adaptors.process.detached import DetachedProcess
from penstock.clock import SystemClock
from penstock.errors import ActuationError, ClusterError, ConfigurationError
from penstock.knowledge.sqlite import SqliteStore
from penstock.loop import Cycle, CycleReport, Runner
from penstock.loop.account import OperatorAccount, RunSummary
from penstock.loop.mead import Place
from penstock.monitor.path import PathMonitor
from penstock.ports import ArrivalTimes, Policy
from penstock.records import LatencySummary, Limits, Mode, Quality, encode
from penstock.settings import OperatorSettings, RunSettings

if TYPE_CHECKING:
    from penstock.adaptors.process.children import Child, Warden
    from penstock.adaptors.spark.cluster import EmbeddedCluster
    from penstock.adaptors.spark.remote import RemoteOperator
    from penstock.arrivals.due import ReplayArrivals

_LOG = logging.getLogger(__name__)
_START_SECONDS = 180.0
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


@dataclass(slots=True)
class _Member:
    """One operator of the run, as the controller knows it."""

    settings: OperatorSettings
    job: OperatorJob
    child: Child | DetachedProcess
    remote: RemoteOperator
    arrivals: ArrivalTimes
    path: PathMonitor
    account: OperatorAccount = field(default_factory=OperatorAccount)
    last: CycleReport | None = None
    is_ready: bool = False


class _Run:
    def __init__(
        self, settings: RunSettings, folder: Path, listener: RunListener, stop: threading.Event, *, resume: bool
    ) -> None:
        from penstock.adaptors.process.children import Warden
        from penstock.adaptors.process.leftovers import remove_leftovers
        from penstock.adaptors.spark.replay_options import replay_arrivals

        self._settings = settings
        self._folder = folder
        self._listener = listener
        self._stop = stop
        self._resume = resume
        self._clock = SystemClock()
        self._objective = settings.objective_record()
        self._replay: ReplayArrivals = replay_arrivals(settings.arrivals.replay_options())
        left = remove_leftovers()
        if left.processes or left.folders:
            found = f"{len(left.processes)} processes and {len(left.folders)} folders"
            listener.fault("run", f"removed what a dead run left behind: {found}")
        self._store = SqliteStore(folder / "knowledge.sqlite")
        if resume:
            self._check_resumable()
        self._store.set_fact("settings", settings.model_dump_json())
        self._warden: Warden = Warden()
        self._cluster: EmbeddedCluster | None = None
        self._members: dict[str, _Member] = {}
        self._cycles: dict[str, Cycle] = {}
        self._runner: Runner | None = None
        self._failure: ClusterError | None = None
        self._next_heal = 0.0
        self._drain_deadline: float | None = None

    def _check_resumable(self) -> None:
        why = None
        if self._settings.cluster.master == "embedded":
            why = "a run on the embedded cluster ends with its controller; start a new one"
        elif self._store.fact("settings") != self._settings.model_dump_json():
            why = "the run in this folder has other settings; give those it was started with"
        if why is not None:
            self._store.close()
            raise ConfigurationError(f"resume: {why}", field="resume")

    def __enter__(self) -> _Run:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self._members.values():
            member.remote.close()
            if isinstance(member.child, DetachedProcess):
                member.child.stop()
        self._warden.close()
        self._store.close()

    def run(self) -> RunSummary:
        started_at = self._clock.now()
        master, environment = self._start_cluster()
        sockets = self._warden.temporary_folder() if self._cluster is not None else _agents_folder(self._folder)
        for operator in self._settings.operators:
            self._start_operator(operator, master, environment, sockets)
        for member in self._members.values():
            self._await_ready(member)
        if not self._stop.is_set():
            policies = self._policies()
            self._cycles = {name: self._cycle(member, policies[name]) for name, member in self._members.items()}
        self._control()
        self._listener.phase("stopping the operators")
        for member in reversed(self._members.values()):
            self._end(member)
        summary = self._summary(started_at)
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
        cores = sum(o.executors[1] * o.executor_cores for o in operators)
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
        from penstock.adaptors.spark.file_stream import FileStreamArrivals
        from penstock.adaptors.spark.remote import RemoteOperator

        self._listener.phase(f"starting operator {operator.name}")
        own = self._folder / "operators" / operator.name
        own.mkdir(parents=True, exist_ok=True)
        upstream = self._members.get(operator.input)
        is_local = self._cluster is not None or master.startswith(("local", "spark://127.", "spark://localhost"))
        job = OperatorJob(
            name=operator.name,
            app=operator.app,
            master=master,
            limits=operator.limits(),
            mode=Mode(self._settings.mode),
            folder=str(own),
            socket_path=str(sockets / f"{operator.name}.sock"),
            options=operator.options,
            spark={"spark.sql.warehouse.dir": str(own / "warehouse"), **_spark_configuration(operator, is_local)},
            replay=self._settings.arrivals.replay_options() if upstream is None else None,
            input_folder=None if upstream is None else upstream.job.output_folder,
            trigger_seconds=operator.trigger,
        )
        child = self._launch(job, own, {**os.environ, **environment})
        arrivals = self._arrival_times(job)
        if upstream is None:
            path_monitor = PathMonitor(self._replay, window_seconds=self._settings.window)
        else:
            assert isinstance(arrivals, FileStreamArrivals)
            path_monitor = PathMonitor(above=upstream.path, lineage=arrivals, window_seconds=self._settings.window)
        remote = RemoteOperator(job.socket_path)
        self._members[operator.name] = _Member(operator, job, child, remote, arrivals, path_monitor)

    def _launch(self, job: OperatorJob, own: Path, env: Mapping[str, str]) -> Child | DetachedProcess:
        """Start the operator's process, or take over one that outlived its controller.

        On the embedded cluster it ends with Penstock; on any other it goes on when Penstock is killed.
        """
        path, identity = own / "job.json", own / "process.json"
        log = self._folder / "logs" / f"{job.name}.log"
        log.parent.mkdir(exist_ok=True)
        if self._resume and (running := DetachedProcess.adopt(job.name, log=log, identity=identity)) is not None:
            if path.read_text(encoding="utf-8") != encode(job):
                raise ConfigurationError(
                    f"resume: operator {job.name} runs with other settings; give those it was started with",
                    field="resume",
                )
            return running
        path.write_text(encode(job), encoding="utf-8")
        argv = [sys.executable, "-m", "penstock._operator", str(path)]
        # In the user's folder: relative paths in the options mean there what they mean here.
        if self._cluster is not None:
            return self._warden.start(job.name, argv, log=log, env=env, cwd=Path.cwd())
        return DetachedProcess.start(job.name, argv, log=log, env=env, cwd=Path.cwd(), identity=identity)

    def _await_ready(self, member: _Member) -> None:
        self._listener.phase(f"waiting for the query of {member.settings.name}")
        deadline = self._clock.now() + _START_SECONDS
        while not self._stop.is_set():
            member.child.raise_if_ended()
            try:
                member.remote.beat()
            except ActuationError:
                if self._clock.now() > deadline:
                    raise ClusterError(
                        f"operator {member.settings.name} did not start within {_START_SECONDS:.0f} s; "
                        f"the end of {member.child.log}:\n{member.child.tail()}",
                        target=member.settings.name,
                    ) from None
                self._clock.wait(0.2, self._stop)
                continue
            wants_shares = self._settings.mode == "act" and member.settings.cpu_shares != (1.0,)
            if wants_shares and not member.remote.can_set_cpu_share:
                self._listener.fault(member.settings.name, why_no_cpu_shares())
            member.is_ready = True
            return

    def _policies(self) -> dict[str, Policy]:
        """The policy of each operator, once all are there: some policies decide for all together."""
        places = [
            Place(
                name,
                self._limits(member),
                () if member.job.input_folder is None else (member.settings.input,),
                member.settings.trigger,
            )
            for name, member in self._members.items()
        ]
        return policies_of(self._settings.policy, places, self._objective, knows_arrivals=True)

    def _limits(self, member: _Member) -> Limits:
        return fitting_limits(member.settings.limits(), member.remote.can_set_cpu_share)

    def _cycle(self, member: _Member, policy: Policy) -> Cycle:
        operator = member.settings
        return make_cycle(
            operator.name,
            LoopSettings(
                limits=self._limits(member),
                objective=self._objective,
                mode=Mode(self._settings.mode),
                guards=self._settings.guards,
                window_seconds=self._settings.window,
                warm_up_seconds=self._settings.warm_up,
                cores_per_executor=operator.executor_cores,
            ),
            policy=policy,
            source=member.remote,
            actuator=member.remote,
            arrival_times=member.arrivals,
            store=self._store,
        )

    def _arrival_times(self, job: OperatorJob) -> ArrivalTimes:
        from penstock.adaptors.spark.file_stream import FileStreamArrivals

        if job.input_folder is None:
            return self._replay
        return FileStreamArrivals(job.checkpoint_folder, folder=job.input_folder)

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
        assert self._runner is not None
        member = self._members[report.observation.operator]
        member.last = report
        for batch in report.batches:
            member.path.add(batch)
        member.account.add(report)
        for note in report.notes:
            self._listener.fault(member.settings.name, note)
        self._listener.report(report)
        now = report.observation.at
        self._heal_cluster(now)
        if report.observation.quality is Quality.STOPPED or member.child.poll() is not None:
            self._fail(member, "; ".join(report.observation.missing))
        elif member is list(self._members.values())[-1]:
            self._progress(now)

    def _on_fault(self, operator: str, text: str) -> None:
        self._listener.fault(operator, text)
        if self._members[operator].child.poll() is not None:
            self._fail(self._members[operator], text)

    def _fail(self, member: _Member, text: str) -> None:
        assert self._runner is not None
        self._failure = ClusterError(
            f"operator {member.settings.name} stopped: {text}; the end of {member.child.log}:\n{member.child.tail()}",
            target=member.settings.name,
        )
        self._runner.stop()

    def _heal_cluster(self, now: float) -> None:
        if self._cluster is not None and now >= self._next_heal:
            self._next_heal = now + _HEAL_EVERY_SECONDS
            for worker in self._cluster.replace_lost_workers():
                self._listener.fault("cluster", f"{worker} was lost; a new one was started")

    def _progress(self, now: float) -> None:
        """Tell how far the run is, and end it when every record that arrived is done."""
        assert self._runner is not None
        if self._replay.epoch_us is None:
            return
        end = self._replay.epoch_us / 1e6 + self._replay.arrivals.duration_seconds / self._replay.speed
        if now < end:
            start = self._replay.epoch_us / 1e6
            self._listener.phase("running", (now - start) / max(1e-9, end - start))
            return
        if self._drain_deadline is None:
            self._drain_deadline = now + self._settings.drain
        if self._all_done():
            self._runner.stop()
        elif now >= self._drain_deadline:
            self._listener.fault(
                "run", f"not all records were done {self._settings.drain:.0f} s after the last arrival"
            )
            self._runner.stop()
        else:
            self._listener.phase("finishing the records still under way", None)

    def _all_done(self) -> bool:
        for member in self._members.values():
            seen = None if member.last is None else member.last.observation
            if seen is None or seen.backlog_records != 0:
                return False
            if member.job.replay is not None and seen.records_done != self._replay.arrivals.total:
                return False
        return True

    # --- ending ---

    def _end(self, member: _Member) -> None:
        if not member.is_ready:  # it never came up: nobody there to be told
            self._stop_process(member.child)
            return
        try:
            member.remote.stop()
        except ActuationError as fault:
            _LOG.info("%s cannot be told to stop: %s", member.settings.name, fault)
        if member.child.wait(30.0) is None:
            self._stop_process(member.child)

    def _stop_process(self, child: Child | DetachedProcess) -> None:
        if isinstance(child, DetachedProcess):
            child.stop()
        else:
            self._warden.stop(child)

    def _summary(self, started_at: float) -> RunSummary:
        ended_at = self._clock.now()
        accounts = {name: m.account for name, m in self._members.items()}
        first = next(iter(self._members.values()))
        last_seen = None if first.last is None else first.last.observation
        executor_seconds = sum(a.executor_seconds for a in accounts.values())
        capacity = sum(a.share_seconds for a in accounts.values())
        static = sum(a.observed_seconds * self._members[n].settings.limits().top.capacity for n, a in accounts.items())
        decisions = sorted((d for a in accounts.values() for d in a.decisions), key=lambda d: d.at)
        paths = {name: m.path.latency_of_run() for name, m in self._members.items()}
        return RunSummary(
            name=self._settings.name,
            folder=str(self._folder),
            mode=self._settings.mode,
            started_at=started_at,
            ended_at=ended_at,
            objective=self._objective,
            records_due=self._replay.arrived_by(ended_at),
            records_read=_records_read(Path(first.job.checkpoint_folder)),
            records_done=None if last_seen is None else last_seen.records_done,
            latency=self._worst(paths, ended_at),
            cpu_share_mean=capacity / executor_seconds if executor_seconds > 0 else None,
            executor_seconds=executor_seconds,
            capacity_seconds=capacity,
            static_capacity_seconds=static,
            decisions=tuple(decisions),
            faults=0 if self._runner is None else self._runner.faults,
            operators={
                name: {
                    "executor_seconds": account.executor_seconds,
                    "cpu_share_mean": account.cpu_share_mean,
                    "path_latency_p95": None if (path := paths[name]) is None else path.p95_seconds,
                    "records_done": None if (m := self._members[name].last) is None else m.observation.records_done,
                }
                for name, account in accounts.items()
            },
        )

    def _worst(self, paths: Mapping[str, LatencySummary | None], at: float) -> LatencySummary | None:
        """The latency of the slowest path to an operator that nobody reads from.

        Records that arrived and were not done count too, with their wait so far: left out, a run that fell behind
        would look fast.
        """
        first = next(iter(self._members.values()))
        done, due = (0 if first.last is None else first.last.observation.records_done or 0), self._replay.arrived_by(at)
        if due is not None and due > done and self._replay.epoch_us is not None:
            waiting = self._replay.epoch_us / 1e6 + self._replay.arrivals.times(done, due) / self._replay.speed
            return first.path.latency_with_waiting(waiting, at)
        inputs = {m.settings.input for m in self._members.values()}
        ends = [latency for name, latency in paths.items() if name not in inputs and latency is not None]
        statistic = self._objective.statistic or "p95"
        return max(ends, key=lambda latency: latency.statistic(statistic), default=None)


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


def _spark_configuration(operator: OperatorSettings, is_local: bool) -> dict[str, str]:
    """What an operator needs so that it can be sized alone; the user's own configuration wins."""
    most = operator.executors[1]
    configuration = {
        "spark.executor.cores": str(operator.executor_cores),
        "spark.executor.memory": operator.executor_memory,
        "spark.driver.memory": operator.driver_memory,
        "spark.cores.max": str(most * operator.executor_cores),
        "spark.executor.instances": str(most),
        "spark.dynamicAllocation.enabled": "false",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.enabled": "true",
        "spark.storage.decommission.shuffleBlocks.enabled": "true",
        "spark.storage.decommission.rddBlocks.enabled": "true",
        # Spark looks every 30 s whether a leaving executor's blocks have moved; seen to make drains 3x shorter.
        "spark.storage.decommission.replicationReattemptInterval": "2s",
        "spark.sql.shuffle.partitions": str(max(2, most * operator.executor_cores)),
    }
    if is_local:
        configuration |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return configuration | operator.spark


def _records_read(checkpoint: Path) -> int | None:
    """How many records the query has taken in, batch under way included: the end of its newest planned batch."""
    from penstock.arrivals.due import ReplayOffset

    numbers = [int(p.name) for p in (checkpoint / "offsets").glob("[0-9]*")]
    if not numbers:
        return None
    lines = (checkpoint / "offsets" / str(max(numbers))).read_text(encoding="utf-8").splitlines()
    offset = ReplayOffset.parse(lines[-1])
    return None if offset is None else offset.index
