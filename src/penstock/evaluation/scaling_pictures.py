# SPDX-License-Identifier: Apache-2.0
"""Scaling as pictures: throughput, speed-up and efficiency over the size; load, CPU and size over time."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.evaluation.pictures import BLUE, INK, MUTED, ORANGE, RED, STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from penstock.evaluation.reproduce_dynamic import Moment

_LINEAR_UP_TO = 100
"""Rows, and rows per second: above, the axis is logarithmic."""


def static_picture(rows: Sequence[dict[str, Any]]) -> bytes:
    """Draw throughput, speed-up and efficiency over n: ours filled, the paper's hollow, dashed if it were linear."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    sizes = [row["executors"] for row in rows]
    theirs = [row for row in rows if row["published"] is not None]
    linear = [size / sizes[0] for size in sizes]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.6, 3.4), layout=ConstrainedLayoutEngine())
        rate, speed_up, efficiency = figure.subplots(1, 3)
        for row in rows:
            rate.plot([row["executors"]] * 2, [row["median"], row["p95"]], color=BLUE, linewidth=1)
        rate.plot(sizes, [row["median"] for row in rows], "o-", color=BLUE, label="ours, median to p95")
        rate.set_ylabel("rows per second")
        rate.set_ylim(bottom=0)
        rate.set_title("throughput", fontsize=9)
        speed_up.plot(sizes, linear, "--", color=MUTED, label="linear")
        efficiency.plot(sizes, [1.0] * len(sizes), "--", color=MUTED, label="linear")
        for axes, name in ((speed_up, "speed_up"), (efficiency, "efficiency")):
            axes.plot(sizes, [row[name] for row in rows], "o-", color=BLUE, label="ours")
            axes.plot(
                [row["executors"] for row in theirs], [row["published"][name] for row in theirs],
                "o-", color=ORANGE, markerfacecolor="none", label="the paper's",
            )  # fmt: skip
            axes.set_title(name.replace("_", "-"), fontsize=9)
            axes.set_ylim(bottom=0)
        for axes in (rate, speed_up, efficiency):
            axes.set_xlabel("executors")
            axes.set_xticks(sizes)
            axes.legend(fontsize=8)
        return _png(figure)


def dynamic_picture(seen: Sequence[Moment], decided: Sequence[float]) -> bytes:
    """Draw the load, the CPU and the number of executors over time; dotted where a change was decided."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    at = [moment.seconds for moment in seen]

    def line(name: str) -> list[float]:
        return [float("nan") if getattr(m, name) is None else getattr(m, name) for m in seen]

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 7.6), layout=ConstrainedLayoutEngine())
        load, queue, cpu, size = figure.subplots(4, 1, sharex=True)
        load.plot(at, line("arrivals_per_second"), color=INK, label="arrive")
        load.plot(at, line("done_per_second"), color=BLUE, label="done")
        load.set_ylabel("rows per second")
        load.legend(fontsize=8)
        queue.plot(at, line("waiting"), color=INK)
        queue.set_ylabel("rows waiting")
        for axes in (load, queue):
            # A trace may begin with everything that is there already: a hundred times of what comes later.
            axes.set_yscale("symlog", linthresh=_LINEAR_UP_TO)
            axes.set_ylim(bottom=0)
        cpu.plot(at, [100 * value for value in line("utilisation")], color=RED)
        cpu.set_ylabel("CPU used (%)")
        cpu.set_ylim(bottom=0)
        size.step(at, line("executors"), where="post", color=ORANGE)
        size.set_ylabel("executors")
        size.set_ylim(bottom=0)
        size.set_xlabel("seconds (dotted: a change is decided)")
        for axes in (cpu, size):
            for instant in decided:
                axes.axvline(instant, color=MUTED, linestyle=":", linewidth=1)
        return _png(figure)


def _png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=130, facecolor="white")
    return file.getvalue()
