# SPDX-License-Identifier: Apache-2.0
"""Applications beside a settings file are found by the check, the run and the operators' processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import penstock
from penstock.cli.main import main
from penstock.errors import ConfigurationError
from penstock.running.modules_beside import modules_beside
from penstock.running.operator_process import load_app

APP = "def count(records, options):\n    return {answer!r}\n"
SETTINGS = """\
name: counted
arrivals: {shape: "constant:rate=5,duration=10s"}
operators:
  - {name: counter, app: "app_beside_it:count"}
"""


def a_pipeline(folder: Path, answer: str) -> Path:
    """A settings file with its application beside it."""
    folder.mkdir()
    (folder / "app_beside_it.py").write_text(APP.format(answer=answer))
    (folder / "pipeline.yaml").write_text(SETTINGS)
    return folder / "pipeline.yaml"


def answer_of_operator() -> str:
    """What a process like an operator's finds."""
    code = (
        "from penstock.running.modules_beside import use_folder; use_folder()\n"
        "from penstock.running.operator_process import load_app\n"
        "print(load_app('app_beside_it:count')(None, {}))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=os.environ)
    return done.stdout.strip()


def test_the_folder_of_the_file_is_looked_into_first_and_only_meanwhile(tmp_path: Path) -> None:
    """Of two files with applications of one name each gets its own, here and in a process that is started."""
    path, environment = list(sys.path), dict(os.environ)
    for answer in ("one", "two"):
        with modules_beside(a_pipeline(tmp_path / answer, answer)):
            found: Any = load_app("app_beside_it:count")
            assert found(None, {}) == answer
            assert answer_of_operator() == answer
    assert sys.path == path
    assert dict(os.environ) == environment
    with pytest.raises(ConfigurationError, match="beside the settings file"):
        load_app("app_beside_it:count")


def test_a_check_finds_the_application_beside_the_file(tmp_path: Path) -> None:
    """`penstock run --check` says that all is well."""
    file = a_pipeline(tmp_path / "pipelines", "one")
    result = CliRunner().invoke(main, ["run", "--check", str(file)])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    "top", ['from pyspark.sql.functions import udf\n@udf("string")\ndef shout(x): return x\n',
            'from pyspark.sql.functions import col\nVALUE = col("value")\n'],
)  # fmt: skip
def test_a_module_that_needs_a_session_at_import_passes_the_check(tmp_path: Path, top: str) -> None:
    """It is imported when Spark runs; nothing is wrong with it."""
    file = a_pipeline(tmp_path / "pipelines", "one")
    module = file.with_name("app_beside_it.py")
    module.write_text(top + module.read_text())
    result = CliRunner().invoke(main, ["run", "--check", str(file)])
    assert result.exit_code == 0, result.output


def test_a_module_that_fails_at_import_for_another_reason_is_refused(tmp_path: Path) -> None:
    """An assertion of the user's own is a mistake, and its text is shown."""
    file = a_pipeline(tmp_path / "pipelines", "one")
    file.with_name("app_beside_it.py").write_text("assert False, 'no key given'\n")
    result = CliRunner().invoke(main, ["run", "--check", str(file)])
    assert result.exit_code == 2, result.output
    assert "no key given" in result.output


def test_a_run_from_python_finds_the_application_beside_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`penstock.run(path)` has the folder on the module path for as long as it runs."""
    file = a_pipeline(tmp_path / "pipelines", "one")
    seen: list[object] = []

    def run_pipeline(*_: object, **__: object) -> None:
        found: Any = load_app("app_beside_it:count")
        seen.append(found(None, {}))

    monkeypatch.setattr("penstock.running.library.run_pipeline", run_pipeline)
    penstock.run(file, folder=tmp_path / "run")
    assert seen == ["one"]
