# SPDX-License-Identifier: Apache-2.0
"""What a run and a measurement start alike: the embedded cluster, and the job of an operator on it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.records import Limits, Mode
from penstock.running.checks import executor_bytes, executor_cores
from penstock.running.driver_addresses import is_local_master
from penstock.running.operator_job import JobInput, JobOutput, OperatorJob
from penstock.running.spark_configuration import spark_configuration
from penstock.settings import ClusterSettings, GeoSettings, OperatorSettings
from penstock.units import parse_bytes

if TYPE_CHECKING:
    from penstock.adaptors.process.children import Warden
    from penstock.adaptors.spark.cluster import EmbeddedCluster


def embedded_cluster(
    wanted: ClusterSettings,
    operators: Sequence[OperatorSettings],
    warden: Warden,
    folder: Path,
    *,
    stop: threading.Event | None = None,
) -> EmbeddedCluster:
    """A cluster, not yet started, that has room for all that these operators may ask for at a time.

    `stop` ends the wait for its start.
    """
    from penstock.adaptors.spark.cluster import EmbeddedCluster

    if wanted.geo is not None:
        return _geo_cluster(wanted.geo, operators, warden, folder, memory=wanted.memory_per_worker, stop=stop)
    cores = sum(map(executor_cores, operators))
    heap = sum(map(executor_bytes, operators))
    return EmbeddedCluster(
        warden,
        folder,
        workers=wanted.workers,
        cores_per_worker=wanted.cores_per_worker or -(-cores // wanted.workers),
        memory_per_worker=wanted.memory_per_worker or f"{int(heap / wanted.workers) >> 20}m",
        stop=stop,
    )


def _geo_cluster(
    geo: GeoSettings,
    operators: Sequence[OperatorSettings],
    warden: Warden,
    folder: Path,
    *,
    memory: str | None,
    stop: threading.Event | None,
) -> EmbeddedCluster:
    from penstock.adaptors.geo.cluster import GeoCluster
    from penstock.adaptors.geo.delays import OneWayDelays

    largest = max(parse_bytes(operator.executor_sizes[-1].memory) for operator in operators)
    return GeoCluster(
        warden,
        folder,
        geo.nodes,
        OneWayDelays.of_round_trips(geo.pairs),
        slots=geo.slots,
        memory_per_worker=memory or f"{geo.slots * largest >> 20}m",
        stop=stop,
    )


def make_job(
    operator: OperatorSettings,
    reads: JobInput,
    writes: JobOutput,
    *,
    master: str,
    folder: Path,
    socket_path: Path,
    mode: Mode,
    streams: Mapping[str, str],
    is_embedded: bool,
    addresses: Mapping[str, str] | None = None,
    driver_host: str = "127.0.0.1",
    limits: Limits | None = None,
    measure_to: Mapping[str, tuple[str, int]] | None = None,
) -> OperatorJob:
    """The job of an operator's process.

    Parameters
    ----------
    operator, reads, writes
        What it is, and where its records come from and go to.
    master, is_embedded
        Where it runs, and whether that is the embedded cluster.
    folder, socket_path
        Its own folder, and where its agent listens.
    mode
        Whether it may be scaled.
    streams
        What the operator's Spark configuration needs for its streams.
    addresses
        What it needs for its driver to be reached (`driver_addresses`).
    driver_host
        On this machine: where its driver listens.
    limits
        What it may have, with nodes to choose from; None: as its settings say, and the cluster chooses.
    measure_to
        By node, where something listens: executors measure round trips to there. None: they measure nothing.
    """
    is_local = is_embedded or is_local_master(master)
    return OperatorJob(
        name=operator.name,
        app=operator.app,
        master=master,
        limits=operator.limits() if limits is None else limits,
        mode=mode,
        folder=str(folder),
        socket_path=str(socket_path),
        reads=reads,
        writes=writes,
        options=operator.options,
        spark={
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            **(addresses or {}),
            **spark_configuration(
                operator,
                streams,
                is_local=is_local,
                source_partitions=reads.partitions,
                driver_host=driver_host,
                limits=limits,
            ),
        },
        trigger_seconds=operator.trigger_seconds,
        checkpoint_seconds=operator.checkpoint_seconds,
        measure_to=measure_to or {},
    )
