# SPDX-License-Identifier: Apache-2.0
"""The container recipe, as far as it can be checked without an engine: its parts, its commands, its entry point."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "containers"
INSTRUCTIONS = {"FROM", "ARG", "RUN", "COPY", "ENV", "USER", "WORKDIR", "VOLUME", "EXPOSE", "ENTRYPOINT", "CMD"}


def instructions() -> list[tuple[str, str]]:
    """The recipe's instructions with their arguments, lines joined and comments left out."""
    text = (FOLDER / "Containerfile").read_text(encoding="utf-8")
    kept = "\n".join(line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    lines = re.sub(r"\\\n\s*", "", kept).splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def test_every_instruction_is_one_and_stages_and_sources_exist() -> None:
    """Stages are made before they are copied from, and what is copied is in the repository."""
    stages: list[str] = []
    for word, rest in instructions():
        assert word in INSTRUCTIONS, word
        if word == "FROM":
            assert re.fullmatch(r"docker\.io/library/python:\$PYTHON-slim-\w+ AS \w+", rest), rest
            stages.append(rest.split()[-1])
        elif word == "COPY":
            options = [part for part in rest.split() if part.startswith("--")]
            sources = [part for part in rest.split() if not part.startswith("--")][:-1]
            made_in = next((o.removeprefix("--from=") for o in options if o.startswith("--from=")), None)
            assert made_in in stages[:-1] if made_in else all((ROOT / source).exists() for source in sources), rest
    assert stages == ["build", "service", "spark"]


def test_the_python_of_all_stages_is_one_argument_and_a_supported_version() -> None:
    """It is declared before the first stage: only there do the images that stages start from know it."""
    (word, rest), *_ = instructions()
    name, _, version = rest.partition("=")
    assert (word, name) == ("ARG", "PYTHON")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"Programming Language :: Python :: {version}" in project["classifiers"]


def test_every_command_of_the_recipe_is_right_shell() -> None:
    """The shell reads each RUN line without a complaint."""
    commands = [rest for word, rest in instructions() if word == "RUN"]
    assert len(commands) >= 4
    for command in commands:
        done = subprocess.run(["sh", "-n"], input=command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, ""), command


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A Java and a spark-submit that print what they were started with."""
    for name in ("java/bin/java", "spark/bin/spark-submit"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
        path.chmod(0o755)
    return tmp_path


def started(programs: Path, *arguments: str, **variables: str) -> list[str]:
    """What the entry point starts."""
    environment = {
        "PATH": "/usr/bin:/bin", "JAVA_HOME": str(programs / "java"), "SPARK_HOME": str(programs / "spark"), **variables
    }  # fmt: skip
    done = subprocess.run(
        [str(FOLDER / "entrypoint.sh"), *arguments], env=environment, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_an_executor_is_started_with_what_spark_has_set(programs: Path) -> None:
    """Numbered options come first and whole, also with spaces; then memory, class path and the executor's own."""
    variables = {
        "SPARK_JAVA_OPT_0": "-Dspark.driver.port=7078", "SPARK_JAVA_OPT_1": "-Dnote=two words",
        "SPARK_EXECUTOR_MEMORY": "512m", "SPARK_DRIVER_URL": "spark://driver:7078", "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "1", "SPARK_APPLICATION_ID": "spark-1", "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
        "SPARK_RESOURCE_PROFILE_ID": "0", "SPARK_EXECUTOR_POD_NAME": "exec-3",
    }  # fmt: skip
    said = started(programs, "executor", **variables)
    assert said[:4] == ["-Dspark.driver.port=7078", "-Dnote=two words", "-Xms512m", "-Xmx512m"]
    assert said[said.index("--executor-id") + 1] == "3"
    assert said[said.index("--driver-url") + 1] == "spark://driver:7078"
    assert "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend" in said


def test_a_driver_is_submitted_and_other_commands_run_as_they_are(programs: Path) -> None:
    """A driver's arguments are handed on whole; anything else is a command."""
    said = started(programs, "driver", "--class", "a b", "job.py", SPARK_DRIVER_BIND_ADDRESS="10.0.0.5")
    assert said[:2] == ["--conf", "spark.driver.bindAddress=10.0.0.5"]
    assert said[-3:] == ["--class", "a b", "job.py"]
    assert started(programs, "echo", "doctor") == ["doctor"]


def test_executors_have_the_script_that_spark_has_run_before_they_go() -> None:
    """The image for Spark has it where Spark looks by itself, with what it needs."""
    text = (FOLDER / "Containerfile").read_text(encoding="utf-8")
    spark = text[text.index(" AS spark") :]
    copied = re.findall(r"^COPY --chmod=755 (.+) /opt/$", spark, re.MULTILINE)
    assert [paths.split() for paths in copied] == [["containers/entrypoint.sh", "containers/decom.sh"]]
    assert " procps " in spark  # for pgrep


@pytest.mark.parametrize("is_there", [True, False])
def test_an_executor_that_has_to_go_is_told_and_waited_for(tmp_path: Path, is_there: bool) -> None:
    """It gets the signal at which Spark's executors hand over their blocks; without one the script ends at once."""
    program = (
        "import signal, sys\nsignal.signal(signal.SIGPWR, lambda *_: sys.exit(7))\nprint(flush=True)\nsignal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as executor:
        assert executor.stdout is not None
        executor.stdout.readline()
        # A stand-in: on this machine the real one might find executors of others.
        found = f"echo {executor.pid}" if is_there else "exit 1"
        (tmp_path / "pgrep").write_text(f'#!/bin/sh\necho "$3" > {tmp_path}/pattern\n{found}\n')
        (tmp_path / "pgrep").chmod(0o755)
        script = subprocess.Popen([str(FOLDER / "decom.sh")], env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
        if is_there:
            assert executor.wait(timeout=60) == 7
        assert script.wait(timeout=60) == 0
        executor.send_signal(signal.SIGKILL)
    pattern = (tmp_path / "pattern").read_text().strip()
    (started,) = re.findall(r"^ +(org\S+ExecutorBackend)", (FOLDER / "entrypoint.sh").read_text(), re.MULTILINE)
    assert re.search(pattern, f"/usr/bin/java -cp /opt/spark/jars/* {started} --driver-url spark://driver")
    assert not re.search(pattern, "/usr/bin/tini -- /opt/entrypoint.sh executor")
