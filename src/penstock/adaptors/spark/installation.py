# SPDX-License-Identifier: Apache-2.0
"""The Spark inside the installed PySpark package, and how to run its daemons without its shell scripts."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.adaptors.spark.java import Java, find_java
from penstock.errors import ConfigurationError

MASTER_CLASS = "org.apache.spark.deploy.master.Master"
WORKER_CLASS = "org.apache.spark.deploy.worker.Worker"
INSTALL_COMMAND = "pip install 'penstock[spark]'"

# The packages that Spark's own launcher opens (seen in 4.3). A daemon needs no more than these.
_OPENED_PACKAGES = (
    "java.base/java.lang", "java.base/java.lang.invoke", "java.base/java.lang.reflect", "java.base/java.io",
    "java.base/java.net", "java.base/java.nio", "java.base/java.util", "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic", "java.base/jdk.internal.ref", "java.base/sun.nio.ch",
    "java.base/sun.nio.cs", "java.base/sun.security.action", "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)  # fmt: skip
# Daemons need little: one collector thread, the quick compiler, no shared-memory file in /tmp.
_SMALL_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xss512k")


@dataclass(frozen=True, slots=True)
class SparkInstallation:
    """Spark's folder, the Scala version of its jars, and the Java it runs on."""

    home: Path
    scala_version: str
    java: Java

    @classmethod
    def find(cls, environment: Mapping[str, str] = os.environ) -> SparkInstallation:
        """Find the installed PySpark, without importing it, and a Java for it.

        Raises
        ------
        ConfigurationError
            PySpark or Java is missing. The message gives the command that installs it.
        """
        spec = importlib.util.find_spec("pyspark")
        if spec is None or spec.origin is None:
            raise ConfigurationError(f"pyspark: not installed; run: {INSTALL_COMMAND}", field="pyspark")
        home = Path(spec.origin).parent
        cores = sorted((home / "jars").glob("spark-core_*.jar"))
        if not cores:
            raise ConfigurationError(
                f"pyspark: {home} has no jars (the small client package?); run: {INSTALL_COMMAND}",
                field="pyspark",
            )
        scala_version = cores[0].name.removeprefix("spark-core_").partition("-")[0]
        return cls(home, scala_version, find_java(environment))

    def daemon_command(
        self, main_class: str, arguments: list[str], *, conf: Path, temporary: Path, memory: str,
        properties: Mapping[str, str], more_jars: Path | None = None,
    ) -> list[str]:  # fmt: skip
        """Return the Java command of a master or worker, or of another server that needs the jars in `more_jars`.

        Spark's script `spark-class` would start a second JVM only to print this command. Without it a daemon is up
        about a second earlier, and its pid is that of the started process.
        """
        options = [*_SMALL_JVM, f"-Xmx{memory}", f"-Djava.io.tmpdir={temporary}"]
        options += [f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED_PACKAGES]
        if self.java.major >= 24:  # from that version on the JVM warns about Netty
            options += ["--sun-misc-unsafe-memory-access=allow", "--enable-native-access=ALL-UNNAMED"]
        options += [f"-D{name}={value}" for name, value in properties.items()]
        folders = [self.home / "jars"] if more_jars is None else [more_jars, self.home / "jars"]
        classpath = os.pathsep.join([str(conf), *(f"{folder}/*" for folder in folders)])
        return [str(self.java.program), *options, "-cp", classpath, main_class, *arguments]

    def environment(self) -> dict[str, str]:
        """Return variables that select this Spark, Java and Python for a process."""
        return {
            "SPARK_HOME": str(self.home),
            "SPARK_SCALA_VERSION": self.scala_version,
            "JAVA_HOME": str(self.java.home),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }


def without_spark_variables(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment without variables that would select another Spark."""
    return {name: value for name, value in environment.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
