# SPDX-License-Identifier: Apache-2.0
"""The Java runtime for Spark: 17 or newer, with the module that Spark's launcher asks for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import ConfigurationError

OLDEST_MAJOR = 17
NEEDED_MODULE = "jdk.incubator.vector"
"""Spark's launcher adds it to every process. A trimmed runtime without it does not start."""
INSTALL_COMMAND = "sudo apt-get install openjdk-17-jre-headless"
_HOW_TO_INSTALL = f"{INSTALL_COMMAND}, or set JAVA_HOME to a Java {OLDEST_MAJOR} or newer"
_VERSION_LINE = re.compile(r'version "([^"]+)"')
_RELEASE_LINE = re.compile(r'^(JAVA_VERSION|MODULES)="([^"]*)"', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Java:
    """One Java installation."""

    home: Path
    version: str
    modules: frozenset[str]

    @property
    def program(self) -> Path:
        """The path of ``bin/java``."""
        return self.home / "bin" / "java"

    @property
    def major(self) -> int:
        """The version's leading number. Before Java 9 it followed ``1.``."""
        first, _, rest = self.version.partition(".")
        number = re.match(r"\d+", rest if first == "1" else first)
        return int(number[0]) if number is not None else 0  # a version that is not a number is too old to be known

    @property
    def fault(self) -> str | None:
        """Why Spark cannot run on it. None: it can."""
        if self.major < OLDEST_MAJOR:
            return f"Java {self.version} in {self.home} is older than {OLDEST_MAJOR}"
        if NEEDED_MODULE not in self.modules:
            return f"Java {self.version} in {self.home} lacks the module {NEEDED_MODULE}"
        return None


def find_java(environment: Mapping[str, str] = os.environ, installed: Path = Path("/usr/lib/jvm")) -> Java:
    """Find a Java that runs Spark: JAVA_HOME if set, else on the PATH, else the oldest installed that fits.

    A JAVA_HOME that does not fit is an error and is never ignored: it was set on purpose.

    Raises
    ------
    ConfigurationError
        None fits. The message says what was found and gives the command that installs one.
    """
    chosen = environment.get("JAVA_HOME")
    if chosen:
        java = read_java(Path(chosen))
        fault = f"no Java in {chosen}" if java is None else java.fault
        if java is None or fault is not None:
            raise ConfigurationError(f"JAVA_HOME: {fault}; unset it, or: {_HOW_TO_INSTALL}", field="JAVA_HOME")
        return java
    homes = []
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path is not None:
        homes.append(Path(on_path).resolve().parent.parent)
    found = [java for home in homes if (java := read_java(home)) is not None]
    if installed.is_dir():
        others = {home.resolve() for home in installed.iterdir()} - set(homes)
        found += sorted((java for home in others if (java := read_java(home)) is not None), key=lambda java: java.major)
    for java in found:
        if java.fault is None:
            return java
    seen = "; ".join(str(java.fault) for java in found) or "none found in JAVA_HOME, PATH or " + str(installed)
    raise ConfigurationError(
        f"java: Java {OLDEST_MAJOR} or newer is needed: {seen}; to fix it: {_HOW_TO_INSTALL}", field="java"
    )


def read_java(home: Path) -> Java | None:
    """Describe the Java in `home`, or return None if none starts there."""
    program = home / "bin" / "java"
    if not os.access(program, os.X_OK):
        return None
    facts: dict[str, str] = {}
    if (
        home / "release"
    ).is_file():  # read the file instead of running Java: a JVM costs a good part of a second on a busy machine
        facts = dict(_RELEASE_LINE.findall((home / "release").read_text(errors="replace")))
    version = facts.get("JAVA_VERSION") or _ask_version(program)
    if version is None:
        return None
    modules = facts["MODULES"].split() if "MODULES" in facts else _ask_modules(program)
    return Java(home, version, frozenset(modules))


def _ask_version(program: Path) -> str | None:
    match = _VERSION_LINE.search(_run(program, "-version"))
    return match[1] if match else None


def _ask_modules(program: Path) -> list[str]:
    return [line.partition("@")[0] for line in _run(program, "--list-modules").splitlines()]


def _run(program: Path, option: str) -> str:
    try:
        done = subprocess.run([program, option], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):  # not a program for this machine: not a Java
        return ""
    return done.stdout + done.stderr
