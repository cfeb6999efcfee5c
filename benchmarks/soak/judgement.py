# SPDX-License-Identifier: Apache-2.0
"""The judgement of a whole soak run: which series are judged, what each may grow, and a picture of all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.soak.sampling import DESCRIPTORS, DISK, GROUPS, LIVE, MEMORY, PROCESSES, THREADS
from benchmarks.soak.verdict import Finding, Verdict, judge

Series = tuple[Sequence[float], Sequence[float]]
LEAST_GROWTH: Mapping[str, float] = {
    MEMORY: 8.0, LIVE: 8.0, DESCRIPTORS: 4.0, THREADS: 4.0, PROCESSES: 1.0, DISK: 8.0, GROUPS: 1.0,
}  # fmt: skip
"""What each quantity may grow in any case, in its own unit."""
NOT_JUDGED: Mapping[tuple[str, str], str] = {
    ("store", DISK): "keeps every observation and decision, up to 100,000 of each kind",
    ("logs", DISK): "grow to 20 MiB each, and three older ones",
    ("topics", DISK): "grow until `broker.retention` (a day)",
    ("output", DISK): "is the result of the pipeline",
    ("executor folders", DISK): "are kept of the newest 20 executors of each application",
}
"""What grows by design until its bound, and why."""
_TITLES = {MEMORY: "PSS in MiB", LIVE: "live heap in MiB", DISK: "disk in MiB"}
OFTEN_SHARE = 0.5
"""A role that is there in fewer of the looks comes and goes; its number is judged, as zero where it is not there."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One series and what was found."""

    subject: str
    quantity: str
    verdict: Verdict | None
    why_not: str = ""
    """Why it is not judged."""

    @property
    def is_bad(self) -> bool:
        """Whether the run is not flat because of it."""
        return self.verdict is not None and not self.verdict.is_flat

    def line(self) -> str:
        """One line for a person."""
        found = self.verdict if self.verdict is not None else f"not judged: {self.why_not}"
        return f"{self.subject:<16} {self.quantity:<12} {found}"


def judge_all(
    series: Mapping[tuple[str, str], Series],
    *,
    warm_up_seconds: float,
    block_seconds: float,
    expected: Mapping[tuple[str, str], float] | None = None,
) -> list[Judged]:
    """Judge every series of a run that is not to grow. What one is `expected` to grow is allowed on top."""
    looks = sorted({second for times, _ in series.values() for second in times})
    late: dict[str, set[float]] = {}
    """The looks after the warm-up in which a quantity was measured: live heaps are not at every look."""
    for (_, quantity), (times, _) in series.items():
        late.setdefault(quantity, set()).update(second for second in times if second >= warm_up_seconds)
    judged = []
    for (subject, quantity), (times, values) in sorted(series.items()):
        why = NOT_JUDGED.get((subject, quantity), "")
        there = sum(second >= warm_up_seconds for second in times)
        if not why and quantity != PROCESSES and there < OFTEN_SHARE * len(late[quantity]):
            why = f"there in {there} of {len(late[quantity])} looks"
        if why:
            judged.append(Judged(subject, quantity, None, why))
            continue
        counts = dict(zip(times, values, strict=True))
        seconds = looks if quantity == PROCESSES else times
        verdict = judge(
            seconds,
            [counts.get(second, 0.0) for second in seconds],
            warm_up_seconds=warm_up_seconds,
            block_seconds=block_seconds,
            least_growth=LEAST_GROWTH[quantity],
            expected_growth=(expected or {}).get((subject, quantity), 0.0),
        )
        judged.append(Judged(subject, quantity, verdict))
    return judged


def draw(
    series: Mapping[tuple[str, str], Series], judged: Sequence[Judged], path: Path, warm_up_seconds: float
) -> None:
    """Draw every series, those that are not flat in red, to a PNG file."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from penstock.evaluation.pictures import BLUE, MUTED, ORANGE, RED, STYLE

    colours = {Finding.FLAT: BLUE, Finding.GROWS: RED, Finding.UNCLEAR: ORANGE, Finding.TOO_SHORT: ORANGE}
    columns = 4
    rows = math.ceil(len(judged) / columns)
    with mpl.rc_context({**STYLE, "font.size": 7, "axes.titlesize": 7.5}):
        figure = Figure(figsize=(13.0, 1.7 * rows + 0.4), layout=ConstrainedLayoutEngine(h_pad=0.05, w_pad=0.05))
        places = figure.subplots(rows, columns, squeeze=False).flatten()
        for axes, one in zip(places, judged, strict=False):
            times, values = series[one.subject, one.quantity]
            colour = MUTED if one.verdict is None else colours[one.verdict.finding]
            axes.plot([second / 3600.0 for second in times], values, color=colour, lw=0.8)
            axes.axvspan(0.0, warm_up_seconds / 3600.0, color=MUTED, alpha=0.12, lw=0)
            axes.set_ylim(0.0, 1.15 * max(*values, 1.0))
            found = "not judged" if one.verdict is None else one.verdict.finding.value
            axes.set_title(f"{one.subject}: {_TITLES.get(one.quantity, one.quantity)} ({found})", loc="left")
        for axes in places[len(judged) :]:
            axes.set_visible(False)
        for axes in places[max(0, len(judged) - columns) : len(judged)]:
            axes.set_xlabel("hours since the start")
        figure.savefig(path, format="png", dpi=110, facecolor="white")
