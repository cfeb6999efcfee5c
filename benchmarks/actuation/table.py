# SPDX-License-Identifier: Apache-2.0
"""The kept results as a table: ``python benchmarks/actuation/table.py``."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
HEAD = (
    "| cluster | decided | effect | on the way there | Penstock says done | longest pause of the query "
    "| in as long a time without a change | there as long or longer | times |",
    "|---|---|---:|---|---:|---:|---:|---:|---:|",
)
KINDS = {
    "share lowered": "share 1 to 0.5",
    "share raised": "share 0.5 to 1",
    "executor up": "one executor more",
    "executor down": "one executor less",
    "nothing": "nothing, for 12 s",
}


def kept() -> list[dict[str, Any]]:
    """The results of all clusters that were measured, by name."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))]


def table(results: Iterable[Mapping[str, Any]]) -> str:
    """Return a Markdown table: the median of each figure, and its smallest and largest value."""
    lines = list(HEAD)
    for result in results:
        for kind, words in KINDS.items():
            samples = [sample for sample in result["samples"] if sample["kind"] == kind]
            if samples:
                names = {name: None for sample in samples for name in sample["steps"]}
                steps = "; ".join(f"{name}: {_figure([s['steps'][name] for s in samples])}" for name in names)
                effect, done, pause = (_figure([s[key] for s in samples]) for key in ("effect", "done", "pause"))
                quiet, as_long = _without_change(samples)
                lines.append(
                    f"| {result['cluster']} | {words} | {effect} | {steps} | {done} | {pause} | {quiet} | {as_long} "
                    f"| {len(samples)} |"
                )
    return "\n".join(lines)


def _without_change(samples: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The longest pauses of times as long without a change, and which part of them was no shorter than the samples'.

    Both are empty where there was no such time, as in results of before this was measured.
    """
    compared = [sample for sample in samples if sample.get("quiet")]
    if not compared:
        return "", ""
    parts = [sum(one >= s["pause"] for one in s["quiet"]) / len(s["quiet"]) for s in compared]
    return _figure([one for s in compared for one in s["quiet"]]), f"{statistics.fmean(parts):.0%}"


def _figure(seconds: Sequence[float | None]) -> str:
    """Return the median of some times, with the smallest and the largest."""
    known = sorted(one for one in seconds if one is not None)
    if not known:
        return ""
    return f"{_short(statistics.median(known))} ({_short(known[0])} to {_short(known[-1])}) s"


def _short(seconds: float) -> str:
    return f"{seconds:.2f}" if seconds < 10 else f"{seconds:.1f}"


if __name__ == "__main__":
    print(table(kept()))
