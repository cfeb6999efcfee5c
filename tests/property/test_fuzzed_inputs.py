# SPDX-License-Identifier: Apache-2.0
"""Whatever comes from outside, only Penstock's own errors come out, and an answer comes at once.

Bytes and structures go into everything that reads what others wrote: the agent's protocol and its client, offsets and
progress reports, settings files, traces, arrival processes, AMQP messages and frames.
"""

from __future__ import annotations

import atexit
import functools
import gzip
import json
import lzma
import os
import socket
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.property.controlled_world import FarEnd, Network, ToyCluster

from penstock.adaptors.agent.channel import AgentChannel
from penstock.adaptors.agent.client import RemoteOperator
from penstock.adaptors.agent.server import _NoReply
from penstock.adaptors.agent.wire import (
    PROTOCOL,
    FromAgent,
    Hello,
    MalformedMessageError,
    OversizedMessageError,
    Report,
    Reports,
    Request,
    frame_of,
    read_from_agent,
)
from penstock.adaptors.kafka.offsets import parse_offsets
from penstock.adaptors.postgresql.address import StoreAddress
from penstock.adaptors.spark.file_stream import FileStreamArrivals
from penstock.adaptors.spark.progress import to_batch_progress
from penstock.arrivals import load_trace
from penstock.arrivals.from_map import load_map
from penstock.clock import VirtualClock
from penstock.errors import AdaptorError, ConfigurationError, MetricSourceError
from penstock.records import Action, Allocation, SourceProgress
from penstock.service.attached_pipeline import read_attached
from penstock.settings import parse_settings
from penstock.settings.files import read_settings

# `scripts/fuzz.py` gives these tests inputs for hours; PENSTOCK_FUZZ_EXAMPLES sets how many pytest gives.
quick = settings(
    max_examples=int(os.environ.get("PENSTOCK_FUZZ_EXAMPLES", "60")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

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


@functools.cache
def folder() -> Path:
    """Where inputs are written that are read from files, each over the one before. No fixture: `scripts/fuzz.py` calls
    the tests by itself."""
    made = tempfile.TemporaryDirectory(prefix="penstock-fuzz-")
    atexit.register(made.cleanup)
    return Path(made.name)


def network() -> Network:
    """An agent, and a way to it."""
    clock = VirtualClock(1e9)
    return Network(clock, ToyCluster(clock))


# --- the agent's protocol --------------------------------------------------------------------------------------


packable = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.integers(-2, 5) | st.floats()
    | st.binary(max_size=40) | st.text(max_size=12) | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=15,
)  # fmt: skip
tags = st.sampled_from(
    ("hello", "collect", "request", "release", "open", "beat", "stop", "stop_at_border", "subscribe", "hold_shares",
     "pulse", "done", "welcome", "collected", "shares_held", "refusal", "reports", "advertise", "goodbye", "greeting",
     "challenge", "introduction", "accepted")
)  # fmt: skip
arrays = st.builds(lambda tag, rest: [tag, *rest], tags | st.text(max_size=5), st.lists(packable, max_size=8))
payloads = st.binary(max_size=200) | st.builds(msgspec.msgpack.encode, arrays | packable)
A_REQUEST = frame_of(Request(Action("operator", 0.0, Allocation(2, 0.5), None)))[4:]
A_REPORT = frame_of(Reports([Report(1.0, {0: 1.0, 1: None})], 3))[4:]


def flipped(payload: bytes, place: int, value: int) -> bytes:
    """A message of which one byte is another."""
    place %= len(payload)
    return payload[:place] + bytes([value]) + payload[place + 1 :]


damaged = st.builds(flipped, st.sampled_from((A_REQUEST, A_REPORT)), st.integers(0, 500), st.integers(0, 255))


@quick
@given(st.binary(max_size=300) | st.builds(lambda ps: b"".join(len(p).to_bytes(4, "big") + p for p in ps),
                                           st.lists(payloads | damaged, max_size=4)))  # fmt: skip
def test_bytes_on_the_wire(received: bytes) -> None:
    """A frame is a message or a ValueError, and the end is the end."""
    near, far = socket.socketpair()
    with near, far:
        channel = AgentChannel(near, 10_000)
        far.settimeout(5.0)
        near.settimeout(5.0)
        far.sendall(received)
        far.shutdown(socket.SHUT_WR)
        while True:
            try:
                if channel.receive() is None:
                    break
            except OversizedMessageError:
                break
            except MalformedMessageError:
                continue


@quick
@given(payloads | damaged)
def test_what_is_read_from_an_agent_is_a_message_or_an_error(payload: bytes) -> None:
    """The master's side reads whatever is sent, and what it takes it can write again."""
    try:
        message = read_from_agent(payload)
    except MalformedMessageError:
        return
    frame_of(message)


@quick
@given(st.lists(payloads | damaged, max_size=4))
def test_structures_for_the_agent(messages: list[bytes]) -> None:
    """Every message gets an answer or wants none; one that is not understood changes nothing, and the agent goes on."""
    net = network()
    end = FarEnd("c")
    hello = frame_of(Hello("c", PROTOCOL))[4:]
    for message in (hello, *messages):
        end.waiting.append(message)
        reply = net.agent._next_reply(end)
        assert reply is not None
        if not isinstance(reply, _NoReply):
            frame_of(reply)
    allowed = {"release", "open", "request"}
    assert all(done.kind in allowed for done in net.cluster.log)
    assert all(done.target is None or 0 < done.target.cpu_share <= 1 for done in net.cluster.log)
    net.agent.close()


@quick
@given(st.lists(payloads, min_size=1, max_size=4))
def test_structures_for_the_controller(replies: list[bytes]) -> None:
    """Whatever an agent answers, the controller's side raises errors of the adaptor, which the loop expects."""

    class Puppet:
        """A channel whose far side says what it likes."""

        def send(self, message: object) -> None:
            """Nobody listens."""

        def receive(self) -> FromAgent | None:
            """The next reply."""
            return read_from_agent(replies.pop()) if replies else None

        def close(self) -> None:
            """Nothing to close."""

    remote = RemoteOperator("nowhere", connect=Puppet)
    for call in (remote.collect, remote.beat, remote.release):
        try:
            call()
        except AdaptorError:
            continue


A_QUERY = {
    "name": "q", "interval": 1, "objective": {"p95": "2s"}, "policy": {"name": "threshold", "options": {}}, "cap": None,
    "operators": [{"name": "q", "app": "a:b", "executors": [1, 4], "cpu_shares": [0.5, 1.0]}], "cores_per_executor": 1,
}  # fmt: skip
replaced = st.builds(lambda name, value: {**A_QUERY, name: value}, st.sampled_from(sorted(A_QUERY)), structures)
within = st.builds(
    lambda name, value: {**A_QUERY, "operators": [{**A_QUERY["operators"][0], name: value}]},  # type: ignore[index]
    keys | st.sampled_from(("cpu_shares", "sizes", "spark", "options", "input")),
    structures,
)


@quick
@given(st.text(max_size=60) | st.builds(as_json, structures | replaced | within) | deep)
@example(as_json(A_QUERY))
def test_what_an_agent_says_of_its_query(text: str) -> None:
    """A master reads settings that come over the network: they are a query's, or are refused with a word."""
    try:
        found = read_attached(text, "q")
    except ConfigurationError:
        return
    assert found.name == "q"


@quick
@given(st.text(max_size=60) | st.builds("postgresql://{}".format, st.text(max_size=60)))
@example("postgresql://ada:abra@db/streams?schema=logs")
@example("postgresql://[::1/x")
@example("postgresql://ada:abra@\uff03/streams")
@example("postgresql://ada:abra@db:x/streams")
def test_addresses_of_stores(text: str) -> None:
    """An address is one, or is refused; a password is shown in neither case."""
    text = text.replace("://", "://ada:abra@", 1) if "@" not in text else text
    try:
        shown = StoreAddress.parse(text).shown
    except ConfigurationError as fault:
        shown = str(fault)
    assert "abra@" not in shown


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
    | st.sampled_from((b"a: &a [*a]", b"[" * 1000, b"? {a: b}\n: c", b"a: !!python/object:os.system {}", b"=: 1"))
)
def test_settings_files(content: bytes) -> None:
    """A settings file is in order, or a ConfigurationError says what is not."""
    path = folder() / "settings.yaml"
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
def test_trace_files(content: bytes, suffix: str, damage: int | None, kind: str | None) -> None:
    """A trace is read, or a ConfigurationError names the file; compressed ones may be damaged."""
    packed = content
    if suffix.endswith((".gz", ".xz")):
        packed = gzip.compress(content) if suffix.endswith(".gz") else lzma.compress(content)
    if damage is not None and damage < len(packed):
        packed = packed[:damage] + bytes([packed[damage] ^ 0xFF]) + packed[damage + 1 :]
    path = folder() / f"trace{suffix}"
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
def test_map_files(content: bytes) -> None:
    """A file is a process, or a ConfigurationError says which condition it breaks."""
    path = folder() / "process.json"
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


table_values = st.sampled_from((b"T", b"d", b"f", b"D", b"A", b"F", b"S", b"x", b"V", b"l", b"?")).flatmap(
    lambda kind: st.builds(lambda rest: kind + rest, st.sampled_from((b"\0" * 8, b"\xff" * 8)) | st.binary(max_size=12))
)
tables = st.lists(st.builds(lambda name, value: bytes([len(name)]) + name + value,
                            st.sampled_from((b"penstock-sequence", b"penstock-due-us", b"a")) | st.binary(max_size=4),
                            table_values), max_size=4).map(b"".join)  # fmt: skip
properties = st.binary(max_size=60) | st.builds(
    lambda flags, table, lie, rest: flags.to_bytes(2, "big") + (len(table) + lie).to_bytes(4, "big") + table + rest,
    st.sampled_from((0x2000, 0x2080, 0x2040, 0xFFFC)) | st.integers(0, 2**16 - 1),
    tables,
    st.sampled_from((0, 0, 0, 1, 100)),
    st.binary(max_size=20),
)


def amqp_frame(kind: int, payload: bytes, end: int) -> bytes:
    """A frame of channel 1."""
    return bytes([kind, 0, 1]) + len(payload).to_bytes(4, "big") + payload + bytes([end])


delivered = st.builds(
    lambda tag, key: b"\0\x3c\0\x3c\x01c" + tag.to_bytes(8, "big") + b"\0\0" + bytes([len(key)]) + key,
    st.integers(0, 2**64 - 1),
    st.binary(max_size=5),
)
ends = st.just(0xCE) | st.integers(0, 255)
amqp_messages = st.builds(
    lambda deliver, found, body, lie: amqp_frame(1, deliver, 0xCE)
    + amqp_frame(2, b"\0\x3c\0\0" + (len(body) + lie).to_bytes(8, "big") + found, 0xCE)
    + amqp_frame(3, body, 0xCE),
    delivered, properties, st.binary(min_size=1, max_size=20), st.sampled_from((0, 0, 0, 5)),
)  # fmt: skip
amqp_frames = st.builds(
    amqp_frame,
    st.sampled_from((1, 2, 3, 8)) | st.integers(0, 255),
    st.binary(max_size=60) | delivered | st.builds(lambda found: b"\0\x3c" + bytes(10) + found, properties),
    ends,
)


@quick
@given(st.lists(amqp_messages | amqp_frames | st.binary(max_size=30), max_size=4).map(b"".join), st.integers(1, 200))
def test_amqp_frames(received: bytes, piece: int) -> None:
    """Bytes from a server are frames or an error of pika's protocol, which a connection ends with and we explain; what
    comes of them as a message becomes a row, and so it is taken, whatever its headers are."""
    pytest.importorskip("pika", reason="needs the extra [rabbitmq]")
    from pika import exceptions, frame
    from pika.channel import ContentFrameAssembler

    from penstock.adaptors.rabbitmq.connection import RabbitMQConnection
    from penstock.adaptors.rabbitmq.message import Message, as_batch
    from penstock.adaptors.rabbitmq.poison_file import PoisonFile
    from penstock.adaptors.rabbitmq.queue_tap import QueueTap
    from penstock.adaptors.rabbitmq.tolerant_frames import TolerantConnection

    nobody = RabbitMQConnection("amqp://127.0.0.1:1/")
    tap, messages = QueueTap(nobody, "q"), ContentFrameAssembler()
    taken = list[Message]()

    class Ear(TolerantConnection):
        """What reads of a connection, without a socket, with a channel that takes messages."""

        def __init__(self) -> None:
            self._frame_buffer = b""
            self.bytes_received = self.frames_received = 0
            self._awaited: type = frame.Method

        def _process_frame(self, found: Any) -> None:
            if isinstance(found, frame.Method) and found.method.NAME != "Basic.Deliver":
                return
            if not isinstance(found, (frame.Method, frame.Header, frame.Body)):
                return
            if not isinstance(found, self._awaited):
                raise exceptions.UnexpectedFrameError(found)
            whole = messages.process(found)
            self._awaited = frame.Body if isinstance(found, (frame.Header, frame.Body)) else frame.Header
            if whole is not None:
                self._awaited = frame.Method
                method, header, body = whole
                tap._on_message(None, method.method, header.properties, body)
                # A server counts the deliveries of a channel from 1: none comes as far as this.
                if method.method.delivery_tag < 2**63:
                    taken.append(Message.of(method.method, header.properties, body))

    ear = Ear()
    try:
        with nobody.explained():
            for begin in range(0, len(received), piece):
                ear._on_data_available(received[begin : begin + piece])
                assert len(ear._frame_buffer) <= len(received)
    except AdaptorError as fault:
        if not (fault.retryable and isinstance(fault.__cause__, exceptions.ProtocolSyntaxError)):
            raise
    rows = as_batch(taken, 0, [None] * len(taken))
    assert rows.column("body").to_pylist() == [message.body for message in taken]
    file = PoisonFile(folder() / "poison.jsonl")
    file.path.unlink(missing_ok=True)
    for message in taken:
        file.add(message)
    tap.take()
