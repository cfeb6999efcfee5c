# SPDX-License-Identifier: Apache-2.0
"""A controller that takes a run over: what is left to send, what was counted before it, and when all is done."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.account import OperatorAccount
from penstock.adaptors.process.children import Warden
from penstock.adaptors.produce.sent_load import SentRecord, SentRecords
from penstock.adaptors.produce.sink import Delivery
from penstock.arrivals import parse_shape
from penstock.arrivals.due import ReplayArrivals
from penstock.clock import VirtualClock
from penstock.errors import AdaptorError, ConfigurationError
from penstock.knowledge.sqlite import SqliteStore
from penstock.records import decode, encode
from penstock.running import producer, results
from penstock.running.assembly import Assembly
from penstock.running.folder_streams import FolderStreams
from penstock.running.operator_job import TopicEnd
from penstock.running.producer import ProducerJob, ProducerProcess, end_earlier_producer, run_producer
from penstock.running.recollection import recall, started_at
from penstock.running.running_operator import State
from penstock.running.supervision import Supervision
from penstock.running.topic_load import epoch_of, parts_left
from penstock.settings import RunSettings, parse_settings
from penstock.testing.synthetic_run import fill_store, synthetic_reports


def test_time_zero_follows_from_any_record_in_the_topic() -> None:
    """A record carries its number and when it was due, which gives time zero to the microsecond."""
    replay = ReplayArrivals(parse_shape("constant:rate=3,duration=10s"), speed=2.0)
    zero_us = 1_700_000_000_123_457
    due_us = zero_us + round(float(replay.arrivals.times(20, 21)[0]) / 2.0 * 1e6)
    sent = SentRecords(SentRecord(20, due_us), 18, frozenset({19, 20}))
    assert round(epoch_of(sent, replay) * 1e6) == zero_us
    assert parts_left(sent, replay.arrivals.total) == ((18, 19), (21, 30))


def test_records_beyond_the_arrivals_are_of_other_settings() -> None:
    """A topic with more numbers than the load has is refused, with what to do."""
    replay = ReplayArrivals(parse_shape("constant:rate=1,duration=10s"))
    with pytest.raises(ConfigurationError, match="holds record 10, but the arrivals have 10; give the settings"):
        epoch_of(SentRecords(SentRecord(10, 0), 11, frozenset()), replay)


def test_nothing_is_left_of_a_load_that_was_sent() -> None:
    """Where every record is in the topic there is no part to send."""
    assert parts_left(SentRecords(SentRecord(9, 0), 10, frozenset()), 10) == ()


def test_what_controllers_before_counted_is_counted(tmp_path: Path) -> None:
    """Executor time and decisions come out as if one controller had run the whole."""
    store, before, recalled = SqliteStore(tmp_path / "k.sqlite"), OperatorAccount(), OperatorAccount()
    fill_store(store, "log-analysis", seconds=60)
    for report in synthetic_reports(60):
        before.add(report)
    recall(recalled, store, "log-analysis")
    assert recalled.executor_seconds == pytest.approx(before.executor_seconds)
    assert recalled.executor_seconds > 0
    assert [d.at for d in recalled.decisions] == [d.at for d in before.decisions]
    assert started_at(store, 5.0) == 5.0
    assert started_at(store, 9.0) == 5.0
    store.close()


def a_run(**changes: Any) -> RunSettings:
    """One operator behind a topic."""
    settings: dict[str, Any] = {
        "name": "p",
        "cluster": {"master": "spark://elsewhere:7077"},
        "broker": {"servers": "elsewhere:9092"},
        "arrivals": {"shape": "constant:rate=5,duration=5s"},
        "operators": [{"name": "a", "app": "a:b"}],
    }
    return parse_settings({**settings, **changes})


@pytest.mark.parametrize(
    ("settings", "facts", "why"),
    [
        (a_run(cluster={"master": "embedded"}), {}, "embedded cluster ends with its controller"),
        (a_run(broker={"servers": "embedded"}), {}, "a broker of the run's own ends with its controller"),
        (a_run(), {"summary": "{}"}, "has come to its end"),
        (a_run(), {"settings": "{}"}, "has other settings"),
    ],
)
def test_what_cannot_be_taken_over_is_refused(
    tmp_path: Path, settings: RunSettings, facts: dict[str, str], why: str
) -> None:
    """The reason is given before anything is started."""
    store = SqliteStore(tmp_path / "knowledge.sqlite")
    for name, value in {"settings": settings.model_dump_json(), **facts}.items():
        store.set_fact(name, value)
    store.close()
    listener = cast("Any", SimpleNamespace(phase=print, fault=print))
    with pytest.raises(ConfigurationError, match=f"resume: .*{why}"):
        Assembly(
            settings,
            tmp_path,
            listener=listener,
            clock=VirtualClock(),
            stop=threading.Event(),
            resume=True,
            policy=None,
        )


def test_a_run_of_an_earlier_version_can_be_resumed(tmp_path: Path) -> None:
    """A setting that it did not know yet has its default: the run has no other settings than before."""
    settings = a_run()
    kept = json.loads(settings.model_dump_json())
    del kept["restarts"]["start_within"]
    store = SqliteStore(tmp_path / "knowledge.sqlite")
    store.set_fact("settings", json.dumps(kept))
    store.close()
    listener = cast("Any", SimpleNamespace(phase=print, fault=print))
    with Assembly(
        settings, tmp_path, listener=listener, clock=VirtualClock(), stop=threading.Event(), resume=True, policy=None
    ) as parts:
        assert parts.store.fact("settings") == settings.model_dump_json()


@pytest.mark.parametrize("is_adopted", [True, False])
def test_what_was_done_before_a_resume_is_in_the_summary(tmp_path: Path, is_adopted: bool) -> None:
    """Also of an operator that was started again, and had no batch to show because nothing was left to do."""
    operator = SimpleNamespace(
        last=None, is_adopted=is_adopted, job=SimpleNamespace(checkpoint_folder=str(tmp_path / "checkpoint"))
    )
    load = SimpleNamespace(done=lambda checkpoint: 25 if checkpoint == tmp_path / "checkpoint" else None)
    assert results._done(cast("Any", operator), cast("Any", load)) == 25


@pytest.mark.parametrize("is_adopted", [True, False])
@pytest.mark.parametrize(("done", "ends"), [(25, True), (24, False), (None, False)])
def test_a_run_ends_though_nothing_was_left_to_do_when_it_was_taken_over(
    tmp_path: Path, done: int | None, ends: bool, is_adopted: bool
) -> None:
    """An operator that was taken over, or started again, and has no batch to show is judged by its checkpoint."""
    settings = a_run()
    seen = SimpleNamespace(at=50.0, records_done=None, backlog_records=None, records_arrived=25)
    taken_over = SimpleNamespace(
        name="a", starts=1, remote=None, state=State.RUNNING, is_adopted=is_adopted, settings=settings.operators[0],
        last=SimpleNamespace(observation=seen), job=SimpleNamespace(checkpoint_folder=str(tmp_path)),
    )  # fmt: skip
    load = SimpleNamespace(total=25, done=lambda checkpoint: done if checkpoint == tmp_path else None)
    parts = SimpleNamespace(operators={"a": taken_over}, cycles={}, streams=SimpleNamespace(load=load))
    listener = cast("Any", SimpleNamespace(phase=print, fault=print))
    supervision = Supervision(
        settings, cast("Any", parts), listener=listener, clock=VirtualClock(), stop=threading.Event()
    )
    assert supervision._is_all_done(50.0) is ends


def test_time_zero_of_a_replay_is_known_though_no_batch_is_left(tmp_path: Path) -> None:
    """A resumed run without a broker learns from the checkpoint when its arrivals end, and so ends itself."""
    settings = a_run(broker=None)
    streams = FolderStreams(settings, {"a": tmp_path})
    streams.input_of(settings.operators[0], str(tmp_path / "checkpoint"))
    streams.begin()
    assert streams.load.span() is None, "nothing is known before the first batch"
    offsets = tmp_path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "7").write_text('v1\n{}\n{"epoch_us": 1700000000123457, "index": 25}')
    streams.begin()
    assert streams.load.span() == (1_700_000_000.123457, 1_700_000_005.123457)


def test_the_time_to_finish_begins_anew_when_an_operator_comes_back() -> None:
    """A run whose operator died does not end as done while it is being started again, however long that takes."""
    settings, clock = a_run(drain="10s"), VirtualClock(100.0)
    seen = SimpleNamespace(at=100.0, records_done=3, backlog_records=22, records_arrived=25)
    operator = SimpleNamespace(
        name="a", starts=1, remote=None, state=State.DOWN, is_adopted=False, settings=settings.operators[0],
        last=SimpleNamespace(observation=seen),
    )  # fmt: skip
    load = SimpleNamespace(total=25, span=lambda: (0.0, 5.0))
    parts = SimpleNamespace(operators={"a": operator}, cycles={}, streams=SimpleNamespace(load=load))
    said: list[str] = []
    listener = cast("Any", SimpleNamespace(phase=lambda *_: None, fault=lambda _, text: said.append(text)))
    supervision = Supervision(settings, cast("Any", parts), listener=listener, clock=clock, stop=threading.Event())
    for state, seconds, ends in (
        (State.DOWN, 60, False), (State.STARTING, 60, False), (State.RUNNING, 9, False), (State.RUNNING, 2, True)
    ):  # fmt: skip
        operator.state = state
        supervision._progress(clock.now())
        clock.advance(seconds)
        supervision._progress(clock.now())
        assert bool(said) is ends
    assert "not all records were done 10 s after the last arrival" in said[0]


def test_a_clock_set_forward_for_a_while_takes_no_time_to_finish_away() -> None:
    """While it shows an instant after the last arrival the time to finish runs; set back, it begins anew at the end."""
    settings, clock = a_run(drain="10s"), VirtualClock(0.0)
    seen = SimpleNamespace(at=0.0, records_done=3, backlog_records=22, records_arrived=25)
    operator = SimpleNamespace(
        name="a", starts=1, remote=None, state=State.RUNNING, is_adopted=False, settings=settings.operators[0],
        last=SimpleNamespace(observation=seen),
    )  # fmt: skip
    load = SimpleNamespace(total=25, span=lambda: (0.0, 100.0))
    parts = SimpleNamespace(operators={"a": operator}, cycles={}, streams=SimpleNamespace(load=load))
    said: list[str] = []
    listener = cast("Any", SimpleNamespace(phase=lambda *_: None, fault=lambda _, text: said.append(text)))
    supervision = Supervision(settings, cast("Any", parts), listener=listener, clock=clock, stop=threading.Event())
    for step in (3600.0, -3600.0, 0.0):
        clock.set_by(step)
        supervision._progress(clock.now())
        clock.advance(5.0)
    clock.advance(100.0)
    supervision._progress(clock.now())
    assert said == []
    clock.advance(11.0)
    supervision._progress(clock.now())
    assert len(said) == 1


@pytest.mark.parametrize(("done", "ends"), [(25, True), (24, False)])
def test_a_clock_set_back_after_the_last_arrival_does_not_keep_a_run_that_is_done(done: int, ends: bool) -> None:
    """What nobody sets says that the load is over; a run with records left goes on."""
    settings, clock = a_run(drain="10s"), VirtualClock(0.0)
    seen = SimpleNamespace(at=0.0, records_done=3, backlog_records=22, records_arrived=25)
    operator = SimpleNamespace(
        name="a", starts=1, remote=None, state=State.RUNNING, is_adopted=False, settings=settings.operators[0],
        last=SimpleNamespace(observation=seen),
    )  # fmt: skip
    load = SimpleNamespace(total=25, span=lambda: (0.0, 100.0))
    parts = SimpleNamespace(operators={"a": operator}, cycles={}, streams=SimpleNamespace(load=load))
    listener = cast("Any", SimpleNamespace(phase=lambda *_: None, fault=lambda *_: None))
    supervision = Supervision(settings, cast("Any", parts), listener=listener, clock=clock, stop=threading.Event())
    stopped: list[float] = []
    cast("Any", supervision.runner).stop = lambda: stopped.append(clock.monotonic())

    def look(records_done: int) -> None:
        seen.at, seen.records_done = clock.now(), records_done
        seen.backlog_records = 0
        supervision._progress(clock.now())

    look(3)
    clock.advance(101.0)
    look(24)
    clock.set_by(-3600.0)
    clock.advance(1.0)
    look(done)
    assert bool(stopped) is ends


def test_the_producer_of_an_earlier_controller_is_ended_before_anybody_counts(tmp_path: Path) -> None:
    """It may still send for a moment after its controller was killed; that of another run is left alone."""
    marks: list[dict[str, str]] = []
    recording = SimpleNamespace(start=lambda *_, env, **__: marks.append(env))
    ProducerProcess(ProducerJob({}, TopicEnd("nowhere:1", {}, "t")), tmp_path, cast("Any", recording)).start()
    (env,) = marks
    with Warden() as warden:
        mine = warden.start("producer", ["sleep", "60"], log=tmp_path / "log", env=env)
        others = warden.start(
            "other",
            ["sleep", "60"],
            log=tmp_path / "log",
            env={**env, "PENSTOCK_PRODUCER": str(tmp_path / "elsewhere")},
        )
        end_earlier_producer(tmp_path)
        assert mine.wait(20.0) is not None
        assert others.poll() is None


def test_what_is_left_to_send_reaches_the_producer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job survives its file, and its process sends exactly the missing numbers, by the old time zero."""
    pytest.importorskip("pyarrow", reason="needs the extra [spark]")
    from penstock.adaptors.produce import kafka_sink

    sent: list[tuple[int, int]] = []
    away = [AdaptorError("Kafka cannot be reached", target="Kafka", retryable=True)] * 2
    monkeypatch.setattr(producer, "_RETRY_SECONDS", 0.01)

    class RecordingSink:
        """Keeps number and time of every record; its broker is away for the first two tries."""

        def __init__(self, *_: Any, **__: Any) -> None:
            self.is_closed = False
            if away:
                raise away.pop()

        def prepare(self, first: int, due_us: Any, bodies: Any) -> list[Any]:
            """Keep what is asked about."""
            return list(zip(range(first, first + len(bodies)), due_us.tolist(), strict=True))

        def send(self, records: Any) -> int:
            """Take all."""
            sent.extend(records)
            return len(records)

        def turn(self, seconds: float) -> None:
            """Nothing to serve."""

        def delivery(self) -> Delivery:
            """All is confirmed."""
            return Delivery(len(sent), 0)

        def close(self) -> None:
            """Remember."""
            self.is_closed = True

    monkeypatch.setattr(kafka_sink, "KafkaSink", RecordingSink)
    replay = {"shape": "constant:rate=10,duration=1s"}
    job = ProducerJob(replay, TopicEnd("nowhere:9092", {}, "t"), epoch=1_700_000_000.5, parts=((2, 4), (7, 10)))
    assert decode(ProducerJob, encode(job).encode()) == job
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert run_producer(job, tmp_path / "result.json") == 0
    assert [number for number, _ in sent] == [2, 3, 7, 8, 9]
    assert away == []
    assert sent[0][1] == round(1_700_000_000.5e6 + float(parse_shape(replay["shape"]).times(2, 3)[0]) * 1e6)
    told = json.loads((tmp_path / "result.json").read_text())
    assert (told["epoch"], told["records_due"], told["is_on_time"]) == (1_700_000_000.5, 5, True)


@pytest.mark.parametrize(("retryable", "patience", "tries"), [(True, 0.0, 1), (False, 60.0, 1), (True, 0.05, None)])
def test_a_producer_tries_for_a_while_to_reach_its_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retryable: bool, patience: float, tries: int | None
) -> None:
    """Not where the topic is missing; and not for ever."""
    from penstock.adaptors.produce import kafka_sink

    tried: list[str] = []

    def refuse(_connection: Any, topic: str, *_: Any, **__: Any) -> None:
        tried.append(topic)
        raise AdaptorError("no", target="Kafka", retryable=retryable)

    monkeypatch.setattr(kafka_sink, "KafkaSink", refuse)
    monkeypatch.setattr(producer, "_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(producer, "_BROKER_SECONDS", patience)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    job = ProducerJob({"shape": "constant:rate=10,duration=1s"}, TopicEnd("nowhere:9092", {}, "t"))
    with pytest.raises(AdaptorError, match="no"):
        run_producer(job, tmp_path / "result.json")
    assert len(tried) == tries if tries is not None else len(tried) > 1
