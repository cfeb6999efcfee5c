# SPDX-License-Identifier: Apache-2.0
"""Hadoop's servers as jars: fetched from a Maven repository on first use and kept in the cache.

The PySpark package has Hadoop's client and most of what servers need. `hadoop-client-minicluster` of the same version
has the servers themselves. What it names as its own dependencies is in the PySpark package, or not needed, except for
Bouncy Castle, which the ResourceManager makes certificates with.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.adaptors.kafka.cache import cache_folder
from penstock.adaptors.kafka.maven import Coordinate, fetch_jars
from penstock.adaptors.spark.installation import SparkInstallation
from penstock.errors import ConfigurationError

_CLIENT = "hadoop-client-api-"
_BOUNCY_CASTLE_VERSION = "1.82"
_NEEDED = {"nsenter": "apt-get install util-linux", "bash": "apt-get install bash"}


@dataclass(frozen=True, slots=True)
class Hadoop:
    """The servers' jars, and their version."""

    jars: Path
    version: str


def hadoop_version(spark_home: Path) -> str:
    """Return the version of the Hadoop client that comes with Spark.

    Raises
    ------
    ConfigurationError
        There is none: a PySpark without Hadoop.
    """
    found = sorted((spark_home / "jars").glob(f"{_CLIENT}*.jar"))
    if not found:
        raise ConfigurationError(
            f"pyspark: {spark_home}/jars has no Hadoop client; install a PySpark with Hadoop", field="pyspark"
        )
    return found[0].stem.removeprefix(_CLIENT)


def why_not_here(which: Callable[[str], str | None] = shutil.which, *, is_root: bool | None = None) -> str | None:
    """Return in one line why no YARN can be started on this machine. None: it can, as far as can be seen."""
    if not (os.geteuid() == 0 if is_root is None else is_root):
        return "it makes a network namespace, which needs root; run it as root: sudo -E env PATH=$PATH <your command>"
    missing = [f"{name} ({fix})" for name, fix in _NEEDED.items() if which(name) is None]
    return f"programs are missing: {', '.join(missing)}" if missing else None


def fetch_hadoop(
    installation: SparkInstallation,
    tell: Callable[[str], None] | None = None,
    environment: Mapping[str, str] = os.environ,
    stop: threading.Event | None = None,
) -> Hadoop:
    """Return the servers' jars for this Spark. Fetch them (some 65 MB) if they are missing, until `stop` is set.

    Raises
    ------
    NotFetchedError
        The repository cannot be reached, or has no such version; nothing is left behind.
    """
    version = hadoop_version(installation.home)
    folder = cache_folder(environment) / "hadoop" / version
    wanted = [Coordinate("org.apache.hadoop", "hadoop-client-minicluster", version)]
    wanted += [
        Coordinate("org.bouncycastle", f"{name}-jdk18on", _BOUNCY_CASTLE_VERSION)
        for name in ("bcprov", "bcpkix", "bcutil")
    ]
    fetch_jars(wanted, folder, with_dependencies=False, tell=tell, environment=environment, stop=stop)
    return Hadoop(folder, version)
