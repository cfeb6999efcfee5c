# SPDX-License-Identifier: Apache-2.0
"""The same as `test_fuzzed_inputs` for what other programs answer, and for smaller files: only our own errors."""

from __future__ import annotations

import io
import json
from collections.abc import Collection
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.property.test_fuzzed_inputs import (
    as_json,
    deep,
    flipped,
    folder,
    keys,
    leaves,
    payloads,
    quick,
    structures,
    words,
)

from penstock.adaptors.agent.host_agent import HostAgent
from penstock.adaptors.agent.meters import Meters
from penstock.adaptors.agent.record_meters import records_behind
from penstock.adaptors.agent.wire import HoldShares, Message, ToAgent, frame_of, read_from_agent, read_to_agent
from penstock.adaptors.kubernetes.executor_pods import executor_pod
from penstock.adaptors.kubernetes.nodes import node_rooms
from penstock.adaptors.process.detached import _read as read_process_file
from penstock.adaptors.rabbitmq.spool_arrivals import row_number
from penstock.adaptors.spark.executors import ExecutorsByRest
from penstock.adaptors.yarn.application_room import ApplicationRoom
from penstock.adaptors.yarn.resource_manager import ResourceManager
from penstock.arrivals.due import ReplayOffset
from penstock.errors import ConfigurationError, MetricSourceError
from penstock.latency_map import read_latency_map
from penstock.measuring.sample import Sample
from penstock.performance.cpu_demand_learning import CpuDemandLearner
from penstock.policies.mead.kept_demand import cpu_from_text, from_text
from penstock.records import ExecutorShare, HeldOnHost, SourceProgress, decode
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


A_HOLD = frame_of(HoldShares(3, [ExecutorShare("app", 0.5, "there", ("1",)), ExecutorShare("b", None)]))[4:]


class StrictHolder:
    """Takes what an agent of a host is told, and checks that it is what the protocol allows."""

    def hold(self, shares: Collection[ExecutorShare]) -> list[HeldOnHost]:
        """Nothing is held; a share that is none is refused as the kernel's side does."""
        for share in shares:
            assert isinstance(share.application_id, str)
            assert all(isinstance(executor, str) for executor in share.held)
            if share.cores_each is not None and not share.cores_each > 0.0:
                raise ValueError("cores_each: it must be above 0")
        return [HeldOnHost(share.application_id) for share in shares]


class Talk:
    """A connection on which bytes come, and what is answered."""

    def __init__(self, payloads: list[bytes]) -> None:
        self._coming = list(payloads)
        self.answers: list[Message] = []

    def send(self, message: Message) -> None:
        """Take an answer, as it goes over the wire."""
        self.answers.append(read_from_agent(frame_of(message)[4:]))

    def receive(self) -> ToAgent | None:
        """The next one."""
        return read_to_agent(self._coming.pop(0)) if self._coming else None

    def close(self) -> None:
        """Nothing to close."""


@quick
@given(st.lists(payloads | st.builds(flipped, st.just(A_HOLD), st.integers(0, 1000), st.integers(0, 255)), max_size=4))
@example([A_HOLD])
def test_messages_for_the_agent_of_a_host(messages: list[bytes]) -> None:
    """Every order is carried out or refused; one that cannot be read ends its connection alone."""
    agent = HostAgent(Meters(), StrictHolder())
    for message in (*messages, A_HOLD):
        fence = agent.fence
        talk = Talk([message])
        agent.serve(talk)
        assert agent.fence >= fence
        assert len(talk.answers) <= 1
    agent.close()


A_NODE = {"state": "RUNNING", "availMemoryMB": 4096, "availableVirtualCores": 3}
A_QUEUE = {
    "queueName": "default", "queuePath": "root.default", "userLimitFactor": 1.0,
    "capacities": {"queueCapacitiesByPartition": [
        {"partitionName": "", "effectiveMaxResource": {"memory": 8192, "vCores": 8},
         "effectiveMinResource": {"memory": 4096, "vCores": 4}}]},
    "resources": {"resourceUsagesByPartition": [{"partitionName": "", "used": {"memory": 1024, "vCores": 1}}]},
    "users": {"user": [{"username": "ada", "resources": {"resourceUsagesByPartition": [
        {"partitionName": "", "used": {"memory": 1024, "vCores": 1}}]}}]},
}  # fmt: skip
YARN_ANSWERS: dict[str, Any] = {
    "/apps/a": {"app": {"queue": "default", "user": "ada"}},
    "/apps/a/appattempts": {"appAttempts": {"appAttempt": [{"id": 1, "appAttemptId": "t", "containerId": "m"}]}},
    "/apps/a/appattempts/t/containers": {"container": [
        {"containerId": "c", "allocatedMB": 1024, "allocatedVCores": 1, "containerState": "RUNNING"}]},
    "/nodes?states=RUNNING": {"nodes": {"node": [A_NODE]}},
    "/scheduler": {"scheduler": {"schedulerInfo": {"queues": {"queue": [A_QUEUE]}}}},
    "/scheduler-overview": {"scheduler": {"schedulingResourceType": "[memory-mb (unit=Mi), vcores]"}},
}  # fmt: skip
numbers = st.sampled_from((float("inf"), float("nan"), -1, 0, 1e308, 2**70, "7", None)) | leaves


@st.composite
def changed_answers(draw: st.DrawFn) -> dict[str, Any]:
    """A ResourceManager's answers of which some part is another."""
    answers = json.loads(json.dumps(YARN_ANSWERS))
    for _ in range(draw(st.integers(0, 3))):
        place: Any = answers
        while True:
            names = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not names:
                break
            name = draw(st.sampled_from(names))
            inner = place[name]
            if not isinstance(inner, (dict, list)) or draw(st.integers(0, 5)) == 0:
                place[name] = draw(numbers | structures | st.dictionaries(keys, structures, max_size=3))
                break
            place = inner
    return cast("dict[str, Any]", answers)


class ToyManager(ResourceManager):
    """Answers as it is told; what is no object is refused, as the real one does."""

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__(())
        self._answers = answers

    def get(self, path: str) -> dict[str, Any]:
        """The answer to a path."""
        answer = self._answers.get(path)
        if not isinstance(answer, dict):
            raise MetricSourceError("its answer is no object", target="yarn")
        return answer


@quick
@given(changed_answers())
@example(YARN_ANSWERS)
@example({**YARN_ANSWERS, "/nodes?states=RUNNING": {"nodes": {"node": [{**A_NODE, "availMemoryMB": float("inf")}]}}})
def test_what_yarn_says_of_its_queues_and_nodes(answers: dict[str, Any]) -> None:
    """Room is a number of executors and a reason, or an error of the adaptor says what cannot be read."""
    try:
        room = ApplicationRoom(ToyManager(answers), "a", {})()
    except MetricSourceError:
        return
    assert room is None or (isinstance(room.executors, int) and room.executors >= 0)


sums = numbers | st.floats(1e-3, 1e6) | st.sampled_from((12.0, 1e-200, 1e200, 5e-324, 10**400))


@quick
@given(st.lists(sums, min_size=7, max_size=7) | structures, st.lists(st.lists(sums, min_size=6, max_size=6)))
@example([12.0, 6.0, 4.8, 1200.0, 0.97, 240.0, 60000.0], [[100.0, 50, 0.4, 1, 1.0, 90.0]])
def test_what_an_earlier_run_was_taught(windows: Any, batches: list[Any]) -> None:
    """A demand comes of it, as of what is measured after it; or it is learnt anew."""
    kept = json.dumps({"version": 1, "query": "q", "windows": windows, "batches": batches})
    from_text("q", kept)
    memory = cpu_from_text("q", kept)
    if memory is None:
        return
    learner = CpuDemandLearner()
    learner.begin_with(memory)
    assert learner.learnt().cpu_seconds > 0.0
    learner.observe(0.5, 100.0)
    assert learner.learnt().cpu_seconds > 0.0
