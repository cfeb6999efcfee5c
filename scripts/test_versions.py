# SPDX-License-Identifier: Apache-2.0
"""Runs the tests that every supported Spark has to pass (marker `versions`) on each of them, and sums them up.

Each Spark is installed once, into a folder of its own in Penstock's cache, and stands before the environment's own
Spark in the search path. So everything but Spark and Py4J is the same for all. Versions to try, such as `3.5 4.0`, may
be named; `--quick` runs the few tests that say most; other arguments are pytest's. What is printed last is the table
for docs/reference/versions.md.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

from penstock.adaptors.kafka.cache import cache_folder

SPARKS = {"3.5": "3.5.9", "4.0": "4.0.5", "4.1": "4.1.4", "4.2": "4.2.1", "4.3": "4.3.0"}
"""By line: the release that is tried."""
PASSED, FAILED, NOT_RUN = "yes", "FAILED", "not run"
QUICK = "--quick"
FILES = (
    "tests/integration/test_spark_versions.py",
    "tests/integration/kafka/test_kafka_attach.py",
    "tests/integration/test_replay_source.py",
    "tests/integration/kafka/test_real_time_mode.py",
)
COLUMNS = {
    "sensing": ("test_what_the_query_reads", "test_every_batch", "test_rates_and_latency"),
    "executors": ("test_what_the_cluster_can_give", "test_executors_go", "test_an_executor_that_is_killed"),
    "CPU share": ("test_a_share_of_the_cpu",),
    "stop between batches": ("test_the_query_is_stopped",),
    "Kafka": ("test_a_topic_is_tapped",),
    "own sources": ("test_every_record_once",),
    "real-time mode": ("test_rows_equal",),
}
"""By column of the table: how the names of its tests begin."""
QUICK_FILES = FILES[:1]
QUICK_COLUMNS = {
    "sensing": ("test_what_the_query_reads", "test_every_batch"),
    "executors": ("test_executors_go",),
    "CPU share": ("test_a_share_of_the_cpu",),
}
"""Those of `--quick`, all in its files."""


def install(version: str) -> Path:
    """Return the folder with that Spark and its Py4J. It appears whole or not at all."""
    folder = cache_folder() / f"spark-{version}"
    if not folder.is_dir():
        print(f"penstock: installing PySpark {version} into {folder} (about 400 MB)", flush=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
            made = Path(temporary) / "made"
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
            subprocess.run([*pip, "--target", str(made), f"pyspark=={version}"], check=True)
            made.rename(folder)
    return folder


def environment_with(spark: Path, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables with which Python finds that Spark before any other, in this process and in those it starts."""
    path = [str(spark), *filter(None, [environment.get("PYTHONPATH")])]
    kept = {name: value for name, value in environment.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return {**kept, "PYTHONPATH": os.pathsep.join(path)}


def command(report: Path, arguments: Sequence[str], *, is_quick: bool = False) -> list[str]:
    """What runs the tests on the Spark that is found first, and writes a report."""
    # Warnings of an older Spark about newer libraries are no faults of ours.
    pytest = [sys.executable, "-m", "pytest", "-m", "versions", "-W", "default", f"--junitxml={report}"]
    if not is_quick:
        return [*pytest, *FILES, *arguments]
    names = " or ".join(name for names in QUICK_COLUMNS.values() for name in names)
    return [*pytest, "-k", names, *QUICK_FILES, *arguments]


def run(version: str, arguments: Sequence[str], *, is_quick: bool = False) -> ElementTree.Element | None:
    """Run the tests on one Spark. Return pytest's report; None: there is none."""
    try:
        environment = environment_with(install(version))
    except subprocess.CalledProcessError:  # the others can be tried all the same
        print(f"penstock: Spark {version} cannot be installed; pip says why above", flush=True)
        return None
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        subprocess.run(command(report, arguments, is_quick=is_quick), env=environment, check=False)
        return ElementTree.parse(report).getroot() if report.exists() else None


def cell(report: ElementTree.Element | None, beginnings: Sequence[str]) -> str:
    """Sum up the tests of a column in a word, with what they say about how they were run."""
    cases = [] if report is None else list(report.iter("testcase"))
    found = [case for case in cases if str(case.get("name")).startswith(tuple(beginnings))]
    if not found:
        return NOT_RUN
    if any(case.find("failure") is not None or case.find("error") is not None for case in found):
        return FAILED
    skips = [str(skip.get("message")) for case in found for skip in case.iter("skipped")]
    if skips:
        return f"skipped: {skips[0]}"
    notes = [str(note.get("value")) for case in found for note in case.iter("property") if note.get("name") == "note"]
    return f"{PASSED} ({', '.join(notes)})" if notes else PASSED


def java_version() -> str:
    """The version of the Java that the tests use."""
    from penstock.adaptors.spark.java import find_java

    return find_java().version


def table(columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    """The table as it stands in docs/reference/versions.md; `rows` are by version."""
    head = ["| Spark | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    return "\n".join([*head, *(f"| {version} | " + " | ".join(cells) + " |" for version, cells in rows.items())])


def main(arguments: Sequence[str]) -> int:
    """Run on every version, or on the named ones; 0: none failed, and every column was run or skipped for a reason."""
    chosen = [line for line in SPARKS if line in arguments] or list(SPARKS)
    others = [argument for argument in arguments if argument not in SPARKS and argument != QUICK]
    is_quick = QUICK in arguments
    columns = QUICK_COLUMNS if is_quick else COLUMNS
    rows = {}
    for version in (SPARKS[line] for line in chosen):
        print(f"\npenstock: tests on Spark {version}", flush=True)
        report = run(version, others, is_quick=is_quick)
        rows[version] = [cell(report, beginnings) for beginnings in columns.values()]
    print(f"\n{datetime.now(UTC):%d %B %Y}, Python {platform.python_version()}, Java {java_version()}:\n")
    print(table(list(columns), rows))
    return 1 if {FAILED, NOT_RUN} & {word for cells in rows.values() for word in cells} else 0


if __name__ == "__main__":
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        print("penstock: Java 17 or newer is needed; run this by `make test-versions`", file=sys.stderr)
        sys.exit(2)
    sys.exit(main(sys.argv[1:]))
