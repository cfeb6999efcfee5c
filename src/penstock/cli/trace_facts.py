# SPDX-License-Identifier: Apache-2.0
"""The facts that `penstock trace info` shows about a file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.arrivals import CountSeries, Reading, load_trace, open_gaps
from penstock.errors import NotReadyError
from penstock.units import format_seconds
from penstock.workload import describe_counts, describe_iats
from penstock.workload.plain_words import LEGEND, words_of_counts, words_of_iats

if TYPE_CHECKING:
    from rich.table import Table

    from penstock.arrivals.trace_files import Progress

_MOST_IATS_DESCRIBED = 5_000_000
"""Most inter-arrival times in the statistics: more change little, and memory stays bounded."""


def facts_of(file: Path, reading: Reading, progress: Progress | None = None) -> dict[str, Any]:
    """Return the facts about a trace file. Unknown values are None."""
    source = reading.of(file)
    facts: dict[str, Any] = {
        "file": str(file),
        "format": source.format.name if source.format is not None else "plain",
        "kind": source.kind,
        "unit": source.unit,
    }
    if source.kind == "counts":
        return facts | _of_counts(file, reading, progress)
    return facts | _of_gaps(file, reading, source.kind, progress)


def _of_gaps(file: Path, reading: Reading, kind: str, progress: Progress | None) -> dict[str, Any]:
    gaps = open_gaps(file, reading, progress=progress)
    window = gaps.window(0, min(gaps.total, _MOST_IATS_DESCRIBED))
    span = float(gaps.edges(1 << 16)[-1])
    notes = (
        []
        if gaps.total <= _MOST_IATS_DESCRIBED
        else [f"variability and correlation cover the first {_MOST_IATS_DESCRIBED}"]
    )
    facts: dict[str, Any] = {
        "arrivals": gaps.total if kind == "iats" else gaps.total + 1,
        "span_seconds": span,
        "rate": gaps.total / span if span > 0 else None,
        "largest_gap_seconds": float(window.max()),
        "ties": int((window == 0).sum()),
        "tie_share": float((window == 0).mean()),
    }
    unknown = dict.fromkeys(
        ("mean", "scv", "scv_error", "skewness", "rho", "idc", "idc_seconds", "coarse_step_seconds")
    )
    try:
        stats = describe_iats(window)
    except NotReadyError as fault:
        return facts | unknown | {"notes": [*notes, str(fault)], "summary": str(words_of_iats(window))}
    return facts | {
        "summary": str(words_of_iats(window, float(stats.idc[-1]) if stats.idc.size else None)),
        "mean": stats.mean, "scv": stats.scv, "scv_error": stats.scv_error, "skewness": stats.skewness,
        "rho": {str(lag): float(stats.acf[lag - 1]) for lag in (1, 2, 5, 10, 100, 1000) if lag <= stats.acf.size},
        "idc": stats.idc.tolist(), "idc_seconds": stats.idc_widths.tolist(),
        "coarse_step_seconds": stats.coarse_step, "notes": [*notes, *stats.notes],
    }  # fmt: skip


def _of_counts(file: Path, reading: Reading, progress: Progress | None) -> dict[str, Any]:
    series = load_trace(file, **asdict(reading), progress=progress)
    if not isinstance(series, CountSeries):
        raise AssertionError("counts are a CountSeries")
    facts: dict[str, Any] = {
        "arrivals": series.total,
        "span_seconds": series.duration_seconds,
        "rate": series.total / series.duration_seconds,
        "periods": len(series.counts),
        "period_seconds": series.period_seconds,
        "largest_count": int(series.counts.max()),
        "empty_share": float((series.counts == 0).mean()),
    }
    try:
        stats = describe_counts(series.counts, series.period_seconds)
    except NotReadyError as fault:
        unknown: dict[str, Any] = dict.fromkeys(("rho", "idc", "idc_seconds"))
        summary = str(words_of_counts(series.counts, series.period_seconds))
        return facts | unknown | {"notes": [*series.notes, str(fault)], "summary": summary}
    burstiness = float(stats.idc[-1]) if stats.idc.size else None
    return facts | {
        "summary": str(words_of_counts(series.counts, series.period_seconds, burstiness)),
        "rho": {str(lag): float(stats.acf[lag - 1]) for lag in (1, 2, 5, 10, 100) if lag <= stats.acf.size},
        "idc": stats.idc.tolist(),
        "idc_seconds": (stats.idc_intervals * series.period_seconds).tolist(),
        "notes": list(series.notes),
    }


def facts_table(facts: dict[str, Any]) -> Table:
    """Return the facts as a table for people."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _lines(facts):
        table.add_row(name, Text(value))
    for name in _explained(facts):
        table.add_row(name, Text(LEGEND[name]), style="dim")
    return table


def _explained(facts: dict[str, Any]) -> list[str]:
    """The statistics in the table that need a word."""
    there = {"SCV": facts.get("scv"), "IDC": facts["idc"], "rho": facts["rho"]}
    return [name for name in LEGEND if there[name] is not None]


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    lines = [
        ("file", f"{facts['file']} ({facts['format']}, {facts['kind']}, unit {facts['unit']})"),
        ("arrivals", f"{facts['arrivals']}"),
        ("span", format_seconds(facts["span_seconds"])),
        ("rate", "-" if facts["rate"] is None else f"{facts['rate']:.6g} per second"),
    ]
    if "periods" in facts:
        lines += [
            ("periods", f"{facts['periods']} of {facts['period_seconds']:g} s, {facts['empty_share']:.2%} empty"),
            ("largest count", f"{facts['largest_count']}"),
        ]
    else:
        lines += [
            ("largest gap", format_seconds(facts["largest_gap_seconds"])),
            ("shared time stamps", f"{facts['ties']} ({facts['tie_share']:.2%})"),
        ]
        if facts["coarse_step_seconds"] is not None:
            lines.append(("clock's step", format_seconds(facts["coarse_step_seconds"])))
        if facts["scv"] is not None:
            lines.append(("SCV", f"{facts['scv']:.4g} \u00b1 {2 * facts['scv_error']:.2g}"))
            lines.append(("skewness", "-" if facts["skewness"] is None else f"{facts['skewness']:.4g}"))
    if facts["rho"]:
        lines.append(("autocorrelation (rho)", ", ".join(f"lag {k}: {v:.3f}" for k, v in facts["rho"].items())))
    if facts["idc"]:
        places = sorted({0, len(facts["idc"]) // 2, len(facts["idc"]) - 1})
        shown = (f"{facts['idc'][i]:.4g} over {format_seconds(facts['idc_seconds'][i])}" for i in places)
        lines.append(("IDC (1: Poisson)", ", ".join(shown)))
    return lines
