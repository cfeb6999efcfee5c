# SPDX-License-Identifier: Apache-2.0
"""What may hold a secret is neither stored nor shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.secrets import is_secret, shown, without_secrets
from penstock.settings import WITH_SECRETS, parse_settings

KEY = "-----BEGIN RSA PRIVATE KEY-----\nabracadabra\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    "name",
    [
        "password", "ssl.key.password", "api_key", "apiKey", "credentials", "google.cloud.auth.credentials",
        "fs.azure.account.key.mine.dfs.core.windows.net", "fs.s3a.access.key", "fs.s3a.secret.key", "ssl.key.pem",
        "ssl.keystore.key", "sasl.jaas.config", "basic.auth.user.info", "connection-string", "db_passwd",
        "http.header.Authorization", "bearerAuth", "session_cookie",
        "spark.es.net.http.auth.pass", "spark.redis.auth", "pass", "ssl.key", "redis.auth", "smtp_pass", "dbPass",
        "auth", "keystorepass",
        "es.net.proxy.http.pass", "tls.key", "client.key", "PGPASS", "userpass", "private.key", "spark.app.auth.key",
        "signing.key", "encryption.key", "ssl.client.key", "passcode", "sasl.pass",
    ],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    """However their words are joined."""
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "sasl.username", "topic", "key.column", "speed", "spark.sql.shuffle.partitions", "spark.authenticate",
        "key.deserializer", "key.serializer", "auth.login.retry", "sasl.login.retry.backoff.ms", "passes", "bypass",
        "compass", "passenger_count", "passthrough", "spark.es.net.http.auth.user", "auth.type",
        "author", "authority", "group.key", "partition.key", "key", "routing_key", "row.key", "ssl.keystore.type",
        "ssl.keystore.location", "ssl.key.type", "spark.ssl.enabled", "monkey", "sort.key", "ssl.truststore.location",
        "spark.network.crypto.authEngineVersion", "num.passes", "keys", "auth.enabled",
        "spark.sql.sources.bucketing.autoBucketedScan.enabled",
    ],
)  # fmt: skip
def test_other_names(name: str) -> None:
    """What is no secret can be read."""
    assert not is_secret(name)


@pytest.mark.parametrize(
    "value",
    [
        "amqp://ada:abracadabra@host:5672/",
        "jdbc:postgresql://ada:abra@cadabra@host/db",
        "jdbc:sqlserver://host;user=ada;password=abracadabra;encrypt=true",
        "https://host/path?x=1&sig=abracadabra&y=2",
        "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=abracadabra==;",
        'org.apache.kafka.PlainLoginModule required username="ada" password="abra cadabra";',
        KEY,
        f"before {KEY} after",
        "-----BEGIN PRIVATE KEY-----\nabracadabra",
        "Authorization: Bearer abracadabra.x",
        "curl -H 'authorization: Basic YWJyYcadabra=='",
        "amqp://u:abra/cadabra@h",
        "amqp://u:abra/cadabra@h:5672/%2f?heartbeat=10",
        "amqps://u:abra?cadabra#cadabra@h/v",
        "host=h pass=cadabra user=u",
        "pass: cadabra",
        "password: cadabra",
        "PASSWORD : cadabra",
        "password=abra cadabra",
        "host=h password=abra cadabra user=u",
        "password=abra cadabra;encrypt=true",
        '{"password": "abra cadabra", "x": 1}',
        "{'api_key': 'cadabra'}",
        "auth.pass=cadabra",
        "user: u\npassword: abra cadabra\nhost: h",
        "see amqp://u:abra/cadabra@h, or amqp://v:abra/cadabra@i",
        "token=abra,cadabra",
        'password="abra\\" cadabra" x=1',
        '{"sink": "{\\"password\\": \\"abra cadabra\\", \\"x\\": 1}"}',
        "fs.s3a.secret.key=cadabra",
        "aws_secret_access_key = cadabra",
        "secretKey: cadabra",
        "user=u dbpass=cadabra",
    ],
)
def test_secrets_inside_values_are_hidden(value: str) -> None:
    """Whatever the option is called."""
    assert "cadabra" not in without_secrets(value)
    assert "***" in without_secrets(value)


@pytest.mark.parametrize(
    "value",
    [
        "abfss://container@account.dfs.core.windows.net/x", "host:9092", "a=b;c=d", "p95", "basic statistics",
        "https://host:8080/path", "https://host:8080/path, mail ada@host", "http://[::1]:80/a@b", "passes: 3",
        "bypass=true", "first pass: 3 s", "spark://h:7077", "http://h:8080/users/ada@host", "kafka://h:9092,i:9092/a@b",
        "the password is not shown", "compass=north", "passenger=ada", "k8s://https://h:6443",
        "file:///a/b@c", "jdbc:postgresql://h:5432/db?application=a@b",
    ],
)  # fmt: skip
def test_other_values_stay_as_they_are(value: str) -> None:
    """A container is no password."""
    assert without_secrets(value) == value


def test_what_stands_beside_a_secret_can_still_be_read() -> None:
    """Only the secret itself is hidden."""
    assert without_secrets("amqp://u:a/b@h:5672/v") == "amqp://u:***@h:5672/v"
    assert without_secrets("host=h pass=abc user=u") == "host=h pass=*** user=u"
    assert without_secrets("host=h password=abc def user=u") == "host=h password=*** user=u"
    assert without_secrets("password: abc\nhost: h") == "password: ***\nhost: h"
    assert without_secrets('{"password": "a b", "x": 1}') == '{"password": ***, "x": 1}'
    assert without_secrets("jdbc:sqlserver://h;user=a;password=b;encrypt=true") == (
        "jdbc:sqlserver://h;user=a;password=***;encrypt=true"
    )
    assert without_secrets("x?sig=abc&y=2") == "x?sig=***&y=2"
    assert without_secrets('{\\"password\\": \\"a b\\", \\"x\\": 1}') == '{\\"password\\": ***, \\"x\\": 1}'
    assert without_secrets("secret.key=abc user=u") == "secret.key=*** user=u"


def test_secrets_are_found_however_deep_they_lie() -> None:
    """In mappings and lists; what is no text stays."""
    data = {"a": [{"api_key": "abra", "url": "x://u:abra@h"}], "token_count": 3, "on": True, "none": None}
    assert shown("", data) == {
        "a": [{"api_key": "***", "url": "x://u:***@h"}],
        "token_count": "***",
        "on": True,
        "none": None,
    }


def test_stored_settings_have_no_secret_anywhere() -> None:
    """In no option of an operator, the arrivals, the broker, the policy or the cluster; read again, they are whole."""
    secret = "cadabra"
    options = {"api_key": secret, "where": f"amqp://u:{secret}@h/", "pem": KEY}
    names = ["spark.x.credentials", "spark.es.net.http.auth.pass", "spark.redis.auth", "spark.x.pass", "spark.ssl.key"]
    spark = dict.fromkeys(names, secret)
    data: dict[str, Any] = {
        "name": "p",
        "arrivals": {"shape": "constant:rate=5,duration=5s", "options": {"api_key": secret}},
        "operators": [{"name": "a", "app": "m:f", "options": options, "spark": spark}],
        "cluster": {"master": f"k8s://https://u:{secret}@host"},
        "policy": {"name": "mine", "options": {"deep": {"credentials": secret}}},
    }
    settings = parse_settings(data)
    assert secret not in settings.model_dump_json()
    assert secret not in json.dumps(settings.model_dump(mode="json"))
    assert parse_settings(settings.model_dump(mode="json", context=WITH_SECRETS)) == settings
