# SPDX-License-Identifier: Apache-2.0
"""What `penstock doctor` finds: each lack is named, weighed, and comes with the command that mends it."""

from __future__ import annotations

import importlib.metadata
import os
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.adaptors import machine
from penstock.adaptors.host_state import HostState
from penstock.adaptors.machine import Severity
from penstock.adaptors.process.identity import ProcessIdentity
from penstock.adaptors.process.leftovers import OWNER_FILE

GIB = 1 << 30


def test_every_check_is_made_once_and_a_lack_has_a_command(tmp_path: Path) -> None:
    """One look gives one finding per subject; whatever is not ok says how to mend it."""
    checks = machine.check_machine(tmp_path)
    assert [check.name for check in checks] == [
        "python", "java", "pyspark", "pandas", "pyarrow", "memory", "cores", "load", "cpu shares", "loopback", "disk",
        "leftovers", "report", "service", "kafka", "rabbitmq", "postgresql", "kubernetes",
    ]  # fmt: skip
    assert all(check.detail for check in checks)
    assert all(check.mend for check in checks if not check.ok)


def test_an_old_python_is_named() -> None:
    """Python 3.10 is refused with its version and a command."""
    check = machine.check_python((3, 10, 4))
    assert (check.ok, "3.10.4" in check.detail, check.mend) == (
        False,
        True,
        "sudo apt-get install python3.11-venv",
    )
    assert machine.check_python((3, 12, 0)).ok


def test_a_missing_extra_limits_and_names_what_it_brings() -> None:
    """Of an extra's packages the missing ones are named, with what is lost and the command; nothing is needed."""

    def version_of(name: str) -> str:
        if name == "uvicorn":
            raise importlib.metadata.PackageNotFoundError(name)
        return "1.0"

    check = machine.check_extra("service", ("fastapi", "uvicorn"), "no page", version_of=version_of)
    assert (check.ok, check.detail) == (False, "uvicorn is not installed: no page")
    assert (check.mend, check.severity) == ("pip install 'penstock[service]'", Severity.OPTIONAL)
    whole = machine.check_extra("service", ("fastapi",), "no page", version_of=version_of)
    assert (whole.ok, whole.detail) == (True, "fastapi 1.0")


def test_doctor_asks_for_what_the_extras_bring() -> None:
    """The packages that are checked are those that pyproject.toml gives each extra."""
    settings = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))
    extras = settings["project"]["optional-dependencies"]
    named = {e: {re.split(r"[\[<>=~ ]", r)[0] for r in requirements} for e, requirements in extras.items()}
    assert {e: set(packages) for e, (packages, _) in machine.EXTRAS.items()} == {
        e: packages for e, packages in named.items() if e not in {"spark", "dev"}
    }


def test_missing_java_gives_the_install_command(tmp_path: Path) -> None:
    """Without any Java the finding is needed and carries the apt command."""
    check = machine.check_java({"PATH": str(tmp_path)}, tmp_path)
    assert not check.ok
    assert check.severity is Severity.NEEDED
    assert check.mend == "sudo apt-get install openjdk-17-jre-headless"


def test_a_wrong_java_home_is_to_be_unset(tmp_path: Path) -> None:
    """A JAVA_HOME that leads nowhere is named, and unsetting it is part of the mending."""
    check = machine.check_java({"JAVA_HOME": str(tmp_path), "PATH": ""}, tmp_path)
    assert not check.ok
    assert check.detail.startswith("JAVA_HOME:")
    assert check.mend.startswith("unset JAVA_HOME")


@pytest.mark.parametrize(
    ("version", "ok"),
    [("2.1.9", False), ("2.2", True), ("2.3.3", True), ("3.0.0", False), ("2.9.0.dev1", True)],
)
def test_a_packages_version_must_lie_in_its_range(version: str, ok: bool) -> None:
    """Versions below the oldest or at the bound above are refused with the command that brings a good one."""
    check = machine.check_package("pandas", oldest="2.2", below="3", version_of=lambda name: version)
    assert check.ok is ok
    assert check.mend == ("" if ok else "pip install 'pandas>=2.2,<3'")


def test_a_package_that_is_not_there_is_named() -> None:
    """A package that is not installed is told with the extra that brings it."""

    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    check = machine.check_package("pyspark", oldest="3.5", below="4.4", version_of=missing)
    assert (check.ok, check.detail) == (False, "pyspark is not installed")
    assert "penstock[spark]" in check.mend


def test_memory_counts_what_the_container_leaves(tmp_path: Path) -> None:
    """The smaller of free memory and room under the container's limit counts, in both versions of cgroups."""
    assert machine.check_memory(8 * GIB, tmp_path).ok
    assert not machine.check_memory(GIB, tmp_path).ok
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text(f"{4 * GIB}\n")
    (tmp_path / "memory" / "memory.usage_in_bytes").write_text(f"{3 * GIB}\n")
    check = machine.check_memory(8 * GIB, tmp_path)
    assert (check.ok, check.detail.startswith("1.0 GiB")) == (False, True)  # 4 - 3 = 1 GiB is left
    (tmp_path / "memory.max").write_text("max\n")  # version 2 without a limit: the limit of version 1 still holds
    (tmp_path / "memory.current").write_text("5\n")
    assert not machine.check_memory(8 * GIB, tmp_path).ok
    (tmp_path / "memory.max").write_text(f"{8 * GIB}\n")
    assert machine.check_memory(8 * GIB, tmp_path).ok


def test_one_core_is_a_lack_but_not_a_hindrance() -> None:
    """A single core is told as an optional lack."""
    assert machine.check_cores(2).ok
    check = machine.check_cores(1)
    assert (check.ok, check.severity) == (False, Severity.OPTIONAL)


def test_cpu_shares_without_a_controller_mean_executors_alone(tmp_path: Path) -> None:
    """No CPU controller is an optional lack, and its consequence is said."""
    check = machine.check_cpu_shares(tmp_path)
    assert (check.ok, check.severity) == (False, Severity.OPTIONAL)
    assert "only executors are scaled" in check.detail
    (tmp_path / "cgroup.controllers").write_text("memory pids\n")  # version 2 without cpu
    assert not machine.check_cpu_shares(tmp_path).ok


def test_cpu_shares_are_found_in_both_versions(tmp_path: Path) -> None:
    """Version 1 is told by its quota file, version 2 by the controller's name."""
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu memory\n")
    check = machine.check_cpu_shares(tmp_path)
    assert (check.ok, "version 2" in check.detail) == (True, True)
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("-1\n")
    check = machine.check_cpu_shares(tmp_path)
    assert (check.ok, "version 1" in check.detail) == (True, True)


def test_cpu_shares_without_rights_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller that may not be written is an optional lack."""
    (tmp_path / "cgroup.controllers").write_text("cpu\n")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    check = machine.check_cpu_shares(tmp_path)
    assert (check.ok, "no right to write" in check.detail, check.severity) == (False, True, Severity.OPTIONAL)


def test_ports_that_cannot_be_taken_are_told() -> None:
    """An address that is not this machine's cannot be bound, and the finding says so."""
    assert machine.check_loopback_ports().ok
    check = machine.check_loopback_ports("192.0.2.1")  # an address kept for documentation: never ours
    assert (check.ok, check.mend) == (False, "sudo ip link set lo up")


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    """Less than one gibibyte in the temporary folder is a needed lack."""
    assert machine.check_disk(tmp_path, 2 * GIB).ok
    check = machine.check_disk(tmp_path, GIB // 2)
    assert (check.ok, "TMPDIR" in check.mend) == (False, True)


def test_a_dead_runs_folder_comes_with_the_command_that_removes_it(tmp_path: Path) -> None:
    """A folder whose owner is dead is named in a command safe for any name."""
    assert machine.check_leftovers(tmp_path).ok
    stale = tmp_path / "penstock-old one"
    stale.mkdir()
    # This pid, but a process that started at tick 1.
    (stale / OWNER_FILE).write_text(str(replace(ProcessIdentity.this_process(), started=1)))
    check = machine.check_leftovers(tmp_path)
    assert not check.ok
    assert check.mend.endswith(f"rm -rf '{stale}'")


def test_a_busy_machine_is_mentioned_and_fails_nothing() -> None:
    """A load beyond the cores is a limit, not a lack; a calm machine shows its load average."""
    busy = machine.check_load(HostState(2, 30.0, 0.9, 0.0))
    assert (busy.ok, busy.severity) == (False, machine.Severity.OPTIONAL)
    assert "the machine is busy: a load average of 30.0 on 2 cores" in busy.detail
    calm = machine.check_load(HostState(2, 0.4, 0.01, 0.0))
    assert (calm.ok, calm.detail) == (True, "load average 0.4 on 2 cores")
