# SPDX-License-Identifier: Apache-2.0
"""Pictures of throughput over size: samples with a fitted curve, and the experiments on throughput."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.evaluation.capacity_plan import CapacityFit, SizeAnswer, ThroughputTable
from penstock.evaluation.pictures import BLUE, GREEN, INK, MUTED, ORANGE, PURPLE, RED, STYLE
from penstock.evaluation.throughput_experiment import published_throughput
from penstock.records import Allocation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from penstock.evaluation.reproduce_subsets import SubsetRow
    from penstock.evaluation.reproduce_throughput import ErrorsFound, WeightsFound
    from penstock.evaluation.trained_applications import TrainedApplication

_OTHERS = ((GREEN, "-"), (ORANGE, "-"), (PURPLE, "-"), (MUTED, "-"), (GREEN, "--"), (ORANGE, "--"), (PURPLE, "--"))
"""Lines of the models that were not chosen: no two alike, and none like the chosen one or validation samples."""


@contextmanager
def _figure(width: float, height: float) -> Iterator[Figure]:
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with mpl.rc_context(STYLE):
        yield Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(h_pad=0.06, w_pad=0.06))


def _png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=130, facecolor="white")
    return file.getvalue()


def capacity_picture(fit: CapacityFit, title: str, answer: SizeAnswer | None = None) -> bytes:
    """Draw samples, the chosen model with its interval, the other models, and the answer to a rate."""
    with _figure(8.6, 4.8) as figure:
        axes = figure.subplots()
        sizes = np.array([point["executors"] for point in fit.curve()])
        measured = max(
            (s.records_per_second for s in (*fit.samples, *fit.validation) if s.allocation.cpu_share == fit.cpu_share),
            default=0.0,
        )
        highest = max(measured, float(fit.table.expected.max()))
        for number, score in enumerate(score for score in fit.selection.scores if score.name != fit.selection.chosen):
            table = _other(fit, score.name, sizes)
            highest = max(highest, *table)
            colour, style = _OTHERS[number % len(_OTHERS)]
            axes.plot(sizes, table, color=colour, ls=style, lw=0.9, alpha=0.75, label=score.name)
        table = fit.table
        axes.fill_between(sizes, table.low[sizes - 1], table.high[sizes - 1], color=BLUE, alpha=0.15, lw=0,
                          label=f"{fit.coverage:.0%} of measurements")  # fmt: skip
        axes.plot(sizes, table.expected[sizes - 1], color=BLUE, lw=2.0, label=f"{fit.selection.chosen} (chosen)")
        # The curves are for one CPU share: samples of another are no evidence for or against them at their size.
        shares = sorted({sample.allocation.cpu_share for sample in (*fit.samples, *fit.validation)})
        for what, samples, colour in (("samples", fit.samples, INK), ("validation samples", fit.validation, RED)):
            own = [sample for sample in samples if sample.allocation.cpu_share == fit.cpu_share]
            if own:
                _dots(axes, own, colour, what)
        if shares != [fit.cpu_share]:
            axes.set_title(f"at a CPU share of {fit.cpu_share:g}; samples of others are not shown", loc="right",
                           fontsize=8.5, color=MUTED)  # fmt: skip
        # Far from the samples the upper end of the interval would press everything else to the bottom.
        highest = min(max(float(table.high.max()), measured), 1.3 * highest)
        if answer is not None:
            axes.axhline(answer.rate, color=INK, ls="--", lw=0.9)
            axes.axvline(answer.executors, color=INK, ls="--", lw=0.9)
            enough = "enough" if answer.is_enough else "not enough"
            executors = "1 executor" if answer.executors == 1 else f"{answer.executors} executors"
            text = f"{executors} for {answer.rate:g}: {enough}"
            axes.annotate(text, (answer.executors, answer.rate),
                          xytext=(6, -14), textcoords="offset points", fontsize=8.5, color=INK)  # fmt: skip
            highest = max(highest, 1.1 * answer.rate)
        axes.set_ylim(0.0, 1.05 * highest)
        axes.set_xlim(0.0, fit.most * 1.02)
        axes.set_xlabel("executors")
        axes.set_title("sustainable throughput", loc="left")
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
        figure.suptitle(title, x=0.01, ha="left", fontsize=10, parse_math=False, wrap=True)
        return _png(figure)


def _other(fit: CapacityFit, name: str, sizes: Any) -> Any:
    from penstock.performance.throughput import model_named

    model = model_named(name).fit([*fit.samples, *fit.validation])
    return [model.predict(Allocation(int(size), fit.cpu_share)).records_per_second for size in sizes]


def _dots(axes: Axes, samples: Sequence[Any], colour: str, label: str) -> None:
    axes.plot(
        [sample.allocation.executors for sample in samples], [sample.records_per_second for sample in samples],
        ".", color=colour, alpha=0.6, markersize=5, label=label,
    )  # fmt: skip


def subsets_picture(rows: Sequence[SubsetRow]) -> bytes:
    """Draw the error of the best set over the largest size, the paper's beside."""
    with _figure(8.2, 4.0) as figure:
        errors, sets = figure.subplots(1, 2, width_ratios=[1.0, 1.1])
        at = np.arange(len(rows))
        labels = [str(row.published.largest) for row in rows]
        errors.plot(at, [row.published.rmse for row in rows], "o--", color=INK, markerfacecolor="none",
                    label="published, on the paper's samples")  # fmt: skip
        errors.plot(at, [np.mean(row.published_errors) for row in rows], "s-", color=ORANGE,
                    label="published sets on our samples")  # fmt: skip
        errors.plot(at, [np.mean(row.errors) for row in rows], "o-", color=BLUE, label="best sets on our samples")
        errors.set_ylim(0.0)
        errors.set_title("RMSE, in parts of the largest throughput", loc="left")
        errors.legend()
        for place, row in zip(at, rows, strict=True):
            sets.plot([place - 0.12] * len(row.published.sizes), row.published.sizes, "o", color=INK,
                      markerfacecolor="none", label="published" if place == 0 else None)  # fmt: skip
            sets.plot([place + 0.12] * len(row.best.sizes), row.best.sizes, "o", color=BLUE,
                      label="ours, first seed" if place == 0 else None)  # fmt: skip
        sets.set_yscale("log", base=2)
        sets.yaxis.set_major_formatter("{x:g}")
        sets.set_title("sizes of the best set", loc="left")
        sets.legend(loc="upper left")
        for axes in (errors, sets):
            axes.set_xticks(at, labels)
            axes.set_xlabel("largest size that may be measured")
        return _png(figure)


def weights_picture(found: Sequence[WeightsFound]) -> bytes:
    """Draw each published curve, and the curves of the refitted weights of all seeds."""
    names = list(dict.fromkeys(one.application for one in found))
    most = 128
    with _figure(10.0, 5.6) as figure:
        panels = figure.subplots(2, 3).ravel()
        for axes, name in zip(panels, names, strict=False):
            for one in (one for one in found if one.application == name):
                colour = BLUE if one.model == 1 else ORANGE
                for weights in one.found:
                    axes.plot(np.arange(1, most + 1), published_throughput(weights, most), color=colour, lw=0.6,
                              alpha=0.5)  # fmt: skip
                axes.plot(np.arange(1, most + 1), published_throughput(one.published, most), color=colour, lw=1.8,
                          ls="-" if one.model == 1 else "--", label=f"model {one.model}, published")  # fmt: skip
            axes.axvspan(3, 24, color=MUTED, alpha=0.08, lw=0)
            axes.set_ylim(0.0)
            axes.set_title(name, loc="left")
        for axes in panels[3:]:
            axes.set_xlabel("machines")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
        figure.suptitle("Mbytes/s; thin: refitted, one line a seed; shaded: where samples are", fontsize=9)
        return _png(figure)


def curves_picture(found: Sequence[TrainedApplication], most: int) -> bytes:
    """Draw the truth, the samples and both models with intervals, a panel for each application (Fig. 9)."""
    with _figure(10.5, 6.4) as figure:
        panels = figure.subplots(2, 3).ravel()
        machines = np.arange(1, most + 1)
        for axes, one in zip(panels, found, strict=False):
            for number, model in enumerate(one.models, start=1):
                colour, style = ((BLUE, "-"), (ORANGE, "--"))[number - 1]
                table = ThroughputTable.of(model, most)
                axes.plot(machines, table.expected, color=colour, ls=style, label=f"model {number}")
                if number == one.selected:
                    axes.fill_between(machines, table.low, table.high, color=colour, alpha=0.13, lw=0,
                                      label="interval of the selected model")  # fmt: skip
            axes.plot(machines, one.truth, color=INK, lw=1.0, label="truth")
            _dots(axes, one.samples, INK, "samples")
            _dots(axes, one.validation, RED, "validation samples")
            axes.set_ylim(0.0, 1.6 * one.truth.max())
            axes.set_title(
                f"{one.application.name}: model {one.selected} (paper: {one.application.selected})", loc="left"
            )
        for axes in panels[3:]:
            axes.set_xlabel("machines")
        handles: dict[str, Any] = {}
        for axes in panels:
            handles |= {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=6)
        figure.suptitle("Mbytes/s over machines", fontsize=9)
        return _png(figure)


def errors_picture(found: Sequence[ErrorsFound]) -> bytes:
    """Draw the errors of each application (Fig. 11)."""
    with _figure(8.6, 3.8) as figure:
        axes = figure.subplots()
        at = np.arange(len(found))
        for place, (name, colour, text) in enumerate(
            (
                ("mean_value", MUTED, "mean of the samples"),
                ("model", BLUE, "selected model"),
                ("everywhere", ORANGE, "selected model, all sizes to 128"),
                ("ours", GREEN, "ensemble, all sizes to 128"),
            )
        ):
            values = [getattr(one, name) for one in found]
            axes.bar(at + 0.2 * (place - 1.5), [np.mean(value) for value in values], 0.19, color=colour, label=text)
            for i, value in enumerate(values):
                axes.plot([at[i] + 0.2 * (place - 1.5)] * len(value), value, "_", color=INK, alpha=0.35, markersize=5)
        axes.axhline(15.8, color=BLUE, ls="--", lw=0.9, label="paper: selected model, at most")
        axes.axhline(6.9, color=MUTED, ls="--", lw=0.9, label="paper: mean of the samples, at most")
        axes.set_xticks(at, [one.application for one in found])
        axes.set_title("mean absolute percentage error; marks: single seeds", loc="left")
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
        return _png(figure)
