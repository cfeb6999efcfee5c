# SPDX-License-Identifier: Apache-2.0
"""The tests are run in parts: every test in exactly one of them, and one failure in any fails the whole."""

import importlib.util
import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "run_tests.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("run_tests", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["run_tests"] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules["run_tests"]
    return module


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a computed test that passes, and two on a real Spark: one of the core fails, another passes."""
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n  spark\n  cgroups\n  e2e\n  kafka\n  rabbitmq\n  postgresql\n  prometheus\n"
        "  browser\n  install\n  core\n  long\n  kubernetes\n"
    )
    (tmp_path / "test_it.py").write_text(
        "import pytest\n\ndef test_fine(): pass\n\n"
        "@pytest.mark.spark\n@pytest.mark.core\ndef test_broken(): assert False\n\n"
        "@pytest.mark.spark\ndef test_other(): pass\n"
    )
    return tmp_path


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script in a project, without workers."""
    command = [sys.executable, str(SCRIPT), "-p", "xdist", "-n0", "-p", "no:cacheprovider", *arguments]
    # The plugins of our own tests take seconds to load, at every start, and this project needs one of them.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_every_test_is_in_exactly_one_part(script: ModuleType) -> None:
    """Whatever markers a test has, one part selects it and no other does."""
    parts, clusters = ("core", "long"), ("kubernetes", "yarn")
    real = (
        "spark", "cgroups", "namespaces", "e2e", "kafka", "rabbitmq", "postgresql", "prometheus", "browser", "install",
    )  # fmt: skip
    for values in itertools.product([False, True], repeat=len(real) + len(parts)):
        marks = dict(zip((*real, *parts), values, strict=True))
        is_real, chosen = any(marks[name] for name in real), sum(marks[name] for name in parts)
        if chosen > 1 or (chosen and not is_real):
            continue  # refused by tests/conftest.py
        marks |= dict.fromkeys(clusters, False)
        assert [eval(part.marks, {}, marks) for part in script.PARTS].count(True) == 1, marks
    for cluster in clusters:
        on_it = {**dict.fromkeys((*real, *parts, *clusters), False), cluster: True}
        assert [part.name for part in script.PARTS if eval(part.marks, {}, on_it)] == [cluster]


@pytest.mark.parametrize(
    ("codes", "code"),
    [([0, 0, 0], 0), ([0, 5, 5], 0), ([5, 5, 5], 5), ([1, 0, 0], 1), ([0, 1, 5], 1), ([5, 2], 2), ([1, 3], 1)],
)
def test_one_exit_code_for_all_parts(script: ModuleType, codes: Sequence[int], code: int) -> None:
    """Any failure fails; a part without tests does not, unless there is none in any part."""
    assert script.verdict(codes) == code


def test_arguments_come_last_and_marks_narrow(script: ModuleType) -> None:
    """A marker expression of the user's is joined with the part's own; other arguments override the part's."""
    for part in script.PARTS:
        command = script.command_of(part, ["tests/unit", "-n0"], "kill or data")
        assert command[command.index("-m", 2) + 1] == f"(kill or data) and ({part.marks})"
        assert command[-2:] == ["tests/unit", "-n0"]
        assert not set(command) & set(script.REAL_FOLDERS), "the user's folder is looked through, and no other"


def test_what_the_user_has_set_stays_but_compiled_modules_are_kept(script: ModuleType) -> None:
    """A number of threads of the user's own is left as it is; the computed tests never compile all modules anew."""
    given = {"OMP_NUM_THREADS": "4", "PYTHONDONTWRITEBYTECODE": "1"}
    for part in script.PARTS:
        made = script.environment_of(part, given)
        assert made["OMP_NUM_THREADS"] == "4"
        assert ("PYTHONDONTWRITEBYTECODE" in made) is (part.name != "computed")


def test_a_failure_in_a_later_part_fails_the_whole_and_is_named(project: Path) -> None:
    """The parts of `make test` run, the summary counts them and names what failed, the exit code is pytest's."""
    done = run(project)
    assert done.returncode == 1, done.stderr
    summary = done.stdout[done.stdout.rindex("penstock: tests NOT passed") :].splitlines()
    assert [line.split(" in ")[0].split() for line in summary[1:]] == [
        ["computed:", "1", "passed"],
        ["core:", "1", "failed"],
        ["FAILED", "test_it.test_broken"],
    ]


def test_what_is_selected_decides(project: Path) -> None:
    """One part can be run by itself, nothing selected has its own exit code, and wrong arguments end it at once."""
    assert run(project, "--part", "real").returncode == 0
    assert run(project, "--part", "computed", "-m", "spark").returncode == 5
    wrong = run(project, "absent.py")
    assert wrong.returncode == 4
    assert wrong.stdout.count("penstock: tests, part") == 1


@pytest.mark.parametrize(("code", "said"), [(0, "no findings"), (1, "failed: the findings")])
def test_random_inputs_are_a_part_that_can_fail(project: Path, code: int, said: str) -> None:
    """They come after the computed tests where no arguments are given, and count in the summary."""
    (project / "scripts").mkdir()
    (project / "scripts" / "fuzz.py").write_text(
        f"import sys\nassert sys.argv[1:] == ['--seconds', '10', '--jobs', '2']\nsys.exit({code})\n"
    )
    command = [sys.executable, str(SCRIPT)]
    environment = {**os.environ, "PYTEST_ADDOPTS": "-p no:cacheprovider --numprocesses=0"}
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    summary = done.stdout[done.stdout.rindex("penstock: tests ") :].splitlines()
    assert summary[2].strip().startswith(f"fuzz:     {said}")
    assert done.returncode == 1, "the core has a failure, too"
    alone = subprocess.run(
        [*command, "--part", "fuzz"], cwd=project, capture_output=True, text=True, timeout=120, check=False
    )
    assert alone.returncode == code
    assert said in alone.stdout
    assert "fuzz" not in run(project, "--part", "computed").stdout


def test_random_inputs_that_were_stopped_end_it(project: Path) -> None:
    """Whoever pressed Ctrl-C does not wait for the core."""
    (project / "scripts").mkdir()
    (project / "scripts" / "fuzz.py").write_text("import sys\nsys.exit(130)\n")
    environment = {**os.environ, "PYTEST_ADDOPTS": "-p no:cacheprovider --numprocesses=0"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], cwd=project, env=environment, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 130
    assert "fuzz:     ended with exit code 130" in done.stdout
    assert "core" not in done.stdout
