# SPDX-License-Identifier: Apache-2.0
"""How far a query has come, from the files in its checkpoint."""

from __future__ import annotations

from pathlib import Path


def newest_offsets(checkpoint: Path) -> str | None:
    """Where the newest batch ends that a query has planned, as its source writes it; None before the first."""
    return _offsets(checkpoint, _newest(checkpoint / "offsets"))


def committed_offsets(checkpoint: Path) -> str | None:
    """Where the newest batch ends that a query has done; None before the first."""
    return _offsets(checkpoint, _newest(checkpoint / "commits"))


def batch_under_way(checkpoint: Path) -> int:
    """The number of the batch that a query does next, or that it was doing when it ended."""
    done = _newest(checkpoint / "commits")
    return 0 if done is None else done + 1


def _newest(folder: Path) -> int | None:
    return max((int(path.name) for path in folder.glob("[0-9]*")), default=None)


def _offsets(checkpoint: Path, batch: int | None) -> str | None:
    if batch is None:
        return None
    return (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()[-1]
