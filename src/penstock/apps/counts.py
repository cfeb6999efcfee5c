# SPDX-License-Identifier: Apache-2.0
"""The result of counting applications: counts by kind and key, in one small JSON file that is always whole.

Every batch writes all counts so far (complete mode) with its id. A batch that is run again after a crash writes the
same file again, and nothing is counted twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.apps.whole_file import write_whole
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

FILE_NAME = "counts.json"
COUNTS_SCHEMA = "kind STRING, key STRING, count BIGINT"


@dataclass(frozen=True, slots=True)
class Counts:
    """All counts up to and including batch `batch_id`: kind -> key -> count.

    Kinds are the application's: ``component`` and ``pattern`` of a log analysis, ``word`` of a word count. The kinds
    ``malformed``, ``cut`` and ``total`` have the one key ``""``.
    """

    batch_id: int
    by_kind: Mapping[str, Mapping[str, int]]

    def of(self, kind: str) -> Mapping[str, int]:
        """Return the counts of one kind, empty if the query has counted none."""
        return self.by_kind.get(kind, {})

    @property
    def total(self) -> int | None:
        """Lines read, well-formed or not. None if the query does not count them."""
        return self.of("total").get("")

    @property
    def malformed(self) -> int | None:
        """Lines discarded. None if none was, or if the query does not see them."""
        return self.of("malformed").get("")

    @property
    def cut(self) -> int | None:
        """Lines whose message was too long to be searched as a whole. None if none was."""
        return self.of("cut").get("")


def write_counts(folder: str | Path, batch_id: int, rows: Iterable[tuple[str, str, int]]) -> Path:
    """Write rows of (kind, key, count) as `folder`/counts.json. A reader sees the old or the new file, never a part."""
    by_kind: dict[str, dict[str, int]] = {}
    for kind, key, count in rows:
        by_kind.setdefault(kind, {})[key] = count
    target = Path(folder) / FILE_NAME
    content = {"batch_id": batch_id, "counts": by_kind}
    write_whole(target, json.dumps(content, ensure_ascii=False, sort_keys=True))
    return target


def read_counts(path: str | Path) -> Counts | None:
    """Read the counts in a folder (or in the file itself). None if no batch has ended yet.

    Raises
    ------
    ConfigurationError
        The file is something else.
    """
    file = Path(path)
    if file.is_dir():
        file = file / FILE_NAME
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return Counts(int(content["batch_id"]), {kind: dict(keys) for kind, keys in content["counts"].items()})
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        raise ConfigurationError(
            f"output: {file} does not contain counts ({fault!r}); give the output folder of an application that counts",
            field="output",
        ) from fault


def counts_writer(counts: DataFrame, folder: str) -> DataStreamWriter:
    """Return the writer, not yet started, that keeps `folder`/counts.json up to date with a frame of counts."""

    def write(batch: DataFrame, batch_id: int) -> None:
        table = batch.select("kind", "key", "count").toArrow()  # thousands of rows: a Row each would take long
        write_counts(folder, batch_id, zip(*(column.to_pylist() for column in table.columns), strict=True))

    return counts.writeStream.outputMode("complete").foreachBatch(write)
