# SPDX-License-Identifier: Apache-2.0
"""The virtual machine for tests on cgroup v2: what it is made of, and what is said where it cannot be had."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    """The script as a module; it finds its neighbour as it does when it is run."""
    sys.path.insert(0, str(SCRIPTS))
    try:
        yield importlib.import_module("test_cgroup_v2")
    finally:
        sys.path.remove(str(SCRIPTS))
        for name in ("test_cgroup_v2", "vm_image"):
            sys.modules.pop(name, None)


def report(**counts: int) -> ElementTree.Element:
    """A report as pytest writes it."""
    root = ElementTree.Element("testsuites")
    ElementTree.SubElement(root, "testsuite", {word: str(count) for word, count in counts.items()})
    return root


def test_missing_rights_and_programs_are_told_with_what_mends_them(script: ModuleType) -> None:
    """The reason for a skip names what is missing and the command that brings it."""
    assert "as root" in script.why_not_here(lambda name: name, is_root=False)
    assert "qemu-system-x86_64 (apt-get install qemu-system-x86)" in script.why_not_here(lambda _: None, is_root=True)
    assert script.why_not_here(lambda name: name, is_root=True) is None


def test_where_it_cannot_be_had_the_tests_are_skipped_with_the_reason(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is made or started then, and that is no failure."""
    monkeypatch.setattr(script, "why_not_here", lambda: "there is no root")
    monkeypatch.setattr(script, "fetch_image", lambda: pytest.fail("something was made"))
    assert script.main([]) == 0
    assert "are skipped: there is no root" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("reports", "code"),
    [
        ([report(tests=9, failures=0, errors=0, skipped=2), report(tests=9, failures=0, errors=0, skipped=0)], 0),
        ([report(tests=9, failures=1, errors=0, skipped=0), report(tests=9, failures=0, errors=0, skipped=0)], 1),
        ([report(tests=9, failures=0, errors=0, skipped=0), None], 1),
        ([report(tests=9, failures=0, errors=0, skipped=9), report(tests=9, failures=0, errors=0, skipped=0)], 1),
        ([report(tests=0, failures=0, errors=0, skipped=0), report(tests=9, failures=0, errors=0, skipped=0)], 1),
    ],
)
def test_success_needs_tests_that_passed_from_both_users(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, reports: list[ElementTree.Element | None], code: int
) -> None:
    """A failure, a report that did not come, nothing but skipped tests, and no tests at all are failures."""
    monkeypatch.setattr(script, "why_not_here", lambda: None)
    monkeypatch.setattr(script, "fetch_image", lambda: script.Image(Path("d"), Path("vmlinuz-6.1.0"), Path("i")))
    monkeypatch.setattr(script, "run", lambda *_: reports)
    assert script.main([]) == code


def test_machine_has_no_network_and_changes_no_image(script: ModuleType) -> None:
    """What the command line promises: nothing goes out, and the next run finds the same disk."""
    image = script.Image(Path("/c/disk.img"), Path("/c/vmlinuz-6"), Path("/c/initrd"))
    line = " ".join(script.qemu(image, Path("/t/disk.img"), [Path("/t/report")]))
    assert "-nic none" in line
    assert "file=/c/disk.img,format=raw,if=virtio,snapshot=on" in line


def test_what_the_machine_says_is_printed_until_it_is_off(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In place of QEMU a shell writes the reports: they are read, and nothing of the run is left."""
    reports = "".join(f"echo '<testsuites><testsuite tests=\"{n}\"/></testsuites>' > $0-{n}.xml; " for n in range(2))
    monkeypatch.setattr(script, "fill", lambda tree, _: tree.mkdir())
    monkeypatch.setattr(script, "make_disk", lambda *_: None)
    monkeypatch.setattr(
        script,
        "qemu",
        lambda _, disk, files: ["sh", "-c", f"{reports} echo one; sleep 0.7; echo two", str(files[0])[:-6]],
    )
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    found = script.run(script.Image(tmp_path, tmp_path, tmp_path), [])
    assert [next(iter(report)).get("tests") for report in found] == ["0", "1"]
    assert capsys.readouterr().out == "one\ntwo\n"
    assert list(tmp_path.iterdir()) == []


def test_everything_that_the_tests_import_is_brought(script: ModuleType, tmp_path: Path) -> None:
    """What distributions ask for comes with them, and their files are copied whole."""
    assert {"pytest", "pluggy", "iniconfig"} <= {name.lower() for name in script.with_requirements(["pytest"])}
    script.copy_packages(["pluggy"], tmp_path)
    assert (tmp_path / "pluggy" / "__init__.py").is_file()


def test_what_is_run_inside_knows_user_and_arguments(script: ModuleType) -> None:
    """The script inside uses what is put before it, and its words are quoted."""
    text = script.INSIDE.read_text(encoding="utf-8")
    for word in ('"${tests[@]}"', '"$user"', "user@$user_id.service"):
        assert word in text
