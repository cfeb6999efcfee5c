# SPDX-License-Identifier: Apache-2.0
"""Spark's Kafka connector, which the PySpark package lacks: as a Maven coordinate, or as jars fetched once.

For a single job, ``spark.jars.packages`` is enough. Penstock starts many applications, so it fetches the jars once and
passes them as ``spark.jars``: no start waits for the network.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.adaptors.kafka.cache import cache_folder
from penstock.adaptors.kafka.maven import Coordinate, NotFetchedError, fetch_jars
from penstock.adaptors.spark.installation import SparkInstallation
from penstock.errors import ConfigurationError

_LOG = logging.getLogger(__name__)

VARIABLE = "PENSTOCK_KAFKA_CONNECTOR"
_CORE = re.compile(r"^spark-core_([\d.]+)-(.+)\.jar$")
_JAR = re.compile(r"^(.+?)-\d[^/]*\.jar$")


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
            first, *rest = [Coordinate.parse(text, VARIABLE) for text in chosen.split(",")]
            return cls(first, tuple(rest))
        scala, version = installed_spark(environment)
        return cls(_connector(scala, version))

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
        self, tell: Callable[[str], None] | None = None, environment: Mapping[str, str] = os.environ
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
        found = fetch_jars([self.coordinate], folder, overrides=self.overrides, tell=tell, environment=environment)
        return [jar for jar in found if _name(jar) not in own]

    def settings(
        self, tell: Callable[[str], None] | None = None, environment: Mapping[str, str] = os.environ
    ) -> dict[str, str]:
        """Return ``spark.jars`` with the fetched jars."""
        return {"spark.jars": ",".join(str(jar) for jar in self.jars(tell, environment))}


def connector_settings(
    tell: Callable[[str], None] | None = None, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the Spark settings that add the connector of the installed Spark.

    A new Spark's connector appears in the repository a little later than its Python package. Until then, the connector
    known to work with that Spark is used instead. The log says so, and `tell` receives the message.

    Raises
    ------
    NotFetchedError
        Neither connector can be fetched.
    """
    wanted = KafkaConnector.of_installed(environment)
    stand_in = None if environment.get(VARIABLE) else stand_in_for(*installed_spark(environment))
    if stand_in is None:
        return wanted.settings(tell, environment)
    if wanted.folder(environment).is_dir() or not stand_in.folder(environment).is_dir():
        try:
            return wanted.settings(tell, environment)
        except NotFetchedError as fault:
            if not fault.missing:
                raise
    # The stand-in's folder in the cache shows that the connector was missing, so not every start asks again.
    message = f"{wanted.coordinate} is not in the Maven repository; {stand_in.coordinate} is used instead"
    _LOG.warning("%s", message)
    if tell is not None:
        tell(message)
    return stand_in.settings(tell, environment)


def stand_in_for(scala: str, version: str) -> KafkaConnector | None:
    """Return a connector of another version that was seen to read and write on this Spark.

    Examples
    --------
    >>> str(stand_in_for("2.13", "4.3.0").coordinate)
    'org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0'
    """
    if scala != "2.13" or not version.startswith("4.3."):
        return None
    tokens = Coordinate("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0")
    return KafkaConnector(_connector(scala, "4.2.0"), (tokens,))


def installed_spark(environment: Mapping[str, str] = os.environ) -> tuple[str, str]:
    """The Scala version and the Spark version of the installed Spark, from the names of its jars."""
    spark = SparkInstallation.find(environment)
    for jar in (spark.home / "jars").glob("spark-core_*.jar"):
        match = _CORE.match(jar.name)
        if match is not None:
            return match[1], match[2]
    raise ConfigurationError(f"pyspark: no jar in {spark.home} shows its version; reinstall it", field="pyspark")


def _connector(scala: str, version: str) -> Coordinate:
    return Coordinate("org.apache.spark", f"spark-sql-kafka-0-10_{scala}", version)


def _name(jar: Path) -> str:
    match = _JAR.match(jar.name)
    return jar.stem if match is None else match[1]
