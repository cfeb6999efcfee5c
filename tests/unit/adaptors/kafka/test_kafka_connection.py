# SPDX-License-Identifier: Apache-2.0
"""One set of options for two clients: translated, checked, and never shown with their secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.adaptors.kafka.connection import KafkaConnection
from penstock.errors import ConfigurationError

LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "ada",
    "sasl.password": 'a"b\\c',
}


def test_without_options_only_the_address_is_given() -> None:
    """A broker without login needs its address alone, on both sides."""
    connection = KafkaConnection("one:9092,two:9093")
    assert connection.client_options() == {"bootstrap.servers": "one:9092,two:9093"}
    assert connection.spark_options() == {"kafka.bootstrap.servers": "one:9092,two:9093"}


def test_a_login_becomes_a_jaas_line_for_spark() -> None:
    """Username and password reach Java's client as a JAAS line, with quotes and backslashes escaped."""
    connection = KafkaConnection("one:9092", LOGIN)
    assert connection.client_options()["sasl.password"] == 'a"b\\c'
    spark = connection.spark_options()
    assert spark["kafka.sasl.jaas.config"] == (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="ada" password="a\\"b\\\\c";'
    )
    assert spark["kafka.security.protocol"] == "SASL_PLAINTEXT"
    assert "kafka.sasl.password" not in spark


def test_pem_files_become_pem_stores_for_spark(tmp_path: Path) -> None:
    """Certificates in PEM files are given to Java's client as stores of the type PEM."""
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(f"-- {name} --")
    connection = KafkaConnection(
        "one:9092",
        {
            "security.protocol": "SSL",
            "ssl.ca.location": str(tmp_path / "ca"),
            "ssl.certificate.location": str(tmp_path / "cert"),
            "ssl.key.location": str(tmp_path / "key"),
            "ssl.endpoint.identification.algorithm": "none",
        },
    )
    spark = connection.spark_options()
    assert spark["kafka.ssl.truststore.location"] == str(tmp_path / "ca")
    assert spark["kafka.ssl.truststore.type"] == spark["kafka.ssl.keystore.type"] == "PEM"
    assert spark["kafka.ssl.keystore.certificate.chain"] == "-- cert --"
    assert spark["kafka.ssl.keystore.key"] == "-- key --"
    assert spark["kafka.ssl.endpoint.identification.algorithm"] == ""
    assert connection.client_options()["ssl.endpoint.identification.algorithm"] == "none"


def test_what_one_side_alone_knows_goes_through_under_its_prefix() -> None:
    """Prefixed options reach the one client they are for, untouched."""
    connection = KafkaConnection("one:9092", {"librdkafka.linger.ms": "5", "kafka.max.poll.records": "100"})
    assert connection.client_options() == {"bootstrap.servers": "one:9092", "linger.ms": "5"}
    assert connection.spark_options() == {"kafka.bootstrap.servers": "one:9092", "kafka.max.poll.records": "100"}


def test_secrets_are_not_shown() -> None:
    """Neither a password nor a JAAS line is part of what is printed of a connection."""
    shown = repr(KafkaConnection("one:9092", {**LOGIN, "kafka.sasl.jaas.config": "hush", "client.id": "ada-1"}))
    assert 'a"b' not in shown
    assert "hush" not in shown
    assert "ada-1" in shown


@pytest.mark.parametrize(
    ("servers", "options", "said"),
    [
        ("one", {}, "'one' is not host:port"),
        ("one:9092,", {}, "'' is not host:port"),
        ("one:99999", {}, "'one:99999' is not host:port"),
        ("one:9092", {"sasl.pasword": "x"}, "did you mean 'sasl.password'"),
        ("one:9092", {"linger.ms": "5"}, "librdkafka.linger.ms"),
        ("one:9092", {"bootstrap.servers": "x:1"}, "belongs in bootstrap_servers"),
        ("one:9092", {"security.protocol": "TLS"}, "unknown 'TLS'; known: PLAINTEXT"),
        ("one:9092", {**LOGIN, "security.protocol": "SSL"}, "SSL has no login"),
        ("one:9092", {"security.protocol": "SASL_SSL", "sasl.username": "x"}, "sasl.mechanism: is missing"),
        ("one:9092", {**LOGIN, "sasl.mechanism": "SCRAM"}, "unknown 'SCRAM'"),
        (
            "one:9092",
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "x"},
            "needs both sasl.username and sasl.password",
        ),
        ("one:9092", {**LOGIN, "sasl.mechanism": "GSSAPI"}, "GSSAPI does not use a password"),
        (
            "one:9092",
            {"security.protocol": "SSL", "ssl.ca.location": "/nowhere/ca.pem"},
            "/nowhere/ca.pem does not exist",
        ),
        ("one:9092", {"ssl.ca.location": __file__}, "PLAINTEXT is not encrypted"),
        ("one:9092", {"security.protocol": "SSL", "ssl.key.location": __file__}, "belong together"),
    ],
)
def test_wrong_options_are_refused_with_a_way_out(servers: str, options: dict[str, str], said: str) -> None:
    """What cannot work is refused before any broker is asked, and the message says what to write."""
    with pytest.raises(ConfigurationError) as caught:
        KafkaConnection(servers, options)
    assert said in str(caught.value)


def test_all_mistakes_are_told_at_once() -> None:
    """One error lists every mistake."""
    with pytest.raises(ConfigurationError, match="kafka: 2 mistakes") as caught:
        KafkaConnection("one", {"nonsense": "x"})
    assert len(caught.value.faults) == 2
