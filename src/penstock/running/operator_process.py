# SPDX-License-Identifier: Apache-2.0
"""An operator's process: the driver of one query, with the agent that lets a controller observe and scale it.

``python -m penstock.running.operator_process JOB.json`` runs it; `OperatorJob` says what it does.
"""

from __future__ import annotations

import importlib
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from penstock._wiring import hold_query
from penstock.adaptors.private_file import write_private
from penstock.errors import ClusterError, ConfigurationError
from penstock.records import decode
from penstock.running.modules_beside import use_folder
from penstock.running.operator_job import (
    ENDED_AT_BORDER,
    ENDED_IN_BATCH,
    FAILURE_FILE,
    OperatorJob,
    output_folder,
)
from penstock.running.spark_properties import PROPERTIES_FILE, SUBMIT_ARGUMENTS, properties_text, submit_arguments

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from penstock.adaptors.agent.meters import Meters
    from penstock.adaptors.agent.server import OperatorAgent
    from penstock.adaptors.spark.query_probe import QueryProbe

_LOG = logging.getLogger(__name__)
_SCHEMA_FILE = "schema.json"
_UPSTREAM_PATIENCE_SECONDS = 180.0
MASTER_VARIABLE = "PENSTOCK_MASTER"
"""Names masters that operators of a run report to."""
_FAREWELL_SECONDS = 10.0
"""How long a process stays after its query has ended, so that the controller learns of it."""


class SessionMissingError(ConfigurationError):
    """A module uses Spark while it is imported, as with `@udf("string")` at its top, and no session is there yet."""


def load_app(path: str) -> Callable[[DataFrame, Mapping[str, str]], DataFrame | DataStreamWriter]:
    """The function named ``module:function``; ConfigurationError where there is none."""
    module_name, _, function_name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as fault:
        raise ConfigurationError(
            f"app: module {module_name!r} cannot be imported: {fault}; put it beside the settings file, or on "
            "PYTHONPATH",
            field="app",
        ) from fault
    except (Exception, SystemExit) as fault:  # the user's code: whatever it does at import is reported as its fault
        kind = SessionMissingError if _misses_session(fault) else ConfigurationError
        raise kind(
            f"app: module {module_name!r} fails at import: {type(fault).__name__}: {fault}", field="app"
        ) from fault
    function = getattr(module, function_name, None)
    if function is None:
        raise ConfigurationError(
            f"app: {module_name} has no {function_name!r}; name a function that it defines", field="app"
        )
    if not callable(function):
        raise ConfigurationError(f"app: {path} is not a function; name one as module:function", field="app")
    return function  # type: ignore[no-any-return]


def _misses_session(fault: BaseException) -> bool:
    """Whether PySpark refused something only because no session was there."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext
    from pyspark.errors import PySparkException

    if SparkContext._active_spark_context is not None:
        return False
    if isinstance(fault, PySparkException):
        return fault.getCondition() == "SESSION_OR_CONTEXT_NOT_EXISTS"
    innermost = traceback.extract_tb(fault.__traceback__)[-1:]  # col("x") is refused by a bare assertion
    return isinstance(fault, AssertionError) and any("/pyspark/" in Path(at.filename).as_posix() for at in innermost)


def run_operator(job: OperatorJob) -> int:
    """Run the operator until it is asked to stop or its query ends; returns the process's exit code."""
    from penstock.adaptors.agent.server import OperatorAgent
    from penstock.adaptors.kafka.query_failures import explain_failure
    from penstock.adaptors.spark.failure_words import failure_words
    from penstock.adaptors.spark.real_time_mode import explain_refusal

    spark = _session(job)
    stop = threading.Event()
    borders: SimpleQueue[float] = SimpleQueue()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        query = _start(spark, job)
        try:
            hold = hold_query(query, job.name, job.limits, job.mode)
        except Exception:
            if (failed := query.exception()) is None:
                raise
            # It failed in its first moments: that is what the user should read, not what we could not do with it.
            raise ClusterError(failure_words(str(failed)), target=job.name) from failed
        try:
            agent = OperatorAgent(
                job.name,
                hold.probe,
                hold.actuator,
                job.socket_path,
                meters=hold.meters,
                lease_seconds=job.lease_seconds,
                on_stop=stop.set,
                on_stop_at_border=borders.put,
            )
            code = 0
            if job.measure_to:
                from penstock.running.executor_round_trips_file import keep_measuring

                threading.Thread(target=keep_measuring, args=(spark.sparkContext, job, stop), daemon=True).start()
            with agent, _reporting(job, agent.meters):
                _LOG.warning("operator %s is ready", job.name)
                while not stop.is_set() and query.isActive and borders.empty():
                    stop.wait(0.2)
                if not stop.is_set() and not borders.empty():
                    code = _end_at_border(query, borders.get(), hold.probe, agent, stop)
                elif not stop.is_set():
                    if (failed := query.exception()) is not None:
                        _note_failure(job, failure_words(str(failed)))
                    # Stay a moment so that the controller learns from the agent that the query ended, and why.
                    stop.wait(_FAREWELL_SECONDS)
        finally:
            hold.close()
        failure = query.exception()
        query.stop()
        if failure is not None:
            _LOG.error("the query failed: %s", failure)
            if job.checkpoint_seconds is not None and (why := explain_refusal(str(failure))) is not None:
                _LOG.error("%s", why)
            if job.reads.topic is not None and (why := explain_failure(str(failure))) is not None:
                _LOG.error("%s", why)
        return code if failure is None else 1
    finally:
        spark.stop()


@contextmanager
def _reporting(job: OperatorJob, meters: Meters) -> Iterator[None]:
    """Report what the agent can measure to a master as well, where the environment names one."""
    if not (place := os.environ.get(MASTER_VARIABLE)):
        yield
        return
    from penstock.adaptors.agent.link import MasterLink
    from penstock.adaptors.agent.master_address import master_address
    from penstock.adaptors.agent.meter_agent import MeterAgent

    reporting = MeterAgent(meters)
    try:
        link = MasterLink(reporting, master_address(place), f"{job.name} in {job.folder}"[-200:]).start()
    except (ConfigurationError, OSError, RuntimeError) as fault:  # no certificates, no thread: the query goes on
        _LOG.error("nothing is reported to a master: %s", fault)
        reporting.close()
        yield
        return
    try:
        yield
    finally:
        link.close("the operator ends")
        reporting.close()


def _end_at_border(
    query: StreamingQuery, within_seconds: float, probe: QueryProbe, agent: OperatorAgent, hurry: threading.Event
) -> int:
    """Let the running batch end, begin no other, and stay until the controller knows of all batches."""
    from penstock.adaptors.spark.border_stop import BorderStop, stop_at_border

    ended = stop_at_border(query, within_seconds, hurry=hurry)
    _LOG.warning("the query ended %s", ended.value)
    until = time.monotonic() + _FAREWELL_SECONDS
    while not probe.has_heard_the_end and time.monotonic() < until:
        time.sleep(0.05)
    agent.await_last_collect(_FAREWELL_SECONDS)
    return ENDED_AT_BORDER if ended is BorderStop.AT_BORDER else ENDED_IN_BATCH


def _session(job: OperatorJob) -> SparkSession:
    from pyspark.sql import SparkSession

    # Options of a builder become arguments of the driver's command line, which every user of the machine can read.
    path = Path(job.folder) / PROPERTIES_FILE
    write_private(path, properties_text({**job.spark, **node_template(job)}))
    os.environ[SUBMIT_ARGUMENTS] = submit_arguments(path, os.environ.get(SUBMIT_ARGUMENTS))
    return SparkSession.builder.appName(job.name).master(job.master).getOrCreate()


def node_template(job: OperatorJob) -> dict[str, str]:
    """What has executors come to chosen nodes of Kubernetes: a pod template of Penstock's own."""
    from penstock.adaptors.spark.master_address import KUBERNETES_PREFIX

    if not job.limits.nodes or not job.master.startswith(KUBERNETES_PREFIX):
        return {}
    from penstock.adaptors.kubernetes.node_choice import TEMPLATE_SETTING, NodeTemplate

    path = Path(job.folder) / "executor-pod.json"
    NodeTemplate.made_from(job.spark.get(TEMPLATE_SETTING), path).point_at(job.limits.nodes)
    return {TEMPLATE_SETTING: str(path)}


def _start(spark: SparkSession, job: OperatorJob) -> StreamingQuery:
    if job.checkpoint_seconds is not None:
        from penstock.running.real_time_query import start_real_time

        result = _result(spark, job)
        return start_real_time(result, job, publish=lambda frame: _publish_schema(frame, Path(job.folder)))
    return query_writer(spark, job).start()


def query_writer(spark: SparkSession, job: OperatorJob) -> DataStreamWriter:
    """The operator's micro-batch query from its source to its sink, not started yet."""
    from pyspark.sql import DataFrame

    result = _result(spark, job)
    if isinstance(result, DataFrame):
        _publish_schema(result, Path(job.folder))
        result = _sink(result, job)
    writer = result.queryName(job.name).option("checkpointLocation", job.checkpoint_folder)
    if job.trigger_seconds is not None:
        writer = writer.trigger(processingTime=f"{job.trigger_seconds:g} seconds")
    return writer


def _result(spark: SparkSession, job: OperatorJob) -> DataFrame | DataStreamWriter:
    """What the operator's function makes of its input."""
    from penstock.adaptors.kafka.copies import has_own_watermark

    app, options = load_app(job.app), {**job.options, "output": job.output_folder}
    result = app(_source(spark, job), options)
    if not (job.reads.unique and job.reads.topic is not None and has_own_watermark(result)):
        return result
    _LOG.warning(
        "%s defines a watermark, so records are remembered for `unique` without an end: the state grows with every "
        "record; dropDuplicatesWithinWatermark in the function, in place of `unique`, would bound it",
        job.app,
    )
    lasting = replace(job, reads=replace(job.reads, unique_within_seconds=None))
    return app(_source(spark, lasting), options)


def _sink(result: DataFrame, job: OperatorJob) -> DataStreamWriter:
    if job.writes.is_dropped:
        return result.writeStream.format("noop")
    if job.writes.topic is None:
        return result.writeStream.format("parquet").option("path", job.output_folder)
    from penstock.adaptors.kafka.operator_stream import write_topic

    return write_topic(result, job.writes.topic.connection(), job.writes.topic.topic)


def _source(spark: SparkSession, job: OperatorJob) -> DataFrame:
    if job.reads.replay is not None:
        from penstock.adaptors.spark.replay import register

        register(spark)
        return spark.readStream.format("penstock_replay").options(**job.reads.replay).load()
    if job.reads.topic is not None:
        from penstock.adaptors.kafka.operator_stream import read_topic

        return read_topic(
            spark,
            job.reads.topic.connection(),
            job.reads.topic.topic,
            schema=None if job.reads.above is None else _await_schema(Path(job.reads.above)),
            unique=job.reads.unique,
            unique_within_seconds=job.reads.unique_within_seconds,
            options=job.reads.options,
        )
    if job.reads.queue is not None:
        from penstock.adaptors.rabbitmq.operator_stream import read_queue

        return read_queue(spark, job.reads.queue.options, is_numbered=job.reads.queue.is_numbered)
    if job.reads.above is None:
        raise ConfigurationError(
            f"operator {job.name}: reads: neither a replay, a topic, a queue nor a folder is given; give one of them",
            field="input",
        )
    folder = output_folder(Path(job.reads.above))
    # With the sink's log there from the start the reader sees only what the operator above has committed.
    (folder / "_spark_metadata").mkdir(parents=True, exist_ok=True)
    return spark.readStream.schema(_await_schema(folder.parent)).parquet(str(folder))


def _publish_schema(result: DataFrame, folder: Path) -> None:
    # Whole or not at all: the reader may look at any moment.
    draft = folder / (_SCHEMA_FILE + ".draft")
    draft.write_text(result.schema.json(), encoding="utf-8")
    draft.replace(folder / _SCHEMA_FILE)


def _await_schema(folder: Path) -> Any:
    import json

    from pyspark.sql.types import StructType

    path, deadline = folder / _SCHEMA_FILE, time.monotonic() + _UPSTREAM_PATIENCE_SECONDS
    while not path.exists():
        if time.monotonic() > deadline:
            raise ClusterError(f"the operator above did not start: {path} did not appear", target=str(folder))
        time.sleep(0.2)
    return StructType.fromJson(json.loads(path.read_text(encoding="utf-8")))


def main() -> int:
    """Run the job in the file named on the command line."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    use_folder()
    job = decode(OperatorJob, Path(sys.argv[1]).read_bytes())
    try:
        return run_operator(job)
    except ConfigurationError as fault:
        _LOG.error("%s", fault)  # the user's to fix: where our code found it does not help
        _note_failure(job, str(fault))
        return 2
    except Exception as fault:  # the user's function, or Spark: the log has where, the controller needs to know what
        from penstock.adaptors.spark.failure_words import failure_words

        _LOG.exception("the operator cannot run")
        own = str(fault) if isinstance(fault, ClusterError) else f"{type(fault).__name__}: {fault}"
        _note_failure(job, failure_words(own))
        return 1


def _note_failure(job: OperatorJob, words: str) -> None:
    (Path(job.folder) / FAILURE_FILE).write_text(words, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
