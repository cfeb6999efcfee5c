# SPDX-License-Identifier: Apache-2.0
"""How fast the trace is played: as it happened, up to 100 times faster, or as fast as it is taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.errors import ConfigurationError
from penstock.units import parse_number

REAL_TIME, FAST = "real-time", "fast"
MOST = 100.0
_ALL_AT_ONCE = 1e9
"""A month in 3 ms: every row is due at the first look, and only the cap of a batch limits how many are taken."""


def playback_speed(text: str | float) -> float:
    """Return the `speed` of the replay source for ``real-time``, ``fast``, or a factor from 1 to 100.

    Examples
    --------
    >>> playback_speed("real-time"), playback_speed("20")
    (1.0, 20.0)
    """
    if text == REAL_TIME:
        return 1.0
    if text == FAST:
        return _ALL_AT_ONCE
    try:
        return parse_number("playback", text, least=1.0, most=MOST)
    except ConfigurationError as fault:
        raise ConfigurationError(f"{fault}; or say {REAL_TIME} or {FAST}", field="playback") from fault


def replayed(
    trace: Path, playback: str | float, *, rows_per_batch: int | None = None, partitions: int = 2
) -> dict[str, Any]:
    """Return `arrivals` of a settings file that plays a trace file.

    Parameters
    ----------
    trace
        In the published form, also .gz.
    playback
        As of `playback_speed`.
    rows_per_batch
        The most that a batch takes. With ``fast`` it is needed: else the first batch takes everything.
    partitions
        Tasks that read a batch.
    """
    if playback == FAST and rows_per_batch is None:
        raise ConfigurationError(
            "rows_per_batch: is missing; played fast, a batch would take the whole trace", field="rows_per_batch"
        )
    limit = {} if rows_per_batch is None else {"maxRowsPerBatch": str(rows_per_batch)}
    options = {
        "format": "google-task-events", "payload": f"file:{trace}", "speed": f"{playback_speed(playback):g}",
        "partitions": str(partitions), **limit,
    }  # fmt: skip
    return {"trace": str(trace), "options": options}
