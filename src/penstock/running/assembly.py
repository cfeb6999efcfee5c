# SPDX-License-Identifier: Apache-2.0
"""Builds a run: its store, streams, cluster, operators and their cycles, started in order."""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from penstock._wiring import LoopSettings, fitting_limits, ignored_objective, make_cycle, why_no_cpu_shares
from penstock.clock import Clock
from penstock.crash_points import crash_point
from penstock.errors import AdaptorError, ConfigurationError
from penstock.knowledge.enduring import EnduringStore
from penstock.knowledge.notebook import StoreNotebook
from penstock.knowledge.run_notes import RunNotes
from penstock.knowledge.sqlite import SqliteStore
from penstock.loop import Cycle, Orders, PatientSource
from penstock.loop.kept_orders import first_state, kept_state
from penstock.ports import Policy, PolicyContext
from penstock.records import Allocation, Limits, Mode
from penstock.running.back_off import BackOff
from penstock.running.checks import unreachable_objectives
from penstock.running.driver_addresses import DriverAddresses, driver_addresses, is_local_master
from penstock.running.folder_streams import FolderStreams
from penstock.running.node_cpu import with_node_cpu
from penstock.running.node_keeper import NodeKeeper
from penstock.running.operator_actuator import OperatorActuator, PatientOperatorActuator
from penstock.running.operator_job import OperatorJob
from penstock.running.operator_launcher import OperatorLauncher
from penstock.running.operator_sizes import jobs_by_size, keep_size, kept_size
from penstock.running.operator_streams import OperatorInput, OperatorStreams
from penstock.running.policy_choice import chosen_policy, policy_context, policy_of, settings_with
from penstock.running.recollection import recall
from penstock.running.run_listener import NotingListener, RunListener
from penstock.running.run_nodes import check_nodes
from penstock.running.running_operator import END_SECONDS, RunningOperator, State
from penstock.running.starting import embedded_cluster, make_job
from penstock.settings import OperatorSettings, RunSettings
from penstock.steering import PolicyChoice

if TYPE_CHECKING:
    from penstock.adaptors.process.children import Warden
    from penstock.adaptors.spark.cluster import EmbeddedCluster

_FAILED_PASSES = 5
"""After so many passes whose records could not be kept, control goes on without."""
_LEAVING_SECONDS = 60.0
"""How long each operator that is left may take to lift its CPU cap: its passes are over, and nobody waits."""
_EXECUTORS_COME_SECONDS = 90.0
"""How long executors may take to come once their query runs."""
_PLACING_SECONDS = 300.0
"""How long executors may take to come to chosen nodes: others may come first, one after the other."""


class Assembly:
    """The parts of a run. `start` builds and starts them; leaving the context ends whatever was started.

    Parameters
    ----------
    settings, folder
        What is run, and where everything of it goes.
    listener, clock, stop
        Who sees it go by, the time, and what ends the waiting for operators.
    resume
        Take over operators that outlived their controller in that folder.
    policy
        An object that decides in place of the policy that the settings name.
    """

    def __init__(
        self,
        settings: RunSettings,
        folder: Path,
        *,
        listener: RunListener,
        clock: Clock,
        stop: threading.Event,
        resume: bool,
        policy: Policy | None,
    ) -> None:
        from penstock.adaptors.process.children import Warden
        from penstock.adaptors.process.leftovers import remove_leftovers

        self._settings, self._folder = settings, folder
        self.cycles: dict[str, Cycle] = {}
        """Empty where the run was stopped before every operator was there."""
        self._clock, self._stop = clock, stop
        self._resume, self._policy = resume, policy
        self._has_begun = self._is_ended = False
        left = remove_leftovers()
        if left.processes or left.folders:
            found = f"{len(left.processes)} processes and {len(left.folders)} folders"
            listener.fault("run", f"removed what a dead run left behind: {found}")
        self.store = EnduringStore(
            SqliteStore(folder / "knowledge.sqlite"),
            patience=_FAILED_PASSES * len(settings.operators),
            say=lambda text: listener.fault("run", text),
            on_lost=self._open_shares,
        )
        self.listener: RunListener = NotingListener(listener, RunNotes(self.store, clock.now))
        """That of the run; what it is given as faults is also kept in the store."""
        if resume:
            self._check_resumable()
        self.store.set_fact("settings", settings.model_dump_json())
        crash_point("settings-kept")
        first = first_state([o.name for o in settings.operators], chosen_policy(settings, is_object=policy is not None))
        self._settings_choice = first.policy
        self.orders = Orders(kept_state(self.store, first) if resume else first, clock)
        """What people have ordered of the loop; in a run that is resumed, also before that."""
        self._warden: Warden = Warden()
        self._folder_of = {o.name: folder / "operators" / o.name for o in settings.operators}
        self._inputs: dict[str, OperatorInput] = {}
        self.streams = self._make_streams()
        self.cluster: EmbeddedCluster | None = None
        self.nodes = NodeKeeper(
            settings, self._folder_of, self.listener, has_own_policy=policy is not None, resume=resume
        )
        self._addresses = DriverAddresses()
        self.operators: dict[str, RunningOperator] = {}
        self.actuators: dict[str, PatientOperatorActuator] = {}

    def __enter__(self) -> Assembly:
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as ends:  # backwards, and all of them, whatever one of them raises
            ends.callback(self.store.close)
            if self.cluster is not None:
                ends.callback(self.cluster.release)
            ends.callback(self._warden.close)
            ends.callback(self.streams.close, is_left=self.is_left)
            for operator in self.operators.values():
                ends.callback(operator.close, is_left=self.is_left)
            ends.callback(self.nodes.stop)

    @property
    def is_left(self) -> bool:
        """Whether the pipeline goes on when this controller goes: it can, and nobody has ended it.

        Where a start fails, what it began is ended; what another controller had begun is not.
        """
        return why_it_ends(self._settings) is None and not self._is_ended and (self._has_begun or self._resume)

    def start(self) -> None:
        """Start everything; records arrive when all operators run."""
        self.streams.start()  # before the cluster: a broker that cannot be reached is reported at once
        crash_point("streams-started")
        master, environment = self._start_cluster()
        self.nodes.find(self.cluster, self.store)
        sockets = self._warden.temporary_folder() if self.cluster is not None else _agents_folder(self._folder)
        for operator in self._settings.operators:
            self._start_operator(operator, master, environment, sockets)
            crash_point("operator-begun")
        for running in self.operators.values():
            self._await_ready(running)
        crash_point("operators-ready")
        if not self._stop.is_set():
            policy = self._make_policy()
            self.cycles = {name: self._make_cycle(operator, policy) for name, operator in self.operators.items()}
            crash_point("cycles-made")
            self.streams.begin()
            self._has_begun = True
            crash_point("streams-begun")

    @property
    def log_folders(self) -> tuple[Path, ...]:
        """Where processes of the run write their logs."""
        return tuple(self._folder / name for name in ("logs", "cluster/logs", "kafka", "rabbitmq"))

    def end_operators(self) -> None:
        """Stop the operators, the last of the pipeline first."""
        self._is_ended = True
        with ExitStack() as ends:
            for operator in self.operators.values():
                ends.callback(operator.end)

    def leave(self) -> None:
        """Let the pipeline go on without a controller: with every operator started, and no CPU cap."""
        for name, operator in self.operators.items():
            # One that is asked to stop for another size at this moment would end when nobody starts it any more.
            self.actuators[name].settle(_LEAVING_SECONDS)
            operator.leave(self._clock.monotonic(), partial(self.listener.fault, name))
        self._open_shares(_LEAVING_SECONDS)

    def _open_shares(self, within_seconds: float | None = None) -> None:
        """Lift every CPU cap: what cannot be kept must not leave an operator with the least it ever had."""
        for name, cycle in self.cycles.items():
            cycle.let_go()
            try:
                self.actuators[name].open_shares(within_seconds)
            except AdaptorError as fault:  # nobody there: its agent opens them when the lease runs out
                self.listener.fault(name, f"CPU shares could not be opened: {fault}")

    def _check_resumable(self) -> None:
        why = why_it_ends(self._settings)
        if why is not None:
            why = f"{why}; start a new one"
        elif self._settings.broker is not None and self.store.fact("summary") is not None:
            what = "topics" if self._settings.has_topics else "queues"
            why = f"the run in this folder has come to its end, and its {what} are gone; start a new one"
        elif not _is_of(self._settings, self.store.fact("settings") or ""):
            why = "the run in this folder has other settings; give those it was started with"
        if why is not None:
            self.store.close()
            raise ConfigurationError(f"resume: {why}", field="resume")

    def _make_streams(self) -> OperatorStreams:
        if self._settings.broker is None:
            return FolderStreams(self._settings, self._folder_of)
        from penstock.running.queue_streams import QueueStreams
        from penstock.running.topic_streams import TopicStreams

        streams = TopicStreams if self._settings.has_topics else QueueStreams
        return streams(
            self._settings,
            self._folder,
            self._folder_of,
            self._warden,
            say=self.listener.phase,
            clock=self._clock.now,
            resume=self._resume,
            stop=self._stop,
        )

    def _start_cluster(self) -> tuple[str, Mapping[str, str]]:
        """Start the embedded cluster where the run has one; returns the master and the processes' environment."""
        from penstock.adaptors.spark.installation import SparkInstallation

        wanted = self._settings.cluster
        if wanted.master != "embedded":
            self._addresses = driver_addresses(wanted.master, os.environ, is_local=is_local_master(wanted.master))
            return wanted.master, {**SparkInstallation.find().environment(), **self._addresses.environment}
        self.listener.phase("starting the Spark cluster")
        self.cluster = embedded_cluster(
            wanted, self._settings.operators, self._warden, self._folder / "cluster", stop=self._stop
        )
        self.cluster.start()
        return self.cluster.master_url, self.cluster.spark_environment()

    def _start_operator(
        self, settings: OperatorSettings, master: str, environment: Mapping[str, str], sockets: Path
    ) -> None:
        from penstock.adaptors.agent.client import RemoteOperator

        if not self._resume:
            self.listener.phase(f"starting operator {settings.name}")
        own = self._folder_of[settings.name]
        own.mkdir(parents=True, exist_ok=True)
        job = self._job(settings, master, sockets)
        warden = self._warden if self.cluster is not None else None
        operator = RunningOperator(
            settings,
            jobs_by_size(job, settings),
            size=kept_size(self.store, settings) if self._resume else None,
            launcher=OperatorLauncher(
                settings.name,
                own,
                self._folder / "logs",
                environment,
                warden,
                command=list if self.cluster is None else self.cluster.driver_command,
            ),
            remote=RemoteOperator(job.socket_path),
            back_off=BackOff(self._settings.restarts),
        )
        self._inputs[settings.name] = self.streams.input_of(settings, job.checkpoint_folder)
        self.operators[settings.name] = operator
        self.actuators[settings.name] = PatientOperatorActuator(
            OperatorActuator(operator, self._settings.resize.patience, self._clock.monotonic)
        )
        if self._resume:
            recall(operator.account, self.store, settings.name)
            crash_point("account-recalled")
        operator.start(self._clock.monotonic(), resume=self._resume)
        if self._resume:
            if settings.sizes:  # the one before may have died before it could keep this
                keep_size(self.store, settings, operator.size)
            name = settings.name
            self.listener.phase(f"took over {name}" if operator.is_adopted else f"{name} had ended; starting it again")

    def _job(self, operator: OperatorSettings, master: str, sockets: Path) -> OperatorJob:
        reads, writes = self.streams.ends(operator)
        return make_job(
            operator,
            reads,
            writes,
            master=master,
            folder=self._folder_of[operator.name],
            socket_path=sockets / f"{operator.name}.sock",
            mode=Mode(self._settings.mode),
            streams=self.streams.spark,
            is_embedded=self.cluster is not None,
            addresses=self._addresses.configuration,
            driver_host="127.0.0.1" if self.cluster is None else self.cluster.driver_host,
            limits=self.nodes.limits(operator),
            measure_to=self.nodes.measure_to,
        )

    def _await_ready(self, operator: RunningOperator) -> None:
        self.listener.phase(f"waiting for the query of {operator.name}")
        while not self._stop.is_set() and not self._is_ready(operator):
            self._clock.wait(0.2, self._stop)
        wants_shares = self._settings.mode == "act" and operator.settings.cpu_shares != (1.0,)
        if operator.state is State.RUNNING and wants_shares and not operator.remote.can_set_cpu_share:
            self.listener.fault(operator.name, why_no_cpu_shares(self._settings.cluster.master))

    def _is_ready(self, operator: RunningOperator) -> bool:
        now = self._clock.monotonic()
        if self._resume:
            return operator.is_up_again(now, lambda text: self.listener.fault(operator.name, text))
        return operator.is_ready(now)

    def build_policy(self, choice: PolicyChoice) -> Policy:
        """Build a policy in place of that of the settings, looked through as that one was.

        Raises
        ------
        ConfigurationError
            With every mistake.
        """
        settings = settings_with(self._settings, choice)
        check_nodes(settings)
        return policy_of(settings, self._context())

    def _context(self) -> PolicyContext:
        return policy_context(
            self._settings,
            {name: self._limits(operator) for name, operator in self.operators.items()},
            {name: operator.job.reads.tasks for name, operator in self.operators.items()},
            self.nodes.distances(),
            StoreNotebook(self.store),
        )

    def _make_policy(self) -> Policy:
        policy = self._ordered_policy() or policy_of(self._settings, self._context(), self._policy)
        ignored = ignored_objective(policy, self._settings.path_objectives().values())
        if ignored is not None:
            self.listener.fault("run", ignored)
        for name, line in unreachable_objectives(self._settings).items():
            self.listener.fault(name, line)
        return policy

    def _ordered_policy(self) -> Policy | None:
        """The policy that somebody chose before the run was resumed; None: that of the settings decides."""
        state = self.orders.state
        if state.policy == self._settings_choice:
            return None
        why = "it was an object"
        if not state.policy.is_object:
            try:
                return self.build_policy(state.policy)
            except ConfigurationError as fault:
                why = str(fault)
        self.listener.fault(
            "run",
            f"the policy {state.policy}, which was chosen while the run went on, cannot be built again ({why}): "
            f"{self._settings_choice} decides, as the settings say",
        )
        self.orders.put(replace(state, policy=self._settings_choice, previous=state.policy))
        return None

    def _limits(self, operator: RunningOperator) -> Limits:
        return fitting_limits(self.nodes.limits(operator.settings), operator.remote.can_set_cpu_share)

    def _begin(self, operator: RunningOperator) -> Allocation | None:
        """What an operator begins with; None: what it has, which nobody changes where a run only recommends."""
        if self._resume or self._settings.mode != "act":
            return None
        return self.nodes.first(operator.settings, self._limits(operator))

    def _make_cycle(self, operator: RunningOperator, policy: Policy) -> Cycle:
        reads = self._inputs[operator.name]
        return make_cycle(
            operator.name,
            LoopSettings(
                limits=self._limits(operator),
                objective=self._settings.objective_of(operator.name),
                mode=Mode(self._settings.mode),
                guards=self._settings.guards,
                window_seconds=self._settings.window,
                warm_up_seconds=self._settings.warm_up,
                cores_per_executor=int(operator.jobs[None].spark["spark.executor.cores"]),
                restart_seconds=(
                    self._settings.resize.patience
                    + END_SECONDS
                    + self._settings.restarts.start_within
                    + _EXECUTORS_COME_SECONDS
                ),
                change_seconds=_PLACING_SECONDS if self.nodes.are_chosen else _EXECUTORS_COME_SECONDS,
                begin=self._begin(operator),
            ),
            policy=policy,
            source=PatientSource(
                with_node_cpu(operator.remote, self._settings, self._limits(operator), self.cluster, self._clock)
            ),
            actuator=self.actuators[operator.name],
            arrival_times=reads.arrivals,
            store=self.store,
            record_latencies=reads.latencies,
            path=reads.path,
            orders=self.orders,
        )


def why_it_ends(settings: RunSettings) -> str | None:
    """Why a pipeline ends with its controller; None: it goes on without one, and can be resumed."""
    if settings.cluster.master == "embedded":
        return "a run on the embedded cluster ends with its controller"
    if settings.broker is not None and settings.broker.is_embedded:
        return "a broker of the run's own ends with its controller, and so does all that it holds"
    return None


def _is_of(settings: RunSettings, kept: str) -> bool:
    """Whether these are the settings that were kept, maybe by an earlier version, which knew fewer."""
    if kept == settings.model_dump_json():
        return True
    try:
        return RunSettings.model_validate_json(kept).model_dump_json() == settings.model_dump_json()
    except ValueError:  # a setting that there is no more, or no settings at all
        return False


def _agents_folder(run_folder: Path) -> Path:
    """Where the agents of operators listen that outlive the run: one short path for every controller of that run."""
    name = hashlib.sha256(str(run_folder).encode()).hexdigest()[:12]
    parent = Path(tempfile.gettempdir()) / f"penstock-agents-{os.getuid()}"
    for folder in (parent, parent / name):
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            raise ConfigurationError(
                f"TMPDIR: {folder} belongs to another user; set TMPDIR to a folder of your own", field="TMPDIR"
            )
        folder.chmod(0o700)
    return parent / name
