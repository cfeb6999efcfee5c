# SPDX-License-Identifier: Apache-2.0
"""The Kafka broker's jars: fetched from a Maven repository on first use and kept in the cache."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from penstock.adaptors.kafka.cache import cache_folder
from penstock.adaptors.kafka.maven import Coordinate, fetch_jars

KAFKA_VERSION = "4.2.1"
"""Works with every client since 2.1. The clients in Spark's connector are of version 3.9 and later."""
_BROKER_ARTIFACTS = (
    Coordinate("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    # Kafka's artifacts depend on no logging backend. This one writes lines to stderr and needs no configuration file.
    Coordinate("org.slf4j", "slf4j-simple", "1.7.36"),
)


def kafka_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of this Kafka's jars. It need not exist yet."""
    return cache_folder(environment) / "kafka" / KAFKA_VERSION


def fetch_kafka(
    tell: Callable[[str], None] | None = None,
    environment: Mapping[str, str] = os.environ,
    stop: threading.Event | None = None,
) -> Path:
    """Return the folder of the broker's jars. Fetch them (some 45 MB) if they are missing, until `stop` is set.

    Raises
    ------
    NotFetchedError
        The repository cannot be reached; nothing is left behind.
    """
    folder = kafka_folder(environment)
    fetch_jars(_BROKER_ARTIFACTS, folder, tell=tell, environment=environment, stop=stop)
    return folder
