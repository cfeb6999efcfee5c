# SPDX-License-Identifier: Apache-2.0
"""A Kafka source of Spark, read from its options: which topics, and how a client of ours reaches the same broker.

It is `KafkaConnection.spark_options` the other way round. Spark's connector has the options of Java's client.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.adaptors.kafka.connection import KafkaConnection
from penstock.errors import ConfigurationError

_SAME_NAMES = ("security.protocol", "sasl.mechanism", "sasl.kerberos.service.name", "ssl.key.password")
_PEM_TEXTS = {
    "ssl.truststore.certificates": "librdkafka.ssl.ca.pem",
    "ssl.keystore.certificate.chain": "librdkafka.ssl.certificate.pem",
    "ssl.keystore.key": "librdkafka.ssl.key.pem",
}
_STORES = {
    "ssl.truststore": ("ssl.ca.location",),
    "ssl.keystore": ("ssl.certificate.location", "ssl.key.location"),
}
_JAAS_PAIR = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")


def topics_of(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the topics that a source with these options subscribes to.

    Parameters
    ----------
    options
        Those of ``format("kafka")``, with their names in lower case.

    Raises
    ------
    ConfigurationError
        It names its topics by a pattern, or single partitions.
    """
    named = tuple(topic.strip() for topic in options.get("subscribe", "").split(",") if topic.strip())
    if not named:
        given = next((name for name in ("subscribePattern", "assign") if name.lower() in options), "no topics")
        raise ConfigurationError(f"the query has {given}; name its topics with the option subscribe", field="subscribe")
    return named


def connection_of(options: Mapping[str, str]) -> KafkaConnection:
    """Return how to reach the broker of a source with these options.

    Parameters
    ----------
    options
        Those of ``format("kafka")``, with their names in lower case.

    Raises
    ------
    ConfigurationError
        An option has no counterpart here, such as a Java key store.
    """
    java = {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")}
    mine = {name: java[name] for name in _SAME_NAMES if name in java}
    if "sasl.jaas.config" in java:
        mine |= _login(java["sasl.jaas.config"])
    mine |= {ours: java[name] for name, ours in _PEM_TEXTS.items() if name in java}
    for store, ours in _STORES.items():
        location = java.get(f"{store}.location")
        if location is None:
            continue
        if java.get(f"{store}.type", "JKS").upper() != "PEM":
            raise ConfigurationError(
                f"kafka.{store}.location: a Java key store cannot be read here; use one of type PEM", field=store
            )
        mine |= dict.fromkeys(ours, location)
    if java.get("ssl.endpoint.identification.algorithm") == "":
        mine["ssl.endpoint.identification.algorithm"] = "none"  # what Java writes as an empty text
    return KafkaConnection(java.get("bootstrap.servers", ""), mine)


def _login(jaas: str) -> dict[str, str]:
    """Return the user and password in a JAAS line; other logins have neither."""
    pairs = {}
    for name, double, single, bare in _JAAS_PAIR.findall(jaas):
        pairs[name] = re.sub(r"\\(.)", r"\1", double or single) or bare
    return {f"sasl.{name}": pairs[name] for name in ("username", "password") if name in pairs}
