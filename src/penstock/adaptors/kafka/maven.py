# SPDX-License-Identifier: Apache-2.0
"""Fetches jars with their dependencies from a Maven repository, once, by the Ivy that comes with Spark.

A folder of jars appears whole or not at all: it is filled under another name and then renamed. Ivy checks every file
against its published checksum. To use another repository than Maven Central, set PENSTOCK_IVY_SETTINGS to the path of
an ivysettings.xml, as with Spark's ``spark.jars.ivySettings``.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from penstock.adaptors.spark.installation import SparkInstallation
from penstock.errors import ClusterError, ConfigurationError

SETTINGS_VARIABLE = "PENSTOCK_IVY_SETTINGS"
_TIMEOUT_SECONDS = 900.0
_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir={cache}/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""
_MODULE = """\
<ivy-module version="2.0">
  <info organisation="penstock" module="fetched"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{lines}
  </dependencies>
</ivy-module>
"""


@dataclass(frozen=True, slots=True)
class Coordinate:
    """One artifact: ``group:artifact:version``."""

    group: str
    artifact: str
    version: str

    @classmethod
    def parse(cls, text: str, field: str) -> Coordinate:
        """Read ``group:artifact:version``."""
        parts = text.strip().split(":")
        if len(parts) != 3 or not all(parts):
            raise ConfigurationError(f"{field}: {text.strip()!r} is not group:artifact:version", field=field)
        return cls(*parts)

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


class NotFetchedError(ClusterError):
    """Jars could not be fetched. `missing` names those that the repository does not have."""

    def __init__(self, message: str, missing: Sequence[str]) -> None:
        super().__init__(message, target="Maven repository", retryable=not missing)
        self.missing = tuple(missing)


def fetch_jars(
    wanted: Sequence[Coordinate],
    folder: Path,
    *,
    overrides: Sequence[Coordinate] = (),
    with_dependencies: bool = True,
    tell: Callable[[str], None] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> list[Path]:
    """Return the jars in `folder`. If the folder does not exist, fetch them first, with their dependencies.

    Parameters
    ----------
    wanted, overrides
        The artifacts, and dependencies whose version is fixed whatever others ask for.
    with_dependencies
        Whether to fetch what the artifacts name as their dependencies, too.
    tell
        Receives messages about what is fetched and how far it is. Not called when the folder exists.

    Raises
    ------
    NotFetchedError
        The repository cannot be reached or does not have an artifact. The folder does not exist then.
    ConfigurationError
        Spark or Java is missing, or the cache folder is not writable.
    """
    if not folder.is_dir():
        say = tell or (lambda _: None)
        with _alone(folder):
            if not folder.is_dir():  # another process may have fetched it while we waited
                _fetch(wanted, _dependency_lines(wanted, overrides, with_dependencies), folder, say, environment)
    return sorted(folder.glob("*.jar"))


def _fetch(
    wanted: Sequence[Coordinate],
    lines: str,
    folder: Path,
    tell: Callable[[str], None],
    environment: Mapping[str, str],
) -> None:
    spark = SparkInstallation.find(environment)
    ivy = ivy_jar(spark)
    tell(f"fetching {', '.join(str(one) for one in wanted)} and what it needs, once, into {folder}")
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        work = Path(temporary)
        settings = _settings_file(work, environment)
        (work / "ivy.xml").write_text(_MODULE.format(lines=lines))
        jars = work / "jars"
        command = [
            str(spark.java.program), "-XX:-UsePerfData", "-Xmx256m", "-jar", str(ivy), "-settings", str(settings),
            "-ivy", str(work / "ivy.xml"), "-retrieve", str(jars / "[artifact]-[revision](-[classifier]).[ext]"),
        ]  # fmt: skip
        _run_ivy(command, wanted, tell)
        try:
            jars.rename(folder)
        except OSError as fault:
            raise NotFetchedError(f"{folder}: cannot be created: {fault}", ()) from fault
    tell(f"fetched {len(list(folder.glob('*.jar')))} jars")


def ivy_jar(spark: SparkInstallation) -> Path:
    """Return the Ivy that comes with a Spark."""
    found = sorted((spark.home / "jars").glob("ivy-*.jar"))
    if not found:
        raise ConfigurationError(f"pyspark: {spark.home}/jars has no Ivy; reinstall PySpark", field="pyspark")
    return found[-1]


def _run_ivy(command: list[str], wanted: Sequence[Coordinate], tell: Callable[[str], None]) -> None:
    last: deque[str] = deque(maxlen=12)
    missing: list[str] = []
    fetched = 0
    # Output is read as it comes, to report progress. Ivy's own end or the timer ends the loop.
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace")  # fmt: skip
    try:
        assert process.stdout is not None
        with process.stdout as output:
            for line in output:
                if line.strip():
                    last.append(line.strip())
                if "[SUCCESSFUL ]" in line:
                    fetched += 1
                    if fetched % 10 == 0:
                        tell(f"{fetched} files fetched")
                if ": not found" in line and line.strip().startswith("::"):
                    missing.append(line.strip().lstrip(": ").removesuffix(": not found"))
        code = process.wait(_TIMEOUT_SECONDS)
    except BaseException:  # Ctrl-C too: the JVM does not outlive us
        process.kill()
        process.wait()
        raise
    if code != 0:
        names = ", ".join(str(one) for one in wanted)
        if missing:
            said = f"the Maven repository does not have {', '.join(missing)}"
        else:
            said = "the Maven repository cannot be reached, or its answer was unexpected"
        raise NotFetchedError(
            f"{names}: {said}. Is this machine on the network? To use another repository, set "
            f"{SETTINGS_VARIABLE} to the path of an ivysettings.xml. Ivy's last output:\n" + "\n".join(last),
            missing,
        )


def _settings_file(work: Path, environment: Mapping[str, str]) -> Path:
    chosen = environment.get(SETTINGS_VARIABLE)
    if chosen:
        if not Path(chosen).is_file():
            raise ConfigurationError(
                f"{SETTINGS_VARIABLE}: {chosen} does not exist; unset it, or give the path of an ivysettings.xml",
                field=SETTINGS_VARIABLE,
            )
        return Path(chosen).absolute()
    settings = work / "ivysettings.xml"
    settings.write_text(_SETTINGS.format(cache=quoteattr(str(work / "cache"))))
    return settings


def _dependency_lines(
    wanted: Sequence[Coordinate], overrides: Sequence[Coordinate], with_dependencies: bool = True
) -> str:
    alone = "" if with_dependencies else 'transitive="false" '
    lines = [
        f"    <dependency org={quoteattr(one.group)} name={quoteattr(one.artifact)} rev={quoteattr(one.version)} "
        f'{alone}conf="default->default(runtime)"/>'
        for one in wanted
    ]
    lines += [
        f"    <override org={quoteattr(one.group)} module={quoteattr(one.artifact)} rev={quoteattr(one.version)}/>"
        for one in overrides
    ]
    return "\n".join(lines)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let two runs that start at once fetch once."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = (folder.parent / f".{folder.name}.lock").open("w")
    except OSError as fault:
        raise ConfigurationError(
            f"PENSTOCK_CACHE: {folder.parent} is not writable ({fault.strerror}); set the variable to another folder",
            field="PENSTOCK_CACHE",
        ) from fault
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
