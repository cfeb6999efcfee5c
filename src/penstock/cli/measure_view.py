# SPDX-License-Identifier: Apache-2.0
"""A measurement as it goes by: a bar with the time left, a line for each sample, and a table at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock.cli.progress import Steps
from penstock.units import format_seconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from penstock.measuring.plan import MeasurePlan
    from penstock.measuring.sample import Sample
    from penstock.measuring.summary import SizeSummary


class TimeLeft:
    """Guesses how long the rest takes: as a turn was guessed to take, then as the turns took that were seen.

    Parameters
    ----------
    turns, seconds_of_a_turn
        All turns, and about how long one takes.
    now
        Gives the time in seconds.
    """

    def __init__(self, turns: int, seconds_of_a_turn: float, now: Callable[[], float] = time.monotonic) -> None:
        self._turns, self._guess, self._now = turns, seconds_of_a_turn, now
        self._began = now()
        self._first: float | None = None

    def seconds(self, done: float) -> float:
        """The seconds left when this much is done, from 0 to 1."""
        if self._first is None:
            self._first = done  # what an earlier call of a resumed measurement has done
        turns_seen = round((done - self._first) * self._turns, 6)
        if turns_seen < 1:
            return self._guess * max(0.0, (1.0 - done) * self._turns)
        return (self._now() - self._began) / turns_seen * (1.0 - done) * self._turns


class MeasureView:
    """Shows a measurement: what is being done, and each sample (a `MeasureListener`)."""

    def __init__(self, plan: MeasurePlan, console: Console, steps: Steps | None) -> None:
        self._console, self._steps = console, steps
        self._left = TimeLeft(len(plan.turns()), plan.seconds_of_a_turn())

    def phase(self, text: str, done: float) -> None:
        """Move the bar."""
        if self._steps is not None:
            self._steps(f"{text}, about {format_seconds(self._left.seconds(done))} left", done)

    def sample(self, sample: Sample) -> None:
        """Print one line."""
        what = "source alone" if sample.is_source else f"sample {sample.repeat}"
        marks = f"  {', '.join(sample.marks)}" if sample.marks else ""
        why = f" ({sample.disturbed_by})" if sample.disturbed_by else ""
        self._console.print(
            f"{sample.executors:>3} x  {what}: {sample.throughput.mean:,.0f} records/s{_megabytes(sample)}, batches of "
            f"{format_seconds(sample.batch_seconds)}{marks}{why}",
            markup=False,
        )


def _megabytes(sample: Sample) -> str:
    return "" if sample.bytes_per_second is None else f", {sample.bytes_per_second / 1e6:.2f} MB/s"


def summary_table(sizes: Sequence[SizeSummary]) -> Table:
    """The sizes as a table for the terminal."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    headings = ("executors", "records/s", "least", "most", "spread", "MB/s", "speed-up", "efficiency", "CPU used")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for size in sizes:
        table.add_row(
            str(size.executors), f"{size.throughput:,.0f}", f"{size.least:,.0f}", f"{size.most:,.0f}",
            _percent(size.spread), "-" if size.bytes_per_second is None else f"{size.bytes_per_second / 1e6:.2f}",
            f"{size.speed_up:.2f}", f"{size.efficiency:.2f}", _percent(size.utilisation),
        )  # fmt: skip
    return table


def mark_lines(sizes: Sequence[SizeSummary]) -> list[str]:
    """What is to be said of the samples of each size, and what each mark means."""
    from penstock.measuring.sample import Mark

    lines = [f"{size.executors} x: {', '.join(size.marks)}" for size in sizes if size.marks]
    said = {mark for mark in Mark if any(mark in text for size in sizes for text in size.marks)}
    return [*lines, *(f"{mark}: {MEANINGS[mark]}" for mark in Mark if mark in said)]


MEANINGS = {
    "not converged": "the throughput still changed when the time for that was over; give --converge more",
    "disturbed": "others used the machine; measure again when it is calm",
    "source-bound": "the source alone is hardly faster, so its throughput was measured",
    "CPU left": "executors did not use the CPU they were allowed: the driver, the source, short batches or the host "
    "bound them",
}
"""By mark."""


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}".replace("%", " %")
