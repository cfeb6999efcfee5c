# SPDX-License-Identifier: Apache-2.0
"""Whatever comes from outside, only Penstock's own errors come out, and an answer comes at once.

Bytes and structures go into everything that reads what others wrote: the agent's protocol and its client, offsets and
progress reports, settings files, traces, arrival processes, AMQP messages.
"""

from __future__ import annotations

import gzip
import json
import lzma
import socket
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.property.controlled_world import FarEnd, Network, ToyCluster

from penstock.adaptors.agent.client import RemoteOperator
from penstock.adaptors.agent.wire import LineChannel, OversizedMessageError
from penstock.adaptors.kafka.offsets import parse_offsets
from penstock.adaptors.spark.file_stream import FileStreamArrivals
from penstock.adaptors.spark.progress import to_batch_progress
from penstock.arrivals import load_trace
from penstock.arrivals.from_map import load_map
from penstock.clock import VirtualClock
from penstock.errors import AdaptorError, ConfigurationError, MetricSourceError
from penstock.records import SourceProgress
from penstock.settings import parse_settings
from penstock.settings.files import read_settings

# A folder of one test is used by all its examples: each writes its file anew.
quick = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))

keys = st.sampled_from(
    ("do", "controller", "protocol", "ack", "action", "seconds", "D0", "D1", "maps", "logOffset", "topic", "0", "name",
     "arrivals", "operators", "shape", "trace", "broker", "objective", "executors", "durationMs", "timestamp",
     "sources", "id", "runId", "batchId", "description", "numInputRows", "triggerExecution", "addBatch")
) | st.text(max_size=8)  # fmt: skip
words = st.sampled_from(
    ("hello", "collect", "request", "release", "open", "beat", "stop_at_border", "constant:rate=5,duration=9s", "2s",
     "a:b", "-1", "1e400", "²", "9" * 5000, "2026-01-31T12:00:00.123Z", "embedded")
)  # fmt: skip
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.integers(-2, 5)
    | st.floats()
    | st.text(max_size=12)
    | words
)
structures = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5), max_leaves=25
)
objects = st.dictionaries(keys, structures, max_size=8)
deep = st.sampled_from(("[" * 100_000, '{"a":' * 100_000, "[" * 3000 + "]" * 3000, "9" * 5000, "NaN", "\ud800"))


def as_json(value: object) -> str:
    """JSON as Python writes it, with what only Python reads."""
    return json.dumps(value)


def network() -> Network:
    """An agent, and a way to it."""
    clock = VirtualClock(1e9)
    return Network(clock, ToyCluster(clock))


# --- the agent's protocol --------------------------------------------------------------------------------------


@quick
@given(st.binary(max_size=300) | st.builds(lambda text: text.encode(errors="surrogatepass") + b"\n", deep))
def test_bytes_on_the_wire(received: bytes) -> None:
    """A line is an object or a ValueError, and the end is the end."""
    near, far = socket.socketpair()
    with near, far:
        channel = LineChannel(near, 100_000_000)
        far.settimeout(5.0)
        near.settimeout(5.0)
        far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_000_000)
        far.sendall(received[:150_000])
        far.shutdown(socket.SHUT_WR)
        for _ in range(received.count(b"\n") + 1):
            try:
                if channel.receive() is None:
                    break
            except OversizedMessageError:
                break
            except ValueError:
                continue


@quick
@given(st.lists(objects | st.builds(lambda verb, rest: {**rest, "do": verb}, words, objects), max_size=4))
def test_structures_for_the_agent(messages: list[dict[str, Any]]) -> None:
    """Every message gets an answer; one that is not understood changes nothing, and the agent goes on."""
    net = network()
    end = FarEnd("c")
    hello = {"do": "hello", "controller": "c", "protocol": 1}
    for message in (hello, *messages):
        end.waiting.append(as_json(message))
        reply = net.agent._next_reply(cast("LineChannel", end))
        assert reply is not None
        json.dumps(reply, allow_nan=False)
    assert all(done.kind in ("release", "open") for done in net.cluster.log)
    end.waiting.append(as_json(hello))
    assert net.agent._next_reply(cast("LineChannel", end)) is not None


@quick
@given(st.lists(objects | st.builds(lambda rest: {**rest, "ok": True}, objects), min_size=1, max_size=4))
def test_structures_for_the_controller(replies: list[dict[str, Any]]) -> None:
    """Whatever an agent answers, the controller's side raises errors of the adaptor, which the loop expects."""

    class Puppet:
        """A channel whose far side says what it likes."""

        def send(self, message: dict[str, Any]) -> None:
            """Nobody listens."""

        def receive(self) -> dict[str, Any] | None:
            """The next reply."""
            return cast("dict[str, Any]", json.loads(as_json(replies.pop()))) if replies else None

        def close(self) -> None:
            """Nothing to close."""

    class PuppetOperator(RemoteOperator):
        """A client on such a channel."""

        def _open_channel(self) -> LineChannel:
            return cast("LineChannel", Puppet())

    remote = PuppetOperator("/nowhere/agent.sock")
    for call in (remote.collect, remote.beat, remote.release):
        try:
            call()
        except AdaptorError:
            continue


# --- what Spark says -------------------------------------------------------------------------------------------


@quick
@given(st.text(max_size=60) | st.builds(as_json, structures) | deep)
@example('{"logOffset":0}')
def test_offsets(text: str) -> None:
    """An offset is one, or is not known."""
    offsets = parse_offsets(text)
    assert offsets is None or all(offset >= 0 for offset in offsets.values())
    source = SourceProgress("FileStreamSource[file:/nowhere]", text, text, text, 1)
    # Offsets that happen to be valid mean a batch from one place to the same place: no files, and so no arrivals.
    arrivals = FileStreamArrivals("/nowhere").of(source)
    assert arrivals is None or arrivals.size == 0


@quick
@given(objects)
def test_progress_reports(report: dict[str, Any]) -> None:
    """A report is a batch, or an error that the listener expects."""
    try:
        to_batch_progress("operator", report)
    except MetricSourceError:
        return


# --- what users write ------------------------------------------------------------------------------------------


@quick
@given(
    content=st.binary(max_size=200)
    | st.builds(lambda data: as_json(data).encode(), objects)
    | st.builds(lambda data: yaml.safe_dump(data).encode(errors="surrogatepass"), objects)
    | st.sampled_from((b"a: &a [*a]", b"[" * 5000, b"? {a: b}\n: c", b"a: !!python/object:os.system {}", b"=: 1"))
)
def test_settings_files(content: bytes, tmp_path: Path) -> None:
    """A settings file is in order, or a ConfigurationError says what is not."""
    path = tmp_path / "settings.yaml"
    path.write_bytes(content)
    try:
        parse_settings(read_settings(path), "settings")
    except ConfigurationError:
        return


def test_aliases_that_stand_for_millions_of_values_are_refused(tmp_path: Path) -> None:
    """Nine lines of YAML would be a billion values: they are counted before anything looks through them."""
    path = tmp_path / "settings.yaml"
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    path.write_text("\n".join(lines))
    with pytest.raises(ConfigurationError, match="more than"):
        read_settings(path)


traces = st.binary(max_size=300) | st.lists(
    st.floats().map(str) | words | st.text(max_size=10) | st.integers().map(str), max_size=8
).map(lambda cells: "\n".join(cells).encode(errors="surrogatepass"))


@quick
@given(
    content=traces,
    suffix=st.sampled_from((".txt", ".csv", ".npy", ".parquet", ".txt.gz", ".csv.xz", ".csv.gz")),
    damage=st.none() | st.integers(0, 60),
    kind=st.sampled_from((None, "iats", "counts")),
)
def test_trace_files(content: bytes, suffix: str, damage: int | None, kind: str | None, tmp_path: Path) -> None:
    """A trace is read, or a ConfigurationError names the file; compressed ones may be damaged."""
    packed = content
    if suffix.endswith((".gz", ".xz")):
        packed = gzip.compress(content) if suffix.endswith(".gz") else lzma.compress(content)
    if damage is not None and damage < len(packed):
        packed = packed[:damage] + bytes([packed[damage] ^ 0xFF]) + packed[damage + 1 :]
    path = tmp_path / f"trace{suffix}"
    path.write_bytes(packed)
    try:
        load_trace(path, kind=kind)
    except ConfigurationError:
        return


matrices = st.lists(st.lists(st.floats() | st.integers(-3, 3) | leaves, max_size=3), max_size=3)


@quick
@given(
    content=st.binary(max_size=100)
    | deep.map(lambda text: text.encode(errors="surrogatepass"))
    | st.builds(lambda data: as_json(data).encode(), structures)
    | st.builds(lambda low, high: as_json({"D0": low, "D1": high}).encode(), matrices, matrices)
)
def test_map_files(content: bytes, tmp_path: Path) -> None:
    """A file is a process, or a ConfigurationError says which condition it breaks."""
    path = tmp_path / "process.json"
    path.write_bytes(content)
    try:
        load_map(path)
    except ConfigurationError:
        return


# --- what brokers deliver --------------------------------------------------------------------------------------


@quick
@given(
    headers=st.none() | st.dictionaries(st.sampled_from(("penstock-producer", "penstock-sequence", "penstock-due-us"))
                                        | st.text(max_size=5), structures, max_size=4),
    timestamp=leaves,
    message_id=st.none() | st.text(st.characters(codec="utf-8"), max_size=20),
    body=st.binary(max_size=20),
)  # fmt: skip
def test_amqp_messages(headers: dict[str, Any] | None, timestamp: Any, message_id: str | None, body: bytes) -> None:
    """Every message becomes a row: one that could not be taken would be delivered again without end."""
    pika = pytest.importorskip("pika", reason="needs the extra [rabbitmq]")
    from penstock.adaptors.rabbitmq.message import Message, as_batch

    properties = pika.BasicProperties(headers=headers, message_id=message_id)
    properties.timestamp = timestamp
    deliver = pika.spec.Basic.Deliver(routing_key="q", delivery_tag=1)
    rows = as_batch([Message.of(deliver, properties, body)], 0, [None])
    assert rows.column("body").to_pylist() == [body]
