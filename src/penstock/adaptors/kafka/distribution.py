# SPDX-License-Identifier: Apache-2.0
"""The Kafka broker's own jars: fetched from Maven's repository when first asked for, kept in the cache."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from penstock.adaptors.kafka.cache import cache_folder
from penstock.adaptors.kafka.maven import Coordinate, fetch_jars

KAFKA_VERSION = "4.2.1"
"""Speaks with every client since 2.1; the clients in Spark's connector are of 3.9 and later."""
_WANTED = (
    Coordinate("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    # Kafka's artifacts name no logger to write with; this one writes lines to stderr and needs no configuration file.
    Coordinate("org.slf4j", "slf4j-simple", "1.7.36"),
)


def kafka_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the jars of this Kafka are kept, or will be."""
    return cache_folder(environment) / "kafka" / KAFKA_VERSION


def fetch_kafka(tell: Callable[[str], None] | None = None, environment: Mapping[str, str] = os.environ) -> Path:
    """Give the folder of the broker's jars; fetched (some 45 MB) if they are not there yet.

    Raises
    ------
    NotFetchedError
        The repository cannot be reached; nothing was left behind.
    """
    folder = kafka_folder(environment)
    fetch_jars(_WANTED, folder, tell=tell, environment=environment)
    return folder
