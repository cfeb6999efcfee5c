# SPDX-License-Identifier: Apache-2.0
"""The package as its users get it: built, and installed by pip into empty environments."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

# Pip unpacks hundreds of megabytes, on a busy machine for many minutes.
pytestmark = [pytest.mark.install, pytest.mark.long, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
PACKED = (
    "pyproject.toml",
    "MANIFEST.in",
    "README.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "src",
    "docs",
    "examples",
    "tests",
)
HEAVY = {"pyspark", "py4j", "pandas", "pyarrow", "fastapi", "matplotlib", "confluent-kafka", "pika", "psycopg"}
SECONDS = 900.0  # ends a failing test only


@dataclass(frozen=True)
class Environment:
    """An environment that only pip has put something into."""

    folder: Path

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in its own folder, where no source of ours is in reach."""
        alone = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONHOME"}}
        command = [str(self.folder / "bin" / program), *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=alone, capture_output=True, text=True, timeout=SECONDS, check=False
        )

    def right(self, program: str, *arguments: str) -> str:
        """What a program says that ends well."""
        done = self.run(program, *arguments)
        assert done.returncode == 0, f"{program} {arguments}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def install(self, what: str, *options: str) -> None:
        """Install by pip, with the versions that are tested."""
        constraints = str(ROOT / "constraints.txt")
        self.right("pip", "install", "--quiet", "--no-compile", "-c", constraints, *options, what)

    def packages(self) -> set[str]:
        """What is installed, by the names that requirements use."""
        return {
            entry["name"].lower().replace("_", "-") for entry in json.loads(self.right("pip", "list", "--format=json"))
        }


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution, and with the wheel that was built from it."""
    pytest.importorskip("build", reason="needs the extra [dev]")
    source, made = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    without = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in PACKED:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=without)
        else:
            shutil.copy(path, source / name)
    # In the copy, so that the build leaves nothing in the tree.
    command = [sys.executable, "-m", "build", "--outdir", str(made), "."]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return made


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    """The wheel."""
    (found,) = built.glob("penstock-*.whl")
    return found


@pytest.fixture(scope="module")
def sdist(built: Path) -> Path:
    """The source distribution."""
    (found,) = built.glob("penstock-*.tar.gz")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    """An environment with the wheel and what it brings by itself."""
    environment = empty_environment(tmp_path_factory.mktemp("wheel"))
    environment.install(str(wheel))
    yield environment
    shutil.rmtree(environment.folder)


def empty_environment(folder: Path, python: str = sys.executable) -> Environment:
    """An environment with nothing but pip."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True, timeout=SECONDS)
    return Environment(folder)


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    """Every file of the package is in it: code, page, grammar, settings of the demo, the mark of types."""
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "penstock").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted - names == set()
    assert {name for name in names - wanted if ".dist-info/" not in name} == set()


def test_the_source_distribution_holds_documents_and_examples(sdist: Path) -> None:
    """They are there for readers without the repository; tests, which need the rest of it, are not."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("README.md", "CHANGELOG.md", "docs/how-to/install.md", "examples/log-analysis.yaml"):
        assert name in names
    assert {name for name in names if name.startswith("tests")} == set()


def test_the_wheel_brings_no_spark_and_loads_none(installed: Environment) -> None:
    """Nothing of an extra is installed, and importing the package loads neither Spark nor numerics."""
    assert HEAVY & installed.packages() == set()
    loaded = installed.right("python", "-c", "import penstock, sys; print(*sys.modules)").split()
    assert {name.partition(".")[0] for name in loaded} & {"pyspark", "py4j", "numpy", "scipy", "pandas"} == set()


def test_the_commands_that_need_no_spark_work(installed: Environment) -> None:
    """Help, a queue, rules and a simulation of an example, from the folder of the environment."""
    assert "penstock doctor" in installed.right("penstock", "--help")
    solved = installed.right("penstock", "solve", "m-g-1", "--rate", "50", "--service", "exp:10ms", "--json")
    # M/M/1: the mean response time is 1 / (mu - lambda), here 1 / (100 - 50).
    assert json.loads(solved)["mean"] == pytest.approx(0.02)
    rules = str(ROOT / "examples" / "calm.rules")
    installed.right("penstock", "rules", "check", rules)
    pipeline = str(ROOT / "examples" / "pipelines" / "micro-batches.yaml")
    trace = installed.folder / "arrivals.txt"
    trace.write_text("".join(f"{number / 20}\n" for number in range(1200)))
    said = installed.right("penstock", "simulate", pipeline, "--trace", str(trace), "--policy", "fixed", "--json")
    assert json.loads(said)


def test_doctor_and_commands_say_what_is_missing(installed: Environment) -> None:
    """Spark is named as needed and extras as optional, each with its command; a run and a service name theirs."""
    done = installed.run("penstock", "doctor", "--json")
    assert done.returncode == 1, done.stderr
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert (checks["pyspark"]["severity"], checks["pyspark"]["mend"]) == ("needed", "pip install 'penstock[spark]'")
    for extra in ("report", "service", "kafka", "rabbitmq", "postgresql", "kubernetes"):
        assert (checks[extra]["severity"], checks[extra]["mend"]) == ("optional", f"pip install 'penstock[{extra}]'")
    run = installed.run("penstock", "run", str(ROOT / "examples" / "log-analysis.yaml"), "--check")
    assert (run.returncode, "pip install 'penstock[spark]'" in run.stderr) == (2, True), run.stderr
    serve = installed.run("penstock", "serve", "--store", "sqlite:store", "--port", "0")
    assert (serve.returncode, "pip install 'penstock[service]'" in serve.stderr) == (2, True), serve.stderr


def test_the_source_distribution_installs_and_an_extra_brings_the_rest(sdist: Path, tmp_path: Path) -> None:
    """From source, with the extra `service`: the web framework is there, the service loads, and still no Spark."""
    environment = empty_environment(tmp_path)
    environment.install(f"{sdist}[service]")
    assert {"fastapi", "uvicorn", "prometheus-client"} <= environment.packages()
    assert {"pyspark", "pandas"} & environment.packages() == set()
    checks = json.loads(environment.run("penstock", "doctor", "--json").stdout)["checks"]
    assert {check["name"]: check["ok"] for check in checks}["service"] is True
    environment.right("python", "-c", "import penstock.service.application, penstock.service.server")


def test_the_extra_spark_asks_for_spark(wheel: Path, installed: Environment) -> None:
    """Pip would install PySpark and what its Python side needs: seen without installing half a gigabyte."""
    report = installed.right(
        "pip",
        "install",
        "--quiet",
        "--dry-run",
        "--report",
        "-",
        "-c",
        str(ROOT / "constraints.txt"),
        f"{wheel}[spark]",
    )
    names = {item["metadata"]["name"].lower() for item in json.loads(report)["install"]}
    assert {"pyspark", "py4j", "pandas", "pyarrow", "protobuf"} <= names


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_the_wheel_works_on_other_pythons(version: str, wheel: Path, tmp_path: Path) -> None:
    """It installs, and a queue is solved; skipped where there is no such Python."""
    environment = empty_environment(tmp_path, python_of(version))
    environment.install(str(wheel))
    solved = environment.right("penstock", "solve", "m-g-1", "--rate", "50", "--service", "exp:10ms", "--json")
    assert json.loads(solved)["mean"] == pytest.approx(0.02)
    assert f"Python {version}." in environment.run("penstock", "doctor").stdout


def python_of(version: str) -> str:
    """The program of a Python version, from the search path or from pyenv's folder."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), *map(str, pyenv.glob(f"{version}.*/bin/python"))]
    for program in filter(None, candidates):
        # Pyenv's own stand-ins are in the search path, whether or not there is a Python behind them.
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False)
        if done.stdout.startswith(f"Python {version}."):
            return program
    pytest.skip(f"there is no Python {version} on this machine")
