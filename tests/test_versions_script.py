# SPDX-License-Identifier: Apache-2.0
"""The tests on every supported Spark: how they are started, what is made of their reports, and what is written down."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("test_versions_script_itself", ROOT / "scripts" / "test_versions.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def case(name: str, *children: str, **property_: str) -> str:
    """One test in a report, as pytest writes it."""
    noted = "".join(f'<property name="{key}" value="{value}" />' for key, value in property_.items())
    return f'<testcase name="{name}"><properties>{noted}</properties>{"".join(children)}</testcase>'


def report(*cases: str) -> ElementTree.Element:
    """A report with these tests."""
    return ElementTree.fromstring(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")


def everything_passed(script: ModuleType) -> list[str]:
    """A test for each that a column wants."""
    return [case(f"{name}_and_so_on") for names in script.COLUMNS.values() for name in names]


def test_the_named_spark_is_found_before_any_other(script: ModuleType) -> None:
    """Its folder comes first in the search path, and what is set for another Spark is left out."""
    made = script.environment_with(
        Path("/cache/spark-3.5.9"),
        {"PYTHONPATH": "/mine", "SPARK_HOME": "/other", "PYSPARK_PYTHON": "/other/python", "HOME": "/home/me"},
    )
    assert made == {"PYTHONPATH": f"/cache/spark-3.5.9{os.pathsep}/mine", "HOME": "/home/me"}
    assert script.environment_with(Path("/cache/spark"), {}) == {"PYTHONPATH": "/cache/spark"}


def test_the_marked_tests_are_run_and_other_arguments_are_pytests(script: ModuleType, tmp_path: Path) -> None:
    """All files with the mark, or for the quick run the one whose tests it names."""
    marked = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"pytest\.mark\.versions\b", path.read_text(encoding="utf-8"))
    }
    assert set(script.FILES) == marked - {"tests/test_versions_script.py"}
    whole = script.command(tmp_path / "report.xml", ["-x"])
    assert whole[:5] == [sys.executable, "-m", "pytest", "-m", "versions"]
    assert f"--junitxml={tmp_path / 'report.xml'}" in whole
    assert whole[-len(script.FILES) - 1 :] == [*script.FILES, "-x"]
    quick = script.command(tmp_path / "report.xml", ["-x"], is_quick=True)
    names = [name for names in script.QUICK_COLUMNS.values() for name in names]
    assert quick[-4:] == ["-k", " or ".join(names), *script.QUICK_FILES, "-x"]


@pytest.mark.parametrize("columns", ["COLUMNS", "QUICK_COLUMNS"])
def test_every_column_has_its_tests(script: ModuleType, columns: str) -> None:
    """Each beginning is that of one test in the files that are run."""
    files = script.FILES if columns == "COLUMNS" else script.QUICK_FILES
    text = "".join((ROOT / file).read_text(encoding="utf-8") for file in files)
    for names in getattr(script, columns).values():
        for name in names:
            assert len(re.findall(rf"^def {name}\w*\(", text, re.MULTILINE)) == 1, name


def test_a_column_is_summed_up_in_a_word(script: ModuleType) -> None:
    """One failure fails it; a skip tells its reason; notes are kept; a report without its tests is no success."""
    skip = '<skipped message="needs Spark 4.2" />'
    read = report(
        case("test_a_one"), case("test_a_two", note="connector 4.2.0"), case("test_b", "<failure />"),
        case("test_c", skip), case("test_d"), case("test_d_two", skip), case("test_e", "<error />"),
    )  # fmt: skip
    cells = [script.cell(read, (name,)) for name in ("test_a", "test_b", "test_c", "test_d", "test_e", "test_f")]
    skipped = "skipped: needs Spark 4.2"
    assert cells == ["yes (connector 4.2.0)", "FAILED", skipped, skipped, "FAILED", "not run"]
    assert script.cell(None, ("test_a",)) == "not run"


@pytest.mark.parametrize(
    ("more", "code"),
    [([], 0), ([case("test_every_batch_twice", "<failure />")], 1), ([case("test_every_batch", "<skipped />")], 0)],
)
def test_the_run_fails_where_a_version_does(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: list[str], code: int
) -> None:
    """The named versions are run, with pytest's arguments, and the table has a row for each."""
    started = []

    def run(version: str, arguments: list[str], *, is_quick: bool) -> ElementTree.Element:
        started.append((version, arguments, is_quick))
        return report(*everything_passed(script), *more)

    monkeypatch.setattr(script, "run", run)
    monkeypatch.setattr(script, "java_version", lambda: "17")
    assert script.main(["4.3", "--quick", "-x", "3.5"]) == code
    assert started == [(script.SPARKS[line], ["-x"], True) for line in ("3.5", "4.3")]
    said = capsys.readouterr().out
    assert "| Spark | sensing | executors | CPU share |\n|---|---|---|---|\n" in said
    assert ("| 4.3.0 | yes | yes | yes |" in said) is (more == [])


def test_a_version_without_a_report_fails_the_run(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where pytest could not start."""
    monkeypatch.setattr(script, "run", lambda *_, **__: None)
    monkeypatch.setattr(script, "java_version", lambda: "17")
    assert script.main([]) == 1


def test_a_version_that_cannot_be_installed_keeps_no_other_from_being_tried(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has a row that says so, and the run fails."""

    def install(version: str) -> Path:
        if version == script.SPARKS["3.5"]:
            raise subprocess.CalledProcessError(1, ["pip"])
        return Path("/cache") / version

    def passed(given: list[str], **_: object) -> None:
        (name,) = [argument for argument in given if argument.startswith("--junitxml=")]
        ElementTree.ElementTree(report(*everything_passed(script))).write(name.removeprefix("--junitxml="))

    monkeypatch.setattr(script, "install", install)
    monkeypatch.setattr(script.subprocess, "run", passed)
    monkeypatch.setattr(script, "java_version", lambda: "17")
    assert script.main(["3.5", "4.3", "--quick"]) == 1
    said = capsys.readouterr().out
    assert f"penstock: Spark {script.SPARKS['3.5']} cannot be installed; pip says why above" in said
    assert (
        f"| {script.SPARKS['3.5']} | not run | not run | not run |\n| {script.SPARKS['4.3']} | yes | yes | yes |"
        in said
    )


def test_every_version_that_is_tried_has_a_row_in_the_documents(script: ModuleType) -> None:
    """The page on versions and the README name the releases of the script, with the columns of its table."""
    for page in ("docs/reference/versions.md", "README.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        rows = {row.split("|")[1].strip(): row for row in text.splitlines() if re.match(r"\| \d\.\d\.\d \|", row)}
        assert sorted(rows) == sorted(script.SPARKS.values()), page
        (head,) = re.findall(r"^\| Spark \|.*$", text, re.MULTILINE)
        assert [cell.strip() for cell in head.split("|")][2 : 2 + len(script.COLUMNS)] == list(script.COLUMNS), page


def test_continuous_integration_tries_the_oldest_version(script: ModuleType) -> None:
    """Not all of it: the quick tests."""
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert f'make test-versions ARGS="{min(script.SPARKS)} {script.QUICK}"' in text
