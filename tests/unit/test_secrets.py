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
    ],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    """However their words are joined."""
    assert is_secret(name)


@pytest.mark.parametrize("name", ["sasl.username", "topic", "key.column", "speed", "spark.sql.shuffle.partitions"])
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
    ],
)
def test_secrets_inside_values_are_hidden(value: str) -> None:
    """Whatever the option is called."""
    assert "cadabra" not in without_secrets(value)
    assert "***" in without_secrets(value)


@pytest.mark.parametrize(
    "value", ["abfss://container@account.dfs.core.windows.net/x", "host:9092", "a=b;c=d", "p95", "basic statistics"]
)
def test_other_values_stay_as_they_are(value: str) -> None:
    """A container is no password."""
    assert without_secrets(value) == value


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
    data: dict[str, Any] = {
        "name": "p",
        "arrivals": {"shape": "constant:rate=5,duration=5s", "options": {"api_key": secret}},
        "operators": [{"name": "a", "app": "m:f", "options": options, "spark": {"spark.x.credentials": secret}}],
        "cluster": {"master": f"k8s://https://u:{secret}@host"},
        "policy": {"name": "mine", "options": {"deep": {"credentials": secret}}},
    }
    settings = parse_settings(data)
    assert secret not in settings.model_dump_json()
    assert secret not in json.dumps(settings.model_dump(mode="json"))
    assert parse_settings(settings.model_dump(mode="json", context=WITH_SECRETS)) == settings
