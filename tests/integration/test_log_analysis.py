# SPDX-License-Identifier: Apache-2.0
"""The log analysis on a real Spark: exact counts, as one query and as three, over restarts."""

from __future__ import annotations

import json
import os
import re
import tarfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.integration.spark_driver import SparkDriver

from penstock.adaptors.spark.file_stream import FileStreamArrivals
from penstock.apps.log_analysis import (
    Counts,
    counter,
    log_analysis,
    matcher,
    parser,
    read_counts,
    stream_schema,
)
from penstock.apps.log_analysis.patterns import DEFAULT_PATTERNS, Pattern, check_in_java
from penstock.arrivals.log_lines import LogLines
from penstock.errors import ConfigurationError
from penstock.records import SourceProgress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

pytestmark = pytest.mark.spark

RAW_SCHEMA = "index BIGINT, arrival TIMESTAMP, value STRING"
EPOCH_US = 1_767_225_600_000_000
FORGED = "2026-01-31T12:34:56.789\x01INFO\x01a.B\x01forged fields"
SPECIAL = [
    "2026-02-30T12:34:56.789 INFO a.B: a day that does not exist",
    "2026-01-31T12:34:56.789 INFO a.B: ",
    "2026-01-31T12:34:56.789 INFO a.B: ends as on Windows\r",
    "2026-01-31T12:34:56.789 INFO a.B: text with \x01 in it and $1 \\1",
    "2026-01-31T12:34:56.789 info a.B: small level",
    "2026-01-31T12:34:56.789 INFO no colon",
    FORGED,
    "",
]


@pytest.fixture(scope="module")
def spark(spark_driver: SparkDriver) -> Iterator[SparkSession]:
    """A session whose file logs are compacted at every third entry, not every tenth."""
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.fileSink.log.compactInterval": "3",
        "spark.sql.streaming.fileSource.log.compactInterval": "3",
    }
    with spark_driver.local(settings) as session:
        yield session


def write_lines(folder: Path, name: str, lines: Sequence[str | None]) -> None:
    """Write one file of raw rows; it appears whole."""
    folder.mkdir(parents=True, exist_ok=True)
    count = len(lines)
    table = pa.table(
        {
            "index": pa.array(range(count), pa.int64()),
            "arrival": pa.array([EPOCH_US + n for n in range(count)], pa.timestamp("us", "UTC")),
            "value": pa.array(lines, pa.string()),
        }
    )
    pq.write_table(table, folder / f".{name}")
    (folder / f".{name}").rename(folder / name)


def read_files(spark: SparkSession, folder: Path, schema: str, files: int = 1) -> DataFrame:
    """A stream over a folder, so many files a batch."""
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(folder))


def run_to_end(writer: DataStreamWriter, checkpoint: Path) -> StreamingQuery:
    """Run a query over all there is and end."""
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(240), "the query did not end in time"
    finally:
        query.stop()
    return query


def counts_in(folder: Path) -> Counts:
    """The counts in a folder, which must be there."""
    counts = read_counts(folder)
    assert counts is not None
    return counts


def plain_count(lines: Sequence[str | None]) -> dict[str, Counter[str]]:
    """Count the same lines without Spark and without the application's own expressions."""
    result: dict[str, Counter[str]] = {kind: Counter() for kind in ("total", "malformed", "component", "pattern")}
    for line in lines:
        result["total"][""] += 1
        fields = _plain_fields(line)
        if fields is None:
            result["malformed"][""] += 1
            continue
        component, message = fields
        result["component"][component] += 1
        result["pattern"].update(p.name for p in DEFAULT_PATTERNS if re.search(p.regex, message, re.ASCII))
    return result


def _plain_fields(line: str | None) -> tuple[str, str] | None:
    parts = (line or "").rstrip("\r\n").split(" ", 3)
    if len(parts) < 4:
        return None
    stamp, level, component, message = parts
    try:
        datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%S.%f").replace(tzinfo=UTC)
    except ValueError:
        return None
    is_well_formed = level.isalpha() and level.isupper() and component.endswith(":")
    return (component[:-1], message) if is_well_formed else None


def generated(start: int, count: int) -> list[str]:
    """Generated lines, one in twenty malformed."""
    arrival_us = EPOCH_US + 1000 * np.arange(start, start + count, dtype=np.int64)
    return LogLines(seed=3, malformed=0.05).lines(start, arrival_us)


def test_one_query_counts_every_line_exactly_once_over_restarts(spark: SparkSession, tmp_path: Path) -> None:
    """Counts equal a plain count; neither a restart nor a batch that is run again counts a line twice."""
    raw, out, checkpoint = tmp_path / "raw", tmp_path / "out", tmp_path / "checkpoint"
    lines: list[str | None] = [*generated(0, 3000), *SPECIAL, None]
    write_lines(raw, "0.parquet", lines[:1000])
    write_lines(raw, "1.parquet", lines[1000:])

    def run() -> Counts:
        run_to_end(log_analysis(read_files(spark, raw, RAW_SCHEMA), {"output": str(out)}), checkpoint)
        return counts_in(out)

    first = run()
    expected = plain_count(lines)
    assert first.by_kind == expected
    assert first.malformed is not None
    assert first.malformed > 100
    assert len(first.of("pattern")) > 8, "the generated lines hold what the patterns look for"
    assert sum(first.of("component").values()) + first.malformed == first.total == len(lines)

    more = generated(5000, 500)
    write_lines(raw, "2.parquet", more)
    second = run()
    assert second.by_kind == plain_count([*lines, *more])
    assert second.batch_id == 2

    # As after a crash between a batch's result and its commit: the batch runs again.
    (checkpoint / "commits" / "2").unlink()
    (checkpoint / "commits" / ".2.crc").unlink()
    (out / "counts.json").unlink()
    assert run() == second


def test_lines_made_to_hurt_the_matcher_are_counted_and_the_stream_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """Neither the built-in patterns nor one of the user's that repeats a group overflow Java's stack or never end."""
    raw, out, patterns = tmp_path / "raw", tmp_path / "out", tmp_path / "patterns.txt"
    own = Pattern("own", r"(?:[a-z]\w*\.)*[A-Z]\w*Exception")
    patterns.write_text("\n".join(f"{p.name}\t{p.regex}" for p in (*DEFAULT_PATTERNS, own)), encoding="utf-8")
    long = ["a." * 10_000, "at " + "a." * 10_000, "a=b " * 5_000, "blk_1" + "_1" * 10_000, "../" * 7_000]
    lines = [f"2026-01-31T12:34:56.789 INFO a.B: {text}" for text in [*long, "a.b.FooException"]]
    write_lines(raw, "0.parquet", lines)
    options = {"output": str(out), "patterns": str(patterns)}
    run_to_end(log_analysis(read_files(spark, raw, RAW_SCHEMA), options), tmp_path / "checkpoint")
    counts = counts_in(out)
    assert (counts.total, counts.malformed, counts.cut) == (6, None, 5)
    assert (counts.of("pattern")["own"], counts.of("pattern")["exception"]) == (1, 1)
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    for pattern in DEFAULT_PATTERNS:
        for text in long:
            jvm.java.util.regex.Pattern.compile(pattern.regex).matcher(text).find()


def test_three_operators_give_the_same_counts_and_exact_arrivals(spark: SparkSession, tmp_path: Path) -> None:
    """Parser, counter and matcher joined by files agree with a plain count; arrivals are the commits upstream."""
    raw, parsed = tmp_path / "raw", tmp_path / "parsed lines"
    lines: list[str | None] = [*generated(0, 700), *SPECIAL, None]
    batches = 5
    for number in range(batches):
        write_lines(raw, f"{number}.parquet", lines[number::batches])
    writer = parser(read_files(spark, raw, RAW_SCHEMA), {}).writeStream.format("parquet").option("path", str(parsed))
    upstream = run_to_end(writer, tmp_path / "checkpoint-parser")
    observed = [p["observedMetrics"]["penstock_parser"] for p in progress_of(upstream)]

    expected = plain_count(lines)
    assert sum(metrics["malformed"] for metrics in observed) == expected["malformed"][""]
    assert sum(metrics["parsed"] for metrics in observed) == sum(expected["component"].values())

    frames = {"counter": counter, "matcher": matcher}
    queries = {}
    for name, operator in frames.items():
        stream = read_files(spark, parsed, stream_schema("parser"), files=2)
        queries[name] = run_to_end(operator(stream, {"output": str(tmp_path / name)}), tmp_path / f"cp-{name}")
    assert counts_in(tmp_path / "counter").by_kind == {"component": expected["component"]}
    well_formed = sum(expected["component"].values())
    assert counts_in(tmp_path / "matcher").by_kind == {"pattern": expected["pattern"], "total": {"": well_formed}}

    arrivals = FileStreamArrivals(tmp_path / "cp-matcher")
    commits = {
        int(entry.name.partition(".")[0]): entry.stat().st_mtime
        for entry in (parsed / "_spark_metadata").iterdir()
        if not entry.name.startswith(".")
    }
    parsed_by_batch = {p["batchId"]: m["parsed"] for p, m in zip(progress_of(upstream), observed, strict=True)}
    carried: list[int] = []
    for progress in progress_of(queries["matcher"]):
        source = source_of(progress)
        ids = arrivals.upstream_batches(source)
        times = arrivals.of(source)
        assert ids is not None
        assert times is not None
        assert len(times) == source.rows
        assert times.tolist() == [commits[batch] for batch in ids for _ in range(parsed_by_batch[batch])]
        carried += ids
    assert carried == sorted(commits) == list(range(batches))
    assert arrivals.arrived_by(time.time()) == well_formed
    assert arrivals.arrived_by(commits[1]) == parsed_by_batch[0] + parsed_by_batch[1]


def test_a_reader_may_start_before_its_writer(spark: SparkSession, tmp_path: Path) -> None:
    """With an empty log laid out beforehand the reader sees committed files only, from the first on."""
    raw, parsed = tmp_path / "raw", tmp_path / "parsed"
    (parsed / "_spark_metadata").mkdir(parents=True)
    lines = generated(0, 50)
    write_lines(raw, "0.parquet", lines)
    stream = read_files(spark, parsed, stream_schema("parser"))
    query = counter(stream, {"output": str(tmp_path / "out")}).option("checkpointLocation", str(tmp_path / "c")).start()
    try:
        rows = parser(read_files(spark, raw, RAW_SCHEMA), {})
        run_to_end(rows.writeStream.format("parquet").option("path", str(parsed)), tmp_path / "p")
        query.processAllAvailable()
    finally:
        query.stop()
    assert counts_in(tmp_path / "out").of("component") == plain_count(lines)["component"]
    schema = spark.read.parquet(str(parsed)).schema
    assert schema.simpleString() == spark.createDataFrame([], stream_schema("parser")).schema.simpleString()


def test_java_judges_patterns_before_the_query_starts(spark: SparkSession, tmp_path: Path) -> None:
    """What only Java finds wrong is told with the pattern, the position and Java's words; nothing runs."""
    check_in_java(DEFAULT_PATTERNS, spark)
    with pytest.raises(ConfigurationError, match=r"'late' does not compile: [^;]*already defined at position \d+ in"):
        check_in_java([Pattern("fine", "a"), Pattern("late", r"(?<n>a)(?<n>b)")], spark)
    patterns = tmp_path / "patterns.txt"
    patterns.write_text("late: (?<n>a)(?<n>b)\n", encoding="utf-8")
    (tmp_path / "raw").mkdir()
    stream = read_files(spark, tmp_path / "raw", RAW_SCHEMA)
    options = {"output": str(tmp_path / "out"), "patterns": str(patterns)}
    for operator in (log_analysis, matcher):
        with pytest.raises(ConfigurationError, match="'late' does not compile"):
            operator(stream, options)
    assert not spark.streams.active
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("form", "line", "fields"),
    [
        ("penstock", "2026-01-31T12:34:56.789 INFO a.B: m", ("2026-01-31 12:34:56.789", "INFO", "a.B", "m")),
        ("hdfs", "081109 203615 148 WARN dfs.X$Y: m", ("2008-11-09 20:36:15", "WARN", "dfs.X$Y", "m")),
        ("spark", "17/06/09 20:10:40 INFO e.E: m", ("2017-06-09 20:10:40", "INFO", "e.E", "m")),
        (
            "zookeeper",
            "2015-07-29 17:41:44,747 - WARN  [m:0:L@7] - m",
            ("2015-07-29 17:41:44.747", "WARN", "L", "m"),
        ),
        ("openssh", "Dec  1 06:55:46 host sshd[1]: m", ("2026-12-01 06:55:46", None, "sshd", "m")),
        ("openssh", "Dec 10 06:55:46 host sshd[1]: m", ("2026-12-10 06:55:46", None, "sshd", "m")),
        ("apache", "[Sun Dec 04 04:47:44 2005] [error] f() ok", ("2005-12-04 04:47:44", "error", "f", "f() ok")),
        (
            "combined",
            '1.2.3.4 - - [17/May/2015:10:05:03 +0200] "GET /b/a.png HTTP/1.1" 404 12 "-" "x"',
            ("2015-05-17 08:05:03", "404", "/b", '"GET /b/a.png HTTP/1.1" 404 12 "-" "x"'),
        ),
    ],
)
def test_each_format_gives_its_fields(
    spark: SparkSession, form: str, line: str, fields: tuple[str | None, ...]
) -> None:
    """The fields of a line are read as the format writes them; a line without a year has that of its arrival."""
    arrival = datetime.fromtimestamp(EPOCH_US / 1e6)
    frame = spark.createDataFrame([(0, arrival, line)], RAW_SCHEMA)
    (row,) = (
        parser(frame, {"format": form}).selectExpr("string(timestamp) at", "level", "component", "message").collect()
    )
    assert tuple(row) == fields


@pytest.mark.data
def test_every_line_of_the_real_logs_parses(spark: SparkSession) -> None:
    """Real logs of five systems, 2,000 lines each, are read without a malformed line, times and all."""
    data = Path(os.environ.get("PENSTOCK_DATA", Path(__file__).parents[3] / "shared" / "data"))
    archive = data / "loghub-2k" / "loghub_2k_logs.tar.xz"
    if not archive.is_file():
        pytest.skip(f"no real logs: {archive} is not there (set PENSTOCK_DATA to the folder of the traces)")
    parsed = {}
    with tarfile.open(archive) as members:
        files = {Path(member.name).name: member for member in members}
        for name in ("HDFS", "Spark", "Zookeeper", "OpenSSH", "Apache"):
            file = members.extractfile(files[f"{name}_2k.log"])
            assert file is not None
            lines = file.read().decode("utf-8", "replace").rstrip("\n").split("\n")
            arrival = datetime.fromtimestamp(EPOCH_US / 1e6)
            frame = spark.createDataFrame([(n, arrival, line) for n, line in enumerate(lines)], RAW_SCHEMA)
            parsed[name] = (len(lines), parser(frame, {"format": name.lower()}).count())
    assert parsed == dict.fromkeys(parsed, (2000, 2000))


def progress_of(query: StreamingQuery) -> list[dict[str, Any]]:
    """The progress of every batch that read something, as plain data."""
    reports = [json.loads(report.json) for report in query.recentProgress]
    return [report for report in reports if report["sources"][0]["endOffset"] is not None]


def source_of(progress: dict[str, Any]) -> SourceProgress:
    """The first source of a progress as the loop's record."""
    source = progress["sources"][0]
    start, end = (None if source[key] is None else json.dumps(source[key]) for key in ("startOffset", "endOffset"))
    return SourceProgress(source["description"], start, end, None, source["numInputRows"])
