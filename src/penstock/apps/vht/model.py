# SPDX-License-Identifier: Apache-2.0
"""The learnt model, a version for each batch: the tree as a small JSON file, the statistics as Parquet files beside it.

A version is complete when its JSON file is there, which is written last. The newest two are kept: a batch that is run
again needs the version before its own.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.apps.vht.statistics import LeafStatistics
from penstock.apps.vht.tree import Tree
from penstock.apps.whole_file import write_whole
from penstock.errors import ConfigurationError

MODEL_FILE = "model.json"
STATISTICS_FOLDER = "statistics"
_VERSIONS = "versions"


@dataclass(frozen=True, slots=True)
class VhtModel:
    """The tree after batch `batch_id`, and how well it did until then: every instance was classified, then learnt."""

    batch_id: int
    tree: Tree
    seen: int = 0
    """Instances so far."""
    correct: int = 0
    """Of these, how many got their class from the tree as it was before their batch."""
    malformed: int = 0
    """Lines that are no instance."""
    batch_seen: int = 0
    batch_correct: int = 0

    @property
    def accuracy(self) -> float | None:
        """The share of correct predictions so far; None: no instance yet."""
        return self.correct / self.seen if self.seen else None

    @property
    def batch_accuracy(self) -> float | None:
        """The share of correct predictions in the last batch; None: it had no instance."""
        return self.batch_correct / self.batch_seen if self.batch_seen else None


def version_folder(output: str | Path, batch_id: int) -> Path:
    """Return the folder of a batch's version."""
    return Path(output) / _VERSIONS / f"{batch_id:08d}"


def write_model(output: str | Path, model: VhtModel) -> None:
    """Complete a version: a reader sees it whole or not at all. Older ones than the one before it are removed."""
    content: dict[str, Any] = {
        "batch_id": model.batch_id,
        "seen": model.seen,
        "correct": model.correct,
        "malformed": model.malformed,
        "batch_seen": model.batch_seen,
        "batch_correct": model.batch_correct,
        "tree": model.tree.to_json(),
    }
    folder = version_folder(output, model.batch_id)
    write_whole(folder / MODEL_FILE, json.dumps(content))
    complete = [path for path in sorted(folder.parent.glob(f"*/{MODEL_FILE}")) if path.parent.name <= folder.name]
    for path in complete[:-2]:
        path.unlink()  # first: what is removed in part must not look complete
        shutil.rmtree(path.parent)


def read_model(output: str | Path, before: int | None = None) -> VhtModel | None:
    """Read the newest complete version (before batch `before`). None: no batch has ended yet.

    Raises
    ------
    ConfigurationError
        The file is something else.
    """
    found = sorted((Path(output) / _VERSIONS).glob(f"*/{MODEL_FILE}"))
    if before is not None:
        found = [path for path in found if int(path.parent.name) < before]
    if not found:
        return None
    try:
        content = json.loads(found[-1].read_text(encoding="utf-8"))
        return VhtModel(**{**content, "tree": Tree.from_json(content["tree"])})
    except (ValueError, KeyError, TypeError) as fault:
        raise ConfigurationError(
            f"output: {found[-1]} does not contain a tree ({fault!r}); give the output folder of a vht query",
            field="output",
        ) from fault


def read_statistics(output: str | Path, batch_id: int) -> dict[int, dict[int, LeafStatistics]]:
    """Read the statistics of a version: group of attributes -> leaf -> statistics."""
    import pickle

    import pyarrow.parquet as pq

    table = pq.read_table(version_folder(output, batch_id) / STATISTICS_FOLDER, columns=["group", "statistics"])
    return {
        group: pickle.loads(kept)
        for group, kept in zip(table["group"].to_pylist(), table["statistics"].to_pylist(), strict=True)
    }
