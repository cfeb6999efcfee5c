# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ in a settings file: what may be said of it, every mistake with its fix, and no password shown."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from penstock.cli.main import main
from penstock.errors import ConfigurationError
from penstock.running.checks import check_run, load_checked, not_contacted
from penstock.settings import WITH_SECRETS, RunSettings, parse_settings

URL = "amqp://ada:abra@host:5672/"


def plain(**others: Any) -> dict[str, Any]:
    """A pipeline that reads RabbitMQ."""
    return {
        "name": "logs",
        "broker": {"rabbitmq": URL},
        "arrivals": {"shape": "constant:rate=5,duration=1s", "options": {"payload": "log"}},
        "operators": [
            {"name": "parser", "app": "penstock.apps.log_analysis:parser"},
            {"name": "counter", "app": "penstock.apps.log_analysis:counter", "input": "parser"},
        ],
        "objective": {"p95": "9s"},
        **others,
    }


def operators(**first: Any) -> list[dict[str, Any]]:
    """Two operators, with more said of the first."""
    parser, counter = plain()["operators"]
    return [parser | first, counter]


def test_a_broker_is_kafka_unless_it_is_rabbitmq() -> None:
    """`broker: {}` starts a Kafka as before; with `rabbitmq` operators are joined by folders."""
    kafka, rabbit = parse_settings(plain(broker={})), parse_settings(plain())
    assert kafka.broker is not None
    assert rabbit.broker is not None
    assert (kafka.broker.servers, kafka.broker.is_embedded, kafka.has_topics) == ("embedded", True, True)
    assert (rabbit.broker.servers, rabbit.broker.is_embedded, rabbit.has_topics) == (None, False, False)
    embedded = parse_settings(plain(broker={"rabbitmq": "embedded"}))
    assert embedded.broker is not None
    assert embedded.broker.is_embedded
    assert not parse_settings(plain(broker=None)).has_topics


def test_settings_with_secrets_are_read_back_as_they_were() -> None:
    """A run reads its own settings again: both brokers must come through."""
    for broker in ({"rabbitmq": URL, "options": {"heartbeat": 30}}, {"servers": "h:9092"}):
        settings = parse_settings(plain(broker=broker))
        assert parse_settings(settings.model_dump(mode="json", context=WITH_SECRETS)) == settings


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"broker": {"rabbitmq": URL, "servers": "h:1"}}, "give either `servers` (Kafka) or `rabbitmq`"),
        ({"broker": {"rabbitmq": URL, "retention": "1h"}}, "`retention` is that of topics"),
        ({"broker": {"rabbitmq": "amqp://u:${NO_SUCH_VARIABLE}@h/"}}, "no variable NO_SUCH_VARIABLE; set it"),
        ({"broker": {"servers": URL}}, "broker.servers: this is an address of RabbitMQ; write it as `rabbitmq`"),
        ({"broker": {"rabitmq": URL}}, "did you mean `rabbitmq`?"),
        ({"arrivals": {"topic": "t"}}, "arrivals.topic: RabbitMQ has no topics; name an `exchange`"),
        ({"arrivals": {"exchange": "e"}, "broker": {}}, "arrivals.exchange: needs RabbitMQ"),
        ({"arrivals": {"exchange": "e"}, "broker": None}, "arrivals.exchange: needs RabbitMQ"),
        ({"arrivals": {"exchange": "e"}, "broker": {"rabbitmq": "embedded"}}, "nobody else publishes to an embedded"),
        ({"arrivals": {"exchange": "e", "shape": "x"}}, "give either `trace` or `shape`"),
        ({"arrivals": {"exchange": "e", "options": {"speed": 2}}}, "`options` are those of a replay"),
        ({"arrivals": {"exchange": "no such name"}}, "use up to 200 letters"),
        ({"operators": operators(unique=["index"])}, "copies of numbered messages are dropped already"),
        ({"operators": operators(input_options={"prefech": 5})}, "prefech: did you mean prefetch?"),
        ({"operators": operators(input_options={"prefetch": "many"})}, "prefetch: write a whole number"),
        ({"operators": operators(input_options={"spoolDir": "x"})}, "spoolDir: the folder is the run's own; leave it"),
        ({"operators": operators(input_options={"amqp.heartbeat": 5})}, "belongs to the broker's options"),
        ({"operators": operators(input_options={"startingOffsets": "x"})}, "startingOffsets: is unknown"),
        ({"operators": [operators()[0], operators()[1] | {"input_options": {"prefetch": 5}}]}, "are for topics and"),
        ({"operators": operators(trigger="realtime")}, "realtime reads and writes topics; give `broker` with Kafka"),
    ],
)
def test_every_mistake_is_told_with_its_fix_and_without_the_password(change: dict[str, Any], told: str) -> None:
    """The message names the setting and what to write, never what could hold a password."""
    with pytest.raises(ConfigurationError) as caught:
        parse_settings(plain() | change)
    assert told in str(caught.value)
    assert "abra" not in str(caught.value)


@pytest.mark.parametrize(
    ("broker", "told"),
    [
        ({"rabbitmq": "host:5672"}, "broker.rabbitmq url: cannot read 'host:5672'; write it like amqp://user:"),
        ({"rabbitmq": "amqp://ada:ab/ra@host/"}, "its port is not a number"),
        ({"rabbitmq": URL, "options": {"heartbeat": "often"}}, "rabbitmq url or options"),
        ({"rabbitmq": "embedded", "options": {"heartbeat": 5}}, "options: the embedded server needs none"),
    ],
)
def test_check_looks_into_the_address_before_anything_starts(
    broker: dict[str, Any], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--check` and a run report it, also beside other mistakes, and nobody connects."""
    pytest.importorskip("pika", reason="needs the extra [rabbitmq]")
    monkeypatch.setattr("penstock.adaptors.rabbitmq.server.find_rabbitmq", lambda: (Path(), Path()))
    settings = parse_settings(plain(broker=broker))
    with pytest.raises(ConfigurationError) as caught:
        check_run(settings)
    assert told in str(caught.value)
    assert "ab/ra" not in str(caught.value)
    path = tmp_path / "logs.yaml"
    path.write_text(yaml.safe_dump(plain(broker=broker, mode="nonsense")))
    with pytest.raises(ConfigurationError) as both:
        load_checked(path)
    assert told in str(both.value)
    assert "mode: use" in str(both.value)


def test_a_missing_server_of_the_package_is_reported_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedded server needs Debian's package; a run that would miss it is refused before it starts."""
    pytest.importorskip("pika", reason="needs the extra [rabbitmq]")
    monkeypatch.setattr("penstock.adaptors.rabbitmq.server._PROGRAMS", ())
    found = shutil.which
    missing = ("rabbitmq-server", "epmd")
    monkeypatch.setattr(shutil, "which", lambda name, **others: None if name in missing else found(name, **others))
    with pytest.raises(ConfigurationError, match="apt-get install rabbitmq-server"):
        check_run(parse_settings(plain(broker={"rabbitmq": "embedded"})))


def test_a_password_is_taken_from_the_environment_and_shown_nowhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It may hold any character. It is neither in what is stored nor in what `--check` prints."""
    monkeypatch.setenv("RABBITMQ_PASSWORD", "ab/r@ 1")
    settings = parse_settings(plain(broker={"rabbitmq": "amqp://ada:${RABBITMQ_PASSWORD}@host:5672/"}))
    assert settings.broker is not None
    assert settings.broker.rabbitmq == "amqp://ada:ab%2Fr%40%201@host:5672/"
    for text in (settings.model_dump_json(), settings.broker.model_dump_json(), " ".join(not_contacted(settings))):
        assert "ab%2F" not in text
        assert "ada:***@host:5672" in text
    monkeypatch.setenv("RABBITMQ_URL", URL)
    whole = parse_settings(plain(broker={"rabbitmq": "${RABBITMQ_URL}"}))
    assert whole.broker is not None
    assert whole.broker.rabbitmq == URL
    path = tmp_path / "logs.yaml"
    path.write_text(yaml.safe_dump(plain()))
    shown = CliRunner().invoke(main, ["run", str(path), "--check"])
    assert shown.exit_code == 0, shown.output
    assert "abra" not in shown.output
    assert "amqp://ada:***@host:5672/" in shown.output


def test_the_cap_of_a_queue_is_known_to_plans() -> None:
    """`maxRowsPerBatch` bounds a batch as `maxOffsetsPerTrigger` does for a topic."""
    settings: RunSettings = parse_settings(plain(operators=operators(input_options={"maxRowsPerBatch": 700})))
    assert settings.operators[0].cap == 700
