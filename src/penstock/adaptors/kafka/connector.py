# SPDX-License-Identifier: Apache-2.0
"""Spark's Kafka connector, which the PySpark package lacks: as a Maven coordinate, or as jars fetched once.

For a single job, ``spark.jars.packages`` is enough. Penstock starts many applications, so it fetches the jars once and
passes them as ``spark.jars``: no start waits for the network.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from penstock.adaptors.kafka.cache import cache_folder
from penstock.adaptors.kafka.maven import SETTINGS_VARIABLE, Coordinate, NotFetchedError, fetch_jars
from penstock.adaptors.kafka.maven_releases import newest_up_to, releases
from penstock.adaptors.spark.installation import SparkInstallation
from penstock.errors import ConfigurationError

_LOG = logging.getLogger(__name__)

VARIABLE = "PENSTOCK_KAFKA_CONNECTOR"
_CORE = re.compile(r"^spark-core_([\d.]+)-(.+)\.jar$")
_JAR = re.compile(r"^(.+?)-\d[^/]*\.jar$")
ListReleases = Callable[[str, str], list[str]]
"""Returns the versions of an artifact that the repository has, given its group and its name."""


@dataclass(frozen=True, slots=True)
class KafkaConnector:
    """The connector for one Spark.

    Attributes
    ----------
    coordinate
        The connector's own coordinate.
    overrides
        Versions of its dependencies that differ from those it names.
    """

    coordinate: Coordinate
    overrides: tuple[Coordinate, ...] = ()

    @classmethod
    def of_installed(cls, environment: Mapping[str, str] = os.environ) -> KafkaConnector:
        """Return the connector of the installed Spark's version, or the one that PENSTOCK_KAFKA_CONNECTOR names.

        The variable holds comma-separated coordinates: first the connector's, then those of dependencies that need
        another version.
        """
        chosen = environment.get(VARIABLE)
        if chosen:
            return cls.parse(chosen, VARIABLE)
        scala, version = installed_spark(environment)
        return cls(Coordinate("org.apache.spark", f"spark-sql-kafka-0-10_{scala}", version))

    @classmethod
    def parse(cls, text: str, field: str) -> Self:
        """Read comma-separated coordinates: the connector's own, then the overrides."""
        first, *rest = [Coordinate.parse(one, field) for one in text.split(",")]
        return cls(first, tuple(rest))

    def as_text(self) -> str:
        """Write what `parse` reads."""
        return ",".join(str(one) for one in (self.coordinate, *self.overrides))

    def package_settings(self, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return settings with which Spark itself fetches the connector at each start, into Penstock's cache."""
        return {
            "spark.jars.packages": str(self.coordinate),
            "spark.jars.ivy": str(cache_folder(environment) / "ivy"),
        }

    def folder(self, environment: Mapping[str, str] = os.environ) -> Path:
        """The folder of the fetched jars. It need not exist yet."""
        names = [f"{one.artifact}-{one.version}" for one in (self.coordinate, *self.overrides)]
        return cache_folder(environment) / "connector" / "+".join(names)

    def jars(
        self,
        tell: Callable[[str], None] | None = None,
        environment: Mapping[str, str] = os.environ,
        stop: threading.Event | None = None,
    ) -> list[Path]:
        """Return the connector's jars and its dependencies that Spark lacks. Fetch them if they are missing.

        Raises
        ------
        NotFetchedError
            The repository cannot be reached, or does not have them.
        """
        folder = self.folder(environment)
        spark = SparkInstallation.find(environment)
        own = {_name(jar) for jar in (spark.home / "jars").glob("*.jar")}
        found = fetch_jars(
            [self.coordinate], folder, overrides=self.overrides, tell=tell, environment=environment, stop=stop
        )
        return [jar for jar in found if _name(jar) not in own]

    def settings(
        self,
        tell: Callable[[str], None] | None = None,
        environment: Mapping[str, str] = os.environ,
        stop: threading.Event | None = None,
    ) -> dict[str, str]:
        """Return ``spark.jars`` with the fetched jars."""
        return {"spark.jars": ",".join(str(jar) for jar in self.jars(tell, environment, stop))}


def connector_settings(
    tell: Callable[[str], None] | None = None,
    environment: Mapping[str, str] = os.environ,
    list_releases: ListReleases = releases,
    stop: threading.Event | None = None,
) -> dict[str, str]:
    """Return the Spark settings that add the connector of the installed Spark.

    A new Spark's connector appears in the repository a little later than its Python package. Until then the newest
    earlier one that is there is used instead. The log says so, and `tell` receives the message. Which one that is is
    kept in the cache, so not every start looks for it. Setting `stop` ends it with a ClusterError.

    Raises
    ------
    NotFetchedError
        Neither connector can be fetched.
    """
    wanted = KafkaConnector.of_installed(environment)
    if environment.get(VARIABLE) or wanted.folder(environment).is_dir():
        return wanted.settings(tell, environment, stop)
    note = wanted.folder(environment).with_name(f"{wanted.folder(environment).name}.instead")
    stand_in = _noted(note)
    if stand_in is None:
        try:
            return wanted.settings(tell, environment, stop)
        except NotFetchedError as fault:
            # Another repository than Maven Central has to be told what to take: it may have no list of releases.
            if not fault.missing or environment.get(SETTINGS_VARIABLE):
                raise
            stand_in = stand_in_for(wanted.coordinate, list_releases)
            if stand_in is None:
                raise
    missing = f"{wanted.coordinate} is not in the Maven repository with all that it needs"
    message = f"{missing}; {stand_in.coordinate} is used instead"
    _LOG.warning("%s", message)
    if tell is not None:
        tell(message)
    found = stand_in.settings(tell, environment, stop)
    note.write_text(stand_in.as_text())
    return found


def stand_in_for(missing: Coordinate, list_releases: ListReleases) -> KafkaConnector | None:
    """Return the newest earlier connector that the repository has; None: it has none of this major version.

    What it needs of Spark itself besides may be missing in its turn, and then is an earlier one, too.

    Examples
    --------
    >>> there = {"spark-sql-kafka-0-10_2.13": ["4.0.4", "4.2.0"], "spark-token-provider-kafka-0-10_2.13": ["4.0.0"]}
    >>> missing = Coordinate("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.3.0")
    >>> found = stand_in_for(missing, lambda group, artifact: there[artifact])
    >>> found.coordinate.version, found.overrides[0].version
    ('4.2.0', '4.0.0')
    """
    version = newest_up_to(missing.version, list_releases(missing.group, missing.artifact))
    if version is None:
        return None
    connector = Coordinate(missing.group, missing.artifact, version)
    tokens = missing.artifact.replace("spark-sql-kafka", "spark-token-provider-kafka")
    needed = newest_up_to(version, list_releases(missing.group, tokens))
    others = () if needed is None or needed == version else (Coordinate(missing.group, tokens, needed),)
    return KafkaConnector(connector, others)


def _noted(note: Path) -> KafkaConnector | None:
    try:
        return KafkaConnector.parse(note.read_text(), str(note))
    except FileNotFoundError:
        return None


def installed_spark(environment: Mapping[str, str] = os.environ) -> tuple[str, str]:
    """The Scala version and the Spark version of the installed Spark, from the names of its jars."""
    spark = SparkInstallation.find(environment)
    for jar in (spark.home / "jars").glob("spark-core_*.jar"):
        match = _CORE.match(jar.name)
        if match is not None:
            return match[1], match[2]
    raise ConfigurationError(f"pyspark: no jar in {spark.home} shows its version; reinstall it", field="pyspark")


def _name(jar: Path) -> str:
    match = _JAR.match(jar.name)
    return jar.stem if match is None else match[1]
