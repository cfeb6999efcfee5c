# SPDX-License-Identifier: Apache-2.0
"""Spark's Kafka connector, which is not in the PySpark package: as a Maven coordinate, or as jars fetched once.

``spark.jars.packages`` is enough for a job of one's own. Penstock starts many applications, so it fetches the jars
once and gives them as ``spark.jars``: no start waits for the network.
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
        """The one of the installed Spark's version, or what PENSTOCK_KAFKA_CONNECTOR names.

        The variable holds coordinates with commas between: the connector's, then those of dependencies whose
        version is to be another.
        """
        chosen = environment.get(VARIABLE)
        if chosen:
            first, *rest = [Coordinate.parse(text, VARIABLE) for text in chosen.split(",")]
            return cls(first, tuple(rest))
        scala, version = installed_spark(environment)
        return cls(_connector(scala, version))

    def package_settings(self, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Settings with which Spark fetches the connector by itself at each start, into Penstock's cache."""
        return {
            "spark.jars.packages": str(self.coordinate),
            "spark.jars.ivy": str(cache_folder(environment) / "ivy"),
        }

    def folder(self, environment: Mapping[str, str] = os.environ) -> Path:
        """Where the fetched jars are kept, or will be."""
        names = [f"{one.artifact}-{one.version}" for one in (self.coordinate, *self.overrides)]
        return cache_folder(environment) / "connector" / "+".join(names)

    def jars(
        self, tell: Callable[[str], None] | None = None, environment: Mapping[str, str] = os.environ
    ) -> list[Path]:
        """The connector's jars and those it needs that Spark does not have; fetched if they are not there.

        Raises
        ------
        NotFetchedError
            The repository cannot be reached, or has not got them.
        """
        folder = self.folder(environment)
        spark = SparkInstallation.find(environment)
        own = {_name(jar) for jar in (spark.home / "jars").glob("*.jar")}
        found = fetch_jars([self.coordinate], folder, overrides=self.overrides, tell=tell, environment=environment)
        return [jar for jar in found if _name(jar) not in own]

    def settings(
        self, tell: Callable[[str], None] | None = None, environment: Mapping[str, str] = os.environ
    ) -> dict[str, str]:
        """``spark.jars`` with the fetched jars."""
        return {"spark.jars": ",".join(str(jar) for jar in self.jars(tell, environment))}


def connector_settings(
    tell: Callable[[str], None] | None = None, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Spark settings that bring the connector of the installed Spark.

    Where the repository has not got that version (a new Spark's come a little later than its Python package), the
    connector seen to work with it stands in; that is logged, and `tell` is told.

    Raises
    ------
    NotFetchedError
        Neither can be had.
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
    # It is not asked for again at every start: the stand-in's folder in the cache tells that it was missing.
    told = f"{wanted.coordinate} is not in the Maven repository; {stand_in.coordinate} stands in for it"
    _LOG.warning("%s", told)
    if tell is not None:
        tell(told)
    return stand_in.settings(tell, environment)


def stand_in_for(scala: str, version: str) -> KafkaConnector | None:
    """A connector of another version that was seen to read and write on this Spark.

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
    """The Scala version of the installed Spark, and its own, by the names of its jars."""
    spark = SparkInstallation.find(environment)
    for jar in (spark.home / "jars").glob("spark-core_*.jar"):
        match = _CORE.match(jar.name)
        if match is not None:
            return match[1], match[2]
    raise ConfigurationError(f"pyspark: the version of {spark.home} cannot be told", field="pyspark")


def _connector(scala: str, version: str) -> Coordinate:
    return Coordinate("org.apache.spark", f"spark-sql-kafka-0-10_{scala}", version)


def _name(jar: Path) -> str:
    match = _JAR.match(jar.name)
    return jar.stem if match is None else match[1]
