# SPDX-License-Identifier: Apache-2.0
"""Options of Spark's Kafka source, translated back: what our connection gives to Spark, it gets back."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.adaptors.kafka.connection import KafkaConnection
from penstock.adaptors.kafka.spark_source import connection_of, topics_of
from penstock.errors import ConfigurationError

SERVERS = {"kafka.bootstrap.servers": "b:9092"}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ada",
            "sasl.password": "x",
        },
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": 'a"d\\a',
            "sasl.password": "p = 'q'; r",
            "ssl.endpoint.identification.algorithm": "none",
        },
    ],
)
def test_options_make_the_round_trip(options: dict[str, str]) -> None:
    """Servers, logins and quoted passwords come back as they were."""
    connection = KafkaConnection("b:9092,c:9092", options)
    assert connection_of(connection.spark_options()) == connection


def test_pem_files_and_texts_are_taken_over(tmp_path: Path) -> None:
    """A trust store in PEM is a file of certificates; a client's certificate goes on as text."""
    pem = tmp_path / "ca.pem"
    pem.write_text("PEM")
    names = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
    ours = {"security.protocol": "SSL", **dict.fromkeys(names, str(pem))}
    found = connection_of(KafkaConnection("b:9092", ours).spark_options())
    assert found.client_options() == {
        "bootstrap.servers": "b:9092", "security.protocol": "SSL", "ssl.ca.location": str(pem),
        "ssl.certificate.pem": "PEM", "ssl.key.pem": "PEM",
    }  # fmt: skip


@pytest.mark.parametrize("jaas", ["M required username=ada password=x;", "M required password='x'   username='ada' ;"])
def test_a_login_may_be_written_in_several_ways(jaas: str) -> None:
    """Java takes bare words and both kinds of quotes."""
    login = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}
    found = connection_of({**SERVERS, **login, "kafka.sasl.jaas.config": jaas})
    assert (found.options["sasl.username"], found.options["sasl.password"]) == ("ada", "x")


def test_options_that_only_spark_has_are_left_out() -> None:
    """How much Spark reads at once is not the tap's business."""
    found = connection_of({**SERVERS, "kafka.max.poll.records": "7", "kafka.group.id": "g", "subscribe": "a"})
    assert found == KafkaConnection("b:9092")


def test_a_java_key_store_is_refused_by_name() -> None:
    """Only PEM can be read by both sides."""
    with pytest.raises(ConfigurationError, match=r"kafka\.ssl\.truststore\.location: .* use one of type PEM"):
        connection_of({**SERVERS, "kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "/t.jks"})


def test_topics_are_those_subscribed_to() -> None:
    """Written with commas; anything else is refused."""
    assert topics_of({"subscribe": "a, b"}) == ("a", "b")
    with pytest.raises(ConfigurationError, match="no topics"):
        topics_of({})
