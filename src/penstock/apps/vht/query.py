# SPDX-License-Identifier: Apache-2.0
"""The query: each batch sorts its instances by the tree, learns their slices group by group, and grows the tree.

The driver is the model aggregator and hands the tree to the tasks of the next batch. The statistics stay with the
tasks: each batch takes those of its groups from the version before it, and writes them into its own.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.apps.application_options import ApplicationOptions, Option, Options, whole_number
from penstock.apps.vht.learning import GroupReport, Settings, aggregate, correct_predictions, learn_group
from penstock.apps.vht.model import STATISTICS_FOLDER, VhtModel, read_model, version_folder, write_model
from penstock.apps.vht.tree import Tree
from penstock.units import parse_number

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_SLICES_SCHEMA = "group INT, leaves BINARY, classes BINARY, slice BINARY, malformed BIGINT"
_STATE_SCHEMA = "group INT, statistics BINARY, report BINARY, malformed BIGINT"


def _fraction(default: str) -> Option:
    return Option(default, lambda name, text: parse_number(name, text, above=0, most=1))


_OPTIONS = ApplicationOptions(
    "vht",
    writes="the tree and its statistics",
    attributes=whole_number(200, least=1, most=100_000),
    classes=whole_number(10, least=2, most=10),
    groups=whole_number(8, least=1, most=10_000),
    grace=whole_number(200, least=1, most=10**9),
    delta=_fraction("1e-7"),
    tie=_fraction("0.05"),
    max_leaves=whole_number(200, least=1, most=100_000),
)
check_options = _OPTIONS.check


def vht(stream: DataFrame, options: Options) -> DataStreamWriter:
    """Learn a decision tree from a stream of instances.

    Parameters
    ----------
    stream
        Rows with at least `value`: instances as lines (`penstock.apps.vht.instances`). Other lines are counted.
    options
        ``output``: the folder for the model, which driver and executors share, as they do the checkpoint's.
        ``attributes``, ``classes``: of an instance (default 200 and 10). ``groups``: how many groups the attributes are
        divided into (default 8), several for each task. ``grace``: instances that a leaf sees between two looks for a
        split (default 200). ``delta``: the probability of a wrong split (default 1e-7). ``tie``: the Hoeffding bound at
        which the best two splits count as equal (default 0.05). ``max_leaves``: where the tree stops growing (default
        200).
    """
    values = _OPTIONS.read(options)
    output = values.pop("output")
    settings = Settings(**{**values, "groups": min(values["groups"], values["attributes"])})

    def learn(batch: DataFrame, batch_id: int) -> None:
        write_model(output, _learnt(batch, batch_id, output, settings))

    return stream.select("value").writeStream.foreachBatch(learn)


def _learnt(batch: DataFrame, batch_id: int, output: str, settings: Settings) -> VhtModel:
    """Return the model after a batch; the statistics are already written."""
    spark = batch.sparkSession
    before = read_model(output, before=batch_id) or VhtModel(-1, Tree.seedling(settings.classes))
    kept = spark.createDataFrame([], _STATE_SCHEMA)
    if before.batch_id >= 0:
        kept = spark.read.schema(_STATE_SCHEMA).parquet(_statistics_path(output, before.batch_id))
    slices = batch.mapInArrow(_slicer(before.tree, settings), _SLICES_SCHEMA)
    states = (
        slices.groupBy("group")
        .cogroup(kept.groupBy("group"))
        .applyInPandas(_learner(before.tree, settings), _STATE_SCHEMA)
    )
    path = _statistics_path(output, batch_id)
    states.write.mode("overwrite").parquet(path)
    rows = spark.read.schema(_STATE_SCHEMA).parquet(path).select("group", "report", "malformed").collect()
    rows.sort(key=lambda row: row["group"])
    reports: list[GroupReport] = [pickle.loads(row["report"]) for row in rows]
    seen = reports[0].seen if reports else {}
    count, correct = int(sum(map(sum, seen.values()))), correct_predictions(before.tree, seen)
    return replace(
        before,
        batch_id=batch_id,
        tree=aggregate(before.tree, reports, settings),
        seen=before.seen + count,
        correct=before.correct + correct,
        malformed=before.malformed + sum(row["malformed"] for row in rows),
        batch_seen=count,
        batch_correct=correct,
    )


def _statistics_path(output: str, batch_id: int) -> str:
    return str(version_folder(output, batch_id) / STATISTICS_FOLDER)


def _slicer(tree: Tree, settings: Settings) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the model aggregator's part in the tasks: sort instances to leaves, and cut them into slices."""

    def slices(batches: Iterator[Any]) -> Iterator[Any]:
        import numpy as np
        import pyarrow as pa

        from penstock.apps.vht.instances import read_instances

        for lines in batches:
            classes, values = read_instances(lines.column(0), settings.attributes, settings.classes)
            leaves = tree.sort(values).astype(np.int32).tobytes()
            malformed = lines.num_rows - len(classes)
            groups = settings.slices()
            cut = [np.ascontiguousarray(values[:, part.start : part.stop]).tobytes() for part in groups]
            columns = [
                pa.array(range(len(groups)), pa.int32()),
                pa.array([leaves] * len(groups), pa.binary()),
                pa.array([classes.astype(np.uint8).tobytes()] * len(groups), pa.binary()),
                pa.array(cut, pa.binary()),
                pa.array([malformed] + [0] * (len(groups) - 1), pa.int64()),
            ]
            yield pa.RecordBatch.from_arrays(columns, ["group", "leaves", "classes", "slice", "malformed"])

    return slices


def _learner(tree: Tree, settings: Settings) -> Callable[[pd.DataFrame, pd.DataFrame], pd.DataFrame]:
    """Return the local statistics' part: take the slices of a group into its statistics, and look for splits."""

    def learn(slices: pd.DataFrame, kept: pd.DataFrame) -> pd.DataFrame:
        import numpy as np
        import pandas as pd

        from penstock.apps.vht.statistics import GroupStatistics

        group = int((slices if len(slices) else kept)["group"].iloc[0])
        part = settings.slices()[group]
        statistics = GroupStatistics(
            settings.classes, len(part), bytes(kept["statistics"].iloc[0]) if len(kept) else None
        )
        report = learn_group(
            statistics,
            tree,
            settings,
            part.start,
            (
                (
                    np.frombuffer(leaves, dtype=np.int32).astype(np.int64),
                    np.frombuffer(classes, dtype=np.uint8).astype(np.int64),
                    np.frombuffer(values, dtype=np.uint8).reshape(-1, len(part)),
                )
                for leaves, classes, values in zip(slices["leaves"], slices["classes"], slices["slice"], strict=True)
            ),
        )
        row = (group, statistics.to_bytes(), pickle.dumps(report), int(slices["malformed"].sum()))
        return pd.DataFrame([row], columns=["group", "statistics", "report", "malformed"])

    return learn
