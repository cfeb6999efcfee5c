# SPDX-License-Identifier: Apache-2.0
"""Measured throughput as a picture: every sample, the mean and the spread of each size, and the ideal line."""

from __future__ import annotations

import io
from collections.abc import Sequence

from penstock.evaluation.pictures import BLUE, INK, MUTED, ORANGE, RED, STYLE
from penstock.measuring.sample import Sample
from penstock.measuring.summary import SizeSummary
from penstock.units import format_count


def throughput_picture(app: str, sizes: Sequence[SizeSummary], samples: Sequence[Sample]) -> bytes:
    """Draw throughput over executors; dashed: as many times the smallest size; a cross: a sample with a mark."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.ticker import FuncFormatter

    counts = [size.executors for size in sizes]
    first = sizes[0]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 4.2), layout=ConstrainedLayoutEngine())
        axes = figure.subplots()
        ideal = [first.throughput * n / first.executors for n in counts]
        axes.plot(counts, ideal, "--", color=MUTED, label="ideal: in proportion to the smallest size")
        axes.plot(counts, [size.throughput for size in sizes], "-", color=BLUE, label="mean")
        axes.vlines(counts, [s.least for s in sizes], [s.most for s in sizes], color=BLUE, linewidth=3, alpha=0.3,
                    label="least to most")  # fmt: skip
        for is_marked, colour, marker, label in ((False, INK, "o", "sample"), (True, RED, "x", "sample with a mark")):
            of_kind = [sample for sample in samples if bool(sample.marks) == is_marked]
            if of_kind:
                axes.scatter(
                    [sample.executors for sample in of_kind], [sample.throughput.mean for sample in of_kind],
                    s=18, color=colour, marker=marker, zorder=3, label=label,
                )  # fmt: skip
        axes.set_xticks(counts)
        axes.set_xlabel("executors")
        axes.set_ylabel("records per second")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_count(value)))
        limits = [(size.executors, size.source_limit) for size in sizes if size.source_limit is not None]
        top = 1.3 * max(*(size.most for size in sizes), *ideal)
        title = app
        if limits and min(limit for _, limit in limits) < top:
            axes.plot(*zip(*limits, strict=True), ":", color=ORANGE, label="source alone")
        elif limits:  # its line would press everything else to the ground
            title += f"\nthe source alone: {format_count(min(limit for _, limit in limits))} records/s or more"
        axes.set_title(title)
        axes.set_ylim(0, top)
        figure.legend(loc="outside lower center", ncols=3)
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=130, facecolor="white")
        return file.getvalue()
