# SPDX-License-Identifier: Apache-2.0
"""The same as `test_fuzzed_inputs` for what other programs answer, and for smaller files: only our own errors."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.property.test_fuzzed_inputs import as_json, deep, folder, leaves, quick, structures, words

from penstock.adaptors.agent.record_meters import records_behind
from penstock.adaptors.kubernetes.executor_pods import executor_pod
from penstock.adaptors.kubernetes.nodes import node_rooms
from penstock.adaptors.process.detached import _read as read_process_file
from penstock.adaptors.rabbitmq.spool_arrivals import row_number
from penstock.adaptors.spark.executors import ExecutorsByRest
from penstock.arrivals.due import ReplayOffset
from penstock.errors import ConfigurationError, MetricSourceError
from penstock.latency_map import read_latency_map
from penstock.measuring.sample import Sample
from penstock.records import SourceProgress, decode
from penstock.rules.text import parse_text
from penstock.service.address_file import read_address

offset_keys = st.sampled_from(("epoch_us", "index", "spool", "number", "process", "pid", "created", "address",
                               "read_token", "operate_token")) | st.text(max_size=4)  # fmt: skip
documents = (
    st.text(max_size=60)
    | st.builds(as_json, structures)
    | st.builds(as_json, st.dictionaries(offset_keys, leaves, max_size=6))
    | deep
)


@quick
@given(documents)
@example('{"epoch_us": 1, "index": 2}')
def test_offsets_of_own_sources(text: str) -> None:
    """An offset is that of a replay or a spool, or is not known."""
    found = ReplayOffset.parse(text)
    assert found is None or {type(found.epoch_us), type(found.index)} == {int}
    number = row_number(text)
    assert number is None or number >= 0
    behind = records_behind(SourceProgress("a source", None, text, text, 1))
    assert behind is None or behind == 0


A_LISTED_EXECUTOR = {
    "id": "1", "hostPort": "h:1", "totalCores": 1, "isActive": True, "activeTasks": 0, "totalDuration": 5,
    "addTime": "2026-01-31T12:00:00.123GMT",
}  # fmt: skip
listed = st.lists(
    st.builds(
        lambda name, value: {**A_LISTED_EXECUTOR, name: value}, st.sampled_from(sorted(A_LISTED_EXECUTOR)), leaves
    )
    | st.dictionaries(st.sampled_from(sorted(A_LISTED_EXECUTOR)), leaves)
    | structures,
    max_size=3,
)


class Answer(io.BytesIO):
    """What a web page says to whoever opens it."""

    def open(self, *_: Any, **__: Any) -> Answer:
        """Nobody is asked."""
        return self


@quick
@given(st.builds(as_json, listed) | st.text(max_size=30) | deep)
@example(as_json([A_LISTED_EXECUTOR]))
def test_executors_that_a_driver_lists(text: str) -> None:
    """Executors are read, or an error says that they cannot be: one that a pass expects."""
    page = ExecutorsByRest("http://nowhere", "app")
    page._opener = Answer(text.encode(errors="surrogatepass"))  # type: ignore[assignment]
    try:
        page()
    except MetricSourceError:
        return


cells = (
    st.sampled_from(("from", "to", "round_trip", "a", "b", "20ms", "-1", "nan", "inf", '"', "#", "x" * 140_000)) | words
)
rows = st.lists(cells | st.text(max_size=6), max_size=4).map(",".join)


@quick
@given(st.binary(max_size=60) | st.builds(
    lambda header, lines: "\n".join((*header, *lines)).encode(errors="surrogatepass"),
    st.sampled_from(((), ("from,to,round_trip",))), st.lists(rows, max_size=4)))  # fmt: skip
@example(b"from,to,round_trip\na,b,20ms")
def test_tables_of_round_trips(content: bytes) -> None:
    """A table is read, or a ConfigurationError says what is wrong with it; no time in it is strange."""
    path = folder() / "round-trips.csv"
    path.write_bytes(content)
    try:
        table = read_latency_map(path)
    except ConfigurationError:
        return
    assert 0.0 <= table.largest(table.nodes) < float("inf")


rule_words = st.sampled_from(
    ('rule "a":', "scale-out", "scale-in", "scale-up", "*", "matcher", "by", "2", "x2", "never above 8", "when",
     "queue_length", "above", "below", "300", "for", "30 seconds", "unless", "within", "5 minutes", "keep", "between",
     "on", "monday", "from", "08:00", "to", "25:00", "\n", '"', "%", "1e999", "9" * 5000, "-1")
)  # fmt: skip


@quick
@given(st.text(max_size=80) | st.lists(rule_words | st.text(max_size=4), max_size=25).map(" ".join))
@example('rule "calm":\n  scale-in * by x2\n  when queue_length below 1 for 60 seconds')
def test_rules_as_text(text: str) -> None:
    """A text is rules and findings, whatever it is."""
    reading = parse_text(text, "rules")
    for mistake in reading.mistakes:
        assert str(mistake)


@quick
@given(documents | st.binary(max_size=40).map(lambda given: given.decode("latin-1")))
def test_files_that_name_processes_and_services(text: str) -> None:
    """A file in a run folder names a process or a service, or it does not."""
    path = folder() / "process.json"
    path.write_bytes(text.encode(errors="surrogatepass"))
    read_process_file(path)
    try:
        read_address(path)
    except ConfigurationError:
        return


@quick
@given(documents)
def test_samples_of_a_measurement(text: str) -> None:
    """A line is a sample, or a ConfigurationError says that it is none."""
    try:
        decode(Sample, text.encode(errors="surrogatepass"))
    except ConfigurationError:
        return


quantities = st.sampled_from(("500m", "2", "0.1", "100e-3", "1E3", "2k", "1Ki", "1M", ".5", "", "-1")) | st.text(
    max_size=5
)
resources = st.none() | st.dictionaries(
    st.sampled_from(("requests", "limits")), st.none() | st.dictionaries(st.just("cpu"), quantities | st.none())
)
conditions = st.none() | st.lists(st.fixed_dictionaries(
    {"type": st.sampled_from(("PodResizePending", "PodResizeInProgress", "Ready")),
     "status": st.sampled_from(("True", "False", "Unknown"))},
    optional={"reason": st.sampled_from(("Infeasible", "Deferred", "Error")),
              "message": st.none() | st.text(max_size=5),
              "observedGeneration": st.none() | st.integers(0, 3)}), max_size=3)  # fmt: skip
pods = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"name": st.text(max_size=5)}, optional={
        "labels": st.none() | st.dictionaries(st.just("spark-exec-id"), st.text(max_size=3)),
        "generation": st.none() | st.integers(0, 3), "deletionTimestamp": st.none() | st.text(max_size=3)}),
     "spec": st.fixed_dictionaries({"containers": st.lists(st.fixed_dictionaries(
         {"name": st.sampled_from(("spark-kubernetes-executor", "other"))}, optional={"resources": resources}),
         min_size=1, max_size=2)}, optional={"nodeName": st.none() | st.sampled_from(("a", "b"))})},
    optional={"status": st.none() | st.fixed_dictionaries({}, optional={
        "phase": st.sampled_from(("Running", "Pending", "Failed", "Succeeded")), "conditions": conditions,
        "containerStatuses": st.none() | st.lists(st.fixed_dictionaries(
            {"name": st.sampled_from(("spark-kubernetes-executor", "other"))}, optional={"resources": resources}),
            max_size=2)})},
)  # fmt: skip
nodes = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"name": st.sampled_from(("a", "b"))}),
     "status": st.fixed_dictionaries({"allocatable": st.fixed_dictionaries({"cpu": quantities})},
                                     optional={"conditions": conditions})},
    optional={"spec": st.none() | st.fixed_dictionaries({}, optional={
        "unschedulable": st.none() | st.booleans(),
        "taints": st.none() | st.lists(st.fixed_dictionaries({"effect": st.sampled_from(("NoSchedule", "x"))}),
                                       max_size=2)})},
)  # fmt: skip


@quick
@given(st.lists(pods, max_size=3), st.lists(nodes, max_size=2))
def test_what_kubernetes_says_of_pods_and_nodes(found: list[dict[str, Any]], places: list[dict[str, Any]]) -> None:
    """Whatever the API's schema allows is read, or a ConfigurationError names the amount of CPU that is none."""
    pytest.importorskip("kubernetes", reason="needs the extra [kubernetes]")
    try:
        for pod in found:
            executor_pod(pod)
        rooms = node_rooms(places, found)
    except ConfigurationError:
        return
    assert all(room.free_cores >= 0.0 for room in rooms)
