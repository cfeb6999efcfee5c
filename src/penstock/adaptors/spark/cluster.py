# SPDX-License-Identifier: Apache-2.0
"""A real Spark standalone cluster, master and workers, from the installed PySpark. It ends with Penstock."""

from __future__ import annotations

import http.client
import json
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from penstock.adaptors.loopback import check_loopback, reserve_port
from penstock.adaptors.process.children import Child, Warden
from penstock.adaptors.spark.cluster_files import authentication, java_options, write_cluster_folders
from penstock.adaptors.spark.cluster_sites import ClusterSites, LoopbackSites, Site
from penstock.adaptors.spark.installation import (
    MASTER_CLASS,
    WORKER_CLASS,
    SparkInstallation,
    without_spark_variables,
)
from penstock.adaptors.spark.master_address import MasterAddress, MasterKind
from penstock.adaptors.spark.master_page import LARGEST_PAGE_BYTES
from penstock.errors import ClusterError, ConfigurationError
from penstock.units import parse_bytes

__all__ = ["EmbeddedCluster", "MasterAddress", "MasterKind"]

T = TypeVar("T")

_UI_LINE = re.compile(r"MasterWebUI.*started at http://[^:]+:(\d+)")
_JVM_IS_UP = "Started daemon with process name"
_PORT_IS_TAKEN = ("BindException", "Address already in use")
_POLL_SECONDS = 0.05
_ATTEMPTS = 3
_SMALLEST_WORKER_BYTES = 512 << 20


class EmbeddedCluster:
    """A standalone master and its workers on the loopback. `start` returns when the workers are registered.

    Use as a context manager, or call `start` and `stop`. Every process is a child of the warden. Each cluster has a
    secret of its own, in a file that only this user can read. Who does not know it can neither submit anything nor
    talk to a driver or an executor.

    Parameters
    ----------
    warden
        Keeps the processes.
    folder
        Gets everything the cluster writes: conf, logs, work (one folder per worker), local, tmp.
    workers, cores_per_worker, memory_per_worker
        What the master can allocate. There may be more cores than the machine has: they are slots.
    host
        A loopback address.
    port, ui_port
        Fixed ports of the master; None: free ones.
    stop
        Set it to end the wait for the cluster; what was started is ended.
    sites
        Where the processes run, in place of `workers` on `host`.

    Raises
    ------
    ConfigurationError
        From the constructor: a value, Java or PySpark is wrong or missing. Nothing was started.
    ClusterError
        From `start`: a process did not come up; the message ends with its log. What was started is ended.
    """

    def __init__(
        self,
        warden: Warden,
        folder: Path,
        *,
        workers: int = 1,
        cores_per_worker: int = 8,
        memory_per_worker: str = "4g",
        host: str = "127.0.0.1",
        port: int | None = None,
        ui_port: int | None = None,
        daemon_memory: str = "256m",
        timeout_seconds: float = 120.0,
        stop: threading.Event | None = None,
        sites: ClusterSites | None = None,
    ) -> None:
        _check_at_least_one("workers", workers)
        _check_at_least_one("cores_per_worker", cores_per_worker)
        memory_bytes = parse_bytes(memory_per_worker, "cluster.memory_per_worker")
        if memory_bytes < _SMALLEST_WORKER_BYTES:
            raise ConfigurationError(
                f"cluster.memory_per_worker: {memory_per_worker!r} is too small for an executor; give at least 512m",
                field="cluster.memory_per_worker",
            )
        if sites is None:
            check_loopback(host)
        self._sites: ClusterSites = sites or LoopbackSites(host, workers)
        self._installation = SparkInstallation.find()
        self._warden = warden
        self.folder = folder.absolute()
        self._cores = cores_per_worker
        self._memory_mib = memory_bytes >> 20
        self._fixed_port = port
        self._fixed_ui_port = ui_port
        self._daemon_memory = daemon_memory
        self._timeout_seconds = timeout_seconds
        self._stop_asked = stop or threading.Event()
        self._master: Child | None = None
        self._workers: list[Child] = []
        self._site_of: dict[str, Site] = {}
        self._authentication = authentication()
        self._port: int | None = None
        self._ui_port: int | None = None
        for field, number in (("cluster.port", port), ("cluster.ui_port", ui_port)):
            if number is not None:
                with self._sites.entered():
                    reserve_port(self._sites.home.address, number, field).close()

    # --- what it is --------------------------------------------------------------------------------------------

    @property
    def master_url(self) -> str:
        """The master address for applications, ``spark://host:port``."""
        return f"spark://{self._sites.home.address}:{_running(self._port)}"

    @property
    def ui_url(self) -> str:
        """The master's web page. Its ``/json/`` page has the same as data."""
        return f"http://{self._sites.home.address}:{_running(self._ui_port)}"

    @property
    def master_pid(self) -> int:
        """The master's process."""
        return _running(self._master).pid

    @property
    def worker_pids(self) -> list[int]:
        """The workers' processes, in the order of their start."""
        return [worker.pid for worker in self._workers]

    def spark_environment(self) -> dict[str, str]:
        """Return variables to add to the environment of an operator's driver process.

        They name the folder where Spark finds the cluster's secret; the secret itself is in none of them.
        """
        properties = {"java.io.tmpdir": str(self.folder / "tmp"), **self._sites.java_properties}
        return {
            **self._installation.environment(),
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "SPARK_LOCAL_IP": self._sites.home.address,
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "SPARK_SUBMIT_OPTS": java_options(properties),
        }

    @property
    def authentication(self) -> Mapping[str, str]:
        """The configuration of drivers that do not read the folder in `spark_environment`; it holds the secret.

        Never put it on a command line.
        """
        return dict(self._authentication)

    @property
    def driver_host(self) -> str:
        """The address that drivers listen on."""
        return self._sites.home.address

    def driver_command(self, argv: Sequence[str]) -> list[str]:
        """Return the command that runs `argv` where drivers of this cluster run."""
        return self._sites.command(self._sites.home, argv)

    def state(self) -> dict[str, Any]:
        """Return the state of the master, its workers and applications, from its ``/json/`` page."""
        page = http.client.HTTPConnection(self._sites.home.address, _running(self._ui_port), timeout=5.0)
        try:
            with self._sites.entered():
                page.connect()
            page.request("GET", "/json/")
            answer = page.getresponse()
            body = answer.read(LARGEST_PAGE_BYTES)
            if answer.status != http.client.OK:
                raise ClusterError(
                    f"Spark master: {self.ui_url}/json/ answered with status {answer.status}", target="Spark master"
                )
            state: dict[str, Any] = json.loads(body)
            return state
        except (OSError, http.client.HTTPException, ValueError) as fault:
            raise ClusterError(
                f"Spark master: {self.ui_url}/json/ cannot be read: {fault}", target="Spark master", retryable=True
            ) from fault
        finally:
            page.close()

    # --- its life ----------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start master and workers, and wait until all workers are registered."""
        write_cluster_folders(
            self.folder,
            self._sites.home.address,
            self._sites.java_properties,
            configuration=self._authentication,
        )
        deadline = time.monotonic() + self._timeout_seconds
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._bring_up(deadline)
                break
            except ClusterError:
                taken = self._master is not None and any(sign in self._master.tail(60) for sign in _PORT_IS_TAKEN)
                self.stop()
                if attempt == _ATTEMPTS or not taken or self._fixed_port or self._fixed_ui_port:
                    raise  # another process took the free port between choice and use: try again
            except BaseException:
                self.stop()
                raise
        return self

    def check(self) -> None:
        """Raise ClusterError, with the process and the end of its log, if any part of the cluster has ended."""
        self._warden.check()
        _running(self._master).raise_if_ended()
        for worker in self._workers:
            worker.raise_if_ended()

    def replace_lost_workers(self) -> list[str]:
        """Start a new worker for each that has ended, so that applications get executors again. Return the lost."""
        lost = [worker for worker in self._workers if worker.returncode is not None]
        for worker in lost:
            new = self._start_worker(self._site_of[worker.name])  # if it fails, the lost one stays and is tried again
            self._workers.remove(worker)
            self._workers.append(new)
        return [worker.name for worker in lost]

    def stop(self) -> None:
        """End workers and master. The folder stays. May be called twice."""
        for child in [*reversed(self._workers), *([self._master] if self._master is not None else [])]:
            self._warden.stop(child)
        self._workers, self._master, self._port, self._ui_port = [], None, None, None

    def release(self) -> None:
        """Let go of what holds its processes, after they have ended: nothing here. May be called twice."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- how ---------------------------------------------------------------------------------------------------

    def _bring_up(self, deadline: float) -> None:
        # The reservation keeps others off the port until the master listens. On Linux, a second socket can bind a
        # port whose holder does not listen when both allow reuse, as Spark's does.
        home = self._sites.home
        with self._sites.entered():
            reservation = reserve_port(home.address, self._fixed_port or 0, "cluster.port")
        with reservation as reserved:
            self._port = reserved.getsockname()[1]
            self._master = self._start_daemon(
                home, "master", MASTER_CLASS,
                ["--host", home.address, "--port", str(self._port), "--webui-port", str(self._fixed_ui_port or 0)],
            )  # fmt: skip
            # The workers' JVMs start while the master opens its ports: they contact it last. (If started together,
            # a worker could ask too early, and Spark's workers ask again only after 5 to 15 seconds.)
            self._wait(lambda: _JVM_IS_UP in self._master_log(), "the master's JVM", deadline)
            self._workers = [self._start_worker(site) for site in self._sites.workers]
            self._wait(lambda: _UI_LINE.search(self._master_log()) is not None, "the master's web page", deadline)
        match = _UI_LINE.search(self._master_log())
        assert match is not None  # the wait above ended on it
        self._ui_port = int(match[1])
        self._wait(self._all_workers_are_registered, "the workers' registration", deadline)

    def _start_worker(self, site: Site) -> Child:
        slug = site.name.replace(" ", "-")
        worker = self._start_daemon(
            site, slug, WORKER_CLASS,
            ["--host", site.host, "--port", "0", "--webui-port", "0", "--cores", str(self._cores),
             "--memory", f"{self._memory_mib}m", "--work-dir", str(self.folder / "work" / slug), self.master_url],
        )  # fmt: skip
        self._site_of[worker.name] = site
        try:
            self._sites.settle(site, worker.pid)
        except BaseException:
            self._warden.stop(worker)
            raise
        return worker

    def _start_daemon(self, site: Site, slug: str, main_class: str, arguments: list[str]) -> Child:
        argv = self._installation.daemon_command(
            main_class,
            arguments,
            conf=self.folder / "conf",
            temporary=self.folder / "tmp",
            memory=self._daemon_memory,
            # No second port for submissions, and never another port than the requested one.
            properties={
                "spark.master.rest.enabled": "false",
                "spark.port.maxRetries": "0",
                **self._sites.java_properties,
            },
        )
        log = self.folder / "logs" / f"{slug}.log"
        if slug == "master":
            log.unlink(missing_ok=True)  # the ready-check must not read an earlier start
        env = {
            **without_spark_variables(),
            **self.spark_environment(),
            "SPARK_LOCAL_IP": site.address,
            "SPARK_LOG_DIR": str(self.folder / "logs"),
        }
        argv = self._sites.command(site, argv)
        return self._warden.start(f"Spark {site.name}", argv, log=log, env=env, cwd=self.folder)

    def _master_log(self) -> str:
        return _running(self._master).log.read_text(errors="replace")

    def _all_workers_are_registered(self) -> bool:
        try:
            state = self.state()
        except ClusterError:  # not answering yet; the wait itself notices a dead master
            return False
        return (state["status"], state["aliveworkers"]) == ("ALIVE", len(self._sites.workers))

    def _wait(self, is_there: Callable[[], bool], what: str, deadline: float) -> None:
        while not is_there():
            self.check()
            if self._stop_asked.is_set():
                raise ClusterError("stopped while the Spark cluster was starting", target="cluster")
            if time.monotonic() > deadline:
                tails = "\n".join(f"--- {c.log}\n{c.tail()}" for c in [_running(self._master), *self._workers])
                raise ClusterError(
                    f"the embedded Spark cluster is not up after {self._timeout_seconds:g} s: waited for {what}; "
                    f"the logs end with\n{tails}",
                    target="cluster",
                )
            self._stop_asked.wait(_POLL_SECONDS)


def _running(value: T | None) -> T:
    if value is None:
        raise ClusterError("the embedded cluster is not running; call start() first", target="cluster")
    return value


def _check_at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise ConfigurationError(f"cluster.{name}: {value} is too few; give at least 1", field=f"cluster.{name}")
