# SPDX-License-Identifier: Apache-2.0
"""Fetches jars with their dependencies from a Maven repository, once, by the Ivy that comes with Spark.

A folder of jars appears whole or not at all: it is filled under another name and then renamed. Ivy checks every file
against its published checksum. To use another repository than Maven Central, set PENSTOCK_IVY_SETTINGS to the path of
an ivysettings.xml, as with Spark's ``spark.jars.ivySettings``.
"""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from xml.sax.saxutils import quoteattr

from penstock.adaptors.spark.installation import SparkInstallation
from penstock.errors import ClusterError, ConfigurationError

SETTINGS_VARIABLE = "PENSTOCK_IVY_SETTINGS"
_TIMEOUT_SECONDS = 900.0
_POLL_SECONDS = 0.2
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
    stop: threading.Event | None = None,
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
    stop
        Set it to end the fetching, or the wait for another process that fetches the same.

    Raises
    ------
    NotFetchedError
        The repository cannot be reached, does not have an artifact or takes a quarter of an hour. The folder does not
        exist then.
    ClusterError
        It was stopped; the folder does not exist.
    ConfigurationError
        Spark or Java is missing, or the cache folder is not writable.
    """
    if not folder.is_dir():
        say, asked = tell or (lambda _: None), stop or threading.Event()
        with _alone(folder, say, asked):
            if not folder.is_dir():  # another process may have fetched it while we waited
                lines = _dependency_lines(wanted, overrides, with_dependencies)
                _fetch(wanted, lines, folder, say, environment, stop=asked)
    return sorted(folder.glob("*.jar"))


def _fetch(
    wanted: Sequence[Coordinate],
    lines: str,
    folder: Path,
    tell: Callable[[str], None],
    environment: Mapping[str, str],
    *,
    stop: threading.Event,
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
        _run_ivy(command, wanted, tell, stop)
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


def _run_ivy(
    command: list[str], wanted: Sequence[Coordinate], tell: Callable[[str], None], stop: threading.Event
) -> None:
    last: deque[str] = deque(maxlen=12)
    missing: list[str] = []
    fetched = 0
    names = ", ".join(str(one) for one in wanted)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        for line in _lines_of(process, stop):
            last.append(line)
            if "[SUCCESSFUL ]" in line:
                fetched += 1
                if fetched % 10 == 0:
                    tell(f"{fetched} files fetched")
            if ": not found" in line and line.startswith("::"):
                missing.append(line.lstrip(": ").removesuffix(": not found"))
        code = process.wait(_POLL_SECONDS * 50)  # it has said its last
    except (TimeoutError, subprocess.TimeoutExpired) as fault:
        raise NotFetchedError(
            f"{names}: not fetched within {_TIMEOUT_SECONDS:g} s: the Maven repository does not answer, or slowly. To "
            f"use another repository, set {SETTINGS_VARIABLE} to the path of an ivysettings.xml. Ivy's last output:\n"
            + "\n".join(last),
            (),
        ) from fault
    finally:  # Ctrl-C too: the JVM does not outlive us
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
    if code != 0:
        if missing:
            said = f"the Maven repository does not have {', '.join(missing)}"
        else:
            said = "the Maven repository cannot be reached, or its answer was unexpected"
        raise NotFetchedError(
            f"{names}: {said}. Is this machine on the network? To use another repository, set "
            f"{SETTINGS_VARIABLE} to the path of an ivysettings.xml. Ivy's last output:\n" + "\n".join(last),
            missing,
        )


def _lines_of(process: subprocess.Popen[bytes], stop: threading.Event) -> Iterator[str]:
    """The lines that a process writes, as they come; raises ClusterError once stopped, TimeoutError when it is due."""
    assert process.stdout is not None
    number, deadline, rest = process.stdout.fileno(), time.monotonic() + _TIMEOUT_SECONDS, b""
    while True:
        _check_stop(stop)
        if time.monotonic() > deadline:
            raise TimeoutError
        if not select.select([number], [], [], _POLL_SECONDS)[0]:
            continue
        found = os.read(number, 65536)
        *lines, rest = (rest + found).split(b"\n")
        if not found:
            lines, rest = [rest], b""
        for line in lines:
            if text := line.decode(errors="replace").strip():
                yield text
        if not found:
            return


def _check_stop(stop: threading.Event) -> None:
    if stop.is_set():
        raise ClusterError("stopped while jars were fetched", target="Maven repository")


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
def _alone(folder: Path, tell: Callable[[str], None], stop: threading.Event) -> Iterator[None]:
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
        is_waiting = False
        while not _has_locked(lock):
            if not is_waiting:
                is_waiting = True
                tell(f"waiting for another process that fetches {folder}")
            _check_stop(stop)
            stop.wait(_POLL_SECONDS)
        yield


def _has_locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
