# SPDX-License-Identifier: Apache-2.0
"""The search for a Java that runs Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.adaptors.spark.java import Java, find_java, read_java
from penstock.errors import ConfigurationError

MODULES = "java.base jdk.incubator.vector"


def make_java(home: Path, version: str, modules: str = MODULES, *, release: bool = True) -> Path:
    """A Java as far as the search looks at it: a launcher that answers, and a release file."""
    (home / "bin").mkdir(parents=True)
    launcher = home / "bin" / "java"
    listed = "\\n".join(f"{module}@{version}" for module in modules.split())
    launcher.write_text(
        "#!/bin/sh\n"
        f"case $1 in -version) echo 'openjdk version \"{version}\" 2025-04-15' >&2 ;;\n"
        f"--list-modules) printf '{listed}\\n' ;; esac\n"
    )
    launcher.chmod(0o755)
    if release:
        (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    """A fitting JAVA_HOME is taken."""
    chosen = make_java(tmp_path / "a", "21.0.2")
    other = make_java(tmp_path / "b", "17.0.1")
    java = find_java({"JAVA_HOME": str(chosen), "PATH": str(other / "bin")}, tmp_path / "none")
    assert (java.home, java.major, java.program) == (chosen, 21, chosen / "bin" / "java")


@pytest.mark.parametrize(
    ("version", "modules", "words"),
    [("11.0.2", MODULES, "older than 17"), ("17.0.1", "java.base", "lacks the module jdk.incubator.vector")],
)
def test_a_java_home_that_does_not_fit_is_refused(tmp_path: Path, version: str, modules: str, words: str) -> None:
    """JAVA_HOME was set on purpose: a wrong one is an error even when another Java would do."""
    chosen = make_java(tmp_path / "a", version, modules)
    good = make_java(tmp_path / "b", "17.0.1")
    with pytest.raises(ConfigurationError, match=words) as caught:
        find_java({"JAVA_HOME": str(chosen), "PATH": str(good / "bin")}, tmp_path)
    assert caught.value.field == "JAVA_HOME"
    assert "sudo apt-get install openjdk-17-jre-headless" in str(caught.value)


def test_a_java_home_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    """A JAVA_HOME without a launcher is named."""
    with pytest.raises(ConfigurationError, match=r"JAVA_HOME: no Java in /nowhere"):
        find_java({"JAVA_HOME": "/nowhere", "PATH": ""}, tmp_path)


def test_the_path_is_followed_through_links(tmp_path: Path) -> None:
    """The launcher on the PATH is a link on most systems; home is where it leads."""
    home = make_java(tmp_path / "jvm" / "real", "17.0.9")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(links)}, tmp_path / "none").home == home


def test_an_old_java_on_the_path_gives_way_to_an_installed_one(tmp_path: Path) -> None:
    """What is too old is passed over; among the installed ones the oldest that fits is taken."""
    old = make_java(tmp_path / "old", "1.8.0_402", "")
    installed = tmp_path / "jvm"
    for version in ("25.0.3", "17.0.15", "11.0.1"):
        make_java(installed / version, version)
    assert find_java({"PATH": str(old / "bin")}, installed).version == "17.0.15"


def test_no_java_at_all_names_what_was_found_and_the_command(tmp_path: Path) -> None:
    """The error lists every Java that was seen and why it does not fit."""
    make_java(tmp_path / "eleven", "11.0.1")
    with pytest.raises(ConfigurationError) as caught:
        find_java({"PATH": ""}, tmp_path)
    assert caught.value.field == "java"
    assert "Java 11.0.1" in str(caught.value)
    assert "older than 17" in str(caught.value)
    assert "sudo apt-get install openjdk-17-jre-headless" in str(caught.value)


def test_a_java_without_a_release_file_is_asked(tmp_path: Path) -> None:
    """Where no release file stands the launcher itself says version and modules."""
    java = read_java(make_java(tmp_path / "a", "17.0.3", release=False))
    assert java == Java(tmp_path / "a", "17.0.3", frozenset(MODULES.split()))


def test_something_that_is_no_java_is_none(tmp_path: Path) -> None:
    """A launcher that says no version, or cannot run, is not a Java."""
    (tmp_path / "bin").mkdir()
    launcher = tmp_path / "bin" / "java"
    launcher.write_text("#!/no/such/interpreter\n")
    launcher.chmod(0o755)
    assert read_java(tmp_path) is None
    assert read_java(tmp_path / "nothing") is None


@pytest.mark.parametrize(
    ("version", "major"), [("1.8.0_402", 8), ("9", 9), ("17.0.15", 17), ("25-ea", 25), ("21.0.2+13", 21)]
)
def test_the_major_version_is_read_from_old_and_new_names(version: str, major: int) -> None:
    """Before Java 9 the major number stood second."""
    assert Java(Path("/j"), version, frozenset()).major == major
